//! A conversation that uses several features of a run, and the expected messages. Nothing fails in it except what a
//! feature makes fail, so the expected messages follow from the plan alone.

use std::collections::BTreeSet;

use neuron_types::{CALL_TOOL, ContentBlock, Message, OutputMode, Role, SEARCH_TOOLS, StopReason};
use serde_json::{Value, json};

use crate::model::case::{Way, tool_use};
use crate::model::random::Random;

/// A feature of a run. The test counts a feature in a case only if it had an effect there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Feature {
    /// A run starts with `Start::Continue`, after its message was pushed.
    Continue,
    /// A run is dropped between two polls, and then continued.
    Drop,
    Store,
    /// A write to the storage fails, before or after it took effect.
    FailingStorage,
    /// The conversation is forked before an earlier message, and goes on with another one.
    ForkAndEdit,
    DurableEngine,
    SubAgent,
    Approval,
    EarlyTools,
    /// A layer answers a model call itself.
    LayerAnswers,
    /// A layer changes a response.
    LayerChanges,
    Steering,
    TypedOutput,
    /// A limit ends a run.
    Limits,
    Budget,
    DeferredTools,
    Router,
    Streaming,
    Detaching,
    /// The model uses the same call ids in each response.
    RepeatedIds,
}

pub(crate) const FEATURES: [Feature; 20] = [
    Feature::Continue,
    Feature::Drop,
    Feature::Store,
    Feature::FailingStorage,
    Feature::ForkAndEdit,
    Feature::DurableEngine,
    Feature::SubAgent,
    Feature::Approval,
    Feature::EarlyTools,
    Feature::LayerAnswers,
    Feature::LayerChanges,
    Feature::Steering,
    Feature::TypedOutput,
    Feature::Limits,
    Feature::Budget,
    Feature::DeferredTools,
    Feature::Router,
    Feature::Streaming,
    Feature::Detaching,
    Feature::RepeatedIds,
];

#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) features: BTreeSet<Feature>,
    pub(crate) runs: Vec<RunPlan>,
    /// Before the first run, the conversation is forked at the start of the second run. Both are indexes.
    pub(crate) fork: Option<(usize, usize)>,
    pub(crate) way: Way,
    pub(crate) parallel: bool,
    /// Set if a run waits for approvals that arrive through its handle. Otherwise it ends, and is resumed.
    pub(crate) waits: bool,
    /// Set if the conversation is stored after a failed write, before the run continues.
    pub(crate) heals: bool,
    /// Set if each run is made by a process that loads the conversation from the storage.
    pub(crate) reloads: bool,
    pub(crate) max_turns: Option<usize>,
    pub(crate) most_calls: Option<usize>,
    pub(crate) output: Option<OutputMode>,
    /// The run that is dropped, and the number of polls before.
    pub(crate) dropped: Option<(usize, usize)>,
    /// The write that fails, and whether it fails before it takes effect.
    pub(crate) failing_write: Option<(usize, bool)>,
}

#[derive(Debug)]
pub(crate) struct RunPlan {
    /// The calls of each response before the last one.
    pub(crate) turns: Vec<Vec<Call>>,
    pub(crate) steered: Option<Steered>,
    /// The turn that a layer answers.
    pub(crate) answered: Option<usize>,
    /// The turn whose response a layer changes.
    pub(crate) changed: Option<usize>,
    pub(crate) continues: bool,
}

