//! The innermost link in the chain of layers (middleware for model calls). It calls the model.
//!
//! Each attempt counts as one request for the limits and the budget. The hooks receive [`HookEvent::PreLlmCall`] before
//! the attempt, and [`HookEvent::PostLlmCall`] or [`HookEvent::LlmError`] after it.

use std::future::poll_fn;
use std::mem;
use std::pin::pin;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::task::Poll;

use neuron_types::{
    CompletionResponse, DeltaSink, DeltaSlot, DurableContext, DurableError, HookEvent, LoopError,
    ModelCall, ModelEndpoint, ModelResponseFuture, OperationKind, Progress, Reservation,
    ResponseEnd, StreamEvent, StreamReceiver, TakeBack, TokenUsage, UnknownPrice, WasmBoxedFuture,
    transcript,
};
use scopeguard::ScopeGuard;

use crate::ledger::{Counters, KnownSize};
use crate::lock::lock;
use crate::parts::{Turn, check, or_cancelled};
use crate::tools::Prefetch;

/// Estimated output tokens of the first response of a run, used to reserve budget.
const FIRST_ANSWER: usize = 1_000;

/// The innermost link of the chain of layers around a model call. Makes all model calls of one turn.
pub(super) struct Link<'a, 'l> {
    pub(super) turn: Turn<'a>,
    /// Number of messages of the conversation at the start of the turn.
    pub(super) messages: usize,
    pub(super) size: Option<KnownSize>,
    pub(super) tally: Mutex<Counters<'l>>,
    pub(super) state: Mutex<Attempts<'a>>,
}

/// Values that the attempts of one turn share.
#[derive(Default)]
pub(super) struct Attempts<'a> {
    /// Set if at least one attempt to call the model was made in this turn.
    is_made: bool,
    /// Tool calls of the last response that started while the response was still streaming.
    pub(super) prefetch: Prefetch<'a>,
    /// Names of registered tools that the last request did not offer.
    pub(super) excluded: Arc<[String]>,
    /// Tokens of the last response.
    pub(super) usage: Option<TokenUsage>,
    /// The part of the conversation to remove. Set if a layer around the model call rejected that part.
    pub(super) rejected: Option<TakeBack>,
}

/// The part of a response that an attempt has received.
#[derive(Default)]
struct Received {
    /// The usage that the provider reported so far.
    usage: TokenUsage,
    /// Set after the first delta of a stream. The model then has used tokens, even if the provider reports an error that
    /// otherwise means that it refused the request.
    has_begun: bool,
}

impl ModelEndpoint for Link<'_, '_> {
    fn make<'c>(
        &'c self,
        call: ModelCall<'c>,
        sink: Option<&'c dyn DeltaSink>,
    ) -> ModelResponseFuture<'c> {
        Box::pin(async move { self.attempt(&call, sink).await })
    }

    fn take_back(&self, what: TakeBack) {
        lock(&self.state).rejected = Some(what);
    }
}

