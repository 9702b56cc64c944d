//! A route, which is a provider with a name, a model and changes of the request.

use std::fmt;
use std::sync::Arc;

use neuron_model::{
    BoxedProvider, CompletionResponse, Provider, ProviderError, RequestRef, RequestSettings,
    RouteModel, WasmCompatSend, WasmCompatSync,
};
use tracing::Span;

use crate::open_stream::{OpenStream, open};

/// A provider with a name, and optionally a model and changes of the request.
///
/// # The request of a route
///
/// A model name and `extra` fields are only valid for one vendor. Therefore each request has one *addressed* route:
///
/// - If the request's model is the name or the [model](Self::model) of a route, this route is addressed and is called
///   first.
/// - Otherwise the first route of the router is addressed. If the request names a model, the route is called first.
///
/// The addressed route receives the model and the `extra` fields of the request. All other routes receive neither, so
/// they use the provider's default model. A route's own [`model`](Self::model) replaces the model of each request. Then
/// [`change`](Self::change) may change everything else.
///
/// The name of a route is never sent to the vendor. A request that names a route without a `model` therefore uses the
/// provider's default model, also if the name is that of a model. Write
/// `Route::new("gpt-5.4-mini", openai).model("gpt-5.4-mini")` to call this model.
///
/// Leave the model of requests empty, so that the router's [`Order`](crate::Order) chooses the route.
///
/// # Example
///
/// ```
/// use neuron_router::Route;
/// use neuron_testing::ScriptedProvider;
///
/// # let provider = ScriptedProvider::default();
/// let route = Route::new("fast", provider)
///     .model("small-model")
///     .context_window(128_000)
///     .change(|settings| settings.thinking = None);
/// assert_eq!((route.name(), route.model_name()), ("fast", "small-model"));
/// ```
#[derive(Clone)]
pub struct Route {
    name: String,
    provider: BoxedProvider,
    /// `None` if the provider's default model is used.
    model: Option<String>,
    change: Option<Arc<dyn Change>>,
    pub(crate) context_window: Option<usize>,
    pub(crate) price: Option<f64>,
    pub(crate) weight: u32,
}

impl Route {
    /// Creates a route from a provider. The name appears in answers, errors and spans. It does not select a model, see
    /// [`model`](Self::model).
    pub fn new(name: impl Into<String>, provider: impl Provider + 'static) -> Self {
        Self {
            name: name.into(),
            provider: BoxedProvider::new(provider),
            model: None,
            change: None,
            context_window: None,
            price: None,
            weight: 1,
        }
    }

    /// Sets the model of each call. Default: the model of a request that addresses the route by another text than its
    /// name, otherwise the provider's default model.
    #[must_use]
    pub fn model(mut self, model: impl Into<String>) -> Self {
        self.model = Some(model.into());
        self
    }

    /// Sets a function that changes the settings of each request to this route, for example to remove an option that
    /// the model rejects.
    ///
    /// The function receives the settings after the rules for the model and for `extra` were applied. It runs again for
    /// each call, and each call copies the settings. The conversation is not copied.
    #[must_use]
    pub fn change(
        mut self,
        change: impl Fn(&mut RequestSettings) + WasmCompatSend + WasmCompatSync + 'static,
    ) -> Self {
        self.change = Some(Arc::new(change));
        self
    }

    /// Sets the size of the model's context window in tokens. Default: unknown.
    ///
    /// If a request exceeds the window of another route, it is sent to this route only if this window is larger. An
    /// unknown window counts as smaller than every known window.
    #[must_use]
    pub fn context_window(mut self, tokens: usize) -> Self {
        self.context_window = Some(tokens);
        self
    }

    /// Sets the price for [`Order::Price`](crate::Order::Price), in any unit. Default: unknown, which sorts last.
    #[must_use]
    pub fn price(mut self, price: f64) -> Self {
        self.price = Some(price);
        self
    }

    /// Sets the weight for [`Order::Weighted`](crate::Order::Weighted). Default: 1. A route with the weight 0 is called
    /// only after all others failed.
    #[must_use]
    pub fn weight(mut self, weight: u32) -> Self {
        self.weight = weight;
        self
    }

