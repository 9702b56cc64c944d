//! What a case consists of: a script of the model's answers, a configuration and an interruption.
//! Plain data; `generator` makes it, `parts` act it out, `reference` says what must come of it.

use std::time::Duration;

use neuron_types::{
    ApprovalDecisions, CompletionResponse, ContentBlock, ContextError, DurableError, Message,
    PendingCall, ProviderError, Role, Start, StopReason, StreamEvent, TokenUsage, ToolOutput,
    UsageLimits, message_events,
};
use serde_json::{Value, json};

use crate::shared_budget::Shared;

#[derive(Debug, Clone)]
pub(crate) struct Case {
    pub(crate) config: Config,
    pub(crate) script: Vec<Reply>,
    /// What the user says: the first run's message and the next's.
    pub(crate) messages: [Message; 2],
    pub(crate) interruption: Interruption,
    /// What is decided at each pause for an approval.
    pub(crate) answers: Vec<Answering>,
    /// Tools that only read, which may start while the answer streams; tried in a run of its own.
    pub(crate) early: Option<Vec<&'static str>>,
    /// What becomes of the conversation between two runs.
    pub(crate) reuse: Reuse,
    /// A budget that two agents share, in runs of their own.
    pub(crate) shared: Option<Shared>,
    /// Whether the runs store the conversation as a session.
    pub(crate) stores: bool,
}

/// How a run begins, or goes on after a pause.
#[derive(Debug, Clone)]
pub(crate) enum Begin {
    Message(Message),
    Decisions(ApprovalDecisions),
    /// As an engine begins it, or goes on with it.
    Start(Start),
}

/// The three ways to run.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Way {
    Run,
    Stream,
    Step,
}

pub(crate) const WAYS: [Way; 3] = [Way::Run, Way::Stream, Way::Step];

#[derive(Debug, Clone)]
pub(crate) struct Config {
    pub(crate) max_turns: Option<usize>,
    pub(crate) limits: Option<UsageLimits>,
    pub(crate) parallel: bool,
    /// How many tools run at the same time.
    pub(crate) most_at_once: Option<usize>,
    /// Whether the model sees failures of tools, instead of ending the run.
    pub(crate) returns_errors: bool,
    pub(crate) retry_limit: Option<usize>,
    /// Whether a policy decides on calls: some it denies, some it would have a person asked.
    pub(crate) has_policy: bool,
    /// Whether the run waits for that person. Then the policy asks about more.
    pub(crate) pauses: bool,
    /// After so many tool calls the run stops.
    pub(crate) stops_after: Option<usize>,
    /// In every turn of so many the tool `look` is not offered.
    pub(crate) hides_every: Option<usize>,
    /// Whether a run that reached a limit makes one last call.
    pub(crate) finalizes: bool,
    /// Whether a run that is cancelled finishes its turn.
    pub(crate) cancels_after_turn: bool,
    pub(crate) retries: usize,
    /// In milliseconds; never what a tool takes.
    pub(crate) grace: u64,
    pub(crate) hooks: Vec<Vec<Rule>>,
    /// What each of them guards.
    pub(crate) guards: Vec<Guard>,
    pub(crate) strategy: Strategy,
    /// Injectors that speak every so many turns.
    pub(crate) reminders: Vec<usize>,
    pub(crate) engine: Option<Engine>,
    /// An earlier conversation, not always a valid one.
    pub(crate) history: Vec<Message>,
    /// How often the reader of a stream waits before each event.
    pub(crate) slow_reader: usize,
    /// Whether hooks wait.
    pub(crate) slow_hooks: bool,
}

/// What must not stay of the text on which a hook ends a run, and whether a stream waits for it.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Guard {
    pub(crate) rejects_text: bool,
    pub(crate) rejects_results: bool,
    pub(crate) holds_back: bool,
}

/// What a hook does at the n-th event of a kind.
#[derive(Debug, Clone)]
pub(crate) struct Rule {
    pub(crate) event: &'static str,
    pub(crate) nth: usize,
    pub(crate) deed: Deed,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Deed {
    Skip,
    Terminate,
    Fail,
    /// Sends the run a message.
    Steer,
}

/// What becomes of the conversation between two runs.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Reuse {
    Kept,
    /// It is stored as JSON and read again.
    Stored,
    /// It is written into a session, which is stored as JSON, and read from it.
    Session,
    /// Another agent that is built alike goes on with it.
    OtherAgent,
}

/// The kinds of events, which are the first words of their lines.
pub(crate) const EVENTS: [&str; 15] = [
    "GuardIn",
    "GuardOut",
    "SessionStart",
    "RunStart",
    "Turn",
    "PreLlm",
    "FirstChunk",
    "PostLlm",
    "LlmError",
    "PreTool",
    "PostTool",
    "ToolError",
    "Compacted",
    "RunEnd",
    "SessionEnd",
];

