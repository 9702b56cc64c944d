//! CORS headers for browsers (Fetch standard).

use http::header::{
    ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN,
    ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_MAX_AGE, ACCESS_CONTROL_REQUEST_HEADERS,
    ACCESS_CONTROL_REQUEST_METHOD, ORIGIN, VARY,
};
use http::{HeaderMap, HeaderValue, Method};

/// Headers of a response that web pages may read.
const EXPOSED: &str = "Mcp-Session-Id, MCP-Protocol-Version, WWW-Authenticate";

/// Returns `true` if the request is a CORS preflight, by which a browser asks for permission before the actual request.
pub(super) fn is_preflight(method: &Method, headers: &HeaderMap) -> bool {
    *method == Method::OPTIONS
        && headers.contains_key(ORIGIN)
        && headers.contains_key(ACCESS_CONTROL_REQUEST_METHOD)
}

/// Returns the headers of the response to a CORS preflight. The response allows all methods of the protocol (GET, POST
/// and DELETE), and all headers that the preflight names.
pub(super) fn preflight(request: &HeaderMap) -> HeaderMap {
    let mut headers = HeaderMap::new();
    headers.insert(ACCESS_CONTROL_ALLOW_METHODS, HeaderValue::from_static("GET, POST, DELETE"));
    if let Some(asked) = request.get(ACCESS_CONTROL_REQUEST_HEADERS) {
        headers.insert(ACCESS_CONTROL_ALLOW_HEADERS, asked.clone());
    }
    headers.insert(ACCESS_CONTROL_MAX_AGE, HeaderValue::from_static("600"));
    headers
}

/// Adds the headers to a response that let pages of an allowed origin read the response.
pub(super) fn allow(origin: HeaderValue, response: &mut HeaderMap) {
    response.insert(ACCESS_CONTROL_ALLOW_ORIGIN, origin);
    response.insert(ACCESS_CONTROL_EXPOSE_HEADERS, HeaderValue::from_static(EXPOSED));
    response.append(VARY, HeaderValue::from_static("Origin"));
}
