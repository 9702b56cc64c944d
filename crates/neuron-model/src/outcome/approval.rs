//! Pending tool calls of a run that need an approval, and the decisions on them.

use std::collections::BTreeMap;
use std::fmt;

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::approval_id::{self, Place};
use crate::{
    ApprovalError, KnownEffect, Message, TokenUsage, ToolCall, ToolOutput, ToolUseRef, transcript,
};

/// The state of a run that stopped because tool calls need an approval.
///
/// `LoopError::ApprovalRequired` contains it. `pending` of a conversation of
/// `neuron_loop` returns it too, also after the conversation was stored.
///
/// Any process can continue the run from this state. Store the state as JSON and show [`calls`](Self::calls) to a
/// person. Then pass the state and the [`ApprovalDecisions`] to an agent with the same configuration.
///
/// The state contains the conversation, so it may be large and confidential. Protect it against changes, because anyone
/// who can modify the state controls which calls run. `Debug` omits the conversation and the arguments.
///
/// # Example
///
/// ```
/// use neuron_model::{ApprovalDecisions, PendingApproval, PendingCall, ToolCall};
/// use serde_json::json;
///
/// let call = ToolCall { id: "call_1".into(), name: "delete".into(), input: json!({"path": "a"}) };
/// let pending = PendingApproval::new("run-1", vec![PendingCall::new(call, "It deletes a file")]);
///
/// let stored = serde_json::to_string(&pending)?;
/// let pending: PendingApproval = serde_json::from_str(&stored)?;
/// # let pending = PendingApproval::new("run-1", vec![pending.calls[0].clone().at("run-1", 0, 0, 0)]);
/// let decisions = ApprovalDecisions::new().deny(&pending.calls[0].approval_id, "the file is needed");
/// pending.check(&decisions)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct PendingApproval {
    /// Format version of the state, which is [`PendingApproval::VERSION`] of the release that wrote the state.
    pub version: u32,
    /// Id of the run.
    pub run_id: String,
    /// Index of this run among the runs of its conversation, from zero.
    #[serde(default)]
    pub run_number: usize,
    /// Number of the current turn, from zero.
    #[serde(default)]
    pub turn: usize,
    /// Number of model calls that returned a response.
    #[serde(default)]
    pub turns: usize,
    /// Number of model calls that the run has made so far, including failed calls.
    #[serde(default)]
    pub requests: usize,
    /// Number of tool calls that were started.
    #[serde(default)]
    pub tool_calls: usize,
    /// Tokens that the run has used so far.
    #[serde(default)]
    pub usage: TokenUsage,
    /// The part of `usage` that tools and the agents inside them used.
    #[serde(default)]
    pub tool_usage: TokenUsage,
    /// The conversation.
    ///
    /// The last response is followed by a message with the results of its tool calls. The result of a pending call is a
    /// placeholder. After the results come the messages that were added while calls were pending.
    #[serde(default)]
    pub messages: Vec<Message>,
    /// The pending calls, in the order of the response that made them.
    pub calls: Vec<PendingCall>,
    /// The keys and results of the tool calls that have an effect key. Empty if no durable
    /// engine runs the tools.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub effects: Vec<KnownEffect>,
    /// In a [copy for display](Self::without_messages), the ids of the model that are not unique in the conversation.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    ambiguous_ids: Vec<String>,
}

impl PendingApproval {
    /// The format version that this release writes. It is also the newest version that this release reads.
    pub const VERSION: u32 = 1;

