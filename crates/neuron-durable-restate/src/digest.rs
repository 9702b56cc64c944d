//! The digest of a model request, which older releases of this crate stored in the record of a model call.

use neuron_types::{DurableError, stored_json};
use serde::Deserialize;

/// Returns the request digest from the record of a model call. Returns an error if the record has none.
pub(crate) fn of(record: &[u8]) -> Result<String, DurableError> {
    /// The only field of an old model call record that is read, the request digest.
    #[derive(Deserialize)]
    struct Kept {
        digest: String,
    }

    let kept: Result<Kept, _> = stored_json::read(record);
    kept.map(|kept| kept.digest).map_err(|error| {
        DurableError::Other(format!("a step of the journal has no digest: {error}").into())
    })
}

#[cfg(test)]
mod tests {
    use super::of;

    #[test]
    fn digest_is_read_and_a_truncated_record_is_an_error() {
        assert_eq!(of(br#"{"digest":"abc","version":1,"at":5}"#).unwrap(), "abc");
        for torn in [&b""[..], b"{", br#"{"version":1}"#] {
            assert_eq!(of(torn).unwrap_err().kind(), "Other");
        }
    }
}