impl<'a, 'l> Link<'a, 'l> {
    /// Makes one attempt: reserves budget, calls the model, accounts for the tokens, and notifies the hooks. Checks the
    /// limits first if this is not the first attempt of the turn. The caller has checked them for the first attempt.
    async fn attempt(
        &self,
        call: &ModelCall<'_>,
        sink: Option<&dyn DeltaSink>,
    ) -> Result<CompletionResponse, LoopError> {
        // A layer may have discarded the response of an earlier attempt.
        self.give_up_prefetch(None).await;
        if mem::replace(&mut lock(&self.state).is_made, true) {
            check(self.turn.token)?;
            // FAULT another attempt does not mind the limits: without the line
            lock(&self.tally).run.check_before_call(self.turn.config())?;
        }
        // FAULT calls start early in the last call of a run: `call.is_last` -> `false`
        //     (early_tools::last_call_of_a_run_starts_nothing_early)
        let mut prefetch = Prefetch::new(call.is_last);
        // FAULT a call of the model needs no budget: `?` -> `.ok().flatten()`
        let reservation = self.reserve(call)?;
        let answered = self.call(call, sink, reservation, &mut prefetch).await;
        let told = match &answered {
            Ok(response) => {
                // FAULT an early call has no end when a hook rejects its answer: without the line, `.await` ->
                //     `.await.inspect(|_| lock(&self.state).prefetch = prefetch)`
                lock(&self.state).prefetch = prefetch;
                // FAULT a rejected answer is told: the line -> `let asked = self.turn.dispatch(HookEvent::PostLlmCall
                //     { response }).await; if asked.is_err() { self.turn.reader.send(||
                //     StreamEvent::MessageComplete(response.message.clone())).await; } asked`
                self.turn.dispatch(HookEvent::PostLlmCall { response }).await
            }
            Err(error) => {
                prefetch.give_up(self.turn, Some(error)).await;
                // FAULT an error of the model is not told: the line -> `Ok(None)`
                self.turn.dispatch(HookEvent::LlmError { error }).await.or(Ok(None))
            }
        };
        told.and(answered)
    }

    /// Cancels the tool calls that a discarded response had started while it was streaming. Notifies the hooks that
    /// these calls failed with `error`. `None` means that they were cancelled.
    pub(super) async fn give_up_prefetch(&self, error: Option<&LoopError>) {
        let mut prefetch = mem::take(&mut lock(&self.state).prefetch);
        prefetch.give_up(self.turn, error).await;
    }

    /// Reserves budget for the call. The prompt is estimated. The response is estimated as the run's output tokens,
    /// divided by its responses.
    fn reserve(&self, call: &ModelCall<'_>) -> Result<Option<Reservation>, LoopError> {
        let env = self.turn.env;
        let Some(budget) = &env.run.budget else {
            return Ok(None);
        };
        let prompt = match env.parts.strategy.counts_tokens_dyn() {
            true => env.tokens_of(call.request, self.size),
            false => self.size.map(|size| size.tokens).unwrap_or_default(),
        };
        let responses = env.run.responses.load(Ordering::Relaxed);
        let own = {
            let usage = &lock(&self.tally).run.usage;
            // FAULT what tools took counts as answers when a call is reserved: without
            //     `.saturating_sub(usage.tools.output_tokens)`
            //     (tool_usage::tool_tokens_do_not_raise_the_estimate_of_the_next_response)
            usage.total.output_tokens.saturating_sub(usage.tools.output_tokens)
        };
        let most = call.request.max_tokens.unwrap_or(usize::MAX);
        // FAULT more is reserved than an answer may have: without `.min(most)`
        //     (budget::concurrent_agents_share_requests_tool_calls_and_tokens)
        let answer = own.checked_div(responses).unwrap_or(FIRST_ANSWER).min(most);
        let (info, model) = env.priced_model(call.request);
        let reserved = match info.routes {
            [] => budget.reserve_call(info.name, model, prompt, answer),
            routes => budget.reserve_routed_call(routes, prompt, answer),
        };
        reserved.map(Some)
    }

