//! A response with a successful status ([`Reply`]).

use std::future::Future;

use http::header::CONTENT_TYPE;
use http::{HeaderMap, Response, Uri};
use neuron_model::{CompletionResponse, ProviderError};

use crate::body::{read_beginning, read_body};
use crate::content::Content;
use crate::deadline::Deadline;
use crate::endpoint::{EXPLANATION_TIMEOUT, Timeouts};
use crate::framing::without_mark;
use crate::headers::metadata;
use crate::wrong_url::{WRONG_URL, is_page, page_hint};
use crate::{Body, OriginalNames, Secret, header};

/// A response with the HTTP status 2xx, whose body has not been read yet.
#[derive(Debug)]
pub struct Reply {
    response: Response<Content>,
    uri: Uri,
    deadline: Deadline,
    timeouts: Timeouts,
    secret: Secret,
    /// The original names of tools that have another name in the request. Responses and streams contain the original names.
    names: OriginalNames,
}

impl Reply {
    pub(crate) fn new(
        response: Response<Content>,
        uri: Uri,
        deadline: Deadline,
        timeouts: Timeouts,
        secret: Secret,
        names: OriginalNames,
    ) -> Self {
        Self { response, uri, deadline, timeouts, secret, names }
    }

    /// Returns the headers of the response.
    #[must_use]
    pub fn headers(&self) -> &HeaderMap {
        self.response.headers()
    }

    /// Reads the body and parses it with the function `read`. Adds the request id and the rate limits from the headers
    /// to the message's [metadata](neuron_model::Message::metadata).
    ///
    /// # Errors
    ///
    /// Returns the errors of the method [`Reply::read`](Self::read) and of the function `read`.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future closes the connection, and the response is lost.
    pub async fn answer(
        mut self,
        read: impl FnOnce(&[u8]) -> Result<CompletionResponse, ProviderError>,
    ) -> Result<CompletionResponse, ProviderError> {
        let headers = std::mem::take(self.response.headers_mut());
        let names = std::mem::take(&mut self.names);
        let mut response = read(&self.read().await?)?;
        names.restore(&mut response);
        response.message.add_metadata(&metadata(&headers));
        Ok(response)
    }

    /// Reads the body completely.
    ///
    /// # Errors
    ///
    /// - [`ProviderError::Network`] if the transfer fails.
    /// - [`ProviderError::Timeout`] at the deadline of the call.
    /// - [`ProviderError::Other`] if the body has more than 256 MiB, or is an HTML page, which no API sends.
    pub fn read(self) -> impl Future<Output = Result<Vec<u8>, ProviderError>> {
        let Self { response, uri, deadline, secret, .. } = self;
        let content = response.into_body();
        async move {
            let body = read_body(content, &uri, deadline).await?;
            let shown = without_mark(&body);
            if is_page(shown) {
                let shown = secret.excerpt(shown.trim_ascii());
                let text = format!("the response is a page and not the API's: {shown}{WRONG_URL}");
                return Err(ProviderError::Other(text.into()));
            }
            Ok(body)
        }
    }

    /// Returns the body as a stream, if its content type is one of `content_types`. A body of type `text/plain` or
    /// without a type is also accepted, if it begins like server-sent events or JSON lines.
    ///
    /// Any other body is rejected. The function `explain` receives its beginning, which often contains an error of the
    /// server.
    ///
    /// # Errors
    ///
    /// Returns the error of `explain`. If `explain` returns `None`, returns [`ProviderError::Other`] with the beginning
    /// of the body.
    pub async fn stream(
        self,
        content_types: &[&str],
        explain: impl FnOnce(&[u8]) -> Option<ProviderError>,
    ) -> Result<Body, ProviderError> {
        let kind = header(self.response.headers(), CONTENT_TYPE.as_str()).map(str::to_owned);
        let essence = kind.as_deref().unwrap_or("text/plain");
        let essence = essence.split(';').next().unwrap_or_default().trim();
        let is = |wanted: &str| essence.eq_ignore_ascii_case(wanted);
        if content_types.iter().any(|wanted| is(wanted)) {
            return Ok(Body::new(self.response, self.uri, self.timeouts.idle, self.names));
        }
        let explanation = || self.deadline.or_after(EXPLANATION_TIMEOUT);
        let beginning = if is("text/plain") {
            let begins = match content_types {
                types if types.contains(&EVENTS) => begins_event,
                types if types.contains(&FRAMES) => begins_frame,
                _ => begins_object,
            };
            let mut body = Body::new(self.response, self.uri, self.timeouts.idle, self.names);
            match body.check_beginning(begins, explanation).await? {
                Ok(()) => return Ok(body),
                Err(beginning) => beginning,
            }
        } else {
            read_beginning(self.response.into_body(), explanation()).await
        };
        Err(explain(&beginning).unwrap_or_else(|| {
            let shown = self.secret.excerpt(beginning.trim_ascii());
            let kind = kind.as_deref().unwrap_or("no content type");
            let hint = page_hint(&beginning);
            let text = format!("a stream was asked for, and the server sent {kind}: {shown}{hint}");
            ProviderError::Other(text.into())
        }))
    }
}

/// Content type of server-sent events.
const EVENTS: &str = "text/event-stream";

/// Content type of AWS's binary frames.
const FRAMES: &str = "application/vnd.amazon.eventstream";

/// Returns `true` if a body begins with the length of a binary frame. The first of its four bytes is 0, or 1 for a very
/// long frame. No text begins with these bytes. Returns `None` if more bytes are needed to decide.
fn begins_frame(bytes: &[u8]) -> Option<bool> {
    bytes.first().map(|byte| *byte <= 1)
}

/// Returns `Some(true)` if a body begins with a comment or a field of [server-sent
/// events](https://html.spec.whatwg.org/multipage/server-sent-events.html). Returns `None` if more bytes are needed.
fn begins_event(bytes: &[u8]) -> Option<bool> {
    const BEGINNINGS: [&[u8]; 5] = [b":", b"data:", b"event:", b"id:", b"retry:"];
    let bytes = skip_bom_and_space(bytes);
    if BEGINNINGS.iter().any(|beginning| bytes.starts_with(beginning)) {
        return Some(true);
    }
    let may_become = BEGINNINGS.iter().any(|beginning| beginning.starts_with(bytes));
    (!may_become).then_some(false)
}

/// Returns `true` if a body begins with a JSON object. Returns `None` if more bytes are needed to decide.
fn begins_object(bytes: &[u8]) -> Option<bool> {
    skip_bom_and_space(bytes).first().map(|byte| *byte == b'{')
}

/// Returns the bytes after a byte order mark and white space. An incomplete mark at the end is skipped too.
fn skip_bom_and_space(bytes: &[u8]) -> &[u8] {
    const MARK: &[u8] = b"\xEF\xBB\xBF";
    let bytes = match MARK.starts_with(bytes) {
        true => &[],
        false => bytes.strip_prefix(MARK).unwrap_or(bytes),
    };
    bytes.trim_ascii_start()
}
