//! Tests of panics in tools and middleware.

use std::sync::{Arc, Mutex};

use neuron_tool::{ToolRegistry, tool_middleware_fn};
use neuron_types::{ToolEffect, ToolOutput};
use serde_json::{Value, json};

use crate::support::{async_tool, definition, echo, registry, run};

/// Creates a registry with three tools that panic and the tool `fine`, which does not. The tool `called` panics before
/// it returns its future, `polled` at the first poll of the future, and `waited` at a later poll.
fn panicking() -> ToolRegistry {
    let tool = |name, call: fn(&Value)| {
        async_tool(definition(name), ToolEffect::AtMostOnce, move |input, _| {
            if name == "called" {
                call(&input);
            }
            Box::pin(async move {
                if name == "waited" {
                    tokio::task::yield_now().await;
                }
                call(&input);
                Ok(ToolOutput::default())
            })
        })
    };
    registry([
        tool("called", |_| panic!("the key is hunter2")),
        tool("polled", |input| panic!("the key is {input}")),
        tool("waited", |_| std::panic::panic_any(7)),
        echo("fine"),
    ])
}

#[tokio::test]
async fn panic_becomes_an_error_without_its_message() {
    let mut registry = panicking();
    for with_middleware in [false, true] {
        for name in ["called", "polled", "waited"] {
            let output = run(&registry, name, json!("hunter2")).await.unwrap();
            let text =
                format!("`{name}` failed unexpectedly; whether the call took effect is unknown");
            assert_eq!(output, ToolOutput::error(text), "{with_middleware}");
        }
        // Other calls still work after the panic.
        assert_eq!(run(&registry, "fine", json!(1)).await.unwrap(), ToolOutput::text("1"));
        registry.add_middleware(tool_middleware_fn(|call, ctx, next| next.run(call, ctx)));
    }
}

#[tokio::test]
async fn middleware_receives_the_result_of_a_panicked_call() {
    let ends = Arc::new(Mutex::new(Vec::new()));
    let log = ends.clone();
    let mut registry = panicking();
    registry.add_middleware(tool_middleware_fn(move |call, ctx, next| {
        let log = log.clone();
        Box::pin(async move {
            let result = next.run(call, ctx).await;
            log.lock().unwrap().push(result.as_ref().map(|output| output.is_error).ok());
            result
        })
    }));
    for name in ["called", "polled", "waited", "fine"] {
        run(&registry, name, json!(1)).await.unwrap();
    }
    assert_eq!(*ends.lock().unwrap(), [Some(true), Some(true), Some(true), Some(false)]);
}

#[tokio::test]
async fn panic_in_middleware_is_caught() {
    let mut registry = registry([echo("fine"), echo("other")]);
    registry.add_tool_middleware("fine", tool_middleware_fn(|_, _, _| panic!("called")));
    registry.add_tool_middleware(
        "other",
        tool_middleware_fn(|call, ctx, next| {
            Box::pin(async move {
                next.run(call, ctx).await?;
                panic!("after the tool")
            })
        }),
    );
    for name in ["fine", "other"] {
        assert!(run(&registry, name, json!({})).await.unwrap().is_error);
    }
}
