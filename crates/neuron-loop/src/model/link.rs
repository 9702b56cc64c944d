//! The innermost link in the chain of layers (middleware for model calls). It calls the model.
//!
//! Each attempt counts as one request for the limits and the budget. The hooks receive [`HookEvent::PreLlmCall`] before
//! the attempt, and [`HookEvent::PostLlmCall`] or [`HookEvent::LlmError`] after it.

use std::mem;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};

use neuron_types::{
    CompletionResponse, Cost, DeltaSink, DeltaSlot, DurableContext, HookEvent, LoopError,
    ModelCall, ModelEndpoint, ModelResponseFuture, OperationKind, Progress, RequestRef,
    Reservation, ResponseEnd, StreamEvent, TakeBack, TokenUsage, UnknownPrice, transcript,
};
use scopeguard::ScopeGuard;

use super::source::Source;
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
    pub(super) tally: &'l Mutex<Counters<'l>>,
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
    /// Reserves budget, calls the model once, and notifies the hooks. Checks the limits first if this is not the first
    /// attempt of the turn. The caller has checked them for the first attempt.
    async fn attempt(
        &self,
        call: &ModelCall<'_>,
        sink: Option<&dyn DeltaSink>,
    ) -> Result<CompletionResponse, LoopError> {
        // A layer may have discarded the response of an earlier attempt.
        self.give_up_prefetch(None).await;
        let is_repeated = mem::replace(&mut lock(&self.state).is_made, true);
        if is_repeated {
            check(self.turn.token)?;
            // FAULT another attempt does not mind the limits: without the line
            lock(self.tally).run.check_before_call(self.turn.config())?;
        }
        // FAULT calls start early in the last call of a run: `call.is_last` -> `false`
        //     (early_tools::last_call_of_a_run_starts_nothing_early)
        let mut prefetch = Prefetch::new(call.is_last);
        // FAULT a call of the model needs no budget: `?` -> `.ok().flatten()`
        let reservation = self.reserve(call)?;
        let answered = self.ask_and_count(call, sink, reservation, &mut prefetch).await;
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

    /// Dispatches [`HookEvent::PreLlmCall`], and calls the model inside the scopes that the hooks open around the call,
    /// such as tracing spans. Counts the tokens and their cost before the scopes end.
    async fn ask_and_count(
        &self,
        call: &ModelCall<'_>,
        sink: Option<&dyn DeltaSink>,
        mut reservation: Option<Reservation>,
        prefetch: &mut Prefetch<'a>,
    ) -> Result<CompletionResponse, LoopError> {
        lock(&self.state).excluded = self.turn.not_offered(call);
        self.turn.dispatch(HookEvent::PreLlmCall { request: &call.request }).await?;
        check(self.turn.token)?;
        lock(self.tally).count_request(self.messages);
        // FAULT a dropped call gives its request back: without the line
        reservation.iter_mut().for_each(Reservation::start);
        let count_dropped = |(reservation, received)| self.count_dropped(reservation, received);
        // FAULT a dropped call costs nothing in the run: `count_dropped` -> `|_| {}`
        let mut attempt = scopeguard::guard((reservation, Received::default()), count_dropped);
        let kind = OperationKind::ModelCall { request: &call.request, streaming: sink.is_some() };
        let mut scopes = self.turn.open(kind);
        let mut answered = scopes.run(self.ask(call.request, sink, &mut attempt.1, prefetch)).await;
        if let Ok(response) = &mut answered {
            self.turn.correct(&mut response.message);
        }
        let (reservation, received) = ScopeGuard::into_inner(attempt);
        let priced = self.count(call, &mut answered, received, reservation);
        scopes.end((&answered).into());
        priced?;
        if let Ok(response) = &answered {
            // FAULT two calls with one id are accepted: without the line
            transcript::check_answer(&response.message)?;
        }
        answered
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
            let run = &lock(self.tally).run;
            let tools = run.usage.tools.output_tokens;
            // FAULT what tools took counts as answers when a call is reserved: without `.saturating_sub(tools)`
            //     (tool_usage::tool_tokens_do_not_raise_the_estimate_of_the_next_response)
            run.usage.total.output_tokens.saturating_sub(tools)
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

    /// Adds the tokens of a finished attempt and their cost to the run, and the cost to the usage of the response. If the
    /// attempt failed, its tokens are the usage that arrived before the error. If a response reports no usage, its tokens
    /// are estimated.
    ///
    /// # Errors
    ///
    /// [`UnknownPrice`] if the budget limits money and has no price for the model that answered.
    fn count(
        &self,
        call: &ModelCall<'_>,
        answered: &mut Result<CompletionResponse, LoopError>,
        received: Received,
        reservation: Option<Reservation>,
    ) -> Result<(), UnknownPrice> {
        let Received { usage: mut used, has_begun } = received;
        let mut is_estimated = false;
        if let Ok(response) = &*answered {
            used.clone_from(&response.usage);
            // FAULT an answer whose prompt took nothing is estimated: `total_tokens()` -> `input_tokens`
            if used.total_tokens() == 0 {
                let answer = std::slice::from_ref(&response.message);
                used.input_tokens = self.turn.tokens_of(call.request, self.size);
                used.output_tokens = self.turn.parts.strategy.token_estimate_dyn(answer);
                is_estimated = true;
            }
        }
        let (cost, priced) = settle(reservation, answered, &used, has_begun);
        // FAULT the cost of a call is not in the usage of the run: without the line
        used.cost = cost.or(used.cost);
        let mut tally = lock(self.tally);
        if let Ok(response) = answered {
            self.turn.run.responses.fetch_add(1, Ordering::Relaxed);
            // FAULT the reader does not hear what a call cost: without the line
            //     (cost::hooks_scopes_and_events_receive_the_cost)
            response.usage.cost = used.cost;
            lock(&self.state).usage = Some(response.usage.clone());
            if is_estimated {
                if tally.run.usage.estimated == TokenUsage::default() {
                    let text = "the provider reports no usage; the estimates of the context strategy count";
                    tracing::warn!(used.input_tokens, used.output_tokens, "{text}");
                }
                tally.note_estimate(&used);
            }
        }
        // FAULT usage that is not added: without the line
        // FAULT an answer without usage counts nothing: `&used` -> `answered.as_ref().map_or(&used, |response|
        //     &response.usage)`
        tally.add_usage(&used);
        self.turn.ctx.usage.add(&used);
        priced
    }

    /// Adds the received tokens of a dropped attempt and its cost to the run. Without a received usage, the cost is that
    /// of the reservation.
    fn count_dropped(&self, reservation: Option<Reservation>, received: Received) {
        // FAULT the reported usage of a dropped call is lost: `received.usage` -> `TokenUsage::default()`
        //     (budget::run_dropped_at_first_chunk_counts_the_reported_usage)
        let mut used = received.usage;
        used.cost = reservation.and_then(|it| it.settle_at_least(&used)).or(used.cost);
        if used != TokenUsage::default() {
            lock(self.tally).add_usage(&used);
            self.turn.ctx.usage.add(&used);
        }
    }

    /// Gets the response from the durable engine or the provider, as a stream if there is a `sink`.
    async fn ask(
        &self,
        request: RequestRef<'_>,
        sink: Option<&dyn DeltaSink>,
        received: &mut Received,
        prefetch: &mut Prefetch<'a>,
    ) -> Result<CompletionResponse, LoopError> {
        if let Some(sink) = sink {
            return Box::pin(self.ask_for_stream(request, sink, received, prefetch)).await;
        }
        let options = || self.turn.config().llm_activity.clone();
        let work = async {
            Ok(match self.turn.parts.durability {
                Some(engine) => Box::pin(engine.execute_llm_call_ref(request, options())).await?,
                None => self.turn.parts.model.complete_ref_dyn(request).await?,
            })
        };
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
        request: RequestRef<'_>,
        sink: &dyn DeltaSink,
        received: &mut Received,
        prefetch: &mut Prefetch<'a>,
    ) -> Result<CompletionResponse, LoopError> {
        let (token, slot) = (self.turn.token, DeltaSlot::default());
        let options = self.turn.config().llm_activity.clone();
        let mut source = match self.turn.parts.durability {
            Some(engine) => {
                Source::Engine(Box::pin(engine.execute_llm_stream(request, options, &slot)), &slot)
            }
            None => {
                let open = self.turn.parts.model.complete_stream_ref_dyn(request);
                let opened = or_cancelled(token, async { Ok(open.await?) }).await?;
                Source::Provider(opened.receiver, ResponseEnd::default())
            }
        };
        let tools = self.turn.callable(lock(&self.state).excluded.clone());
        let mut heard = None;
        loop {
            let next = prefetch.beside(source.next(&mut received.usage));
            let progress = or_cancelled(token, next).await?;
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
                        prefetch.take_event(self.turn, &tools, &delta, self.tally).await?;
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

/// Replaces the reservation of an attempt with its actual usage. Returns the cost that the budget counts.
fn settle(
    reservation: Option<Reservation>,
    answered: &Result<CompletionResponse, LoopError>,
    used: &TokenUsage,
    has_begun: bool,
) -> (Option<Cost>, Result<(), UnknownPrice>) {
    let Some(reservation) = reservation else {
        return (None, Ok(()));
    };
    let cost = match answered {
        // FAULT what a call took is not settled: `reservation.settle_response(response, used)` -> `(reservation.cost(),
        //     Ok(drop(reservation)))`
        Ok(response) => return reservation.settle_response(response, used),
        // If the tokens are unknown, at least the reserved estimate is charged.
        // FAULT an error inside a stream costs nothing: without `has_begun ||`
        //     (budget::error_inside_a_stream_is_charged)
        Err(error) if has_begun || !error.takes_no_tokens() => reservation.settle_at_least(used),
        // A refused call costs nothing, even if the price has a fee for each call.
        // FAULT a refused call costs the fee of a call: without the arm (money::refused_call_costs_no_fee)
        Err(_) if *used == TokenUsage::default() => {
            reservation.release();
            None
        }
        Err(_) => reservation.settle(used),
    };
    (cost, Ok(()))
}
