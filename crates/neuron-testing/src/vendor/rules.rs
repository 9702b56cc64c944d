//! The key and the models that a server accepts. A test sets them on the server, independently of the vendor.

use std::fmt;

use neuron_types::ProviderError;
use serde_json::Value;

use super::Call;

/// The key and the models that a server accepts.
///
/// `Debug` does not print the key.
#[derive(Clone, Default)]
pub struct Rules {
    /// The accepted key. `None` means that no key is required.
    pub(super) api_key: Option<String>,
    /// The names of the models that exist. `None` means that every model exists.
    pub(super) models: Option<Vec<String>>,
}

impl Rules {
    /// Returns `true` if the server accepts a request with this key. `None` is a request without a key.
    #[must_use]
    pub fn accepts_key(&self, key: Option<&str>) -> bool {
        match &self.api_key {
            Some(expected) => key == Some(expected),
            None => true,
        }
    }

    /// Returns `true` if the server has the model `model`.
    #[must_use]
    pub fn has_model(&self, model: &str) -> bool {
        match &self.models {
            Some(models) => models.iter().any(|known| known == model),
            None => true,
        }
    }

    /// Creates a [`Call`] for a request with the body `body`. The field `model` of the body names the model.
    ///
    /// # Errors
    ///
    /// Returns the vendor's error if the model does not exist.
    pub(crate) fn call<D, E>(&self, body: &Value, stream: bool, detail: D) -> Result<Call<D>, E>
    where
        E: for<'a> From<&'a ProviderError>,
    {
        let model = body.get("model").and_then(Value::as_str).unwrap_or_default();
        match self.has_model(model) {
            true => Ok(Call::new(model, stream, detail)),
            false => Err(E::from(&ProviderError::ModelNotFound(model.to_owned()))),
        }
    }
}

impl fmt::Debug for Rules {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Rules").field("models", &self.models).finish_non_exhaustive()
    }
}
