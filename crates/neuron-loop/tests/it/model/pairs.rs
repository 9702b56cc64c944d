//! Pairs of features. A case draws some of the features of a run, and makes a conversation that uses all of them. The
//! module `plan` computes the expected messages. In each case, nothing is lost, nothing happens twice, and what is
//! counted, stored and reported agrees.
//!
//! The coverage of the model requires every pair of features.

mod parts;
mod plan;

use std::collections::BTreeSet;
use std::future::{Future, poll_fn};
use std::ops::DerefMut;
use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::task::Poll;
use std::time::Duration;

use futures_util::future::{Either, select};
use neuron_loop::{
    Agent, Budget, Conversation, LoopError, OwnedRun, Run, RunEvent, RunHandle, RunResult,
    SessionHandle, Start, Step,
};
use neuron_runtime::LocalDurableContext;
use neuron_types::{
    ApprovalDecisions, BoxedProvider, ContentBlock, ContentItem, Message, Role, StreamEvent,
    ToolContext, UsageLimits, transcript,
};
use schemars::JsonSchema;
use serde::Deserialize;

use self::parts::{World, decisions};
use self::plan::{Expected, ExpectedRun, FEATURES, Fate, Feature, Plan, expect, steered_text};
use crate::model::case::Way;
use crate::model::check::{Checked, only_once, same, same_list, sorted};
use crate::model::reference::written_by_loop;
use crate::store::Noted;

/// Returns the names of all pairs of features, as the coverage counts them.
pub(crate) fn all() -> Vec<String> {
    // An engine makes a response as a whole.
    pairs(&FEATURES).filter(|pair| pair != "DurableEngine and EarlyTools").collect()
}

fn pairs(features: &[Feature]) -> impl Iterator<Item = String> {
    features.iter().enumerate().flat_map(|(at, one)| {
        features[at + 1..].iter().map(move |other| format!("{one:?} and {other:?}"))
    })
}

pub(crate) async fn check(seed: u64, seen: &mut BTreeSet<String>) -> Checked {
    let world = World::new(Plan::new(seed));
    let mut case = Case::new(&world);
    let checked = case.whole().await;
    checked.map_err(|fault| format!("{fault}\nplan: {:#?}", world.plan))?;
    let features: Vec<Feature> = world.seen(|seen| seen.features.iter().copied().collect());
    seen.extend(pairs(&features));
    Ok(())
}

/// The output of a typed run.
#[derive(Deserialize, JsonSchema)]
struct Output {
    number: u64,
}

/// The output of a run as a number. A run that is not typed has none.
trait Numbered {
    fn number(&self) -> Option<u64>;
}

impl Numbered for () {
    fn number(&self) -> Option<u64> {
        None
    }
}

impl Numbered for Output {
    fn number(&self) -> Option<u64> {
        Some(self.number)
    }
}

/// The end of a run: its last response and its output.
type Ended = Result<(String, Option<u64>), LoopError>;

struct Case {
    world: World,
    agent: Agent,
    engine: LocalDurableContext<BoxedProvider>,
    budget: Option<Budget>,
    storage: Noted,
    session: Option<SessionHandle<'static>>,
    ctx: ToolContext,
    conversation: Conversation,
    expected: Vec<Expected>,
    /// Set after a run was interrupted. Its calls may then have other results, and its counters are not known.
    is_interrupted: bool,
    /// Number of calls that count for limits.
    counted: usize,
    /// The last decisions of a person.
    decided: Mutex<Option<ApprovalDecisions>>,
}

impl Case {
    fn new(world: &World) -> Self {
        let plan = world.plan.clone();
        let storage = Noted::failing(plan.failing_write);
        let session = || SessionHandle::new(storage.clone(), "s");
        Self {
            world: world.clone(),
            agent: world.agent(),
            engine: LocalDurableContext::new(Arc::new(world.provider()), Arc::new(world.tools())),
            budget: plan.has(Feature::Budget).then(|| Budget::new(UsageLimits::default())),
            session: plan.has(Feature::Store).then(session),
            storage,
            ctx: ToolContext { run_id: "run".into(), ..ToolContext::default() },
            conversation: Conversation::new(),
            expected: Vec::new(),
            is_interrupted: false,
            counted: 0,
            decided: Mutex::default(),
        }
    }

