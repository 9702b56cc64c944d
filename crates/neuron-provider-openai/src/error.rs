//! The API's errors as ours. <https://platform.openai.com/docs/guides/error-codes>
//!
//! The forms of errors and the meaning of their words are those of [`neuron_http`], for all compatible servers.

pub(crate) use neuron_http::VendorError as ApiError;
use neuron_types::ProviderError;

/// Maps an error within a stream, whose status was a success.
pub(crate) fn from_event(error: &ApiError) -> ProviderError {
    // Part of the answer has been shown: it cannot be asked for again.
    error.within("the stream", None, ProviderError::StreamError)
}

/// Maps an error that came in place of an answer, whose status was a success.
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
