//! The trait of model providers and its boxed form.

use std::fmt;
use std::future::Future;
use std::sync::{Arc, Once};

use crate::{
    CompletionRequest, CompletionResponse, ProviderError, RequestRef, StreamHandle,
    WasmBoxedFuture, WasmCompatSend, WasmCompatSync,
};

/// A provider of completions, for example a vendor's API, a local server or scripted responses in a test.
///
/// Implement [`complete_ref`](Self::complete_ref) and [`complete_stream_ref`](Self::complete_stream_ref), which borrow
/// the request. The agent loop calls only these two methods, through their boxed forms, with the whole conversation in
/// the request. A provider that needs an owned request implements [`complete`](Self::complete) and [`complete_stream`](Self::complete_stream)
/// instead. Each model call of a loop then copies the conversation.
///
/// The defaults of `complete` and `complete_ref` call each other. If a provider implements neither, each call fails with
/// [`ProviderError::InvalidRequest`], which names the provider and the missing methods. The same applies to the streaming
/// methods. The compiler cannot find this out.
///
/// This trait is not object-safe. Use [`BoxedProvider`] to choose a provider at run time.
///
/// # Contract
///
/// - Do not retry. Report [`ProviderError::is_retryable`] correctly instead.
/// - Dropping a future or a stream cancels the request.
/// - End each stream with [`StreamEvent::ResponseComplete`](crate::StreamEvent::ResponseComplete) or an error. A stream
///   that ends without an error and without [`StreamEvent::MessageComplete`](crate::StreamEvent) is treated as broken.
///
/// # Example
///
/// ```
/// use neuron_model::*;
///
/// struct Echo;
///
/// impl Provider for Echo {
///     async fn complete_ref(&self, request: RequestRef<'_>) -> Result<CompletionResponse, ProviderError> {
///         let text = request.messages.last().map(Message::text).unwrap_or_default();
///         Ok(CompletionResponse {
///             id: "echo-1".into(),
///             model: "echo".into(),
///             message: Message::assistant(text),
///             usage: TokenUsage::default(),
///             stop_reason: StopReason::EndTurn,
///         })
///     }
///
///     async fn complete_stream_ref(&self, _request: RequestRef<'_>) -> Result<StreamHandle, ProviderError> {
///         Err(ProviderError::InvalidRequest("echo does not stream".into()))
///     }
/// }
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), ProviderError> {
/// let request = CompletionRequest { messages: vec![Message::user("hello")], ..Default::default() };
/// assert_eq!(Echo.complete(request).await?.message.text(), "hello");
/// # Ok(())
/// # }
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a model provider",
    note = "implement `Provider`, or pass a provider such as `Anthropic`; a `dyn` provider is `BoxedProvider`"
)]
pub trait Provider: WasmCompatSend + WasmCompatSync {
    /// Requests a complete response with an owned request. The default calls [`complete_ref`](Self::complete_ref).
    ///
    /// # Errors
    ///
    /// The errors of [`complete_ref`](Self::complete_ref).
    fn complete(
        &self,
        request: CompletionRequest,
    ) -> impl Future<Output = Result<CompletionResponse, ProviderError>> + WasmCompatSend {
        // A box, because the two defaults would otherwise contain each other's future.
        async move { boxed(self.complete_ref(request.view().lent_by(self))).await }
    }

    /// Requests a response as a stream of events with an owned request. The default calls
    /// [`complete_stream_ref`](Self::complete_stream_ref).
    ///
    /// # Errors
    ///
    /// The errors of [`complete_stream_ref`](Self::complete_stream_ref).
    fn complete_stream(
        &self,
        request: CompletionRequest,
    ) -> impl Future<Output = Result<StreamHandle, ProviderError>> + WasmCompatSend {
        async move { boxed(self.complete_stream_ref(request.view().lent_by(self))).await }
    }

    /// Requests a complete response with a borrowed request. The default copies the request and calls
    /// [`complete`](Self::complete).
    ///
    /// # Errors
    ///
    /// The [`ProviderError`] of the failed request.
    fn complete_ref(
        &self,
        request: RequestRef<'_>,
    ) -> impl Future<Output = Result<CompletionResponse, ProviderError>> + WasmCompatSend {
        async move {
            if request.is_lent_by(self) {
                return Err(missing::<Self>("complete_ref", "complete"));
            }
            self.complete(copied(request, self.info().name)).await
        }
    }

