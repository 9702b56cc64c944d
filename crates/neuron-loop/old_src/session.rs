//! Sessions: a conversation that goes on in another agent.

use neuron_types::{Message, Session};

use crate::AgentLoop;
use crate::context_budget::ContextBudget;
use crate::run_state::RunState;

impl<P, C, D> AgentLoop<P, C, D> {
    /// Takes the conversation from a session, in place of its own: the next run continues it, and the
    /// model sees all of it.
    ///
    /// [`total_usage`](Self::total_usage) goes on from what the session took. All else begins anew, as
    /// in an agent that was just built: a run that waits for an approval is given up (what it needs is
    /// in its [`PendingApproval`](neuron_types::PendingApproval), not in a session), and what was said
    /// to remind the model counts as part of the conversation. A conversation that providers would
    /// refuse is repaired, one that ends in the middle of tool calls for instance: those calls get a
    /// result that says that they did not run.
    ///
    /// # Example
    ///
    /// ```
    /// # use neuron_context::SlidingWindowStrategy;
    /// # use neuron_loop::{AgentLoop, LoopError};
    /// # use neuron_testing::ScriptedProvider;
    /// # use neuron_types::{Session, ToolContext};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), LoopError> {
    /// # let provider = || ScriptedProvider::new(["Hello, Ada.", "Ada."]);
    /// # let context = || SlidingWindowStrategy::new(10, 100_000);
    /// # let ctx = ToolContext::default();
    /// let mut agent = AgentLoop::builder(provider(), context()).build();
    /// agent.run_text("I am Ada.", &ctx).await?;
    /// let mut session = Session::new("chat-42", ".".into());
    /// agent.write_session(&mut session);
    ///
    /// // Later, in another process.
    /// let mut agent = AgentLoop::builder(provider(), context()).build();
    /// agent.restore_session(&session);
    /// agent.run_text("Who am I?", &ctx).await?;
    /// assert_eq!(agent.messages().len(), 4);
    /// # Ok(())
    /// # }
    /// ```
    pub fn restore_session(&mut self, session: &Session) {
        self.set_messages(session.messages.clone());
        self.total_usage = session.state.token_usage.clone();
        self.run = RunState::default();
        self.pending = None;
        self.size = None;
        self.context_budget = ContextBudget::default();
        self.reminders.forget();
    }

    /// Writes the conversation and [`total_usage`](Self::total_usage) into a session, which was changed
    /// now. The rest of the session stays as it is.
    ///
    /// It can be called at any time: the conversation is whole, however a run ended.
    pub fn write_session(&self, session: &mut Session) {
        session.messages.clone_from(&self.request.messages);
        session.state.token_usage.clone_from(&self.total_usage);
        session.touch();
    }

    /// Returns the messages that came since a session was written or restored: those that
    /// [`append`](neuron_types::VersionedSessionStorage::append) adds to it. None if the conversation
    /// does not begin as the session does, after a compaction for instance: then the session is written
    /// as a whole.
    ///
    /// # Example
    ///
    /// ```
    /// # use neuron_loop::AgentLoop;
    /// # use neuron_types::{Session, SessionRevision, StorageError, VersionedSessionStorage};
    /// /// Stores what a run added to the session.
    /// async fn store<P, C, S: VersionedSessionStorage>(
    ///     agent: &AgentLoop<P, C>,
    ///     storage: &S,
    ///     session: &mut Session,
    ///     revision: &SessionRevision,
    /// ) -> Result<SessionRevision, StorageError> {
    ///     let known = session.clone();
    ///     agent.write_session(session);
    ///     match agent.messages_since(&known) {
    ///         Some(new) => storage.append(&session.id, new, Some(&session.state), revision).await,
    ///         None => storage.update(session, revision).await,
    ///     }
    /// }
    /// ```
    #[must_use]
    pub fn messages_since(&self, session: &Session) -> Option<&[Message]> {
        self.request.messages.strip_prefix(session.messages.as_slice())
    }
}
