//! The check of web pages that a server or an authorization server names.

use reqwest::Url;

use super::http::is_loopback;

/// Checks the URL of a page that the user should visit, and returns it in its normal form. Allows `https`, and `http` on
/// this machine. Returns the reason if the URL is not allowed.
///
/// Applications pass the URL to other programs, where `javascript:` runs code and `file:` opens a file. A user name in
/// the URL can look like the host.
pub(crate) fn page_url(text: &str) -> Result<String, String> {
    let url = Url::parse(text).map_err(|error| format!("the URL of the page: {error}"))?;
    let scheme = url.scheme();
    if scheme != "https" && !(scheme == "http" && is_loopback(&url)) {
        return Err(format!(
            "the URL of the page must be `https`, or `http` on this machine, but starts with `{scheme}:`"
        ));
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err("the URL of the page contains a user name or a password".to_owned());
    }
    Ok(url.into())
}
