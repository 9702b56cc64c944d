//! Carries out each effect of an outermost run once, also by agents inside its tool calls ([`EffectRegister`]).
//!
//! The outermost run has the register in its mailbox. An agent inside a tool call runs in a workflow of its own, and
//! sends its claims to the outermost workflow as signals. The answers are signals too, so both are in the histories.

use std::collections::{BTreeMap, VecDeque};

use neuron_durable::effect_of;
use neuron_types::{DurableError, KnownEffect, ToolOutput};
use serde::{Deserialize, Serialize};

/// Name of the signals with an [`EffectMessage`]. Signals of programs cannot have a name with this prefix.
pub(crate) const SIGNAL: &str = "neuron/effect";

/// Number of bytes by which the ids of workflows are compared, because longer ids end with a digest.
const COMPARED: usize = 900;

/// Returns the name of the signal with the [`Answer`] to the claim of a call.
pub(crate) fn answer_signal(call: &str) -> String {
    format!("{SIGNAL}/{call}")
}

/// A call that wants to carry out an effect.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Claim {
    pub(crate) tool: String,
    pub(crate) key: String,
    /// Id of the workflow that makes the call.
    pub(crate) workflow: String,
    /// Id of the call in its workflow.
    pub(crate) call: String,
    /// Set if the call may carry out the effect although another call may have had it.
    pub(crate) repeats: bool,
}

/// The answer to a claim.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Answer {
    /// The call carries out the effect.
    Granted,
    /// Another call may have had the effect.
    Unknown,
    /// Another call has had the effect, with this result.
    Had(ToolOutput),
}

/// The outcome of a call that carried out an effect.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Outcome {
    /// The call failed without the effect.
    Failed,
    Unknown,
    Had(ToolOutput),
}

impl Outcome {
    /// Returns the outcome of a call of `tool`.
    pub(crate) fn of(tool: &str, result: &Result<ToolOutput, DurableError>) -> Self {
        match effect_of(tool, result) {
            None => Self::Failed,
            Some(None) => Self::Unknown,
            Some(Some(output)) => Self::Had(output),
        }
    }
}

/// A signal from the workflow of an agent inside a tool call to the outermost workflow.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum EffectMessage {
    Claim(Claim),
    Ended {
        claim: Claim,
        outcome: Outcome,
    },
    /// A workflow has ended without a result, so the calls inside it do not end any more.
    Stopped {
        workflow: String,
    },
}

/// The effects that calls of an outermost run and of the agents inside it have had or carry out, and the claims that
/// have no answer yet.
#[derive(Debug, Default)]
pub(crate) struct EffectRegister {
    /// The effects by tool and key.
    effects: BTreeMap<(String, String), State>,
    waiting: VecDeque<Claim>,
}

#[derive(Debug, PartialEq)]
enum State {
    Running { workflow: String, call: String },
    Unknown,
    Had(ToolOutput),
}

impl EffectRegister {
    /// Replaces the effects with the effects of earlier executions.
    pub(crate) fn restart(&mut self, effects: &[KnownEffect]) {
        let entry = |effect: &KnownEffect| {
            let state = effect.output.clone().map_or(State::Unknown, State::Had);
            ((effect.tool.clone(), effect.key.clone()), state)
        };
        *self = Self { effects: effects.iter().map(entry).collect(), waiting: VecDeque::new() };
    }

    /// Returns the effects that calls have had or may have had.
    pub(crate) fn known(&self) -> Vec<KnownEffect> {
        let known = self.effects.iter().filter_map(|((tool, key), state)| {
            let output = match state {
                State::Running { .. } => return None,
                State::Unknown => None,
                State::Had(output) => Some(output.clone()),
            };
            Some(KnownEffect { tool: tool.clone(), key: key.clone(), output })
        });
        known.collect()
    }

    pub(crate) fn apply(&mut self, message: EffectMessage) {
        match message {
            EffectMessage::Claim(claim) => self.waiting.push_back(claim),
            EffectMessage::Ended { claim, outcome } => self.end(&claim, outcome),
            EffectMessage::Stopped { workflow } => self.stop(&workflow),
        }
    }

    /// Records the end of a call, if the call carries out the effect.
    fn end(&mut self, claim: &Claim, outcome: Outcome) {
        let key = (claim.tool.clone(), claim.key.clone());
        let is_own = |state: &State| {
            matches!(state, State::Running { workflow, call }
                if (workflow, call) == (&claim.workflow, &claim.call))
        };
        if !self.effects.get(&key).is_some_and(is_own) {
            return;
        }
        match outcome {
            Outcome::Failed => self.effects.remove(&key),
            Outcome::Unknown => self.effects.insert(key, State::Unknown),
            Outcome::Had(output) => self.effects.insert(key, State::Had(output)),
        };
    }

    /// Ends the calls that run in a workflow or inside it. It is not known whether they had their effects.
    pub(crate) fn stop(&mut self, ended: &str) {
        // A claim that stays although its workflow has ended is removed when its answer cannot be sent.
        self.waiting.retain(|claim| claim.workflow != ended);
        for state in self.effects.values_mut() {
            if let State::Running { workflow, .. } = state
                && is_inside(workflow, ended)
            {
                *state = State::Unknown;
            }
        }
    }

    /// Returns `true` if a claim of these can be answered now.
    pub(crate) fn has_answer(&self, of: impl Fn(&Claim) -> bool) -> bool {
        self.waiting.iter().any(|claim| of(claim) && self.answer(claim).is_some())
    }

