//! Detection of private keys, and of API keys in the formats that vendors document.

use super::REDACTED;

/// Prefixes of API keys, each with the minimum number of characters after the prefix. These characters are letters,
/// digits, `_` and `-`.
const KEYS: &[(&str, usize)] = &[
    // Anthropic, OpenAI and others.
    ("sk-", 20),
    ("sk_live_", 16),
    ("rk_live_", 16),
    // GitHub.
    ("ghp_", 36),
    ("gho_", 36),
    ("ghu_", 36),
    ("ghs_", 36),
    ("ghr_", 36),
    ("github_pat_", 22),
    ("glpat-", 20),
    // Amazon.
    ("AKIA", 16),
    ("ASIA", 16),
    // Google.
    ("AIza", 35),
    // Slack.
    ("xoxa-", 10),
    ("xoxb-", 10),
    ("xoxp-", 10),
    ("xoxr-", 10),
    ("xoxs-", 10),
    ("npm_", 36),
    ("hf_", 30),
];

/// The words that the first line of every private key in PEM format contains.
const PRIVATE_KEY: &str = "PRIVATE KEY";

/// Replaces all API keys and private keys in a text.
pub(super) fn redact(text: String) -> String {
    // Most texts contain no key. For those, this check avoids the scan and the copy below.
    let is_suspect =
        KEYS.iter().any(|(start, _)| text.contains(start)) || text.contains(PRIVATE_KEY);
    if !is_suspect {
        return text;
    }
    let mut redacted = String::with_capacity(text.len());
    let mut rest = text.as_str();
    while let Some(character) = rest.chars().next() {
        let before = text.len() - rest.len();
        let secret = private_key(rest).or_else(|| {
            key(rest).filter(|_| !ends_with_word(text.get(..before).unwrap_or_default()))
        });
        let length = match secret {
            Some(length) => {
                redacted.push_str(REDACTED);
                length
            }
            None => {
                redacted.push(character);
                character.len_utf8()
            }
        };
        rest = rest.get(length..).unwrap_or_default();
    }
    redacted
}

/// Returns `true` if the text ends with a letter or digit of a word. A key prefix directly after this text does not
/// begin a key, as `sk-` in `task-list`.
///
/// Only ASCII letters and digits belong to a word, because some languages do not separate words with spaces. An escape
/// sequence is not a word, although it ends with an ASCII letter or digit.
fn ends_with_word(text: &str) -> bool {
    let text = text.as_bytes();
    let is_word = text.last().is_some_and(u8::is_ascii_alphanumeric);
    is_word && !ends_with_json_escape(text) && !ends_with_url_escape(text) && !ends_with_color(text)
}

/// Returns `true` if the text ends with a JSON escape sequence such as `\n` or `\u001b`.
fn ends_with_json_escape(text: &[u8]) -> bool {
    match text {
        [.., b'\\', b'b' | b'f' | b'n' | b'r' | b't'] => true,
        [.., b'\\', b'u', code_1, code_2, code_3, code_4] => {
            [code_1, code_2, code_3, code_4].into_iter().all(u8::is_ascii_hexdigit)
        }
        _ => false,
    }
}

/// Returns `true` if the text ends with a URL escape sequence such as `%3D`.
fn ends_with_url_escape(text: &[u8]) -> bool {
    matches!(text, [.., b'%', high, low] if high.is_ascii_hexdigit() && low.is_ascii_hexdigit())
}

/// Returns `true` if the text ends with a terminal color, which is an escape character and a code such as `[1;32m`. The
/// escape character may also be written as the JSON escape sequence `\u001b`.
fn ends_with_color(text: &[u8]) -> bool {
    let Some(text) = text.strip_suffix(b"m") else {
        return false;
    };
    let is_parameter = |byte: &u8| byte.is_ascii_digit() || *byte == b';';
    let parameters = text.iter().rev().take_while(|byte| is_parameter(byte)).count();
    let before = text.get(..text.len() - parameters).unwrap_or_default();
    before.ends_with(b"\x1b[") || before.ends_with(b"\\u001b[") || before.ends_with(b"\\u001B[")
}

