//! Bearer tokens, and authentication with one shared token.

use http::header::AUTHORIZATION;
use http::{HeaderMap, HeaderValue};
use sha2::digest::Output;
use sha2::{Digest as _, Sha256};

use super::authenticate::{HttpIdentity, HttpRefusal};

/// The hash of the required token. `None` for an empty token, which no request can match.
///
/// Hashes are compared, so that the time of the comparison reveals nothing about the token.
pub(super) struct BearerToken(Option<Output<Sha256>>);

impl BearerToken {
    pub(super) fn new(token: &str) -> Self {
        Self((!token.is_empty()).then(|| Sha256::digest(token)))
    }

    /// Accepts a request that has exactly one `Authorization` header, with this token.
    pub(super) fn check(&self, headers: &HeaderMap) -> Result<HttpIdentity, HttpRefusal> {
        match bearer(headers)? {
            Some(token) if self.0 == Some(Sha256::digest(token)) => Ok(HttpIdentity::new("bearer")),
            Some(_) => Err(HttpRefusal::unauthorized().error("invalid_token")),
            None => Err(HttpRefusal::unauthorized()),
        }
    }
}

/// Returns the token of a request, which may be empty. Returns `None` if there is no `Authorization` of the scheme
/// `Bearer`. The name of a scheme may be written in any case (RFC 9110, 11.1).
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
    // A header's value has no trailing spaces, so an empty token leaves only the scheme.
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
    fn only_the_token_itself_is_let_in() {
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
    fn an_empty_token_lets_nobody_in() {
        let mut headers = HeaderMap::new();
        headers.insert(AUTHORIZATION, "Bearer ".parse().unwrap());
        assert!(BearerToken::new("").check(&headers).is_err());
    }
}
