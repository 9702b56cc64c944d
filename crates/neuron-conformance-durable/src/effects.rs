//! [`EffectLog`]: what runs did to the world, in a file that outlives their processes.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use neuron_types::ToolEffect;
use serde::{Deserialize, Serialize};

use neuron_conformance::case::Case;

/// How often a log is read while something is waited for.
const POLL: Duration = Duration::from_millis(2);

/// What one run did: calls of the model and of tools, and what else its agent did that a test wants to
/// know.
///
/// It is a file of lines, each written at once, so that all processes that take part in a run can append
/// to it and a killed one leaves whole lines. Take a file of its own for each run. Clones are handles of
/// the same file.
#[derive(Debug, Clone)]
pub struct EffectLog {
    path: PathBuf,
}

/// One line of a log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Effect {
    /// The id of the process.
    pub process: u32,
    /// What it did.
    pub kind: EffectKind,
}

/// What a process did.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
#[non_exhaustive]
pub enum EffectKind {
    /// The model was called, and paid.
    ModelCalled {
        /// What it was asked for: `answer 3`, say.
        step: String,
    },
    /// A tool began.
    ToolStarted {
        /// The tool.
        tool: String,
        /// What the model calls the call.
        call_id: String,
        /// What the tool was told to be the same for each attempt.
        key: String,
    },
    /// A tool had its effect, and is about to return.
    ToolEnded {
        /// The tool.
        tool: String,
        /// What the model calls the call.
        call_id: String,
    },
    /// A tool was polled, at its beginning and before it returns.
    ToolPolled {
        /// What the model calls the call.
        call_id: String,
        /// The calls inside whose [scopes](neuron_types::ToolInvocation::scope) it was, the outermost first.
        inside: Vec<String>,
    },
    /// The scope of a call was entered for the first time since the agent's code handed it over.
    ScopeEntered {
        /// What the model calls the call.
        call_id: String,
    },
    /// The agent's code waits for a signal: also on each replay.
    Waits {
        /// The signal's name.
        signal: String,
        /// Which wait for this name it is in this execution, from zero.
        number: usize,
    },
    /// The suite sent a signal.
    SignalSent {
        /// The signal's name.
        signal: String,
        /// Which signal of this name it is, from zero.
        number: usize,
    },
    /// The agent's code was told this by the durable context: on each replay the same.
    Told {
        /// What it asked for: `now before step 3`, say.
        what: String,
        /// What it was told.
        value: String,
    },
    /// The agent's code read a stream to its end: also on each replay.
    Streamed {
        /// Of how many answers the deltas made up the text.
        whole: usize,
        /// Of how many there was no delta.
        silent: usize,
        /// Of how many the deltas said something else.
        wrong: usize,
    },
    /// The agent's code came to its end: also on each replay.
    Ended {
        /// `Ok`, or the [kind](neuron_types::LoopError::kind) of the error.
        kind: String,
        /// The answer, or the error's text.
        text: String,
    },
}

impl EffectKind {
    /// Whether it is paid, or changes the world: not what an agent's code does on each replay.
    #[must_use]
    pub fn is_effect(&self) -> bool {
        matches!(self, Self::ModelCalled { .. } | Self::ToolStarted { .. } | Self::ToolEnded { .. })
    }
}

