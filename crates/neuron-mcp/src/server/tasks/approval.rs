//! Approvals of tool calls as forms for the user of the client.

use std::collections::BTreeMap;

use neuron_types::{ApprovalDecisions, PendingApproval, PendingCall};
use serde_json::{Value, json};

use super::McpTaskState;
use crate::server::{InputAnswers, InputRequest};
use crate::{ElicitationRequest, ElicitationResponse};

impl McpTaskState {
    /// Creates the state of a run that waits for an approval. The user receives a form for each pending call, with the
    /// tool, its arguments and the reason of the question. Calls of agents inside a call have their own forms.
    ///
    /// Use [`InputAnswers::approval_decisions`] to convert the responses.
    #[must_use]
    pub fn approval(pending: &PendingApproval) -> Self {
        let mut forms = BTreeMap::new();
        add_forms(pending, "", &mut forms);
        Self::InputRequired(forms)
    }
}

impl InputAnswers {
    /// Converts the user's responses to the forms of [`McpTaskState::approval`] to decisions. Returns `None` if the user
    /// has decided on no call.
    ///
    /// The user denies a call by the form, with an optional reason, or by declining the form. A form that was closed is
    /// no decision. The decisions are [partial](ApprovalDecisions::partial) if calls remain undecided.
    #[must_use]
    pub fn approval_decisions(&self, pending: &PendingApproval) -> Option<ApprovalDecisions> {
        self.decisions(pending, "")
    }

    fn decisions(&self, pending: &PendingApproval, path: &str) -> Option<ApprovalDecisions> {
        let mut decisions = ApprovalDecisions::new();
        let (mut decided, mut is_partial) = (false, false);
        for call in &pending.calls {
            let (id, key) = (id(call), key(path, call));
            let decision = match &call.nested {
                Some(nested) => self.decisions(nested, &key).map(|inner| {
                    is_partial |= inner.is_partial();
                    std::mem::take(&mut decisions).nested(id, inner)
                }),
                None => match self.elicitation(&key) {
                    Some(ElicitationResponse::Accept(form)) => {
                        let decisions = std::mem::take(&mut decisions);
                        Some(match form.get("approve").and_then(Value::as_bool) {
                            Some(true) => decisions.approve(id),
                            _ => decisions.deny(id, reason(form)),
                        })
                    }
                    Some(ElicitationResponse::Decline) => {
                        Some(std::mem::take(&mut decisions).deny(id, DENIED))
                    }
                    Some(ElicitationResponse::Cancel) | None => None,
                },
            };
            match decision {
                Some(more) => (decisions, decided) = (more, true),
                None => is_partial = true,
            }
        }
        let decisions = if is_partial { decisions.partial() } else { decisions };
        decided.then_some(decisions)
    }
}

/// Reason of a denial without a reason.
const DENIED: &str = "the user denied the call";

/// Adds a form for each pending call to `forms`. `path` is the key of the call inside which the agent waits.
fn add_forms(pending: &PendingApproval, path: &str, forms: &mut BTreeMap<String, InputRequest>) {
    for call in &pending.calls {
        let key = key(path, call);
        match &call.nested {
            Some(nested) => add_forms(nested, &key, forms),
            None => {
                forms.insert(key, form(call).into());
            }
        }
    }
}

/// Returns the key of the form for a call.
fn key(path: &str, call: &PendingCall) -> String {
    format!("{path}/{}", id(call))
}

/// Returns the id by which decisions refer to a call.
fn id(call: &PendingCall) -> &str {
    // A state without ids is one that the application made itself.
    match call.approval_id.as_str() {
        "" => &call.call.id,
        id => id,
    }
}

fn form(call: &PendingCall) -> ElicitationRequest {
    let PendingCall { call, reason, .. } = call;
    // The user must see all arguments, so they are not truncated.
    let message =
        format!("Approve the call of the tool `{}` with {}? {reason}", call.name, call.input);
    ElicitationRequest::form(
        message,
        json!({
            "type": "object",
            "properties": {
                "approve": { "type": "boolean", "title": "Approve the call" },
                "reason": { "type": "string", "title": "Reason of a denial" },
            },
            "required": ["approve"],
        }),
    )
}

/// Returns the reason of a denial.
fn reason(form: &Value) -> &str {
    let reason = form.get("reason").and_then(Value::as_str).map(str::trim);
    reason.filter(|reason| !reason.is_empty()).unwrap_or(DENIED)
}
