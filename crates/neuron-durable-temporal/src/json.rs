//! A value in a payload of Temporal ([`Json`]).

use std::fmt;
use std::marker::PhantomData;

use neuron_types::{BoxError, DurableError, stored_json};
use serde::Serialize;
use serde::de::DeserializeOwned;
use temporalio_common::data_converters::{
    PayloadConversionError, SerializationContext, TemporalDeserializable, TemporalSerializable,
};
use temporalio_common::protos::temporal::api::common::v1::Payload;

/// The metadata key and value for the encoding of a payload.
const ENCODING: &str = "encoding";
const JSON: &[u8] = b"json/plain";

/// A value in its JSON form, as the payloads of Temporal carry it.
///
/// The SDK's own conversion refuses what is nested more than 128 deep, which arguments of a tool may be;
/// this one takes the depth that every storage of neuron takes. `Debug` shows no contents.
pub struct Json<T> {
    bytes: Vec<u8>,
    of: PhantomData<fn() -> T>,
}

impl<T> Json<T> {
    /// Takes JSON that was written already.
    pub(crate) fn from_bytes(bytes: Vec<u8>) -> Self {
        Self { bytes, of: PhantomData }
    }

    /// The bytes that it takes.
    pub(crate) fn len(&self) -> usize {
        self.bytes.len()
    }
}

impl<T: Serialize> Json<T> {
    /// Writes a value.
    ///
    /// # Errors
    ///
    /// [`DurableError::Other`] when it cannot be JSON, or is nested too deep.
    pub fn new(value: &T) -> Result<Self, DurableError> {
        let mut bytes = Vec::new();
        stored_json::write(&mut bytes, value).map_err(|error| DurableError::Other(error.into()))?;
        Ok(Self::from_bytes(bytes))
    }
}

impl<T: DeserializeOwned> Json<T> {
    /// Reads the value.
    ///
    /// # Errors
    ///
    /// [`DurableError::Other`] when it is none of this type.
    pub fn read(&self) -> Result<T, DurableError> {
        self.read_as()
    }
}

impl<T> Json<T> {
    /// The same bytes for another type that reads them.
    pub(crate) fn cast<U>(self) -> Json<U> {
        Json::from_bytes(self.bytes)
    }

    /// Reads a part of the value, as another type.
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
            // Not `WrongEncoding`, after which the SDK looks for another converter.
            _ => Err(PayloadConversionError::EncodingError(BoxError::from(
                "a payload is not JSON: does the client encode what the worker decodes?",
            ))),
        }
    }
}