    async fn whole(&mut self) -> Checked {
        let plan = self.world.plan.clone();
        for feature in [Feature::DurableEngine, Feature::Budget, Feature::Store] {
            if plan.has(feature) {
                self.world.note(feature);
            }
        }
        for run in 0..plan.runs.len() {
            let fork = plan.fork.filter(|(before, _)| *before == run);
            if let Some((_, start)) = fork {
                self.fork(start);
            }
            self.one_run(run, fork.is_some())
                .await
                .map_err(|fault| format!("run {run}: {fault}"))?;
        }
        self.same_counts()
    }

    /// Goes back to the start of an earlier run.
    fn fork(&mut self, run: usize) {
        let text = format!("run {run}");
        let starts = |message: &Message| message.role == Role::User && message.text() == text;
        let Some(at) = self.conversation.messages().iter().position(starts) else { return };
        self.conversation = self.conversation.fork(at);
        let starts = |message: &Expected| matches!(message, Expected::Message(it) if starts(it));
        let at = self.expected.iter().position(starts).expect("the run is expected");
        self.expected.truncate(at);
        self.world.note(Feature::ForkAndEdit);
    }

    /// Makes a run, with all its parts between two approvals or interruptions.
    async fn one_run(&mut self, run: usize, is_forked: bool) -> Checked {
        let plan = self.world.plan.clone();
        let (begun, count) = self.world.seen(|seen| {
            seen.run = run;
            seen.requests.clear();
            (seen.begun.len(), seen.count)
        });
        if plan.reloads && self.session.is_some() {
            self.session = Some(SessionHandle::new(self.storage.clone(), "s"));
            let stored = self.session().load().await.map_err(|error| error.to_string())?;
            // The storage does not have a fork yet.
            if !is_forked {
                self.conversation = stored;
            }
        }
        let message = format!("run {run}");
        let mut start = Start::from(message.as_str());
        if plan.runs[run].continues {
            self.conversation.push(message.as_str());
            start = Start::Continue;
            self.world.note(Feature::Continue);
        }
        let expected = expect(&plan, run, &mut self.expected);
        let mut unsent = Vec::new();
        if plan.runs[run].steered == Some(plan::Steered::First) {
            unsent.push(Message::user(steered_text(run)));
            self.world.seen(|seen| seen.steered.push(run));
            self.world.note(Feature::Steering);
        }
        let mut parts = 0;
        let ended = loop {
            parts += 1;
            if parts > 20 {
                return Err("the run does not end".into());
            }
            let most = plan.dropped.filter(|(of, _)| *of == run && parts == 1);
            let ended = self.part(start, &mut unsent, most.map(|(_, polls)| polls)).await?;
            start = match ended {
                None => Start::Continue,
                Some(Err(LoopError::Storage(_))) => Start::Continue,
                Some(Err(LoopError::ApprovalRequired(pending))) => {
                    self.world.note(Feature::Approval);
                    let decisions = decisions(&pending);
                    *self.decided.lock().unwrap() = Some(decisions.clone());
                    Start::Decide(decisions)
                }
                Some(ended) => break ended,
            };
        };
        self.counted += expected.counted;
        // An interrupted call counts again when it is repeated, so a limit may end a run that is not expected to reach it.
        let is_limited =
            matches!(ended, Err(LoopError::MaxTurns(_) | LoopError::UsageLimitExceeded(_)));
        self.same_end(run, &expected, ended, &unsent)?;
        self.same_history()?;
        if !self.is_interrupted {
            let (begun, count) =
                self.world.seen(|seen| (seen.begun[begun..].to_vec(), seen.count - count));
            let is_early = plan.has(Feature::EarlyTools) && expected.is_limited;
            if !is_early {
                same_list("the calls that ran", &sorted(&begun), &sorted(&expected.begun))?;
            }
            same("the requests", &count, &expected.requests)?;
            same("the turns", &self.conversation.turns(), &expected.turns)?;
        }
        if is_limited && plan.has(Feature::FailingStorage) {
            // The error of the last write of a run that failed is only logged.
            if self.session().save(&self.conversation).await.is_err() {
                self.heal().await?;
            }
        }
        self.same_stored().await?;
        self.used_decisions_are_refused().await
    }

