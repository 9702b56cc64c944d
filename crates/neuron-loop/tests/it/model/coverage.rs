//! Records the situations that the test cases covered, such as a kind of error or a pause. The test fails if too few
//! cases cover a required situation.

use std::collections::{BTreeMap, BTreeSet};

use crate::model::case::PROVIDER_FAULTS;
use crate::model::pairs;

/// Number of cases in which each situation occurred, by the name of the situation.
#[derive(Debug, Default)]
pub(crate) struct Coverage(BTreeMap<String, usize>);

impl Coverage {
    pub(crate) fn add(&mut self, seen: BTreeSet<String>) {
        for example in seen {
            *self.0.entry(example).or_default() += 1;
        }
    }

    pub(crate) fn merge(&mut self, other: Self) {
        for (example, count) in other.0 {
            *self.0.entry(example).or_default() += count;
        }
    }

    /// Returns the required situations that occurred in fewer than `least` cases, each with its count.
    pub(crate) fn lacking(&self, least: usize) -> Vec<String> {
        let count = |example: &String| self.0.get(example).copied().unwrap_or(0);
        let lacks = |example: &String| count(example) < least;
        let line = |example: String| format!("{example}: {}", count(&example));
        required().into_iter().filter(lacks).map(line).collect()
    }

    pub(crate) fn table(&self) -> String {
        self.0.iter().map(|(example, count)| format!("{count:>8}  {example}\n")).collect()
    }
}

fn required() -> Vec<String> {
    let mut all: Vec<String> = Vec::new();
    let mut add = |start: &str, rest: &[&str]| {
        all.extend(rest.iter().map(|rest| format!("{start}{rest}")));
    };
    for stop in STOP_REASONS {
        add(&format!("answered: {stop} with "), &["0 calls", "1 calls", "2 calls"]);
        add("answer: ", &[stop]);
    }
    for fault in PROVIDER_FAULTS {
        add("provider: ", &[&format!("{fault:?}")]);
    }
    add("broken: ", &BREAKS);
    add("tool: ", &TOOLS);
    add("error: ", &ERRORS);
    add("hook: ", &HOOKS);
    add("compaction: ", &["shorter", "in vain", "repaired"]);
    add("engine: ", &ENGINE);
    add("returned to the model: ", &RETURNED);
    add("permission denied: ", &["not this one", "really?", "the permission policy failed"]);
    add("last call: ", &["MaxTurns", "UsageLimitExceeded"]);
    add("budget: ", &BUDGETS);
    add("executions: ", &["several", "two", "one", "a signal", "a signal and several", "nobody"]);
    add("early tools: ", &["true", "Cancelled true", "Dropped true"]);
    add("early tools, and trouble: ", &["true"]);
    add("approval: ", &APPROVALS);
    add("route: ", &["SameAgent", "Restored", "AnotherRun"]);
    add("wrong decisions: ", &["UnknownCall", "Undecided", "NotNested", "InvalidInput"]);
    add("paused ", &["in Run", "in Stream", "in Step", "twice", "more often"]);
    add("a resumed run: ", &["cancelled in", "dropped in", "step dropped in", "panic in"]);
    add("a resumed run: ", &["cancelled by"]);
    add("waits: ", &["no more", "as before", "as expected"]);
    add("rejected: ", &["input", "output", "message", "results", "a paused answer"]);
    add("reuse: ", &["Kept", "Stored", "Session", "OtherAgent"]);
    add("steered: ", &["before a turn", "after the last call"]);
    add("", &OTHERS);
    add("cancelled in ", &PLACES);
    add("dropped in ", &PLACES);
    add("step dropped in ", &["Provider", "Tool", "Hook", "Strategy", "Engine"]);
    add("cancelled by ", &["Provider", "Stream", "Tool", "Hook", "Strategy", "Engine"]);
    add("panic in ", &["Provider", "Stream", "Hook", "Strategy", "Engine"]);
    all.extend(pairs::all());
    all
}