/// The time at which a message is sent to a run.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Steered {
    /// Before the run is polled.
    First,
    /// During the call with this number.
    Call(u64),
    /// While the model makes its first final response.
    Last,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Call {
    pub(crate) number: u64,
    pub(crate) tool: Tool,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Tool {
    Act,
    /// A sub-agent, which calls `act` itself.
    Team,
    /// The search for deferred tools.
    Search,
    /// A deferred tool.
    Rare,
}

/// Difference between the number of a sub-agent's call and the number of the call that runs the sub-agent.
pub(crate) const INNER: u64 = 1_000;

/// The response of the model at one place of a conversation.
pub(crate) struct Answer {
    /// The run and the turn. `None` in the conversation of a sub-agent.
    pub(crate) place: Option<(usize, usize)>,
    pub(crate) is_final: bool,
    pub(crate) message: Message,
    pub(crate) stop_reason: StopReason,
}

impl Plan {
    pub(crate) fn new(seed: u64) -> Self {
        let mut random = Random::new(seed ^ 0x5eed_0000_0000_0000);
        let random = &mut random;
        let chance = |feature: &Feature| match feature {
            // These end or interrupt runs, so that the rest of the case is compared less strictly.
            Feature::Drop | Feature::FailingStorage | Feature::Limits => 20,
            _ => 35,
        };
        let mut features: BTreeSet<Feature> =
            FEATURES.into_iter().filter(|feature| random.percent(chance(feature))).collect();
        if features.contains(&Feature::FailingStorage) {
            features.insert(Feature::Store);
        }
        if features.contains(&Feature::EarlyTools) && random.percent(70) {
            // Otherwise no call starts early.
            features.remove(&Feature::DurableEngine);
            features.insert(Feature::Streaming);
        }
        let has = |feature: Feature| features.contains(&feature);
        let mut number = 0;
        let count = if has(Feature::ForkAndEdit) { 3 } else { 1 + random.below(3) };
        let runs: Vec<RunPlan> =
            (0..count).map(|_| RunPlan::new(&features, &mut number, random)).collect();
        let by_turns = random.percent(50);
        let limits = has(Feature::Limits);
        let modes = [OutputMode::Tool, OutputMode::Native, OutputMode::Prompt];
        Self {
            fork: has(Feature::ForkAndEdit).then(|| {
                let before = 1 + random.below(2);
                (before, random.below(before))
            }),
            way: match has(Feature::Streaming) {
                true => Way::Stream,
                false => random.one_of(&[Way::Run, Way::Step]),
            },
            parallel: random.percent(50),
            waits: random.percent(50),
            heals: random.percent(50),
            reloads: random.percent(50),
            max_turns: (limits && by_turns).then(|| 1 + random.below(3)),
            most_calls: (limits && !by_turns).then(|| random.below(3)),
            output: has(Feature::TypedOutput).then(|| random.one_of(&modes)),
            dropped: has(Feature::Drop).then(|| (random.below(count), 1 + random.below(12))),
            failing_write: has(Feature::FailingStorage)
                .then(|| (random.below(8), random.percent(50))),
            runs,
            features,
        }
    }

    pub(crate) fn has(&self, feature: Feature) -> bool {
        self.features.contains(&feature)
    }

    /// Returns `true` if a person must approve the call.
    pub(crate) fn asks(&self, number: u64) -> bool {
        self.has(Feature::Approval) && number % 3 == 1
    }

    /// Returns `true` if a person denies the call.
    pub(crate) fn denies(number: u64) -> bool {
        number.is_multiple_of(2)
    }

    /// Returns the response of the model to these messages. A response depends on nothing else, so that a model call can
    /// be made again.
    pub(crate) fn answer(&self, messages: &[Message]) -> Answer {
        let is_task = |message: &Message| {
            let text = message.text();
            message.role == Role::User && (text.starts_with("run ") || text.starts_with("task "))
        };
        let at = messages.iter().rposition(is_task).expect("a conversation has a task");
        let turn = messages[at..].iter().filter(|it| it.role == Role::Assistant).count();
        let text = messages[at].text();
        let (kind, number) = text.split_once(' ').expect("a task has a number");
        let number: u64 = number.parse().expect("a task has a number");
        if kind == "task" {
            return self.answer_of_sub_agent(number, turn);
        }
        let run = number as usize;
        let message = self.message(run, turn);
        let has_calls = message.tool_uses().next().is_some();
        Answer {
            place: Some((run, turn)),
            is_final: turn >= self.runs[run].turns.len(),
            message,
            stop_reason: if has_calls { StopReason::ToolUse } else { StopReason::EndTurn },
        }
    }

    fn answer_of_sub_agent(&self, number: u64, turn: usize) -> Answer {
        let call = Call { number: number + INNER, tool: Tool::Act };
        let (message, stop_reason) = match turn {
            0 => {
                let content = vec![self.tool_use(0, &call)];
                (Message { role: Role::Assistant, content }, StopReason::ToolUse)
            }
            _ => (Message::assistant(format!("team {number}")), StopReason::EndTurn),
        };
        Answer { place: None, is_final: turn > 0, message, stop_reason }
    }

    fn tool_use(&self, position: usize, call: &Call) -> ContentBlock {
        let number = json!({ "number": call.number });
        let (name, input) = match call.tool {
            Tool::Act => ("act", number),
            Tool::Team => ("team", json!({ "prompt": format!("task {}", call.number) })),
            Tool::Search => (SEARCH_TOOLS, json!({ "query": "rare" })),
            Tool::Rare => (CALL_TOOL, json!({ "name": "rare", "arguments": number })),
        };
        tool_use(&self.id(position, &call.number.to_string()), name, input)
    }

    fn id(&self, position: usize, unique: &str) -> String {
        match self.has(Feature::RepeatedIds) {
            true => format!("c{position}"),
            false => format!("call-{unique}"),
        }
    }

    /// Returns the message of the model in a turn of a run.
    fn message(&self, run: usize, turn: usize) -> Message {
        let Some(calls) = self.runs[run].turns.get(turn) else {
            return self.last_message(run, turn);
        };
        let calls = calls.iter().enumerate().map(|(at, call)| self.tool_use(at, call));
        Message { role: Role::Assistant, content: calls.collect() }
    }

    fn last_message(&self, run: usize, turn: usize) -> Message {
        let output = json!({ "number": run });
        match self.output {
            Some(OutputMode::Tool) => {
                let id = self.id(0, &format!("output-{run}-{turn}"));
                let content = vec![tool_use(&id, "final_output", output)];
                Message { role: Role::Assistant, content }
            }
            Some(_) => Message::assistant(output.to_string()),
            None => Message::assistant(format!("answer {run}")),
        }
    }
}

impl RunPlan {
    fn new(features: &BTreeSet<Feature>, number: &mut u64, random: &mut Random) -> Self {
        let has = |feature: Feature| features.contains(&feature);
        let mut next = |tool: Tool| {
            *number += 1;
            Call { number: *number, tool }
        };
        let mut turns: Vec<Vec<Call>> = Vec::new();
        for _ in 0..random.weighted(&[(20, 0), (50, 1), (30, 2)]) {
            let calls = 1 + random.below(3);
            let tool = |random: &mut Random| match has(Feature::SubAgent) && random.percent(40) {
                true => Tool::Team,
                false => Tool::Act,
            };
            turns.push((0..calls).map(|_| next(tool(random))).collect());
        }
        if has(Feature::DeferredTools) {
            if random.percent(60) {
                turns.push(vec![next(Tool::Search)]);
            }
            // Without a search before, the tool must not run.
            if random.percent(80) {
                turns.push(vec![next(Tool::Rare), next(Tool::Act)]);
            }
        }
        let acts: Vec<u64> = turns
            .iter()
            .flatten()
            .filter(|call| call.tool == Tool::Act)
            .map(|call| call.number)
            .collect();
        let mut steered = vec![Steered::First, Steered::Last];
        if !acts.is_empty() {
            steered.extend([Steered::Call(random.one_of(&acts)); 2]);
        }
        let steered = has(Feature::Steering).then(|| random.one_of(&steered));
        // The model does not make a response that a layer makes, so it sends no message then.
        let last = turns.len() + usize::from(steered != Some(Steered::Last));
        let answered = has(Feature::LayerAnswers) && last > 0;
        let changed = has(Feature::LayerChanges) && !turns.is_empty();
        Self {
            steered,
            answered: answered.then(|| random.below(last)),
            changed: changed.then(|| random.below(turns.len())),
            continues: has(Feature::Continue) && random.percent(70),
            turns,
        }
    }
}

/// An expected message of the conversation.
#[derive(Debug, Clone)]
pub(crate) enum Expected {
    Message(Message),
    /// The results of the calls with these ids.
    Results(Vec<(String, Fate)>),
}

/// The expected result of a call.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Fate {
    Result(String),
    Denied,
    /// The output of a typed run, or the result of a search.
    Accepted,
    Found,
    /// The tool was not offered.
    Refused,
    /// A limit prevents the call.
    Limited,
}