    /// Creates the state of a waiting run with these pending calls and without a conversation. Set the other fields
    /// directly.
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
            ambiguous_ids: Vec::new(),
        }
    }

    /// Returns a copy for display, in which [`messages`](Self::messages) and [`effects`](Self::effects) are empty, also
    /// in nested runs. A run cannot continue from the copy.
    #[must_use]
    pub fn without_messages(&self) -> Self {
        let shown = |pending: &PendingCall| PendingCall {
            approval_id: pending.approval_id.clone(),
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
            ambiguous_ids: self
                .calls
                .iter()
                .map(|pending| pending.call.id.clone())
                .filter(|id| self.is_ambiguous(id))
                .collect(),
            // The remaining fields are counters.
            ..*self
        }
    }

    /// Returns the pending call with this [`approval_id`](PendingCall::approval_id), or with this id of the model.
    /// Returns `None` if there is none, or if several have this id of the model.
    #[must_use]
    pub fn call(&self, id: &str) -> Option<&PendingCall> {
        self.find(id).ok()
    }

    /// Finds the pending call on which a decision with the given id is.
    fn find(&self, id: &str) -> Result<&PendingCall, ApprovalError> {
        let by_approval =
            |pending: &&PendingCall| !pending.approval_id.is_empty() && pending.approval_id == id;
        if let Some(pending) = self.calls.iter().find(by_approval) {
            return Ok(pending);
        }
        // A model may choose an id of this form for a call. Such an id is not searched among the ids of the model.
        if let Some(place) = approval_id::place(id) {
            let id = id.to_owned();
            return Err(ApprovalError::NotPending { id, reason: self.why_not_pending(place) });
        }
        let mut named = self.calls.iter().filter(|pending| pending.call.id == id);
        let pending =
            named.next().ok_or_else(|| ApprovalError::UnknownCall { id: id.to_owned() })?;
        match named.next().is_some() || self.is_ambiguous(id) {
            true => Err(ApprovalError::AmbiguousCall { id: id.to_owned() }),
            false => Ok(pending),
        }
    }

    /// Returns `true` if several calls of the conversation have this id of the model.
    fn is_ambiguous(&self, id: &str) -> bool {
        let made = self.messages.iter().flat_map(Message::tool_uses).filter(|call| call.id == id);
        made.count() > 1 || self.ambiguous_ids.iter().any(|ambiguous| ambiguous == id)
    }

    /// Returns the reason why no pending call has an approval id that names this place.
    fn why_not_pending(&self, place: Place) -> &'static str {
        let at_place = |pending: &PendingCall| approval_id::place(&pending.approval_id);
        if self.calls.iter().any(|pending| at_place(pending) == Some(place)) {
            "another call is at its place now"
        } else if (place.run_number, place.turn) > (self.run_number, self.turn) {
            "the run has not made this call"
        } else {
            "it was decided on before, or the run went on without it"
        }
    }

    /// Removes the calls on which there are decisions, also from nested runs. The decisions must have passed
    /// [`check`](Self::check).
    pub fn remove_decided(&mut self, decisions: &ApprovalDecisions) {
        self.calls.retain_mut(|call| match (decisions.of(call), &mut call.nested) {
            (None, _) => true,
            (Some(ApprovalDecision::Nested { decisions }), Some(nested)) => {
                nested.remove_decided(decisions);
                !nested.calls.is_empty()
            }
            (Some(_), _) => false,
        });
    }

    /// Checks that this release supports the state's version.
    ///
    /// # Errors
    ///
    /// [`ApprovalError::UnsupportedVersion`] if the state was written by a newer release.
    pub fn check_version(&self) -> Result<(), ApprovalError> {
        let (found, supported) = (self.version, Self::VERSION);
        // This release also reads all older versions.
        match found > supported {
            true => Err(ApprovalError::UnsupportedVersion { found, supported }),
            false => Ok(()),
        }
    }

    /// Checks that a run can continue from this state.
    ///
    /// # Errors
    ///
    /// - [`ApprovalError::UnsupportedVersion`] if the state was written by a newer release.
    /// - [`ApprovalError::Malformed`] if no call is pending, if the conversation is invalid, or if a pending call is
    ///   not in the last response. A pending call is also in the response if the response calls its tool through
    ///   [`CALL_TOOL`](crate::CALL_TOOL). The state does not tell whether the agent defers tools.
    pub fn check_whole(&self) -> Result<(), ApprovalError> {
        self.check_version()?;
        let malformed = |reason: String| ApprovalError::Malformed { reason };
        if self.calls.is_empty() {
            return Err(malformed("no call is pending".into()));
        }
        transcript::validate(&self.messages)
            .map_err(|violation| malformed(violation.to_string()))?;
        // The response that made the calls directly precedes their results.
        let answer =
            transcript::place_of_results(&self.messages).and_then(|place| place.checked_sub(1));
        let answer = answer.and_then(|index| self.messages.get(index));
        for PendingCall { call, nested, .. } in &self.calls {
            let mut made = answer.into_iter().flat_map(Message::tool_uses);
            // A call with a nested run has started already, maybe with arguments that a person edited. They may differ
            // from the arguments in the response.
            let is_same = |made: ToolUseRef<'_>| {
                (made.id, made.name) == (&*call.id, &*call.name)
                    && (nested.is_some() || *made.input == call.input)
            };
            let is_made = made.any(|made| is_same(made) || is_same(made.target()));
            if !is_made {
                let text = format!("the last answer did not make the call `{}`", call.id);
                return Err(malformed(text));
            }
        }
        Ok(())
    }

    /// Checks that decisions match the pending calls.
    ///
    /// - Each decision must be on a pending call. A decision by the id that the model gave to the call is accepted only
    ///   if one call of [`messages`](Self::messages) has this id.
    /// - A call must not have two decisions.
    /// - A call inside which a sub-agent waits cannot be approved. It accepts [nested](ApprovalDecisions::nested)
    ///   decisions, a denial or a supplied result.
    /// - Any other call does not accept nested decisions.
    /// - Each pending call must have a decision, except if the decisions are [partial](ApprovalDecisions::partial).
    ///
    /// # Errors
    ///
    /// The [`ApprovalError`] of the first mismatch. Calls without a decision are reported last.
    pub fn check(&self, decisions: &ApprovalDecisions) -> Result<(), ApprovalError> {
        self.check_version()?;
        for (id, decision) in &decisions.calls {
            let pending = self.find(id)?;
            if !decisions.of(pending).is_some_and(|of| std::ptr::eq(of, decision)) {
                return Err(ApprovalError::AmbiguousCall { id: id.clone() });
            }
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
                // A denial and a supplied result are also valid for a call inside which a sub-agent waits.
                _ => {}
            }
        }
        if decisions.partial {
            return Ok(());
        }
        let missing = self.calls.iter().filter(|pending| decisions.of(pending).is_none());
        let missing: Vec<String> = missing.map(|pending| pending.call.id.clone()).collect();
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

