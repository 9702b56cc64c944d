//! The data of a test case, which has scripted responses of the model, a configuration and an interruption. The module
//! `generator` creates cases, and `parts` builds an agent for a case. The module `reference` computes the expected
//! outcome.

use std::time::Duration;

use neuron_types::{
    ApprovalDecisions, CompletionResponse, ContentBlock, ContextError, DurableError, Message,
    PendingCall, ProviderError, Role, Start, StopReason, StreamEvent, TokenUsage, ToolOutput,
    UsageLimits, message_events,
};
use serde_json::{Value, json};

use crate::model::shared_budget::Shared;

/// A test case.
#[derive(Debug, Clone)]
pub(crate) struct Case {
    pub(crate) config: Config,
    pub(crate) script: Vec<Reply>,
    /// The user messages that start the first and the second run of the case.
    pub(crate) messages: [Message; 2],
    pub(crate) interruption: Interruption,
    /// The reactions to the pauses for an approval, one per pause, in order.
    pub(crate) answers: Vec<Answering>,
    /// Names of tools that are declared pure in an additional run. Their calls may start while the response is still
    /// streaming. `None` skips this run.
    pub(crate) early: Option<Vec<&'static str>>,
    /// The way in which the second run gets the conversation of the first.
    pub(crate) reuse: Reuse,
    /// A budget that two agents share in separate runs. `None` skips these runs.
    pub(crate) shared: Option<Shared>,
    /// Set if the runs store the conversation in a session.
    pub(crate) stores: bool,
}

/// The start of a run, or its continuation after a pause for an approval.
#[derive(Debug, Clone)]
pub(crate) enum Begin {
    Message(Message),
    Decisions(ApprovalDecisions),
    /// Any other start, such as the snapshot from which a durable engine begins a new execution.
    Start(Start),
}

/// The three ways to run an agent.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Way {
    Run,
    Stream,
    Step,
}

pub(crate) const WAYS: [Way; 3] = [Way::Run, Way::Stream, Way::Step];

/// The configuration of the agent.
#[derive(Debug, Clone)]
pub(crate) struct Config {
    pub(crate) max_turns: Option<usize>,
    pub(crate) limits: Option<UsageLimits>,
    pub(crate) parallel: bool,
    /// Maximum number of concurrent tool calls.
    pub(crate) most_at_once: Option<usize>,
    /// Set if failures of tools are results for the model. Otherwise a failure ends the run.
    pub(crate) returns_errors: bool,
    pub(crate) retry_limit: Option<usize>,
    /// Set if a policy decides on calls. It denies some, and requires an approval for others.
    pub(crate) has_policy: bool,
    /// Set if the run waits for approvals. The policy then requires approvals for more calls.
    pub(crate) pauses: bool,
    /// Number of tool calls after which the stop condition ends the run. `None` if there is no stop condition.
    pub(crate) stops_after: Option<usize>,
    /// The tool `look` is not offered in every n-th turn, where n is this value. `None` if it is always offered.
    pub(crate) hides_every: Option<usize>,
    /// Set if a run that reached a limit makes one last model call.
    pub(crate) finalizes: bool,
    /// Set if a run that is cancelled still finishes its current turn.
    pub(crate) cancels_after_turn: bool,
    pub(crate) retries: usize,
    /// Time that running calls have after another call has failed, in milliseconds. Never equal to the duration of a
    /// tool.
    pub(crate) grace: u64,
    pub(crate) hooks: Vec<Vec<Rule>>,
    /// The guards of the hooks, in the same order. A guard checks texts and can reject them. Empty if no hook checks
    /// texts.
    pub(crate) guards: Vec<Guard>,
    pub(crate) strategy: Strategy,
    /// The intervals of the injectors. For each number n, an injector adds a text in every n-th turn.
    pub(crate) reminders: Vec<usize>,
    pub(crate) engine: Option<Engine>,
    /// Messages of an earlier conversation, with which the agent starts. They may be an invalid history.
    pub(crate) history: Vec<Message>,
    /// Number of times that the reader of a stream returns `Poll::Pending` before each event.
    pub(crate) slow_reader: usize,
    /// Set if hooks return `Poll::Pending` before they answer.
    pub(crate) slow_hooks: bool,
}

/// A check of texts by a hook. If the check fails, the run ends. `rejects_text` and `rejects_results` then select
/// whether the rejected text and tool results are removed. `holds_back` delays streamed text until the check.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Guard {
    pub(crate) rejects_text: bool,
    pub(crate) rejects_results: bool,
    pub(crate) holds_back: bool,
}

/// The action of a hook at the n-th event of a kind, counted from zero.
#[derive(Debug, Clone)]
pub(crate) struct Rule {
    pub(crate) event: &'static str,
    pub(crate) nth: usize,
    pub(crate) deed: Deed,
}

/// The action of a hook.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Deed {
    Skip,
    Terminate,
    Fail,
    /// Sends a message to the run through its handle.
    Steer,
}

