//! Tests of layers around embedding providers, with a paused clock.

use std::collections::VecDeque;
use std::future::pending;
use std::sync::{Arc, Mutex};

use neuron_model::{
    BoxedEmbeddingProvider, EmbeddingError, EmbeddingProvider, EmbeddingRequest, EmbeddingResponse,
    ProviderInfo,
};
use neuron_tower::{EmbeddingService, RetryTransient, ServiceProvider, SharedServiceLayer};
use tokio::time::Instant;
use tower::{BoxError, ServiceBuilder};

use crate::support::{in_time, millis, poll_once, seconds};

/// An embedding provider with a list of scripted results, one per call. For `None`, the call returns the length of each
/// text as its vector. Calls after the end of the list hang.
#[derive(Clone, Default)]
struct Lengths {
    errors: Arc<Mutex<VecDeque<Option<EmbeddingError>>>>,
    requests: Arc<Mutex<Vec<EmbeddingRequest>>>,
}

impl Lengths {
    fn new(answers: impl IntoIterator<Item = Option<EmbeddingError>>) -> Self {
        let errors = Arc::new(Mutex::new(answers.into_iter().collect()));
        Self { errors, ..Self::default() }
    }

    fn calls(&self) -> usize {
        self.requests.lock().unwrap().len()
    }
}

impl EmbeddingProvider for Lengths {
    async fn embed(&self, request: EmbeddingRequest) -> Result<EmbeddingResponse, EmbeddingError> {
        self.requests.lock().unwrap().push(request.clone());
        let answer = self.errors.lock().unwrap().pop_front();
        match answer {
            Some(Some(error)) => Err(error),
            Some(None) => {
                let embeddings = request.input.iter().map(|text| vec![text.len() as f32]).collect();
                Ok(EmbeddingResponse { embeddings, ..Default::default() })
            }
            None => pending().await,
        }
    }

    fn embedding_info(&self) -> ProviderInfo<'_> {
        ProviderInfo::new("lengths", "length-1").at_server("lengths.example", Some(8443))
    }
}

#[test]
fn info_of_provider_is_kept_behind_layers() {
    let layers = ServiceBuilder::new().retry(RetryTransient::new());
    let provider = ServiceProvider::layered_embeddings(layers, Lengths::default());
    let expected =
        ProviderInfo::new("lengths", "length-1").at_server("lengths.example", Some(8443));
    assert_eq!(provider.embedding_info(), expected);
    assert_eq!(provider.clone().embedding_info(), expected);
    assert_eq!(BoxedEmbeddingProvider::new(provider.clone()).embedding_info(), expected);
    let unknown = ServiceProvider::new(provider.service().clone());
    assert_eq!(unknown.embedding_info(), ProviderInfo::default());
}

fn request() -> EmbeddingRequest {
    EmbeddingRequest { input: vec!["four".into(), "a".into()], ..Default::default() }
}

fn limited() -> EmbeddingError {
    EmbeddingError::RateLimit { retry_after: Some(seconds(7)) }
}

#[tokio::test(start_paused = true)]
async fn embeddings_are_retried_after_requested_delay() {
    let inner =
        Lengths::new([Some(limited()), Some(EmbeddingError::Network("reset".into())), None]);
    let service = ServiceBuilder::new()
        .concurrency_limit(2)
        .retry(RetryTransient::new().without_jitter())
        .layer(SharedServiceLayer)
        .rate_limit(10, seconds(60))
        .timeout(seconds(60))
        .service(EmbeddingService::new(inner.clone()));
    let provider = BoxedEmbeddingProvider::new(ServiceProvider::new(service));
    let start = Instant::now();
    let response = in_time(provider.embed(request())).await.unwrap();
    assert_eq!(response.embeddings, [[4.0], [1.0]]);
    assert_eq!(start.elapsed(), millis(7_000 + 1_000));
    assert_eq!(*inner.requests.lock().unwrap(), [request(), request(), request()]);
}

#[tokio::test(start_paused = true)]
async fn embedding_errors_keep_class_and_only_temporary_ones_are_retried() {
    use EmbeddingError as E;
    type Make = fn() -> E;
    let cases: [(Make, usize); 5] = [
        (limited, 3),
        (|| E::Network("reset".into()), 3),
        (|| E::Authentication("no".into()), 1),
        (|| E::InvalidRequest("no".into()), 1),
        (|| E::Other("odd".into()), 1),
    ];
    for (make, calls) in cases {
        let inner = Lengths::new((0..3).map(|_| Some(make())));
        let service = ServiceBuilder::new()
            .retry(RetryTransient::new())
            .timeout(seconds(60))
            .service(EmbeddingService::new(inner.clone()));
        let error = in_time(ServiceProvider::new(service).embed(request())).await.unwrap_err();
        assert_eq!((error.kind(), error.to_string()), (make().kind(), make().to_string()));
        assert_eq!(inner.calls(), calls, "{error}");
    }
}

#[tokio::test(start_paused = true)]
async fn errors_of_layers_become_embedding_errors() {
    let service = ServiceBuilder::new()
        .timeout(seconds(2))
        .service(EmbeddingService::new(Lengths::default()));
    let error = in_time(ServiceProvider::new(service).embed(request())).await.unwrap_err();
    assert_eq!(error.to_string(), "timeout after 2s");
    assert!(error.is_retryable());

    let service = ServiceBuilder::new()
        .load_shed()
        .concurrency_limit(1)
        .service(EmbeddingService::new(Lengths::default()));
    let provider = ServiceProvider::new(service);
    let mut hanging = Box::pin(provider.embed(request()));
    assert!(poll_once(&mut hanging).await.is_pending());
    let error = in_time(provider.embed(request())).await.unwrap_err();
    assert!(matches!(error, EmbeddingError::ServiceUnavailable(_)), "{error}");

    let service = ServiceBuilder::new()
        .map_err(|_: EmbeddingError| BoxError::from("a layer's own"))
        .service(EmbeddingService::new(Lengths::new([Some(limited())])));
    let error = in_time(ServiceProvider::new(service).embed(request())).await.unwrap_err();
    assert!(matches!(error, EmbeddingError::Other(_)) && !error.is_retryable());
    assert_eq!(error.to_string(), "a layer's own");
}
