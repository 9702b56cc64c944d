//! An injector that reminds the model of its instructions, by rules.

use std::fmt;

use neuron_types::{InjectionPoint, Injector, Message, SessionState};

/// The condition under which a [`SystemInjector`] adds a reminder.
#[non_exhaustive]
pub enum InjectionTrigger {
    /// The reminder is due after every `n` turns. Zero means never.
    EveryNTurns(usize),
    /// The reminder is due while the conversation has at least this number of tokens.
    OnTokenThreshold(usize),
    /// The reminder is due while the function returns `true` for the state of the session.
    Custom(Box<dyn Fn(&SessionState) -> bool + Send + Sync>),
}

impl InjectionTrigger {
    /// Returns `true` if the condition is met. `turn` is the number of model calls that returned a response.
    fn is_due(&self, turn: usize, token_count: usize, state: &SessionState) -> bool {
        match self {
            // Before the first turn there is no conversation yet.
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

/// Reminds the model of its instructions, according to rules. A rule has a trigger and the text of the reminder.
///
/// As the [`Injector`] of an agent, it appends the due reminders to the conversation. A reminder with a token or custom
/// trigger is not repeated while the conversation still contains the reminder. In your own agent loop, call
/// [`check`](Self::check).
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

/// A reminder and its condition.
#[derive(Debug)]
struct Rule {
    trigger: InjectionTrigger,
    /// The text of the reminder.
    content: String,
}

impl SystemInjector {
    /// Creates an injector without rules.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a rule after the existing rules. `content` is the text of the reminder.
    pub fn add_rule(&mut self, trigger: InjectionTrigger, content: String) {
        self.rules.push(Rule { trigger, content });
    }

    /// Returns the texts of the reminders that are due, in the order of the rules.
    ///
    /// `turn` is the number of model calls that have returned a response. `token_count` is the size of the conversation
    /// in tokens. Custom triggers receive a default [`SessionState`]. To pass another state, call
    /// [`check_in`](Self::check_in).
    #[must_use]
    pub fn check(&self, turn: usize, token_count: usize) -> Vec<String> {
        self.check_in(turn, token_count, &SessionState::default())
    }

    /// Returns the texts of the reminders that are due, in the order of the rules.
    ///
    /// `turn` is the number of model calls that have returned a response. `token_count` is the size of the conversation
    /// in tokens. Custom triggers receive `state`.
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
                // Other triggers are due on many consecutive turns. Do not repeat their reminders.
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
    fn every_n_turns_is_due_after_n_turns() {
        let due = |every| {
            let injector = injector(InjectionTrigger::EveryNTurns(every));
            (0..10).filter(|turn| !injector.check(*turn, 0).is_empty()).collect::<Vec<_>>()
        };
        assert_eq!(due(3), [3, 6, 9]);
        assert_eq!(due(1), [1, 2, 3, 4, 5, 6, 7, 8, 9]);
        assert_eq!(due(0), [0_usize; 0], "never");
    }

    #[test]
    fn threshold_is_due_at_its_tokens() {
        let injector = injector(InjectionTrigger::OnTokenThreshold(100));
        let due = |tokens| injector.check(0, tokens).len();
        assert_eq!([due(99), due(100), due(101)], [0, 1, 1]);
    }

    #[test]
    fn custom_trigger_receives_the_session_state() {
        let at_home = |state: &SessionState| state.cwd.starts_with("/home");
        let injector = injector(InjectionTrigger::Custom(Box::new(at_home)));
        let home = SessionState { cwd: "/home".into(), ..Default::default() };
        assert_eq!(injector.check_in(1, 0, &home), ["now"]);
        assert!(injector.check(1, 0).is_empty());
        let debug = format!("{injector:?}");
        assert!(debug.contains("Custom(..)"), "{debug}");
    }

    #[test]
    fn reminders_are_in_the_order_of_the_rules() {
        let mut injector = injector(InjectionTrigger::OnTokenThreshold(0));
        injector.add_rule(InjectionTrigger::EveryNTurns(2), "second".into());
        injector.add_rule(InjectionTrigger::Custom(Box::new(|_| true)), "third".into());
        assert_eq!(injector.check(2, 0), ["now", "second", "third"]);
        assert_eq!(injector.check(3, 0), ["now", "third"]);
        assert!(SystemInjector::new().check(2, 0).is_empty());
    }

    #[test]
    fn present_reminders_are_not_repeated_except_by_turns() {
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
