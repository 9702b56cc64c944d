//! Reminders for the model, by rules.

use std::fmt;

use neuron_types::{InjectionPoint, Injector, Message, SessionState};

/// When a reminder is due.
#[non_exhaustive]
pub enum InjectionTrigger {
    /// After every so many turns; zero means never.
    EveryNTurns(usize),
    /// While the conversation has at least so many tokens.
    OnTokenThreshold(usize),
    /// While the session is in a state that a function looks for.
    Custom(Box<dyn Fn(&SessionState) -> bool + Send + Sync>),
}

impl InjectionTrigger {
    fn is_due(&self, turn: usize, token_count: usize, state: &SessionState) -> bool {
        match self {
            // Before the first turn there is nothing to remind of.
            Self::EveryNTurns(turns) => *turns > 0 && turn > 0 && turn.is_multiple_of(*turns),
            Self::OnTokenThreshold(tokens) => token_count >= *tokens,
            Self::Custom(is_due) => is_due(state),
        }
    }
}

impl fmt::Debug for InjectionTrigger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::EveryNTurns(turns) => f.debug_tuple("EveryNTurns").field(turns).finish(),
            Self::OnTokenThreshold(tokens) => {
                f.debug_tuple("OnTokenThreshold").field(tokens).finish()
            }
            Self::Custom(_) => f.debug_tuple("Custom").finish_non_exhaustive(),
        }
    }
}

/// Says of what the model should be reminded, by rules.
///
/// [`check`](Self::check) is for loops of one's own. As the [`Injector`] of an agent it appends its
/// reminders to the conversation; one that is due by its tokens or by its function is said again only
/// after a compaction has dropped it.
///
/// # Example
///
/// ```
/// use neuron_context::{InjectionTrigger, SystemInjector};
///
/// let mut injector = SystemInjector::new();
/// injector.add_rule(InjectionTrigger::EveryNTurns(5), "Keep responses concise.".into());
/// injector.add_rule(InjectionTrigger::OnTokenThreshold(50_000), "Summarize when possible.".into());
/// assert_eq!(injector.check(5, 60_000), ["Keep responses concise.", "Summarize when possible."]);
/// assert!(injector.check(6, 10_000).is_empty());
/// ```
#[derive(Debug, Default)]
pub struct SystemInjector {
    rules: Vec<Rule>,
}

#[derive(Debug)]
struct Rule {
    trigger: InjectionTrigger,
    content: String,
}

impl SystemInjector {
    /// Starts without rules.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a rule, after those added before.
    pub fn add_rule(&mut self, trigger: InjectionTrigger, content: String) {
        self.rules.push(Rule { trigger, content });
    }

    /// Returns the contents that are due, in the order of the rules. Functions see an empty session
    /// state; [`check_in`](Self::check_in) takes one.
    #[must_use]
    pub fn check(&self, turn: usize, token_count: usize) -> Vec<String> {
        self.check_in(turn, token_count, &SessionState::default())
    }

    /// [`check`](Self::check) with the state of a session.
    #[must_use]
    pub fn check_in(&self, turn: usize, token_count: usize, state: &SessionState) -> Vec<String> {
        let due = self.rules.iter().filter(|rule| rule.trigger.is_due(turn, token_count, state));
        due.map(|rule| rule.content.clone()).collect()
    }
}

impl Injector for SystemInjector {
    fn injections(&self, point: &InjectionPoint<'_>) -> Vec<String> {
        let is_due = |rule: &&Rule| {
            rule.trigger.is_due(point.turn, point.token_count, point.state)
                && (matches!(rule.trigger, InjectionTrigger::EveryNTurns(_))
                    || !point.messages.contains(&Message::system(rule.content.as_str())))
        };
        self.rules.iter().filter(is_due).map(|rule| rule.content.clone()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn injector(trigger: InjectionTrigger) -> SystemInjector {
        let mut injector = SystemInjector::new();
        injector.add_rule(trigger, "now".into());
        injector
    }

    #[test]
    fn every_n_turns_means_after_every_n_turns() {
        let due = |every| {
            let injector = injector(InjectionTrigger::EveryNTurns(every));
            (0..10).filter(|turn| !injector.check(*turn, 0).is_empty()).collect::<Vec<_>>()
        };
        assert_eq!(due(3), [3, 6, 9]);
        assert_eq!(due(1), [1, 2, 3, 4, 5, 6, 7, 8, 9]);
        assert_eq!(due(0), [0_usize; 0], "never");
    }

    #[test]
    fn a_threshold_is_due_from_its_tokens_on() {
        let injector = injector(InjectionTrigger::OnTokenThreshold(100));
        let due = |tokens| injector.check(0, tokens).len();
        assert_eq!([due(99), due(100), due(101)], [0, 1, 1]);
    }

    #[test]
    fn a_function_looks_at_the_session() {
        let at_home = |state: &SessionState| state.cwd.starts_with("/home");
        let injector = injector(InjectionTrigger::Custom(Box::new(at_home)));
        let home = SessionState { cwd: "/home".into(), ..Default::default() };
        assert_eq!(injector.check_in(1, 0, &home), ["now"]);
        assert!(injector.check(1, 0).is_empty());
        let debug = format!("{injector:?}");
        assert!(debug.contains("Custom(..)"), "{debug}");
    }

    #[test]
    fn contents_come_in_the_order_of_the_rules() {
        let mut injector = injector(InjectionTrigger::OnTokenThreshold(0));
        injector.add_rule(InjectionTrigger::EveryNTurns(2), "second".into());
        injector.add_rule(InjectionTrigger::Custom(Box::new(|_| true)), "third".into());
        assert_eq!(injector.check(2, 0), ["now", "second", "third"]);
        assert_eq!(injector.check(3, 0), ["now", "third"]);
        assert!(SystemInjector::new().check(2, 0).is_empty());
    }

    #[test]
    fn what_the_model_still_sees_is_not_said_again_unless_turns_count() {
        let mut injector = injector(InjectionTrigger::OnTokenThreshold(0));
        injector.add_rule(InjectionTrigger::EveryNTurns(2), "every".into());
        let state = SessionState::default();
        let said = |texts: &[&str]| {
            let messages: Vec<_> = texts.iter().copied().map(Message::system).collect();
            injector.injections(&InjectionPoint::new(2, 0, &state, &messages))
        };
        assert_eq!(said(&[]), ["now", "every"]);
        assert_eq!(said(&["now", "every"]), ["every"]);
    }
}
