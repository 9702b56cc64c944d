//! Parsing of the environment variables for OpenTelemetry's GenAI instrumentations.

use std::env;

use crate::ContentCapture;

const OPT_IN: &str = "OTEL_SEMCONV_STABILITY_OPT_IN";
const CAPTURE: &str = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT";

/// Value of `OTEL_SEMCONV_STABILITY_OPT_IN` that selects the latest conventions.
const LATEST: &str = "gen_ai_latest_experimental";

/// The settings from the environment variables.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Environment {
    /// Set if the environment selects the latest conventions.
    pub(crate) latest: bool,
    /// The telemetry that contains content, which is prompts, responses, arguments and results.
    pub(crate) capture: ContentCapture,
}

impl Environment {
    /// Reads the environment variables of the process.
    pub(crate) fn read() -> Self {
        // A value that is not Unicode then causes a warning, like any other unknown value.
        Self::from(|name| env::var_os(name).map(|value| value.to_string_lossy().into_owned()))
    }

    /// Parses the environment variables, whose values `get` returns by name. If a value is unknown, logs a warning and
    /// disables content capture.
    pub(crate) fn from(get: impl Fn(&str) -> Option<String>) -> Self {
        let opt_ins = get(OPT_IN).unwrap_or_default();
        let latest = opt_ins.split(',').any(|entry| entry.trim() == LATEST);
        let value = get(CAPTURE).unwrap_or_default();
        let capture = capture(&value).unwrap_or_else(|| {
            tracing::warn!(
                "{CAPTURE} is {value:?}, which is not known, so no content is captured; it may be \
                 NO_CONTENT or false, SPAN_ONLY or true, EVENT_ONLY, SPAN_AND_EVENT"
            );
            ContentCapture::None
        });
        Self { latest, capture }
    }
}

/// Parses the value of the variable for content capture. Returns `None` for an unknown value.
fn capture(value: &str) -> Option<ContentCapture> {
    match value.trim().to_ascii_uppercase().as_str() {
        "" | "NO_CONTENT" | "FALSE" => Some(ContentCapture::None),
        "SPAN_ONLY" | "TRUE" => Some(ContentCapture::Spans),
        "EVENT_ONLY" => Some(ContentCapture::Events),
        "SPAN_AND_EVENT" => Some(ContentCapture::SpansAndEvents),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::fmt;
    use std::sync::{Arc, Mutex};

    use tracing::field::{Field, Visit};
    use tracing_subscriber::layer::{Context, Layer, SubscriberExt};

    use super::*;

    fn read(opt_in: Option<&str>, capture: Option<&str>) -> Environment {
        Environment::from(|name| {
            let value = match name {
                OPT_IN => opt_in,
                CAPTURE => capture,
                other => panic!("asks for {other}"),
            };
            value.map(str::to_owned)
        })
    }

    #[test]
    fn empty_environment_sets_nothing() {
        let nothing = Environment { latest: false, capture: ContentCapture::None };
        assert_eq!(read(None, None), nothing);
        assert_eq!(read(Some(""), Some("")), nothing);
    }

    #[test]
    fn opt_in_list_selects_latest_conventions() {
        for (value, latest) in [
            ("gen_ai_latest_experimental", true),
            ("http,gen_ai_latest_experimental", true),
            (" http , gen_ai_latest_experimental , database/dup", true),
            (",,gen_ai_latest_experimental,", true),
            ("", false),
            (",", false),
            ("gen_ai", false),
            ("gen_ai_latest_experimental2", false),
            ("http gen_ai_latest_experimental", false),
            ("GEN_AI_LATEST_EXPERIMENTAL", false),
        ] {
            assert_eq!(read(Some(value), None).latest, latest, "{value:?}");
        }
        let many = "http,".repeat(100_000) + LATEST;
        assert!(read(Some(&many), None).latest);
    }

    /// A layer that collects log messages.
    #[derive(Clone, Default)]
    struct Logged(Arc<Mutex<Vec<String>>>);

    impl<S: tracing::Subscriber> Layer<S> for Logged {
        fn on_event(&self, event: &tracing::Event<'_>, _: Context<'_, S>) {
            struct Message(String);
            impl Visit for Message {
                fn record_debug(&mut self, _: &Field, value: &dyn fmt::Debug) {
                    self.0 = format!("{value:?}");
                }
            }
            let mut message = Message(String::new());
            event.record(&mut message);
            self.0.lock().unwrap().push(format!("{} {}", event.metadata().level(), message.0));
        }
    }

    /// Returns the content setting that `value` selects in `OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT`, and
    /// the log messages of the parsing.
    fn captured(value: &str) -> (ContentCapture, Vec<String>) {
        // If only one subscriber exists, the first thread that reaches a callsite decides for all threads whether it is
        // enabled. A second subscriber prevents this.
        let _another = tracing::Dispatch::new(tracing_subscriber::registry());
        let logged = Logged::default();
        let subscriber = tracing_subscriber::registry().with(logged.clone());
        let capture =
            tracing::subscriber::with_default(subscriber, || read(None, Some(value)).capture);
        let lines = logged.0.lock().unwrap().clone();
        (capture, lines)
    }

    #[test]
    fn content_capture_value_is_case_insensitive() {
        for (value, expected) in [
            ("", ContentCapture::None),
            ("  ", ContentCapture::None),
            ("NO_CONTENT", ContentCapture::None),
            ("no_content", ContentCapture::None),
            ("false", ContentCapture::None),
            ("False", ContentCapture::None),
            ("SPAN_ONLY", ContentCapture::Spans),
            ("span_only", ContentCapture::Spans),
            (" Span_Only ", ContentCapture::Spans),
            ("true", ContentCapture::Spans),
            ("TRUE", ContentCapture::Spans),
            ("EVENT_ONLY", ContentCapture::Events),
            ("event_only", ContentCapture::Events),
            ("SPAN_AND_EVENT", ContentCapture::SpansAndEvents),
            ("span_and_event", ContentCapture::SpansAndEvents),
        ] {
            assert_eq!(captured(value), (expected, Vec::new()), "{value:?}");
        }
    }

    #[test]
    fn unknown_value_captures_nothing_and_logs_warning() {
        let huge = "SPAN_ONLY".repeat(1000);
        for value in
            ["yes", "1", "SPAN", "SPAN_ONLY,EVENT_ONLY", "SPANS_AND_EVENTS", "\u{fffd}", &huge]
        {
            let (capture, lines) = captured(value);
            assert_eq!(capture, ContentCapture::None, "{value:?}");
            let [line] = lines.as_slice() else { panic!("{lines:?}") };
            assert!(line.starts_with("WARN OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"));
            assert!(line.contains(&format!("{value:?}")), "{line}");
            for known in
                ["NO_CONTENT", "SPAN_ONLY", "EVENT_ONLY", "SPAN_AND_EVENT", "true", "false"]
            {
                assert!(line.contains(known), "{line}");
            }
        }
    }
}
