//! The input of the workflow's signal, which may be invalid ([`SignalInput`]).

use neuron_types::DurableError;
use temporalio_common::data_converters::{
    PayloadConversionError, SerializationContext, TemporalDeserializable, TemporalSerializable,
};
use temporalio_common::protos::temporal::api::common::v1::Payload;

use crate::Signal;
use crate::json::Json;

/// The payload of the signal `neuron_signal`, or the text of the error if the payload is invalid.
///
/// The error is a value, because any client can send an invalid signal. If the conversion failed instead, the SDK would
/// fail the workflow task forever.
pub(crate) struct SignalInput(Result<Json<Signal>, String>);

impl SignalInput {
    pub(crate) fn new(signal: &Signal) -> Result<Self, DurableError> {
        Ok(Self(Ok(Json::new(signal)?)))
    }

    /// Parses the signal. Returns an error if the payload is invalid.
    pub(crate) fn read(&self) -> Result<Signal, DurableError> {
        match &self.0 {
            Ok(json) => json.read(),
            Err(text) => Err(DurableError::Other(text.clone().into())),
        }
    }
}

impl TemporalSerializable for SignalInput {
    fn to_payload(
        &self,
        ctx: &SerializationContext<'_>,
    ) -> Result<Payload, PayloadConversionError> {
        match &self.0 {
            Ok(json) => json.to_payload(ctx),
            Err(text) => Err(PayloadConversionError::EncodingError(text.clone().into())),
        }
    }
}

/// Never fails. An invalid payload becomes a value with an error.
impl TemporalDeserializable for SignalInput {
    fn from_payload(
        ctx: &SerializationContext<'_>,
        payload: Payload,
    ) -> Result<Self, PayloadConversionError> {
        Ok(Self(Json::from_payload(ctx, payload).map_err(|error| error.to_string())))
    }

    fn from_payloads(
        ctx: &SerializationContext<'_>,
        payloads: Vec<Payload>,
    ) -> Result<Self, PayloadConversionError> {
        match <[Payload; 1]>::try_from(payloads) {
            Ok([payload]) => Self::from_payload(ctx, payload),
            Err(payloads) => {
                Ok(Self(Err(format!("it has {} payloads, and one is read", payloads.len()))))
            }
        }
    }
}
