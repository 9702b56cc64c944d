//! The promises that a run can break.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

/// Maximum number of characters of a value in a text.
const SHOWN: usize = 160;

/// A promise that a run did not keep under faults.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum BrokenPromise {
    /// An effect happened more often than in the run without faults. A tool that must tolerate a second call does not,
    /// or an agent calls a tool again.
    EffectRepeated {
        /// The effect.
        effect: String,
        /// Number of times in the run without faults.
        expected: usize,
        /// Number of times in this run.
        found: usize,
    },
    /// An effect did not happen, or less often than in the run without faults. No crash interrupted a call that must
    /// not run twice.
    EffectMissing {
        /// The effect.
        effect: String,
        /// Number of times in the run without faults.
        expected: usize,
        /// Number of times in this run.
        found: usize,
    },
    /// An effect happened while no watched tool call was running. The journal has no record of it, so a crash repeats
    /// or loses it. Examples are effects in hooks, and in tasks that outlive the tool call.
    EffectOutsideTool {
        /// The effect.
        effect: String,
        /// The last boundary before the effect.
        place: String,
    },
    /// An effect happened while only tools with [`ToolEffect::Pure`](neuron_types::ToolEffect::Pure) were running. An
    /// engine may run such tools any number of times.
    PureToolHadEffect {
        /// The effect.
        effect: String,
        /// The names of the running tools.
        tool: String,
    },
    /// A second execution of an idempotent tool call returned another result than the first one.
    ResultChanged {
        /// The name of the tool.
        tool: String,
        /// The first result.
        first: String,
        /// The second result.
        second: String,
    },
    /// A replay sent another request than the execution before. The agent depends on the time, on random numbers, on
    /// the order of a hash map or on other values that a replay does not repeat.
    RequestChanged {
        /// Number of the model call, from 1.
        call: usize,
        /// The first difference between the two requests.
        difference: String,
    },
    /// The run ended with an error, although every fault was temporary and the run without faults ended without an
    /// error.
    RunFailed {
        /// The error.
        error: String,
    },
    /// The replay of the ended run ended differently.
    ReplayChanged {
        /// The outcome of the run.
        ended: Result<String, String>,
        /// The outcome of the replay.
        replayed: Result<String, String>,
    },
    /// The run did not end within the [timeout](super::FaultTest::timeout).
    DidNotEnd {
        /// The timeout.
        timeout: Duration,
    },
    /// The agent panicked.
    Panicked {
        /// The text of the panic.
        message: String,
    },
}

impl BrokenPromise {
    /// Returns the name of the kind of the broken promise, for example `effect_repeated`.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            Self::EffectRepeated { .. } => "effect_repeated",
            Self::EffectMissing { .. } => "effect_missing",
            Self::EffectOutsideTool { .. } => "effect_outside_tool",
            Self::PureToolHadEffect { .. } => "pure_tool_had_effect",
            Self::ResultChanged { .. } => "result_changed",
            Self::RequestChanged { .. } => "request_changed",
            Self::RunFailed { .. } => "run_failed",
            Self::ReplayChanged { .. } => "replay_changed",
            Self::DidNotEnd { .. } => "did_not_end",
            Self::Panicked { .. } => "panicked",
        }
    }
}

impl fmt::Display for BrokenPromise {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::EffectRepeated { effect, expected, found } => {
                write!(f, "the effect {effect:?} happened {found} times and not {expected}")
            }
            Self::EffectMissing { effect, expected, found } => {
                write!(
                    f,
                    "the effect {effect:?} is missing: it happened {found} times and not {expected}"
                )
            }
            Self::EffectOutsideTool { effect, place } => {
                write!(f, "the effect {effect:?} happened outside of a tool call, after {place}")
            }
            Self::PureToolHadEffect { effect, tool } => {
                write!(f, "the tool `{tool}` is declared as pure and had the effect {effect:?}")
            }
            Self::ResultChanged { tool, first, second } => write!(
                f,
                "the tool `{tool}` is declared as idempotent, and its second execution returned {} instead of {}",
                shown(second),
                shown(first),
            ),
            Self::RequestChanged { call, difference } => {
                write!(f, "the replay of model call {call} has another request: {difference}")
            }
            Self::RunFailed { error } => write!(f, "the run failed: {}", shown(error)),
            Self::ReplayChanged { ended, replayed } => write!(
                f,
                "the replay of the ended run has the outcome {} instead of {}",
                shown(&format!("{replayed:?}")),
                shown(&format!("{ended:?}")),
            ),
            Self::DidNotEnd { timeout } => write!(f, "the run did not end within {timeout:?}"),
            Self::Panicked { message } => write!(f, "the run panicked: {}", shown(message)),
        }
    }
}

/// Returns the beginning of a text.
fn shown(text: &str) -> String {
    match text.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()),
        None => text.to_owned(),
    }
}

/// Compares the effects of a run with the effects of the run without faults, in any order.
///
/// `may_be_missing` is set if a crash interrupted a call that must not run twice, because its effect may be missing.
pub(super) fn changed_effects(
    expected: &[String],
    found: &[String],
    may_be_missing: bool,
) -> Vec<BrokenPromise> {
    let mut counts: BTreeMap<&str, (usize, usize)> = BTreeMap::new();
    expected.iter().for_each(|effect| counts.entry(effect).or_default().0 += 1);
    found.iter().for_each(|effect| counts.entry(effect).or_default().1 += 1);
    let changed = counts.into_iter().filter_map(|(effect, (expected, found))| {
        let effect = effect.to_owned();
        match found.cmp(&expected) {
            std::cmp::Ordering::Greater => {
                Some(BrokenPromise::EffectRepeated { effect, expected, found })
            }
            std::cmp::Ordering::Less if !may_be_missing => {
                Some(BrokenPromise::EffectMissing { effect, expected, found })
            }
            _ => None,
        }
    });
    changed.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn effects_are_compared_by_their_number_in_any_order() {
        let list = |effects: &[&str]| effects.iter().map(|it| (*it).to_owned()).collect::<Vec<_>>();
        let (expected, found) = (list(&["a", "b", "b"]), list(&["b", "a", "b"]));
        assert_eq!(changed_effects(&expected, &found, false), []);

        let found = list(&["a", "a", "b", "c"]);
        let changed = changed_effects(&expected, &found, false);
        let texts: Vec<String> = changed.iter().map(ToString::to_string).collect();
        assert_eq!(
            texts,
            [
                "the effect \"a\" happened 2 times and not 1",
                "the effect \"b\" is missing: it happened 1 times and not 2",
                "the effect \"c\" happened 1 times and not 0",
            ]
        );
        let kinds: Vec<_> =
            changed_effects(&expected, &found, true).iter().map(BrokenPromise::kind).collect();
        assert_eq!(kinds, ["effect_repeated", "effect_repeated"]);
    }

    #[test]
    fn long_texts_are_shortened_between_characters() {
        let broken = BrokenPromise::RunFailed { error: "ä".repeat(1_000) };
        assert_eq!(broken.to_string().chars().count(), "the run failed: ".len() + SHOWN + 1);
    }
}
