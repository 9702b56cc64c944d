//! Who may ask, and for which models: what a server is told, not what its vendor is.

use std::fmt;

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
}

impl fmt::Debug for Rules {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Rules").field("models", &self.models).finish_non_exhaustive()
    }
}