    /// Requests a response as a stream of events with a borrowed request. The default copies the request and calls
    /// [`complete_stream`](Self::complete_stream).
    ///
    /// # Errors
    ///
    /// The [`ProviderError`] of a request that fails before the first event. Later errors are sent as
    /// [`StreamEvent::Error`](crate::StreamEvent::Error).
    fn complete_stream_ref(
        &self,
        request: RequestRef<'_>,
    ) -> impl Future<Output = Result<StreamHandle, ProviderError>> + WasmCompatSend {
        async move {
            if request.is_lent_by(self) {
                return Err(missing::<Self>("complete_stream_ref", "complete_stream"));
            }
            self.complete_stream(copied(request, self.info().name)).await
        }
    }

    /// Requests a complete response with a borrowed request, as a boxed future. The default boxes the future of
    /// [`complete_ref`](Self::complete_ref).
    ///
    /// The agent loop and [`ProviderDyn`] call this method. Implement it in a library, and await its future in
    /// `complete_ref`. The code of a call is then compiled once, in the library. The code of an `async fn` is compiled
    /// again in each program that calls it. Do not await it in `complete_ref` without implementing it: the two would call
    /// each other without an end.
    ///
    /// # Errors
    ///
    /// The errors of [`complete_ref`](Self::complete_ref).
    fn complete_ref_boxed<'a>(
        &'a self,
        request: RequestRef<'a>,
    ) -> WasmBoxedFuture<'a, Result<CompletionResponse, ProviderError>> {
        Box::pin(self.complete_ref(request))
    }

    /// Requests a response as a stream of events with a borrowed request, as a boxed future. The default boxes the
    /// future of [`complete_stream_ref`](Self::complete_stream_ref). See
    /// [`complete_ref_boxed`](Self::complete_ref_boxed) for the reason to implement this method.
    ///
    /// # Errors
    ///
    /// The errors of [`complete_stream_ref`](Self::complete_stream_ref).
    fn complete_stream_ref_boxed<'a>(
        &'a self,
        request: RequestRef<'a>,
    ) -> WasmBoxedFuture<'a, Result<StreamHandle, ProviderError>> {
        Box::pin(self.complete_stream_ref(request))
    }

    /// Returns metadata of the provider, such as its name and its default model. The default is empty.
    fn info(&self) -> ProviderInfo<'_> {
        ProviderInfo::default()
    }
}

/// Number of messages from which [`copied`] logs a warning.
const LONG_CONVERSATION: usize = 100;

fn boxed<'a, T>(future: impl Future<Output = T> + WasmCompatSend + 'a) -> WasmBoxedFuture<'a, T> {
    Box::pin(future)
}

/// Returns the error of a provider that implements neither of two methods.
fn missing<P: ?Sized>(borrowing: &str, owning: &str) -> ProviderError {
    let provider = std::any::type_name::<P>();
    ProviderError::InvalidRequest(format!(
        "the provider `{provider}` has no `{borrowing}` and no `{owning}`: implement `Provider::{borrowing}`"
    ))
}

/// Copies a request for a provider that needs an owned request. For a long conversation, logs a warning once per
/// process.
fn copied(request: RequestRef<'_>, provider: &str) -> CompletionRequest {
    static WARNING: Once = Once::new();
    let messages = request.messages.len();
    if messages >= LONG_CONVERSATION {
        WARNING.call_once(|| {
            tracing::warn!(
                provider,
                messages,
                "a provider copies the whole conversation for each call of the model: implement \
                 `Provider::complete_ref` and `Provider::complete_stream_ref`, which borrow it"
            );
        });
    }
    request.to_request()
}

/// Metadata of a provider, for telemetry and for the agent loop.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ProviderInfo<'a> {
    /// Name of the provider in the OpenTelemetry conventions, for example `anthropic` or `openai`. Empty if unknown.
    pub name: &'a str,
    /// Model that is used if a request names no model. Empty if unknown.
    pub default_model: &'a str,
    /// Host name or IP address of the provider's server. Empty if unknown.
    pub server_address: &'a str,
    /// Port of the provider's server. `None` if unknown.
    pub server_port: Option<u16>,
    /// Support for [`ToolChoice::Specific`](crate::ToolChoice::Specific).
    pub forced_calls: ForcedCalls,
    /// The models among which the provider chooses itself for each call, as a router does. Empty if the model of the
    /// request, or else `default_model`, is called.
    ///
    /// `name` and `default_model` are those of the preferred model. A `Budget` in money reserves the
    /// highest price of these models, and counts the price of the model that answered.
    pub routes: &'a [RouteModel],
}

/// A model that a router can choose.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct RouteModel {
    /// Name of the provider, as in [`ProviderInfo::name`].
    pub provider: String,
    /// Name of the model.
    pub model: String,
}

impl RouteModel {
    /// Creates a value from the names of a provider and a model.
    pub fn new(provider: impl Into<String>, model: impl Into<String>) -> Self {
        Self { provider: provider.into(), model: model.into() }
    }
}

