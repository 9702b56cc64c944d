//! Runs that store their conversation in a session. The tests cover when the session is written, conflicts between
//! writers, and the state after a crash.

use std::pin::pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use chrono::{DateTime, Utc};
use futures_util::FutureExt;
use neuron_loop::{Agent, Conversation, LoopError, SessionHandle, Start, ToolErrorPolicy};
use neuron_runtime::{ApprovalKey, InMemorySessionStorage};
use neuron_testing::{Reply, ScriptedProvider};
use neuron_types::*;
use serde_json::json;

use crate::support::*;

/// A storage that logs each write. `hangs` contains the index of a write that never returns, and `fails` that of a write
/// that returns an error. The write hangs or fails before it changes the storage if the flag is `true`, and otherwise
/// afterwards.
#[derive(Clone, Default)]
pub(crate) struct Noted {
    inner: Arc<InMemorySessionStorage>,
    log: Log,
    hangs: Arc<Mutex<Option<(usize, bool)>>>,
    fails: Arc<Mutex<Option<(usize, bool)>>>,
}

impl Noted {
    /// Creates a storage in which one write fails. `failing` is the number of the write, and whether it fails before it
    /// takes effect.
    pub(crate) fn failing(failing: Option<(usize, bool)>) -> Self {
        Self { fails: Arc::new(Mutex::new(failing)), ..Self::default() }
    }

    async fn write<T>(
        &self,
        what: String,
        work: impl Future<Output = Result<T, StorageError>>,
    ) -> Result<T, StorageError> {
        let nth = self.log.lines().len();
        self.log.push(what);
        let hangs = *self.hangs.lock().unwrap();
        let fails = *self.fails.lock().unwrap();
        let failure = || StorageError::Io(std::io::Error::other("no space"));
        if hangs == Some((nth, true)) {
            std::future::pending::<()>().await;
        }
        if fails == Some((nth, true)) {
            return Err(failure());
        }
        let written = work.await;
        if fails == Some((nth, false)) {
            return Err(failure());
        }
        if hangs == Some((nth, false)) {
            std::future::pending::<()>().await;
        }
        written
    }
}

impl SessionStorage for Noted {
    async fn save(&self, session: &Session) -> Result<(), StorageError> {
        self.inner.save(session).await
    }

    async fn load(&self, id: &str) -> Result<Session, StorageError> {
        self.inner.load(id).await
    }

    async fn list(&self) -> Result<Vec<SessionSummary>, StorageError> {
        self.inner.list().await
    }

    async fn delete(&self, id: &str) -> Result<(), StorageError> {
        self.inner.delete(id).await
    }
}

impl VersionedSessionStorage for Noted {
    async fn create(&self, session: &Session) -> Result<SessionRevision, StorageError> {
        self.write(format!("create {}", session.messages.len()), self.inner.create(session)).await
    }

    async fn load_versioned(&self, id: &str) -> Result<(Session, SessionRevision), StorageError> {
        self.inner.load_versioned(id).await
    }

    async fn revision(&self, id: &str) -> Result<SessionRevision, StorageError> {
        self.inner.revision(id).await
    }

    async fn update(
        &self,
        session: &Session,
        expected: &SessionRevision,
    ) -> Result<SessionRevision, StorageError> {
        let what = format!("update {}", session.messages.len());
        self.write(what, self.inner.update(session, expected)).await
    }

    async fn append(
        &self,
        id: &str,
        messages: &[Message],
        state: Option<&SessionState>,
        expected: &SessionRevision,
    ) -> Result<SessionRevision, StorageError> {
        let what = format!("append {}", messages.len());
        self.write(what, self.inner.append(id, messages, state, expected)).await
    }
}

fn replies() -> [Reply; 2] {
    [calls([json!({ "text": "a" }), json!({ "text": "b" })]), Reply::text("done")]
}

fn agent(replies: impl IntoIterator<Item = Reply>, log: &Log) -> Agent {
    Agent::builder(ScriptedProvider::new(replies)).tools(registry(log)).build()
}

#[tokio::test]
async fn final_messages_are_appended_and_written_once() {
    let (storage, log) = (Noted::default(), Log::default());
    let session = SessionHandle::new(storage.clone(), "chat-42");
    let mut chat = session.load().await.unwrap();
    assert!(chat.messages().is_empty());
    agent(replies(), &log).run(&mut chat, "go").store(&session).await.unwrap();
    // First the message, then the response with open results, then both, then the end of the run.
    assert_eq!(storage.log.lines(), ["create 1", "append 0", "append 2", "append 1"]);
    let loaded = session.load().await.unwrap();
    assert_eq!((loaded.messages(), loaded.usage()), (chat.messages(), chat.usage()));
    let stored = storage.inner.load("chat-42").await.unwrap();
    assert_eq!(stored.messages, chat.messages());

    // Another process continues.
    let other = SessionHandle::new(storage.clone(), "chat-42");
    let mut chat = other.load().await.unwrap();
    agent([Reply::text("more")], &log).run(&mut chat, "And?").store(&other).await.unwrap();
    assert_eq!(storage.log.lines()[4..], ["append 1", "append 1"]);
    assert_eq!(storage.inner.load("chat-42").await.unwrap().messages, chat.messages());
}

