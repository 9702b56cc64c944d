//! What keys look like: the formats that vendors document, and private keys.

use super::REDACTED;

/// How keys begin, and how many characters follow at least. What follows is letters, digits, `_`
/// and `-`.
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

const PRIVATE_KEY: &str = "PRIVATE KEY-----";

/// Hides what has the format of a key.
pub(super) fn redact(text: String) -> String {
    let is_suspect =
        KEYS.iter().any(|(start, _)| text.contains(start)) || text.contains(PRIVATE_KEY);
    if !is_suspect {
        return text;
    }
    let mut redacted = String::with_capacity(text.len());
    let mut rest = text.as_str();
    let mut follows_word = false;
    while let Some(character) = rest.chars().next() {
        let secret = match follows_word {
            true => None,
            false => key(rest).or_else(|| private_key(rest)),
        };
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
        follows_word = character.is_alphanumeric();
        rest = rest.get(length..).unwrap_or_default();
    }
    redacted
}

/// Returns how long the key is with which the text begins.
fn key(text: &str) -> Option<usize> {
    KEYS.iter().find_map(|(start, least)| {
        let rest = text.strip_prefix(start)?;
        let is_inside = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_' || *byte == b'-';
        let length = rest.bytes().take_while(is_inside).count();
        (length >= *least).then_some(start.len() + length)
    })
}

/// Returns how long the private key is with which the text begins; one that is cut off goes to the
/// text's end.
fn private_key(text: &str) -> Option<usize> {
    let rest = text.strip_prefix("-----BEGIN ")?;
    let kind = rest.find(PRIVATE_KEY)?;
    // The words before it: `RSA `, `OPENSSH `, `ENCRYPTED `.
    if kind > 30 {
        return None;
    }
    let end = text.find("-----END ").and_then(|end| {
        let last = text.get(end..)?.find(PRIVATE_KEY)?;
        Some(end + last + PRIVATE_KEY.len())
    });
    Some(end.unwrap_or(text.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: &str) {
        assert_eq!(redact(text.into()), expected);
    }

    #[test]
    fn keys_are_hidden_whole_and_what_only_begins_like_one_is_not() {
        for (start, least) in KEYS {
            let key = format!("{start}{}", "a1".repeat(least.div_ceil(2)));
            check(&key, "[redacted]");
            check(
                &format!("key={key}, \"{key}\" ä{key}"),
                &format!("key=[redacted], \"[redacted]\" ä{key}"),
            );
            let short = format!("{start}{}", "a".repeat(least - 1));
            check(&short, &short);
            check(&format!("x{key}"), &format!("x{key}"));
        }
        check("ask-me-about-something-quite-long", "ask-me-about-something-quite-long");
        check("", "");
    }

    #[test]
    fn private_keys_are_hidden_to_their_end() {
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
