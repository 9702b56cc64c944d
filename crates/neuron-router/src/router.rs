//! The router, which is a provider over several others.

use std::sync::Arc;

use neuron_model::{
    AnswerMetadata, CompletionResponse, ForcedCalls, Message, Provider, ProviderError,
    ProviderInfo, RequestRef, StreamHandle, StreamReceiver,
};

use crate::Route;
use crate::call::{Answered, first_answer};
use crate::health::Form;
use crate::routed_stream::RoutedStream;
use crate::shared::Shared;

/// A [`Provider`] over several others, which chooses the provider and the model of each call.
///
/// Clones share the routes, their pauses and their latencies. The [crate documentation](crate) has the rules.
///
/// # Example
///
/// ```
/// use neuron_router::{Route, Router};
/// use neuron_testing::{Reply, ScriptedProvider};
/// use neuron_model::{CompletionRequest, Provider, ProviderError};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), ProviderError> {
/// # let busy = Reply::error(ProviderError::ServiceUnavailable("529 overloaded".into()));
/// # let (claude, gpt) = (ScriptedProvider::new([busy]), ScriptedProvider::new([Reply::text("Hi.")]));
/// let router = Router::builder()
///     .route(Route::new("claude", claude))
///     .route(Route::new("gpt", gpt))
///     .build()?;
///
/// let response = router.complete(CompletionRequest::default()).await?;
/// let route = response.message.metadata().and_then(|it| it.route).unwrap_or_default();
/// assert_eq!((&*route.name, &*route.failed[0].name), ("gpt", "claude"));
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct Router {
    shared: Arc<Shared>,
}

impl Router {
    pub(crate) fn new(shared: Shared) -> Self {
        Self { shared: Arc::new(shared) }
    }

    /// Returns the routes, in the order in which they were added.
    #[must_use]
    pub fn routes(&self) -> &[Route] {
        &self.shared.routes
    }

    /// Starts a shadow call if the call is selected. On wasm32 there is no shadow.
    fn start_shadow(&self, request: RequestRef<'_>) {
        #[cfg(not(target_family = "wasm"))]
        if let Some(shadow) = &self.shared.shadow {
            shadow.start(request, &self.shared.random);
        }
        #[cfg(target_family = "wasm")]
        let _ = request;
    }
}

impl Provider for Router {
    async fn complete_ref(
        &self,
        request: RequestRef<'_>,
    ) -> Result<CompletionResponse, ProviderError> {
        self.start_shadow(request);
        let answered =
            first_answer(&self.shared, request, Form::Whole, |route, request, named, span| {
                Box::pin(route.whole(request, named, span))
            });
        let Answered { answer: (answer, model), mut route, .. } = answered.await?;
        route.model = model;
        let mut metadata = AnswerMetadata::default();
        metadata.route = Some(route);
        let message: Message = answer.message.with_metadata(&metadata);
        Ok(CompletionResponse { message, ..answer })
    }

    /// Returns the stream when the first content of a route has arrived.
    async fn complete_stream_ref(
        &self,
        request: RequestRef<'_>,
    ) -> Result<StreamHandle, ProviderError> {
        self.start_shadow(request);
        let answered =
            first_answer(&self.shared, request, Form::Streamed, |route, request, named, span| {
                Box::pin(route.stream(request, named, span))
            });
        let Answered { answer: (answer, model), index, mut route, span } = answered.await?;
        route.model = model;
        let shared = Arc::clone(&self.shared);
        Ok(StreamReceiver::new(RoutedStream::new(answer, shared, index, route, span)).into())
    }

    /// Returns the names of the first route, and the models of all routes. A tool can be forced only if all routes
    /// support it.
    fn info(&self) -> ProviderInfo<'_> {
        let Some(first) = self.shared.routes.first() else {
            return ProviderInfo::default();
        };
        ProviderInfo::new(first.provider().info().name, first.model_name())
            .with_forced_calls(forced_calls(&self.shared.routes))
            .with_routes(&self.shared.models)
    }
}

/// Returns the support for forced tool calls that all routes have.
fn forced_calls(routes: &[Route]) -> ForcedCalls {
    let mut common = ForcedCalls::Accepted;
    for route in routes {
        let own = match route.provider().info().forced_calls {
            ForcedCalls::Accepted => continue,
            // The caller knows only the model of the first route.
            ForcedCalls::NotWhileThinking { thinking_models }
                if thinking_models.iter().any(|model| route.model_name().starts_with(model)) =>
            {
                ForcedCalls::Refused
            }
            own => own,
        };
        common = match common {
            ForcedCalls::Accepted => own,
            common if common == own => own,
            _ => ForcedCalls::Refused,
        };
    }
    common
}