/// Returns the length in bytes of the API key at the start of the text. Returns `None` if the text does not start with
/// a key.
fn key(text: &str) -> Option<usize> {
    KEYS.iter().find_map(|(start, least)| {
        let rest = text.strip_prefix(start)?;
        let is_inside = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_' || *byte == b'-';
        let length = rest.bytes().take_while(is_inside).count();
        (length >= *least).then_some(start.len() + length)
    })
}

/// Returns the length in bytes of the private key at the start of the text. Returns `None` if the text starts with
/// something else. A key without an end line extends to the end of the text.
fn private_key(text: &str) -> Option<usize> {
    // The kind is, for example, `RSA PRIVATE KEY`, `OPENSSH PRIVATE KEY` or `PGP PRIVATE KEY BLOCK`. The limit on its
    // length excludes other text between the dashes.
    let (kind, body) = text.strip_prefix("-----BEGIN ")?.split_once("-----")?;
    if kind.len() > 40 || !kind.contains(PRIVATE_KEY) {
        return None;
    }
    let end = format!("-----END {kind}-----");
    let rest = body.find(&end).and_then(|start| body.get(start + end.len()..));
    Some(text.len() - rest.unwrap_or_default().len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: &str) {
        assert_eq!(redact(text.into()), expected);
    }

    #[test]
    fn keys_are_redacted_and_shorter_text_is_not() {
        for (start, least) in KEYS {
            let key = format!("{start}{}", "a1".repeat(least.div_ceil(2)));
            check(&key, "[redacted]");
            check(
                &format!("key={key}, \"{key}\" ä{key}"),
                "key=[redacted], \"[redacted]\" ä[redacted]",
            );
            let short = format!("{start}{}", "a".repeat(least - 1));
            check(&short, &short);
            check(&format!("x{key}"), &format!("x{key}"));
        }
        check("ask-me-about-something-quite-long", "ask-me-about-something-quite-long");
        check("", "");
    }

    /// A key must be redacted even if it directly follows an escape sequence, or a letter of a language without spaces.
    /// Regression test. The key was not found, because the letter before it was treated as the beginning of a word.
    #[test]
    fn key_after_escape_sequence_or_without_space_is_redacted() {
        let key = "sk-0123456789abcdefghijkl";
        for before in [
            r"\n",
            r"\t",
            r"\r",
            r"\b",
            r"\f",
            r"\u001b",
            r"\u00E4",
            "%3D",
            "%20",
            "\x1b[m",
            "\x1b[1;32m",
            r"\u001b[0m",
            r"\u001B[31m",
            "密钥是",
            "é",
            "_",
            "-",
        ] {
            check(&format!("a{before}{key} b"), &format!("a{before}[redacted] b"));
        }
        for before in ["n", "ta", "u001b", "3D", "[m", "0m", "%3Da", r"\u001", "é1"] {
            check(&format!("a{before}{key} b"), &format!("a{before}{key} b"));
        }
    }

    #[test]
    fn private_keys_are_redacted_to_their_end() {
        check("x-----BEGIN PRIVATE KEY-----\nabc", "x[redacted]");
        let key =
            "-----BEGIN PGP PRIVATE KEY BLOCK-----\n\nabc\n-----END PGP PRIVATE KEY BLOCK-----";
        check(&format!("{key}\n"), "[redacted]\n");
        for kind in ["", "RSA ", "OPENSSH "] {
            let key = format!(
                "-----BEGIN {kind}PRIVATE KEY-----\nMIIE\nabc==\n-----END {kind}PRIVATE KEY-----"
            );
            check(&format!("a {key}\nb {key}"), "a [redacted]\nb [redacted]");
            for (end, _) in key.char_indices().skip(11 + kind.len() + 16) {
                check(&key[..end], "[redacted]");
            }
        }
        let public = "-----BEGIN CERTIFICATE-----\nMIIE\n-----END CERTIFICATE-----";
        check(public, public);
        check(&format!("{public} and PRIVATE KEY-----"), &format!("{public} and PRIVATE KEY-----"));
    }
}
