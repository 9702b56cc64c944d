//! Tests of the spans of routes.

use std::sync::{Arc, Mutex};

use neuron_model::{CompletionRequest, Provider as _};
use neuron_router::{Route, Router};
use neuron_testing::Reply;
use tracing_subscriber::Layer;
use tracing_subscriber::layer::{Context, SubscriberExt};
use tracing_subscriber::registry::LookupSpan;

use crate::support::{answering, ask_streamed, busy, events, request, router, script};

/// A layer that records the spans of routers, their fields, and the names of their parents.
#[derive(Clone, Default)]
struct Spans(Arc<Mutex<Vec<String>>>);

/// Formats fields as text.
struct Fields<'a>(&'a mut String);

impl tracing::field::Visit for Fields<'_> {
    fn record_debug(&mut self, field: &tracing::field::Field, value: &dyn std::fmt::Debug) {
        *self.0 += &format!(" {field}={value:?}");
    }
}

impl<S: tracing::Subscriber + for<'a> LookupSpan<'a>> Layer<S> for Spans {
    fn on_new_span(
        &self,
        attributes: &tracing::span::Attributes<'_>,
        id: &tracing::Id,
        ctx: Context<'_, S>,
    ) {
        let parent = ctx.span(id).and_then(|span| span.parent().map(|parent| parent.name()));
        let metadata = attributes.metadata();
        let mut line = format!("{} {} in {parent:?}:", metadata.target(), metadata.name());
        attributes.record(&mut Fields(&mut line));
        self.0.lock().unwrap().push(line);
    }

    fn on_record(&self, _: &tracing::Id, values: &tracing::span::Record<'_>, _: Context<'_, S>) {
        let mut line = "recorded:".to_owned();
        values.record(&mut Fields(&mut line));
        self.0.lock().unwrap().push(line);
    }

    fn on_event(&self, event: &tracing::Event<'_>, ctx: Context<'_, S>) {
        let span = ctx.event_span(event).map(|span| span.name());
        let mut line = format!("{} in {span:?}:", event.metadata().level());
        event.record(&mut Fields(&mut line));
        self.0.lock().unwrap().push(line);
    }
}

#[tokio::test]
async fn each_call_of_a_route_has_a_span_with_its_failure() {
    let spans = Spans::default();
    let subscriber = tracing_subscriber::registry().with(spans.clone());
    let _guard = tracing::subscriber::set_default(subscriber);
    let providers = [script([Reply::error(busy())]), answering("b")];
    let router = router(&providers);
    let outer = tracing::info_span!(target: "test", "outer");
    tracing::Instrument::instrument(ask_streamed(&router), outer).await.unwrap();
    let expected = [
        "test outer in None:",
        "neuron_router route in Some(\"outer\"): otel.name=\"route a\" route.name=\"a\" \
         gen_ai.provider.name=\"scripted\"",
        "recorded: gen_ai.request.model=\"scripted-model\"",
        "recorded: error.type=\"ServiceUnavailable\"",
        "recorded: otel.status_code=\"ERROR\"",
        "WARN in Some(\"route\"): message=a route failed error.kind=\"ServiceUnavailable\"",
        "neuron_router route in Some(\"outer\"): otel.name=\"route b\" route.name=\"b\" \
         gen_ai.provider.name=\"scripted\"",
        "recorded: gen_ai.request.model=\"scripted-model\"",
    ];
    assert_eq!(*spans.0.lock().unwrap(), expected);
}

#[tokio::test]
async fn span_names_the_model_that_the_route_requests() {
    let spans = Spans::default();
    let subscriber = tracing_subscriber::registry().with(spans.clone());
    let _guard = tracing::subscriber::set_default(subscriber);
    let plain = Route::new("plain", answering("hi"));
    let changed = Route::new("changed", answering("hi")).change(|it| it.model = "x".into());
    for (route, model) in [(plain.clone(), ""), (plain, "m"), (changed, "")] {
        let router = Router::builder().route(route).build().unwrap();
        let request = CompletionRequest { model: model.into(), ..request() };
        router.complete_ref(request.view()).await.unwrap();
    }
    let recorded = spans.0.lock().unwrap().clone();
    let recorded = recorded.iter().filter(|line| line.starts_with("recorded:"));
    let model = |model| format!("recorded: gen_ai.request.model={model:?}");
    let expected = [model("scripted-model"), model("m"), model("x")];
    assert_eq!(recorded.collect::<Vec<_>>(), expected.iter().collect::<Vec<_>>());
}

#[tokio::test]
async fn broken_stream_has_the_status_of_an_error() {
    let spans = Spans::default();
    let subscriber = tracing_subscriber::registry().with(spans.clone());
    let _guard = tracing::subscriber::set_default(subscriber);
    let broken = Reply::text("broken").chunk_chars(2).fail_after(2, busy());
    events(&router(&[script([broken])])).await.unwrap();
    let recorded = spans.0.lock().unwrap().clone();
    let status = "recorded: otel.status_code=\"ERROR\"";
    assert!(recorded.iter().any(|line| line == status), "{recorded:?}");
}
