//! What is said to the model in the middle of a conversation, and how often it stands there.

use std::collections::HashSet;

use neuron_types::{
    ContextStrategy, DurableContext, InjectionPoint, Injector, Message, Provider, Role,
    SessionState, ToolContext,
};

use crate::AgentLoop;

/// Who decides what is said, and what was.
#[derive(Default)]
pub(crate) struct Reminders {
    injectors: Vec<Box<dyn Injector>>,
    /// What was said so far.
    said: HashSet<String>,
    /// The answered calls of the model over all runs.
    pub(crate) turns: usize,
}

impl Reminders {
    pub(crate) fn new(injectors: Vec<Box<dyn Injector>>) -> Self {
        Self { injectors, ..Self::default() }
    }

    /// Notes what else was said in the middle of the conversation.
    pub(crate) fn note(&mut self, content: String) {
        self.said.insert(content);
    }

    /// Whether a message is something that was said so.
    pub(crate) fn said(&self, message: &Message) -> bool {
        message.role == Role::System && !message.is_pinned() && self.said.contains(&message.text())
    }

    /// Begins anew, with a conversation that somebody else had.
    pub(crate) fn forget(&mut self) {
        self.said.clear();
        self.turns = 0;
    }

    /// Goes on with a conversation of which some messages were said so.
    pub(crate) fn restore<'m>(&mut self, said: impl Iterator<Item = &'m Message>, turns: usize) {
        self.said = said.map(Message::text).collect();
        self.turns = turns;
    }

    /// Of equal reminders only the newest: strategies keep all system messages, so that over a long
    /// conversation they would crowd out the rest.
    pub(crate) fn newest_only(&self, messages: Vec<Message>) -> Vec<Message> {
        let mut seen = HashSet::new();
        let mut is_newest = |message: &Message| {
            let text = message.text();
            message.role != Role::System
                || message.is_pinned()
                || !self.said.contains(&text)
                || seen.insert(text)
        };
        let keep: Vec<bool> = messages.iter().rev().map(&mut is_newest).collect();
        let kept = messages.into_iter().zip(keep.into_iter().rev());
        kept.filter_map(|(message, keep)| keep.then_some(message)).collect()
    }
}

impl<P: Provider, C: ContextStrategy, D: DurableContext> AgentLoop<P, C, D> {
    /// Asks the injectors before a call of the model.
    pub(crate) fn remind(&mut self, ctx: &ToolContext) {
        let ends_with_answer =
            self.request.messages.last().is_some_and(|last| last.role == Role::Assistant);
        // A turn that the provider paused goes on where it stopped.
        if self.reminders.injectors.is_empty() || ends_with_answer {
            return;
        }
        let given = ctx.extensions.get::<SessionState>();
        let state = given.cloned().unwrap_or_else(|| SessionState {
            cwd: ctx.cwd.clone(),
            token_usage: self.total_usage.clone(),
            event_count: self.reminders.turns as u64,
            ..SessionState::default()
        });
        let messages = &self.request.messages;
        let point =
            InjectionPoint::new(self.reminders.turns, self.current_tokens(), &state, messages);
        let injectors = self.reminders.injectors.iter();
        let contents: Vec<String> =
            injectors.flat_map(|injector| injector.injections(&point)).collect();
        for content in contents.into_iter().filter(|content| !content.is_empty()) {
            let message = Message::system(content.as_str());
            // A call that failed is made again, with what was said for it.
            let unanswered = self
                .request
                .messages
                .iter()
                .rev()
                .take_while(|other| other.role != Role::Assistant);
            if !unanswered.into_iter().any(|other| *other == message) {
                self.request.messages.push(message);
                self.reminders.said.insert(content);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_what_was_said_the_newest_stays_and_of_everything_else_all() {
        let reminders =
            Reminders { said: HashSet::from(["brief".to_owned()]), ..Default::default() };
        let system = |texts: &[&str]| -> Vec<Message> {
            let message = |text: &&str| match text.strip_suffix('!') {
                Some(text) => Message::system(text).pinned(),
                None => Message::system(*text),
            };
            texts.iter().map(message).collect()
        };
        let kept = reminders.newest_only(system(&["rules", "brief", "brief!", "rules", "brief"]));
        assert_eq!(kept, system(&["rules", "brief!", "rules", "brief"]));
        let said_by_others = vec![Message::user("brief"), Message::assistant("brief")];
        assert_eq!(reminders.newest_only(said_by_others.clone()), said_by_others);
    }
}
