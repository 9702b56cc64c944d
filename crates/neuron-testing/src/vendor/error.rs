//! The parts of an error that all vendors send.

use neuron_types::ProviderError;

/// Returns the text of an error with the vendor's words around it. `{}` stands for the error's own.
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
