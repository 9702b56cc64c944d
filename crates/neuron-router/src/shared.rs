//! The settings and the state that all clones of a router share.

use std::time::Duration;

use neuron_model::{ProviderError, RouteModel};

#[cfg(not(target_family = "wasm"))]
use crate::Shadow;
use crate::clock::Instant;
use crate::failure::falls_back;
use crate::health::Health;
use crate::random::Random;
use crate::sticky::Sticky;
use crate::{Order, Route};

/// The settings and the state that all clones of a router share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) routes: Vec<Route>,
    /// The models of all routes, and of the routers inside them.
    pub(crate) models: Vec<RouteModel>,
    pub(crate) health: Health,
    pub(crate) order: Order,
    pub(crate) deadline: Option<Duration>,
    pub(crate) hedge_after: Option<Duration>,
    pub(crate) falls_back_on_authentication: bool,
    pub(crate) sticky: Option<Sticky>,
    pub(crate) random: Random,
    #[cfg(not(target_family = "wasm"))]
    pub(crate) shadow: Option<Shadow>,
}

impl Shared {
    /// Pauses a route whose call failed. Returns `true` if another route may answer the request.
    pub(crate) fn failed(&self, index: usize, error: &ProviderError) -> bool {
        let falls_back = falls_back(error, self.falls_back_on_authentication);
        // An error of the request or of the configuration must not send the next request to another route.
        if falls_back {
            self.health.failed(index, error, Instant::now());
        }
        falls_back
    }
}
