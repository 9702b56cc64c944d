//! The route of a response, if a router chose the provider.

use serde::{Deserialize, Serialize};

use crate::ErrorRecord;

/// The route that answered a call, if a router chose the provider. Part of the
/// [metadata](crate::AnswerMetadata::route) of a message.
///
/// If a router calls another router, the route is that of the inner router.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct AnswerRoute {
    /// Name of the route.
    pub name: String,
    /// Name of the route's provider, for example `openai`. Empty if unknown.
    pub provider: String,
    /// Model that the route requested. Empty if unknown. The response may name the model differently.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub model: String,
    /// Routes that failed before, in order.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub failed: Vec<FailedRoute>,
    /// Names of the routes that were called at the same time and did not answer first. Their calls were cancelled, and
    /// the vendors may bill them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub cancelled: Vec<String>,
}

impl AnswerRoute {
    /// Creates the route from its name and the name of its provider.
    #[must_use]
    pub fn new(name: impl Into<String>, provider: impl Into<String>) -> Self {
        Self { name: name.into(), provider: provider.into(), ..Self::default() }
    }
}

/// A route that failed, with its error.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct FailedRoute {
    /// Name of the route.
    pub name: String,
    /// The error of the route's provider.
    pub error: ErrorRecord,
}

impl FailedRoute {
    /// Creates the entry from the name of the route and its error.
    #[must_use]
    pub fn new(name: impl Into<String>, error: ErrorRecord) -> Self {
        Self { name: name.into(), error }
    }
}
