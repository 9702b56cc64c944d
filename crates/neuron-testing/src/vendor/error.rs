//! The parts of an error that all vendors send.

use neuron_types::ProviderError;

/// Returns the vendor's text for an error. The `{}` of the template stands for the text in the error.
pub(crate) fn message(error: &ProviderError, template: &str) -> String {
    let own = match error {
        ProviderError::ModelLoading(text)
        | ProviderError::ServiceUnavailable(text)
        | ProviderError::Authentication(text)
        | ProviderError::InvalidRequest(text)
        | ProviderError::ContextWindowExceeded(text)
        | ProviderError::ModelNotFound(text)
        | ProviderError::InsufficientResources(text) => text.clone(),
        ProviderError::Timeout(after) => format!("the request timed out after {after:?}"),
        other => other.to_string(),
    };
    template.replace("{}", &own)
}
