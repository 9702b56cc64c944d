//! The promises that an agent must keep under faults.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

/// Maximum number of characters that the text of a broken promise shows of a value, such as an error.
const SHOWN: usize = 160;

/// A promise that a run did not keep. One promise is that each effect happens as often as in the run without faults.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum BrokenPromise {
    /// An effect happened more often than in the run without faults. Either a tool call was repeated and was not
    /// harmless, or the agent made an additional call.
    EffectRepeated {
        /// The effect, as the function of [`Trial::effects`](super::Trial::effects) lists it.
        effect: String,
        /// Number of times that the effect happened in the run without faults.
        expected: usize,
        /// Number of times that the effect happened in this run.
        found: usize,
    },
    /// An effect happened less often than in the run without faults, or not at all. This is not reported if a crash
    /// interrupted the call of a tool that must not run twice, because the effect may then be missing.
    EffectMissing {
        /// The effect, as the function of [`Trial::effects`](super::Trial::effects) lists it.
        effect: String,
        /// Number of times that the effect happened in the run without faults.
        expected: usize,
        /// Number of times that the effect happened in this run.
        found: usize,
    },
    /// An effect happened while no tool of [`Trial::tool`](super::Trial::tool) was running, for example in a hook or in
    /// a task that outlives the tool call. The journal of the durable engine has no record of the effect, so a crash
    /// repeats or loses it.
    EffectOutsideTool {
        /// The effect, as the function of [`Trial::effects`](super::Trial::effects) lists it.
        effect: String,
        /// The last point at which the test could inject a crash before `effect` happened, such as the start of a model
        /// call.
        place: String,
    },
    /// An effect happened while only tools with [`ToolEffect::Pure`](neuron_types::ToolEffect::Pure) were running. An
    /// engine may run such tools any number of times.
    PureToolHadEffect {
        /// The effect, as the function of [`Trial::effects`](super::Trial::effects) lists it.
        effect: String,
        /// The names of the tools that were running.
        tool: String,
    },
    /// Two calls of a run with the same [effect key](neuron_types::Tool::effect_key) succeeded, so the effect may have
    /// happened twice. The durable engine does not carry out each effect once.
    EffectKeyRepeated {
        /// The name of the tool.
        tool: String,
        /// The effect key.
        key: String,
    },
    /// A second execution of an idempotent tool call returned another result than the first one.
    ResultChanged {
        /// The name of the tool.
        tool: String,
        /// The result of the first execution, as JSON.
        first: String,
        /// The result of the second execution as JSON, or the text of its error.
        second: String,
    },
    /// A replay made a model call with a request that no earlier execution of the run sent. The cause is that the agent
    /// uses values that differ in a replay, such as the time, random numbers or the order of a hash map.
    RequestChanged {
        /// Number of the model call within the execution, from 1.
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
    /// The run was replayed after its end, and the replay had another outcome.
    ReplayChanged {
        /// The outcome of the run, which is its response or the text of its error.
        ended: Result<String, String>,
        /// The outcome of the replay, which is its response or the text of its error.
        replayed: Result<String, String>,
    },
    /// The run did not end within the [timeout](super::FaultTest::timeout).
    DidNotEnd {
        /// The maximum time of a run.
        timeout: Duration,
    },
    /// The agent panicked, or the test function that creates the agent.
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
            Self::EffectKeyRepeated { .. } => "effect_key_repeated",
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
            Self::EffectKeyRepeated { tool, key } => {
                write!(f, "two calls of the tool `{tool}` with the effect key {key:?} succeeded")
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

/// Returns the first [`SHOWN`] characters of a text. A longer text ends with `…`.
fn shown(text: &str) -> String {
    match text.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()),
        None => text.to_owned(),
    }
}

/// Returns the differences between the effects `found` in a run and the effects `expected` from the run without faults.
/// The order of the effects does not matter.
///
/// `may_be_missing` is `true` if a crash interrupted the call of a tool that must not run twice. A missing effect is
/// then not reported.
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
