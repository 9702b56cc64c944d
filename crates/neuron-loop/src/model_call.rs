//! Calling the model: how its answer is obtained, and who hears of it.

use neuron_types::{
    CompletionResponse, ContextStrategy, DurableContext, HookEvent, LoopError, Message,
    OperationKind, Outcome, Progress, Provider, ProviderError, ResponseEnd, StreamEvent,
    ToolContext,
};

use crate::AgentLoop;
use crate::cancel::or_cancelled;
use crate::sink::{Deltas, Sink};

impl<P: Provider, C: ContextStrategy, D: DurableContext> AgentLoop<P, C, D> {
    /// Calls the model with the conversation and counts what that took.
    pub(crate) async fn call_model<S: Sink>(
        &mut self,
        ctx: &ToolContext,
        sink: &S,
    ) -> Result<CompletionResponse, LoopError> {
        let before = HookEvent::PreLlmCall { request: &self.request };
        let asked = self.hooks().ask(before).await;
        let answered = match asked {
            Ok(_) => {
                self.run.requests += 1;
                self.ask_in_scope(ctx, sink).await
            }
            Err(error) => Err(error),
        };
        let checked = answered.and_then(|response| {
            self.run.turns += 1;
            self.reminders.turns += 1;
            self.add_usage(&response.usage);
            check_answer(&response.message)?;
            Ok(response)
        });
        let response = match checked {
            Ok(response) => response,
            Err(error) => {
                self.hooks().tell(HookEvent::LlmError { error: &error }).await;
                return Err(error);
            }
        };
        if S::DELTAS {
            sink.emit(StreamEvent::MessageComplete(response.message.clone())).await;
            sink.emit(StreamEvent::Usage(response.usage.clone())).await;
        }
        self.hooks().ask(HookEvent::PostLlmCall { response: &response }).await?;
        Ok(response)
    }

    async fn ask_in_scope<S: Sink>(
        &self,
        ctx: &ToolContext,
        sink: &S,
    ) -> Result<CompletionResponse, LoopError> {
        let kind = OperationKind::ModelCall { request: &self.request, streaming: S::DELTAS };
        let mut scopes = self.hooks().open(kind);
        let answered = scopes.run(self.ask(ctx, sink)).await;
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
    ) -> Result<CompletionResponse, LoopError> {
        let (request, options) = (&self.request, || self.config.llm_activity.clone());
        let response = match &self.durability {
            None if S::DELTAS => return self.ask_for_stream(ctx, sink).await,
            None => {
                or_cancelled(ctx, async { Ok(self.provider.complete_ref(request).await?) }).await?
            }
            Some(durability) if S::DELTAS => {
                let deltas = Deltas(sink);
                let call = durability.execute_llm_stream(request, options(), &deltas);
                or_cancelled(ctx, async { Ok(call.await?) }).await?
            }
            Some(durability) => {
                let call = durability.execute_llm_call_ref(request, options());
                or_cancelled(ctx, async { Ok(call.await?) }).await?
            }
        };
        self.hooks().ask(HookEvent::FirstChunk).await?;
        Ok(response)
    }

    async fn ask_for_stream<S: Sink>(
        &self,
        ctx: &ToolContext,
        sink: &S,
    ) -> Result<CompletionResponse, LoopError> {
        let open = async { Ok(self.provider.complete_stream_ref(&self.request).await?) };
        let mut events = or_cancelled(ctx, open).await?.receiver;
        let mut end = ResponseEnd::default();
        let mut first = true;
        loop {
            // Hooks and the reader are waited for outside of this: a cancellation ends what the
            // provider does, and not them.
            let Some(event) = or_cancelled(ctx, async { Ok(events.recv().await) }).await? else {
                return Ok(end.finish()?);
            };
            let progress = end.take(event)?;
            if std::mem::take(&mut first) {
                self.hooks().ask(HookEvent::FirstChunk).await?;
            }
            match progress {
                Progress::Done(response) => return Ok(*response),
                Progress::Event(Some(delta)) => sink.emit(delta).await,
                _ => {}
            }
        }
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
