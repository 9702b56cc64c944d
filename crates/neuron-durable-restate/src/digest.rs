//! The digest of a step's input, in the record of the step.
//!
//! Restate itself compares the names of steps, and what is sent to other invocations. The digest is not
//! in the name, where a difference would drop the run without a word to it, but in the record: the run
//! ends with an error that says what differs. The service makes of that a failure which Restate tries
//! again, so that nothing is lost: once the code is as it was, the run goes on.

use neuron_types::{DurableError, stored_json};
use serde::Deserialize;

/// Puts a digest into a record's JSON.
pub(crate) fn add(digest: &str, record: &[u8]) -> Vec<u8> {
    let fields = record.strip_prefix(b"{").unwrap_or(record);
    [format!("{{\"digest\":\"{digest}\",").as_bytes(), fields].concat()
}

/// Compares the digest in a record with that of what is asked for now.
pub(crate) fn check(key: &str, record: &[u8], digest: &str) -> Result<(), DurableError> {
    #[derive(Deserialize)]
    struct Kept {
        digest: String,
    }

    let kept: Kept = stored_json::read(record).map_err(|error| {
        DurableError::Other(format!("the record of step {key} cannot be read: {error}").into())
    })?;
    compare(key, &kept.digest, digest)
}

/// Compares two digests of one step.
pub(crate) fn compare(key: &str, kept: &str, digest: &str) -> Result<(), DurableError> {
    match kept == digest {
        true => Ok(()),
        false => Err(DurableError::NonDeterminism {
            expected: format!("step {key} with digest {kept}"),
            got: format!("digest {digest}"),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::{add, check};

    #[test]
    fn a_record_keeps_its_fields_and_its_digest_is_compared() {
        let record = add("abc", br#"{"version":1,"at":5}"#);
        assert_eq!(record, br#"{"digest":"abc","version":1,"at":5}"#);
        check("llm/0", &record, "abc").unwrap();
        let error = check("llm/0", &record, "abd").unwrap_err();
        assert_eq!(error.kind(), "NonDeterminism");
        assert!(error.to_string().contains("step llm/0 with digest abc"), "{error}");
        for torn in [&b""[..], b"{", br#"{"version":1}"#] {
            assert_eq!(check("llm/0", torn, "abc").unwrap_err().kind(), "Other");
        }
    }
}
