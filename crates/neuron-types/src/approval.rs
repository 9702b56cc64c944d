//! A run that waits for a person: the calls that need an approval, and what was decided on them.

use std::collections::BTreeMap;
use std::fmt;

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{
    ApprovalError, KnownEffect, Message, TokenUsage, ToolCall, ToolDefinition, ToolOutput,
    WasmCompatSend, WasmCompatSync, transcript,
};

/// A run that stopped because calls of its last answer need an approval.
///
/// It holds all that the run needs to go on, in this process or another: store it as JSON, show
/// [`calls`](Self::calls) to a person, and hand it with the [`ApprovalDecisions`] to an agent that
/// is built alike. Its size is that of the conversation. It is as secret as the conversation, and
/// whoever can change it can change what will run.
///
/// `Debug` shows neither the conversation nor arguments.
///
/// # Example
///
/// ```
/// use neuron_types::{ApprovalDecisions, PendingApproval, PendingCall, ToolCall};
/// use serde_json::json;
///
/// let call = ToolCall { id: "call_1".into(), name: "delete".into(), input: json!({"path": "a"}) };
/// let pending = PendingApproval::new("run-1", vec![PendingCall::new(call, "It deletes a file")]);
///
/// let stored = serde_json::to_string(&pending)?;
/// let pending: PendingApproval = serde_json::from_str(&stored)?;
/// let decisions = ApprovalDecisions::new().deny(&pending.calls[0].call.id, "the file is needed");
/// pending.check(&decisions)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct PendingApproval {
    /// The version of this form: [`PendingApproval::VERSION`] where it was written.
    pub version: u32,
    /// The run's id.
    pub run_id: String,
    /// Which of the agent's runs it is, from zero.
    #[serde(default)]
    pub run_number: usize,
    /// The current turn, from zero.
    #[serde(default)]
    pub turn: usize,
    /// The calls of the model that were answered.
    #[serde(default)]
    pub turns: usize,
    /// The calls of the model that were made.
    #[serde(default)]
    pub requests: usize,
    /// The tool calls that were started.
    #[serde(default)]
    pub tool_calls: usize,
    /// The tokens that the run took so far.
    #[serde(default)]
    pub usage: TokenUsage,
    /// The part of them that its tools took: agents within them.
    #[serde(default)]
    pub tool_usage: TokenUsage,
    /// The conversation. The message after the last answer holds the results of its calls; those of the
    /// pending calls are placeholders. What was added while they waited stands after it.
    #[serde(default)]
    pub messages: Vec<Message>,
    /// The calls to decide on, in the order of the answer.
    pub calls: Vec<PendingCall>,
    /// The effects of the run whose tools gave them [keys](crate::Tool::effect_key). Only a durable engine knows them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub effects: Vec<KnownEffect>,
}

impl PendingApproval {
    /// The version of the stored form that this release writes, and the newest that it reads.
    pub const VERSION: u32 = 1;

    /// Creates the state of a run without a conversation; set its fields.
    pub fn new(run_id: impl Into<String>, calls: Vec<PendingCall>) -> Self {
        Self {
            version: Self::VERSION,
            run_id: run_id.into(),
            run_number: 0,
            turn: 0,
            turns: 0,
            requests: 0,
            tool_calls: 0,
            usage: TokenUsage::default(),
            tool_usage: TokenUsage::default(),
            messages: Vec::new(),
            calls,
            effects: Vec::new(),
        }
    }

    /// Returns what a person decides on: all but the conversations and effects of the run and of the agents inside its
    /// calls. A run does not go on from it.
    #[must_use]
    pub fn without_messages(&self) -> Self {
        let shown = |pending: &PendingCall| PendingCall {
            call: pending.call.clone(),
            reason: pending.reason.clone(),
            nested: pending.nested.as_ref().map(|nested| Box::new(nested.without_messages())),
            signature: pending.signature.clone(),
        };
        Self {
            version: self.version,
            run_id: self.run_id.clone(),
            usage: self.usage.clone(),
            tool_usage: self.tool_usage.clone(),
            messages: Vec::new(),
            calls: self.calls.iter().map(shown).collect(),
            effects: Vec::new(),
            ..*self
        }
    }

    /// Returns a pending call by its id.
    #[must_use]
    pub fn call(&self, id: &str) -> Option<&PendingCall> {
        self.calls.iter().find(|pending| pending.call.id == id)
    }

    /// Checks that this release can read the state.
    ///
    /// # Errors
    ///
    /// [`ApprovalError::UnsupportedVersion`] for one that a newer release wrote.
    pub fn check_version(&self) -> Result<(), ApprovalError> {
        let (found, supported) = (self.version, Self::VERSION);
        match found > supported {
            true => Err(ApprovalError::UnsupportedVersion { found, supported }),
            false => Ok(()),
        }
    }