#[tokio::test]
async fn rewritten_history_is_written_as_a_whole() {
    let (storage, log) = (Noted::default(), Log::default());
    let session = SessionHandle::new(storage.clone(), "s");
    let mut chat = session.load().await.unwrap();
    agent([Reply::text("one")], &log).run(&mut chat, "go").store(&session).await.unwrap();
    // A history that providers would reject is repaired.
    chat.push(Message::assistant("and"));
    let orphan =
        ContentBlock::ToolResult { tool_use_id: "x".into(), content: Vec::new(), is_error: false };
    chat.push(Message {
        role: Role::User,
        content: vec![orphan, ContentBlock::Text("so?".into())],
    });
    session.save(&chat).await.unwrap();
    assert_eq!(storage.log.lines().last().unwrap(), "update 4");
    assert_eq!(session.load().await.unwrap(), chat);
}

#[tokio::test]
async fn foreign_values_in_the_session_are_kept() {
    let (storage, log) = (InMemorySessionStorage::new(), Log::default());
    let mut session = Session::new("s", "/work".into());
    session.state.custom.insert("theirs".into(), json!([1, 2]));
    storage.save(&session).await.unwrap();
    let handle = SessionHandle::new(&storage, "s");
    let mut chat = handle.load().await.unwrap();
    agent(replies(), &log).run(&mut chat, "go").store(&handle).await.unwrap();
    let stored = storage.load("s").await.unwrap();
    assert_eq!(stored.state.custom["theirs"], json!([1, 2]));
    assert_eq!((stored.state.cwd, stored.messages.len()), ("/work".into(), 4));
}

#[tokio::test]
async fn two_writers_of_one_session_conflict_and_lose_nothing() {
    let (storage, log) = (Noted::default(), Log::default());
    let [mine, theirs] = [(); 2].map(|()| SessionHandle::new(storage.clone(), "s"));
    let mut mine_chat = mine.load().await.unwrap();
    mine.save(&mine_chat).await.unwrap();
    let mut their_chat = theirs.load().await.unwrap();
    agent([Reply::text("theirs")], &log).run(&mut their_chat, "hi").store(&theirs).await.unwrap();
    let agent = agent([Reply::text("mine")], &log);
    let error = agent.run(&mut mine_chat, "hello").store(&mine).await.unwrap_err();
    assert!(matches!(error, LoopError::Storage(StorageError::Conflict { .. })), "{error}");
    assert_eq!(mine_chat.messages(), [Message::user("hello")]);
    assert_eq!(storage.inner.load("s").await.unwrap().messages, their_chat.messages());
    // After the session is read again, both messages are in it.
    let mut chat = mine.load().await.unwrap();
    assert_eq!(agent.run(&mut chat, "hello").store(&mine).await.unwrap().response, "mine");
    assert_eq!(chat.messages().len(), 4);
}

#[tokio::test]
async fn killed_at_any_write_run_continues_in_another_process_without_repeated_calls() {
    let mut places = 0;
    for nth in 0..10 {
        for before in [true, false] {
            let (storage, log) = (Noted::default(), Log::default());
            *storage.hangs.lock().unwrap() = Some((nth, before));
            {
                let session = SessionHandle::new(storage.clone(), "s");
                let mut chat = session.load().await.unwrap();
                let agent = agent(replies(), &log);
                let mut run = pin!(agent.run(&mut chat, "go").store(&session).into_future());
                if run.as_mut().now_or_never().is_some() {
                    continue;
                }
            }
            places += 1;
            *storage.hangs.lock().unwrap() = None;
            let session = SessionHandle::new(storage.clone(), "s");
            let mut chat = session.load().await.unwrap();
            check_valid(chat.messages());
            let answers = chat.messages().iter().filter(|message| message.role == Role::Assistant);
            // If the response was not stored, the model makes its calls again.
            let left = replies().into_iter().skip(answers.count());
            let agent = agent(left, &log);
            let start = match chat.messages().is_empty() {
                true => Start::from("go"),
                false => Start::Continue,
            };
            // If the process ended after the last write, the stored result is returned.
            let ended = agent.run(&mut chat, start).store(&session).await;
            let at = format!("write {nth}, before: {before}, {:?}", chat.messages());
            assert_eq!(ended.unwrap().response, "done", "{at}");
            check_valid(chat.messages());
            assert_eq!(chat.messages().len(), 4, "{at}");
            assert!(log.count("start c0") <= 1 && log.count("start c1") <= 1, "{at}");
            assert_eq!(storage.inner.load("s").await.unwrap().messages, chat.messages(), "{at}");
        }
    }
    assert_eq!(places, 8);
}

