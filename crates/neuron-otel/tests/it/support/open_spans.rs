//! A layer that tracks open spans.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use tracing::span::{Attributes, Id};
use tracing_subscriber::layer::{Context, Layer};

/// A layer that collects the spans of neuron-otel that have not ended.
#[derive(Clone, Default)]
pub(crate) struct OpenSpans(Arc<Mutex<HashMap<u64, &'static str>>>);

impl OpenSpans {
    pub(crate) fn names(&self) -> Vec<&'static str> {
        let mut names: Vec<_> = self.0.lock().unwrap().values().copied().collect();
        names.sort_unstable();
        names
    }
}

impl<S: tracing::Subscriber> Layer<S> for OpenSpans {
    fn on_new_span(&self, span: &Attributes<'_>, id: &Id, _: Context<'_, S>) {
        if span.metadata().target() == "neuron_otel" {
            self.0.lock().unwrap().insert(id.into_u64(), span.metadata().name());
        }
    }

    fn on_close(&self, id: Id, _: Context<'_, S>) {
        self.0.lock().unwrap().remove(&id.into_u64());
    }
}