/// The way in which the second run gets the conversation of the first.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Reuse {
    Kept,
    /// The conversation is stored as JSON and read again.
    Stored,
    /// The conversation is written into a session, which is stored as JSON and read again.
    Session,
    /// Another agent with the same configuration continues the conversation.
    OtherAgent,
}

/// The kinds of hook events and guard checks. Each kind is the first word of its log lines.
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

/// A context strategy that counts ten tokens per message.
#[derive(Debug, Clone)]
pub(crate) struct Strategy {
    /// Compacts histories with more messages than this.
    pub(crate) above: usize,
    pub(crate) how: Compaction,
    pub(crate) usage: TokenUsage,
    /// Index of the compaction that fails, and the kind of failure.
    pub(crate) failure: Option<(usize, StrategyFault)>,
}

/// The effect of a compaction.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Compaction {
    /// Keeps the first message and the last n messages. The history is often invalid afterwards.
    Cut(usize),
    /// Removes the first two messages. The history is invalid afterwards if they contain calls.
    Behead,
    Nothing,
    /// Adds a message, so that the history is longer than before.
    Longer,
    /// Removes all messages except system messages.
    OnlySystem,
}

/// The failure of a compaction.
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
            Compaction::Longer => messages.insert(0, Message::user("what was said before")),
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

/// The configuration of a durable context in memory, including its planned failures.
#[derive(Debug, Clone, Default)]
pub(crate) struct Engine {
    /// Set if the durable context runs the calls of a batch concurrently.
    pub(crate) joins: bool,
    /// Index of the model call that fails in the durable engine, before it reaches the provider, and the failure.
    pub(crate) failing_call: Option<(usize, EngineFault)>,
    /// Index of the batch of tool calls for which the engine returns one result too few.
    pub(crate) short_batch: Option<usize>,
    /// The loop asks the engine repeatedly whether to continue as a new execution. The number is the index of the
    /// question that the engine answers with yes. The loop then calls `continue_as_new`.
    ///
    /// The flag selects the result of this call. If it is `true`, the call ends the execution with
    /// `DurableError::ContinueAsNew`. If it is `false`, the call does nothing, and the same execution continues.
    pub(crate) continues: Option<(usize, bool)>,
    /// Number of turns in each execution. After this number of turns, the run continues as a new execution.
    pub(crate) every: Option<usize>,
    /// Set if decisions reach the run through a signal.
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

/// The reaction of the provider to one model call.
#[derive(Debug, Clone)]
#[expect(
    clippy::large_enum_variant,
    reason = "a case has few replies, and most of them are answers"
)]
pub(crate) enum Reply {
    Answers(Answer),
    Fails { fault: ProviderFault, waits: usize },
}