/// What a run is expected to do.
#[derive(Debug, Default)]
pub(crate) struct ExpectedRun {
    /// Set if a limit ends the run.
    pub(crate) is_limited: bool,
    pub(crate) turns: usize,
    /// Model calls of the run, and of its sub-agents.
    pub(crate) requests: usize,
    /// Calls that count for limits, in the run and its sub-agents.
    pub(crate) counted: usize,
    /// Numbers of the calls that run.
    pub(crate) begun: Vec<u64>,
}

/// The text of the message that is sent to a run.
pub(crate) fn steered_text(run: usize) -> String {
    format!("steered {run}")
}

/// Adds the messages of a run to the expected history.
pub(crate) fn expect(plan: &Plan, run: usize, history: &mut Vec<Expected>) -> ExpectedRun {
    let mut seen = ExpectedRun::default();
    let of_run = &plan.runs[run];
    history.push(Expected::Message(Message::user(format!("run {run}"))));
    let mut sent = of_run.steered == Some(Steered::First);
    let mut is_sent_last = false;
    let mut of_limit = 0;
    loop {
        if std::mem::take(&mut sent) {
            history.push(Expected::Message(Message::user(steered_text(run))));
        }
        if plan.max_turns.is_some_and(|most| seen.turns >= most) {
            seen.is_limited = true;
            return seen;
        }
        let turn = seen.turns;
        let calls = of_run.turns.get(turn);
        let mut message = plan.message(run, turn);
        if of_run.changed == Some(turn) {
            message.content.push(changed());
        }
        seen.turns += 1;
        seen.requests += usize::from(of_run.answered != Some(turn));
        let ids: Vec<String> = message.tool_uses().map(|call| call.id.to_owned()).collect();
        history.push(Expected::Message(message));
        let Some(calls) = calls else {
            if !ids.is_empty() {
                history.push(Expected::Results(
                    ids.into_iter().map(|id| (id, Fate::Accepted)).collect(),
                ));
            }
            if of_run.steered == Some(Steered::Last) && !std::mem::replace(&mut is_sent_last, true)
            {
                sent = true;
                continue;
            }
            return seen;
        };
        if plan.most_calls.is_some_and(|most| of_limit + calls.len() > most) {
            history
                .push(Expected::Results(ids.into_iter().map(|id| (id, Fate::Limited)).collect()));
            seen.is_limited = true;
            return seen;
        }
        let mut results = Vec::new();
        for (id, call) in ids.into_iter().zip(calls) {
            let fate = fate(plan, call, history, &mut seen);
            of_limit += usize::from(fate != Fate::Denied);
            seen.counted += usize::from(fate != Fate::Denied);
            results.push((id, fate));
            sent |= of_run.steered == Some(Steered::Call(call.number))
                && seen.begun.contains(&call.number);
        }
        history.push(Expected::Results(results));
    }
}

