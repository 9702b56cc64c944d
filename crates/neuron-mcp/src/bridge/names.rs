//! The names that a model sees for the tools of a server.
//!
//! MCP allows names of up to 128 characters, including dots and slashes (MCP specification 2025-11-25, "Tool Names").
//! Older versions allow any text. Model vendors allow at most 64 characters, which must be ASCII letters, digits, `_`
//! or `-`. Other names are converted.

use std::collections::{HashMap, HashSet};

/// Maximum length of a name for a model, in bytes. All supported vendors accept this length.
const LONGEST: usize = 64;
/// Length in bytes of the suffix that makes a name unique. The suffix is `_` and a hash of 8 hexadecimal digits.
const SUFFIX: usize = 9;

/// Returns the name of a tool for the model. `name` is its name at the server. Two tools of a server may get the same
/// name.
pub(super) fn model_name(prefix: &str, name: &str) -> String {
    let plain = plain(prefix, name);
    if plain.len() <= LONGEST { plain } else { with_hash(&plain, name, 0) }
}

/// Returns the names that the model sees for all tools of one server, in the order of `names`. `names` are the names at
/// the server, and must be unique.
///
/// The returned names are unique, whatever the order of `names`:
///
/// - A name of allowed characters is used unchanged, after the prefix.
/// - In any other name, each character that is not allowed becomes `_`. The resulting name is used if it is unique.
/// - A resulting name that is too long or equals another name is truncated. It ends with a hash of the name at the
///   server.
pub(crate) fn model_names(prefix: &str, names: &[&str]) -> Vec<String> {
    let plain: Vec<String> = names.iter().map(|name| plain(prefix, name)).collect();
    // Number of tools that would get the name without a hash, by name.
    let mut claims: HashMap<&str, usize> = HashMap::new();
    for shown in &plain {
        *claims.entry(shown).or_default() += 1;
    }
    let keeps = |name: &str, shown: &str| {
        shown.len() <= LONGEST && (is_plain(name) || claims.get(shown) == Some(&1))
    };
    let pairs = || names.iter().zip(&plain);
    let mut taken: HashSet<String> = pairs()
        .filter(|(name, shown)| keeps(name, shown))
        .map(|(_, shown)| shown.clone())
        .collect();
    let others = pairs().map(|(name, shown)| {
        if keeps(name, shown) {
            return shown.clone();
        }
        // The name of attempt 0 is not taken, unless a server chose its names to cause a collision.
        let mut hashed = (0..).map(|attempt| with_hash(shown, name, attempt));
        let free = hashed.find(|name| taken.insert(name.clone()));
        free.unwrap_or_else(|| shown.clone())
    });
    others.collect()
}

/// Joins a prefix and a name with `_`, and replaces each character that vendors do not allow by `_`.
fn plain(prefix: &str, name: &str) -> String {
    let name = if name.is_empty() { "_" } else { name };
    let parts = [prefix, name].into_iter().filter(|part| !part.is_empty());
    let whole = parts.collect::<Vec<_>>().join("_");
    whole.chars().map(|char| if is_allowed(char) { char } else { '_' }).collect()
}

/// Returns `true` if model vendors allow all characters of a name. Returns `false` for an empty name.
fn is_plain(name: &str) -> bool {
    !name.is_empty() && name.chars().all(is_allowed)
}

fn is_allowed(char: char) -> bool {
    char.is_ascii_alphanumeric() || matches!(char, '_' | '-')
}

/// Returns the beginning of `plain`, followed by `_` and a hash. The hash is that of `name`, the tool's name at the
/// server. A different `attempt` gives a different hash.
fn with_hash(plain: &str, name: &str, attempt: u32) -> String {
    let beginning: String = plain.chars().take(LONGEST - SUFFIX).collect();
    format!("{beginning}_{:08x}", hash(name, attempt))
}

/// Returns a 32-bit FNV-1a hash of `text` and `attempt`. Unlike a hash of the standard library, it is the same on every
/// machine and in every version.
fn hash(text: &str, attempt: u32) -> u32 {
    let step = |hash: u32, byte: &u8| (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193);
    let attempt = if attempt == 0 { Vec::new() } else { attempt.to_le_bytes().to_vec() };
    text.as_bytes().iter().chain(&attempt).fold(0x811c_9dc5, step)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[track_caller]
    fn check(prefix: &str, names: &[&str], expected: &[&str]) {
        assert_eq!(model_names(prefix, names), expected);
        // The result must not depend on the order of the names.
        let mut turned = names.to_vec();
        turned.reverse();
        let mut of_turned = model_names(prefix, &turned);
        of_turned.reverse();
        assert_eq!(of_turned, expected);
    }

    #[test]
    fn valid_names_are_unchanged() {
        check("", &["echo", "get-env", "A_1"], &["echo", "get-env", "A_1"]);
        check("github", &["create_issue"], &["github_create_issue"]);
        check("", &[&"x".repeat(64)], &[&"x".repeat(64)]);
        check("", &[], &[]);
    }

    #[test]
    fn invalid_characters_become_underscores() {
        check(
            "my server",
            &["files.read", "ns/tool", "größe"],
            &["my_server_files_read", "my_server_ns_tool", "my_server_gr__e"],
        );
        check("", &[""], &["_"]);
    }

    #[test]
    fn colliding_names_end_with_a_hash() {
        check("", &["a.b", "a/b"], &["a_b_108bf50c", "a_b_3a8e75c1"]);
        // `a_b` keeps its name, although `a.b` would become `a_b` too.
        check("", &["a.b", "a_b"], &["a_b_108bf50c", "a_b"]);
        check("p", &["a.b", "a_b"], &["p_a_b_108bf50c", "p_a_b"]);
        // A server that predicts the hash cannot take the name of another tool.
        let names = model_names("", &["a.b", "a_b", "a_b_108bf50c"]);
        assert_eq!(names[1..], ["a_b", "a_b_108bf50c"]);
        assert!(names[0].starts_with("a_b_") && names[0] != names[2], "{names:?}");
    }

    #[test]
    fn long_names_are_truncated_and_unique() {
        let [first, second] = ["x".repeat(65), "x".repeat(128)];
        let names = model_names("", &[&first, &second]);
        assert_ne!(names[0], names[1]);
        assert!(names.iter().all(|name| name.len() == 64), "{names:?}");
        assert_eq!(names[0], model_name("", &first));
        let long = model_name(&"p".repeat(100), "tool");
        assert!(long.len() == 64 && long.starts_with("ppp"), "{long}");
        assert_eq!(model_name("p", "a.b"), "p_a_b");
    }

    proptest! {
        #[test]
        fn model_names_are_valid_and_unique(
            prefix in "[a_.]{0,3}|p{60,70}",
            names in prop::collection::hash_set("[ab_.é/]{0,4}|[ab.]{60,70}", 0..12),
        ) {
            let names: Vec<&str> = names.iter().map(String::as_str).collect();
            let shown = model_names(&prefix, &names);
            prop_assert_eq!(shown.len(), names.len());
            for name in &shown {
                prop_assert!((1..=64).contains(&name.len()) && name.chars().all(is_allowed), "{}", name);
            }
            let different: HashSet<&String> = shown.iter().collect();
            prop_assert_eq!(different.len(), shown.len(), "{:?}", shown);
        }
    }
}
