//! A correct in-memory storage that can be broken in one way.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use chrono::{DateTime, SubsecRound, Utc};
use neuron_types::{
    ContentBlock, Message, Session, SessionRevision, SessionState, SessionStorage, SessionSummary,
    StorageError, VersionedSessionStorage, check_session_id,
};
use serde_json::Value;

/// The name of a deliberate mistake in the storage. A misspelt name causes no mistake, and the test that expects the
/// suite to find the mistake then fails.
pub(crate) type Mutation = &'static str;

/// The mutation that changes nothing, so that the storage is correct.
pub(crate) const CORRECT: Mutation = "";

/// An in-memory storage. Clones share the sessions.
#[derive(Clone)]
pub(crate) struct Mutant {
    mutation: Mutation,
    sessions: Arc<Mutex<BTreeMap<String, Stored>>>,
    deleted: Arc<Mutex<Vec<SessionSummary>>>,
    revisions: Arc<AtomicUsize>,
    busy: Arc<AtomicUsize>,
}

#[derive(Clone)]
struct Stored {
    session: Session,
    revision: SessionRevision,
}

impl Mutant {
    pub(crate) fn new(mutation: Mutation) -> Self {
        Self {
            mutation,
            sessions: Arc::default(),
            deleted: Arc::default(),
            revisions: Arc::default(),
            busy: Arc::default(),
        }
    }

    fn is(&self, mutation: Mutation) -> bool {
        self.mutation == mutation
    }

    fn check(&self, id: &str) -> Result<(), StorageError> {
        match check_session_id(id) {
            Err(_) if self.is("TakesBadIds") => Ok(()),
            Err(_) if self.is("BadIdIsMissing") => Err(StorageError::NotFound(id.into())),
            checked => checked,
        }
    }

    fn check_versioned(&self, id: &str) -> Result<(), StorageError> {
        if self.is("VersionedTakesBadIds") { Ok(()) } else { check_session_id(id) }
    }

    fn key(&self, id: &str) -> String {
        match self.mutation {
            "FoldsIds" => id.to_lowercase(),
            "CutsIds" => id.chars().take(60).collect(),
            _ => id.to_owned(),
        }
    }

    fn get(&self, id: &str) -> Result<Stored, StorageError> {
        self.sessions.lock().unwrap().get(&self.key(id)).cloned().ok_or_else(|| {
            match self.mutation {
                "MissingIsOther" => StorageError::Other("no such row".into()),
                _ => StorageError::NotFound(id.into()),
            }
        })
    }

    /// Writes a session unconditionally, and returns the new revision.
    fn put(&self, session: Session) -> SessionRevision {
        let mut sessions = self.sessions.lock().unwrap();
        let key = self.key(&session.id);
        let before = sessions.get(&key).map(|stored| stored.revision.clone());
        let revision = match self.mutation {
            "CountsFromOne" | "BeginsAgain" => {
                let before = before.map_or(0, |before| number(&before));
                // With `BeginsAgain`, the revisions of a session start again after a delete. The prefix makes the
                // revisions of different sessions different, so that the suite finds only this fault.
                let prefix = if self.is("BeginsAgain") { session.id.as_str() } else { "" };
                SessionRevision::new(format!("{prefix}#{}", before + 1))
            }
            "HashesContent" => {
                SessionRevision::new(serde_json::to_string(&session.messages).unwrap())
            }
            _ => self.next_revision(),
        };
        sessions.insert(key, Stored { session, revision: revision.clone() });
        revision
    }

    fn next_revision(&self) -> SessionRevision {
        SessionRevision::new(self.revisions.fetch_add(1, Ordering::Relaxed).to_string())
    }