/// A tool call that needs an approval. `Debug` omits the arguments.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct PendingCall {
    /// The id of this request for an approval, for [`ApprovalDecisions`].
    ///
    /// The id names the number of the run in its conversation, the turn, the position in the response, and a digest of
    /// the run's id, the tool, its arguments, and the pending calls of a sub-agent inside the call. A decision therefore
    /// never applies to another call, also if the model repeats its ids. Empty if no run made the call, and in states
    /// that an earlier release stored.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub approval_id: String,
    /// The tool call, with the arguments of the model.
    ///
    /// If `nested` is set, the call has already started. `call` then has the arguments with which it started.
    pub call: ToolCall,
    /// The reason why the permission policy requires an approval.
    pub reason: String,
    /// The state of a sub-agent's run inside the call, if this run waits for an approval. Decide on the sub-agent's
    /// calls with [`ApprovalDecisions::nested`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nested: Option<Box<PendingApproval>>,
    /// Signature that proves that the agent itself requested this approval. `None` if the agent has no
    /// `ApprovalSigner`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signature: Option<ApprovalSignature>,
}

impl PendingCall {
    /// Creates a pending call without an [`approval_id`](Self::approval_id). `reason` is the reason why the permission
    /// policy requires an approval.
    pub fn new(call: ToolCall, reason: impl Into<String>) -> Self {
        let approval_id = String::new();
        Self { approval_id, call, reason: reason.into(), nested: None, signature: None }
    }

    /// Sets the [`approval_id`](Self::approval_id) of a call of the run `run_id`. `run_number` is the number of the run
    /// in its conversation, `turn` the turn of the run, and `position` the position of the call in the response. Each
    /// counts from zero.
    #[must_use]
    pub fn at(mut self, run_id: &str, run_number: usize, turn: usize, position: usize) -> Self {
        let place = Place { run_number, turn, position };
        self.approval_id = approval_id::approval_id(run_id, place, &self);
        self
    }

    /// Returns the id for a decision on the call.
    fn decision_id(&self) -> &str {
        match &*self.approval_id {
            "" => &self.call.id,
            id => id,
        }
    }
}

impl fmt::Debug for PendingCall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PendingCall")
            .field("approval_id", &self.approval_id)
            .field("id", &self.call.id)
            .field("name", &self.call.name)
            .field("reason", &self.reason)
            .field("nested", &self.nested)
            .finish_non_exhaustive()
    }
}

/// A signature that proves that an agent requested the approval of a call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ApprovalSignature {
    /// Time at which the signature expires. `None` if the signature does not expire.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<DateTime<Utc>>,
    /// Message authentication code, in hexadecimal digits.
    pub code: String,
}

/// A person's decisions on the pending calls of a [`PendingApproval`], by their
/// [approval ids](PendingCall::approval_id).
///
/// A decision applies to its call alone. A decision that comes too late or a second time, or that is on another call,
/// is rejected with [`ApprovalError::NotPending`].
///
/// The id that the model gave to a call is also accepted, if one call of the conversation has this id. Many servers
/// repeat their ids in each response, so use the approval ids. Ids of calls that a compaction removed are not compared.
///
/// # Example
///
/// ```
/// use neuron_model::{ApprovalDecisions, PendingApproval};
///
/// fn decide(pending: &PendingApproval) -> ApprovalDecisions {
///     pending.calls.iter().fold(ApprovalDecisions::new(), |decisions, waiting| {
///         match waiting.call.name.as_str() {
///             "delete" => decisions.deny(&waiting.approval_id, "not on a Friday"),
///             _ => decisions.approve(&waiting.approval_id),
///         }
///     })
/// }
/// # assert_eq!(decide(&PendingApproval::new("run", vec![])), ApprovalDecisions::new());
/// ```
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ApprovalDecisions {
    calls: BTreeMap<String, ApprovalDecision>,
    #[serde(default)]
    partial: bool,
}