#[derive(Debug, Clone)]
pub(crate) struct Answer {
    pub(crate) message: Message,
    pub(crate) stop_reason: StopReason,
    pub(crate) usage: TokenUsage,
    /// Number of times that the provider returns `Poll::Pending` before it answers, and before each event of a stream.
    pub(crate) waits: usize,
    /// Delay before the first event, in milliseconds.
    pub(crate) sleeps: u64,
    /// Set if the stream ends after the event with the message, without the final event that contains the complete
    /// response.
    pub(crate) without_response: bool,
    /// Number of events after which the stream breaks, and the kind of break.
    pub(crate) breaks: Option<(usize, Break)>,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Break {
    /// The stream ends without an error.
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

    /// Returns the events of the stream, up to the break.
    pub(crate) fn pieces(&self) -> Vec<StreamEvent> {
        let mut pieces = Vec::new();
        for event in message_events(&self.message) {
            match event {
                StreamEvent::TextDelta(text) if text.len() > 3 => {
                    let (head, tail) = text.split_at(3);
                    pieces.push(StreamEvent::TextDelta(head.into()));
                    pieces.push(StreamEvent::TextDelta(tail.into()));
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

/// The actions of a tool. The argument `does` of a call selects one of them.
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

/// The arguments of a tool call, as the tools of this test understand them.
#[derive(Debug, Clone)]
pub(crate) struct Order {
    /// Number that identifies the call in its test case.
    pub(crate) number: u64,
    /// Duration of the call, in milliseconds.
    pub(crate) delay: u64,
    pub(crate) deed: String,
}

impl Order {
    /// Parses the arguments of a call. Missing or invalid fields get default values, and the default action is `ok`.
    pub(crate) fn read(input: &Value) -> Self {
        Self {
            number: input["number"].as_u64().unwrap_or(u64::MAX),
            delay: input["delay"].as_u64().unwrap_or(0),
            deed: input["does"].as_str().unwrap_or("ok").to_owned(),
        }
    }
}

/// The interruption of one of the runs.
#[derive(Debug, Clone)]
pub(crate) struct Interruption {
    pub(crate) way: Way,
    pub(crate) how: How,
    /// Selects the [`Place`] of the interruption, as a fraction in thousandths of all places that the run passes. If
    /// the run passes this place several times, `nth` selects one of these times in the same way.
    pub(crate) place: usize,
    pub(crate) nth: usize,
    /// Pauses for approvals split a run into parts. This fraction in thousandths selects the part to interrupt.
    pub(crate) part: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum How {
    /// The run is cancelled from outside while it waits.
    Cancel,
    /// The future or stream is dropped while the run waits.
    Drop,
    /// The future of a step is dropped while the run waits, and the next step is requested.
    DropStep,
    /// A part of the agent panics.
    Panic,
    /// A part of the agent cancels the run.
    CancelWithin,
    /// The run is cancelled before it begins.
    CancelBefore,
}

/// The part of the agent, or its reader, in which a run waits or an interruption can happen.
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

/// The reaction to a run that waits for an approval.
#[derive(Debug, Clone)]
pub(crate) struct Answering {
    /// Invalid decisions that are sent first.
    pub(crate) wrong: Option<Wrong>,
    pub(crate) route: Route,
    /// Decisions for the pending calls, in the order of the calls. If there are more calls, the list is repeated from
    /// its start.
    pub(crate) decisions: Vec<Decision>,
}

/// The way in which a waiting run continues.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Route {
    SameAgent,
    /// A new agent continues the run from the stored state.
    Restored,
    /// The run does not continue. Another run begins.
    AnotherRun,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Decision {
    Approve,
    Edit,
    /// An approval with edited arguments that the policy denies.
    EditToDenied,
    Deny,
    Supply,
    /// No decision, so the call stays pending.
    Leave,
}

/// The way in which invalid decisions do not match the pending calls.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Wrong {
    UnknownCall,
    /// The same place in the conversation, and other arguments.
    OtherCall,
    Undecided,
    NotNested,
    InvalidInput,
}

impl Answering {
    pub(crate) fn decisions(&self, pending: &[PendingCall]) -> ApprovalDecisions {
        let mut decided = ApprovalDecisions::new();
        for (PendingCall { approval_id: id, call, .. }, decision) in
            pending.iter().zip(self.decisions.iter().cycle())
        {
            let order = Order::read(&call.input);
            decided = match decision {
                Decision::Approve => decided.approve(id),
                Decision::Edit => decided.approve_edited(id, order.edited(order.edits()[0])),
                Decision::EditToDenied => {
                    decided.approve_edited(id, order.edited(order.edits()[1]))
                }
                Decision::Deny => decided.deny(id, "I said no"),
                Decision::Supply => decided.supply(id, supplied(&order)),
                Decision::Leave => decided.partial(),
            };
        }
        decided
    }
}

/// Returns the tool result that a person gives instead of an approval. The call then does not run.
fn supplied(order: &Order) -> ToolOutput {
    ToolOutput {
        structured_content: Some(json!("supplied")),
        ..ToolOutput::text(format!("supplied for {}", order.delay))
    }
}

impl Wrong {
    pub(crate) fn decisions(self, pending: &[PendingCall]) -> ApprovalDecisions {
        let all = pending.iter().fold(ApprovalDecisions::new(), |decided, pending| {
            decided.approve(&pending.approval_id)
        });
        let Some(PendingCall { approval_id: id, .. }) = pending.last() else { return all };
        match self {
            Self::UnknownCall => all.approve("nobody's"),
            Self::OtherCall => {
                let (place, digest) = id.rsplit_once('-').expect("an approval id");
                all.approve(&format!("{place}-{}", digest.chars().rev().collect::<String>()))
            }
            Self::Undecided => {
                pending[1..].iter().fold(ApprovalDecisions::new(), |decided, pending| {
                    decided.deny(&pending.approval_id, "")
                })
            }
            Self::NotNested => all.nested(id, ApprovalDecisions::new()),
            Self::InvalidInput => {
                all.approve_edited(id, json!({ "number": 2_000 + UNFIT - 2_000 % SEVEN }))
            }
        }
    }
}

const SEVEN: u64 = 7;
const UNFIT: u64 = 6;

/// Returns `true` if the tools accept these arguments when they check them before an approval is requested.
pub(crate) fn fits(input: &Value) -> bool {
    Order::read(input).number % SEVEN != UNFIT
}

/// The decision of the policy on a tool call.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Judgement {
    Allow,
    Deny,
    Ask,
    Panic,
}

impl Judgement {
    /// Returns the decision of the permission policy on a call with the arguments `input`. If `pauses` is set, more
    /// calls require an approval.
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
    /// Returns two numbers with which an approval can edit the arguments of this call. With the first number, the tools
    /// and the policy act as for the original number. With the second number, the policy denies the call.
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

    /// Returns the arguments of this call with another number. The number also selects the action.
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

/// Returns a block with a call of this id, name and arguments.
pub(crate) fn tool_use(id: &str, name: &str, input: Value) -> ContentBlock {
    ContentBlock::ToolUse { id: id.into(), name: name.into(), input }
}
