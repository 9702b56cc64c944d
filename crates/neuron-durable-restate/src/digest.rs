//! The digest that older releases kept in the record of a call of the model.

use neuron_types::{DurableError, stored_json};
use serde::Deserialize;

/// Reads the digest that is stored in a record.
pub(crate) fn of(record: &[u8]) -> Result<String, DurableError> {
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
    fn an_old_record_has_a_digest_and_a_torn_one_is_an_error() {
        assert_eq!(of(br#"{"digest":"abc","version":1,"at":5}"#).unwrap(), "abc");
        for torn in [&b""[..], b"{", br#"{"version":1}"#] {
            assert_eq!(of(torn).unwrap_err().kind(), "Other");
        }
    }
}
