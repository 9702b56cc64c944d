//! Values that are secret because of the name before them, such as `api_key=…`, and credentials of HTTP requests.
//!
//! The keys of Azure, Cloudflare, Cohere, Mistral and others have no prefix, so only a name shows that they are keys.

use std::ops::Range;

use super::is_placeholder;

/// Ends of names whose values are secret, in lower case and without `_`, `-`, `.` and spaces.
const SECRET: [&str; 23] = [
    "accesskey",
    "accountkey",
    "adminkey",
    "apikey",
    "appkey",
    "applicationkey",
    "authkey",
    AUTHORIZATION,
    "credential",
    "encryptionkey",
    "licensekey",
    "masterkey",
    "passphrase",
    "passwd",
    "password",
    "privatekey",
    "pwd",
    "secret",
    "secretkey",
    "sharedkey",
    "signingkey",
    "subscriptionkey",
    "token",
];

/// The end of the name of the HTTP header with the credentials of a request.
const AUTHORIZATION: &str = "authorization";

/// Ends of names whose values are not secret, although the names also end as in [`SECRET`]. Most belong to a page of a
/// list, and a model needs them to request the next page.
const PUBLIC: [&str; 25] = [
    "authenticitytoken",
    "cancellationtoken",
    "canceltoken",
    "clienttoken",
    "continuationtoken",
    "csrfmiddlewaretoken",
    "csrftoken",
    "cursortoken",
    "deltatoken",
    "idempotencytoken",
    "locktoken",
    "nexttoken",
    "pagetoken",
    "paginationtoken",
    "pagingtoken",
    "previoustoken",
    "progresstoken",
    "requestverificationtoken",
    "resumetoken",
    "resumptiontoken",
    "skiptoken",
    "synctoken",
    "uploadtoken",
    "waittoken",
    "xsrftoken",
];

/// Words before `_KEY` in names of variables whose values are not secret.
const PUBLIC_KEYS: [&str; 16] = [
    "BUCKET",
    "CACHE",
    "FILE",
    "FOREIGN",
    "GROUP",
    "HASH",
    "HOST",
    "INDEX",
    "LOCK",
    "OBJECT",
    "PARTITION",
    "PRIMARY",
    "PUBLISHABLE",
    "ROW",
    "SITE",
    "SORT",
];

/// Schemes of HTTP authentication, which stand between the name of the header and the credentials.
const SCHEMES: [&str; 7] = ["apikey", "api-key", "basic", "bearer", "bot", "key", "token"];

/// Maximum number of bytes of a name that are read.
const NAME: usize = 40;

/// Number of bytes of a value that decide if it is secret.
const DECISIVE: usize = 128;

/// Returns the secret behind a name and a separator such as `:`, `=` or `=>`. `before` ends with the name, and `text`
/// starts with the separator. The range is in `text`.
pub(super) fn secret_after(before: &str, text: &str) -> Option<Range<usize>> {
    let after = text.strip_prefix([':', '='])?;
    // `::` separates the parts of a path in Rust and C++.
    if after.starts_with(':') || !is_secret_name(name(before)) {
        return None;
    }
    let after = after.strip_prefix(['=', '>']).unwrap_or(after);
    // A value may be quoted, also in JSON inside of JSON, or bold in Markdown.
    let value = after.trim_start_matches([' ', '\t', '"', '\'', '`', '\\', '*']);
    let start = text.len() - value.len();
    secret_value(before, value).map(|range| start + range.start..start + range.end)
}

/// Returns the secret in the text of a field with this name.
pub(super) fn secret_in_field(field: &str, text: &str) -> Option<Range<usize>> {
    is_secret_name(name(field)).then(|| secret_value(field, text)).flatten()
}

/// Returns the token after the word `Bearer` at the start of the text.
pub(super) fn bearer_token(text: &str) -> Option<Range<usize>> {
    const SCHEME: &str = "bearer";
    let (scheme, rest) = text.split_at_checked(SCHEME.len())?;
    if !scheme.eq_ignore_ascii_case(SCHEME) || !rest.starts_with(' ') {
        return None;
    }
    let token = rest.trim_start_matches(' ');
    let start = text.len() - token.len();
    random_length(token).map(|length| start..start + length)
}

/// Returns the name at the end of the text. Quotes and brackets around it are left out, as in `headers["x-api-key"]`.
fn name(text: &str) -> &str {
    let text =
        text.trim_end_matches([' ', '\t']).trim_end_matches(['"', '\'', '`', '\\', ']', '*']);
    let is_name = |byte: &u8| byte.is_ascii_alphanumeric() || b"_-. ".contains(byte);
    let length = text.bytes().rev().take(NAME).take_while(is_name).count();
    text.get(text.len() - length..).unwrap_or_default()
}

fn is_secret_name(name: &str) -> bool {
    let ends_with_any = |ends: &[&str]| ends.iter().any(|end| ends_with(name, end));
    (ends_with_any(&SECRET) || is_key_variable(name)) && !ends_with_any(&PUBLIC)
}