/// A provider's support for [`ToolChoice::Specific`](crate::ToolChoice::Specific).
///
/// For a provider without this support, the agent loop instructs the model in the prompt to call the tool.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum ForcedCalls {
    /// The provider supports [`ToolChoice::Specific`](crate::ToolChoice::Specific). This is the default.
    #[default]
    Accepted,
    /// The provider supports [`ToolChoice::Specific`](crate::ToolChoice::Specific) only while the model's reasoning is
    /// off.
    NotWhileThinking {
        /// Prefixes of the names of models whose reasoning is on by default.
        thinking_models: &'static [&'static str],
    },
    /// The provider does not support [`ToolChoice::Specific`](crate::ToolChoice::Specific).
    Refused,
}

impl<'a> ProviderInfo<'a> {
    /// Creates the metadata from the names of a provider and its default model.
    #[must_use]
    pub fn new(name: &'a str, default_model: &'a str) -> Self {
        Self { name, default_model, ..Self::default() }
    }

    /// Sets the host and port of the provider's server.
    #[must_use]
    pub fn at_server(self, server_address: &'a str, server_port: Option<u16>) -> Self {
        Self { server_address, server_port, ..self }
    }

    /// Returns `true` if this request may contain [`ToolChoice::Specific`](crate::ToolChoice::Specific). The result
    /// depends on the request's model and reasoning.
    #[must_use]
    pub fn can_force_call(&self, request: RequestRef<'_>) -> bool {
        use crate::ThinkingConfig::{Adaptive, Enabled};
        let model = request.model_or(self.default_model);
        match self.forced_calls {
            ForcedCalls::Accepted => true,
            ForcedCalls::NotWhileThinking { thinking_models } => {
                let thinks = thinking_models.iter().any(|beginning| model.starts_with(beginning));
                !thinks && !matches!(request.thinking, Some(Enabled { .. } | Adaptive))
            }
            ForcedCalls::Refused => false,
        }
    }

    /// Sets the support for [`ToolChoice::Specific`](crate::ToolChoice::Specific).
    #[must_use]
    pub fn with_forced_calls(self, forced_calls: ForcedCalls) -> Self {
        Self { forced_calls, ..self }
    }

    /// Sets the [models](Self::routes) among which the provider chooses itself.
    #[must_use]
    pub fn with_routes(self, routes: &'a [RouteModel]) -> Self {
        Self { routes, ..self }
    }
}

/// A boxed provider of any type, for a choice at run time.
///
/// Each call allocates a boxed future, and `complete` and `complete_stream` may allocate a second one in the provider.
/// Requests are not copied. Clones of the box share the provider.
///
/// # Example
///
/// ```
/// # use neuron_model::*;
/// # struct Echo;
/// # impl Provider for Echo {
/// #     async fn complete_ref(&self, _: RequestRef<'_>) -> Result<CompletionResponse, ProviderError> { Err(ProviderError::InvalidRequest("no".into())) }
/// #     async fn complete_stream_ref(&self, _: RequestRef<'_>) -> Result<StreamHandle, ProviderError> { Err(ProviderError::InvalidRequest("no".into())) }
/// # }
/// fn from_config(name: &str) -> Option<BoxedProvider> {
///     match name {
///         "echo" => Some(BoxedProvider::new(Echo)),
///         _ => None,
///     }
/// }
/// assert!(from_config("echo").is_some());
/// ```
#[derive(Clone)]
pub struct BoxedProvider(Arc<dyn ProviderDyn>);

impl BoxedProvider {
    /// Creates a box for a provider of any type.
    pub fn new(provider: impl Provider + 'static) -> Self {
        Self(Arc::new(provider))
    }
}

impl fmt::Debug for BoxedProvider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("BoxedProvider").field(&self.info()).finish()
    }
}

// Forward every method, because a default method would bypass an override of the inner type.
impl Provider for BoxedProvider {
    async fn complete(
        &self,
        request: CompletionRequest,
    ) -> Result<CompletionResponse, ProviderError> {
        self.0.complete_dyn(request).await
    }

    async fn complete_stream(
        &self,
        request: CompletionRequest,
    ) -> Result<StreamHandle, ProviderError> {
        self.0.complete_stream_dyn(request).await
    }

    async fn complete_ref(
        &self,
        request: RequestRef<'_>,
    ) -> Result<CompletionResponse, ProviderError> {
        self.0.complete_ref_dyn(request).await
    }

    async fn complete_stream_ref(
        &self,
        request: RequestRef<'_>,
    ) -> Result<StreamHandle, ProviderError> {
        self.0.complete_stream_ref_dyn(request).await
    }

