//! Tests of the client's requests and of the errors that they return.

use std::collections::HashMap;

use neuron_mcp::{
    CompletionQuery, CompletionTarget, LogLevel, McpClient, McpError, McpRequestError, McpRoot,
};
use neuron_types::{Role, ToolContext};
use serde_json::{Value, json};

use super::{connected, connected_to, connected_to_modern};
use crate::script::{Script, said, text};

/// Responds to one request, which must have this method. Returns the request.
async fn serve(server: &mut Script, method: &str, result: Value) -> Value {
    let request = server.expect(method).await;
    server.reply(&request, result).await;
    request
}

#[tokio::test]
async fn resource_contents_are_read() {
    let (client, mut server) = connected(McpClient::builder()).await;
    let result = json!({ "contents": [
        { "uri": "file:///a", "mimeType": "text/plain", "text": "A" },
        { "uri": "file:///b", "blob": "Qg==" },
    ] });
    let (read, request) = tokio::join!(
        client.read_resource("file:///a"),
        serve(&mut server, "resources/read", result)
    );
    assert_eq!(request["params"]["uri"], "file:///a");
    let contents = read.unwrap();
    assert_eq!(contents[0].text.as_deref(), Some("A"));
    assert_eq!(contents[1].blob.as_deref(), Some("Qg=="));
}

#[tokio::test]
async fn prompt_is_filled_with_arguments() {
    let (client, mut server) = connected(McpClient::builder()).await;
    let result = json!({ "messages": [
        { "role": "assistant", "content": { "type": "text", "text": "Hello" } },
    ] });
    let arguments = HashMap::from([("name".to_owned(), "Ann".to_owned())]);
    let (got, request) = tokio::join!(
        client.get_prompt("greet", arguments),
        serve(&mut server, "prompts/get", result)
    );
    assert_eq!(request["params"]["name"], "greet");
    assert_eq!(request["params"]["arguments"], json!({ "name": "Ann" }));
    assert_eq!(got.unwrap().messages.len(), 1);
}

