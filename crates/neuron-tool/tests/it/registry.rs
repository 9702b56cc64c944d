//! Tests of the registry. They check the order of tools, replacement, errors and middleware.

use std::sync::{Arc, Mutex};

use neuron_tool::{ToolMiddleware, ToolRegistry, tool_middleware_fn};
use neuron_types::{
    RegistryError, Tool, ToolCall, ToolContext, ToolDefinition, ToolDyn, ToolEffect, ToolError,
    ToolOutput, WasmBoxedFuture,
};
use serde_json::{Value, json};

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct EchoArgs {
    text: String,
}

fn definition(name: &str) -> ToolDefinition {
    ToolDefinition {
        name: name.into(),
        title: None,
        description: String::new(),
        input_schema: schemars::schema_for!(EchoArgs).into(),
        output_schema: None,
        annotations: None,
        cache_control: None,
    }
}

struct Echo;

impl Tool for Echo {
    const NAME: &'static str = "echo";
    type Args = EchoArgs;
    type Output = Value;
    type Error = std::io::Error;

    fn definition(&self) -> ToolDefinition {
        definition("echo")
    }

    async fn call(&self, args: EchoArgs, ctx: &ToolContext) -> Result<Value, std::io::Error> {
        match args.text.as_str() {
            "fail" => Err(std::io::Error::other("disk full")),
            "scalar" => Ok(json!(7)),
            "text" => Ok(json!("plain")),
            text => Ok(json!({ "text": text, "session": ctx.session_id })),
        }
    }
}

struct Named(&'static str);

impl ToolDyn for Named {
    fn name(&self) -> &str {
        self.0
    }

    fn definition(&self) -> ToolDefinition {
        definition(self.0)
    }

    // This is the signature in the book. It elides the lifetimes, and must compile too.
    fn call_dyn(
        &self,
        input: Value,
        ctx: &ToolContext,
    ) -> WasmBoxedFuture<'_, Result<ToolOutput, ToolError>> {
        let call_id = ctx.call_id.clone();
        Box::pin(async move { Ok(ToolOutput::text(format!("{} {call_id} {input}", self.0))) })
    }
}

fn echo() -> ToolRegistry {
    let mut registry = ToolRegistry::new();
    registry.register(Echo);
    registry
}

async fn run(registry: &ToolRegistry, input: Value) -> Result<ToolOutput, ToolError> {
    registry.execute("echo", input, &ToolContext::default()).await
}

#[tokio::test]
async fn results_become_text_and_structured_content() {
    let registry = echo();
    let object = run(&registry, json!({ "text": "hi" })).await.unwrap();
    assert_eq!(object.content[0].to_string(), r#"{"text":"hi","session":""}"#);
    assert_eq!(object.structured_content, Some(json!({ "text": "hi", "session": "" })));
    let scalar = run(&registry, json!({ "text": "scalar" })).await.unwrap();
    assert_eq!((scalar.content[0].to_string(), scalar.structured_content), ("7".into(), None));
    let text = run(&registry, json!({ "text": "text" })).await.unwrap();
    assert_eq!(text.content[0].to_string(), "plain");
}

#[tokio::test]
async fn errors_name_their_cause() {
    let registry = echo();
    let text = |result: Result<ToolOutput, ToolError>| result.unwrap_err().to_string();
    assert_eq!(
        text(run(&registry, json!({})).await),
        "invalid input: arguments of `echo`: missing field `text`"
    );
    assert_eq!(
        text(run(&registry, json!({ "text": 1 })).await),
        "invalid input: arguments of `echo`: `$.text`: invalid type: integer `1`, expected a string"
    );
    assert_eq!(
        text(run(&registry, json!({ "text": "fail" })).await),
        "execution failed: disk full"
    );
    let ctx = ToolContext::default();
    assert_eq!(text(registry.execute("ecko", json!({}), &ctx).await), "tool not found: ecko");
}

#[test]
fn definitions_keep_registration_order_after_replacement() {
    let mut registry = ToolRegistry::new();
    for name in ["zebra", "ant", "mole", "bee"] {
        registry.register_dyn(Arc::new(Named(name)));
    }
    registry.register_dyn(Arc::new(Named("ant")));
    let names: Vec<_> = registry.definitions().into_iter().map(|tool| tool.name).collect();
    assert_eq!(names, ["zebra", "ant", "mole", "bee"]);
    assert_eq!(registry.names().collect::<Vec<_>>(), names);
    assert_eq!((registry.len(), registry.is_empty()), (4, false));
    assert!(registry.get("ant").is_some() && registry.get("cat").is_none());
    assert_eq!(
        format!("{registry:?}"),
        r#"ToolRegistry { tools: ["zebra", "ant", "mole", "bee"], middleware: 0, .. }"#
    );
}

#[test]
fn tool_name_overrides_the_name_in_the_definition() {
    struct WrongDefinition;
    impl ToolDyn for WrongDefinition {
        fn name(&self) -> &str {
            "real"
        }
        fn definition(&self) -> ToolDefinition {
            definition("other")
        }
        fn call_dyn<'a>(
            &'a self,
            _input: Value,
            _ctx: &'a ToolContext,
        ) -> WasmBoxedFuture<'a, Result<ToolOutput, ToolError>> {
            Box::pin(async { Ok(ToolOutput::default()) })
        }
    }
    let mut registry = ToolRegistry::new();
    registry.register_dyn(Arc::new(WrongDefinition));
    assert_eq!(registry.definitions()[0].name, "real");
}

