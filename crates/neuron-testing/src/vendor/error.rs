//! The text of an error, for every vendor.

use neuron_types::ProviderError;

/// Returns the vendor's error text for a provider error. `template` is the vendor's wording for this kind of error, in
/// which `{}` stands for the text of `error`.
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
