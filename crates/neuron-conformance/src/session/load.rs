//! Many tasks on few sessions.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use neuron_types::{Message, Session, SessionRevision, StorageError, VersionedSessionStorage};

use super::context::TestContext;
use crate::case::Case;
use crate::random::Random;

/// How much is written, and by how many.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Load {
    /// How many tasks write at once. Default: 16.
    pub tasks: usize,
    /// How many sessions they share. Default: 4.
    pub sessions: usize,
    /// How often each task writes, at most. Default: 6.
    pub writes: usize,
    /// When the tasks begin no more writes. Default: never.
    pub time: Option<Duration>,
}

impl Default for Load {
    fn default() -> Self {
        Self { tasks: 16, sessions: 4, writes: 6, time: None }
    }
}

impl Load {
    /// The default, or 64 tasks on 8 sessions for as many seconds as the environment says in
    /// `LOAD_SECONDS`.
    #[must_use]
    pub fn from_env() -> Self {
        let seconds = std::env::var("LOAD_SECONDS").ok().and_then(|text| text.parse().ok());
        match seconds {
            Some(seconds) => Self {
                tasks: 64,
                sessions: 8,
                writes: usize::MAX,
                time: Some(Duration::from_secs(seconds)),
            },
            None => Self::default(),
        }
    }
}

/// What the tasks of [`load()`] did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Tally {
    /// Writes that happened.
    pub writes: usize,
    /// Writes that did not, because another came first, and were tried again.
    pub conflicts: usize,
    /// How long it took.
    pub time: Duration,
}

/// Checks that tasks that write to the same sessions lose nothing: each adds messages, by `update`,
/// by `append` and by `append` with a state, and tries again after a conflict. In the end each message
/// is there once, in its writer's order, and whoever loads in between sees what belongs together.
///
/// # Panics
///
/// At the first thing that does not hold.
pub async fn load<S>(storage: &S, load: Load) -> Tally
where
    S: VersionedSessionStorage + Clone + 'static,
{
    let ctx = TestContext::new("load", storage);
    let case = ctx.case(format_args!("{} tasks on {} sessions", load.tasks, load.sessions));
    let ids: Vec<String> = (0..load.sessions).map(|session| ctx.id(session)).collect();
    for id in &ids {
        let session = Session { messages: vec![], ..super::sample::small(id) };
        case.ok(case.soon(storage.create(&session)).await);
    }
    let begin = Instant::now();
    let tasks: Vec<_> = (0..load.tasks)
        .map(|task| {
            let writer = Writer {
                storage: storage.clone(),
                case: case.clone(),
                ids: ids.clone(),
                task,
                random: Random::new(task as u64),
                written: vec![Vec::new(); load.sessions],
                conflicts: 0,
            };
            tokio::spawn(writer.work(load.writes, load.time.map(|time| begin + time)))
        })
        .collect();
    let mut tally = Tally::default();
    let mut written = Vec::new();
    for task in tasks {
        let writer = case.ok(task.await);
        tally.conflicts += writer.conflicts;
        written.push(writer.written);
    }
    tally.time = begin.elapsed();

    for (index, id) in ids.iter().enumerate() {
        let session = case.ok(case.soon(storage.load(id)).await);
        let mut found = whole(&case, &session);
        for (task, written) in written.iter().enumerate() {
            let expected = written.get(index).cloned().unwrap_or_default();
            tally.writes += expected.len();
            let found = found.remove(&task).unwrap_or_default();
            case.equal(&format!("what task {task} wrote to session {index}"), found, expected);
        }
        case.holds(found.is_empty(), "there is more than was written");
    }
    ctx.finish().await;
    tally
}

/// One of the tasks.
struct Writer<S> {
    storage: S,
    case: Case,
    ids: Vec<String>,
    task: usize,
    random: Random,
    /// What it wrote to each session, in order.
    written: Vec<Vec<usize>>,
    conflicts: usize,
}

impl<S: VersionedSessionStorage> Writer<S> {
    async fn work(mut self, writes: usize, end: Option<Instant>) -> Self {
        for number in 0..writes {
            if end.is_some_and(|end| Instant::now() >= end) {
                break;
            }
            let index = self.random.below(self.ids.len() as u64) as usize;
            let id = self.case.some("a session", self.ids.get(index)).clone();
            loop {
                match self.write(&id, number).await {
                    Ok(_) => break,
                    Err(StorageError::Conflict { .. }) => self.conflicts += 1,
                    Err(error) => self.case.fail(format_args!("failed: {error} ({error:?})")),
                }
            }
            if let Some(written) = self.written.get_mut(index) {
                written.push(number);
            }
        }
        self
    }

    /// Adds a message in one of three ways.
    async fn write(&mut self, id: &str, number: usize) -> Result<SessionRevision, StorageError> {
        let message = |counted: &str| Message::user(format!("{}/{number}/{counted}", self.task));
        let way = self.random.below(3);
        if way == 0 {
            let revision = self.storage.revision(id).await?;
            return self.storage.append(id, &[message("not counted")], None, &revision).await;
        }
        let (mut session, revision) = self.storage.load_versioned(id).await?;
        whole(&self.case, &session);
        session.state.event_count += 1;
        if way == 1 {
            let messages = [message("counted")];
            return self.storage.append(id, &messages, Some(&session.state), &revision).await;
        }
        session.messages.push(message("counted"));
        self.storage.update(&session, &revision).await
    }
}

/// What each task wrote, in order; and whether the state belongs to the messages.
#[track_caller]
fn whole(case: &Case, session: &Session) -> HashMap<usize, Vec<usize>> {
    let mut found: HashMap<usize, Vec<usize>> = HashMap::new();
    let mut counted = 0;
    for message in &session.messages {
        let text = message.text();
        let mut parts = text.split('/');
        let mut number = || parts.next().and_then(|part| part.parse::<usize>().ok());
        let (Some(task), Some(number)) = (number(), number()) else {
            case.fail(format_args!("nobody wrote the message {text:?}"));
        };
        found.entry(task).or_default().push(number);
        counted += u64::from(text.ends_with("/counted"));
    }
    case.equal("the events that the state counts", session.state.event_count, counted);
    found
}