    /// Makes a part of a run, until it ends, waits for an approval, fails or is dropped. Returns `None` if it was
    /// dropped after `polls` polls.
    async fn part(
        &mut self,
        start: Start,
        unsent: &mut Vec<Message>,
        polls: Option<usize>,
    ) -> Checked<Option<Ended>> {
        let plan = self.world.plan.clone();
        let ended = match (plan.has(Feature::Detaching), plan.output) {
            (true, None) => self.detached(start, unsent, polls, |run| run).await?,
            (true, Some(_)) => {
                self.detached(start, unsent, polls, OwnedRun::typed::<Output>).await?
            }
            (false, None) => self.lent(start, unsent, polls, plain).await?,
            (false, Some(_)) => self.lent(start, unsent, polls, typed).await?,
        };
        let handle = self.world.seen(|seen| seen.handle.take()).expect("each run has a handle");
        unsent.extend(handle.take_unsent());
        if ended.is_none() {
            self.is_interrupted = true;
            self.world.note(Feature::Drop);
        }
        if let Some(Err(LoopError::Storage(_))) = &ended {
            self.is_interrupted = true;
            self.world.note(Feature::FailingStorage);
            if self.world.plan.heals {
                self.heal().await?;
            }
        }
        transcript::validate(self.conversation.messages())
            .map_err(|violation| format!("{violation}: {:#?}", self.conversation.messages()))?;
        Ok(ended)
    }

    /// Stores the conversation after a write failed. Nothing is lost.
    async fn heal(&self) -> Checked {
        self.session().save(&self.conversation).await.map_err(|error| error.to_string())?;
        self.same_stored().await
    }