struct AsksAlways;

impl PermissionPolicy for AsksAlways {
    fn check(&self, _: &str, _: &serde_json::Value) -> PermissionDecision {
        PermissionDecision::Ask("sure?".into())
    }
}

#[tokio::test]
async fn run_that_waits_for_an_approval_is_stored_as_waiting() {
    let (storage, log) = (InMemorySessionStorage::new(), Log::default());
    let build = |replies: Vec<Reply>| {
        let builder = Agent::builder(ScriptedProvider::new(replies)).tools(registry(&log));
        builder
            .permission_policy(AsksAlways)
            // Only calls that this agent signed can be decided.
            .approval_signer(ApprovalKey::new("secret"))
            .config(|config| config.pause_for_approval = true)
            .build()
    };
    let session = SessionHandle::new(&storage, "s");
    let mut chat = Conversation::new();
    let first = build(vec![calls([json!({})])]);
    first.run(&mut chat, "go").store(&session).await.unwrap_err();
    let session = SessionHandle::new(&storage, "s");
    let mut chat = session.load().await.unwrap();
    let decisions = ApprovalDecisions::approve_all(&chat.pending().unwrap());
    let second = build(vec![Reply::text("done")]);
    second.run(&mut chat, decisions).store(&session).await.unwrap();
    assert_eq!(log.count("start c0"), 1);
    assert_eq!(storage.load("s").await.unwrap().messages, chat.messages());
}

/// Regression test. A pending approval can be used only once, even if it was stored outside of the session. Before the
/// fix, it could be used any number of times.
#[tokio::test]
async fn pending_approval_is_used_only_once_with_a_session() {
    for loads in [false, true] {
        let (storage, log) = (InMemorySessionStorage::new(), Log::default());
        let build = |replies: Vec<Reply>| {
            let builder = Agent::builder(ScriptedProvider::new(replies)).tools(registry(&log));
            let builder = builder.permission_policy(AsksAlways);
            builder.config(|config| config.pause_for_approval = true).build()
        };
        let mut chat = Conversation::new();
        build(vec![calls([json!({})])]).run(&mut chat, "go").await.unwrap_err();
        let pending = chat.pending().unwrap();
        let resume = async |reply: &str| {
            let session = SessionHandle::new(&storage, "s");
            if loads {
                session.load().await.unwrap();
            }
            let mut chat = Conversation::try_from(pending.clone()).unwrap();
            let decisions = ApprovalDecisions::approve_all(&pending);
            build(vec![Reply::text(reply)]).run(&mut chat, decisions).store(&session).await
        };
        assert_eq!(resume("first").await.unwrap().response, "first");
        let stored = storage.load("s").await.unwrap();
        let error = resume("second").await.unwrap_err().to_string();
        assert!(error.contains(if loads { "decided on before" } else { "changed" }), "{error}");
        assert_eq!((log.count("start c0"), storage.load("s").await.unwrap()), (1, stored));

        // Also after another run of the conversation.
        let session = SessionHandle::new(&storage, "s");
        let mut chat = session.load().await.unwrap();
        build(vec![Reply::text("more")]).run(&mut chat, "And?").store(&session).await.unwrap();
        resume("third").await.unwrap_err();
        assert_eq!(log.count("start c0"), 1);
    }
}

/// Regression test. A run is dropped before a call with an approval decision has begun. The call must run when the run
/// continues. Before the fix, the session rejected the decision as already used.
#[tokio::test(start_paused = true)]
async fn decided_calls_continue_after_a_drop_with_the_same_session() {
    let (storage, log) = (InMemorySessionStorage::new(), Log::default());
    let replies = [calls([json!({ "delay": 1000 }), json!({})]), Reply::text("done")];
    let agent = Agent::builder(ScriptedProvider::new(replies))
        .tools(registry(&log))
        .permission_policy(AsksAlways)
        .config(|config| {
            config.pause_for_approval = true;
            config.parallel_tool_execution = false;
        })
        .build();
    let session = SessionHandle::new(&storage, "s");
    let mut chat = Conversation::new();
    agent.run(&mut chat, "go").store(&session).await.unwrap_err();
    let decisions = ApprovalDecisions::approve_all(&chat.pending().unwrap());
    {
        let run = agent.run(&mut chat, decisions).store(&session);
        let mut run = pin!(run.into_future());
        while log.count("start c0") == 0 {
            tokio::select! {
                _ = run.as_mut() => panic!("it ended"),
                () = tokio::time::sleep(Duration::from_millis(10)) => {}
            }
        }
    }
    let result = agent.run(&mut chat, Start::Continue).store(&session).await.unwrap();
    assert_eq!(result.response, "done");
    assert_eq!((log.count("start c0"), log.count("start c1")), (1, 1));
}

