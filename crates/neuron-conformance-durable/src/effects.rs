//! The log of a run's effects, a file that outlives the processes of the run ([`EffectLog`]).

use std::collections::BTreeMap;
use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use neuron_conformance::case::Case;
use neuron_types::ToolEffect;
use serde::{Deserialize, Serialize};

/// Interval between two reads of a log while a test waits for an effect.
const POLL: Duration = Duration::from_millis(2);

/// A log file with the model calls, tool calls and other events of a run's agent. Each entry is an effect.
///
/// Each effect is one line, which is written by a single write. Several processes can therefore append to the file, and
/// a killed process never leaves a partial line. Use one file per run. Clones refer to the same file.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(transparent)]
pub struct EffectLog {
    path: PathBuf,
}

/// A line of an [`EffectLog`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Effect {
    /// Id of the operating system process that appended this line.
    pub process: u32,
    /// The effect or event that this line describes.
    pub kind: EffectKind,
}

/// A model call, a tool call or another event of a run, as the log stores it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
#[non_exhaustive]
pub enum EffectKind {
    /// The model was called.
    ModelCalled {
        /// Purpose of the call, such as `answer 3`.
        step: String,
    },
    /// A tool call began.
    ToolStarted {
        /// Name of the tool.
        tool: String,
        /// Id of the call.
        call_id: String,
        /// Idempotency key of the call, the same in each attempt.
        key: String,
    },
    /// A tool call has done its work, and is about to return its result.
    ToolEnded {
        /// Name of the tool.
        tool: String,
        /// Id of the call.
        call_id: String,
    },
    /// A tool was polled. Logged at the beginning of the call, and before it returns.
    ToolPolled {
        /// Id of the call.
        call_id: String,
        /// Ids of the calls whose [scopes](neuron_types::ToolInvocation::scope) were entered at that moment, outermost
        /// first.
        inside: Vec<String>,
    },
    /// A tool call was polled inside its [scope](neuron_types::ToolInvocation::scope) for the first time. Logged once
    /// in each execution of the agent.
    ScopeEntered {
        /// Id of the call.
        call_id: String,
    },
    /// The agent waits for a signal. Also logged on each replay.
    Waits {
        /// Name of the signal.
        signal: String,
        /// Number of earlier waits for the same signal in this execution.
        number: usize,
    },
    /// The suite sent a signal to the run.
    SignalSent {
        /// Name of the signal.
        signal: String,
        /// Number of earlier signals with the same name.
        number: usize,
    },
    /// The agent read the engine's clock. Also logged on each replay, with the same time.
    ClockRead {
        /// Description of the step before which the clock was read.
        what: String,
        /// The time that the clock returned, as text.
        time: String,
    },
    /// The agent read all responses of a stream. Also logged on each replay.
    Streamed {
        /// Number of responses whose deltas add up to the text of the response.
        whole: usize,
        /// Number of responses without a delta.
        silent: usize,
        /// Number of responses whose deltas differ from the text of the response.
        wrong: usize,
    },
    /// The agent ended. Also logged on each replay.
    Ended {
        /// `Ok`, or the [kind](neuron_types::LoopError::kind) of the error.
        kind: String,
        /// The text of the response, or of the error.
        text: String,
    },
}

impl EffectKind {
    /// Returns `true` for a model call or a tool call, which a replay must not repeat.
    #[must_use]
    pub fn is_effect(&self) -> bool {
        matches!(self, Self::ModelCalled { .. } | Self::ToolStarted { .. } | Self::ToolEnded { .. })
    }
}

impl EffectLog {
    /// Creates a handle for a log file. The file may be missing, and is created by the first effect.
    #[must_use]
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into() }
    }

    /// Returns the path of the file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Appends an effect of this process.
    ///
    /// # Panics
    ///
    /// If the file cannot be written.
    #[expect(clippy::expect_used, reason = "for tests")]
    pub fn append(&self, kind: EffectKind) {
        let effect = Effect { process: std::process::id(), kind };
        let mut line = serde_json::to_vec(&effect).expect("an effect is JSON");
        line.push(b'\n');
        let file = OpenOptions::new().create(true).append(true).open(&self.path);
        // One write, so that a kill leaves the whole line or nothing.
        file.and_then(|mut file| file.write_all(&line)).expect("the log can be written");
    }

    /// Returns all effects so far, in order.
    ///
    /// # Panics
    ///
    /// If the file is not an effect log.
    #[must_use]
    #[expect(clippy::expect_used, reason = "for tests")]
    pub fn effects(&self) -> Vec<Effect> {
        let text = fs::read_to_string(&self.path).unwrap_or_default();
        // Another process may be writing the last line.
        let (whole, _) = text.rsplit_once('\n').unwrap_or_default();
        let lines = whole.lines();
        lines.map(|line| serde_json::from_str(line).expect("a line of the log")).collect()
    }

    /// Returns the values for which `select` returns `Some`, in the order of the log.
    pub(crate) fn select<T>(&self, select: impl Fn(EffectKind) -> Option<T>) -> Vec<T> {
        self.effects().into_iter().filter_map(|effect| select(effect.kind)).collect()
    }

    /// Returns the number of effects that satisfy a predicate.
    #[must_use]
    pub fn count(&self, is: impl Fn(&EffectKind) -> bool) -> usize {
        self.effects().iter().filter(|effect| is(&effect.kind)).count()
    }

    /// Returns the number of model calls.
    #[must_use]
    pub fn model_calls(&self) -> usize {
        self.count(|kind| matches!(kind, EffectKind::ModelCalled { .. }))
    }

    /// Returns the number of started calls of a tool.
    #[must_use]
    pub fn starts_of(&self, name: &str) -> usize {
        self.count(|kind| matches!(kind, EffectKind::ToolStarted { tool, .. } if tool == name))
    }

    /// Returns how the agent ended most recently. The pair has `Ok` and the response, or the kind and the text of the
    /// error. Returns `None` if the agent has not ended.
    #[must_use]
    pub fn last_end(&self) -> Option<(String, String)> {
        self.ends().pop()
    }

    /// Returns all ends of the agent, in order, in the format of [`last_end`](Self::last_end).
    pub(crate) fn ends(&self) -> Vec<(String, String)> {
        self.select(|kind| match kind {
            EffectKind::Ended { kind, text } => Some((kind, text)),
            _ => None,
        })
    }

    /// Waits until `is` returns `true` for an effect in the log, and returns `true`. Returns `false` if the log has no
    /// such effect within a minute.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe.
    pub async fn reached(&self, is: impl Fn(&EffectKind) -> bool) -> bool {
        let begin = Instant::now();
        while self.count(&is) == 0 {
            if begin.elapsed() > Duration::from_secs(60) {
                return false;
            }
            tokio::time::sleep(POLL).await;
        }
        true
    }
}