    fn session(&self) -> SessionHandle<'static> {
        self.session.clone().expect("a case that stores has a session")
    }

    async fn lent<O: Numbered + 'static>(
        &mut self,
        start: Start,
        unsent: &mut Vec<Message>,
        polls: Option<usize>,
        typed: impl for<'a> FnOnce(Run<'a>) -> Run<'a, O>,
    ) -> Checked<Option<Ended>> {
        let Self { world, agent, engine, budget, session, ctx, conversation, decided, .. } = self;
        let world = &*world;
        let run = typed(agent.run(conversation, start)).context(&*ctx);
        let mut run = with(run, world, budget.as_ref(), session.as_ref(), engine);
        let handle = begin(world, run.handle(), unsent);
        let way = world.plan.way;
        let run = async move {
            match way {
                Way::Run => run.await,
                Way::Stream => streamed(run, world).await,
                Way::Step => stepped(run).await,
            }
        };
        let run = pin!(decided_by(handle, world, decided, run));
        let ended = polled(polls, run).await;
        Ok(ended.map(|ended| ended.map(|result| (result.response, result.output.number()))))
    }

    async fn detached<O: Numbered + Send + 'static>(
        &mut self,
        start: Start,
        unsent: &mut Vec<Message>,
        polls: Option<usize>,
        typed: impl FnOnce(OwnedRun) -> OwnedRun<O>,
    ) -> Checked<Option<Ended>> {
        let Self { world, agent, engine, budget, session, ctx, conversation, decided, .. } = self;
        world.note(Feature::Detaching);
        let run = typed(agent.run_owned(std::mem::take(conversation), start)).context(ctx.clone());
        let mut run = with(run, world, budget.as_ref(), session.as_ref(), engine);
        let handle = begin(world, run.handle(), unsent);
        let (events, run) = run.detach();
        let reads = world.plan.way == Way::Stream;
        if reads {
            world.note(Feature::Streaming);
        }
        // Dropping the events does not stop the run.
        let mut events = reads.then_some(events);
        let read = async {
            while let Some(events) = &mut events
                && events.next().await.is_some()
            {}
        };
        let run = Box::pin(decided_by(handle.clone(), world, decided, run));
        // The events end with the run, also if it is dropped.
        let (ended, ()) = tokio::join!(polled(polls, run), read);
        let ended = match ended {
            Some((given_back, ended)) => {
                *conversation = given_back;
                Some(ended.map(|result| (result.response, result.output.number())))
            }
            None => {
                *conversation = handle.take_conversation().ok_or("the conversation is lost")?;
                None
            }
        };
        Ok(ended)
    }

    /// Checks how a run ended, and that a message that was sent to it is in the conversation or came back.
    fn same_end(
        &mut self,
        run: usize,
        expected: &ExpectedRun,
        ended: Ended,
        unsent: &[Message],
    ) -> Checked {
        let plan = &self.world.plan;
        let is_typed = plan.output.is_some();
        match ended {
            Ok((response, number)) if !expected.is_limited || self.is_interrupted => {
                same("the output", &number, &is_typed.then_some(run as u64))?;
                if is_typed {
                    self.world.note(Feature::TypedOutput);
                } else {
                    same("the response", &response, &format!("answer {run}"))?;
                }
            }
            Err(LoopError::MaxTurns(_) | LoopError::UsageLimitExceeded(_))
                // A call that an interruption stopped counts, and counts again when it is repeated.
                if expected.is_limited || (self.is_interrupted && plan.has(Feature::Limits)) =>
            {
                self.world.note(Feature::Limits);
            }
            ended => return Err(format!("it ended with {ended:?}")),
        }
        let message = Message::user(steered_text(run));
        let is_sent = self.world.seen(|seen| seen.steered.contains(&run));
        let all = self.conversation.messages().iter().chain(unsent);
        let count = all.filter(|other| **other == message).count();
        same("the number of the messages that were sent", &count, &usize::from(is_sent))
    }

    /// Compares the conversation and the requests of the run with the expected messages.
    fn same_history(&self) -> Checked {
        self.world.seen(|seen| {
            same_list::<String, String>("what must never be", &seen.faults, &[])?;
            let mut calls: Vec<(&u64, &String)> = seen.begun.iter().zip(&seen.keys).collect();
            if self.is_interrupted && self.world.plan.has(Feature::EarlyTools) {
                // The tools are pure, so an interrupted call may run again.
                calls.sort();
                calls.dedup();
            } else {
                only_once("a call", seen.begun.iter())?;
            }
            only_once("an idempotency key", calls.iter().map(|(_, key)| *key))
        })?;
        if self.is_interrupted && self.world.plan.has(Feature::Limits) {
            // A call that an interruption stopped counts, so a run that continues may have less room.
            return Ok(());
        }
        let messages = self.conversation.messages();
        if self.is_interrupted {
            // Where a message arrives depends on the place of the interruption.
            let is_other = |message: &&Message| !message.text().starts_with("steered ");
            let messages: Vec<&Message> = messages.iter().filter(is_other).collect();
            let is_other = |expected: &&Expected| match expected {
                Expected::Message(message) => is_other(&message),
                Expected::Results(_) => true,
            };
            let expected: Vec<&Expected> = self.expected.iter().filter(is_other).collect();
            return is_like(&messages, &expected, true);
        }
        let expected_messages: Vec<&Expected> = self.expected.iter().collect();
        let messages: Vec<&Message> = messages.iter().collect();
        is_like(&messages, &expected_messages, false)?;
        self.world.seen(|seen| {
            for request in &seen.requests {
                let messages: Vec<&Message> = request.iter().collect();
                let until = expected_messages.get(..messages.len());
                is_like(&messages, until.unwrap_or(&expected_messages), false)
                    .map_err(|fault| format!("a request: {fault}"))?;
            }
            Ok(())
        })
    }

    /// Checks that the storage has what the conversation has.
    async fn same_stored(&self) -> Checked {
        if self.session.is_none() {
            return Ok(());
        }
        let other = SessionHandle::new(self.storage.clone(), "s");
        let stored = other.load().await.map_err(|error| error.to_string())?;
        same_list("the stored messages", stored.messages(), self.conversation.messages())?;
        same("what is stored of the calls", &stored.pending(), &self.conversation.pending())?;
        same("the stored usage", stored.total_usage(), self.conversation.total_usage())
    }

    /// Sends the decisions of the run once more, after it has ended.
    async fn used_decisions_are_refused(&mut self) -> Checked {
        let Some(decisions) = self.decided.lock().unwrap().take() else { return Ok(()) };
        // A run that reached a limit before its decided calls waits for a decision on them again.
        if self.conversation.pending().is_some() {
            return Ok(());
        }
        let before = self.conversation.clone();
        let again = self.agent.run(&mut self.conversation, Start::Decide(decisions)).await;
        match again {
            Err(LoopError::Approval(_)) => {
                same("the conversation after refused decisions", &self.conversation, &before)
            }
            other => Err(format!("decisions that were carried out: {other:?}")),
        }
    }

    /// Compares what was counted in the whole case.
    fn same_counts(&self) -> Checked {
        let (requests, begun) = self.world.seen(|seen| (seen.count, seen.begun.len()));
        if let Some(budget) = &self.budget {
            same("the tokens that stay reserved", &budget.reserved_tokens(), &0)?;
            if budget.requests() < requests || budget.tool_calls() < begun {
                return Err(format!("{requests} requests and {begun} calls, but {budget:?}"));
            }
            if !self.is_interrupted {
                same("the requests of the budget", &budget.requests(), &requests)?;
                same("the tokens of the budget", &budget.usage().output_tokens, &requests)?;
            }
            let plan = &self.world.plan;
            // Of a batch that a limit prevents, some calls may have begun early.
            let is_exact = plan.most_calls.is_none() || !plan.has(Feature::EarlyTools);
            if !self.is_interrupted && is_exact {
                same("the calls of the budget", &budget.tool_calls(), &self.counted)?;
            }
        }
        // A fork has no usage of the runs before.
        let is_forked = self.world.seen(|seen| seen.features.contains(&Feature::ForkAndEdit));
        if !self.is_interrupted && !is_forked {
            let usage = self.conversation.total_usage();
            same("the tokens of all runs", &usage.output_tokens, &requests)?;
        }
        Ok(())
    }
}

