//! Validation of session ids, used by all storages.

use crate::StorageError;

/// Maximum length of an id in bytes. File systems allow 255 bytes, and a storage may append an extension.
const MAX_BYTES: usize = 200;

/// Names that Windows reserves for devices, with any extension.
const RESERVED: [&str; 6] = ["con", "prn", "aux", "nul", "conin$", "conout$"];

/// Checks a session id. A valid id can be used as a file name on every operating system.
///
/// A valid id
///
/// - has 1 to 200 bytes.
/// - contains none of `/ \\ : * ? " < > |` and no control characters.
/// - does not start or end with a full stop or a space.
/// - is not a name that Windows reserves, such as `con`, `nul` or `com1`. Names in upper case and with an extension are
///   reserved too.
///
/// # Errors
///
/// [`StorageError::InvalidId`] with the reason.
///
/// # Example
///
/// ```
/// use neuron_types::check_session_id;
///
/// assert!(check_session_id("chat-42").is_ok());
/// let error = check_session_id("../secrets").unwrap_err();
/// assert_eq!(error.to_string(), "invalid session id \"../secrets\": it contains `/`");
/// ```
pub fn check_session_id(id: &str) -> Result<(), StorageError> {
    match fault(id) {
        Some(reason) => Err(StorageError::InvalidId { id: shortened(id), reason }),
        None => Ok(()),
    }
}

/// Returns the reason why an id is invalid. Returns `None` for a valid id.
fn fault(id: &str) -> Option<String> {
    if id.is_empty() {
        return Some("it is empty".into());
    }
    // Check path separators first. For a path, this is the most helpful error.
    if let Some(char) = id.chars().find(|char| r#"/\:*?"<>|"#.contains(*char)) {
        return Some(format!("it contains `{char}`"));
    }
    if let Some(char) = id.chars().find(|char| char.is_control()) {
        return Some(format!("it contains the control character {}", char.escape_unicode()));
    }
    if id.len() > MAX_BYTES {
        return Some(format!("it has {} bytes, and {MAX_BYTES} are allowed", id.len()));
    }
    if id.starts_with(['.', ' ']) || id.ends_with(['.', ' ']) {
        return Some("it begins or ends with a full stop or a space".into());
    }
    is_reserved(id).then(|| "Windows reserves this name".into())
}

/// Returns `true` if Windows reserves the id as the name of a device. As on Windows, case, an extension, and spaces
/// before the extension make no difference.
fn is_reserved(id: &str) -> bool {
    let name = id.split('.').next().unwrap_or(id).trim_end().to_lowercase();
    // Windows also reserves `COM` and `LPT` with the superscript digits 1, 2 and 3.
    let is_port = |digit: &str| {
        matches!(
            digit,
            "0" | "1"
                | "2"
                | "3"
                | "4"
                | "5"
                | "6"
                | "7"
                | "8"
                | "9"
                | "\u{b9}"
                | "\u{b2}"
                | "\u{b3}"
        )
    };
    let is_numbered =
        ["com", "lpt"].iter().any(|device| name.strip_prefix(device).is_some_and(is_port));
    RESERVED.contains(&name.as_str()) || is_numbered
}

/// Shortens an id to 64 characters for an error text.
fn shortened(id: &str) -> String {
    let shown: String = id.chars().take(64).collect();
    match shown.len() < id.len() {
        true => format!("{shown}…"),
        false => shown,
    }
}

#[cfg(test)]
mod tests {
    use super::check_session_id;

    #[track_caller]
    fn refused(id: &str, reason: &str) {
        let error = check_session_id(id).unwrap_err().to_string();
        assert!(error.ends_with(reason), "{error}");
    }

    #[test]
    fn ids_that_are_not_portable_file_names_are_refused() {
        refused("", "it is empty");
        refused("../x", "it contains `/`");
        refused("/etc/passwd", "it contains `/`");
        refused(r"..\x", r"it contains `\`");
        refused("C:x", "it contains `:`");
        refused("a\0b", r"it contains the control character \u{0}");
        refused("a\nb", r"it contains the control character \u{a}");
        refused("..", "it begins or ends with a full stop or a space");
        refused(".hidden", "it begins or ends with a full stop or a space");
        refused("x.", "it begins or ends with a full stop or a space");
        refused("x ", "it begins or ends with a full stop or a space");
        refused(&"x".repeat(1000), "it has 1000 bytes, and 200 are allowed");
        for reserved in
            ["con", "NUL", "Aux.json", "com1", "LPT9.tar.gz", "COM\u{b9}", "nul .x", "CONIN$"]
        {
            refused(reserved, "Windows reserves this name");
        }
    }

    #[test]
    fn portable_ids_are_accepted() {
        for id in [
            "s-1",
            "user@example.org",
            "consent",
            "com10",
            "chat 42",
            "対話",
            "a.b.c",
            &"x".repeat(200),
        ] {
            check_session_id(id).unwrap();
        }
    }
}
