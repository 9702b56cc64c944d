//! The URL to which the authorization page sent the person.

use reqwest::Url;

use super::error::{OAuthError, shortened};

/// A code, and who says that they issued it.
pub(super) struct Callback {
    pub(super) code: String,
    pub(super) state: String,
    pub(super) issuer: Option<String>,
}

/// Reads the parameters of a callback. Its errors have no secrets, because the URL is never shown.
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
        value("state").ok_or_else(|| OAuthError::Callback("it has no `state`".to_owned()))?;
    if state != expected_state {
        return Err(OAuthError::Callback("its `state` is not that of this authorization".into()));
    }
    let issuer = value("iss");
    if let Some(error) = value("error") {
        // RFC 9207, section 2.4: an error of another server is not shown to the person.
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
        .ok_or_else(|| OAuthError::Callback("it has neither a code nor an error".to_owned()))?;
    Ok(Callback { code, state, issuer })
}

/// The `state` that an authorization URL carries.
pub(super) fn state_of(authorization_url: &str) -> Option<String> {
    let url = Url::parse(authorization_url).ok()?;
    url.query_pairs().find(|(key, _)| key == "state").map(|(_, value)| value.into_owned())
}