fn plain(run: Run<'_>) -> Run<'_> {
    run
}

fn typed(run: Run<'_>) -> Run<'_, Output> {
    run.typed()
}

/// Adds the settings of the plan to a run.
fn with<'a, O, C>(
    mut run: Run<'a, O, C>,
    world: &World,
    budget: Option<&Budget>,
    session: Option<&SessionHandle<'a>>,
    engine: &LocalDurableContext<BoxedProvider>,
) -> Run<'a, O, C> {
    if let Some(budget) = budget {
        run = run.budget(budget.clone());
    }
    if let Some(session) = session {
        run = run.store(session);
    }
    if world.plan.has(Feature::DurableEngine) {
        run = run.durable(engine.clone());
    }
    if world.plan.waits { run.wait_for_approval() } else { run }
}

/// Makes the handle known to all parts, and sends what an earlier part of the run did not take.
fn begin(world: &World, handle: RunHandle, unsent: &mut Vec<Message>) -> RunHandle {
    world.seen(|seen| {
        seen.handle = Some(handle.clone());
        seen.is_streaming = false;
    });
    for message in unsent.drain(..) {
        handle.steer(message).expect("a run that has not begun takes messages");
    }
    handle
}

async fn streamed<O, C>(run: Run<'_, O, C>, world: &World) -> Result<RunResult<O>, LoopError>
where
    O: 'static,
    C: DerefMut<Target = Conversation> + Send,
{
    world.note(Feature::Streaming);
    let mut events = run.stream();
    let mut last = None;
    while let Some(event) = events.next().await {
        if last.is_some() {
            world.seen(|seen| seen.faults.push("an event after the last".into()));
        }
        match event {
            Ok(RunEvent::Ended(result)) => last = Some(Ok(result)),
            Err(error) => last = Some(Err(error)),
            Ok(RunEvent::Event(StreamEvent::Error(error))) => {
                world.seen(|seen| seen.faults.push(format!("an error as an event: {error:?}")));
            }
            Ok(_) => {}
        }
    }
    last.unwrap_or(Err(LoopError::Cancelled))
}

async fn stepped<O, C>(run: Run<'_, O, C>) -> Result<RunResult<O>, LoopError>
where
    O: 'static,
    C: DerefMut<Target = Conversation> + Send,
{
    let mut steps = run.steps();
    while let Some(step) = steps.next().await {
        if let Step::Ended(result) = step? {
            return Ok(result);
        }
    }
    Err(LoopError::Cancelled)
}

/// Drives a run, and decides through its handle on the calls that wait.
async fn decided_by<T>(
    handle: RunHandle,
    world: &World,
    decided: &Mutex<Option<ApprovalDecisions>>,
    run: impl Future<Output = T>,
) -> T {
    let person = async {
        for _ in 0..10_000 {
            if let Some(pending) = handle.pending() {
                world.note(Feature::Approval);
                let decisions = decisions(&pending);
                *decided.lock().unwrap() = Some(decisions.clone());
                handle.decide(decisions).expect("the calls wait");
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    match select(pin!(run), pin!(person)).await {
        Either::Left((ended, _)) => ended,
        Either::Right(_) => panic!("the run waits for ever"),
    }
}

/// Polls a future to its end, or returns `None` after `most` polls.
async fn polled<F: Future + Unpin>(most: Option<usize>, mut future: F) -> Option<F::Output> {
    let mut polls = 0;
    poll_fn(|cx| match pin!(&mut future).poll(cx) {
        Poll::Ready(output) => Poll::Ready(Some(output)),
        Poll::Pending => {
            polls += 1;
            if most == Some(polls) { Poll::Ready(None) } else { Poll::Pending }
        }
    })
    .await
}

/// Compares messages with the expected ones. After an interruption, calls may have results of the loop.
fn is_like(messages: &[&Message], expected: &[&Expected], is_interrupted: bool) -> Checked {
    for (index, expected) in expected.iter().enumerate() {
        let Some(message) = messages.get(index) else {
            return Err(format!("message {index} is missing: {expected:?}"));
        };
        let is_same = match expected {
            Expected::Message(expected) => {
                let content = message.content.iter().filter(|block| !is_metadata(block));
                message.role == expected.role && content.eq(&expected.content)
            }
            Expected::Results(results) => {
                message.content.len() == results.len()
                    && message.content.iter().zip(results).all(|(block, (id, fate))| {
                        block.as_tool_result_id() == Some(id)
                            && (has_fate(block, fate)
                                || is_interrupted && written_by_loop(block).is_some())
                    })
            }
        };
        if !is_same {
            return Err(format!("message {index}\n is: {message:?}\nnot: {expected:?}"));
        }
    }
    match messages.get(expected.len()) {
        None => Ok(()),
        Some(other) => Err(format!("message {} must not be: {other:?}", expected.len())),
    }
}

/// Returns `true` for the block in which a router names the route of a response.
fn is_metadata(block: &ContentBlock) -> bool {
    matches!(block, ContentBlock::Raw { provider, .. } if provider == "neuron")
}

fn has_fate(block: &ContentBlock, fate: &Fate) -> bool {
    let ContentBlock::ToolResult { content, is_error, .. } = block else { return false };
    let text: Vec<String> = content.iter().map(ContentItem::to_string).collect();
    let text = text.join("");
    match fate {
        Fate::Result(expected) => !is_error && text == *expected,
        Fate::Accepted => !is_error && text == "The output is accepted.",
        Fate::Found => !is_error && text.contains("rare"),
        Fate::Denied => *is_error && text == "permission denied: no",
        Fate::Refused => *is_error,
        Fate::Limited => written_by_loop(block).is_some(),
    }
}
