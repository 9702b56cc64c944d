//! A response whose status is a success.

use neuron_types::ProviderError;
use reqwest::Response;
use reqwest::header::{CONTENT_TYPE, HeaderMap};

use crate::body::read_body;
use crate::deadline::Deadline;
use crate::endpoint::Timeouts;
use crate::{Body, header};

/// A response whose status is a success, and whose body has not been read.
#[derive(Debug)]
pub struct Reply {
    response: Response,
    deadline: Deadline,
    timeouts: Timeouts,
}

impl Reply {
    pub(crate) fn new(response: Response, deadline: Deadline, timeouts: Timeouts) -> Self {
        Self { response, deadline, timeouts }
    }

    /// The response's headers.
    #[must_use]
    pub fn headers(&self) -> &HeaderMap {
        self.response.headers()
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

    /// Reads the body as it arrives, if it is of one of these content types or says none.
    ///
    /// # Errors
    ///
    /// [`ProviderError::Other`] for another content type: an answer that is not streamed, a page.
    pub fn stream(self, content_types: &[&str]) -> Result<Body, ProviderError> {
        let is_wanted = |kind: &str| {
            let kind = kind.split(';').next().unwrap_or_default().trim();
            content_types.iter().any(|wanted| kind.eq_ignore_ascii_case(wanted))
        };
        match header(self.response.headers(), CONTENT_TYPE.as_str()) {
            Some(other) if !is_wanted(other) => {
                let text = format!("a stream was asked for, and the server sent {other}");
                Err(ProviderError::Other(text.into()))
            }
            _ => Ok(Body::new(self.response, self.timeouts.idle)),
        }
    }
}