impl EffectLog {
    /// Takes this file, which need not exist.
    #[must_use]
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into() }
    }

    /// Returns the path of the file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Adds what this process did.
    ///
    /// # Panics
    ///
    /// When the file cannot be written.
    #[expect(clippy::expect_used, reason = "for tests")]
    pub fn append(&self, kind: EffectKind) {
        let effect = Effect { process: std::process::id(), kind };
        let mut line = serde_json::to_vec(&effect).expect("an effect is JSON");
        line.push(b'\n');
        let file = OpenOptions::new().create(true).append(true).open(&self.path);
        // In one write, of which the operating system does all or nothing.
        file.and_then(|mut file: File| file.write_all(&line)).expect("the log can be written");
    }

    /// Returns what was done so far, in order.
    ///
    /// # Panics
    ///
    /// When the file is not such a log.
    #[must_use]
    #[expect(clippy::expect_used, reason = "for tests")]
    pub fn effects(&self) -> Vec<Effect> {
        let text = fs::read_to_string(&self.path).unwrap_or_default();
        // Whoever writes just now has perhaps not come to the end of the line.
        let (whole, _) = text.rsplit_once('\n').unwrap_or_default();
        let lines = whole.lines();
        lines.map(|line| serde_json::from_str(line).expect("a line of the log")).collect()
    }

    /// Returns how many effects are of this sort.
    #[must_use]
    pub fn count(&self, is: impl Fn(&EffectKind) -> bool) -> usize {
        self.effects().iter().filter(|effect| is(&effect.kind)).count()
    }

    /// Returns how often the model was called.
    #[must_use]
    pub fn model_calls(&self) -> usize {
        self.count(|kind| matches!(kind, EffectKind::ModelCalled { .. }))
    }

    /// Returns how often this tool was started.
    #[must_use]
    pub fn starts_of(&self, name: &str) -> usize {
        self.count(|kind| matches!(kind, EffectKind::ToolStarted { tool, .. } if tool == name))
    }

    /// Returns how often the model was called for this.
    pub(crate) fn calls_for(&self, asked: &str) -> usize {
        self.count(|kind| matches!(kind, EffectKind::ModelCalled { step } if step == asked))
    }

    /// Returns how the agent's code ended last: `Ok` or the error's kind, and the answer or the error's
    /// text.
    #[must_use]
    pub fn last_end(&self) -> Option<(String, String)> {
        self.effects().into_iter().rev().find_map(|effect| match effect.kind {
            EffectKind::Ended { kind, text } => Some((kind, text)),
            _ => None,
        })
    }

    /// Waits until this is in the log, whichever its idempotency key is; gives up after a minute.
    pub(crate) async fn has(&self, awaited: &EffectKind) -> bool {
        self.reached(|kind| match (awaited, kind) {
            (
                EffectKind::ToolStarted { call_id: awaited, .. },
                EffectKind::ToolStarted { call_id, .. },
            ) => awaited == call_id,
            _ => awaited == kind,
        })
        .await
    }

    /// Waits until there is an effect of this sort; gives up after a minute.
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

/// Checks what the processes of one run did, of which `kills` were killed.
///
/// - The model was called at most once more a kill, where it was to be called `model_calls` times.
/// - An [`AtMostOnce`](ToolEffect::AtMostOnce) call began at most once, the others at most once more a kill.
/// - Each call saw one idempotency key, and no other call saw it.
/// - The engine's clock said the same on each replay.
///
/// # Panics
///
/// At the first thing that does not hold.
pub fn check_effects(log: &EffectLog, model_calls: usize, kills: usize) {
    check(&Case::new("durable engine", "effects", log.path().display()), log, model_calls, kills);
}

pub(crate) fn check(case: &Case, log: &EffectLog, model_calls: usize, kills: usize) {
    let called = log.model_calls();
    case.holds(
        called <= model_calls + kills,
        format_args!("{called} calls of the model, and {model_calls} with {kills} kills may be"),
    );
    check_told(case, log);
    for (id, call) in check_keys(case, log) {
        let most = match crate::tools::effect_of(&call.tool) {
            ToolEffect::AtMostOnce => 1,
            _ => 1 + kills,
        };
        let (tool, starts) = (call.tool, call.starts);
        case.holds(
            starts <= most,
            format_args!("the call {id} of `{tool}` began {starts} times, and {most} may be"),
        );
    }
}

/// What is known of a call.
pub(crate) struct Started {
    tool: String,
    starts: usize,
    key: String,
}

/// Checks that each call saw one idempotency key, and no other call saw it.
pub(crate) fn check_keys(case: &Case, log: &EffectLog) -> BTreeMap<String, Started> {
    let mut calls: BTreeMap<String, Started> = BTreeMap::new();
    for effect in log.effects() {
        let EffectKind::ToolStarted { tool, call_id, key } = effect.kind else { continue };
        case.holds(!key.is_empty(), format_args!("{call_id} has no idempotency key"));
        let first = Started { tool, starts: 0, key: key.clone() };
        let call = calls.entry(call_id.clone()).or_insert(first);
        call.starts += 1;
        case.equal(&format!("the idempotency key of {call_id}"), &key, &call.key);
    }
    for (id, call) in &calls {
        let same = calls.values().filter(|other| other.key == call.key).count();
        case.equal(&format!("the calls with the idempotency key of {id}"), same, 1);
    }
    calls
}

/// Checks that replays were told what the execution was that got beyond.
///
/// What is told before a step may change as long as nothing came after it: an engine whose time is that of
/// a task, and not of a step, begins a task that was cut off anew, at a later time.
pub(crate) fn check_told(case: &Case, log: &EffectLog) {
    // In the order in which they were told first.
    let mut told: Vec<(String, String)> = Vec::new();
    for effect in log.effects() {
        let EffectKind::Told { what, value } = effect.kind else { continue };
        let is_last = told.last().is_some_and(|(last, _)| *last == what);
        match told.iter_mut().find(|(known, _)| *known == what) {
            None => told.push((what, value)),
            Some((_, known)) if is_last => *known = value,
            Some((_, known)) => case.equal(&format!("{what}, on replay"), &value, &*known),
        }
    }
}