/// A strategy that counts ten tokens a message.
#[derive(Debug, Clone)]
pub(crate) struct Strategy {
    /// More messages than so many are compacted.
    pub(crate) above: usize,
    pub(crate) how: Compaction,
    pub(crate) usage: TokenUsage,
    /// Which of its calls fail, and how.
    pub(crate) failure: Option<(usize, StrategyFault)>,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Compaction {
    /// Keeps the first message and the last so many; often an invalid history.
    Cut(usize),
    /// Leaves the first two messages out: an invalid history, if there are calls.
    Behead,
    Nothing,
    /// Leaves system messages alone.
    OnlySystem,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum StrategyFault {
    Compaction,
    Provider,
    Setting,
    Durable,
}

impl StrategyFault {
    pub(crate) fn error(self) -> ContextError {
        match self {
            Self::Compaction => ContextError::CompactionFailed("no room".into()),
            Self::Provider => ProviderFault::Unavailable.error().into(),
            Self::Setting => ContextError::InvalidSetting("a window of 0".into()),
            Self::Durable => ProviderError::Other(Box::new(DurableError::SignalTimeout)).into(),
        }
    }
}

impl Strategy {
    pub(crate) fn compacted(&self, mut messages: Vec<Message>) -> Vec<Message> {
        let count = messages.len();
        match self.how {
            Compaction::Cut(keep) => drop(messages.drain(1..count.saturating_sub(keep).max(1))),
            Compaction::Behead => drop(messages.drain(..count.min(2))),
            Compaction::Nothing => {}
            Compaction::OnlySystem => {
                messages.retain(|message| message.role == Role::System);
                messages.push(Message::system("all that is left"));
            }
        }
        messages
    }

    pub(crate) fn estimate(messages: &[Message]) -> usize {
        messages.len() * 10
    }
}

/// A durable context in memory, and what goes wrong in it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Engine {
    /// Whether it runs a batch's calls together.
    pub(crate) joins: bool,
    /// Which call of the model fails in the engine itself.
    pub(crate) failing_call: Option<(usize, EngineFault)>,
    /// Which batch returns a result too few.
    pub(crate) short_batch: Option<usize>,
    /// Which time that it is asked it wants a new execution, and whether it says so by an error.
    pub(crate) continues: Option<(usize, bool)>,
    /// After how many turns it continues as a new execution, each time.
    pub(crate) every: Option<usize>,
    /// Whether a person's decisions reach the run by a signal.
    pub(crate) signals: bool,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum EngineFault {
    Activity,
    Cancelled,
    NonDeterminism,
}

impl EngineFault {
    pub(crate) fn error(self) -> DurableError {
        match self {
            Self::Activity => DurableError::ActivityFailed("the worker is gone".into()),
            Self::Cancelled => DurableError::Cancelled,
            Self::NonDeterminism => {
                DurableError::NonDeterminism { expected: "a".into(), got: "b".into() }
            }
        }
    }
}

/// What the provider does when it is called.
#[derive(Debug, Clone)]
pub(crate) enum Reply {
    Answers(Answer),
    Fails { fault: ProviderFault, waits: usize },
}

#[derive(Debug, Clone)]
pub(crate) struct Answer {
    pub(crate) message: Message,
    pub(crate) stop_reason: StopReason,
    pub(crate) usage: TokenUsage,
    /// How often it waits: before it answers, and before each event of a stream.
    pub(crate) waits: usize,
    /// In milliseconds, before it begins.
    pub(crate) sleeps: u64,
    /// Whether its stream ends with the message, without the whole response.
    pub(crate) without_response: bool,
    /// After how many events it breaks.
    pub(crate) breaks: Option<(usize, Break)>,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Break {
    /// The stream just ends.
    Ends,
    Fault(ProviderFault),
}

impl Break {
    pub(crate) fn error(self) -> ProviderError {
        match self {
            Self::Ends => {
                ProviderError::StreamError("the stream ended before the answer was complete".into())
            }
            Self::Fault(fault) => fault.error(),
        }
    }
}

impl Answer {
    pub(crate) fn response(&self) -> CompletionResponse {
        CompletionResponse {
            id: "r".into(),
            model: "m".into(),
            message: self.message.clone(),
            usage: self.usage.clone(),
            stop_reason: self.stop_reason.clone(),
        }
    }

    /// The pieces in which it comes, up to where it breaks.
    pub(crate) fn pieces(&self) -> Vec<StreamEvent> {
        let mut pieces = Vec::new();
        for event in message_events(&self.message) {
            match event {
                StreamEvent::TextDelta(text) if text.len() > 3 => {
                    let (head, tail) = text.split_at(3);
                    pieces.push(StreamEvent::TextDelta(head.into()));
                    pieces.push(StreamEvent::TextDelta(tail.into()));
                }
                StreamEvent::ToolUse { id, name, input } => {
                    pieces.push(StreamEvent::ToolUseStart { id: id.clone(), name: name.clone() });
                    let delta = input.to_string();
                    pieces.push(StreamEvent::ToolUseInputDelta { id: id.clone(), delta });
                    pieces.push(StreamEvent::ToolUseEnd { id: id.clone() });
                    pieces.push(StreamEvent::ToolUse { id, name, input });
                }
                event => pieces.push(event),
            }
        }
        if let Some((after, _)) = self.breaks {
            pieces.truncate(after);
        }
        pieces
    }
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum ProviderFault {
    Network,
    RateLimit,
    ModelLoading,
    Timeout,
    Unavailable,
    Authentication,
    InvalidRequest,
    ModelNotFound,
    Resources,
    Stream,
    Window,
    Other,
}

pub(crate) const PROVIDER_FAULTS: [ProviderFault; 12] = [
    ProviderFault::Network,
    ProviderFault::RateLimit,
    ProviderFault::ModelLoading,
    ProviderFault::Timeout,
    ProviderFault::Unavailable,
    ProviderFault::Authentication,
    ProviderFault::InvalidRequest,
    ProviderFault::ModelNotFound,
    ProviderFault::Resources,
    ProviderFault::Stream,
    ProviderFault::Window,
    ProviderFault::Other,
];

impl ProviderFault {
    pub(crate) fn error(self) -> ProviderError {
        match self {
            Self::Network => ProviderError::Network("reset".into()),
            Self::RateLimit => {
                ProviderError::RateLimit { retry_after: Some(Duration::from_secs(3)) }
            }
            Self::ModelLoading => ProviderError::ModelLoading("soon".into()),
            Self::Timeout => ProviderError::Timeout(Duration::from_secs(9)),
            Self::Unavailable => ProviderError::ServiceUnavailable("529".into()),
            Self::Authentication => ProviderError::Authentication("no key".into()),
            Self::InvalidRequest => ProviderError::InvalidRequest("too long".into()),
            Self::ModelNotFound => ProviderError::ModelNotFound("m".into()),
            Self::Resources => ProviderError::InsufficientResources("memory".into()),
            Self::Stream => ProviderError::StreamError("cut".into()),
            Self::Window => ProviderError::ContextWindowExceeded("too long".into()),
            Self::Other => ProviderError::Other("something".into()),
        }
    }
}

/// What a tool does, in the argument `does`.
pub(crate) const TOOL_DEEDS: [&str; 12] = [
    "ok",
    "error",
    "retry",
    "panic",
    "patient",
    "empty",
    "fail",
    "invalid",
    "denied",
    "lost",
    "cancelled",
    "image",
];

/// The arguments of a call that the test's tools understand.
#[derive(Debug, Clone)]
pub(crate) struct Order {
    /// Which call of the case it is.
    pub(crate) number: u64,
    /// How long it takes, in milliseconds.
    pub(crate) delay: u64,
    pub(crate) deed: String,
}

impl Order {
    /// Reads arguments; those that are no order ask for nothing in particular.
    pub(crate) fn read(input: &Value) -> Self {
        Self {
            number: input["number"].as_u64().unwrap_or(u64::MAX),
            delay: input["delay"].as_u64().unwrap_or(0),
            deed: input["does"].as_str().unwrap_or("ok").to_owned(),
        }
    }
}

/// What happens to one of the runs, in the middle.
#[derive(Debug, Clone)]
pub(crate) struct Interruption {
    pub(crate) way: Way,
    pub(crate) how: How,
    /// At which of the places that the run comes to, and which time it comes there; both in
    /// thousandths.
    pub(crate) place: usize,
    pub(crate) nth: usize,
    /// Which part of a run that pauses, in thousandths.
    pub(crate) part: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum How {
    /// Somebody outside cancels while it waits.
    Cancel,
    /// The future or stream is dropped while it waits.
    Drop,
    /// A step's future is dropped while it waits, and the next step is asked for.
    DropStep,
    /// A part panics.
    Panic,
    /// A part cancels the run.
    CancelWithin,
    /// The run is cancelled before it begins.
    CancelBefore,
}

/// Where a run waits, or something happens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Place {
    Provider,
    Stream,
    Tool,
    Hook,
    Strategy,
    Engine,
    Reader,
}

/// What is decided when a run waits for an approval.
#[derive(Debug, Clone)]
pub(crate) struct Answering {
    /// What is decided first by mistake.
    pub(crate) wrong: Option<Wrong>,
    pub(crate) route: Route,
    /// On the pending calls in their order, and then from the start again.
    pub(crate) decisions: Vec<Decision>,
}

/// How a run that waits goes on.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Route {
    SameAgent,
    /// In an agent that is built anew from the stored state.
    Restored,
    /// Not at all: another run begins.
    AnotherRun,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Decision {
    Approve,
    Edit,
    /// An edit that the policy denies.
    EditToDenied,
    Deny,
    Supply,
    /// None: it stays pending.
    Leave,
}

/// Decisions that do not fit.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Wrong {
    UnknownCall,
    Undecided,
    NotNested,
    InvalidInput,
}

impl Answering {
    pub(crate) fn decisions(&self, pending: &[PendingCall]) -> ApprovalDecisions {
        let mut decided = ApprovalDecisions::new();
        for (PendingCall { call, .. }, decision) in
            pending.iter().zip(self.decisions.iter().cycle())
        {
            let order = Order::read(&call.input);
            decided = match decision {
                Decision::Approve => decided.approve(&call.id),
                Decision::Edit => decided.approve_edited(&call.id, order.edited(order.edits()[0])),
                Decision::EditToDenied => {
                    decided.approve_edited(&call.id, order.edited(order.edits()[1]))
                }
                Decision::Deny => decided.deny(&call.id, "I said no"),
                Decision::Supply => decided.supply(&call.id, supplied(&order)),
                Decision::Leave => decided.partial(),
            };
        }
        decided
    }
}

/// A result that a person supplies.
fn supplied(order: &Order) -> ToolOutput {
    ToolOutput {
        structured_content: Some(json!("supplied")),
        ..ToolOutput::text(format!("supplied for {}", order.delay))
    }
}

impl Wrong {
    pub(crate) fn decisions(self, pending: &[PendingCall]) -> ApprovalDecisions {
        let all = pending
            .iter()
            .fold(ApprovalDecisions::new(), |decided, pending| decided.approve(&pending.call.id));
        let Some(PendingCall { call, .. }) = pending.last() else { return all };
        match self {
            Self::UnknownCall => all.approve("nobody's"),
            Self::Undecided => {
                pending[1..].iter().fold(ApprovalDecisions::new(), |decided, pending| {
                    decided.deny(&pending.call.id, "")
                })
            }
            Self::NotNested => all.nested(&call.id, ApprovalDecisions::new()),
            Self::InvalidInput => {
                all.approve_edited(&call.id, json!({ "number": 2_000 + UNFIT - 2_000 % SEVEN }))
            }
        }
    }
}

const SEVEN: u64 = 7;
const UNFIT: u64 = 6;

/// Whether the tools take these arguments, if they are asked before.
pub(crate) fn fits(input: &Value) -> bool {
    Order::read(input).number % SEVEN != UNFIT
}

/// What the policy thinks of a call.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Judgement {
    Allow,
    Deny,
    Ask,
    Panic,
}

impl Judgement {
    /// It decides by the number of the call.
    pub(crate) fn of(input: &Value, pauses: bool) -> Self {
        match Order::read(input).number % ELEVEN {
            3 => Self::Deny,
            1 => Self::Ask,
            2 => Self::Panic,
            4 | 6 | 8 | 10 if pauses => Self::Ask,
            _ => Self::Allow,
        }
    }
}

const ELEVEN: u64 = 11;

impl Order {
    /// The numbers that edited arguments have: one that is as before for tools and policy, and one
    /// that the policy denies.
    pub(crate) fn edits(&self) -> [u64; 2] {
        if self.number == u64::MAX {
            return [self.number; 2];
        }
        let allowed = self.number + SEVEN * ELEVEN * 13;
        let mut others = (1..=ELEVEN).map(|step| allowed + step * SEVEN);
        let is_denied =
            |number: &u64| Judgement::of(&json!({ "number": number }), true) == Judgement::Deny;
        [allowed, others.find(is_denied).expect("seven and eleven have no common divisor")]
    }

    /// Other arguments.
    fn edited(&self, number: u64) -> Value {
        let deed = match number % 5 {
            0 => "fail",
            1 => "error",
            2 => "retry",
            _ => "ok",
        };
        json!({ "number": number, "delay": self.delay, "does": deed, "edited": true })
    }
}

/// What a block says of a call, for tests: its id, name and arguments.
pub(crate) fn tool_use(id: &str, name: &str, input: Value) -> ContentBlock {
    ContentBlock::ToolUse { id: id.into(), name: name.into(), input }
}
