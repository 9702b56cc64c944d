//! The formats of API keys, tokens and passwords, for programs that remove secrets from texts.
//!
//! [`secrets_in`] finds private keys, the keys of many vendors, JSON Web Tokens, credentials of HTTP requests,
//! passwords in URLs, and random values behind a name such as `api_key`. [`secrets_in_field`] also uses the name of a
//! JSON field, which is not in the text. Placeholders such as `sk-...`, `<token>` and `${TOKEN}` are not secrets.
//!
//! Encoded secrets are not found, for example in Base64. Secrets without a known format are found only behind a name.

mod named;
mod prefixes;
#[cfg(test)]
mod tests;

use std::iter;
use std::ops::Range;

/// Returns the byte ranges of the secrets in a text, in ascending order. The ranges do not overlap.
///
/// Only the secret itself is in a range. In `Authorization: Bearer …` it is the part after `Bearer`, and in
/// `scheme://user:password@host` the password. The time is linear in the length of the text.
///
/// # Example
///
/// ```
/// use neuron_types::secret_formats::secrets_in;
///
/// let text = "connect to postgres://me:correct-horse@db/users";
/// let secrets: Vec<&str> = secrets_in(text).filter_map(|range| text.get(range)).collect();
/// assert_eq!(secrets, ["correct-horse"]);
/// ```
pub fn secrets_in(text: &str) -> impl Iterator<Item = Range<usize>> {
    secrets_from(text, 0)
}

/// Returns the byte ranges of the secrets in the text of a JSON field, as [`secrets_in`] does. If the field has a name
/// such as `api_key`, its random value is a secret too.
///
/// # Example
///
/// ```
/// use neuron_types::secret_formats::secrets_in_field;
///
/// let text = "0a1b2c3d4e5f60718293";
/// assert_eq!(secrets_in_field("api_key", text).next(), Some(0..text.len()));
/// assert_eq!(secrets_in_field("commit", text).next(), None);
/// ```
pub fn secrets_in_field(name: &str, text: &str) -> impl Iterator<Item = Range<usize>> {
    let named = named::secret_in_field(name, text);
    let end = named.as_ref().map_or(0, |range| range.end);
    named.into_iter().chain(secrets_from(text, end))
}

/// Returns the secrets that begin at the byte `start` of the text or later.
fn secrets_from(text: &str, start: usize) -> impl Iterator<Item = Range<usize>> {
    let mut next = start;
    iter::from_fn(move || {
        let found = (next..text.len()).find_map(|at| secret_at(text, at));
        next = found.as_ref().map_or(text.len(), |range| range.end);
        found
    })
}

