//! Reports checks that are skipped because this machine lacks a prerequisite. On a developer's machine, the run
//! continues after a message. On CI, the run fails.

/// Prints that the check `what` is skipped, with the reason. Returns an error if the environment variable `CI` is
/// `true`.
pub(crate) fn not_checked(what: &str, reason: &str) -> Result<(), String> {
    println!("not checked: {what} ({reason})");
    verdict(what, reason, std::env::var("CI").ok().as_deref())
}

/// Returns an error if `ci`, the value of the environment variable `CI`, is `true`.
fn verdict(what: &str, reason: &str, ci: Option<&str>) -> Result<(), String> {
    if ci == Some("true") {
        return Err(format!("with CI=true {what} must be checked: {reason}"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_prerequisite_fails_only_on_ci() {
        for elsewhere in [None, Some(""), Some("false"), Some("1")] {
            assert_eq!(verdict("wasm32", "no compiler", elsewhere), Ok(()));
        }
        let failure = "with CI=true wasm32 must be checked: no compiler".to_owned();
        assert_eq!(verdict("wasm32", "no compiler", Some("true")), Err(failure));
    }
}
