//! A tracing layer that records spans for assertions.

use std::fmt::Debug;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use serde_json::{Map, Value, json};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::subscriber::DefaultGuard;
use tracing::{Dispatch, Level, Metadata, Subscriber};
use tracing_subscriber::layer::{Context, SubscriberExt};
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::{Layer, Registry};

/// The current state of a recorded span.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Recorded {
    pub(super) id: u64,
    pub(super) name: &'static str,
    pub(super) target: String,
    pub(super) level: Level,
    pub(super) parent: Option<u64>,
    /// Recorded fields. A value recorded as `Debug` starts with `?`, and a `u64` starts with `u64 `.
    pub(super) fields: Value,
    pub(super) was_entered: bool,
    pub(super) has_ended: bool,
    /// Names of fields that were recorded more than once.
    pub(super) twice: Vec<&'static str>,
}

impl Recorded {
    /// Returns a field of type string. Returns `None` if the field is missing or has another type.
    pub(super) fn get(&self, field: &str) -> Option<&str> {
        self.fields[field].as_str()
    }
}

/// Records the spans of one thread.
#[derive(Clone, Default)]
pub(super) struct Recorder(Arc<Mutex<Vec<Recorded>>>);

impl Recorder {
    /// Starts recording on this thread. Recording stops when the guard is dropped.
    pub(super) fn start() -> (Self, DefaultGuard) {
        // tracing caches for each span callsite whether any dispatcher is interested. With only one dispatcher in the
        // process, a thread without a subscriber that reaches a callsite first disables the callsite for all threads. A
        // second dispatcher prevents this.
        static ANOTHER: OnceLock<Dispatch> = OnceLock::new();
        ANOTHER.get_or_init(|| Dispatch::new(Registry::default()));
        let recorder = Self::default();
        let guard = tracing::subscriber::set_default(Registry::default().with(recorder.clone()));
        (recorder, guard)
    }

    fn all(&self) -> Vec<Recorded> {
        self.0.lock().unwrap().clone()
    }

    /// Returns the recorded spans in order of creation, without the spans of `rmcp`. Panics if a field was recorded
    /// twice.
    pub(super) fn spans(&self) -> Vec<Recorded> {
        let all = self.all().into_iter();
        let spans: Vec<_> = all.filter(|span| !span.target.starts_with("rmcp")).collect();
        for span in &spans {
            assert!(span.twice.is_empty(), "{span:?}");
        }
        spans
    }

    /// Returns the span with this id. Panics if no such span was recorded.
    pub(super) fn span(&self, id: u64) -> Recorded {
        self.all().into_iter().find(|span| span.id == id).unwrap()
    }

    /// Returns the spans whose fields `otel.name` and `otel.kind` have these values.
    pub(super) fn named(&self, name: &str, kind: &str) -> Vec<Recorded> {
        let spans = self.spans().into_iter();
        spans
            .filter(|span| {
                span.get("otel.name") == Some(name) && span.get("otel.kind") == Some(kind)
            })
            .collect()
    }

    /// Returns the only span with this name and kind. Panics if there is no such span, if there are several, or if the
    /// span has not ended.
    #[track_caller]
    pub(super) fn ended(&self, name: &str, kind: &str) -> Recorded {
        let named = self.named(name, kind);
        match named.as_slice() {
            [span] if span.has_ended => span.clone(),
            _ => panic!("one span `{name}` ({kind}) that has ended: {:#?}", self.spans()),
        }
    }

    /// Waits until a span with this name and kind exists and has ended. Returns the span.
    pub(super) async fn until_ended(&self, name: &str, kind: &str) -> Recorded {
        let ended = async {
            while !self.named(name, kind).first().is_some_and(|span| span.has_ended) {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(60), ended).await.expect("the span ends");
        self.ended(name, kind)
    }

    /// Panics if a field of a recorded span contains `secret`.
    #[track_caller]
    pub(super) fn assert_silent_of(&self, secret: &str) {
        for span in self.spans() {
            assert!(!span.fields.to_string().contains(secret), "{span:?}");
        }
    }

    fn with(&self, id: &Id, change: impl FnOnce(&mut Recorded)) {
        let mut spans = self.0.lock().unwrap();
        // Search from the newest span, because the registry reuses the ids of closed spans.
        if let Some(span) = spans.iter_mut().rev().find(|span| span.id == id.into_u64()) {
            change(span);
        }
    }
}

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for Recorder {
    fn enabled(&self, metadata: &Metadata<'_>, _: Context<'_, S>) -> bool {
        *metadata.level() <= Level::INFO
    }

    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, ctx: Context<'_, S>) {
        let metadata = attributes.metadata();
        let mut span = Recorded {
            id: id.into_u64(),
            name: metadata.name(),
            target: metadata.target().to_owned(),
            level: *metadata.level(),
            parent: ctx
                .span(id)
                .and_then(|span| span.parent())
                .map(|parent| parent.id().into_u64()),
            fields: json!({}),
            was_entered: false,
            has_ended: false,
            twice: Vec::new(),
        };
        attributes.record(&mut Visitor(&mut span));
        self.0.lock().unwrap().push(span);
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, _: Context<'_, S>) {
        self.with(id, |span| values.record(&mut Visitor(span)));
    }

    fn on_enter(&self, id: &Id, _: Context<'_, S>) {
        self.with(id, |span| span.was_entered = true);
    }

    fn on_close(&self, id: Id, _: Context<'_, S>) {
        self.with(&id, |span| span.has_ended = true);
    }
}

/// A `tracing` visitor that adds the visited fields to a recorded span.
struct Visitor<'a>(&'a mut Recorded);

impl Visitor<'_> {
    fn put(&mut self, field: &Field, value: Value) {
        let fields: &mut Map<String, Value> = self.0.fields.as_object_mut().unwrap();
        if fields.insert(field.name().to_owned(), value).is_some() {
            self.0.twice.push(field.name());
        }
    }
}

impl Visit for Visitor<'_> {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.put(field, value.into());
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.put(field, value.into());
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.put(field, format!("u64 {value}").into());
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.put(field, value.into());
    }

    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.put(field, format!("?{value:?}").into());
    }
}
