//! Signatures on calls that wait for an approval.

use std::fmt;
use std::time::Duration;

use chrono::{DateTime, SubsecRound, Utc};
use hmac::{Hmac, KeyInit, Mac};
use neuron_types::{ApprovalError, ApprovalSignature, ApprovalSigner, PendingCall, ToolDefinition};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

/// The key with which an agent signs the calls that wait for an approval.
///
/// A state that leaves the process may come back changed: another path in the arguments, a call of
/// another run, one that was approved a year ago. With a key the agent decides only on what it asked
/// itself: a HMAC-SHA-256 covers the run's id, the call's id, the tool's name, the arguments, the
/// schema of the tool's arguments, the question that a person is shown, and the end of the signature's life. A wrong one
/// is [`ApprovalError::Signature`], and nothing runs. The conversation is not covered.
///
/// Signatures of earlier releases do not cover the question and are refused.
///
/// # Example
///
/// ```
/// # use neuron_loop::AgentBuilder;
/// # use neuron_runtime::ApprovalKey;
/// use std::time::Duration;
///
/// # fn example(builder: AgentBuilder, secret: Vec<u8>) -> AgentBuilder {
/// // The same secret in every process that may go on with the run.
/// let key = ApprovalKey::new(secret).valid_for(Duration::from_secs(24 * 60 * 60));
/// builder.config(|config| config.pause_for_approval = true).approval_signer(key)
/// # }
/// ```
#[derive(Clone)]
pub struct ApprovalKey {
    secret: Vec<u8>,
    lifetime: Option<Duration>,
}

impl ApprovalKey {
    /// Creates a key of a secret, which should be 32 random bytes. Signatures do not expire.
    pub fn new(secret: impl Into<Vec<u8>>) -> Self {
        Self { secret: secret.into(), lifetime: None }
    }

    /// Lets signatures end after a time. The clock is the durable engine's, else the system's, which
    /// a bare wasm32 does not have.
    #[must_use]
    pub fn valid_for(mut self, lifetime: Duration) -> Self {
        self.lifetime = Some(lifetime);
        self
    }

    fn mac(
        &self,
        run_id: &str,
        pending: &PendingCall,
        tool: Option<&ToolDefinition>,
        expires_at: Option<DateTime<Utc>>,
    ) -> Hmac<Sha256> {
        let call = &pending.call;
        let schema = tool.map(|tool| sorted(&tool.input_schema));
        let schema = schema.map(|schema| hexadecimal(&Sha256::digest(schema.to_string())));
        let signed = json!([
            "neuron approval 2",
            run_id,
            call.id,
            call.name,
            sorted(&call.input),
            pending.reason,
            schema,
            expires_at.map(|end| end.timestamp()),
        ]);
        // Any length of key will do: longer ones are hashed first.
        let mac = <Hmac<Sha256> as KeyInit>::new_from_slice(&self.secret);
        let mut mac = mac.unwrap_or_else(|_| KeyInit::new(&Default::default()));
        mac.update(signed.to_string().as_bytes());
        mac
    }
}

impl ApprovalSigner for ApprovalKey {
    fn sign(
        &self,
        run_id: &str,
        pending: &PendingCall,
        tool: Option<&ToolDefinition>,
        engine_time: Option<&dyn Fn() -> DateTime<Utc>>,
    ) -> ApprovalSignature {
        // Whole seconds: every store keeps them. A life beyond the calendar never ends.
        let ends = |lifetime| {
            let lifetime = chrono::Duration::from_std(lifetime).ok()?;
            now(engine_time).trunc_subsecs(0).checked_add_signed(lifetime)
        };
        let expires_at = self.lifetime.and_then(ends);
        let mac = self.mac(run_id, pending, tool, expires_at);
        ApprovalSignature { expires_at, code: hexadecimal(&mac.finalize().into_bytes()) }
    }

    fn verify(
        &self,
        run_id: &str,
        pending: &PendingCall,
        tool: Option<&ToolDefinition>,
        engine_time: Option<&dyn Fn() -> DateTime<Utc>>,
    ) -> Result<(), ApprovalError> {
        let wrong = |reason| ApprovalError::Signature { id: pending.call.id.clone(), reason };
        let signature = pending.signature.as_ref().ok_or_else(|| wrong("is not signed"))?;
        let mac = self.mac(run_id, pending, tool, signature.expires_at);
        let code = bytes(&signature.code).unwrap_or_default();
        // In constant time.
        mac.verify_slice(&code).map_err(|_| {
            wrong("has a wrong signature: it was changed, or is of another run or key")
        })?;
        if signature.expires_at.is_some_and(|end| now(engine_time) >= end) {
            return Err(wrong("was signed too long ago"));
        }
        Ok(())
    }
}

fn now(engine_time: Option<&dyn Fn() -> DateTime<Utc>>) -> DateTime<Utc> {
    engine_time.map_or_else(Utc::now, |time| time())
}