    /// Returns the session that is stored for a saved session, changed as the mutation requires.
    fn stored_form(&self, mut session: Session) -> Session {
        match self.mutation {
            "CutsTimes" => {
                session.created_at = session.created_at.trunc_subsecs(6);
                session.updated_at = session.updated_at.trunc_subsecs(6);
            }
            "SortsKeys" => each_input(&mut session, &sorted),
            "RoundsFloats" => each_input(&mut session, &rounded),
            "CutsAtNul" => {
                for block in session.messages.iter_mut().flat_map(|message| &mut message.content) {
                    if let ContentBlock::Text(text) = block {
                        *text = text.split('\0').next().unwrap().to_owned();
                    }
                }
            }
            "ForgetsState" => session.state = SessionState::default(),
            "LosesLastMessage" => drop(session.messages.pop()),
            _ => {}
        }
        session
    }

    /// Writes a session in two steps, and yields to other tasks between them.
    async fn put_in_two(&self, session: Session) -> SessionRevision {
        let mut half = session.clone();
        half.messages.truncate(session.messages.len() / 2);
        self.put(half);
        for _ in 0..4 {
            tokio::task::yield_now().await;
        }
        self.put(session)
    }
}

impl SessionStorage for Mutant {
    async fn save(&self, session: &Session) -> Result<(), StorageError> {
        self.check(&session.id)?;
        let mut session = self.stored_form(session.clone());
        let before = self.get(&session.id).ok();
        if let Some(Stored { session: before, .. }) = &before {
            match self.mutation {
                "KeepsTheRest" => {
                    let rest = before.messages.iter().skip(session.messages.len());
                    session.messages.extend(rest.cloned());
                }
                "SavesNewMessages" if session.messages.len() >= before.messages.len() => {
                    let new = session.messages.split_off(before.messages.len());
                    session.messages = before.messages.iter().cloned().chain(new).collect();
                }
                "NewestWins" if before.updated_at > session.updated_at => return Ok(()),
                _ => {}
            }
        }
        match (self.mutation, before) {
            ("TearsSaves", _) => drop(self.put_in_two(session).await),
            ("SavesLater", _) => {
                let storage = self.clone();
                let turns = match session.state.event_count % 3 {
                    1 => 20,
                    _ => 2,
                };
                // Dropping the future does not stop the spawned save.
                let save = tokio::spawn(async move {
                    for _ in 0..turns {
                        tokio::task::yield_now().await;
                    }
                    storage.put(session);
                });
                save.await.unwrap();
            }
            ("FailsWhenBusy", _) => {
                let others = self.busy.fetch_add(1, Ordering::Relaxed);
                tokio::task::yield_now().await;
                self.busy.fetch_sub(1, Ordering::Relaxed);
                if others > 0 {
                    return Err(StorageError::Other("the database is locked".into()));
                }
                self.put(session);
            }
            ("SaveKeepsRevision", Some(Stored { revision, .. })) => {
                let stored = Stored { session, revision };
                self.sessions.lock().unwrap().insert(stored.session.id.clone(), stored);
            }
            (_, _) => drop(self.put(session)),
        }
        Ok(())
    }

    async fn load(&self, id: &str) -> Result<Session, StorageError> {
        self.check(id)?;
        let stored = match self.get(id) {
            Err(_) if self.is("MissingIsEmpty") => return Ok(Session::new(id, ".".into())),
            stored => stored?,
        };
        if self.is("LoadingChanges") {
            let mut changed = stored.session.clone();
            changed.updated_at = Utc::now();
            self.put(changed);
        }
        if self.is("CannotReadDeep") {
            let json = serde_json::to_string(&stored.session).unwrap();
            return serde_json::from_str(&json)
                .map_err(|error| StorageError::Serialization(error.to_string()));
        }
        Ok(stored.session)
    }

    async fn list(&self) -> Result<Vec<SessionSummary>, StorageError> {
        let sessions = self.sessions.lock().unwrap();
        let mut list: Vec<_> = sessions.values().map(|stored| stored.session.summary()).collect();
        match self.mutation {
            "ListsUnordered" => list.reverse(),
            "ListsByLanguage" => list.sort_by_key(|summary| summary.id.to_lowercase()),
            "CountsOne" => list.iter_mut().for_each(|summary| summary.message_count = 1),
            "ListsDeleted" => list.extend(self.deleted.lock().unwrap().iter().cloned()),
            _ => {}
        }
        Ok(list)
    }