    /// Removes and returns the first of these claims that can be answered now, with its answer.
    pub(crate) fn take_answer(&mut self, of: impl Fn(&Claim) -> bool) -> Option<(Claim, Answer)> {
        let is_ready = |claim: &Claim| of(claim) && self.answer(claim).is_some();
        let place = self.waiting.iter().position(is_ready)?;
        let claim = self.waiting.remove(place)?;
        let answer = self.answer(&claim)?;
        if answer == Answer::Granted {
            let (workflow, call) = (claim.workflow.clone(), claim.call.clone());
            let key = (claim.tool.clone(), claim.key.clone());
            self.effects.insert(key, State::Running { workflow, call });
        }
        Some((claim, answer))
    }

    /// Returns the answer to a claim. Returns `None` while another call carries out the effect.
    fn answer(&self, claim: &Claim) -> Option<Answer> {
        let key = (claim.tool.clone(), claim.key.clone());
        Some(match self.effects.get(&key) {
            None => Answer::Granted,
            Some(State::Running { .. }) => return None,
            Some(State::Had(output)) => Answer::Had(output.clone()),
            Some(State::Unknown) if claim.repeats => Answer::Granted,
            Some(State::Unknown) => Answer::Unknown,
        })
    }
}

/// Returns `true` if a workflow is `outer` or runs an agent inside it.
fn is_inside(workflow: &str, outer: &str) -> bool {
    let rest = match outer.as_bytes().get(..COMPARED) {
        Some(start) => return workflow.as_bytes().starts_with(start),
        None => workflow.strip_prefix(outer),
    };
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn claim(workflow: &str, repeats: bool) -> Claim {
        Claim {
            tool: "pay".into(),
            key: "17".into(),
            workflow: workflow.into(),
            call: "tool/0/0".into(),
            repeats,
        }
    }

    fn ask(register: &mut EffectRegister, claim: &Claim) -> Option<Answer> {
        register.apply(EffectMessage::Claim(claim.clone()));
        register.take_answer(|waiting| waiting == claim).map(|(_, answer)| answer)
    }

    fn end(register: &mut EffectRegister, claim: &Claim, outcome: Outcome) {
        register.apply(EffectMessage::Ended { claim: claim.clone(), outcome });
    }

    fn paid() -> ToolOutput {
        ToolOutput::text("paid")
    }

    #[test]
    fn effect_is_granted_to_one_call_at_a_time() {
        let mut register = EffectRegister::default();
        let (first, second) = (claim("r/a", false), claim("r/b", false));
        assert_eq!(ask(&mut register, &first), Some(Answer::Granted));
        assert_eq!(ask(&mut register, &second), None);
        assert!(!register.has_answer(|_| true) && register.known().is_empty());
        // What another call says about the effect changes nothing.
        end(&mut register, &second, Outcome::Had(paid()));
        assert!(!register.has_answer(|_| true));
        end(&mut register, &first, Outcome::Had(paid()));
        let (answered, answer) = register.take_answer(|_| true).unwrap();
        assert_eq!((answered, answer), (second, Answer::Had(paid())));

        let known = register.known();
        let mut next = EffectRegister::default();
        next.restart(&known);
        assert_eq!(ask(&mut next, &first), Some(Answer::Had(paid())));
        assert_eq!(next.known(), known);
    }

    #[test]
    fn failed_call_lets_the_next_one_run_and_an_unknown_one_does_not() {
        let mut register = EffectRegister::default();
        let (first, second) = (claim("r/a", false), claim("r/b", false));
        ask(&mut register, &first);
        end(&mut register, &first, Outcome::Failed);
        assert_eq!(ask(&mut register, &second), Some(Answer::Granted));
        end(&mut register, &second, Outcome::Unknown);
        assert_eq!(ask(&mut register, &first), Some(Answer::Unknown));
        assert_eq!(ask(&mut register, &claim("r/c", true)), Some(Answer::Granted));
    }

    #[test]
    fn calls_of_a_workflow_that_stopped_are_unknown() {
        let mut register = EffectRegister::default();
        let (inner, other) = (claim("r/a/b", false), claim("r/ab", false));
        ask(&mut register, &inner);
        assert_eq!(ask(&mut register, &other), None);
        register.stop("r/ab");
        assert!(register.waiting.is_empty(), "its claims are gone");
        let failed = Err(DurableError::ActivityFailed("lost".into()));
        assert_eq!(Outcome::of("pay", &failed), Outcome::Unknown);
        assert_eq!(ask(&mut register, &other), None);
        register.stop("r/a");
        let (_, answer) = register.take_answer(|_| true).unwrap();
        assert_eq!(answer, Answer::Unknown);
    }

    #[test]
    fn long_ids_are_compared_by_their_start() {
        let (long, other) = ("x".repeat(2_000), "y".repeat(2_000));
        assert!(is_inside(&long, &long) && !is_inside(&other, &long));
    }

    #[test]
    fn messages_survive_their_stored_form() {
        let outcomes = [Outcome::Failed, Outcome::Unknown, Outcome::Had(paid())];
        let ended =
            outcomes.map(|outcome| EffectMessage::Ended { claim: claim("r", true), outcome });
        let others = [
            EffectMessage::Claim(claim("r", false)),
            EffectMessage::Stopped { workflow: "r".into() },
        ];
        for message in ended.into_iter().chain(others) {
            let stored = serde_json::to_value(&message).unwrap();
            assert_eq!(serde_json::from_value::<EffectMessage>(stored).unwrap(), message);
        }
    }
}
