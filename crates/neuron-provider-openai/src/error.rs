//! Conversion of errors that a server sends with a successful status. [`neuron_http`] converts all other error
//! responses.
//!
//! <https://platform.openai.com/docs/guides/error-codes>

pub(crate) use neuron_http::VendorError as ApiError;
use neuron_model::ProviderError;

/// Converts an error that the server sent as an event of a stream, after a successful status.
pub(crate) fn from_event(error: &ApiError) -> ProviderError {
    // The caller may have used the earlier events already, so the error is not retryable.
    error.within("the stream", None, ProviderError::StreamError)
}

/// Converts an error that the server sent instead of a whole response, although the status was a success.
pub(crate) fn from_answer(error: &ApiError) -> ProviderError {
    error.within("the answer", None, |text| match &*error.name() {
        "server_error" => ProviderError::ServiceUnavailable(text),
        _ => ProviderError::Other(text.into()),
    })
}

#[cfg(test)]
mod dialects;
#[cfg(test)]
mod tests;
