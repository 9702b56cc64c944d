//! Who may ask, and for which models: what a server is told, not what its vendor is.

use std::fmt;

use neuron_types::ProviderError;
use serde_json::Value;

use super::Call;

/// Who may ask a server, and for which models.
///
/// `Debug` leaves the key out.
#[derive(Clone, Default)]
pub struct Rules {
    /// `None` means that none is needed.
    pub(super) api_key: Option<String>,
    /// `None` means any.
    pub(super) models: Option<Vec<String>>,
}

impl Rules {
    /// Whether a request with this key may ask.
    #[must_use]
    pub fn accepts_key(&self, key: Option<&str>) -> bool {
        match &self.api_key {
            Some(expected) => key == Some(expected),
            None => true,
        }
    }

    /// Whether there is such a model.
    #[must_use]
    pub fn has_model(&self, model: &str) -> bool {
        match &self.models {
            Some(models) => models.iter().any(|known| known == model),
            None => true,
        }
    }

    /// Returns the call of a request with this body.
    ///
    /// # Errors
    ///
    /// Returns the vendor's error if there is no such model.
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
