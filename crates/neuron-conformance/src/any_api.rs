//! A vendor that accepts every request, for tests of a provider with raw replies.

use neuron_testing::RecordedRequest;
use neuron_testing::vendor::{Answer, Call, ErrorReply, Rules, Vendor, VendorServer};
use neuron_types::ProviderError;
use serde_json::{Value, json};

/// A server that accepts every request, and sends only [raw replies](neuron_testing::ServerReply::raw).
pub type AnyServer = VendorServer<AnyApi>;

/// The vendor of an [`AnyServer`].
#[derive(Debug, Default)]
pub struct AnyApi;

impl Vendor for AnyApi {
    type Detail = ();
    type Error = String;

    fn check(&self, _request: &RecordedRequest, _rules: &Rules) -> Result<Call<()>, String> {
        Ok(Call::new("m", false, ()))
    }

    fn error(&self, error: &ProviderError) -> String {
        error.to_string()
    }

    fn body(&self, _answer: &Answer<'_, ()>) -> Result<Value, String> {
        Err("use ServerReply::raw".into())
    }

    fn frames(&self, _answer: &Answer<'_, ()>) -> Vec<Vec<u8>> {
        Vec::new()
    }

    fn error_reply(&self, error: &String, _request_id: &str) -> ErrorReply {
        ErrorReply::new(500, json!({ "error": error }))
    }

    fn error_frames(
        &self,
        _answer: &Answer<'_, ()>,
        _sent: usize,
        _error: &String,
    ) -> Vec<Vec<u8>> {
        Vec::new()
    }
}