    /// Returns the name of the route.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the model of the route. If no model is set, returns the provider's default model.
    #[must_use]
    pub fn model_name(&self) -> &str {
        self.model.as_deref().unwrap_or(self.provider.info().default_model)
    }

    /// Returns the models that a call of this route may use. They are several if the provider is a router.
    pub(crate) fn models(&self) -> Vec<RouteModel> {
        let info = self.provider.info();
        match info.routes {
            [] => vec![RouteModel::new(info.name, self.model_name())],
            routes => routes.to_vec(),
        }
    }

    /// Returns the provider of the route.
    #[must_use]
    pub fn provider(&self) -> &BoxedProvider {
        &self.provider
    }

    /// Returns `true` if the model of a request names this route or its model.
    pub(crate) fn is_named(&self, model: &str) -> bool {
        !model.is_empty() && (self.name == model || self.model.as_deref() == Some(model))
    }

    /// Calls the provider for a whole response. Returns it with the name of the requested model, which is also recorded
    /// on `span`.
    pub(crate) async fn whole(
        &self,
        request: RequestRef<'_>,
        is_addressed: bool,
        span: Span,
    ) -> Result<(CompletionResponse, String), ProviderError> {
        let request = self.own_request(request, is_addressed);
        let settings = self.changed(request);
        let request = settings.as_ref().map_or(request, |own| request.with_settings(own));
        let model = self.requested_model(request, &span);
        Ok((self.provider.complete_ref(request).await?, model))
    }

    /// Calls the provider for a stream, and reads the stream up to its first content. Returns it with the name of the
    /// requested model, which is also recorded on `span`.
    pub(crate) async fn stream(
        &self,
        request: RequestRef<'_>,
        is_addressed: bool,
        span: Span,
    ) -> Result<(OpenStream, String), ProviderError> {
        let request = self.own_request(request, is_addressed);
        let settings = self.changed(request);
        let request = settings.as_ref().map_or(request, |own| request.with_settings(own));
        let model = self.requested_model(request, &span);
        Ok((open(self.provider.complete_stream_ref(request).await?).await?, model))
    }

    /// Returns the model of a request to the provider, or else the provider's default model. Records the model on the
    /// span of the call.
    fn requested_model(&self, request: RequestRef<'_>, span: &Span) -> String {
        let model = request.model_or(self.provider.info().default_model);
        if !model.is_empty() {
            span.record("gen_ai.request.model", model);
        }
        model.to_owned()
    }

    /// Returns the request with the model and the `extra` fields that are valid for this route.
    fn own_request<'r>(&'r self, request: RequestRef<'r>, is_addressed: bool) -> RequestRef<'r> {
        let (model, extra) = match is_addressed {
            true if request.model == self.name => ("", request.extra),
            true => (request.model, request.extra),
            false => ("", None),
        };
        RequestRef { model: self.model.as_deref().unwrap_or(model), extra, ..request }
    }

    /// Returns the changed settings of the request. Returns `None` if the route changes nothing.
    fn changed(&self, request: RequestRef<'_>) -> Option<RequestSettings> {
        let change = self.change.as_ref()?;
        let mut settings = request.to_settings();
        change.change(&mut settings);
        Some(settings)
    }
}

impl fmt::Debug for Route {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Route")
            .field("name", &self.name)
            .field("provider", &self.provider)
            .field("model", &self.model)
            .field("context_window", &self.context_window)
            .field("price", &self.price)
            .field("weight", &self.weight)
            .finish_non_exhaustive()
    }
}

/// A function that changes the settings of a request. The trait exists because closures need no `Send` on wasm.
trait Change: WasmCompatSend + WasmCompatSync {
    fn change(&self, settings: &mut RequestSettings);
}

impl<F: Fn(&mut RequestSettings) + WasmCompatSend + WasmCompatSync> Change for F {
    fn change(&self, settings: &mut RequestSettings) {
        self(settings);
    }
}