/// Regression test. A pending approval of an earlier call must be rejected, even if a call with the same call id waits
/// now, and even if its arguments are the same. Before the fix, the earlier call ran again.
#[tokio::test]
async fn pending_approval_of_an_earlier_call_is_rejected() {
    for text in ["b", "a"] {
        let (storage, log) = (InMemorySessionStorage::new(), Log::default());
        let session = || SessionHandle::new(&storage, "s");
        let build = |replies: Vec<Reply>| {
            let builder = Agent::builder(ScriptedProvider::new(replies)).tools(registry(&log));
            let builder = builder.permission_policy(AsksAlways);
            builder.config(|config| config.pause_for_approval = true).build()
        };
        let mut chat = Conversation::new();
        // The provider uses the same call ids in each turn.
        build(vec![calls([json!({ "text": "a" })])]).run(&mut chat, "go").await.unwrap_err();
        let old = chat.pending().unwrap();
        let first = ApprovalDecisions::approve_all(&old);
        let agent = build(vec![calls([json!({ "text": text })])]);
        agent.run(&mut chat, first.clone()).store(&session()).await.unwrap_err();
        assert_eq!(
            (chat.pending().unwrap().calls[0].call.id.as_str(), log.count("start c0")),
            ("c0", 1)
        );

        let session = session();
        session.load().await.unwrap();
        let mut stale = Conversation::try_from(old.clone()).unwrap();
        let before = stale.clone();
        let error = agent.run(&mut stale, first.clone()).store(&session).await.unwrap_err();
        assert!(error.to_string().contains("decided on before"), "{error}");
        assert_eq!((&stale, log.count("start c0")), (&before, 1));
        let start = Start::Resume { pending: Box::new(old), decisions: first.clone() };
        let mut other = Conversation::new();
        let error = agent.run(&mut other, start).store(&session).await.unwrap_err();
        assert!(error.to_string().contains("decided on before"), "{error}");
        assert_eq!((other, log.count("start c0")), (Conversation::new(), 1));
        let mut chat = session.load().await.unwrap();
        let last = build(vec![Reply::text("done")]);
        let error = last.run(&mut chat, first).store(&session).await.unwrap_err();
        assert!(matches!(error, LoopError::Approval(ApprovalError::NotPending { .. })), "{error}");
        assert_eq!(log.count("start c0"), 1);
        let second = ApprovalDecisions::approve_all(&chat.pending().unwrap());
        last.run(&mut chat, second).store(&session).await.unwrap();
        assert_eq!(log.count("start c0"), 2);
    }
}

/// Regression test. A pending call that was changed in its session must not be signed again. Before the fix, the run
/// signed it when it resumed and waited again.
#[tokio::test]
async fn changed_pending_call_in_a_session_is_not_signed() {
    let (storage, log) = (InMemorySessionStorage::new(), Log::default());
    let agent = Agent::builder(ScriptedProvider::new([calls([json!({})])]))
        .tools(registry(&log))
        .permission_policy(AsksAlways)
        .approval_signer(ApprovalKey::new("secret"))
        .config(|config| config.pause_for_approval = true)
        .build();
    let mut chat = Conversation::new();
    let session = SessionHandle::new(&storage, "s");
    agent.run(&mut chat, "go").store(&session).await.unwrap_err();
    let stored = serde_json::to_string(&chat).unwrap();
    for (what, with) in [("sure?", "may I look?"), ("\"signature\"", "\"other\"")] {
        assert!(stored.contains(what), "{stored}");
        let mut changed: Conversation = serde_json::from_str(&stored.replace(what, with)).unwrap();
        let before = changed.clone();
        let run = agent.run(&mut changed, Start::Continue).wait_for_approval();
        let error = run.await.unwrap_err().to_string();
        assert!(error.contains("signature") || error.contains("not signed"), "{error}");
        assert_eq!(changed, before);
    }
}

/// A signer whose signatures all differ.
struct CountingSigner(AtomicUsize);

impl ApprovalSigner for CountingSigner {
    fn sign(
        &self,
        _: &str,
        _: &PendingCall,
        _: Option<&ToolDefinition>,
        _: Option<&dyn Fn() -> DateTime<Utc>>,
    ) -> ApprovalSignature {
        let code = self.0.fetch_add(1, Ordering::Relaxed).to_string();
        ApprovalSignature { expires_at: None, code }
    }

