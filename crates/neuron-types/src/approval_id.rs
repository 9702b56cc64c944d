//! The ids of requests for an approval.

use crate::ToolCall;

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

/// Returns the approval id of a call.
pub(crate) fn approval_id(place: Place, call: &ToolCall) -> String {
    let Place { run_number, turn, position } = place;
    // A storage may change the order of keys.
    let mut input = call.input.clone();
    input.sort_all_objects();
    let digest =
        hmac_sha256::Hash::hash(serde_json::json!([call.name, input]).to_string().as_bytes());
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

    #[test]
    fn approval_id_names_place_and_call() {
        let place_of = |run_number, turn, position| Place { run_number, turn, position };
        let call = |name: &str, input| ToolCall { id: "c".into(), name: name.into(), input };
        let input = json!({ "b": [1, { "d": 2, "c": 3 }], "a": "x" });
        let id = approval_id(place_of(1, 20, 3), &call("pay", input));
        // Computed with another implementation:
        // printf '%s' '["pay",{"a":"x","b":[1,{"c":3,"d":2}]}]' | sha256sum | cut -c -32
        assert_eq!(id, "approval-1-20-3-ffe232833a330d77c3d101273c74c2a8");
        assert_eq!(place(&id), Some(place_of(1, 20, 3)));
        let others = [call("pays", json!({})), call("pay", json!({ "a": 1 }))];
        let [one, two] = others.map(|other| approval_id(place_of(1, 20, 3), &other));
        assert!(one != two && one != id && two != id);
    }

    #[test]
    fn other_ids_name_no_place() {
        let id = approval_id(
            Place { run_number: 0, turn: 0, position: 0 },
            &ToolCall { id: String::new(), name: String::new(), input: json!(null) },
        );
        for end in 0..id.len() {
            assert_eq!(place(&id[..end]), None, "{}", &id[..end]);
        }
        for other in [format!("{id}-"), format!("{id}0"), format!(" {id}"), id.replace("-0", "-x")]
        {
            assert_eq!(place(&other), None, "{other}");
        }
    }
}