    async fn delete(&self, id: &str) -> Result<(), StorageError> {
        self.check(id)?;
        let stored = match self.get(id) {
            Err(_) if self.is("DeletesNothing") => return Ok(()),
            stored => stored?,
        };
        self.deleted.lock().unwrap().push(stored.session.summary());
        self.sessions.lock().unwrap().remove(&self.key(id));
        Ok(())
    }
}

impl VersionedSessionStorage for Mutant {
    async fn create(&self, session: &Session) -> Result<SessionRevision, StorageError> {
        self.check_versioned(&session.id)?;
        let id = session.id.clone();
        let conflict = || StorageError::Conflict { id: id.clone() };
        if !self.is("CreateOverwrites") && self.get(&id).is_ok() {
            return Err(conflict());
        }
        if self.is("CreateRaces") {
            tokio::task::yield_now().await;
            return Ok(self.put(session.clone()));
        }
        let mut sessions = self.sessions.lock().unwrap();
        if sessions.contains_key(&self.key(&id)) && !self.is("CreateOverwrites") {
            return Err(conflict());
        }
        // Checks and inserts under one lock, so that no other task can create the session in between.
        let taken = Stored { session: session.clone(), revision: SessionRevision::new("") };
        sessions.remove(&self.key(&id));
        match self.mutation {
            "CountsFromOne" | "BeginsAgain" | "HashesContent" => {
                drop(sessions);
                Ok(self.put(session.clone()))
            }
            _ => {
                let revision = self.next_revision();
                sessions.insert(self.key(&id), Stored { revision: revision.clone(), ..taken });
                Ok(revision)
            }
        }
    }

    async fn load_versioned(&self, id: &str) -> Result<(Session, SessionRevision), StorageError> {
        self.check_versioned(id)?;
        let stored = self.get(id)?;
        if self.is("ReadingRevises") {
            let revision = self.put(stored.session.clone());
            return Ok((stored.session, revision));
        }
        Ok((stored.session, stored.revision))
    }

    async fn revision(&self, id: &str) -> Result<SessionRevision, StorageError> {
        self.check_versioned(id)?;
        Ok(self.get(id)?.revision)
    }

    async fn update(
        &self,
        session: &Session,
        expected: &SessionRevision,
    ) -> Result<SessionRevision, StorageError> {
        self.check_versioned(&session.id)?;
        if self.is("UpdateCreates") {
            return Ok(self.put(session.clone()));
        }
        let write = |stored: &mut Session| *stored = session.clone();
        match self.mutation {
            "UpdateRaces" | "TearsUpdates" => {
                self.expect(&session.id, expected, false)?;
                tokio::task::yield_now().await;
                match self.mutation {
                    "UpdateRaces" => Ok(self.put(session.clone())),
                    _ => Ok(self.put_in_two(session.clone()).await),
                }
            }
            _ => self.change(&session.id, expected, self.is("UpdateIgnores"), write),
        }
    }

