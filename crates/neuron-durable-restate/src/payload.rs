//! Payloads of Restate as JSON, with the limits of all stored JSON ([`Stored`] and [`Written`]).

use std::convert::Infallible;

use bytes::Bytes;
use neuron_types::stored_json;
use restate_sdk::serde::{Deserialize, PayloadMetadata, Serialize};
use serde::de::DeserializeOwned;

/// A value that is serialised with [`stored_json`]. Numbers are exact, and values may be nested as deep as
/// [`stored_json::DEEPEST`].
#[derive(Debug)]
pub(crate) struct Stored<T>(pub(crate) T);

impl<T: serde::Serialize> Serialize for Stored<T> {
    type Error = serde_json::Error;

    fn serialize(&self) -> Result<Bytes, Self::Error> {
        let mut json = Vec::new();
        stored_json::write(&mut json, &self.0)?;
        Ok(json.into())
    }
}

impl<T: DeserializeOwned> Deserialize for Stored<T> {
    type Error = serde_json::Error;

    fn deserialize(bytes: &mut Bytes) -> Result<Self, Self::Error> {
        stored_json::read(bytes).map(Self)
    }
}

impl<T> PayloadMetadata for Stored<T> {}

/// JSON that is already serialised.
#[derive(Debug)]
pub(crate) struct Written(pub(crate) Bytes);

impl Serialize for Written {
    type Error = Infallible;

    fn serialize(&self) -> Result<Bytes, Self::Error> {
        Ok(self.0.clone())
    }
}

impl Deserialize for Written {
    type Error = Infallible;

    fn deserialize(bytes: &mut Bytes) -> Result<Self, Self::Error> {
        Ok(Self(bytes.clone()))
    }
}

impl PayloadMetadata for Written {}