    /// Dispatches [`HookEvent::PreLlmCall`], and calls the model inside the scopes that the hooks open around the call,
    /// such as tracing spans. Accounts for the tokens before the scopes end.
    async fn call(
        &self,
        call: &ModelCall<'_>,
        sink: Option<&dyn DeltaSink>,
        mut reservation: Option<Reservation>,
        prefetch: &mut Prefetch<'a>,
    ) -> Result<CompletionResponse, LoopError> {
        lock(&self.state).excluded = self.turn.not_offered(call);
        self.turn.dispatch(HookEvent::PreLlmCall { request: &call.request }).await?;
        check(self.turn.token)?;
        lock(&self.tally).count_request(self.messages);
        // FAULT a dropped call gives its request back: without the line
        reservation.iter_mut().for_each(Reservation::start);
        let count_dropped = |(reservation, received)| {
            self.account(call, reservation, received, None).ok();
        };
        // FAULT a dropped call costs nothing in the run: `count_dropped` -> `|_| {}`
        let mut attempt = scopeguard::guard((reservation, Received::default()), count_dropped);
        let kind = OperationKind::ModelCall { request: &call.request, streaming: sink.is_some() };
        let mut scopes = self.turn.open(kind);
        let mut answered = scopes.run(pin!(self.ask(call, sink, &mut attempt.1, prefetch))).await;
        if let Ok(response) = &mut answered {
            self.turn.correct(&mut response.message);
        }
        let (reservation, received) = ScopeGuard::into_inner(attempt);
        let priced = self.account(call, reservation, received, Some(&mut answered));
        scopes.end((&answered).into());
        priced?;
        if let Ok(response) = &answered {
            // FAULT two calls with one id are accepted: without the line
            transcript::check_answer(&response.message)?;
        }
        answered
    }

    /// Adds the tokens of an attempt and their cost to the run, and the cost to the usage of the response. If the
    /// attempt failed, its tokens are the usage that arrived before the error. If a response reports no usage, its
    /// tokens are estimated. `answered` is `None` if the attempt was dropped.
    ///
    /// # Errors
    ///
    /// [`UnknownPrice`] if the budget limits money and has no price for the model that answered.
    fn account(
        &self,
        call: &ModelCall<'_>,
        reservation: Option<Reservation>,
        received: Received,
        mut answered: Option<&mut Result<CompletionResponse, LoopError>>,
    ) -> Result<(), UnknownPrice> {
        // FAULT the reported usage of a dropped call is lost: `received.usage` -> `match &answered { None =>
        //     TokenUsage::default(), Some(_) => received.usage }`
        //     (budget::run_dropped_at_first_chunk_counts_the_reported_usage)
        let mut used = received.usage;
        let mut is_estimated = false;
        if let Some(Ok(response)) = &answered {
            // FAULT an answer whose prompt took nothing is estimated: `total_tokens()` -> `input_tokens`
            if used.total_tokens() == 0 {
                let answer = std::slice::from_ref(&response.message);
                used.input_tokens = self.turn.tokens_of(call.request, self.size);
                used.output_tokens = self.turn.parts.strategy.token_estimate_dyn(answer);
                is_estimated = true;
            }
        }
        // FAULT an error inside a stream costs nothing: without `!received.has_begun &&`
        //     (budget::error_inside_a_stream_is_charged)
        let takes_nothing = |error: &LoopError| !received.has_begun && error.takes_no_tokens();
        let is_refused = matches!(answered.as_deref(), Some(Err(error)) if takes_nothing(error));
        let (cost, priced) = match (reservation, answered.as_deref()) {
            (None, _) => (None, Ok(())),
            // FAULT what a call took is not settled: `reservation.settle_response(response, &used)` ->
            //     `(reservation.cost(), Ok(drop(reservation)))`
            (Some(reservation), Some(Ok(response))) => reservation.settle_response(response, &used),
            // A refused call costs nothing, even if the price has a fee for each call.
            // FAULT a refused call costs the fee of a call: without the arm (money::refused_call_costs_no_fee)
            (Some(reservation), _) if is_refused && used == TokenUsage::default() => {
                reservation.release();
                (None, Ok(()))
            }
            (Some(reservation), _) if is_refused => (reservation.settle(&used), Ok(())),
            // If the tokens are unknown, at least the reserved estimate is charged.
            (Some(reservation), _) => (reservation.settle_at_least(&used), Ok(())),
        };
        // FAULT the cost of a call is not in the usage of the run: without the line
        used.cost = cost.or(used.cost);
        let mut tally = lock(&self.tally);
        if let Some(Ok(response)) = &mut answered {
            self.turn.run.responses.fetch_add(1, Ordering::Relaxed);
            // FAULT the reader does not hear what a call cost: without the line
            //     (cost::hooks_scopes_and_events_receive_the_cost)
            response.usage.cost = used.cost;
            lock(&self.state).usage = Some(response.usage.clone());
        }
        if is_estimated {
            if tally.run.usage.estimated == TokenUsage::default() {
                let text =
                    "the provider reports no usage; the estimates of the context strategy count";
                tracing::warn!(used.input_tokens, used.output_tokens, "{text}");
            }
            tally.note_estimate(&used);
        }
        // FAULT usage that is not added: without the line
        // FAULT an answer without usage counts nothing: `&used` -> `match &answered { Some(Ok(response)) =>
        //     &response.usage, _ => &used }`
        tally.add_usage(&used);
        self.turn.ctx.usage.add(&used);
        priced
    }

