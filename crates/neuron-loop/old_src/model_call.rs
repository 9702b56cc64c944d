//! Calling the model: how its answer is obtained, and who hears of it.

use std::pin::pin;
use std::time::Duration;

use futures_util::future::{Either, select};
use neuron_types::{
    CompletionResponse, ContextStrategy, DurableContext, HookEvent, LoopError, Message,
    OperationKind, Outcome, Progress, Provider, ProviderError, ResponseEnd, StreamEvent,
    TokenUsage, ToolContext,
};

use crate::AgentLoop;
use crate::cancel::{self, or_cancelled};
use crate::early_tools::EarlyTools;
use crate::limits;
use crate::sink::{Deltas, Sink};
use crate::wait::wait;

/// The longest wait that a provider may ask for before another attempt.
const MAX_WAIT: Duration = Duration::from_secs(60);

impl<P: Provider, C: ContextStrategy, D: DurableContext> AgentLoop<P, C, D> {
    /// Makes one call: one request for the limits, and one `PreLlmCall` for the hooks, which has its
    /// end here unless the call is answered.
    pub(crate) async fn attempt<S: Sink>(
        &mut self,
        ctx: &ToolContext,
        sink: &S,
        broken: &mut Broken,
    ) -> Result<CompletionResponse, LoopError> {
        let asked = self.ask_before_call().await.and_then(|()| cancel::check(ctx));
        let answered = match asked {
            Ok(()) => {
                self.run.requests = self.run.requests.saturating_add(1);
                self.ask_in_scope(ctx, sink, broken).await
            }
            Err(error) => Err(error),
        };
        let checked = match answered {
            Ok(response) => {
                self.run.turns = self.run.turns.saturating_add(1);
                self.reminders.turns = self.reminders.turns.saturating_add(1);
                self.count_usage(&response);
                check_answer(&response.message).map(|()| response)
            }
            Err(error) => {
                self.add_usage(&broken.usage);
                Err(error)
            }
        };
        match &checked {
            // Until the batch takes them over.
            Ok(_) => self.run.early = std::mem::take(&mut broken.early),
            Err(error) => {
                self.give_up(std::mem::take(&mut broken.early), Some(error)).await;
                self.hooks().tell(HookEvent::LlmError { error }).await;
            }
        }
        checked
    }

    /// Gets ready for another attempt: what was told of the one before counts no more.
    ///
    /// # Errors
    ///
    /// What forbids another call; the error itself if the provider asks for too long a wait, or if that
    /// was the last call of a soft landing.
    pub(crate) async fn reset<S: Sink>(
        &mut self,
        error: LoopError,
        attempt: usize,
        ctx: &ToolContext,
        sink: &S,
    ) -> Result<(), LoopError> {
        let pause = match &error {
            LoopError::Provider(error) => error.retry_after().unwrap_or_default(),
            _ => Duration::ZERO,
        };
        if pause > MAX_WAIT {
            return Err(error);
        }
        cancel::check(ctx)?;
        if let Err(limit) = limits::before_call(&self.config, &self.run) {
            // The turn was announced: should the run land softly, that is not done again.
            self.run.turn_open = true;
            if self.run.limit.is_some() {
                // It was to be the last call, and failed.
                return Err(error);
            }
            if self.limit_to_land_on(&limit).is_some() {
                sink.emit(StreamEvent::Reset { attempt, error: error.into() }).await;
            }
            return Err(limit);
        }
        tracing::debug!(parent: None, %error, attempt, "the model's stream broke; the call is made again");
        sink.emit(StreamEvent::Reset { attempt, error: error.into() }).await;
        or_cancelled(ctx, async {
            wait(pause).await;
            Ok(())
        })
        .await
    }

    async fn ask_in_scope<S: Sink>(
        &self,
        ctx: &ToolContext,
        sink: &S,
        broken: &mut Broken,
    ) -> Result<CompletionResponse, LoopError> {
        let request = self.request.view();
        let kind = OperationKind::ModelCall { request: &request, streaming: S::DELTAS };
        let mut scopes = self.hooks().open(kind);
        let answered = scopes.run(self.ask(ctx, sink, broken)).await;
        scopes.end(match &answered {
            Ok(response) => Outcome::Response(response),
            Err(error) => Outcome::Error(error),
        });
        answered
    }

    /// Obtains the answer: from the durable engine or the provider, whole or as a stream.
    async fn ask<S: Sink>(
        &self,
        ctx: &ToolContext,
        sink: &S,
        broken: &mut Broken,
    ) -> Result<CompletionResponse, LoopError> {
        let (request, options) = (&self.request, || self.config.llm_activity.clone());
        let response = match &self.durability {
            None if S::DELTAS => return self.ask_for_stream(ctx, sink, broken).await,
            None => {
                or_cancelled(ctx, async { Ok(self.provider.complete_ref(request.view()).await?) })
                    .await?
            }
            Some(durability) if S::DELTAS => {
                return self.ask_engine_for_stream(durability, ctx, sink, broken).await;
            }
            Some(durability) => {
                let call = durability.execute_llm_call_ref(request.view(), options());
                or_cancelled(ctx, async { Ok(call.await?) }).await?
            }
        };
        // Paid for, whatever the hooks say.
        broken.usage.clone_from(&response.usage);
        self.hooks().ask(HookEvent::FirstChunk).await?;
        Ok(response)
    }