/// Returns `true` for the name of an environment variable with a key, such as `AZURE_SPEECH_KEY`.
///
/// In lower case, `_key` is the end of many names of ids, such as `object_key`.
fn is_key_variable(name: &str) -> bool {
    let name = name.rsplit(' ').next().unwrap_or_default();
    let is_upper = |byte: u8| byte.is_ascii_uppercase() || byte.is_ascii_digit() || byte == b'_';
    let Some(kind) = name.strip_suffix("_KEY").filter(|kind| kind.bytes().all(is_upper)) else {
        return false;
    };
    kind.rsplit('_').next().is_some_and(|word| !PUBLIC_KEYS.contains(&word))
}

/// Returns `true` if a name ends with `end`, regardless of its case and of `_`, `-`, `.` and spaces.
fn ends_with(name: &str, end: &str) -> bool {
    let letters = name.bytes().rev().filter(u8::is_ascii_alphanumeric);
    let mut letters = letters.map(|byte| byte.to_ascii_lowercase());
    end.bytes().rev().all(|byte| letters.next() == Some(byte))
}

/// Returns the secret at the start of the value of a secret name.
fn secret_value(before: &str, text: &str) -> Option<Range<usize>> {
    let is_header = ends_with(name(before), AUTHORIZATION);
    let after_scheme = is_header.then(|| credentials(text)).flatten();
    after_scheme.or_else(|| random_length(text).map(|length| 0..length))
}

/// Returns the credentials behind the scheme at the start of an HTTP header's value, as in `Basic bWU6cHc=`.
fn credentials(text: &str) -> Option<Range<usize>> {
    let after_scheme = SCHEMES.iter().find_map(|scheme| {
        let (start, rest) = text.split_at_checked(scheme.len())?;
        (start.eq_ignore_ascii_case(scheme) && rest.starts_with(' ')).then_some(rest)
    })?;
    let value = after_scheme.trim_start_matches(' ');
    let length = value.bytes().take_while(is_value).count();
    let credentials = value.get(..length)?;
    let has = |is_kind: fn(&u8) -> bool| credentials.as_bytes().iter().any(is_kind);
    // The Base64 of a short name and password may have no digit.
    let is_random =
        has(u8::is_ascii_digit) || has(u8::is_ascii_uppercase) && has(u8::is_ascii_lowercase);
    let start = text.len() - value.len();
    let is_secret = length >= 8 && is_random && !is_reference(credentials);
    (is_secret && !is_placeholder(credentials)).then(|| start..start + length)
}

/// Returns the length of the random value at the start of the text.
fn random_length(text: &str) -> Option<usize> {
    let decisive = text.bytes().take(DECISIVE).take_while(is_value).count();
    let (value, rest) = text.split_at_checked(decisive)?;
    // A call or an index is code that gets the secret, and not the secret.
    if rest.starts_with(['(', '[']) || !is_random(without_end(value)) {
        return None;
    }
    let length = text.bytes().take_while(is_value).count();
    Some(without_end(text.get(..length)?).len())
}

/// Returns `true` for the characters of a value. The other characters end a value in a shell, in JSON, in a URL or in
/// code.
fn is_value(byte: &u8) -> bool {
    byte.is_ascii_graphic() && !b"\"'`,;&<>(){}[]|\\".contains(byte)
}

/// Removes the end of a sentence.
fn without_end(value: &str) -> &str {
    value.trim_end_matches(['.', ':'])
}

/// Returns `true` if a value is random like a key, and not a word, a name, a path or a reference.
fn is_random(value: &str) -> bool {
    // One bit for each ASCII character in the value.
    let seen = value.bytes().fold(0_u128, |seen, byte| seen | (1 << (byte & 0x7f)));
    // The names of versions, files and constants consist of words and numbers, as in `claude-3-5` and `API_KEY_2`.
    let mut parts = value.split(['-', '_', '.', ':']);
    let has_random_part = parts.any(|part| {
        let has = |is_kind: fn(&u8) -> bool| part.as_bytes().iter().any(is_kind);
        part.len() >= 8 && has(u8::is_ascii_digit) && has(u8::is_ascii_alphabetic)
    });
    value.len() >= 16
        && seen.count_ones() >= 6
        && has_random_part
        && !is_reference(value)
        && !is_path(value)
        && !is_placeholder(value)
}

/// Returns `true` for a variable such as `$TOKEN` and `%TOKEN%`, and for a URL.
fn is_reference(value: &str) -> bool {
    value.starts_with(['$', '%']) || value.contains("://")
}

fn is_path(value: &str) -> bool {
    let has_slash = value.contains('/');
    // Base64 has either `/` and `+` or `-` and `_`, and hardly any Base64 is in lower case.
    let is_base64 =
        !value.contains(['-', '_', '.']) && value.bytes().any(|byte| byte.is_ascii_uppercase());
    value.starts_with('/') || has_slash && !is_base64
}