    /// Checks that a stored state can go on: this release reads it, providers take its conversation, and the last answer
    /// there made the calls that wait.
    ///
    /// # Errors
    ///
    /// [`ApprovalError::UnsupportedVersion`] and [`ApprovalError::Malformed`].
    pub fn check_whole(&self) -> Result<(), ApprovalError> {
        self.check_version()?;
        let malformed = |reason: String| ApprovalError::Malformed { reason };
        if self.calls.is_empty() {
            return Err(malformed("no call is pending".into()));
        }
        transcript::validate(&self.messages)
            .map_err(|violation| malformed(violation.to_string()))?;
        let answer =
            transcript::place_of_results(&self.messages).and_then(|place| place.checked_sub(1));
        let answer = answer.and_then(|index| self.messages.get(index));
        for PendingCall { call, nested, .. } in &self.calls {
            let mut made = answer.into_iter().flat_map(Message::tool_uses);
            // The arguments of a call that began may have been changed by a person.
            let is_made = made.any(|made| {
                (made.id, made.name) == (&*call.id, &*call.name)
                    && (nested.is_some() || *made.input == call.input)
            });
            if !is_made {
                let text = format!("the last answer did not make the call `{}`", call.id);
                return Err(malformed(text));
            }
        }
        Ok(())
    }

    /// Checks that decisions fit: each is on a pending call, in its form, and none is missing.
    ///
    /// # Errors
    ///
    /// The first mismatch, the missing ones last.
    pub fn check(&self, decisions: &ApprovalDecisions) -> Result<(), ApprovalError> {
        self.check_version()?;
        for (id, decision) in &decisions.calls {
            let pending =
                self.call(id).ok_or_else(|| ApprovalError::UnknownCall { id: id.clone() })?;
            match (decision, &pending.nested) {
                (ApprovalDecision::Nested { decisions }, Some(nested)) => {
                    nested.check(decisions)?
                }
                (ApprovalDecision::Nested { .. }, None) => {
                    return Err(ApprovalError::NotNested { id: id.clone() });
                }
                (ApprovalDecision::Approve | ApprovalDecision::ApproveEdited { .. }, Some(_)) => {
                    return Err(ApprovalError::Nested { id: id.clone() });
                }
                _ => {}
            }
        }
        if decisions.partial {
            return Ok(());
        }
        let ids = self.calls.iter().map(|pending| &pending.call.id);
        let missing: Vec<String> =
            ids.filter(|id| !decisions.calls.contains_key(*id)).cloned().collect();
        if missing.is_empty() { Ok(()) } else { Err(ApprovalError::Undecided { ids: missing }) }
    }
}

impl fmt::Debug for PendingApproval {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PendingApproval")
            .field("version", &self.version)
            .field("run_id", &self.run_id)
            .field("turn", &self.turn)
            .field("messages", &self.messages.len())
            .field("calls", &self.calls)
            .finish_non_exhaustive()
    }
}

/// A call that needs an approval. `Debug` does not show its arguments.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct PendingCall {
    /// The call as the model made it; with an agent that waits inside, as it runs.
    pub call: ToolCall,
    /// The policy's question.
    pub reason: String,
    /// The run inside the call that waits: a sub-agent's. Its calls are what to decide on, with
    /// [`ApprovalDecisions::nested`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nested: Option<Box<PendingApproval>>,
    /// Shows that the agent made this question itself, if it signs them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signature: Option<ApprovalSignature>,
}

impl PendingCall {
    /// Creates a pending call with the policy's question.
    pub fn new(call: ToolCall, reason: impl Into<String>) -> Self {
        Self { call, reason: reason.into(), nested: None, signature: None }
    }
}

impl fmt::Debug for PendingCall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PendingCall")
            .field("id", &self.call.id)
            .field("name", &self.call.name)
            .field("reason", &self.reason)
            .field("nested", &self.nested)
            .finish_non_exhaustive()
    }
}

/// Shows that an agent itself asked about a call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ApprovalSignature {
    /// When it ends; `None`: never.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<DateTime<Utc>>,
    /// The code that only the holder of the key can make, in hexadecimal digits.
    pub code: String,
}

/// Signs the calls that wait for an approval, so that an agent decides only on what it asked itself. A state that leaves
/// the process may come back changed.
///
/// `run_id` is the id of the run, and `tool` the definition of the tool that the call names. `engine_time` is the clock
/// of a durable engine. Without one the system's clock counts.
pub trait ApprovalSigner: WasmCompatSend + WasmCompatSync {
    /// Signs a call that is about to wait.
    fn sign(
        &self,
        run_id: &str,
        pending: &PendingCall,
        tool: Option<&ToolDefinition>,
        engine_time: Option<&dyn Fn() -> DateTime<Utc>>,
    ) -> ApprovalSignature;

