//! Parsing of the URL to which the authorization page redirected the user.

use reqwest::Url;

use super::error::OAuthError;
use crate::text::shortened;

/// The query parameters of the URL to which the authorization page redirected the user after a success.
pub(super) struct Callback {
    /// The authorization code.
    pub(super) code: String,
    /// The `state` of the authorization.
    pub(super) state: String,
    /// The issuer (`iss`) that the authorization server reports, if any (RFC 9207).
    pub(super) issuer: Option<String>,
}

/// Parses the URL to which the authorization page redirected the user, and checks its `state`. Errors do not contain
/// the URL, because it contains secrets.
///
/// If the URL reports an error and names an issuer, the issuer must equal `expected_issuer`. `None` skips this check.
pub(super) fn read(
    url: &str,
    expected_state: &str,
    expected_issuer: Option<&str>,
) -> Result<Callback, OAuthError> {
    let url =
        Url::parse(url).map_err(|error| OAuthError::Callback(format!("not a URL: {error}")))?;
    let value = |name: &str| {
        url.query_pairs().find(|(key, _)| key == name).map(|(_, value)| value.into_owned())
    };
    let state =
        value("state").ok_or_else(|| OAuthError::Callback("`state` is missing".to_owned()))?;
    if state != expected_state {
        return Err(OAuthError::Callback("`state` does not match this authorization".into()));
    }
    let issuer = value("iss");
    if let Some(error) = value("error") {
        // RFC 9207, section 2.4: the error of a different server must not be shown to the user.
        if let (Some(received), Some(expected)) = (&issuer, expected_issuer)
            && received != expected
        {
            return Err(OAuthError::Issuer(format!(
                "expected {expected}, received {}",
                shortened(received)
            )));
        }
        let description = value("error_description").map(|text| shortened(&text));
        return Err(OAuthError::Refused { error: shortened(&error), description });
    }
    let code = value("code")
        .ok_or_else(|| OAuthError::Callback("`code` and `error` are both missing".to_owned()))?;
    Ok(Callback { code, state, issuer })
}

/// Returns the `state` parameter of an authorization URL. Returns `None` if it is missing.
pub(super) fn state_of(authorization_url: &str) -> Option<String> {
    let url = Url::parse(authorization_url).ok()?;
    url.query_pairs().find(|(key, _)| key == "state").map(|(_, value)| value.into_owned())
}