impl fmt::Debug for ApprovalKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ApprovalKey").field("lifetime", &self.lifetime).finish_non_exhaustive()
    }
}

/// Returns the value with the keys of its objects sorted, because storages may reorder them.
fn sorted(value: &Value) -> Value {
    match value {
        Value::Array(items) => items.iter().map(sorted).collect(),
        Value::Object(fields) => {
            let mut fields: Vec<_> = fields.iter().collect();
            fields.sort_by_key(|(key, _)| *key);
            fields.into_iter().map(|(key, value)| (key.clone(), sorted(value))).collect()
        }
        scalar => scalar.clone(),
    }
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn bytes(hexadecimal: &str) -> Option<Vec<u8>> {
    let digits: Option<Vec<u32>> = hexadecimal.chars().map(|digit| digit.to_digit(16)).collect();
    let pairs = digits?;
    let byte = |pair: &[u32]| match pair {
        [high, low] => u8::try_from(high * 16 + low).ok(),
        _ => None,
    };
    pairs.chunks(2).map(byte).collect()
}

#[cfg(test)]
mod tests {
    use neuron_types::ToolCall;

    use super::*;

    fn at(seconds: i64) -> DateTime<Utc> {
        DateTime::from_timestamp(seconds, 0).unwrap()
    }

    fn signed() -> (ApprovalKey, Vec<PendingCall>) {
        let key = ApprovalKey::new("secret").valid_for(Duration::from_secs(60));
        let input = json!({ "path": "/tmp/a", "deep": { "b": 1, "a": [2, 3] } });
        let call = ToolCall { id: "c0".into(), name: "delete".into(), input };
        let mut calls = vec![PendingCall::new(call, "sure?")];
        let signature = key.sign("run-1", &calls[0], None, Some(&|| at(1_000)));
        calls[0].signature = Some(signature);
        (key, calls)
    }

    #[test]
    fn the_code_is_pinned() {
        // Computed once with another implementation of the standard:
        // printf '%s' '["neuron approval 2","run-1","c0","delete",{"deep":{"a":[2,3],"b":1},"path":"/tmp/a"},"sure?",null,1060]'
        //     | openssl dgst -sha256 -hmac secret
        let (_, calls) = signed();
        assert_eq!(
            calls[0].signature.as_ref().unwrap().code,
            "fd46f4b855997c40ec8e28ea1d6cc956740faf95de7ee2cfb9c92ff7b9f706a4"
        );
    }

    #[test]
    fn what_was_signed_holds_through_a_store_until_it_ends() {
        let (key, calls) = signed();
        let stored = serde_json::to_string(&calls).unwrap();
        // A store that sorts keys.
        let value: std::collections::BTreeMap<String, Value> =
            serde_json::from_str(stored.trim_matches(['[', ']'])).unwrap();
        let calls: Vec<PendingCall> =
            serde_json::from_value(json!([serde_json::to_value(value).unwrap()])).unwrap();
        assert_eq!(key.verify("run-1", &calls[0], None, Some(&|| at(1_059))), Ok(()));
        let error = key.verify("run-1", &calls[0], None, Some(&|| at(1_060))).unwrap_err();
        assert_eq!(error.to_string(), "the pending call `c0` was signed too long ago");
    }

    #[test]
    fn whatever_is_changed_the_signature_is_wrong() {
        let (key, calls) = signed();
        let changes: [&dyn Fn(&mut PendingCall); 8] = [
            &|pending| pending.reason = "may I read it?".into(),
            &|pending| pending.call.id = "c1".into(),
            &|pending| pending.call.name = "delete_all".into(),
            &|pending| pending.call.input["path"] = json!("/"),
            &|pending| pending.call.input["deep"]["a"] = json!([3, 2]),
            &|pending| pending.signature.as_mut().unwrap().expires_at = None,
            &|pending| pending.signature.as_mut().unwrap().expires_at = Some(at(9_999)),
            &|pending| pending.signature.as_mut().unwrap().code.truncate(62),
        ];
        for (index, change) in changes.iter().enumerate() {
            let mut changed = calls.clone();
            change(&mut changed[0]);
            key.verify("run-1", &changed[0], None, Some(&|| at(1_000)))
                .expect_err(&index.to_string());
        }
        key.verify("run-2", &calls[0], None, Some(&|| at(1_000))).unwrap_err();
        let other = ApprovalKey::new("another secret");
        other.verify("run-1", &calls[0], None, Some(&|| at(1_000))).unwrap_err();
        let mut unsigned = calls;
        unsigned[0].signature = None;
        key.verify("run-1", &unsigned[0], None, Some(&|| at(1_000))).unwrap_err();
    }

    #[test]
    fn debug_does_not_show_the_secret() {
        let text = format!("{:?}", ApprovalKey::new("hunter2"));
        assert!(!text.contains("hunter2") && !text.contains("104"), "{text}");
    }
}
