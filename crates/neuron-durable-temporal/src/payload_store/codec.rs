//! The payload codec that moves long payloads to a store and replaces them by their keys.

use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use neuron_types::BoxError;
use sha2::{Digest, Sha256};
use temporalio_client::Client;
use temporalio_common::data_converters::{
    DataConverter, FailureConverter, PayloadCodec, PayloadConversionError, PayloadConverter,
    SerializationContextData,
};
use temporalio_common::error::{IncomingError, OutgoingError};
use temporalio_common::protos::temporal::api::common::v1::Payload;
use temporalio_common::protos::temporal::api::failure::v1::Failure;

use super::PayloadStore;

/// Maximum size in bytes of a payload that stays in the history (128 KiB). Longer payloads are moved to the store.
const LONG: usize = 128 * 1024;

/// Time for which a worker retries a failing store. After this time, the worker discards the result that it could not
/// store. A model call is then made again, and so is a tool call that may run twice. The outcome of any other tool call
/// is unknown.
pub(crate) const PATIENCE: Duration = Duration::from_secs(5 * 60);

/// Pause before the first retry. Each further pause is twice as long.
const SHORTEST_WAIT: Duration = Duration::from_millis(100);
/// Longest pause between two attempts.
const LONGEST_WAIT: Duration = Duration::from_secs(5);

/// Metadata key of a payload's encoding.
const ENCODING: &str = "encoding";
/// Encoding of a payload whose data is the key of a stored payload.
const STORED: &[u8] = b"neuron/stored";

/// Adds the store to a client, around the client's own data converter. Failed operations of the store are retried for
/// `patience`.
pub(crate) fn with_store(
    mut client: Client,
    store: Arc<dyn PayloadStore>,
    patience: Duration,
) -> Client {
    let inner = client.options().data_converter.clone();
    client.options_mut().data_converter = converter(inner, store, patience);
    client
}

/// Returns a data converter that uses the store around the converter `inner`. Failed operations of the store are
/// retried for `patience`.
pub(crate) fn converter(
    inner: DataConverter,
    store: Arc<dyn PayloadStore>,
    patience: Duration,
) -> DataConverter {
    let store = RetryingStore { store, patience };
    let payload_converter = inner.payload_converter().clone();
    DataConverter::new(payload_converter, Failures(inner.clone()), Stored { inner, store })
}

/// Converts failures with the failure converter of the inner data converter.
struct Failures(DataConverter);

impl FailureConverter for Failures {
    fn to_failure(
        &self,
        error: OutgoingError,
        payload_converter: &PayloadConverter,
        context: &SerializationContextData,
    ) -> Failure {
        self.0.failure_converter().to_failure(error, payload_converter, context)
    }

    fn to_error(
        &self,
        failure: Failure,
        payload_converter: &PayloadConverter,
        context: &SerializationContextData,
    ) -> Result<IncomingError, PayloadConversionError> {
        self.0.failure_converter().to_error(failure, payload_converter, context)
    }
}

/// The codec that moves long payloads to the store, around the codec of the inner data converter.
struct Stored {
    inner: DataConverter,
    store: RetryingStore,
}

/// A store whose failed operations are retried.
#[derive(Clone)]
struct RetryingStore {
    store: Arc<dyn PayloadStore>,
    /// Total time of the pauses between the attempts of one operation.
    patience: Duration,
}

impl RetryingStore {
    async fn put(&self, key: &str, bytes: &[u8]) -> Result<(), BoxError> {
        self.tries(|| self.store.put(key, bytes)).await
    }

    async fn get(&self, key: &str) -> Result<Option<Vec<u8>>, BoxError> {
        self.tries(|| self.store.get(key)).await
    }

