//! HMAC signatures on tool calls that wait for an approval.

use std::fmt;
use std::time::Duration;

use chrono::{DateTime, SubsecRound, Utc};
use hmac::{Hmac, KeyInit, Mac};
use neuron_durable::hexadecimal;
use neuron_types::{ApprovalError, ApprovalSignature, ApprovalSigner, PendingCall, ToolDefinition};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

/// A key that signs an agent's pending calls, which are tool calls that wait for an approval.
///
/// A program may store pending calls outside of its process until a person decides. Meanwhile somebody may edit the
/// arguments, insert a call of another run, or insert a call that was approved a year ago. An agent with a key accepts
/// decisions only for calls that were signed with this key. It therefore rejects changed calls and calls of other runs.
/// It rejects old calls if [`valid_for`](Self::valid_for) is set.
///
/// The signature is an HMAC-SHA-256 of these values:
///
/// - the run's id,
/// - the [approval id](PendingCall::approval_id), so the run number, the turn and the position of the call,
/// - the call's id, the tool's name and the arguments,
/// - the schema of the tool's arguments,
/// - the question for the approver,
/// - the time at which the signature expires.
///
/// The signature does not cover the conversation, and does not show that a decision is new. If the state of a run is
/// restored twice and no [session](neuron_types::Session) stores the conversation, each run accepts the decisions, so
/// the calls run twice. If a signature is wrong, the agent returns
/// [`ApprovalError::Signature`] and runs no call.
///
/// Earlier releases did not sign the question or the approval id. Their signatures are rejected.
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
    /// Secret key of the HMAC.
    secret: Vec<u8>,
    /// Time from the signature to its expiry. `None` if signatures do not expire.
    lifetime: Option<Duration>,
}

impl ApprovalKey {
    /// Creates a key from a secret, which should be 32 random bytes. Signatures do not expire, unless
    /// [`valid_for`](Self::valid_for) sets their lifetime.
    pub fn new(secret: impl Into<Vec<u8>>) -> Self {
        Self { secret: secret.into(), lifetime: None }
    }

    /// Makes signatures expire after `lifetime`. The time is read from the durable engine's clock. If the run has no
    /// engine, it is read from the system's clock. `wasm32-unknown-unknown` has no system clock, so use this method
    /// there only with an engine.
    #[must_use]
    pub fn valid_for(mut self, lifetime: Duration) -> Self {
        self.lifetime = Some(lifetime);
        self
    }

    /// Returns the HMAC over the signed fields of a pending call.
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
            "neuron approval 3",
            run_id,
            pending.approval_id,
            call.id,
            call.name,
            sorted(&call.input),
            pending.reason,
            schema,
            expires_at.map(|end| end.timestamp()),
        ]);
        // HMAC accepts keys of any length, so this never falls back to the default key.
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
        // The expiry is stored in whole seconds, because every storage preserves these. If it exceeds the range of the
        // calendar, the signature never expires.
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
        // `verify_slice` compares in constant time, so timing does not reveal a prefix of the code.
        mac.verify_slice(&code).map_err(|_| {
            wrong("has a wrong signature: it was changed, or is of another run or key")
        })?;
        if signature.expires_at.is_some_and(|end| now(engine_time) >= end) {
            return Err(wrong("was signed too long ago"));
        }
        Ok(())
    }
}

/// Returns the engine's time, or the system's time if there is no engine.
fn now(engine_time: Option<&dyn Fn() -> DateTime<Utc>>) -> DateTime<Utc> {
    engine_time.map_or_else(Utc::now, |time| time())
}

impl fmt::Debug for ApprovalKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ApprovalKey").field("lifetime", &self.lifetime).finish_non_exhaustive()
    }
}

/// Returns a JSON value with the keys of its objects sorted. Values that differ only in the order of keys therefore get
/// the same signature, because a storage may reorder keys.
fn sorted(value: &Value) -> Value {
    let mut value = value.clone();
    value.sort_all_objects();
    value
}

/// Decodes hexadecimal digits. Returns `None` if a character is not a digit or the number of digits is odd.
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
        let mut calls = vec![PendingCall::new(call, "sure?").at("run-1", 0, 1, 2)];
        let signature = key.sign("run-1", &calls[0], None, Some(&|| at(1_000)));
        calls[0].signature = Some(signature);
        (key, calls)
    }

    #[test]
    fn signature_matches_openssl() {
        // Computed once with another implementation of the standard:
        // printf '%s' '["neuron approval 3","run-1","approval-0-1-2-75bd838029978d25a03f796df5de2058",
        //     "c0","delete",{"deep":{"a":[2,3],"b":1},"path":"/tmp/a"},"sure?",null,1060]' (one line)
        //     | openssl dgst -sha256 -hmac secret
        let (_, calls) = signed();
        assert_eq!(
            calls[0].signature.as_ref().unwrap().code,
            "539bbfa9fdd5472008ed4af390a8b10d1fcdce30860c3e871357a3d5f3da830a"
        );
    }

    #[test]
    fn signature_survives_a_storage_until_it_expires() {
        let (key, calls) = signed();
        let stored = serde_json::to_string(&calls).unwrap();
        // A storage may sort the keys of JSON objects.
        let value: std::collections::BTreeMap<String, Value> =
            serde_json::from_str(stored.trim_matches(['[', ']'])).unwrap();
        let calls: Vec<PendingCall> =
            serde_json::from_value(json!([serde_json::to_value(value).unwrap()])).unwrap();
        assert_eq!(key.verify("run-1", &calls[0], None, Some(&|| at(1_059))), Ok(()));
        let error = key.verify("run-1", &calls[0], None, Some(&|| at(1_060))).unwrap_err();
        assert_eq!(error.to_string(), "the pending call `c0` was signed too long ago");
    }

    #[test]
    fn signature_is_wrong_after_any_change() {
        let (key, calls) = signed();
        let changes: [&dyn Fn(&mut PendingCall); 9] = [
            &|pending| *pending = pending.clone().at("run-1", 0, 2, 2),
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