    fn verify(
        &self,
        _: &str,
        _: &PendingCall,
        _: Option<&ToolDefinition>,
        _: Option<&dyn Fn() -> DateTime<Utc>>,
    ) -> Result<(), ApprovalError> {
        Ok(())
    }
}

#[tokio::test]
async fn decision_on_a_copy_is_accepted_after_the_calls_were_signed_again() {
    let (storage, log) = (InMemorySessionStorage::new(), Log::default());
    let agent = Agent::builder(ScriptedProvider::new([calls([json!({})]), Reply::text("done")]))
        .tools(registry(&log))
        .permission_policy(AsksAlways)
        .approval_signer(CountingSigner(AtomicUsize::new(0)))
        .config(|config| config.pause_for_approval = true)
        .build();
    let session = SessionHandle::new(&storage, "s");
    let mut chat = Conversation::new();
    agent.run(&mut chat, "go").store(&session).await.unwrap_err();
    let mut copy: Conversation = serde_json::from_value(json!(chat)).unwrap();
    // Without a handle, nobody can decide.
    let again = agent.run(&mut chat, Start::Continue).wait_for_approval().store(&session);
    again.await.unwrap_err();
    let stored = session.load().await.unwrap();
    assert_ne!(stored.pending().unwrap().calls, copy.pending().unwrap().calls);
    let decisions = ApprovalDecisions::approve_all(&copy.pending().unwrap());
    let result = agent.run(&mut copy, decisions).store(&session).await.unwrap();
    assert_eq!((&*result.response, log.count("start")), ("done", 1));
}

/// The end of a failed or cancelled run is also written to its session. Otherwise the session would say that the
/// outcome of its calls is unknown.
#[tokio::test(start_paused = true)]
async fn end_of_a_failed_or_cancelled_run_is_stored() {
    for second in [json!({ "fail": "broken" }), json!({ "cancelled": true })] {
        let (storage, log) = (InMemorySessionStorage::new(), Log::default());
        let replies = [calls([json!({ "text": "a" }), second])];
        let builder = Agent::builder(ScriptedProvider::new(replies)).tools(registry(&log));
        let agent = builder.config(|config| config.tool_errors = ToolErrorPolicy::EndRun).build();
        let ctx = ToolContext::default();
        let token = ctx.cancellation_token.clone();
        tokio::spawn(async move {
            tokio::time::sleep(Duration::from_secs(1)).await;
            token.cancel();
        });
        let session = SessionHandle::new(&storage, "s");
        let mut chat = Conversation::new();
        agent.run(&mut chat, "go").context(&ctx).store(&session).await.unwrap_err();
        let stored = storage.load("s").await.unwrap();
        assert_eq!(stored.messages, chat.messages());
        assert_eq!(last_results(&stored.messages)[0], "c0: a");
    }
}

#[tokio::test]
async fn conflict_after_a_failed_run_does_not_hide_its_error() {
    let storage = InMemorySessionStorage::new();
    let failure = ProviderError::Authentication("no key".into());
    let other = storage.clone();
    let agent = Agent::builder(ScriptedProvider::new([Reply::error(failure)]))
        .prepare_turn(move |_| {
            let (mut session, revision) =
                other.load_versioned("s").now_or_never().unwrap().unwrap();
            session.state.custom.insert("of others".into(), json!(1));
            other.update(&session, &revision).now_or_never().unwrap().unwrap();
        })
        .build();
    let session = SessionHandle::new(&storage, "s");
    let mut chat = Conversation::new();
    let error = agent.run(&mut chat, "go").store(&session).await.unwrap_err();
    assert!(error.to_string().contains("no key"), "{error}");
    assert_eq!(storage.load("s").await.unwrap().state.custom["of others"], 1);
    let error = session.save(&chat).await.unwrap_err();
    assert!(matches!(error, StorageError::Conflict { .. }), "{error:?}");
}

#[tokio::test]
async fn repaired_session_is_stored_as_a_whole() {
    let storage = InMemorySessionStorage::new();
    let mut session = Session::new("s", ".".into());
    session.messages = vec![Message::assistant("hi"), Message::user("a")];
    storage.create(&session).await.unwrap();
    for text in ["b", "c"] {
        let session = SessionHandle::new(&storage, "s");
        let mut chat = session.load().await.unwrap();
        check_valid(chat.messages());
        chat.push(text);
        session.save(&chat).await.unwrap();
        assert_eq!(storage.load("s").await.unwrap().messages, chat.messages(), "{text}");
    }
}

