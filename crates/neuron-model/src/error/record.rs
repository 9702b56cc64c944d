//! The serialisable form of errors, for journals and replay.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::{BoxError, ProviderError, Unsent};

/// A serialisable provider or tool error.
///
/// A durable engine stores the record of a failed call in its journal. On replay, the engine converts the record back
/// into an error of the same variant with the same text. Of a boxed source error, only the text and the flags of the
/// record are stored.
///
/// # Example
///
/// ```
/// use neuron_model::{ErrorRecord, ToolError};
///
/// let record = ErrorRecord::from(&ToolError::ModelRetry("use YYYY-MM-DD".into()));
/// let stored = serde_json::to_string(&record)?;
/// let replayed: ErrorRecord = serde_json::from_str(&stored)?;
/// assert!(matches!(replayed.into_tool_error(), ToolError::ModelRetry(hint) if hint == "use YYYY-MM-DD"));
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ErrorRecord {
    /// Stable name of the error, from [`ProviderError::kind`] or [`ToolError::kind`](crate::ToolError::kind).
    pub kind: String,
    /// The text of the error, without the prefix that its `Display` adds, such as `network error: `.
    #[serde(default)]
    pub detail: String,
    /// Delay of a rate limit, or duration of a timeout, in milliseconds. `None` for any other error.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub millis: Option<u64>,
    /// Set if the failed call may have had its side effect. See
    /// [`ToolError::is_uncertain`](crate::ToolError::is_uncertain).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_uncertain: bool,
    /// Set if the request was not sent, so that it used no tokens. See [`ProviderError::was_sent`].
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_unsent: bool,
}

impl ErrorRecord {
    pub(crate) fn new(kind: &str, detail: impl ToString) -> Self {
        Self {
            kind: kind.to_owned(),
            detail: detail.to_string(),
            millis: None,
            is_uncertain: false,
            is_unsent: false,
        }
    }

    /// Converts the record back into a provider error. An unknown kind becomes [`ProviderError::Other`].
    #[must_use]
    pub fn into_provider_error(self) -> ProviderError {
        use ProviderError as E;
        let millis = self.millis.map(Duration::from_millis);
        match self.kind.as_str() {
            "Network" if self.is_unsent => E::Network(Box::new(Unsent(text(self.detail)))),
            "Network" => E::Network(text(self.detail)),
            "RateLimit" => E::RateLimit { retry_after: millis },
            "ModelLoading" => E::ModelLoading(self.detail),
            "Timeout" => E::Timeout(millis.unwrap_or_default()),
            "ServiceUnavailable" => E::ServiceUnavailable(self.detail),
            "Authentication" => E::Authentication(self.detail),
            "InvalidRequest" => E::InvalidRequest(self.detail),
            "ContextWindowExceeded" => E::ContextWindowExceeded(self.detail),
            "ModelNotFound" => E::ModelNotFound(self.detail),
            "InsufficientResources" => E::InsufficientResources(self.detail),
            "StreamError" => E::StreamError(self.detail),
            _ => E::Other(text(self.detail)),
        }
    }
}

impl From<&ProviderError> for ErrorRecord {
    fn from(error: &ProviderError) -> Self {
        use ProviderError as E;
        let millis = |duration: &Duration| u64::try_from(duration.as_millis()).ok();
        let kind = error.kind();
        match error {
            E::Network(source) => Self { is_unsent: !error.was_sent(), ..Self::new(kind, source) },
            E::Other(source) => Self::new(kind, source),
            E::RateLimit { retry_after } => {
                Self { millis: retry_after.as_ref().and_then(millis), ..Self::new(kind, "") }
            }
            E::Timeout(duration) => Self { millis: millis(duration), ..Self::new(kind, "") },
            E::ModelLoading(detail)
            | E::ServiceUnavailable(detail)
            | E::Authentication(detail)
            | E::InvalidRequest(detail)
            | E::ContextWindowExceeded(detail)
            | E::ModelNotFound(detail)
            | E::InsufficientResources(detail)
            | E::StreamError(detail) => Self::new(kind, detail),
        }
    }
}

/// Converts the stored text of an error into a boxed source error. The original type of the source is lost.
fn text(detail: String) -> BoxError {
    detail.into()
}