impl ApprovalDecisions {
    /// Creates an empty set of decisions.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Creates decisions that approve every pending call, including the calls of sub-agents.
    #[must_use]
    pub fn approve_all(pending: &PendingApproval) -> Self {
        pending.calls.iter().fold(Self::new(), |decisions, call| match &call.nested {
            Some(nested) => decisions.nested(call.decision_id(), Self::approve_all(nested)),
            None => decisions.approve(call.decision_id()),
        })
    }

    /// Approves a call, which then runs with its own arguments.
    #[must_use]
    pub fn approve(self, id: &str) -> Self {
        self.with(id, ApprovalDecision::Approve)
    }

    /// Approves a call with other arguments. The result of the call tells the model that the arguments were changed.
    #[must_use]
    pub fn approve_edited(self, id: &str, input: Value) -> Self {
        self.with(id, ApprovalDecision::ApproveEdited { input })
    }

    /// Denies a call. The model receives the reason as an error result.
    #[must_use]
    pub fn deny(self, id: &str, reason: impl Into<String>) -> Self {
        self.with(id, ApprovalDecision::Deny { reason: reason.into() })
    }

    /// Supplies the result of a call. The call does not run.
    #[must_use]
    pub fn supply(self, id: &str, output: ToolOutput) -> Self {
        self.with(id, ApprovalDecision::Supply { output })
    }

    /// Sets the decisions on the calls of a sub-agent. `id` is the id of the call inside which the sub-agent waits.
    #[must_use]
    pub fn nested(self, id: &str, decisions: Self) -> Self {
        self.with(id, ApprovalDecision::Nested { decisions })
    }

    /// Sets the decision on a call. An earlier decision on the call is replaced.
    #[must_use]
    pub fn with(mut self, id: &str, decision: ApprovalDecision) -> Self {
        self.calls.insert(id.to_owned(), decision);
        self
    }

    /// Marks the decisions as partial. The run then executes the decided calls and stops again, because all other calls
    /// stay pending.
    #[must_use]
    pub fn partial(mut self) -> Self {
        self.partial = true;
        self
    }

    /// Returns `true` if the decisions are marked as [partial](Self::partial).
    #[must_use]
    pub fn is_partial(&self) -> bool {
        self.partial
    }

    /// Returns the decision with this id. Returns `None` if there is none.
    #[must_use]
    pub fn get(&self, id: &str) -> Option<&ApprovalDecision> {
        self.calls.get(id)
    }

    /// Returns the decision on a pending call of a state for which these decisions passed
    /// [`check`](PendingApproval::check). Returns `None` if there is none.
    #[must_use]
    pub fn of(&self, pending: &PendingCall) -> Option<&ApprovalDecision> {
        let by_call = || match approval_id::place(&pending.call.id) {
            Some(_) => None,
            None => self.calls.get(&pending.call.id),
        };
        self.calls
            .get(&pending.approval_id)
            .filter(|_| !pending.approval_id.is_empty())
            .or_else(by_call)
    }

    /// Adds other decisions to these. They replace decisions on the same calls, except decisions on the calls of a
    /// sub-agent, which are added to each other. The result is partial only if both are.
    #[must_use]
    pub fn merge(mut self, others: Self) -> Self {
        for (id, other) in others.calls {
            let merged = match (self.calls.remove(&id), other) {
                (
                    Some(ApprovalDecision::Nested { decisions }),
                    ApprovalDecision::Nested { decisions: others },
                ) => ApprovalDecision::Nested { decisions: decisions.merge(others) },
                (_, other) => other,
            };
            self.calls.insert(id, merged);
        }
        self.partial &= others.partial;
        self
    }
}

/// The decision on a pending call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
#[non_exhaustive]
pub enum ApprovalDecision {
    /// Run the call with its own arguments.
    Approve,
    /// Run the call with other arguments.
    ApproveEdited {
        /// The arguments that replace the arguments of the call.
        input: Value,
    },
    /// Do not run the call.
    Deny {
        /// The reason, which the model receives as an error result of the call.
        reason: String,
    },
    /// Do not run the call, and use the given result.
    Supply {
        /// The result of the call.
        output: ToolOutput,
    },
    /// Continue the run of the sub-agent inside the call.
    Nested {
        /// The decisions on the sub-agent's calls.
        decisions: ApprovalDecisions,
    },
}

#[cfg(test)]
mod tests;