    /// Gets the response from the durable engine or the provider, as a stream if there is a `sink`.
    async fn ask(
        &self,
        call: &ModelCall<'_>,
        sink: Option<&dyn DeltaSink>,
        received: &mut Received,
        prefetch: &mut Prefetch<'a>,
    ) -> Result<CompletionResponse, LoopError> {
        if let Some(sink) = sink {
            return Box::pin(self.ask_for_stream(call, sink, received, prefetch)).await;
        }
        // Pinned in place and with a borrowed request, because the future of a call is allocated in each turn.
        let work = pin!(async {
            Ok(match self.turn.parts.durability {
                Some(engine) => {
                    let options = self.turn.config().llm_activity.clone();
                    Box::pin(engine.execute_llm_call_ref(call.request, options)).await?
                }
                None => self.turn.parts.model.complete_ref_dyn(call.request).await?,
            })
        });
        let response = or_cancelled(self.turn.token, work).await?;
        // Set before the hooks run, because the provider charges for these tokens even if a hook ends the run.
        // FAULT the usage of an answer that a hook rejects is lost: without the line
        received.usage.clone_from(&response.usage);
        self.turn.dispatch(HookEvent::FirstChunk).await?;
        Ok(response)
    }

    /// Gets the response as a stream, and sends its deltas to `sink`.
    ///
    /// The hooks receive [`HookEvent::FirstChunk`] before the first delta is sent. A replayed response has no deltas,
    /// so the hooks receive the event when the response is complete. Cancelling the run stops the work of the provider
    /// or the engine. It does not interrupt a hook or `sink`.
    ///
    /// If a hook ends the run while a durable engine responds, no further deltas are sent. The response is still read
    /// to its end, because the engine must journal it. A replay of the journal then ends with the same error.
    async fn ask_for_stream(
        &self,
        call: &ModelCall<'_>,
        sink: &dyn DeltaSink,
        received: &mut Received,
        prefetch: &mut Prefetch<'a>,
    ) -> Result<CompletionResponse, LoopError> {
        let token = self.turn.token;
        let slot;
        let mut source = match self.turn.parts.durability {
            Some(engine) => {
                let options = self.turn.config().llm_activity.clone();
                slot = DeltaSlot::default();
                Source::Engine(
                    Box::pin(engine.execute_llm_stream(call.request, options, &slot)),
                    &slot,
                )
            }
            None => {
                let open = self.turn.parts.model.complete_stream_ref_dyn(call.request);
                let opened = or_cancelled(token, async { Ok(open.await?) }).await?;
                Source::Provider(opened.receiver, ResponseEnd::default())
            }
        };
        let tools = self.turn.callable(lock(&self.state).excluded.clone());
        let mut heard = None;
        loop {
            let progress = {
                let next = pin!(source.next(&mut received.usage));
                or_cancelled(token, pin!(prefetch.beside(next))).await?
            };
            use StreamEvent::Reset;
            // FAULT the retry of an engine is a first chunk: `None | Some(Reset { .. })` -> `None`
            //     (first_chunk::engine_retry_belongs_to_the_same_call)
            let is_answer = !matches!(progress, Progress::Event(None | Some(Reset { .. })));
            // FAULT a stream that broke has not begun: without the line (budget::error_inside_a_stream_is_charged)
            received.has_begun |= is_answer;
            // FAULT the first chunk is not told: `heard.is_none()` -> `false`
            // FAULT every part of an answer is told as its first: without `heard.is_none() &&`
            if heard.is_none() && (is_answer || source.is_provider()) {
                let hooked = self.turn.dispatch(HookEvent::FirstChunk).await;
                heard = Some(if source.is_provider() { Ok(hooked?) } else { hooked });
            }
            match progress {
                Progress::Done(response) => {
                    heard.transpose()?;
                    return Ok(*response);
                }
                // FAULT an engine's answer is shown although a hook ended the run: without `if !matches!(heard,
                //     Some(Err(_)))`
                Progress::Event(Some(mut delta)) if !matches!(heard, Some(Err(_))) => {
                    // FAULT an early call has other arguments than the later one: without the statement
                    //     (arguments::early_call_has_the_corrected_arguments)
                    if let StreamEvent::ToolUse { name, input, .. } = &mut delta {
                        self.turn.correct_input(name, input);
                    }
                    // FAULT a cancelled stream shows one part more: without the line
                    //     (first_chunk::cancel_stops_the_engine_and_not_the_hook)
                    check(token)?;
                    // FAULT calls start early beside an engine: without `&& source.is_provider()`
                    if self.turn.config().early_tools && source.is_provider() {
                        prefetch.take_event(self.turn, &tools, &delta, &self.tally).await?;
                    }
                    // FAULT an answer is shown past the guards: `sink.send(delta)` -> `self.turn.reader.send(||
                    //     delta)`
                    sink.send(delta).await;
                }
                _ => {}
            }
        }
    }
}