const STOP_REASONS: [&str; 10] = [
    "EndTurn",
    "ToolUse",
    "MaxTokens",
    "StopSequence",
    "ContentFilter",
    "Compaction",
    "PauseTurn",
    "Refusal",
    "ContextWindowExceeded",
    "Other(\"new\")",
];

const PLACES: [&str; 7] = ["Provider", "Stream", "Tool", "Hook", "Strategy", "Engine", "Reader"];

const BREAKS: [&str; 7] = [
    "Ends",
    "Fault(Network)",
    "Ends in a stream after 0",
    "Ends in a stream after 1",
    "Ends in a stream after 2",
    "Fault(Stream) in a stream after 0",
    "Fault(Unavailable) in a stream after 2",
];

const TOOLS: [&str; 13] = [
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
    "unknown",
];

const ERRORS: [&str; 35] = [
    "Provider ContextWindowExceeded",
    "Provider Network",
    "Provider RateLimit",
    "Provider ModelLoading",
    "Provider Timeout",
    "Provider ServiceUnavailable",
    "Provider Authentication",
    "Provider InvalidRequest",
    "Provider ModelNotFound",
    "Provider InsufficientResources",
    "Provider StreamError",
    "Provider Other",
    "Tool NotFound",
    "Tool InvalidInput",
    "Tool ExecutionFailed",
    "Tool PermissionDenied",
    "Tool Cancelled",
    "Context compaction failed",
    "Context provider error during summarization",
    "Context invalid setting",
    "MaxTurns ",
    "UsageLimitExceeded request limit",
    "UsageLimitExceeded input token limit",
    "UsageLimitExceeded output token limit",
    "UsageLimitExceeded total token limit",
    "UsageLimitExceeded tool call limit",
    "HookTerminated ",
    "Durable ActivityFailed",
    "Durable Cancelled",
    "Durable NonDeterminism",
    "Durable ContinueAsNew",
    "Durable SignalTimeout",
    "Cancelled before",
    "Cancelled",
    "Cancelled or done",
];

const HOOKS: [&str; 16] = [
    "Skip at PreTool",
    "Skip at PreLlm",
    "Terminate at SessionStart",
    "Terminate at RunStart",
    "Terminate at Turn",
    "Terminate at PreLlm",
    "Terminate at FirstChunk",
    "Terminate at PostLlm",
    "Terminate at LlmError",
    "Terminate at PreTool",
    "Terminate at PostTool",
    "Terminate at ToolError",
    "Terminate at Compacted",
    "Terminate at RunEnd",
    "Fail at PreTool",
    "Fail at PostTool",
];

const ENGINE: [&str; 6] = [
    "continue as new true",
    "continue as new false",
    "Activity",
    "Cancelled",
    "NonDeterminism",
    "a result too few",
];

const RETURNED: [&str; 5] =
    ["NotFound", "InvalidInput", "ExecutionFailed", "PermissionDenied", "Cancelled"];

const APPROVALS: [&str; 8] = [
    "approve",
    "edit",
    "edit, but denied",
    "deny",
    "supply",
    "left",
    "not worth it",
    "nobody is asked after a failure",
];

const BUDGETS: [&str; 9] = [
    "at once",
    "one after the other",
    "all is known",
    "with an estimate",
    "no request",
    "no input token",
    "no output token",
    "no total token",
    "no tool call",
];

const OTHERS: [&str; 22] = [
    "stored",
    "held back",
    "error: ApprovalRequired ",
    "resumed after an interruption",
    "window exceeded: room made for an answer",
    "window exceeded: room made for a call",
    "window exceeded: no room",
    "stream: tried again",
    "run: tried again",
    "step: tried again",
    "no retry is left",
    "stopped by a condition",
    "cancelled after the turn",
    "reminder",
    "paused too often",
    "asked again after an empty answer",
    "empty answer",
    "calls that must not run",
    "a call that outlived the grace period",
    "a call that never began",
    "history: repaired at first",
    "went on after an interruption",
];