/// Checks the effects of one run, whose log must satisfy the conditions below. `kills` is the number of processes of
/// the run that were killed. `model_calls` is the number of model calls of an undisturbed run.
///
/// - The model was called at most `model_calls + kills` times.
/// - An [`AtMostOnce`](ToolEffect::AtMostOnce) call began at most once. Any other call began at most `1 + kills` times.
/// - Each call had one idempotency key, and no other call had the same key.
/// - The engine's clock had the same times on each replay.
///
/// # Panics
///
/// If a check fails.
pub fn check_effects(log: &EffectLog, model_calls: usize, kills: usize) {
    check(&Case::new("durable engine", "effects", log.path().display()), log, model_calls, kills);
}

/// Checks the effects of one run as [`check_effects`] does. `case` names the run in the panic message.
pub(crate) fn check(case: &Case, log: &EffectLog, model_calls: usize, kills: usize) {
    let called = log.model_calls();
    case.holds(
        called <= model_calls + kills,
        format_args!("{called} calls of the model, and {model_calls} with {kills} kills may be"),
    );
    check_clock(case, log);
    for (id, (tool, starts)) in check_keys(case, log) {
        let most = match crate::tools::effect_of(&tool) {
            ToolEffect::AtMostOnce => 1,
            _ => 1 + kills,
        };
        case.holds(
            starts <= most,
            format_args!("the call {id} of `{tool}` began {starts} times, and {most} may be"),
        );
    }
}

/// Checks that each tool call had its own idempotency key, and had this key at each start. Returns a map from the id of
/// each call to its tool name and its number of starts.
pub(crate) fn check_keys(case: &Case, log: &EffectLog) -> BTreeMap<String, (String, usize)> {
    let (mut calls, mut keys, mut owners) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
    for effect in log.effects() {
        let EffectKind::ToolStarted { tool, call_id, key } = effect.kind else { continue };
        case.holds(!key.is_empty(), format_args!("{call_id} has no idempotency key"));
        let first = keys.entry(call_id.clone()).or_insert_with(|| key.clone());
        case.equal(&format!("the idempotency key of {call_id}"), &key, &*first);
        let owner = owners.entry(key).or_insert_with(|| call_id.clone());
        case.equal("the call with an idempotency key", &call_id, &*owner);
        calls.entry(call_id).or_insert((tool, 0)).1 += 1;
    }
    calls
}

/// Checks that a replay reads the same times from the engine's clock as the earlier execution of the run.
///
/// The agent reads the clock before each step. A step is one journaled operation. A replay may read another time before
/// these steps:
///
/// - The last step that the earlier execution reached, because this step may not have been recorded.
/// - A step whose model call is executed again. Some engines group steps into tasks with one time per task. If such a
///   task is interrupted, all its steps are executed again at a later time.
pub(crate) fn check_clock(case: &Case, log: &EffectLog) {
    // The times in the order in which they were first read.
    let mut times: Vec<(String, String)> = Vec::new();
    let mut effects = log.effects().into_iter().peekable();
    while let Some(effect) = effects.next() {
        let EffectKind::ClockRead { what, time } = effect.kind else { continue };
        let runs_again = match effects.peek().map(|next| &next.kind) {
            Some(EffectKind::ModelCalled { .. }) => true,
            // The process was killed before the step had an effect, and the next process reads the clock for the same
            // step.
            Some(EffectKind::ClockRead { what: next, .. }) => *next == what,
            _ => false,
        };
        match times.iter().position(|(known, _)| *known == what) {
            None => times.push((what, time)),
            Some(place) if runs_again || place + 1 == times.len() => {
                times.truncate(place);
                times.push((what, time));
            }
            Some(place) => {
                let known = times.get(place).map(|(_, known)| known);
                case.equal(&format!("{what}, on replay"), &Some(&time), &known);
            }
        }
    }
}