/// Returns the secret that the byte `at` of the text begins or announces. The separator in `api_key=…` announces one.
///
/// The time must stay linear in the length of the text. The functions below read an unlimited number of bytes only if
/// they find a secret there, or if hardly any other position reads the same bytes.
fn secret_at(text: &str, at: usize) -> Option<Range<usize>> {
    let (before, rest) = text.split_at_checked(at)?;
    let range = match rest.as_bytes().first()? {
        b'-' => private_key(rest).map(|length| 0..length),
        b':' => url_password(before, rest)
            .or_else(|| telegram_token(before, rest))
            .or_else(|| named::secret_after(before, rest)),
        b'=' => named::secret_after(before, rest),
        byte if byte.is_ascii_alphanumeric() && !ends_with_word(before) => {
            let length = prefixes::key(rest)
                .or_else(|| json_web_token(before, rest))
                .or_else(|| discord_token(rest));
            length.map(|length| 0..length).or_else(|| named::bearer_token(rest))
        }
        _ => None,
    }?;
    Some(at + range.start..at + range.end)
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

/// Returns the length of the private key in PEM format at the start of the text. A key without an end line extends to
/// the end of the text.
fn private_key(text: &str) -> Option<usize> {
    // The kind is, for example, `RSA PRIVATE KEY`, `OPENSSH PRIVATE KEY` or `PGP PRIVATE KEY BLOCK`. The limit on its
    // length excludes other text between the dashes.
    let (kind, body) = text.strip_prefix("-----BEGIN ")?.split_once("-----")?;
    if kind.len() > 40 || !kind.contains("PRIVATE KEY") {
        return None;
    }
    let end = format!("-----END {kind}-----");
    let rest = body.find(&end).and_then(|start| body.get(start + end.len()..));
    Some(text.len() - rest.unwrap_or_default().len())
}

/// Returns the password in a text such as `://user:password@host`, which follows the scheme of a URL.
fn url_password(before: &str, text: &str) -> Option<Range<usize>> {
    let authority = text.strip_prefix("://")?;
    if !before.ends_with(|char: char| char.is_ascii_alphanumeric()) {
        return None;
    }
    let is_end = |char: char| char.is_whitespace() || "/?#\"'`<>\\".contains(char);
    let authority = authority.split(is_end).next()?;
    let (user_info, _host) = authority.rsplit_once('@')?;
    let (user, password) = user_info.split_once(':')?;
    let is_variable = password.starts_with(['$', '{', '[']) || password == "%s";
    let is_mask = password.trim_matches(['x', 'X', '*', '.']).is_empty();
    let start = "://".len() + user.len() + ":".len();
    (!is_variable && !is_mask).then(|| start..start + password.len())
}

/// Returns the secret part of a Telegram token, which follows the number of the bot and a colon.
fn telegram_token(before: &str, text: &str) -> Option<Range<usize>> {
    const DIGITS: usize = 6;
    const LENGTH: usize = 34;
    let digits = before.bytes().rev().take(DIGITS).take_while(u8::is_ascii_digit).count();
    let secret = text.strip_prefix(':').filter(|secret| secret.starts_with("AA"))?;
    let is_long = secret.bytes().take(LENGTH).take_while(is_word).count() == LENGTH;
    let end = 1 + secret.bytes().take_while(|byte| is_long && is_word(byte)).count();
    (digits == DIGITS && is_long).then_some(1..end)
}

/// Returns the length of the JSON Web Token at the start of the text. It is signed (three parts) or encrypted (five
/// parts). A cut token may have fewer.
fn json_web_token(before: &str, text: &str) -> Option<usize> {
    // Another position in the same word would read the word again.
    if before.ends_with(['-', '_']) {
        return None;
    }
    // `eyJ` is `{"` in Base64.
    let (header, rest) = split(text.strip_prefix("eyJ")?, is_word)?;
    if has_password(header) {
        let padding = rest.bytes().take_while(|byte| *byte == b'=').count();
        return Some("eyJ".len() + header.len() + padding);
    }
    let rest = rest.strip_prefix('.').filter(|_| header.len() >= 10)?;
    // An encrypted token may have an empty part.
    let (rest, _) = split(rest, |byte| is_word(byte) || *byte == b'.')?;
    let rest = rest.trim_end_matches('.');
    (rest.len() >= 20).then_some("eyJ".len() + header.len() + ".".len() + rest.len())
}

/// Returns `true` if JSON in Base64 has a password, as in the configuration of container registries. The text lacks its
/// first three characters.
fn has_password(json: &str) -> bool {
    // `"auth` and `"user` at the start, and `password` at each of the three offsets.
    const STARTS: [&str; 2] = ["hdXRo", "1c2Vy"];
    const PASSWORD: [&str; 3] = ["cGFzc3dvcmQ", "Bhc3N3b3Jk", "wYXNzd29yZ"];
    let is_named = STARTS.iter().any(|start| json.starts_with(start));
    json.len() >= 20
        && is_named
        && (json.starts_with("hdXRo") || PASSWORD.iter().any(|part| json.contains(part)))
}

/// Returns the length of the Discord token at the start of the text. Its parts are the number of the bot in Base64, the
/// time, and a signature.
fn discord_token(text: &str) -> Option<usize> {
    const MOST: usize = 60;
    if !text.starts_with(['M', 'N', 'O']) {
        return None;
    }
    let word = |text: &str| text.bytes().take(MOST).take_while(is_word).count();
    let has_digit = |part: &str| part.bytes().any(|byte| byte.is_ascii_digit());
    let (bot, rest) = text.split_at_checked(word(text))?;
    let rest = rest.strip_prefix('.')?;
    let (time, rest) = rest.split_at_checked(word(rest))?;
    let rest = rest.strip_prefix('.')?;
    let (signature, _) = rest.split_at_checked(word(rest))?;
    let is_token = (23..=30).contains(&bot.len()) && time.len() == 6 && signature.len() >= 27;
    // The long names of Java packages have no digits.
    (is_token && has_digit(bot) && has_digit(signature))
        .then_some(bot.len() + time.len() + signature.len() + "..".len())
}

/// Returns `true` for the characters of Base64 in URLs, which most keys consist of.
fn is_word(byte: &u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-')
}

/// Splits a text before the first byte for which `is_inside` is `false`. Only ASCII bytes may be inside.
fn split(text: &str, is_inside: impl Fn(&u8) -> bool) -> Option<(&str, &str)> {
    text.split_at_checked(text.bytes().take_while(is_inside).count())
}

/// Returns `true` if a part of a key or value is written by people, as in `sk-xxxxxxxx` and `YOUR_API_KEY`.
///
/// The words are so long that a random key hardly ever contains one of them.
fn is_placeholder(text: &str) -> bool {
    const WORDS: [&str; 8] =
        ["xxxxxx", "****", "your-", "your_", "example", "placeholder", "changeme", "redacted"];
    let contains = |word: &str| {
        let mut parts = text.as_bytes().windows(word.len());
        parts.any(|part| part.eq_ignore_ascii_case(word.as_bytes()))
    };
    WORDS.into_iter().any(contains)
}