    fn complete_ref_boxed<'a>(
        &'a self,
        request: RequestRef<'a>,
    ) -> WasmBoxedFuture<'a, Result<CompletionResponse, ProviderError>> {
        self.0.complete_ref_dyn(request)
    }

    fn complete_stream_ref_boxed<'a>(
        &'a self,
        request: RequestRef<'a>,
    ) -> WasmBoxedFuture<'a, Result<StreamHandle, ProviderError>> {
        self.0.complete_stream_ref_dyn(request)
    }

    fn info(&self) -> ProviderInfo<'_> {
        self.0.info_dyn()
    }
}

/// Object-safe form of [`Provider`], for a borrowed `&dyn ProviderDyn`. For an owned provider use [`BoxedProvider`].
///
/// Every [`Provider`] implements this trait. The methods have other names than in [`Provider`], so that calls are not
/// ambiguous when both traits are imported.
pub trait ProviderDyn: WasmCompatSend + WasmCompatSync {
    /// Calls [`Provider::complete`].
    fn complete_dyn(
        &self,
        request: CompletionRequest,
    ) -> WasmBoxedFuture<'_, Result<CompletionResponse, ProviderError>>;

    /// Calls [`Provider::complete_stream`].
    fn complete_stream_dyn(
        &self,
        request: CompletionRequest,
    ) -> WasmBoxedFuture<'_, Result<StreamHandle, ProviderError>>;

    /// Calls [`Provider::complete_ref_boxed`].
    fn complete_ref_dyn<'a>(
        &'a self,
        request: RequestRef<'a>,
    ) -> WasmBoxedFuture<'a, Result<CompletionResponse, ProviderError>>;

    /// Calls [`Provider::complete_stream_ref_boxed`].
    fn complete_stream_ref_dyn<'a>(
        &'a self,
        request: RequestRef<'a>,
    ) -> WasmBoxedFuture<'a, Result<StreamHandle, ProviderError>>;

    /// Calls [`Provider::info`].
    fn info_dyn(&self) -> ProviderInfo<'_>;
}

impl<P: Provider> ProviderDyn for P {
    fn complete_dyn(
        &self,
        request: CompletionRequest,
    ) -> WasmBoxedFuture<'_, Result<CompletionResponse, ProviderError>> {
        Box::pin(self.complete(request))
    }

    fn complete_stream_dyn(
        &self,
        request: CompletionRequest,
    ) -> WasmBoxedFuture<'_, Result<StreamHandle, ProviderError>> {
        Box::pin(self.complete_stream(request))
    }

    fn complete_ref_dyn<'a>(
        &'a self,
        request: RequestRef<'a>,
    ) -> WasmBoxedFuture<'a, Result<CompletionResponse, ProviderError>> {
        self.complete_ref_boxed(request)
    }

    fn complete_stream_ref_dyn<'a>(
        &'a self,
        request: RequestRef<'a>,
    ) -> WasmBoxedFuture<'a, Result<StreamHandle, ProviderError>> {
        self.complete_stream_ref_boxed(request)
    }

    fn info_dyn(&self) -> ProviderInfo<'_> {
        self.info()
    }
}

// Forward every method, because a default method would bypass an override of the inner type.
macro_rules! forward_through_pointer {
    ($($pointer:ty),*) => {$(
        impl<P: Provider + ?Sized> Provider for $pointer {
            fn complete(
                &self,
                request: CompletionRequest,
            ) -> impl Future<Output = Result<CompletionResponse, ProviderError>> + WasmCompatSend
            {
                (**self).complete(request)
            }

            fn complete_stream(
                &self,
                request: CompletionRequest,
            ) -> impl Future<Output = Result<StreamHandle, ProviderError>> + WasmCompatSend {
                (**self).complete_stream(request)
            }

            fn complete_ref(
                &self,
                request: RequestRef<'_>,
            ) -> impl Future<Output = Result<CompletionResponse, ProviderError>> + WasmCompatSend
            {
                (**self).complete_ref(request)
            }

            fn complete_stream_ref(
                &self,
                request: RequestRef<'_>,
            ) -> impl Future<Output = Result<StreamHandle, ProviderError>> + WasmCompatSend {
                (**self).complete_stream_ref(request)
            }

            fn complete_ref_boxed<'a>(
                &'a self,
                request: RequestRef<'a>,
            ) -> WasmBoxedFuture<'a, Result<CompletionResponse, ProviderError>> {
                (**self).complete_ref_boxed(request)
            }

            fn complete_stream_ref_boxed<'a>(
                &'a self,
                request: RequestRef<'a>,
            ) -> WasmBoxedFuture<'a, Result<StreamHandle, ProviderError>> {
                (**self).complete_stream_ref_boxed(request)
            }

            fn info(&self) -> ProviderInfo<'_> {
                (**self).info()
            }
        }
    )*};
}

forward_through_pointer!(&P, Arc<P>, Box<P>);