#[tokio::test]
async fn global_middleware_runs_before_tool_middleware_in_order() {
    let log = Arc::new(Mutex::new(Vec::new()));
    let note = |name: &'static str| {
        let log = log.clone();
        tool_middleware_fn(move |call, ctx, next| {
            let log = log.clone();
            Box::pin(async move {
                log.lock().unwrap().push(format!("{name}>"));
                let result = next.run(call, ctx).await;
                log.lock().unwrap().push(format!("<{name}"));
                result
            })
        })
    };
    let mut registry = echo();
    registry.register_dyn(Arc::new(Named("other")));
    // This middleware is added first, but must be inside the global middleware.
    registry.add_tool_middleware("echo", note("own"));
    registry.add_middleware(note("first")).add_middleware(note("second"));
    run(&registry, json!({ "text": "hi" })).await.unwrap();
    assert_eq!(log.lock().unwrap().join(" "), "first> second> own> <own <second <first");
    log.lock().unwrap().clear();
    registry.execute("other", json!({}), &ToolContext::default()).await.unwrap();
    assert_eq!(log.lock().unwrap().join(" "), "first> second> <second <first");
}

#[tokio::test]
async fn middleware_may_change_call_and_context_or_respond() {
    let mut registry = echo();
    registry.add_middleware(tool_middleware_fn(|call, ctx, next| {
        Box::pin(async move {
            let call = ToolCall { input: json!({ "text": "changed" }), ..call.clone() };
            let ctx = ToolContext { session_id: "own".into(), ..ctx.clone() };
            next.run(&call, &ctx).await
        })
    }));
    let output = run(&registry, json!({ "text": "hi" })).await.unwrap();
    assert_eq!(output.content[0].to_string(), r#"{"text":"changed","session":"own"}"#);
    registry.add_middleware(tool_middleware_fn(|_, _, _| {
        Box::pin(async { Ok(ToolOutput::error("closed")) })
    }));
    let output = run(&registry, json!({ "text": "hi" })).await.unwrap();
    assert!(output.is_error && output.content[0].to_string() == "closed");
}

fn named(names: impl IntoIterator<Item = &'static str>) -> ToolRegistry {
    let mut registry = ToolRegistry::new();
    for name in names {
        registry.register_dyn(Arc::new(Named(name)));
    }
    registry
}

/// Creates middleware whose output contains `mark`, the name of the called tool, and the output of the inner middleware
/// or tool.
fn mark(mark: &'static str) -> impl ToolMiddleware {
    tool_middleware_fn(move |call, ctx, next| {
        Box::pin(async move {
            let rest = next.run(call, ctx).await?.content.remove(0);
            Ok(ToolOutput::text(format!("{mark}({}) {rest}", call.name)))
        })
    })
}

async fn answer(registry: &ToolRegistry, name: &str) -> String {
    let ctx = ToolContext { call_id: "id".into(), ..Default::default() };
    registry.execute(name, json!({}), &ctx).await.unwrap().content[0].to_string()
}

#[tokio::test]
async fn try_register_refuses_a_taken_name_and_register_replaces_it() {
    let mut registry = echo();
    let taken = RegistryError::NameTaken { name: "echo".into() };
    assert_eq!(taken.to_string(), "a tool named `echo` is registered already");
    assert_eq!(registry.try_register(Echo), Err(taken.clone()));
    assert_eq!(registry.try_register_dyn(Arc::new(Named("echo"))), Err(taken));
    assert!(run(&registry, json!({})).await.is_err(), "the first is still there");
    assert_eq!(registry.try_register_dyn(Arc::new(Named("new"))), Ok(()));
    registry.register_dyn(Arc::new(Named("echo")));
    assert_eq!(answer(&registry, "echo").await, "echo id {}");
    assert_eq!(registry.names().collect::<Vec<_>>(), ["echo", "new"]);
}

#[tokio::test]
async fn removed_tool_leaves_its_middleware_for_the_name() {
    let mut registry = named(["a", "b", "c"]);
    registry.add_tool_middleware("a", mark("guard"));
    assert_eq!(registry.remove("a").map(|tool| tool.name().to_owned()), Some("a".into()));
    assert!(registry.remove("a").is_none());
    assert_eq!(registry.names().collect::<Vec<_>>(), ["b", "c"]);
    let gone = registry.execute("a", json!({}), &ToolContext::default()).await;
    assert!(matches!(gone, Err(ToolError::NotFound(name)) if name == "a"));
    registry.register_dyn(Arc::new(Named("a")));
    assert_eq!(answer(&registry, "a").await, "guard(a) a id {}");
}

#[tokio::test]
async fn group_shares_one_middleware_in_order() {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let log = seen.clone();
    let group = tool_middleware_fn(move |call, ctx, next| {
        log.lock().unwrap().push(call.name.clone());
        next.run(call, ctx)
    });
    let mut registry = named(["a", "b", "c"]);
    registry.add_tool_middleware("a", mark("first"));
    registry.add_group_middleware(["a", "c"], group);
    registry.add_group_middleware(vec!["a".to_owned()], mark("last"));
    registry.add_middleware(mark("global"));
    assert_eq!(answer(&registry, "a").await, "global(a) first(a) last(a) a id {}");
    assert_eq!(answer(&registry, "b").await, "global(b) b id {}");
    assert_eq!(answer(&registry, "c").await, "global(c) c id {}");
    assert_eq!(*seen.lock().unwrap(), ["a", "c"]);
}

#[tokio::test]
async fn merged_tools_keep_middleware_order_and_effects() {
    struct Pure;
    impl ToolDyn for Pure {
        fn name(&self) -> &str {
            "pure"
        }
        fn definition(&self) -> ToolDefinition {
            definition("pure")
        }
        fn call_dyn<'a>(
            &'a self,
            _input: Value,
            _ctx: &'a ToolContext,
        ) -> WasmBoxedFuture<'a, Result<ToolOutput, ToolError>> {
            Box::pin(async { Ok(ToolOutput::default()) })
        }
        fn effect(&self) -> ToolEffect {
            ToolEffect::Pure
        }
        fn effect_key(&self, input: &Value) -> Option<String> {
            input.as_str().map(str::to_owned)
        }
    }
    let mut other = named(["b", "a"]);
    other.register_dyn(Arc::new(Pure));
    other.add_middleware(mark("inner"));
    other.add_tool_middleware("a", mark("own"));
    let mut registry = named(["a"]);
    registry.add_middleware(mark("outer"));
    registry.add_tool_middleware("x_a", mark("new"));
    registry.merge_prefixed("x_", other.clone()).unwrap();
    registry.merge_prefixed("y_", other).unwrap();

    let names = ["a", "x_b", "x_a", "x_pure", "y_b", "y_a", "y_pure"];
    assert_eq!(registry.names().collect::<Vec<_>>(), names);
    let defined: Vec<_> = registry.definitions().into_iter().map(|tool| tool.name).collect();
    assert_eq!(defined, names);
    assert_eq!(answer(&registry, "a").await, "outer(a) a id {}");
    assert_eq!(answer(&registry, "x_a").await, "outer(x_a) new(x_a) inner(a) own(a) a id {}");
    assert_eq!(answer(&registry, "y_a").await, "outer(y_a) inner(a) own(a) a id {}");
    let tool = registry.get("x_pure").unwrap();
    assert_eq!((tool.name(), tool.effect()), ("x_pure", ToolEffect::Pure));
    assert_eq!(tool.effect_key(&json!("key")).as_deref(), Some("key"));
    assert_eq!(registry.get("x_a").unwrap().effect(), ToolEffect::AtMostOnce);
}

