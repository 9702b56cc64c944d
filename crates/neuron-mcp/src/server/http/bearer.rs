//! [`BearerToken`], the authentication with one shared token, and the parsing of `Authorization` headers.

use http::header::AUTHORIZATION;
use http::{HeaderMap, HeaderValue};
use sha2::digest::Output;
use sha2::{Digest as _, Sha256};

use super::authenticate::{HttpIdentity, HttpRefusal};

/// The SHA-256 hash of the required token. `None` if the required token is empty. Every request is then refused.
///
/// Hashes are compared instead of tokens, so that the duration of the comparison reveals nothing about the token.
pub(super) struct BearerToken(Option<Output<Sha256>>);

impl BearerToken {
    /// Creates an authentication that accepts only requests with this token.
    pub(super) fn new(token: &str) -> Self {
        Self((!token.is_empty()).then(|| Sha256::digest(token)))
    }

    /// Authenticates a request. Returns a refusal unless the request has exactly one `Authorization` header, and this
    /// header contains the required token.
    pub(super) fn check(&self, headers: &HeaderMap) -> Result<HttpIdentity, HttpRefusal> {
        match bearer(headers)? {
            Some(token) if self.0 == Some(Sha256::digest(token)) => Ok(HttpIdentity::new("bearer")),
            Some(_) => Err(HttpRefusal::unauthorized().error("invalid_token")),
            None => Err(HttpRefusal::unauthorized()),
        }
    }
}

/// Returns the token in the `Authorization` header, which may be empty. Returns `None` if the header is missing or has
/// another scheme than `Bearer`. The case of the scheme is ignored (RFC 9110, 11.1).
///
/// # Errors
///
/// Returns an error if there is more than one `Authorization` header (RFC 6750, 3.1).
pub(super) fn bearer(headers: &HeaderMap) -> Result<Option<&[u8]>, HttpRefusal> {
    let values: Vec<&HeaderValue> = headers.get_all(AUTHORIZATION).iter().collect();
    let value = match values.as_slice() {
        [] => return Ok(None),
        [value] => value.as_bytes(),
        _ => return Err(HttpRefusal::malformed().description("several Authorization headers")),
    };
    // An empty token leaves only the scheme, because HTTP removes trailing spaces from the value of a header.
    let (scheme, token) = value.split_at_checked(7).unwrap_or((value, b""));
    let is_bearer =
        scheme.eq_ignore_ascii_case(b"bearer ") || scheme.eq_ignore_ascii_case(b"bearer");
    Ok(is_bearer.then_some(token))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(values: &[&str], expected: bool) {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(AUTHORIZATION, value.parse().unwrap());
        }
        let token = BearerToken::new("s3cret");
        assert_eq!(token.check(&headers).is_ok(), expected, "{values:?}");
    }

    #[test]
    fn only_the_exact_token_is_accepted() {
        check(&["Bearer s3cret"], true);
        check(&["bearer s3cret"], true);
        check(&["BEARER s3cret"], true);
        check(&[], false);
        check(&[""], false);
        check(&["Bearer"], false);
        check(&["Bearer "], false);
        check(&["Bearer s3cre"], false);
        check(&["Bearer s3crets"], false);
        check(&["Bearer s3creT"], false);
        check(&["Bearer s3crets3cret"], false);
        check(&["Bearer  s3cret"], false);
        check(&["Basic s3cret"], false);
        check(&["s3cret"], false);
        check(&["Bearer s3cret", "Bearer s3cret"], false);
    }

    #[test]
    fn empty_required_token_accepts_no_request() {
        let mut headers = HeaderMap::new();
        headers.insert(AUTHORIZATION, "Bearer ".parse().unwrap());
        assert!(BearerToken::new("").check(&headers).is_err());
    }
}
