//! Conversion of the API's errors.
//!
//! <https://platform.openai.com/docs/guides/error-codes>
//!
//! [`neuron_http`] parses and classifies the errors of all compatible servers.

pub(crate) use neuron_http::VendorError as ApiError;
use neuron_types::ProviderError;

/// Converts an error within a stream, whose status was a success.
pub(crate) fn from_event(error: &ApiError) -> ProviderError {
    // A part of the response may have been used already, so the call is not retryable.
    error.within("the stream", None, ProviderError::StreamError)
}

/// Converts an error in the place of a response, whose status was a success.
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