#[tokio::test]
async fn deleted_session_is_created_again() {
    let storage = InMemorySessionStorage::new();
    let session = SessionHandle::new(&storage, "s");
    session.save(&Conversation::from(vec![Message::user("old")])).await.unwrap();
    storage.delete("s").await.unwrap();
    let mut chat = session.load().await.unwrap();
    chat.push("new");
    session.save(&chat).await.unwrap();
    assert_eq!(storage.load("s").await.unwrap().messages, [Message::user("new")]);
}

/// A conversation of three questions and answers.
fn three_turns() -> Conversation {
    let message = |number: usize| match number % 2 {
        0 => Message::user(format!("q{number}")),
        _ => Message::assistant(format!("a{number}")),
    };
    (0..6).map(message).collect::<Vec<_>>().into()
}

/// Regression test. A session always has the conversation that was stored last, whatever was done to it between two
/// stores. Before the fix, a conversation was appended if it was not shorter than the stored one, so that an edited
/// message, a fork, or the conversation of another user was mixed with what was stored.
#[tokio::test]
async fn session_has_the_stored_conversation_after_forks_and_edits() {
    type Change = Box<dyn Fn(&Conversation) -> Conversation>;
    let edited = |place: usize| {
        move |chat: &Conversation| {
            let mut messages = chat.messages().to_vec();
            messages[place] = Message { role: messages[place].role, ..Message::user("[removed]") };
            Conversation::from(messages)
        }
    };
    let changes: [(&str, Change, bool); 9] = [
        ("nothing", Box::new(Conversation::clone), true),
        ("first message", Box::new(edited(0)), false),
        ("last message", Box::new(edited(5)), false),
        ("fork of all", Box::new(|chat| chat.fork(6)), false),
        ("shorter fork", Box::new(|chat| chat.fork(3)), false),
        ("fork of nothing", Box::new(|chat| chat.fork(0)), false),
        ("other", Box::new(|_| vec![Message::user("Bob")].into()), false),
        ("longer", Box::new(|_| vec![Message::user("Bob"); 9].into()), false),
        ("copy", Box::new(|chat| serde_json::from_str(&json!(chat).to_string()).unwrap()), false),
    ];
    for (name, change, is_appended) in &changes {
        for pushed in [0, 1, 4] {
            for is_loaded in [true, false] {
                let storage = Noted::default();
                let session = SessionHandle::new(storage.clone(), "s");
                session.save(&three_turns()).await.unwrap();
                let chat = if is_loaded { session.load().await.unwrap() } else { three_turns() };
                if !is_loaded {
                    session.save(&chat).await.unwrap();
                }
                let mut other = change(&chat);
                (0..pushed).for_each(|number| other.push(format!("more {number}")));
                session.save(&other).await.unwrap();
                let stored = storage.load("s").await.unwrap().messages;
                assert_eq!(stored, other.messages(), "{name}, {pushed} more");
                let last = storage.log.lines().pop().unwrap();
                assert_eq!(last.starts_with("append"), *is_appended, "{name}: {last}");
                // The original still has its messages, and a run of it is stored too.
                let (mut chat, log) = (chat, Log::default());
                let agent = agent([Reply::text("done")], &log);
                agent.run(&mut chat, "And?").store(&session).await.unwrap();
                let stored = storage.load("s").await.unwrap().messages;
                assert_eq!(stored, chat.messages(), "{name}, {pushed} more, then a run");
                assert_eq!(stored.len(), 8);
            }
        }
    }
}

/// Two clones that wait for the same approval end differently. The session has the clone that was stored last.
#[tokio::test]
async fn clones_with_different_decisions_are_not_mixed() {
    let (storage, log) = (InMemorySessionStorage::new(), Log::default());
    let build = || {
        Agent::builder(ScriptedProvider::new([calls([json!({})]), Reply::text("done")]))
            .tools(registry(&log))
            .permission_policy(AsksAlways)
            .config(|config| config.pause_for_approval = true)
            .build()
    };
    let (asks, session) = (build(), SessionHandle::new(&storage, "s"));
    let mut chat = Conversation::new();
    asks.run(&mut chat, "go").store(&session).await.unwrap_err();
    let pending = chat.pending().unwrap();
    let mut other = chat.clone();
    // The run ends with the results, so the two conversations have equally many messages.
    let answers = || {
        let agent = Agent::builder(ScriptedProvider::new(["unused"])).tools(registry(&log));
        agent.stop_when(|_| true).build()
    };
    answers().run(&mut chat, ApprovalDecisions::approve_all(&pending)).await.unwrap();
    let denied = ApprovalDecisions::new().deny("c0", "no");
    answers().run(&mut other, denied).await.unwrap();
    for conversation in [&chat, &other, &chat] {
        session.save(conversation).await.unwrap();
        assert_eq!(storage.load("s").await.unwrap().messages, conversation.messages());
    }
    assert_ne!(chat.messages(), other.messages());
}

