//! The trait that every model provider implements, and its erased form.

use std::fmt;
use std::future::Future;
use std::sync::{Arc, Once};

use crate::{
    CompletionRequest, CompletionResponse, ProviderError, RequestRef, StreamHandle,
    WasmBoxedFuture, WasmCompatSend, WasmCompatSync,
};

/// A source of completions: a vendor's API, a local server, a script in a test.
///
/// Implement [`complete_ref`](Self::complete_ref) and [`complete_stream_ref`](Self::complete_stream_ref), which borrow the
/// request. The agent loop calls only those, with the whole conversation in the request. A provider that needs a request
/// of its own implements [`complete`](Self::complete) and [`complete_stream`](Self::complete_stream) instead, at the cost
/// of a copy of the conversation for each call of the model. Of each pair, the method that is not implemented calls the
/// other one. If both are missing, the compiler reports a recursion that "requires boxing" (E0733) where the provider is
/// used.
///
/// Not object-safe; use [`BoxedProvider`] where the provider is chosen at run time.
///
/// # Contract
///
/// - Retry nothing: report [`ProviderError::is_retryable`] truthfully instead.
/// - Dropping a future or a stream cancels the request.
/// - A stream that ends without [`StreamEvent::MessageComplete`](crate::StreamEvent) or an error
///   counts as broken.
///
/// # Example
///
/// ```
/// use neuron_types::*;
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
    /// [`complete_ref`](Self::complete_ref) with an owned request. Provided: lends it.
    ///
    /// # Errors
    ///
    /// As [`complete_ref`](Self::complete_ref).
    fn complete(
        &self,
        request: CompletionRequest,
    ) -> impl Future<Output = Result<CompletionResponse, ProviderError>> + WasmCompatSend {
        async move { self.complete_ref(request.view()).await }
    }

    /// [`complete_stream_ref`](Self::complete_stream_ref) with an owned request. Provided: lends it.
    ///
    /// # Errors
    ///
    /// As [`complete_stream_ref`](Self::complete_stream_ref).
    fn complete_stream(
        &self,
        request: CompletionRequest,
    ) -> impl Future<Output = Result<StreamHandle, ProviderError>> + WasmCompatSend {
        async move { self.complete_stream_ref(request.view()).await }
    }

    /// Asks for a whole answer. Provided: copies the request for [`complete`](Self::complete).
    ///
    /// # Errors
    ///
    /// Whatever keeps the provider from answering, classified by [`ProviderError`].
    fn complete_ref(
        &self,
        request: RequestRef<'_>,
    ) -> impl Future<Output = Result<CompletionResponse, ProviderError>> + WasmCompatSend {
        self.complete(copied(request, self.info().name))
    }

    /// Asks for an answer as a stream of events. Provided: copies the request for
    /// [`complete_stream`](Self::complete_stream).
    ///
    /// # Errors
    ///
    /// What is known before the first event; later errors arrive as
    /// [`StreamEvent::Error`](crate::StreamEvent::Error).
    fn complete_stream_ref(
        &self,
        request: RequestRef<'_>,
    ) -> impl Future<Output = Result<StreamHandle, ProviderError>> + WasmCompatSend {
        self.complete_stream(copied(request, self.info().name))
    }

    /// Names the provider and its default model, for telemetry.
    fn info(&self) -> ProviderInfo<'_> {
        ProviderInfo::default()
    }
}

/// The number of messages from which on a copy of them is worth a warning.
const LONG_CONVERSATION: usize = 100;

/// Copies a request for a provider that needs one of its own. Warns once in a process if the conversation is long.
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

/// What a provider says of itself.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ProviderInfo<'a> {
    /// The provider's name in telemetry's terms, `anthropic` or `openai` for instance; empty when
    /// the provider says nothing.
    pub name: &'a str,
    /// The model for requests that name none; empty when unknown.
    pub default_model: &'a str,
    /// The host that is asked, a name or an address; empty when unknown.
    pub server_address: &'a str,
    /// Its port, where `server_address` is known.
    pub server_port: Option<u16>,
    /// Whether a model can be forced to call a certain tool.
    pub forced_calls: ForcedCalls,
}

