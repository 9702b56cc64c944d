//! Tests of the warnings that a registry logs.

use std::sync::{Arc, Mutex, OnceLock};

use neuron_tool::ToolRegistry;
use neuron_types::{ToolContext, ToolDefinition, ToolDyn, ToolError, ToolOutput, WasmBoxedFuture};
use serde_json::{Value, json};

struct Named(&'static str);

impl ToolDyn for Named {
    fn name(&self) -> &str {
        self.0
    }

    fn definition(&self) -> ToolDefinition {
        ToolDefinition {
            name: self.0.into(),
            title: None,
            description: String::new(),
            input_schema: json!({}),
            output_schema: None,
            annotations: None,
            cache_control: None,
        }
    }

    fn call_dyn<'a>(
        &'a self,
        _input: Value,
        _ctx: &'a ToolContext,
    ) -> WasmBoxedFuture<'a, Result<ToolOutput, ToolError>> {
        Box::pin(async { Ok(ToolOutput::default()) })
    }
}

fn registry(names: impl IntoIterator<Item = &'static str>) -> ToolRegistry {
    let mut registry = ToolRegistry::new();
    for name in names {
        registry.register_dyn(Arc::new(Named(name)));
    }
    registry
}

/// A subscriber that collects warnings.
#[derive(Clone, Default)]
struct Warnings(Arc<Mutex<Vec<String>>>);

impl tracing::Subscriber for Warnings {
    fn enabled(&self, metadata: &tracing::Metadata<'_>) -> bool {
        *metadata.level() <= tracing::Level::WARN
    }
    fn new_span(&self, _: &tracing::span::Attributes<'_>) -> tracing::span::Id {
        tracing::span::Id::from_u64(1)
    }
    fn record(&self, _: &tracing::span::Id, _: &tracing::span::Record<'_>) {}
    fn record_follows_from(&self, _: &tracing::span::Id, _: &tracing::span::Id) {}
    fn event(&self, event: &tracing::Event<'_>) {
        let mut text = String::new();
        event.record(&mut |field: &tracing::field::Field, value: &dyn std::fmt::Debug| {
            text.push_str(&format!("{field}={value:?} "));
        });
        self.0.lock().unwrap().push(text);
    }
    fn enter(&self, _: &tracing::span::Id) {}
    fn exit(&self, _: &tracing::span::Id) {}
}

/// Runs `work`, and returns its result and the warnings that it logs.
fn logged<T>(work: impl FnOnce() -> T) -> (T, Vec<String>) {
    // tracing caches for each callsite whether any dispatcher is interested. With only one dispatcher in the process, a
    // thread without a subscriber that reaches a callsite first disables the callsite for all threads. A second
    // dispatcher prevents this.
    static ANOTHER: OnceLock<tracing::Dispatch> = OnceLock::new();
    ANOTHER.get_or_init(|| tracing::Dispatch::new(Warnings::default()));
    let warnings = Warnings::default();
    let result = tracing::subscriber::with_default(warnings.clone(), work);
    let lines = warnings.0.lock().unwrap().clone();
    (result, lines)
}

#[test]
fn replacement_is_logged_and_first_registration_is_not() {
    let ((), warnings) = logged(|| {
        let mut tools = registry(["a", "b"]);
        tools.try_register_dyn(Arc::new(Named("a"))).unwrap_err();
        tools.remove("a");
        tools.register_dyn(Arc::new(Named("a")));
        tools.merge_prefixed("x_", registry(["a"])).unwrap();
        tools.register_dyn(Arc::new(Named("b")));
    });
    assert_eq!(
        warnings,
        [r#"message=a tool with this name was registered before; it is replaced tool="b" "#]
    );
}

#[test]
fn invalid_name_is_logged_and_registered() {
    let (tools, warnings) = logged(|| registry(["a.b", "a-B_9"]));
    assert_eq!(tools.names().collect::<Vec<_>>(), ["a.b", "a-B_9"]);
    let text = "message=not every vendor takes this name: it has 1 to 64 ASCII letters, digits, `_` \
                or `-` tool=\"a.b\" ";
    assert_eq!(warnings, [text]);
}
