//! A vendor whose wire format is lines of neuron's own JSON, and a provider for this vendor. A broken variant of the
//! provider decodes each chunk of a body separately.

use futures_util::stream;
use neuron_conformance::provider::{Capabilities, ProviderHarness};
use neuron_testing::RecordedRequest;
use neuron_testing::vendor::{Answer, Call, ErrorReply, Rules, Vendor};
use neuron_types::{
    CompletionRequest, CompletionResponse, Provider, ProviderError, StreamEvent, StreamHandle,
    StreamReceiver,
};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;

use crate::provider::mutant::stream_of;

#[derive(Debug)]
pub(crate) struct PlainApi;

impl Vendor for PlainApi {
    type Detail = ();
    type Error = String;

    fn check(&self, request: &RecordedRequest, _rules: &Rules) -> Result<Call<()>, String> {
        let body = request.json.as_ref().ok_or("no JSON")?;
        Ok(Call::new("m", body["stream"] == true, ()))
    }

    fn error(&self, error: &ProviderError) -> String {
        error.to_string()
    }

    fn body(&self, answer: &Answer<'_, ()>) -> Result<Value, String> {
        Ok(json!(answer.response))
    }

    fn frames(&self, answer: &Answer<'_, ()>) -> Vec<Vec<u8>> {
        let lines = [json!({"begins": true}), json!({"done": answer.response}), json!("bye")];
        lines.map(|line| format!("{line}\n").into_bytes()).into()
    }

    fn error_reply(&self, error: &String, _request_id: &str) -> ErrorReply {
        ErrorReply::new(400, json!({"error": error}))
    }

    fn error_frames(&self, _: &Answer<'_, ()>, _sent: usize, error: &String) -> Vec<Vec<u8>> {
        vec![json!({"error": error}).to_string().into_bytes()]
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Decoding {
    Whole,
    ByPiece,
}

pub(crate) struct Plain(pub(crate) Decoding);

impl ProviderHarness for Plain {
    type Provider = PlainProvider;
    type Vendor = PlainApi;

    fn vendor(&self) -> PlainApi {
        PlainApi
    }

    fn provider(&self, url: &str, _api_key: &str) -> PlainProvider {
        let address = url.strip_prefix("http://").unwrap().to_owned();
        PlainProvider { address, decoding: self.0 }
    }

    fn capabilities(&self) -> Capabilities {
        // The last frame, `bye`, contains no information.
        Capabilities { api_key: false, optional_frames: 1, ..Capabilities::default() }
    }
}

#[derive(Debug)]
pub(crate) struct PlainProvider {
    address: String,
    decoding: Decoding,
}

impl Provider for PlainProvider {
    async fn complete(
        &self,
        request: CompletionRequest,
    ) -> Result<CompletionResponse, ProviderError> {
        let body = self.post(json!({"stream": false, "request": request})).await;
        let body = body.map_err(|error| ProviderError::Network(error.into()))?;
        serde_json::from_str(&self.decode(body)).map_err(|error| ProviderError::Other(error.into()))
    }

    async fn complete_stream(
        &self,
        request: CompletionRequest,
    ) -> Result<StreamHandle, ProviderError> {
        let body = self.post(json!({"stream": true, "request": request})).await;
        let body = body.map(|body| self.decode(body));
        let response = body.ok().and_then(|body| {
            let mut lines =
                body.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
            lines.find_map(|line| serde_json::from_value(line.get("done")?.clone()).ok())
        });
        let broken = || StreamEvent::Error(ProviderError::StreamError("it broke".into()).into());
        let events = response.map_or_else(|| vec![broken()], stream_of);
        Ok(StreamReceiver::new(stream::iter(events)).into())
    }
}

impl PlainProvider {
    fn decode(&self, pieces: Vec<Vec<u8>>) -> String {
        match self.decoding {
            Decoding::Whole => String::from_utf8_lossy(&pieces.concat()).into_owned(),
            Decoding::ByPiece => {
                pieces.iter().map(|piece| String::from_utf8_lossy(piece).into_owned()).collect()
            }
        }
    }

    /// Sends a POST request with `body`, and returns the chunks of the response.
    async fn post(&self, body: Value) -> std::io::Result<Vec<Vec<u8>>> {
        let body = body.to_string();
        let mut stream = BufReader::new(TcpStream::connect(&self.address).await?);
        let length = body.len();
        let request =
            format!("POST / HTTP/1.1\r\nhost: h\r\ncontent-length: {length}\r\n\r\n{body}");
        stream.write_all(request.as_bytes()).await?;
        let mut line = String::from("HTTP");
        while !line.trim().is_empty() {
            line.clear();
            stream.read_line(&mut line).await?;
        }
        let mut chunks = Vec::new();
        loop {
            let mut size = String::new();
            stream.read_line(&mut size).await?;
            let size = usize::from_str_radix(size.trim(), 16).map_err(std::io::Error::other)?;
            let mut chunk = vec![0; size + "\r\n".len()];
            stream.read_exact(&mut chunk).await?;
            if size == 0 {
                return Ok(chunks);
            }
            chunk.truncate(size);
            chunks.push(chunk);
        }
    }
}
