//! Tests of the list, results, failures, progress and log messages of the server's tools.

use neuron_mcp::{LogLevel, McpServer, McpVersion, TraceContext};
use neuron_tool::{ToolRegistry, tool_middleware_fn};
use neuron_types::{
    ContentItem, EmbeddedResource, Extensions, ImageSource, PendingApproval, ResourceLink,
    ToolContext, ToolError, ToolOutput,
};
use serde_json::{Value, json};

use super::{Client, add, code, one, peer, text};

async fn older(tools: ToolRegistry) -> Client {
    Client::older(&McpServer::new(tools), "2025-11-25", json!({})).await
}

#[tokio::test]
async fn server_supports_every_version() {
    let tools =
        one("version", |_, ctx| async move { Ok(ToolOutput::text(peer(&ctx).version().as_str())) });
    let server = McpServer::new(tools);
    for version in McpVersion::ALL.into_iter().filter(|version| version.has_handshake()) {
        let mut client = Client::older(&server, version.as_str(), json!({})).await;
        assert_eq!(text(&client.call("version", json!({})).await), version.as_str());
    }
    let mut client = Client::modern(&server, json!({}));
    assert_eq!(text(&client.call("version", json!({})).await), "2026-07-28");

    let mut client = Client::connect(&server);
    let result = client.initialize("1999-01-01", json!({})).await;
    assert_eq!(result["protocolVersion"], "2025-11-25", "the newest that has a handshake");
    assert_eq!(text(&client.call("version", json!({})).await), "2025-11-25");
    // A second handshake. The version in effect is the negotiated one, not the requested one.
    let result = client.initialize("1999-01-01", json!({})).await;
    assert_eq!(result["protocolVersion"], "2025-11-25");
    assert_eq!(text(&client.call("version", json!({})).await), "2025-11-25");
}

#[tokio::test]
async fn server_reports_its_name_and_capabilities() {
    let server = McpServer::new(ToolRegistry::new())
        .with_name("clock")
        .with_title("The clock")
        .with_version("1.2.3")
        .with_instructions("Ask for the time.");
    let mut client = Client::connect(&server);
    let result = client.initialize("2025-11-25", json!({})).await;
    assert_eq!(
        result["serverInfo"],
        json!({ "name": "clock", "title": "The clock", "version": "1.2.3" })
    );
    assert_eq!(result["instructions"], "Ask for the time.");
    assert_eq!(result["capabilities"], json!({ "logging": {}, "tools": { "listChanged": true } }));

    let mut client = Client::modern(&server, json!({}));
    let result = client.request("server/discover", json!({})).await;
    assert_eq!(result["result"]["supportedVersions"].as_array().map(Vec::len), Some(5), "{result}");
    assert_eq!(result["result"]["capabilities"]["tools"], json!({ "listChanged": true }));
}

#[tokio::test]
async fn call_runs_the_registry_middleware() {
    let mut tools = one("echo", |input, _| async move { Ok(ToolOutput::text(input.to_string())) });
    tools.add_middleware(tool_middleware_fn(|call, ctx, next| {
        Box::pin(async move {
            if call.input["secret"] == true {
                return Err(ToolError::PermissionDenied("not that one".into()));
            }
            next.run(call, ctx).await
        })
    }));
    let mut client = older(tools).await;
    let response = client.call("echo", json!({ "a": 1 })).await;
    assert_eq!(
        response["result"],
        json!({
            "content": [{ "type": "text", "text": "{\"a\":1}" }], "isError": false,
        })
    );
    let response = client.call("echo", json!({ "secret": true })).await;
    assert_eq!(response["result"]["isError"], true);
    assert_eq!(text(&response), "permission denied: not that one");
    let response = client.request("tools/call", json!({ "name": "echo" })).await;
    assert_eq!(text(&response), "{}", "no arguments are an empty object");
}