    /// Checks the signature of a call on which a person has decided.
    ///
    /// # Errors
    ///
    /// [`ApprovalError::Signature`] if this signer did not sign the call, or too long ago.
    fn verify(
        &self,
        run_id: &str,
        pending: &PendingCall,
        tool: Option<&ToolDefinition>,
        engine_time: Option<&dyn Fn() -> DateTime<Utc>>,
    ) -> Result<(), ApprovalError>;
}

/// What was decided on the calls of a [`PendingApproval`], by their ids.
///
/// # Example
///
/// ```
/// use neuron_types::{ApprovalDecisions, ToolOutput};
/// use serde_json::json;
///
/// let decisions = ApprovalDecisions::new()
///     .approve("call_1")
///     .approve_edited("call_2", json!({"path": "/tmp/a"}))
///     .deny("call_3", "not on a Friday")
///     .supply("call_4", ToolOutput::text("done by hand"));
/// # assert!(!decisions.is_partial());
/// ```
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ApprovalDecisions {
    calls: BTreeMap<String, ApprovalDecision>,
    #[serde(default)]
    partial: bool,
}

impl ApprovalDecisions {
    /// Starts without a decision.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Approves every pending call, those inside sub-agents too.
    #[must_use]
    pub fn approve_all(pending: &PendingApproval) -> Self {
        pending.calls.iter().fold(Self::new(), |decisions, call| match &call.nested {
            Some(nested) => decisions.nested(&call.call.id, Self::approve_all(nested)),
            None => decisions.approve(&call.call.id),
        })
    }

    /// Lets a call run.
    #[must_use]
    pub fn approve(self, id: &str) -> Self {
        self.with(id, ApprovalDecision::Approve)
    }

    /// Lets a call run with other arguments. The result tells the model of them.
    #[must_use]
    pub fn approve_edited(self, id: &str, input: Value) -> Self {
        self.with(id, ApprovalDecision::ApproveEdited { input })
    }

    /// Refuses a call. The model gets the reason as an error result.
    #[must_use]
    pub fn deny(self, id: &str, reason: impl Into<String>) -> Self {
        self.with(id, ApprovalDecision::Deny { reason: reason.into() })
    }

    /// Answers a call without running it.
    #[must_use]
    pub fn supply(self, id: &str, output: ToolOutput) -> Self {
        self.with(id, ApprovalDecision::Supply { output })
    }

    /// Decides on the calls of a sub-agent that runs inside a call.
    #[must_use]
    pub fn nested(self, id: &str, decisions: Self) -> Self {
        self.with(id, ApprovalDecision::Nested { decisions })
    }

    /// Decides on a call; a later decision replaces an earlier one.
    #[must_use]
    pub fn with(mut self, id: &str, decision: ApprovalDecision) -> Self {
        self.calls.insert(id.to_owned(), decision);
        self
    }

    /// Leaves calls without a decision pending: the run carries out the others, and stops again.
    #[must_use]
    pub fn partial(mut self) -> Self {
        self.partial = true;
        self
    }

    /// Whether calls without a decision stay pending.
    #[must_use]
    pub fn is_partial(&self) -> bool {
        self.partial
    }

    /// Returns the decision on a call.
    #[must_use]
    pub fn get(&self, id: &str) -> Option<&ApprovalDecision> {
        self.calls.get(id)
    }
}

/// What was decided on one call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
#[non_exhaustive]
pub enum ApprovalDecision {
    /// It runs.
    Approve,
    /// It runs with other arguments.
    ApproveEdited {
        /// The arguments.
        input: Value,
    },
    /// It does not run; the model sees the reason.
    Deny {
        /// Why.
        reason: String,
    },
    /// It does not run; this is its result.
    Supply {
        /// The result.
        output: ToolOutput,
    },
    /// The sub-agent inside the call goes on.
    Nested {
        /// What was decided on the sub-agent's calls.
        decisions: ApprovalDecisions,
    },
}

/// What a tool finds in [`ToolContext::extensions`](crate::ToolContext::extensions) when the run
/// inside its call goes on after an approval: it resumes that run instead of starting another.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ResumedApproval {
    /// The state of the run inside the call.
    pub pending: PendingApproval,
    /// What was decided on its calls.
    pub decisions: ApprovalDecisions,
}

