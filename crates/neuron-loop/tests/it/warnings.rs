//! Captures the warnings that a test logs.

use std::cell::RefCell;
use std::ops::Deref;
use std::sync::Once;

use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

use crate::support::Log;

/// The warnings that this thread logs during the lifetime of this value.
pub(crate) struct Warnings(Log);

impl Warnings {
    pub(crate) fn keep() -> Self {
        static INSTALLED: Once = Once::new();
        // One subscriber serves all tests, because tracing decides only once per process which log lines are enabled.
        INSTALLED.call_once(|| {
            tracing::subscriber::set_global_default(OfThisThread).unwrap();
            // Another thread may have decided on a log line just before, so the decisions are made again.
            tracing::callsite::rebuild_interest_cache();
        });
        let log = Log::default();
        KEPT.set(Some(log.clone()));
        Self(log)
    }
}

impl Deref for Warnings {
    type Target = Log;

    fn deref(&self) -> &Log {
        &self.0
    }
}

impl Drop for Warnings {
    fn drop(&mut self) {
        KEPT.set(None);
    }
}

thread_local! {
    static KEPT: RefCell<Option<Log>> = const { RefCell::new(None) };
}

struct OfThisThread;

impl Subscriber for OfThisThread {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        *metadata.level() == tracing::Level::WARN
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        struct Text(String);
        impl tracing::field::Visit for Text {
            fn record_debug(&mut self, field: &tracing::field::Field, value: &dyn std::fmt::Debug) {
                self.0 += &format!("{field}={value:?} ");
            }
        }
        let mut text = Text(String::new());
        event.record(&mut text);
        KEPT.with_borrow(|kept| kept.iter().for_each(|log| log.push(&*text.0)));
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}