/// Regression test. Any write of a run fails, before or after it changed the storage. The run then continues with what
/// is in memory, the tools run once, and the session has everything. Before the fix, a decision was refused as already
/// used after the write of the pause had failed, and a write that had taken effect was a conflict.
#[tokio::test]
async fn run_continues_after_any_failed_write() {
    for (is_before, is_saved) in [(true, false), (false, false), (true, true), (false, true)] {
        let mut failures = 0;
        for at in 0.. {
            let (storage, log) = (Noted::default(), Log::default());
            let agent = Agent::builder(ScriptedProvider::new(replies()))
                .tools(registry(&log))
                .permission_policy(AsksAlways)
                .config(|config| config.pause_for_approval = true)
                .build();
            let session = SessionHandle::new(storage.clone(), "s");
            let mut chat = session.load().await.unwrap();
            *storage.fails.lock().unwrap() = Some((at, is_before));
            let (mut start, mut failed) = (Start::from("go"), false);
            // After the last write has failed, the response is in memory.
            while chat.messages().last().is_none_or(|last| last.text() != "done") {
                let ended = agent.run(&mut chat, start).store(&session).await;
                let waits = matches!(ended, Err(LoopError::ApprovalRequired(_)));
                assert!(waits || matches!(ended, Ok(_) | Err(LoopError::Storage(_))), "{ended:?}");
                if matches!(ended, Err(LoopError::Storage(_))) {
                    failed = true;
                    if is_saved {
                        session.save(&chat).await.unwrap();
                    }
                }
                let decisions = |pending| ApprovalDecisions::approve_all(&pending).into();
                start = chat.pending().map_or(Start::Continue, decisions);
            }
            assert_eq!(log.count("start"), 2, "{at} {is_before} {is_saved}");
            *storage.fails.lock().unwrap() = None;
            session.save(&chat).await.unwrap();
            assert_eq!(storage.load("s").await.unwrap().messages, chat.messages());
            if !failed {
                break;
            }
            failures += 1;
        }
        assert_eq!(failures, 6, "all writes of the run failed once");
    }
}

/// Regression test. Any write of a run fails, and `Start::Continue` goes on with the same run, also after the last write.
/// Before the fix, the answer of such a run was not returned any more, and a typed run called the model again for its
/// output.
#[tokio::test]
async fn run_that_was_not_stored_continues_where_it_was() {
    let output = || Reply::tool_call("o", "final_output", json!({ "value": "done" }));
    for (is_typed, writes) in [(false, 4), (true, 5)] {
        for at in 0..writes {
            let (storage, log) = (Noted::failing(Some((at, true))), Log::default());
            let last = if is_typed { output() } else { Reply::text("done") };
            let provider = ScriptedProvider::new([calls([json!({})]), last]);
            let agent = Agent::builder(provider.clone()).tools(registry(&log)).max_turns(2).build();
            let session = SessionHandle::new(storage.clone(), "s");
            let mut chat = Conversation::new();
            let failed = agent.run(&mut chat, "go").store(&session);
            let error = if is_typed {
                failed.typed::<String>().await.unwrap_err()
            } else {
                failed.await.unwrap_err()
            };
            assert!(matches!(error, LoopError::Storage(_)), "{error}");
            let again = agent.run(&mut chat, Start::Continue).store(&session);
            let response = if is_typed {
                again.typed::<String>().await.unwrap().output
            } else {
                again.await.unwrap().response
            };
            assert_eq!(response, "done", "{is_typed} {at}");
            assert_eq!((provider.calls(), log.count("start"), chat.turns()), (2, 1, 2));
            assert_eq!(storage.load("s").await.unwrap().messages, chat.messages());
        }
    }
}

/// The answer of a stepped run was not stored, and the caller adds a message. The next run answers it.
#[tokio::test]
async fn message_behind_an_answer_that_was_not_stored_is_answered() {
    let storage = Noted::failing(Some((1, true)));
    let agent = Agent::builder(ScriptedProvider::new(["first", "second"])).build();
    let session = SessionHandle::new(storage.clone(), "s");
    let mut chat = Conversation::new();
    {
        let mut steps = agent.run(&mut chat, "go").store(&session).steps();
        assert!(matches!(steps.next().await, Some(Err(LoopError::Storage(_)))));
        steps.inject("And?");
    }
    assert_eq!(chat.messages()[1], Message::assistant("first"));
    let result = agent.run(&mut chat, Start::Continue).store(&session).await.unwrap();
    assert_eq!((&*result.response, chat.messages().len()), ("second", 4));
}