impl ResumedApproval {
    /// Pairs a run's state with the decisions.
    #[must_use]
    pub fn new(pending: PendingApproval, decisions: ApprovalDecisions) -> Self {
        Self { pending, decisions }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn call(id: &str) -> PendingCall {
        let call = ToolCall { id: id.into(), name: "pay".into(), input: json!({ "secret": "s3" }) };
        PendingCall::new(call, "it pays")
    }

    fn nested(id: &str, inner: Vec<PendingCall>) -> PendingCall {
        PendingCall { nested: Some(Box::new(PendingApproval::new("inner", inner))), ..call(id) }
    }

    #[test]
    fn decisions_must_fit_the_pending_calls() {
        let pending = PendingApproval::new("r", vec![call("a"), nested("b", vec![call("c")])]);
        let decisions = ApprovalDecisions::new;
        let inner = decisions().deny("c", "no");
        let fits = decisions().approve("a").nested("b", inner.clone());
        assert_eq!(pending.check(&fits), Ok(()));
        assert_eq!(pending.check(&ApprovalDecisions::approve_all(&pending)), Ok(()));
        assert_eq!(pending.check(&decisions().partial()), Ok(()));
        let all_denied = decisions().deny("a", "").supply("b", ToolOutput::text("x"));
        assert_eq!(pending.check(&all_denied), Ok(()));

        let id = |id: &str| id.to_owned();
        let cases = [
            (decisions(), ApprovalError::Undecided { ids: vec![id("a"), id("b")] }),
            (decisions().approve("a"), ApprovalError::Undecided { ids: vec![id("b")] }),
            (fits.clone().approve("z"), ApprovalError::UnknownCall { id: id("z") }),
            (decisions().nested("a", inner), ApprovalError::NotNested { id: id("a") }),
            (fits.clone().approve("b"), ApprovalError::Nested { id: id("b") }),
            (fits.nested("b", decisions()), ApprovalError::Undecided { ids: vec![id("c")] }),
        ];
        for (decisions, error) in cases {
            assert_eq!(pending.check(&decisions), Err(error), "{decisions:?}");
        }
    }

    #[test]
    fn a_newer_form_is_refused() {
        let mut pending = PendingApproval::new("r", vec![call("a")]);
        pending.version = 2;
        let error = pending.check(&ApprovalDecisions::approve_all(&pending)).unwrap_err();
        assert_eq!(error, ApprovalError::UnsupportedVersion { found: 2, supported: 1 });
    }

    #[test]
    fn state_without_messages_keeps_what_a_person_decides_on() {
        let effect = || KnownEffect { tool: "pay".into(), key: "17".into(), output: None };
        let mut inner = PendingApproval::new("inner", vec![call("c")]);
        let mut outer = PendingApproval::new("r", vec![call("a"), call("b")]);
        (inner.turn, outer.turns, outer.usage.input_tokens) = (3, 4, 5);
        let signature = ApprovalSignature { expires_at: None, code: "c0de".into() };
        outer.calls[0].signature = Some(signature);
        let mut shown = outer.clone();
        shown.calls[1].nested = Some(Box::new(inner.clone()));
        for pending in [&mut inner, &mut outer] {
            pending.messages.push(Message::user("hi"));
            pending.effects.push(effect());
        }
        outer.calls[1].nested = Some(Box::new(inner));
        assert_eq!(outer.without_messages(), shown);
    }

    #[test]
    fn debug_shows_neither_conversation_nor_arguments() {
        let mut pending = PendingApproval::new("r", vec![call("a")]);
        pending.messages.push(Message::user("my secret s3"));
        let text = format!("{pending:?}");
        assert!(text.contains("\"a\"") && text.contains("pay"), "{text}");
        assert!(!text.contains("s3"), "{text}");
    }

    #[test]
    fn the_stored_form_is_pinned_and_ignores_unknown_fields() {
        let mut pending = PendingApproval::new("r", vec![nested("a", vec![call("c")])]);
        pending.messages.push(Message::user("hi"));
        let stored = serde_json::to_value(&pending).unwrap();
        let inner_call = json!({
            "call": { "id": "c", "name": "pay", "input": { "secret": "s3" } },
            "reason": "it pays",
        });
        assert_eq!(stored["version"], 1);
        assert_eq!(stored["calls"][0]["nested"]["calls"], json!([inner_call]));
        let mut foreign = stored;
        foreign["added_later"] = json!(true);
        assert_eq!(serde_json::from_value::<PendingApproval>(foreign).unwrap(), pending);

        let decisions = ApprovalDecisions::new().deny("a", "no").approve_edited("b", json!([1]));
        assert_eq!(
            serde_json::to_value(&decisions).unwrap(),
            json!({ "partial": false, "calls": {
                "a": { "type": "deny", "reason": "no" },
                "b": { "type": "approve_edited", "input": [1] },
            }})
        );
    }
}
