//! A response whose status is a success.

use neuron_types::{CompletionResponse, ProviderError};
use reqwest::Response;
use reqwest::header::{CONTENT_TYPE, HeaderMap};

use crate::body::{read_beginning, read_body};
use crate::deadline::Deadline;
use crate::endpoint::{EXPLANATION, Timeouts};
use crate::headers::metadata;
use crate::{Body, Secret, header};

/// A response whose status is a success, and whose body has not been read.
#[derive(Debug)]
pub struct Reply {
    response: Response,
    deadline: Deadline,
    timeouts: Timeouts,
    secret: Secret,
}

impl Reply {
    pub(crate) fn new(
        response: Response,
        deadline: Deadline,
        timeouts: Timeouts,
        secret: Secret,
    ) -> Self {
        Self { response, deadline, timeouts, secret }
    }

    /// The response's headers.
    #[must_use]
    pub fn headers(&self) -> &HeaderMap {
        self.response.headers()
    }

    /// Reads the body, and the answer in it. Adds the facts in the headers to the answer's
    /// [metadata](neuron_types::Message::metadata).
    ///
    /// # Errors
    ///
    /// The errors of [`read`](Self::read) and of the function.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future closes the connection. The answer is lost.
    pub async fn answer(
        self,
        read: impl FnOnce(&[u8]) -> Result<CompletionResponse, ProviderError>,
    ) -> Result<CompletionResponse, ProviderError> {
        let metadata = metadata(self.headers());
        let mut response = read(&self.read().await?)?;
        response.message = response.message.with_metadata(&metadata);
        Ok(response)
    }

    /// Reads the whole body.
    ///
    /// # Errors
    ///
    /// [`ProviderError::Network`] or [`ProviderError::Timeout`]; [`ProviderError::Other`] for a body
    /// that does not end.
    pub async fn read(self) -> Result<Vec<u8>, ProviderError> {
        read_body(self.response, self.deadline).await
    }

    /// Reads the body as it arrives, if it is of one of these content types or says none. What came
    /// in place of a stream is given to `explain`: often it says why.
    ///
    /// # Errors
    ///
    /// What `explain` makes of another body, else [`ProviderError::Other`] with its beginning.
    pub async fn stream(
        self,
        content_types: &[&str],
        explain: impl FnOnce(&[u8]) -> Option<ProviderError>,
    ) -> Result<Body, ProviderError> {
        let is_wanted = |kind: &str| {
            let kind = kind.split(';').next().unwrap_or_default().trim();
            content_types.iter().any(|wanted| kind.eq_ignore_ascii_case(wanted))
        };
        let kind = header(self.response.headers(), CONTENT_TYPE.as_str());
        let Some(other) = kind.filter(|kind| !is_wanted(kind)).map(str::to_owned) else {
            return Ok(Body::new(self.response, self.timeouts.idle));
        };
        let body = read_beginning(self.response, self.deadline.or_after(EXPLANATION)).await;
        Err(explain(&body).unwrap_or_else(|| {
            let shown = self.secret.excerpt(body.trim_ascii());
            let text = format!("a stream was asked for, and the server sent {other}: {shown}");
            ProviderError::Other(text.into())
        }))
    }
}