/// Regression test. Two processes decide on the same approval. The first write of one fails without a change, and the
/// other stores the same. Before the fix, the first took this write for its own, and the tool ran twice.
#[tokio::test]
async fn write_of_another_is_not_taken_for_the_own() {
    let (storage, log) = (Noted::default(), Log::default());
    let agent = |replies: Vec<Reply>| {
        let builder = Agent::builder(ScriptedProvider::new(replies)).tools(registry(&log));
        let builder = builder.permission_policy(AsksAlways);
        builder.config(|config| config.pause_for_approval = true).build()
    };
    let session = || SessionHandle::new(storage.clone(), "s");
    let mut chat = Conversation::new();
    let asks = agent(vec![calls([json!({})])]);
    asks.run(&mut chat, "go").store(&session()).await.unwrap_err();
    let ([mine, theirs], mut chats) = ([session(), session()], Vec::new());
    for handle in [&mine, &theirs] {
        chats.push(handle.load().await.unwrap());
    }
    let decisions = ApprovalDecisions::approve_all(&chats[0].pending().unwrap());
    *storage.fails.lock().unwrap() = Some((storage.log.lines().len(), true));
    let done = || agent(vec![Reply::text("done")]);
    let failed = done().run(&mut chats[0], decisions.clone()).store(&mine).await;
    assert!(matches!(failed, Err(LoopError::Storage(StorageError::Io(_)))), "{failed:?}");
    done().run(&mut chats[1], decisions).store(&theirs).await.unwrap();
    let error = done().run(&mut chats[0], Start::Continue).store(&mine).await.unwrap_err();
    assert!(matches!(error, LoopError::Storage(StorageError::Conflict { .. })), "{error}");
    assert_eq!(log.count("start"), 1);
}

/// A conversation is edited after a write that took effect and whose result was lost.
#[tokio::test]
async fn edit_after_a_lost_result_of_a_write_is_stored() {
    for at in [0, 1] {
        let storage = Noted::default();
        let session = SessionHandle::new(storage.clone(), "s");
        let mut chat = three_turns();
        *storage.fails.lock().unwrap() = Some((at, false));
        session.save(&chat).await.ok();
        chat.push("more");
        session.save(&chat).await.ok();
        let edited = chat.fork(1);
        session.save(&edited).await.unwrap();
        assert_eq!(storage.load("s").await.unwrap().messages, edited.messages());
    }
}

/// A clone that is kept does not make the conversation itself a copy.
#[tokio::test]
async fn decision_on_a_conversation_with_a_clone_is_accepted() {
    let (storage, log) = (InMemorySessionStorage::new(), Log::default());
    let session = SessionHandle::new(&storage, "s");
    let mut chat = session.load().await.unwrap();
    session.save(&chat).await.unwrap();
    let agent = Agent::builder(ScriptedProvider::new([calls([json!({})]), Reply::text("done")]))
        .tools(registry(&log))
        .permission_policy(AsksAlways)
        .config(|config| config.pause_for_approval = true)
        .build();
    chat.push("before");
    session.save(&chat).await.unwrap();
    agent.run(&mut chat, "go").await.unwrap_err();
    let backup = chat.clone();
    let decisions = ApprovalDecisions::approve_all(&chat.pending().unwrap());
    agent.run(&mut chat, decisions).store(&session).await.unwrap();
    assert_eq!(storage.load("s").await.unwrap().messages, chat.messages());
    assert_ne!(backup.messages(), chat.messages());
}

/// A run pauses, and the write of the pause fails. A copy of the pending approval continues it with the same handle.
#[tokio::test]
async fn copy_of_a_pause_that_was_not_stored_is_accepted() {
    let (storage, log) = (Noted::default(), Log::default());
    let agent = Agent::builder(ScriptedProvider::new([calls([json!({})]), Reply::text("done")]))
        .tools(registry(&log))
        .permission_policy(AsksAlways)
        .config(|config| config.pause_for_approval = true)
        .build();
    let session = SessionHandle::new(storage.clone(), "s");
    let mut chat = session.load().await.unwrap();
    // The first two writes store the message and the response.
    *storage.fails.lock().unwrap() = Some((2, true));
    let failed = agent.run(&mut chat, "go").store(&session).await.unwrap_err();
    assert!(matches!(failed, LoopError::Storage(StorageError::Io(_))), "{failed}");
    let pending = chat.pending().unwrap();
    let decisions = ApprovalDecisions::approve_all(&pending);
    let mut copy = Conversation::try_from(pending).unwrap();
    agent.run(&mut copy, decisions).store(&session).await.unwrap();
    assert_eq!(log.count("start"), 1);
    assert_eq!(storage.load("s").await.unwrap().messages, copy.messages());
}