#[tokio::test]
async fn result_contains_every_kind_of_content() {
    let tools = one("all", |_, _| async move {
        Ok(ToolOutput {
            content: vec![
                ContentItem::Text("t".into()),
                ContentItem::Image {
                    source: ImageSource::Base64 {
                        media_type: "image/png".into(),
                        data: "aQ==".into(),
                    },
                },
                ContentItem::Audio { media_type: "audio/wav".into(), data: "YQ==".into() },
                ContentItem::Resource {
                    resource: EmbeddedResource::text("x://1", "one").with_mime_type("text/plain"),
                },
                ContentItem::Resource { resource: EmbeddedResource::blob("x://2", "Mg==") },
                ContentItem::ResourceLink { resource: ResourceLink::new("x://3", "three") },
            ],
            structured_content: Some(json!({ "n": 1 })),
            is_error: false,
        })
    });
    let response = older(tools).await.call("all", json!({})).await;
    assert_eq!(
        response["result"],
        json!({
            "content": [
                { "type": "text", "text": "t" },
                { "type": "image", "data": "aQ==", "mimeType": "image/png" },
                { "type": "audio", "data": "YQ==", "mimeType": "audio/wav" },
                { "type": "resource", "resource": { "uri": "x://1", "mimeType": "text/plain", "text": "one" } },
                { "type": "resource", "resource": { "uri": "x://2", "blob": "Mg==" } },
                { "type": "resource_link", "uri": "x://3", "name": "three" },
            ],
            "structuredContent": { "n": 1 },
            "isError": false,
        })
    );
}

#[tokio::test]
async fn new_content_kinds_become_text_in_old_versions() {
    let tools = one("new_kinds", |_, _| async move {
        Ok(ToolOutput {
            content: vec![
                ContentItem::Audio { media_type: "audio/wav".into(), data: "YQ==".into() },
                ContentItem::ResourceLink { resource: ResourceLink::new("x://3", "three") },
            ],
            ..ToolOutput::default()
        })
    });
    let server = McpServer::new(tools);
    for (version, kinds) in [
        ("2024-11-05", ["text", "text"]),
        ("2025-03-26", ["audio", "text"]),
        ("2025-06-18", ["audio", "resource_link"]),
    ] {
        let mut client = Client::older(&server, version, json!({})).await;
        let response = client.call("new_kinds", json!({})).await;
        let content = response["result"]["content"].as_array().unwrap();
        assert_eq!([&content[0]["type"], &content[1]["type"]], kinds, "{version}");
        if kinds[1] == "text" {
            assert!(content[1]["text"].as_str().unwrap().contains("x://3"));
        }
    }
}

/// The official TypeScript client rejects the whole result if `structuredContent` is not an object.
#[tokio::test]
async fn structured_content_that_is_no_object_is_omitted_before_2026() {
    let tools = one("list", |_, _| async move {
        Ok(ToolOutput { structured_content: Some(json!([1])), ..ToolOutput::text("[1]") })
    });
    let server = McpServer::new(tools);
    let mut client = Client::older(&server, "2025-11-25", json!({})).await;
    let response = client.call("list", json!({})).await;
    assert_eq!((&response["result"]["structuredContent"], text(&response)), (&Value::Null, "[1]"));
    let response = Client::modern(&server, json!({})).call("list", json!({})).await;
    assert_eq!(response["result"]["structuredContent"], json!([1]));
}

