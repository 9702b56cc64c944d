//! A `tracing` subscriber for tests, which stores all spans and events.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, OnceLock};

use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::subscriber::DefaultGuard;
use tracing::{Dispatch, Event, Level, Subscriber};
use tracing_subscriber::layer::{Context, SubscriberExt};
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::{Layer, Registry};

pub(crate) type Fields = BTreeMap<&'static str, String>;

/// A recorded event or span.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Told {
    pub(crate) name: &'static str,
    pub(crate) level: Level,
    pub(crate) target: String,
    pub(crate) fields: Fields,
    /// The enclosing spans, outermost first.
    pub(crate) within: Vec<&'static str>,
    /// Set once a span was closed. Always `false` for an event.
    pub(crate) has_ended: bool,
}

/// Allows tests with a subscriber to run concurrently with tests without a subscriber.
///
/// If the process has only one subscriber, tracing caches for each log line whether the first thread wanted it. A
/// thread without a subscriber would then disable the line for all threads. A second subscriber in the process prevents
/// this cache.
pub(crate) fn share_the_process() {
    static ANOTHER: OnceLock<Dispatch> = OnceLock::new();
    ANOTHER.get_or_init(|| Dispatch::new(Registry::default()));
}

#[derive(Debug, Clone, Default)]
pub(crate) struct Records {
    events: Arc<Mutex<Vec<Told>>>,
    spans: Arc<Mutex<Vec<(Id, Told)>>>,
}

impl Records {
    /// Records the spans and events of this thread until the guard is dropped.
    pub(crate) fn start() -> (Self, DefaultGuard) {
        share_the_process();
        let records = Self::default();
        let subscriber = Registry::default().with(records.clone());
        (records, tracing::subscriber::set_default(subscriber))
    }

    pub(crate) fn events(&self) -> Vec<Told> {
        self.events.lock().unwrap().clone()
    }

    pub(crate) fn spans(&self) -> Vec<Told> {
        self.spans.lock().unwrap().iter().map(|(_, span)| span.clone()).collect()
    }

    /// Returns the only event of this name.
    #[track_caller]
    pub(crate) fn event(&self, name: &str) -> Told {
        only(self.events(), name)
    }

    /// Returns the only span of this name.
    #[track_caller]
    pub(crate) fn span(&self, name: &str) -> Told {
        only(self.spans(), name)
    }
}

#[track_caller]
fn only(all: Vec<Told>, name: &str) -> Told {
    let names: Vec<_> = all.iter().map(|told| told.name).collect();
    let mut found = all.iter().filter(|told| told.name == name);
    match (found.next(), found.next()) {
        (Some(told), None) => told.clone(),
        (found, _) => panic!("{} of {name} among {names:?}", found.map_or("none", |_| "several")),
    }
}

struct Collect<'a>(&'a mut Fields);

impl Visit for Collect<'_> {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.0.insert(field.name(), format!("{value:?}"));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.0.insert(field.name(), value.to_owned());
    }
}

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for Records {
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, ctx: Context<'_, S>) {
        let mut fields = Fields::new();
        attributes.record(&mut Collect(&mut fields));
        let around = ctx.span_scope(id).into_iter().flat_map(|scope| scope.from_root());
        let mut within: Vec<_> = around.map(|span| span.name()).collect();
        within.pop();
        let told = told(attributes.metadata(), fields, within);
        self.spans.lock().unwrap().push((id.clone(), told));
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, _: Context<'_, S>) {
        let mut spans = self.spans.lock().unwrap();
        // Ids are reused, so the newest span with this id is searched.
        let span = spans.iter_mut().rev().find(|(own, _)| own == id);
        values.record(&mut Collect(&mut span.unwrap().1.fields));
    }

    fn on_close(&self, id: Id, _: Context<'_, S>) {
        let mut spans = self.spans.lock().unwrap();
        let span = spans.iter_mut().rev().find(|(own, _)| *own == id);
        span.unwrap().1.has_ended = true;
    }

    fn on_event(&self, event: &Event<'_>, ctx: Context<'_, S>) {
        let mut fields = Fields::new();
        event.record(&mut Collect(&mut fields));
        let around = ctx.event_scope(event).into_iter().flat_map(|scope| scope.from_root());
        let within = around.map(|span| span.name()).collect();
        self.events.lock().unwrap().push(told(event.metadata(), fields, within));
    }
}

fn told(
    metadata: &'static tracing::Metadata<'static>,
    fields: Fields,
    within: Vec<&'static str>,
) -> Told {
    Told {
        name: metadata.name(),
        level: *metadata.level(),
        target: metadata.target().to_owned(),
        fields,
        within,
        has_ended: false,
    }
}