/// The SDK rejects a whole result with one odd member. The tool ran, so nothing of its result may be lost.
#[tokio::test]
async fn tool_result_with_an_odd_member_is_read() {
    let odd = [
        (json!({ "type": "text", "text": "b", "annotations": { "audience": ["tool"] } }), "ab"),
        (json!({ "type": "text", "text": 1 }), "a1"),
        (json!({ "type": "chart", "x": 1 }), r#"a{"type":"chart","x":1}"#),
        (json!("b"), "ab"),
    ];
    for version in ["", "complete"] {
        for (block, expected) in &odd {
            let (client, mut server) = match version {
                "" => connected(McpClient::builder()).await,
                _ => connected_to_modern(McpClient::builder(), json!({ "tools": {} })).await,
            };
            let mut result = json!({
                "content": [{ "type": "text", "text": "a" }, block],
                "structuredContent": { "a": 1 },
                "isError": true,
            });
            if !version.is_empty() {
                result["resultType"] = json!(version);
            }
            let (output, _) = tokio::join!(
                client.call_tool_json("t", json!({})),
                serve(&mut server, "tools/call", result)
            );
            let output = output.unwrap();
            assert_eq!(text(&output), *expected);
            assert!(output.is_error && output.structured_content == Some(json!({ "a": 1 })));
        }
    }
}

#[tokio::test]
async fn tool_result_without_content_tells_that_the_tool_ran() {
    let (client, mut server) = connected(McpClient::builder()).await;
    for result in [json!({ "output": "x" }), json!({ "contents": [] })] {
        let (output, _) = tokio::join!(
            client.call_tool_json("pay", json!({})),
            serve(&mut server, "tools/call", result)
        );
        let error = output.unwrap_err().to_string();
        assert!(
            error.contains("the tool `pay` ran, but the server's result cannot be read"),
            "{error}"
        );
    }
}

#[tokio::test]
async fn odd_members_of_prompts_resources_and_lists_are_read() {
    let (client, mut server) = connected(McpClient::builder()).await;
    let odd = json!({ "type": "text", "text": 1 });
    let result = json!({ "description": "d", "messages": [
        { "role": "assistant", "content": { "type": "text", "text": "a" } },
        { "role": "system", "content": [odd, { "type": "text", "text": "b" }] },
    ] });
    let (prompt, _) = tokio::join!(
        client.get_prompt("p", HashMap::new()),
        serve(&mut server, "prompts/get", result)
    );
    let prompt = prompt.unwrap();
    let messages =
        prompt.messages.iter().map(|message| (message.role, message.content.to_string()));
    let expected = [(Role::Assistant, "a"), (Role::User, "1"), (Role::User, "b")];
    assert!(messages.eq(expected.map(|(role, text)| (role, text.to_owned()))), "{prompt:?}");

    let result = json!({ "contents": [{ "text": "a" }, { "uri": "b:c", "text": "b" }] });
    let (contents, _) =
        tokio::join!(client.read_resource("a:a"), serve(&mut server, "resources/read", result));
    let contents = contents.unwrap();
    let read = contents.iter().map(|it| (it.uri.as_str(), it.text.as_deref().unwrap()));
    assert!(read.eq([("a:a", "a"), ("b:c", "b")]), "{contents:?}");

    let icons = json!({ "uri": "a:a", "name": "a", "icons": "i.png" });
    let result = json!({ "resources": [icons, { "name": "b" }, { "uri": "c:c", "name": "c" }] });
    let (page, _) =
        tokio::join!(client.list_resources(None), serve(&mut server, "resources/list", result));
    let page = page.unwrap();
    let names: Vec<_> = page.items.iter().map(|item| item.name.as_str()).collect();
    assert_eq!(names, ["a", "c"]);
    let result =
        json!({ "prompts": [{ "name": "a", "arguments": 1 }, { "name": "b" }], "nextCursor": "n" });
    let (page, _) =
        tokio::join!(client.list_prompts(None), serve(&mut server, "prompts/list", result));
    let page = page.unwrap();
    assert_eq!((page.items.len(), page.next_cursor.as_deref()), (1, Some("n")));
}

#[tokio::test]
async fn argument_is_completed() {
    let (client, mut server) = connected(McpClient::builder()).await;
    let query = CompletionQuery {
        target: CompletionTarget::Prompt("greet".into()),
        argument: "name".into(),
        value: "A".into(),
        context: vec![],
    };
    let result = json!({ "completion": { "values": ["Ann", "Abe"], "hasMore": false } });
    let (completion, request) =
        tokio::join!(client.complete(query), serve(&mut server, "completion/complete", result));
    assert_eq!(request["params"]["argument"], json!({ "name": "name", "value": "A" }));
    assert_eq!(completion.unwrap().values, ["Ann", "Abe"]);
}

#[tokio::test]
async fn ping_works_in_every_version() {
    let (client, mut server) = connected(McpClient::builder()).await;
    let (alive, _) = tokio::join!(client.ping(), serve(&mut server, "ping", json!({})));
    alive.unwrap();
    let (client, mut server) = connected_to_modern(McpClient::builder(), json!({})).await;
    let (alive, _) = tokio::join!(client.ping(), server.tell_versions(json!({})));
    alive.unwrap();
}

#[tokio::test]
async fn log_levels_and_subscriptions_are_requests_in_older_versions() {
    let (client, mut server) = connected(McpClient::builder()).await;
    let (done, request) = tokio::join!(
        client.set_log_level(LogLevel::Warning),
        serve(&mut server, "logging/setLevel", json!({}))
    );
    done.unwrap();
    assert_eq!(request["params"]["level"], "warning");
    let (done, request) = tokio::join!(
        client.subscribe("file:///a"),
        serve(&mut server, "resources/subscribe", json!({}))
    );
    done.unwrap();
    assert_eq!(request["params"]["uri"], "file:///a");
    // A second subscription to the same resource sends no request.
    client.subscribe("file:///a").await.unwrap();
    let (done, _) = tokio::join!(
        client.unsubscribe("file:///a"),
        serve(&mut server, "resources/unsubscribe", json!({}))
    );
    done.unwrap();
    client.unsubscribe("file:///a").await.unwrap();
}

#[tokio::test]
async fn refused_subscription_is_requested_again() {
    let (client, mut server) = connected(McpClient::builder()).await;
    for _ in 0..2 {
        let serving = async {
            let request = server.expect("resources/subscribe").await;
            server.refuse(&request, -32601, "no subscriptions").await;
        };
        let (done, ()) = tokio::join!(client.subscribe("file:///a"), serving);
        done.unwrap_err();
    }
}

#[tokio::test]
async fn dropped_subscription_is_requested_again() {
    let (client, mut server) = connected(McpClient::builder()).await;
    tokio::select! {
        biased;
        done = client.subscribe("file:///a") => panic!("{done:?}"),
        _ = server.expect("resources/subscribe") => {}
    }
    let serving = async {
        // The cancellation of the dropped request may arrive before or after the new request.
        for _ in 0..2 {
            let message = server.next().await.unwrap();
            match message["method"].as_str() {
                Some("resources/subscribe") => server.reply(&message, json!({})).await,
                method => assert_eq!(method, Some("notifications/cancelled")),
            }
        }
    };
    let (done, ()) = tokio::join!(client.subscribe("file:///a"), serving);
    done.unwrap();
}

#[tokio::test]
async fn concurrent_subscriptions_are_requested_separately() {
    let (client, mut server) = connected(McpClient::builder()).await;
    let serving = async {
        for _ in 0..2 {
            let request = server.expect("resources/subscribe").await;
            server.refuse(&request, -32602, "no such resource").await;
        }
    };
    let (first, second, ()) =
        tokio::join!(client.subscribe("file:///a"), client.subscribe("file:///a"), serving);
    first.unwrap_err();
    second.unwrap_err();
}

#[tokio::test(start_paused = true)]
async fn timed_out_unsubscription_is_requested_again() {
    let (client, mut server) = connected(McpClient::builder()).await;
    let (done, _) = tokio::join!(
        client.subscribe("file:///a"),
        serve(&mut server, "resources/subscribe", json!({}))
    );
    done.unwrap();
    let (late, _) =
        tokio::join!(client.unsubscribe("file:///a"), server.expect("resources/unsubscribe"));
    late.unwrap_err();
    server.expect("notifications/cancelled").await;
    let refusing = async {
        let request = server.expect("resources/unsubscribe").await;
        server.refuse(&request, -32602, "there is none").await;
    };
    let (refused, ()) = tokio::join!(client.unsubscribe("file:///a"), refusing);
    refused.unwrap_err();
    client.unsubscribe("file:///a").await.unwrap();
}

#[tokio::test]
async fn log_level_of_the_builder_is_set_while_connecting() {
    let (mut server, reader, writer) = Script::new();
    let builder = McpClient::builder().log_level(LogLevel::Debug);
    let serving = async {
        server.shake_hands("2025-11-25", json!({ "logging": {} })).await;
        serve(&mut server, "logging/setLevel", json!({})).await
    };
    let (client, request) = tokio::join!(builder.connect_io(reader, writer), serving);
    client.unwrap();
    assert_eq!(request["params"]["level"], "debug");
}

#[tokio::test]
async fn request_carries_the_log_level_since_2026() {
    let builder = McpClient::builder().log_level(LogLevel::Debug);
    let (client, mut server) = connected_to_modern(builder, json!({ "logging": {} })).await;
    for level in ["debug", "error"] {
        let (output, call) = tokio::join!(
            client.call_tool_json("greet", Value::Null),
            serve(&mut server, "tools/call", said("hello"))
        );
        output.unwrap();
        assert_eq!(call["params"]["_meta"]["io.modelcontextprotocol/logLevel"], level, "{call}");
        client.set_log_level(LogLevel::Error).await.unwrap();
    }
}

#[tokio::test]
async fn replaced_roots_are_announced_to_the_server() {
    let builder = McpClient::builder().roots(vec![]);
    let (client, mut server) = connected(builder).await;
    client.set_roots(vec![McpRoot::new("file:///work").with_name("Work")]).await.unwrap();
    server.expect("notifications/roots/list_changed").await;
    server.ask("q1", "roots/list", json!({})).await;
    let answer = server.next().await.unwrap();
    assert_eq!(answer["result"]["roots"], json!([{ "uri": "file:///work", "name": "Work" }]));
}

#[tokio::test]
async fn undeclared_roots_cannot_be_set() {
    let (client, _server) = connected(McpClient::builder()).await;
    let error = client.set_roots(vec![]).await.unwrap_err();
    assert!(error.to_string().contains("builder"), "{error}");
}

#[tokio::test]
async fn request_error_keeps_code_and_data() {
    let (client, mut server) = connected(McpClient::builder()).await;
    let serving = async {
        let request = server.expect("resources/read").await;
        let error = json!({ "code": -32002, "message": "gone", "data": { "uri": "file:///a" } });
        server.send(json!({ "jsonrpc": "2.0", "id": request["id"], "error": error })).await;
    };
    let (read, ()) = tokio::join!(client.read_resource("file:///a"), serving);
    let McpError::Other(error) = read.unwrap_err() else { panic!("another error") };
    let error = error.downcast_ref::<McpRequestError>().unwrap();
    assert_eq!((error.method.as_str(), error.code), ("resources/read", -32002));
    assert_eq!(error.data, Some(json!({ "uri": "file:///a" })));
}

#[tokio::test]
async fn result_of_the_wrong_shape_is_an_error() {
    let (client, mut server) = connected(McpClient::builder()).await;
    let result = json!({ "roots": [], "tools": 7 });
    let (list, _) = tokio::join!(client.list_tools(None), serve(&mut server, "tools/list", result));
    assert!(matches!(list.unwrap_err(), McpError::Transport(_)));
}

#[tokio::test]
async fn arguments_that_are_no_object_are_an_error() {
    let (client, _server) = connected(McpClient::builder()).await;
    let error = client.call_tool_json("greet", json!([1])).await.unwrap_err();
    assert!(matches!(error, McpError::ToolCall(_)), "{error}");
}

#[tokio::test]
async fn trace_context_is_sent_in_meta() {
    let (client, mut server) = connected(McpClient::builder()).await;
    let mut ctx = ToolContext::default();
    let mut trace = neuron_mcp::TraceContext::new("00-1-2-01");
    trace.baggage = Some("user=1".to_owned());
    ctx.extensions.insert(trace);
    let (output, call) = tokio::join!(
        client.call_tool_in("greet", Value::Null, &ctx),
        serve(&mut server, "tools/call", said("hello"))
    );
    output.unwrap();
    let meta = &call["params"]["_meta"];
    assert_eq!(meta["traceparent"], "00-1-2-01", "{call}");
    assert_eq!(meta["baggage"], "user=1");
    assert_eq!(meta.get("tracestate"), None);
}

#[tokio::test]
async fn broken_frames_are_skipped() {
    let (client, mut server) = connected_to(McpClient::builder(), json!({ "tools": {} })).await;
    let serving = async {
        let call = server.expect("tools/call").await;
        for broken in ["", "not json", "{}", "[1, 2", r#"{"jsonrpc":"2.0"}"#] {
            server.send_text(broken).await;
        }
        server.notify("notifications/made/up", json!({ "x": 1 })).await;
        // A response with an unknown id.
        server.send(json!({ "jsonrpc": "2.0", "id": 999, "result": {} })).await;
        server.reply(&call, said("hello")).await;
        // Return the server to keep the connection open. The client may send error responses to the broken frames.
        server
    };
    let (output, _server) = tokio::join!(client.call_tool_json("greet", Value::Null), serving);
    assert_eq!(text(&output.unwrap()), "hello");
}

#[tokio::test]
async fn responses_in_any_order_reach_their_requests() {
    let (client, mut server) = connected(McpClient::builder()).await;
    let calling = futures_util::future::join_all(
        (0..50).map(|number| client.call_tool_json("echo", json!({ "number": number }))),
    );
    let serving = async {
        let mut calls = Vec::new();
        for _ in 0..50 {
            calls.push(server.expect("tools/call").await);
        }
        for call in calls.iter().rev() {
            let number = call["params"]["arguments"]["number"].to_string();
            server.reply(call, said(&number)).await;
        }
    };
    let (outputs, ()) = tokio::join!(calling, serving);
    for (number, output) in outputs.into_iter().enumerate() {
        assert_eq!(text(&output.unwrap()), number.to_string());
    }
}

#[tokio::test]
async fn missing_header_error_lists_tools_and_retries_once() {
    let (client, mut server) = connected_to_modern(McpClient::builder(), json!({})).await;
    let serving = async {
        let call = server.expect("tools/call").await;
        server.refuse(&call, -32020, "Mcp-Param-Region is missing").await;
        serve(&mut server, "tools/list", json!({ "tools": [], "nextCursor": "b" })).await;
        serve(&mut server, "tools/list", json!({ "tools": [] })).await;
        let call = server.expect("tools/call").await;
        server.refuse(&call, -32020, "Mcp-Param-Region is missing").await;
    };
    let (output, ()) = tokio::join!(client.call_tool_json("greet", Value::Null), serving);
    assert!(output.unwrap_err().to_string().contains("Mcp-Param-Region"));
}

#[tokio::test]
async fn cancelled_call_is_not_sent() {
    let (client, mut server) = connected(McpClient::builder()).await;
    let ctx = ToolContext::default();
    ctx.cancellation_token.cancel();
    client.call_tool_in("greet", Value::Null, &ctx).await.unwrap_err();
    let (alive, _) = tokio::join!(client.ping(), serve(&mut server, "ping", json!({})));
    alive.unwrap();
}