/// Returns the expected result of a call.
fn fate(plan: &Plan, call: &Call, history: &[Expected], seen: &mut ExpectedRun) -> Fate {
    let is_found = |message: &Expected| match message {
        Expected::Results(results) => results.iter().any(|(_, fate)| *fate == Fate::Found),
        Expected::Message(_) => false,
    };
    match call.tool {
        Tool::Search => Fate::Found,
        Tool::Rare if !history.iter().any(is_found) => Fate::Refused,
        Tool::Team => {
            let inner = call.number + INNER;
            if !(plan.asks(inner) && Plan::denies(inner)) {
                seen.begun.push(inner);
                seen.counted += 1;
            }
            seen.requests += 2;
            Fate::Result(format!("team {}", call.number))
        }
        Tool::Act | Tool::Rare => {
            if plan.asks(call.number) && Plan::denies(call.number) {
                return Fate::Denied;
            }
            seen.begun.push(call.number);
            Fate::Result(format!("out {}", call.number))
        }
    }
}

/// The block that a layer adds to a response.
pub(crate) fn changed() -> ContentBlock {
    ContentBlock::Text("changed".into())
}

/// Returns the number in the arguments of a call.
pub(crate) fn number(input: &Value) -> u64 {
    input["number"].as_u64().expect("a call has a number")
}