/// The source of the events of a streamed response.
enum Source<'s> {
    /// The provider's stream, and the response that its events build up.
    Provider(StreamReceiver, ResponseEnd),
    /// The engine's call, and the slot in which the call leaves live deltas.
    Engine(WasmBoxedFuture<'s, Result<CompletionResponse, DurableError>>, &'s DeltaSlot),
}

impl Source<'_> {
    fn is_provider(&self) -> bool {
        matches!(self, Self::Provider(..))
    }

    /// Returns the next event, or the complete response after the last event. Writes the tokens that were reported so
    /// far to `usage`.
    async fn next(&mut self, usage: &mut TokenUsage) -> Result<Progress, LoopError> {
        let progress = match self {
            Self::Engine(call, slot) => {
                poll_fn(|cx| match call.as_mut().poll(cx) {
                    Poll::Ready(answer) => Poll::Ready(answer.map(Box::new).map(Progress::Done)),
                    // A durable context reports its own retries as `Reset`. The loop itself creates all other events.
                    Poll::Pending => slot.poll_take(cx).map(|event| {
                        let is_heard = |event: &StreamEvent| {
                            event.is_delta() || matches!(event, StreamEvent::Reset { .. })
                        };
                        Ok(Progress::Event(event.filter(is_heard)))
                    }),
                })
                .await?
            }
            Self::Provider(events, end) => match events.recv().await {
                None => Progress::Done(Box::new(mem::take(end).finish()?)),
                Some(event) => {
                    if let StreamEvent::Usage(told) = &event {
                        usage.clone_from(told);
                    }
                    end.take(event)?
                }
            },
        };
        // FAULT what an engine's answer took is lost when a hook ends the run at it: without the statement
        if let Progress::Done(response) = &progress {
            // Set before the hooks run, because the provider charges for these tokens even if a hook ends the run.
            usage.clone_from(&response.usage);
        }
        Ok(progress)
    }
}
