//! Checks that no write is lost if many tasks write to few sessions.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use neuron_types::{Message, Session, SessionRevision, StorageError, VersionedSessionStorage};

use super::context::TestContext;
use super::sample;
use crate::case::Case;
use crate::random::{Random, from_env};

/// The amount of work of [`load()`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Load {
    /// Number of tasks that write concurrently. Default: 16.
    pub tasks: usize,
    /// Number of sessions that the tasks share. Default: 4.
    pub sessions: usize,
    /// Maximum number of writes by each task. Default: 6.
    pub writes: usize,
    /// Time after which the tasks start no more writes. Default: no limit.
    pub time: Option<Duration>,
}

impl Default for Load {
    fn default() -> Self {
        Self { tasks: 16, sessions: 4, writes: 6, time: None }
    }
}

impl Load {
    /// Returns the default load. If the environment variable `LOAD_SECONDS` is set, returns a load of 64 tasks that
    /// write to 8 sessions for this number of seconds.
    #[must_use]
    pub fn from_env() -> Self {
        let time = from_env("LOAD_SECONDS").map(Duration::from_secs);
        match time {
            Some(_) => Self { tasks: 64, sessions: 8, writes: usize::MAX, time },
            None => Self::default(),
        }
    }
}

/// The result of [`load()`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Tally {
    /// Number of successful writes.
    pub writes: usize,
    /// Number of writes that failed with a conflict. Each was repeated.
    pub conflicts: usize,
    /// Time until the last task finished.
    pub time: Duration,
}

/// Checks that no write is lost if many tasks write to the same sessions concurrently.
///
/// Each task adds messages with `update`, with `append`, and with `append` and a state. A task repeats its write after
/// a conflict. Each message must be stored exactly once, and the messages of each task must be in order. A session that
/// is loaded during the writes must have a state that matches its messages.
///
/// # Panics
///
/// Panics at the first violation.
pub async fn load<S>(storage: &S, load: Load) -> Tally
where
    S: VersionedSessionStorage + Clone + 'static,
{
    let mut ctx = TestContext::new("load", storage);
    ctx.begin(format_args!("{} tasks on {} sessions", load.tasks, load.sessions));
    let ids: Vec<String> = (0..load.sessions).map(|session| ctx.id(session)).collect();
    for id in &ids {
        ctx.create(&Session { messages: vec![], ..sample::small(id) }).await;
    }
    let begin = Instant::now();
    let end = load.time.map(|time| begin + time);
    let spawn = |task: usize| {
        let (storage, case, ids) = (storage.clone(), ctx.case.clone(), ids.clone());
        let mut random = Random::new(task as u64);
        tokio::spawn(async move {
            let (mut written, mut conflicts) = (HashMap::<_, Vec<_>>::new(), 0);
            for number in 0..load.writes {
                if end.is_some_and(|end| Instant::now() >= end) {
                    break;
                }
                let id = case.some("no session", ids.get(random.below(ids.len() as u64) as usize));
                loop {
                    match write(&storage, &case, id, task, number, random.below(3)).await {
                        Ok(_) => break,
                        Err(StorageError::Conflict { .. }) => conflicts += 1,
                        Err(error) => case.fail(format_args!("failed: {error} ({error:?})")),
                    }
                }
                written.entry(id.clone()).or_default().push(number);
            }
            (written, conflicts)
        })
    };
    let mut tally = Tally::default();
    // For each task, the numbers that it wrote to each session, in order.
    let mut written = Vec::new();
    for task in (0..load.tasks).map(spawn).collect::<Vec<_>>() {
        let (of_task, conflicts) = ctx.case.ok(task.await);
        tally.conflicts += conflicts;
        written.push(of_task);
    }
    tally.time = begin.elapsed();

    for id in &ids {
        let session = ctx.ok(storage.load(id)).await;
        let mut found = written_to(&ctx.case, &session);
        for (task, written) in written.iter().enumerate() {
            let expected = written.get(id).cloned().unwrap_or_default();
            tally.writes += expected.len();
            let found = found.remove(&task).unwrap_or_default();
            ctx.case.equal(&format!("what task {task} wrote to {id}"), found, expected);
        }
        ctx.case.holds(found.is_empty(), "there is more than was written");
        ctx.must_hold(&session);
    }
    ctx.finish().await;
    tally
}

/// Adds a message to a session, with the numbers of the task and of its write as the text.
///
/// `way` selects the write:
/// - 0: `append` without a state.
/// - 1: `append` with a state.
/// - Any other number: `update`.
///
/// Writes with `way` 1 or more also increment `event_count`, and their messages end with `/counted`.
async fn write(
    storage: &impl VersionedSessionStorage,
    case: &Case,
    id: &str,
    task: usize,
    number: usize,
    way: u64,
) -> Result<SessionRevision, StorageError> {
    if way == 0 {
        let revision = storage.revision(id).await?;
        let message = Message::user(format!("{task}/{number}/not counted"));
        return storage.append(id, &[message], None, &revision).await;
    }
    let message = Message::user(format!("{task}/{number}/counted"));
    let (mut session, revision) = storage.load_versioned(id).await?;
    written_to(case, &session);
    session.state.event_count += 1;
    if way == 1 {
        return storage.append(id, &[message], Some(&session.state), &revision).await;
    }
    session.messages.push(message);
    storage.update(&session, &revision).await
}

/// Returns the numbers of the messages that each task wrote to a session, in order. The keys are the numbers of the
/// tasks.
///
/// Checks that `event_count` equals the number of messages that end with `/counted`.
#[track_caller]
fn written_to(case: &Case, session: &Session) -> HashMap<usize, Vec<usize>> {
    let mut found: HashMap<usize, Vec<usize>> = HashMap::new();
    let mut counted = 0;
    for message in &session.messages {
        let text = message.text();
        let mut parts = text.split('/');
        let mut number = || parts.next().and_then(|part| part.parse::<usize>().ok());
        let (Some(task), Some(number)) = (number(), number()) else {
            case.fail(format_args!("no task wrote the message {text:?}"));
        };
        found.entry(task).or_default().push(number);
        counted += u64::from(text.ends_with("/counted"));
    }
    case.equal("the events that the state counts", session.state.event_count, counted);
    found
}
