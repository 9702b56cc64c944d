//! The environment variables of a child process server.

use std::ffi::{OsStr, OsString};

use neuron_types::McpError;

/// Variables that every server inherits. Programs need them to find files, other programs and the user's language. The
/// list contains all variables that the official SDKs for TypeScript and Python let servers inherit.
#[cfg(not(windows))]
const HARMLESS: &[&str] =
    &["PATH", "HOME", "USER", "LOGNAME", "SHELL", "TERM", "LANG", "TZ", "TMPDIR"];
#[cfg(windows)]
const HARMLESS: &[&str] = &[
    "PATH",
    "PATHEXT",
    "SYSTEMROOT",
    "SYSTEMDRIVE",
    "COMSPEC",
    "TEMP",
    "TMP",
    "USERPROFILE",
    "USERNAME",
    "APPDATA",
    "LOCALAPPDATA",
    "HOMEDRIVE",
    "HOMEPATH",
    "PROGRAMFILES",
    "PROGRAMDATA",
    "PROCESSOR_ARCHITECTURE",
];
/// Prefix of the environment variables that set languages and formats. Every server inherits these variables too.
const LOCALE: &str = "LC_";

/// Returns the complete environment of a server. `ours` are the variables of this process. They are included if they
/// are harmless (see [`HARMLESS`]) or named in `inherit`. `given` variables are always included, and replace variables
/// of this process.
///
/// # Errors
///
/// Returns an error if the name or the value of a variable is invalid. The error message does not contain the value.
pub(super) fn environment(
    ours: impl IntoIterator<Item = (OsString, OsString)>,
    inherit: &[String],
    given: &[(String, String)],
) -> Result<Vec<(OsString, OsString)>, McpError> {
    for name in inherit {
        check_name(name)?;
    }
    for (name, value) in given {
        check_name(name)?;
        if value.contains('\0') {
            return Err(McpError::Connection(format!(
                "the value of the variable {name} contains NUL"
            )));
        }
    }
    let inherited = ours.into_iter().filter(|(name, value)| {
        let is_inherited = inherit.iter().any(|inherited| is_same(name, inherited));
        is_inherited || (is_harmless(name) && !is_function(value))
    });
    // Later variables override earlier ones.
    Ok(inherited.chain(given.iter().map(|(name, value)| (name.into(), value.into()))).collect())
}

/// Returns an error if `name` is not a valid name of an environment variable.
fn check_name(name: &str) -> Result<(), McpError> {
    if name.is_empty() || name.contains(['=', '\0']) {
        return Err(McpError::Connection(format!(
            "{name:?} is not a valid name of an environment variable: it is empty, or has '=' or NUL"
        )));
    }
    Ok(())
}

/// Returns `true` if every server inherits the variable from this process, such as `PATH`.
fn is_harmless(name: &OsStr) -> bool {
    HARMLESS.iter().any(|harmless| is_same(name, harmless))
        || (cfg!(not(windows)) && name.as_encoded_bytes().starts_with(LOCALE.as_bytes()))
}

/// Returns `true` if two names of environment variables are equal. On Windows, the comparison ignores case.
fn is_same(name: &OsStr, other: &str) -> bool {
    if cfg!(windows) { name.eq_ignore_ascii_case(other) } else { name == other }
}

/// Returns `true` if the value looks like an exported shell function. Old versions of bash execute code in such a value
/// (Shellshock).
fn is_function(value: &OsStr) -> bool {
    value.as_encoded_bytes().starts_with(b"()")
}

#[cfg(all(test, not(windows)))]
mod tests {
    use super::*;

    fn vars(list: &[(&str, &str)]) -> Vec<(OsString, OsString)> {
        list.iter().map(|(name, value)| (name.into(), value.into())).collect()
    }

    fn given(list: &[(&str, &str)]) -> Vec<(String, String)> {
        list.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn only_harmless_variables_are_inherited() {
        let ours = vars(&[
            ("PATH", "/bin"),
            ("LC_TIME", "de"),
            ("ANTHROPIC_API_KEY", "secret"),
            ("path", "x"),
            ("PATHS", "x"),
            ("MY_LC_ALL", "x"),
            ("TERM", "() { :;}; echo"),
        ]);
        let seen = environment(ours, &[], &[]).unwrap();
        assert_eq!(seen, vars(&[("PATH", "/bin"), ("LC_TIME", "de")]));
    }

    #[test]
    fn named_variables_are_inherited_and_given_variables_come_last() {
        let ours = vars(&[("TOKEN", "ours"), ("OTHER", "x"), ("HOME", "/root")]);
        let seen = environment(
            ours,
            &["TOKEN".to_owned(), "MISSING".to_owned()],
            &given(&[("HOME", "/srv")]),
        );
        assert_eq!(seen.unwrap(), vars(&[("TOKEN", "ours"), ("HOME", "/root"), ("HOME", "/srv")]));
    }

    #[test]
    fn invalid_variable_error_names_the_variable_without_its_value() {
        for name in ["", "A=B", "A\0"] {
            let error = environment([], &[name.to_owned()], &[]).unwrap_err().to_string();
            assert!(error.contains(&format!("{name:?}")), "{error}");
            assert!(environment([], &[], &given(&[(name, "x")])).is_err());
        }
        let error = environment([], &[], &given(&[("KEY", "sec\0ret")])).unwrap_err().to_string();
        assert!(error.contains("KEY") && !error.contains("sec"), "{error}");
    }
}