#[tokio::test]
async fn failed_calls_return_an_error_result() {
    #[derive(Debug, thiserror::Error)]
    #[error("the disk is full")]
    struct Full(#[source] std::io::Error);

    let mut tools = ToolRegistry::new();
    add(&mut tools, "retry", |_, _| async { Err(ToolError::ModelRetry("say when".into())) });
    add(&mut tools, "invalid", |_, _| async { Err(ToolError::InvalidInput("no `when`".into())) });
    add(&mut tools, "failed", |_, _| async {
        Err(ToolError::ExecutionFailed(Box::new(Full(std::io::Error::other("no inode")))))
    });
    add(&mut tools, "approval", |_, _| async {
        Err(ToolError::ApprovalRequired(Box::new(PendingApproval::new("run", vec![]))))
    });
    add(&mut tools, "cancelled", |_, _| async { Err(ToolError::Cancelled) });
    add(&mut tools, "panic", |_, _| async { panic!("of the tool") });
    add(&mut tools, "own", |_, _| async { Ok(ToolOutput::error("my own")) });
    let mut client = older(tools).await;
    for (tool, expected) in [
        ("retry", "say when"),
        ("invalid", "invalid input: no `when`"),
        ("failed", "execution failed: the disk is full: no inode"),
        ("approval", "approval"),
        ("cancelled", "cancelled"),
        ("panic", "failed unexpectedly"),
        ("own", "my own"),
    ] {
        let response = client.call(tool, json!({})).await;
        assert_eq!(response["result"]["isError"], true, "{response}");
        assert!(text(&response).contains(expected), "{tool}: {response}");
    }
}

#[tokio::test]
async fn invalid_requests_return_protocol_errors() {
    let mut client = older(one("t", |_, _| async { Ok(ToolOutput::text("")) })).await;
    assert_eq!(code(&client.call("other", json!({})).await), -32602);
    assert_eq!(code(&client.call("t", json!([1])).await), -32602);
    assert_eq!(code(&client.call("t", json!("x")).await), -32602);
    assert_eq!(code(&client.request("tools/call", json!({})).await), -32602);
    assert_eq!(code(&client.request("no/such", json!({})).await), -32601);
    for method in ["resources/list", "resources/read", "prompts/get", "prompts/list"] {
        assert_eq!(code(&client.request(method, json!({})).await), -32601, "{method}");
    }
    assert_eq!(text(&client.call("t", json!({})).await), "", "it goes on");
}

#[tokio::test]
async fn methods_of_other_versions_are_not_found() {
    let server = McpServer::new(ToolRegistry::new());
    let mut client = Client::modern(&server, json!({}));
    client.request("tools/list", json!({})).await;
    for method in ["ping", "logging/setLevel", "resources/subscribe", "resources/unsubscribe"] {
        for params in [json!({}), json!({ "level": "info", "uri": "x://1" })] {
            assert_eq!(code(&client.request(method, params).await), -32601, "{method}");
        }
    }
    let mut client = Client::older(&server, "2025-11-25", json!({})).await;
    let params = json!({ "notifications": { "toolsListChanged": true } });
    assert_eq!(code(&client.request("subscriptions/listen", params).await), -32601);
}

#[tokio::test]
async fn tools_are_listed_in_pages() {
    let mut tools = ToolRegistry::new();
    let names: Vec<String> = (0..5).map(|number| format!("tool_{number}")).collect();
    for name in &names {
        add(&mut tools, name, |_, _| async { Ok(ToolOutput::text("")) });
    }
    let server = McpServer::new(tools).with_page_size(2);
    let mut client = Client::older(&server, "2025-11-25", json!({})).await;
    let (mut seen, mut cursor) = (vec![], Value::Null);
    for size in [2, 2, 1] {
        let params = match &cursor {
            Value::Null => json!({}),
            cursor => json!({ "cursor": cursor }),
        };
        let response = client.request("tools/list", params).await;
        let page = response["result"]["tools"].as_array().unwrap();
        assert_eq!(page.len(), size);
        seen.extend(page.iter().map(|tool| tool["name"].as_str().unwrap().to_owned()));
        cursor = response["result"]["nextCursor"].clone();
    }
    assert_eq!((seen, cursor), (names, Value::Null));
    let response = client.request("tools/list", json!({ "cursor": "nonsense" })).await;
    assert_eq!(code(&response), -32602);
}

#[tokio::test]
async fn server_without_tools_lists_no_tools() {
    let server = McpServer::new(ToolRegistry::new());
    let mut client = Client::older(&server, "2025-11-25", json!({})).await;
    assert_eq!(client.request("tools/list", json!({})).await["result"], json!({ "tools": [] }));
    let mut client = Client::modern(&server, json!({}));
    let result = client.request("tools/list", json!({})).await;
    assert_eq!(
        result["result"],
        json!({
            "resultType": "complete", "tools": [], "ttlMs": 0, "cacheScope": "private",
        })
    );
}

#[tokio::test]
async fn progress_and_log_messages_arrive_in_order_before_the_result() {
    let tools = one("work", |_, ctx| async move {
        let reporter = ctx.progress_reporter.clone().expect("the client asked for progress");
        for step in 0..20_u8 {
            reporter.report(f64::from(step), Some(20.0), Some("working"));
            peer(&ctx).log(LogLevel::Info, Some("worker"), format!("step {step}"));
            if step % 5 == 0 {
                tokio::task::yield_now().await;
            }
        }
        // The server drops progress that does not increase.
        reporter.report(3.0, None, None);
        reporter.report(f64::NAN, None, None);
        Ok(ToolOutput::text("done"))
    });
    let server = McpServer::new(tools);
    let mut client = Client::older(&server, "2025-11-25", json!({})).await;
    let params = json!({ "name": "work", "arguments": {}, "_meta": { "progressToken": "p" } });
    let id = client.begin("tools/call", params).await;
    for step in 0..20 {
        let progress = client.receive().await;
        assert_eq!(progress["method"], "notifications/progress");
        assert_eq!(
            progress["params"],
            json!({
                "progressToken": "p", "progress": f64::from(step), "total": 20.0, "message": "working",
            })
        );
        let log = client.receive().await;
        assert_eq!(
            log["params"],
            json!({
                "level": "info", "logger": "worker", "data": format!("step {step}"),
            })
        );
    }
    let response = client.receive().await;
    assert_eq!((response["id"].as_u64(), text(&response)), (Some(id), "done"));
}

#[tokio::test]
async fn progress_reporter_requires_a_progress_token() {
    let tools = one("t", |_, ctx| async move {
        Ok(ToolOutput::text(ctx.progress_reporter.is_some().to_string()))
    });
    assert_eq!(text(&older(tools).await.call("t", json!({})).await), "false");
}

#[tokio::test]
async fn queued_progress_is_bounded() {
    let tools = one("flood", |_, ctx| async move {
        let reporter = ctx.progress_reporter.clone().unwrap();
        for step in 0..100_000_u32 {
            reporter.report(step.into(), None, None);
        }
        Ok(ToolOutput::text("done"))
    });
    let mut client = older(tools).await;
    let params = json!({ "name": "flood", "arguments": {}, "_meta": { "progressToken": 7 } });
    let response = client.request("tools/call", params).await;
    assert_eq!(text(&response), "done");
    assert!(client.heard.len() <= 256, "{}", client.heard.len());
    let last = client.heard.back().expect("some progress");
    assert_eq!(last["params"]["progress"], 99_999.0, "the newest wins");
}

#[tokio::test]
async fn client_that_does_not_read_does_not_block_a_tool() {
    let (done, is_done) = tokio::sync::oneshot::channel();
    let done = std::sync::Mutex::new(Some(done));
    let tools = one("flood", move |_, ctx| {
        let done = done.lock().unwrap().take().unwrap();
        async move {
            let reporter = ctx.progress_reporter.clone().unwrap();
            for step in 0..20_000_u32 {
                reporter.report(
                    step.into(),
                    None,
                    Some("a message of some length, to fill the pipe"),
                );
                tokio::task::yield_now().await;
            }
            done.send(()).unwrap();
            Ok(ToolOutput::text("done"))
        }
    });
    let mut client = older(tools).await;
    let params = json!({ "name": "flood", "arguments": {}, "_meta": { "progressToken": 7 } });
    let id = client.begin("tools/call", params).await;
    tokio::time::timeout(super::LIMIT, is_done).await.expect("the tool ends").unwrap();
    assert_eq!(text(&client.response(id).await), "done");
    let steps: Vec<f64> =
        client.heard.iter().map(|heard| heard["params"]["progress"].as_f64().unwrap()).collect();
    assert!(steps.len() < 5000 && steps.is_sorted(), "{}", steps.len());
    assert_eq!(steps.last(), Some(&19_999.0));
}

#[tokio::test]
async fn log_level_filters_log_messages() {
    let tools = one("log", |_, ctx| async move {
        for level in [LogLevel::Debug, LogLevel::Info, LogLevel::Warning, LogLevel::Emergency] {
            peer(&ctx).log(level, None, json!({ "n": 1 }));
        }
        Ok(ToolOutput::text(""))
    });
    let server = McpServer::new(tools);
    let mut client = Client::older(&server, "2025-11-25", json!({})).await;
    let levels = |client: &mut Client| -> Vec<String> {
        let level = |message: Value| message["params"]["level"].as_str().unwrap().to_owned();
        client.heard.drain(..).map(level).collect()
    };
    client.call("log", json!({})).await;
    assert_eq!(levels(&mut client), ["info", "warning", "emergency"]);
    client.request("logging/setLevel", json!({ "level": "error" })).await;
    client.call("log", json!({})).await;
    assert_eq!(levels(&mut client), ["emergency"]);
    client.request("logging/setLevel", json!({ "level": "debug" })).await;
    client.call("log", json!({})).await;
    assert_eq!(levels(&mut client).len(), 4);
    assert_eq!(code(&client.request("logging/setLevel", json!({ "level": "loud" })).await), -32602);

    // Since 2026-07-28 each request sets its own log level. Without a level the server sends no log messages.
    let mut client = Client::modern(&server, json!({}));
    client.call("log", json!({})).await;
    assert_eq!(levels(&mut client), [""; 0]);
    let meta = json!({ "io.modelcontextprotocol/logLevel": "warning" });
    let params = json!({ "name": "log", "arguments": {}, "_meta": meta });
    client.request("tools/call", params).await;
    assert_eq!(levels(&mut client), ["warning", "emergency"]);
}

#[tokio::test]
async fn tool_context_has_template_trace_and_call_id() {
    #[derive(Debug)]
    struct Tenant(u32);

    let tools = one("context", |_, ctx| async move {
        let trace = ctx.extensions.get::<TraceContext>();
        let client = peer(&ctx).client_info().unwrap();
        Ok(ToolOutput::text(
            json!([
                ctx.cwd,
                ctx.environment["A"],
                ctx.extensions.get::<Tenant>().unwrap().0,
                trace.map(|trace| (&trace.traceparent, &trace.tracestate)),
                client.name,
                ctx.call_id == ctx.run_id && ctx.call_id == ctx.idempotency_key,
                ctx.call_id,
            ])
            .to_string(),
        ))
    });
    let mut extensions = Extensions::default();
    extensions.insert(Tenant(7));
    let context = ToolContext {
        cwd: "/somewhere".into(),
        environment: [("A".to_owned(), "hunter2".to_owned())].into(),
        extensions,
        ..ToolContext::default()
    };
    let server =
        McpServer::new(tools).with_tool_context(context).with_state_key("hunter2".repeat(9));
    assert!(!format!("{server:?}").contains("hunter2"));
    let mut client = Client::older(&server, "2025-11-25", json!({})).await;
    let meta = json!({ "traceparent": "00-ab-cd-01", "tracestate": "v=1" });
    let params = json!({ "name": "context", "arguments": {}, "_meta": meta });
    let response = client.request("tools/call", params).await;
    let first: Value = serde_json::from_str(text(&response)).unwrap();
    assert_eq!(
        first.as_array().unwrap()[..6],
        json!(["/somewhere", "hunter2", 7, ["00-ab-cd-01", "v=1"], "raw", true])
            .as_array()
            .unwrap()[..]
    );
    let second: Value =
        serde_json::from_str(text(&client.call("context", json!({})).await)).unwrap();
    assert_eq!(second[3], Value::Null);
    assert_ne!(first[6], second[6], "every call has an id of its own");
}