/// A merge whose prefix makes a name invalid must fail and leave the registry unchanged. Regression test. The merge
/// succeeded, and the vendor rejected the first model request.
#[test]
fn merge_with_invalid_names_changes_nothing() {
    let long = Box::leak("x".repeat(60).into_boxed_str());
    for (prefix, name) in [("ab_cd", &*long), ("a.", "b"), ("a ", "b"), ("ä_", "b"), ("a_", "b.c")]
    {
        let mut registry = named(["a"]);
        let refused = registry.merge_prefixed(prefix, named([name]));
        assert_eq!(refused, Err(RegistryError::InvalidName { name: format!("{prefix}{name}") }));
        assert_eq!(registry.names().collect::<Vec<_>>(), ["a"]);
        registry.merge_prefixed("abcd", named([&*long])).unwrap();
        // A merge without a prefix does not check names, because it does not change them.
        registry.merge(named(["b.c"])).unwrap();
    }
    assert_eq!(
        RegistryError::InvalidName { name: "a.b".into() }.to_string(),
        "a tool's name has 1 to 64 ASCII letters, digits, `_` or `-`, but one is `a.b`"
    );
}

#[tokio::test]
async fn merge_with_a_taken_name_changes_nothing() {
    let mut registry = named(["a", "x_c"]);
    assert_eq!(
        registry.merge(named(["b", "a"])),
        Err(RegistryError::NameTaken { name: "a".into() })
    );
    assert_eq!(
        registry.merge_prefixed("x_", named(["b", "c"])),
        Err(RegistryError::NameTaken { name: "x_c".into() })
    );
    assert_eq!(registry.names().collect::<Vec<_>>(), ["a", "x_c"]);
    // Merge without a prefix, first without middleware and then with middleware.
    registry.merge(named(["b"])).unwrap();
    let mut other = named(["c"]);
    other.add_middleware(mark("inner"));
    registry.merge(other).unwrap();
    assert_eq!(registry.names().collect::<Vec<_>>(), ["a", "x_c", "b", "c"]);
    assert_eq!(answer(&registry, "b").await, "b id {}");
    assert_eq!(answer(&registry, "c").await, "inner(c) c id {}");
}

#[tokio::test]
async fn call_id_is_taken_from_the_context() {
    let mut registry = ToolRegistry::new();
    registry.register_dyn(Arc::new(Named("named")));
    let ids = Arc::new(Mutex::new(Vec::new()));
    let seen = ids.clone();
    registry.add_middleware(tool_middleware_fn(move |call, ctx, next| {
        seen.lock().unwrap().push(call.id.clone());
        next.run(call, ctx)
    }));
    let ctx = ToolContext { call_id: "call_7".into(), ..Default::default() };
    let output = registry.execute("named", json!({}), &ctx).await.unwrap();
    assert_eq!(output.content[0].to_string(), "named call_7 {}");
    assert_eq!(*ids.lock().unwrap(), ["call_7"]);
}

#[test]
fn calls_are_send() {
    fn is_send<T: Send>(_: T) {}
    let (registry, ctx) = (echo(), ToolContext::default());
    is_send(registry.execute("echo", json!({}), &ctx));
}