    async fn append(
        &self,
        id: &str,
        messages: &[Message],
        state: Option<&SessionState>,
        expected: &SessionRevision,
    ) -> Result<SessionRevision, StorageError> {
        self.check_versioned(id)?;
        let write = |session: &mut Session| {
            match self.mutation {
                "AppendsFirst" => drop(session.messages.splice(0..0, messages.iter().cloned())),
                "AppendReplaces" => session.messages = messages.to_vec(),
                "AppendsTwice" => session.messages.extend([messages, messages].concat()),
                _ => session.messages.extend_from_slice(messages),
            }
            if let Some(state) = state
                && !self.is("AppendDropsState")
            {
                session.state = state.clone();
            }
            if !self.is("AppendKeepsTime") {
                session.updated_at = now();
            }
        };
        match self.mutation {
            "AppendSkips" if messages.is_empty() && state.is_none() => {
                Ok(self.expect(id, expected, false)?.revision)
            }
            "AppendRaces" | "TearsAppends" => {
                let mut session = self.expect(id, expected, false)?.session;
                let mut half = session.clone();
                write(&mut session);
                if self.is("TearsAppends") {
                    half.messages.extend(messages.iter().take(messages.len().div_ceil(2)).cloned());
                    self.put(half);
                }
                tokio::task::yield_now().await;
                Ok(self.put(session))
            }
            _ => self.change(id, expected, self.is("AppendIgnores"), write),
        }
    }
}

impl Mutant {
    fn expect(
        &self,
        id: &str,
        expected: &SessionRevision,
        ignores: bool,
    ) -> Result<Stored, StorageError> {
        let stored = self.get(id)?;
        match &stored.revision {
            revision if revision == expected || ignores => Ok(stored),
            _ if self.is("ConflictIsOther") => Err(StorageError::Other("no row changed".into())),
            _ => Err(StorageError::Conflict { id: id.to_owned() }),
        }
    }

    /// Changes a stored session with the function `write` if its revision equals `expected`. Returns the new revision.
    /// If `ignores` is `true`, the revision is not compared.
    ///
    /// The comparison and the write use one lock, unless a mutation requires otherwise.
    fn change(
        &self,
        id: &str,
        expected: &SessionRevision,
        ignores: bool,
        write: impl FnOnce(&mut Session),
    ) -> Result<SessionRevision, StorageError> {
        let counts = matches!(self.mutation, "CountsFromOne" | "BeginsAgain" | "HashesContent");
        let mut stored = match self.expect(id, expected, ignores) {
            Err(error) if self.is("ConflictWrites") => {
                let mut stored = self.get(id)?;
                write(&mut stored.session);
                self.put(stored.session);
                return Err(error);
            }
            stored => stored?,
        };
        write(&mut stored.session);
        if counts {
            return Ok(self.put(stored.session));
        }
        let mut sessions = self.sessions.lock().unwrap();
        let current = sessions.get_mut(&self.key(id));
        let current = current.ok_or_else(|| StorageError::NotFound(id.to_owned()))?;
        // Another thread may have written since the first check.
        if current.revision != *expected && !ignores {
            return Err(StorageError::Conflict { id: id.to_owned() });
        }
        stored.revision = self.next_revision();
        *current = stored.clone();
        Ok(stored.revision)
    }
}

fn now() -> DateTime<Utc> {
    Utc::now()
}

fn number(revision: &SessionRevision) -> usize {
    revision.as_str().rsplit('#').next().unwrap().parse().unwrap()
}

/// Changes the arguments of all tool calls.
fn each_input(session: &mut Session, change: &dyn Fn(&Value) -> Value) {
    for block in session.messages.iter_mut().flat_map(|message| &mut message.content) {
        if let ContentBlock::ToolUse { input, .. } = block {
            *input = change(input);
        }
    }
}

fn sorted(value: &Value) -> Value {
    match value {
        Value::Object(map) => {
            let map: BTreeMap<_, _> = map.iter().map(|(key, value)| (key, sorted(value))).collect();
            map.into_iter().map(|(key, value)| (key.clone(), value)).collect()
        }
        Value::Array(items) => items.iter().map(sorted).collect(),
        value => value.clone(),
    }
}

fn rounded(value: &Value) -> Value {
    match value {
        Value::Array(items) => items.iter().map(rounded).collect(),
        Value::Number(number) if number.is_f64() => {
            let float = number.as_f64().unwrap();
            // A parser that multiplies digits with powers of ten makes such a rounding error.
            Value::from(float + float * f64::EPSILON)
        }
        value => value.clone(),
    }
}
