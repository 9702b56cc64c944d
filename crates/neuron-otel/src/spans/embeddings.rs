//! The spans of embedding calls.

use std::sync::Arc;

use neuron_types::{EmbeddingError, EmbeddingRequest, EmbeddingResponse, ProviderInfo};
use opentelemetry::KeyValue;
use tracing::Span;
use tracing::field::Empty;
use web_time::Instant;

use crate::config::Config;
use crate::failure::Failure;
use crate::metrics::Attributes;
use crate::record::Record;
use crate::run_state::extend_to_now;
use crate::span_parent::unless_unsampled;
use crate::spans::chat::CallTarget;
use crate::spans::known;

/// An embedding call in progress. A call that is dropped before [`end`](Self::end) is recorded as cancelled.
pub(crate) struct Call {
    config: Arc<Config>,
    span: Span,
    attributes: Attributes,
    started: Instant,
    /// `true` after [`end`](Self::end). Dropping the call then records nothing.
    has_ended: bool,
}

impl Call {
    /// Begins the span of an embedding call.
    pub(crate) fn begin(
        config: &Arc<Config>,
        info: ProviderInfo<'_>,
        request: &EmbeddingRequest,
    ) -> Self {
        // An embedding call does not belong to a conversation.
        let target = CallTarget {
            provider: info.name,
            model: known(&request.model).unwrap_or(info.default_model),
            server_address: info.server_address,
            server_port: info.server_port,
            conversation: "",
            is_routed: false,
        };
        let span = unless_unsampled(config, || begin(config, &target));
        if let Some(record) = Record::of(&span).filter(Record::is_recorded) {
            if let Some(dimensions) = request.dimensions {
                record.count("gen_ai.embeddings.dimension.count", dimensions);
            }
            let format = request.extra.get("encoding_format").and_then(|format| format.as_str());
            if let Some(format) = format {
                record.texts("gen_ai.request.encoding_formats", [format]);
            }
        }
        Self {
            config: config.clone(),
            span,
            attributes: target.attributes("embeddings"),
            started: Instant::now(),
            has_ended: false,
        }
    }

    pub(crate) fn span(&self) -> &Span {
        &self.span
    }

    /// Ends the span and records the metrics of the call.
    pub(crate) fn end(mut self, result: Result<&EmbeddingResponse, &EmbeddingError>) {
        self.has_ended = true;
        let failure = match result {
            Ok(_) => None,
            Err(error) => Failure::of(error, self.config.captures_error_texts()),
        };
        self.record_end(result.ok(), failure.as_ref());
    }

    fn record_end(&mut self, response: Option<&EmbeddingResponse>, failure: Option<&Failure>) {
        if let Some(record) = Record::of(&self.span).filter(Record::is_recorded) {
            if let Some(failure) = failure {
                record.failure(failure);
            }
            if let Some(response) = response {
                if let Some(model) = known(&response.model) {
                    record.text("gen_ai.response.model", model);
                }
                record.count("gen_ai.usage.input_tokens", response.usage.prompt_tokens);
            }
        }
        let Some(instruments) = self.config.instruments.get(self.config.conventions) else {
            return;
        };
        let model = response.and_then(|response| known(&response.model));
        let model = model.map(|model| KeyValue::new("gen_ai.response.model", model.to_owned()));
        self.attributes.extend(model);
        let tokens = response.map(|response| response.usage.prompt_tokens);
        let seconds = self.started.elapsed().as_secs_f64();
        instruments.embeddings(seconds, tokens, failure, &mut self.attributes);
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        if !self.has_ended {
            // The last poll may be long ago, but the call ends now.
            extend_to_now(&self.span);
            self.record_end(None, Some(&Failure::dropped()));
        }
    }
}

fn begin(config: &Config, target: &CallTarget<'_>) -> Span {
    let (conventions, provider) = (config.conventions, Some(target.provider_name()));
    let is_book = conventions.is_book();
    tracing::info_span!(
        target: "neuron_otel",
        "embeddings",
        otel.name = conventions.span_name("embeddings", target.model),
        otel.kind = "client",
        otel.status_code = Empty,
        otel.status_description = Empty,
        "error.type" = Empty,
        gen_ai.operation.name = "embeddings",
        gen_ai.provider.name = provider.filter(|_| !is_book),
        gen_ai.system = provider.filter(|_| is_book),
        gen_ai.request.model = known(target.model),
        server.address = known(target.server_address),
        server.port = known(target.server_address).and(target.server_port).map(i64::from),
        gen_ai.request.encoding_formats = Empty,
        gen_ai.embeddings.dimension.count = Empty,
        gen_ai.response.model = Empty,
        gen_ai.usage.input_tokens = Empty,
    )
}