    /// Has the durable engine stream the answer. Hooks hear of its first delta before the reader does; of a
    /// journaled answer, which has none, once it is there.
    ///
    /// A hook that ends the call silences the rest of the answer. The engine gets to its end nevertheless, so
    /// that the journal has it and a replay, which asks the hooks later, comes to the same.
    async fn ask_engine_for_stream<S: Sink>(
        &self,
        durability: &D,
        ctx: &ToolContext,
        sink: &S,
        broken: &mut Broken,
    ) -> Result<CompletionResponse, LoopError> {
        let deltas = Deltas::new(sink);
        let options = self.config.llm_activity.clone();
        let mut call = pin!(durability.execute_llm_stream(self.request.view(), options, &deltas));
        let begun = or_cancelled(ctx, async {
            match select(call.as_mut(), pin!(deltas.first())).await {
                Either::Left((answered, _)) => Ok(Some(answered?)),
                Either::Right(((), _)) => Ok(None),
            }
        });
        let (response, told) = match begun.await? {
            Some(response) => (response, None),
            None => {
                // Outside of what a cancellation ends, as in a stream without an engine.
                let told = self.hooks().ask(HookEvent::FirstChunk).await;
                match &told {
                    Ok(_) => deltas.go_on(),
                    Err(_) => deltas.mute(),
                }
                (or_cancelled(ctx, async { Ok(call.await?) }).await?, Some(told))
            }
        };
        // Paid for, whatever the hooks say.
        broken.usage.clone_from(&response.usage);
        match told {
            Some(told) => told?,
            None => self.hooks().ask(HookEvent::FirstChunk).await?,
        };
        Ok(response)
    }

    async fn ask_for_stream<S: Sink>(
        &self,
        ctx: &ToolContext,
        sink: &S,
        broken: &mut Broken,
    ) -> Result<CompletionResponse, LoopError> {
        let open = async { Ok(self.provider.complete_stream_ref(self.request.view()).await) };
        let opened = or_cancelled(ctx, open).await?;
        let mut events = opened.map_err(|error| broken.by(error))?.receiver;
        let mut end = ResponseEnd::default();
        let mut first = true;
        loop {
            // Hooks and the reader are waited for outside of this: a cancellation ends what the
            // provider does, and not them.
            let next = broken.early.beside(events.recv());
            let Some(event) = or_cancelled(ctx, async { Ok(next.await) }).await? else {
                return end.finish().map_err(|error| broken.by(error));
            };
            if let StreamEvent::Usage(usage) = &event {
                broken.usage.clone_from(usage);
            }
            let is_final = matches!(&event, StreamEvent::Error(error) if error.is_final());
            let progress = end.take(event).map_err(|error| broken.by(error));
            broken.may_pass &= !is_final;
            let progress = progress?;
            if std::mem::take(&mut first) {
                self.hooks().ask(HookEvent::FirstChunk).await?;
            }
            match progress {
                Progress::Done(response) => return Ok(*response),
                Progress::Event(Some(delta)) => {
                    let call = self.config.early_tools.then(|| delta.clone());
                    sink.emit(delta).await;
                    self.start_early(call.as_ref(), &mut broken.early, ctx).await?;
                }
                _ => {}
            }
        }
    }
}

/// What is known of a call whose stream broke.
#[derive(Debug, Default)]
pub(crate) struct Broken {
    /// The tokens that it took, as far as the provider told.
    usage: TokenUsage,
    /// Whether the same call may succeed.
    pub(crate) may_pass: bool,
    /// The calls that were started before the answer was whole.
    pub(crate) early: EarlyTools,
}

impl Broken {
    /// Notes the provider's error that broke the stream. A connection that is lost within an answer
    /// is no error that others should retry, because what was shown stays; here it is taken back.
    fn by(&mut self, error: ProviderError) -> LoopError {
        self.may_pass = error.is_retryable() || matches!(error, ProviderError::StreamError(_));
        error.into()
    }
}

/// Rejects an answer with which no history would be valid: its calls cannot be told apart, or it
/// answers calls itself.
fn check_answer(message: &Message) -> Result<(), LoopError> {
    if message.content.iter().any(|block| block.as_tool_result_id().is_some()) {
        return Err(malformed("it holds a tool result".into()));
    }
    let mut ids: Vec<&str> = Vec::new();
    for call in message.tool_uses() {
        if call.id.is_empty() {
            return Err(malformed(format!("a call of the tool `{}` has no id", call.name)));
        }
        ids.push(call.id);
    }
    ids.sort_unstable();
    match ids.windows(2).find(|pair| pair.first() == pair.last()) {
        Some([id, ..]) => Err(malformed(format!("two tool calls have the id `{id}`"))),
        _ => Ok(()),
    }
}

fn malformed(fault: String) -> LoopError {
    let text = format!("the model's answer is malformed: {fault}; no tool was run");
    ProviderError::Other(text.into()).into()
}