    /// Repeats an operation until it succeeds. Returns the last error if the pauses between the attempts already add up
    /// to `self.patience`.
    async fn tries<T, F>(&self, attempt: impl Fn() -> F) -> Result<T, BoxError>
    where
        F: Future<Output = Result<T, BoxError>>,
    {
        let (mut waited, mut wait) = (Duration::ZERO, SHORTEST_WAIT);
        loop {
            let error = match attempt().await {
                Ok(done) => return Ok(done),
                Err(error) if waited >= self.patience => return Err(error),
                Err(error) => error,
            };
            tracing::warn!(%error, ?wait, "the payload store failed; it is tried again");
            tokio::time::sleep(wait).await;
            waited += wait;
            wait = (wait * 2).min(LONGEST_WAIT);
        }
    }
}

impl PayloadCodec for Stored {
    fn encode(
        &self,
        context: &SerializationContextData,
        payloads: Vec<Payload>,
    ) -> BoxFuture<'static, Result<Vec<Payload>, PayloadConversionError>> {
        let encoded = self.inner.codec().encode(context, payloads);
        let store = self.store.clone();
        Box::pin(async move {
            let mut payloads = encoded.await?;
            for payload in payloads.iter_mut().filter(|payload| payload.data.len() > LONG) {
                *payload =
                    put(&store, payload).await.map_err(PayloadConversionError::EncodingError)?;
            }
            Ok(payloads)
        })
    }

    fn decode(
        &self,
        context: &SerializationContextData,
        payloads: Vec<Payload>,
    ) -> BoxFuture<'static, Result<Vec<Payload>, PayloadConversionError>> {
        let (inner, store, context) = (self.inner.clone(), self.store.clone(), context.clone());
        Box::pin(async move {
            let mut payloads = payloads;
            for payload in payloads.iter_mut().filter(|payload| is_stored(payload)) {
                *payload =
                    get(&store, payload).await.map_err(PayloadConversionError::EncodingError)?;
            }
            inner.codec().decode(&context, payloads).await
        })
    }
}

/// Returns `true` if the data of a payload is the key of a stored payload.
fn is_stored(payload: &Payload) -> bool {
    payload.metadata.get(ENCODING).is_some_and(|encoding| encoding == STORED)
}

/// Stores a payload, and returns the payload with the key that replaces it.
async fn put(store: &RetryingStore, payload: &Payload) -> Result<Payload, BoxError> {
    let key = key(&payload.data);
    store.put(&key, &payload.data).await?;
    // The original metadata is kept under other names, so `get` can restore it.
    let mut metadata: std::collections::HashMap<_, _> = payload
        .metadata
        .iter()
        .map(|(name, value)| (format!("stored-{name}"), value.clone()))
        .collect();
    metadata.insert(ENCODING.to_owned(), STORED.to_vec());
    Ok(Payload { metadata, data: key.into_bytes(), ..Payload::default() })
}

/// Replaces a payload that contains a store key by the original payload from the store. Returns an error if the digest
/// of the original is wrong.
async fn get(store: &RetryingStore, payload: &Payload) -> Result<Payload, BoxError> {
    let key = std::str::from_utf8(&payload.data)?;
    // The key may become a file name, so a key that is not a hexadecimal digest is rejected.
    if key.is_empty() || !key.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return Err("the key of a stored payload is not a hexadecimal number".into());
    }
    let data = store.get(key).await?;
    let data = data.ok_or_else(|| format!("the payload store has nothing under {key}"))?;
    if self::key(&data) != key {
        return Err(format!("the payload under {key} in the payload store was changed").into());
    }
    let was = |(name, value): (&String, &Vec<u8>)| {
        Some((name.strip_prefix("stored-")?.to_owned(), value.clone()))
    };
    Ok(Payload {
        metadata: payload.metadata.iter().filter_map(was).collect(),
        data,
        ..Payload::default()
    })
}

/// Returns the key of a payload, the SHA-256 digest of its data in hexadecimal.
fn key(data: &[u8]) -> String {
    Sha256::digest(data).iter().map(|byte| format!("{byte:02x}")).collect()
}
