//! Shadow calls, which send a share of the calls also to another route. Not on wasm32, which has no tasks.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use neuron_model::{CompletionRequest, CompletionResponse, ProviderError, RequestRef};
use tokio::runtime::Handle;
use tokio::time::Instant;
use tracing::Span;

use crate::Route;
use crate::random::Random;

/// Maximum number of shadow calls that are open at the same time.
const MAX_OPEN: usize = 16;

/// A route that receives a share of the calls in addition to the route that answers, for example to compare models.
///
/// The result is passed to a callback and never to the caller. A failure or a panic of the shadow has no effect.
///
/// A shadow call copies the request, including the conversation. It runs as a task of the current tokio runtime, starts
/// together with the call, is not cancelled with the call, and ends with the runtime. It is not streamed, has the
/// timeouts of its provider, and counts for no limit, budget or usage of an agent. The vendor bills it.
///
/// No shadow call is made outside of a tokio runtime, or while 16 shadow calls are open. The type does not exist on
/// wasm32, which has no tasks.
///
/// # Example
///
/// ```
/// use neuron_router::{Route, Router, Shadow};
/// use neuron_testing::{Reply, ScriptedProvider};
/// use neuron_model::{CompletionRequest, Provider};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let (sender, mut answers) = tokio::sync::mpsc::unbounded_channel();
/// let candidate = Route::new("candidate", ScriptedProvider::new([Reply::text("Hello!")]));
/// let router = Router::builder()
///     .route(Route::new("production", ScriptedProvider::new([Reply::text("Hi.")])))
///     .shadow(Shadow::new(candidate, 1.0, move |answer| {
///         let _ = sender.send(answer);
///     }))
///     .build()?;
///
/// assert_eq!(router.complete(CompletionRequest::default()).await?.message.text(), "Hi.");
/// let shadow = answers.recv().await.ok_or("no answer")?;
/// assert_eq!(shadow.result?.message.text(), "Hello!");
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Shadow {
    inner: Arc<Inner>,
    pub(crate) share: f64,
}

struct Inner {
    route: Route,
    callback: Box<dyn Fn(ShadowAnswer) + Send + Sync>,
    /// Every open call holds a clone, so the strong count is their number plus 1.
    open: Arc<()>,
}

/// The result of a shadow call.
#[derive(Debug)]
#[non_exhaustive]
pub struct ShadowAnswer {
    /// Name of the shadow's route.
    pub route: String,
    /// The request of the caller, before the changes of the route.
    pub request: CompletionRequest,
    /// The response or the error of the route.
    pub result: Result<CompletionResponse, ProviderError>,
    /// Time until the response or the error.
    pub latency: Duration,
}

impl Shadow {
    /// Creates a shadow that receives a share of the calls, from 0 to 1. The calls are selected at random, see
    /// [`RouterBuilder::seed`](crate::RouterBuilder::seed).
    ///
    /// The callback runs in the task of the shadow call. It must not block.
    pub fn new(
        route: Route,
        share: f64,
        callback: impl Fn(ShadowAnswer) + Send + Sync + 'static,
    ) -> Self {
        let callback = Box::new(callback);
        let inner = Arc::new(Inner { route, callback, open: Arc::default() });
        Self { inner, share }
    }

    /// Starts a shadow call if this call is selected.
    pub(crate) fn start(&self, request: RequestRef<'_>, random: &Random) {
        if !random.chance(self.share) {
            return;
        }
        let open = Arc::clone(&self.inner.open);
        // The counter itself and the clone of this call.
        if Arc::strong_count(&open) > MAX_OPEN + 1 {
            return;
        }
        let Ok(runtime) = Handle::try_current() else {
            tracing::debug!("no shadow call: there is no tokio runtime");
            return;
        };
        let (inner, cache) = (Arc::clone(&self.inner), request.cache);
        let request = request.to_request();
        runtime.spawn(async move {
            let _open = open;
            let started = Instant::now();
            // The model and `extra` of the request are for another route.
            let view = RequestRef { cache, ..request.view() };
            let answer = inner.route.whole(view, false, Span::none()).await;
            let result = answer.map(|(response, _)| response);
            let (route, latency) = (inner.route.name().to_owned(), started.elapsed());
            (inner.callback)(ShadowAnswer { route, request, result, latency });
        });
    }
}

impl fmt::Debug for Shadow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shadow")
            .field("route", &self.inner.route)
            .field("share", &self.share)
            .finish_non_exhaustive()
    }
}
