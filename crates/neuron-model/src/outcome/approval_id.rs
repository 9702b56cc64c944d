//! The ids of requests for an approval.

use crate::PendingCall;

/// The place of a tool call in its conversation. Each number counts from zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) run_number: usize,
    pub(crate) turn: usize,
    /// Position in the response.
    pub(crate) position: usize,
}

/// Number of bytes of the digest in an approval id. A second call with a given digest cannot be found.
const DIGEST: usize = 16;

/// Returns the approval id of a call of the run with the id `run_id`.
pub(crate) fn approval_id(run_id: &str, place: Place, pending: &PendingCall) -> String {
    let Place { run_number, turn, position } = place;
    // A storage may change the order of keys.
    let mut input = pending.call.input.clone();
    input.sort_all_objects();
    // A sub-agent may wait several times inside one call, each time for decisions on other calls.
    let nested = pending.nested.iter().flat_map(|nested| &nested.calls);
    let nested: Vec<&str> = nested.map(|pending| &*pending.approval_id).collect();
    let digested = serde_json::json!([run_id, pending.call.name, input, nested]).to_string();
    let digest = hmac_sha256::Hash::hash(digested.as_bytes());
    let digits = digest.iter().take(DIGEST).map(|byte| format!("{byte:02x}"));
    format!("approval-{run_number}-{turn}-{position}-{}", digits.collect::<String>())
}

/// Returns the place that an approval id names. Returns `None` if the text does not have the form of an approval id.
pub(crate) fn place(id: &str) -> Option<Place> {
    let mut parts = id.strip_prefix("approval-")?.split('-');
    let mut number = || parts.next()?.parse().ok();
    let place = Place { run_number: number()?, turn: number()?, position: number()? };
    let digest = parts.next()?;
    let is_digest = digest.len() == 2 * DIGEST && digest.bytes().all(|it| it.is_ascii_hexdigit());
    (is_digest && parts.next().is_none()).then_some(place)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::{PendingApproval, ToolCall};

    fn pending(name: &str, input: serde_json::Value) -> PendingCall {
        PendingCall::new(ToolCall { id: "c".into(), name: name.into(), input }, "")
    }

    #[test]
    fn approval_id_names_place_and_call() {
        let at = Place { run_number: 1, turn: 20, position: 3 };
        let input = json!({ "b": [1, { "d": 2, "c": 3 }], "a": "x" });
        let id = approval_id("r", at, &pending("pay", input.clone()));
        // Computed with another implementation:
        // printf '%s' '["r","pay",{"a":"x","b":[1,{"c":3,"d":2}]},[]]' | sha256sum | cut -c -32
        assert_eq!(id, "approval-1-20-3-ed5db85b6d22508dd13fa975f08c2ce7");
        assert_eq!(place(&id), Some(at));
        let inner = pending("wire", json!({})).at("inner", 0, 0, 0);
        let mut waits = pending("pay", input.clone());
        waits.nested = Some(Box::new(PendingApproval::new("inner", vec![inner])));
        let others = [
            approval_id("r", at, &pending("pays", input.clone())),
            approval_id("r", at, &pending("pay", json!({ "a": 1 }))),
            approval_id("s", at, &pending("pay", input)),
            approval_id("r", at, &waits),
        ];
        assert!(others.iter().all(|other| *other != id && place(other) == Some(at)));
    }

    #[test]
    fn other_ids_name_no_place() {
        let at = Place { run_number: 0, turn: 0, position: 0 };
        let id = approval_id("", at, &pending("", json!(null)));
        for end in 0..id.len() {
            assert_eq!(place(&id[..end]), None, "{}", &id[..end]);
        }
        for other in [format!("{id}-"), format!("{id}0"), format!(" {id}"), id.replace("-0", "-x")]
        {
            assert_eq!(place(&other), None, "{other}");
        }
    }
}
