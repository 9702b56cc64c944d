//! A value as JSON in a Temporal payload ([`Json`]).

use std::fmt;
use std::marker::PhantomData;

use neuron_types::{BoxError, DurableError, stored_json};
use serde::Serialize;
use serde::de::DeserializeOwned;
use temporalio_common::data_converters::{
    PayloadConversionError, SerializationContext, TemporalDeserializable, TemporalSerializable,
};
use temporalio_common::protos::temporal::api::common::v1::Payload;

/// Metadata key of a payload's encoding.
const ENCODING: &str = "encoding";
/// Metadata value of JSON payloads.
const JSON: &[u8] = b"json/plain";

/// A value in its JSON form, for Temporal payloads.
///
/// The SDK's own conversion rejects values with more than 128 nested levels. This type accepts the same depth as the
/// other storage of neuron. `Debug` does not show the contents.
pub struct Json<T> {
    bytes: Vec<u8>,
    of: PhantomData<fn() -> T>,
}

impl<T> Json<T> {
    /// Creates a payload from bytes that are already JSON.
    pub(crate) fn from_bytes(bytes: Vec<u8>) -> Self {
        Self { bytes, of: PhantomData }
    }

    /// Returns the length of the JSON in bytes.
    pub(crate) fn len(&self) -> usize {
        self.bytes.len()
    }
}

impl<T: Serialize> Json<T> {
    /// Serialises a value.
    ///
    /// # Errors
    ///
    /// [`DurableError::Other`] if the value cannot be serialised as JSON, or is nested too deeply.
    pub fn new(value: &T) -> Result<Self, DurableError> {
        let mut bytes = Vec::new();
        stored_json::write(&mut bytes, value).map_err(|error| DurableError::Other(error.into()))?;
        Ok(Self::from_bytes(bytes))
    }
}

impl<T: DeserializeOwned> Json<T> {
    /// Parses the value.
    ///
    /// # Errors
    ///
    /// [`DurableError::Other`] if the JSON is not a `T`.
    pub fn read(&self) -> Result<T, DurableError> {
        self.read_as()
    }
}

impl<T> Json<T> {
    /// Changes the type that [`read`](Self::read) parses. The JSON stays the same.
    pub(crate) fn cast<U>(self) -> Json<U> {
        Json::from_bytes(self.bytes)
    }

    /// Parses the JSON as another type, for example one with only some of the fields.
    pub(crate) fn read_as<U: DeserializeOwned>(&self) -> Result<U, DurableError> {
        stored_json::read(&self.bytes).map_err(|error| DurableError::Other(error.into()))
    }
}

impl<T> Clone for Json<T> {
    fn clone(&self) -> Self {
        Self::from_bytes(self.bytes.clone())
    }
}

impl<T> fmt::Debug for Json<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Json").field("bytes", &self.bytes.len()).finish_non_exhaustive()
    }
}

impl<T> TemporalSerializable for Json<T> {
    fn to_payload(&self, _: &SerializationContext<'_>) -> Result<Payload, PayloadConversionError> {
        Ok(Payload {
            metadata: [(ENCODING.to_owned(), JSON.to_vec())].into(),
            data: self.bytes.clone(),
            ..Payload::default()
        })
    }
}

impl<T> TemporalDeserializable for Json<T> {
    fn from_payload(
        _: &SerializationContext<'_>,
        payload: Payload,
    ) -> Result<Self, PayloadConversionError> {
        match payload.metadata.get(ENCODING).map(Vec::as_slice) {
            Some(JSON) => Ok(Self::from_bytes(payload.data)),
            // After `WrongEncoding` the SDK would try another converter.
            _ => Err(PayloadConversionError::EncodingError(BoxError::from(
                "a payload is not JSON: does the client encode what the worker decodes?",
            ))),
        }
    }
}