/// Whether a provider accepts [`ToolChoice::Specific`](crate::ToolChoice::Specific). Where it does not, the agent loop asks
/// for the call in words.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum ForcedCalls {
    /// It does. The default.
    #[default]
    Accepted,
    /// It does unless the model thinks.
    NotWhileThinking {
        /// Beginnings of the names of models that think unless they are told not to.
        thinking_models: &'static [&'static str],
    },
    /// It does not.
    Refused,
}

impl<'a> ProviderInfo<'a> {
    /// Names a provider and its default model.
    #[must_use]
    pub fn new(name: &'a str, default_model: &'a str) -> Self {
        Self { name, default_model, ..Self::default() }
    }

    /// Says which server is asked.
    #[must_use]
    pub fn at_server(self, server_address: &'a str, server_port: Option<u16>) -> Self {
        Self { server_address, server_port, ..self }
    }

    /// Whether the model of a request can be forced to call a certain tool.
    #[must_use]
    pub fn can_force_call(&self, request: RequestRef<'_>) -> bool {
        use crate::ThinkingConfig::{Adaptive, Enabled};
        let model = if request.model.is_empty() { self.default_model } else { request.model };
        match self.forced_calls {
            ForcedCalls::Accepted => true,
            ForcedCalls::NotWhileThinking { thinking_models } => {
                let thinks = thinking_models.iter().any(|beginning| model.starts_with(beginning));
                !thinks && !matches!(request.thinking, Some(Enabled { .. } | Adaptive))
            }
            ForcedCalls::Refused => false,
        }
    }

    /// Says whether a model can be forced to call a certain tool.
    #[must_use]
    pub fn with_forced_calls(self, forced_calls: ForcedCalls) -> Self {
        Self { forced_calls, ..self }
    }
}

/// A provider behind a pointer, for choosing one at run time.
///
/// It boxes one future a call and clones no request. Clones share the provider.
///
/// # Example
///
/// ```
/// # use neuron_types::*;
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
    /// Puts a provider behind a pointer.
    pub fn new(provider: impl Provider + 'static) -> Self {
        Self(Arc::new(provider))
    }
}

impl fmt::Debug for BoxedProvider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("BoxedProvider").field(&self.info()).finish()
    }
}

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

    fn info(&self) -> ProviderInfo<'_> {
        self.0.info_dyn()
    }
}

/// The object-safe twin of [`Provider`], for a pointer with a lifetime of its own; else see [`BoxedProvider`]. Its methods
/// have names of their own, so that a glob import makes no call ambiguous.
pub trait ProviderDyn: WasmCompatSend + WasmCompatSync {
    /// [`Provider::complete`].
    fn complete_dyn(
        &self,
        request: CompletionRequest,
    ) -> WasmBoxedFuture<'_, Result<CompletionResponse, ProviderError>>;

    /// [`Provider::complete_stream`].
    fn complete_stream_dyn(
        &self,
        request: CompletionRequest,
    ) -> WasmBoxedFuture<'_, Result<StreamHandle, ProviderError>>;

    /// [`Provider::complete_ref`].
    fn complete_ref_dyn<'a>(
        &'a self,
        request: RequestRef<'a>,
    ) -> WasmBoxedFuture<'a, Result<CompletionResponse, ProviderError>>;

    /// [`Provider::complete_stream_ref`].
    fn complete_stream_ref_dyn<'a>(
        &'a self,
        request: RequestRef<'a>,
    ) -> WasmBoxedFuture<'a, Result<StreamHandle, ProviderError>>;

    /// [`Provider::info`].
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
        Box::pin(self.complete_ref(request))
    }

    fn complete_stream_ref_dyn<'a>(
        &'a self,
        request: RequestRef<'a>,
    ) -> WasmBoxedFuture<'a, Result<StreamHandle, ProviderError>> {
        Box::pin(self.complete_stream_ref(request))
    }

    fn info_dyn(&self) -> ProviderInfo<'_> {
        self.info()
    }
}

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

            fn info(&self) -> ProviderInfo<'_> {
                (**self).info()
            }
        }
    )*};
}

forward_through_pointer!(&P, Arc<P>, Box<P>);
