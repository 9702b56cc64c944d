//! Tests of elicitation, sampling and roots before protocol version 2026-07-28. The server then sends a separate
//! JSON-RPC request to the client during the call.

use std::time::Duration;

use neuron_mcp::{
    ElicitationRequest, ElicitationResponse, InputRequest, McpServer, SamplingRequest,
};
use neuron_tool::ToolRegistry;
use neuron_types::{Message, ToolDefinition, ToolError, ToolOutput};
use serde_json::{Value, json};

use super::{Client, add, peer, text};

/// Returns the capabilities of a client that supports elicitation, sampling and roots.
fn everything() -> Value {
    json!({ "elicitation": { "form": {}, "url": {} }, "sampling": {}, "roots": {} })
}

fn name_form() -> ElicitationRequest {
    let schema = json!({
        "type": "object", "properties": { "name": { "type": "string" } }, "required": ["name"],
    });
    ElicitationRequest::form("Your name?", schema)
}

fn greeting() -> SamplingRequest {
    SamplingRequest { messages: vec![Message::user("Hi")], max_tokens: 9, ..Default::default() }
}

fn tools() -> ToolRegistry {
    let mut tools = ToolRegistry::new();
    add(&mut tools, "form", |_, ctx| async move {
        let first = peer(&ctx).elicit("name", name_form()).await?;
        let again = peer(&ctx).elicit("name", name_form()).await?;
        assert_eq!(first, again, "the same key has the same answer");
        Ok(ToolOutput::text(format!("{first:?}")))
    });
    add(&mut tools, "url", |_, ctx| async move {
        let request = ElicitationRequest::url("Log in", "https://example.com", "e1");
        let response = peer(&ctx).elicit("login", request).await?;
        peer(&ctx).elicitation_completed("e1");
        Ok(ToolOutput::text(format!("{}", response == ElicitationResponse::Accept(Value::Null))))
    });
    add(&mut tools, "sample", |_, ctx| async move {
        let response = peer(&ctx).sample("greeting", greeting()).await?;
        Ok(ToolOutput::text(format!("{} by {}", response.message.text(), response.model)))
    });
    add(&mut tools, "sample_with_tools", |_, ctx| async move {
        let tool = ToolDefinition {
            name: "t".into(),
            title: None,
            description: String::new(),
            input_schema: json!({ "type": "object" }),
            output_schema: None,
            annotations: None,
            cache_control: None,
        };
        let request = SamplingRequest { tools: vec![tool], ..greeting() };
        peer(&ctx).sample("greeting", request).await?;
        Ok(ToolOutput::text(""))
    });
    add(&mut tools, "roots", |_, ctx| async move {
        let roots = peer(&ctx).roots("roots").await?;
        Ok(ToolOutput::text(format!("{roots:?}")))
    });
    add(&mut tools, "all", |_, ctx| async move {
        let answers = peer(&ctx)
            .ask([
                ("name", InputRequest::from(name_form())),
                ("greeting", greeting().into()),
                ("roots", InputRequest::Roots),
            ])
            .await?;
        assert!(answers.elicitation("greeting").is_none(), "that was another question");
        Ok(ToolOutput::text(format!(
            "{} {} {}",
            answers.elicitation("name").is_some(),
            answers.sampling("greeting").is_some(),
            answers.roots("roots").map_or(0, <[_]>::len),
        )))
    });
    add(&mut tools, "bad_schema", |_, ctx| async move {
        let schema = json!({ "type": "object", "properties": { "x": { "type": "object" } } });
        peer(&ctx).elicit("x", ElicitationRequest::form("?", schema)).await?;
        Ok(ToolOutput::text(""))
    });
    add(&mut tools, "gives_up", |_, ctx| async move {
        let peer = peer(&ctx);
        let asked = peer.roots("roots");
        tokio::select! {
            _ = asked => Err(ToolError::Cancelled),
            () = tokio::time::sleep(Duration::from_millis(1)) => Ok(ToolOutput::text("gave up")),
        }
    });
    tools
}

async fn client(capabilities: Value) -> Client {
    Client::older(&McpServer::new(tools()), "2025-11-25", capabilities).await
}

/// Calls a tool that sends a request with the method `method` to the client. Responds to the request with `result`.
/// Returns the server's response to the tool call.
async fn answered(client: &mut Client, tool: &str, method: &str, result: Value) -> Value {
    let id = client.begin("tools/call", json!({ "name": tool })).await;
    let asked = client.hear(method).await;
    client.send(json!({ "jsonrpc": "2.0", "id": asked["id"], "result": result })).await;
    client.response(id).await
}

/// Returns the client's response to a sampling request.
fn sampled(text: &str) -> Value {
    json!({ "role": "assistant", "content": { "type": "text", "text": text }, "model": "m" })
}

#[tokio::test]
async fn every_kind_of_question_gets_its_answer() {
    let mut client = client(everything()).await;
    let accepted = json!({ "action": "accept", "content": { "name": "Ada" } });
    let response = answered(&mut client, "form", "elicitation/create", accepted).await;
    assert_eq!(text(&response), r#"Accept(Object {"name": String("Ada")})"#);
    for action in ["decline", "cancel"] {
        let refused = json!({ "action": action });
        let response = answered(&mut client, "form", "elicitation/create", refused).await;
        assert_eq!(text(&response).to_lowercase(), action);
    }
    let accepted = json!({ "action": "accept" });
    let response = answered(&mut client, "url", "elicitation/create", accepted).await;
    assert_eq!(text(&response), "true");
    let told = client.hear("notifications/elicitation/complete").await;
    assert_eq!(told["params"], json!({ "elicitationId": "e1" }));
    let response =
        answered(&mut client, "sample", "sampling/createMessage", sampled("Hello")).await;
    assert_eq!(text(&response), "Hello by m");
    let roots = json!({ "roots": [{ "uri": "file:///a", "name": "A" }] });
    let response = answered(&mut client, "roots", "roots/list", roots).await;
    assert_eq!(text(&response), r#"[McpRoot { uri: "file:///a", name: Some("A") }]"#);
}

#[tokio::test]
async fn several_questions_are_sent_concurrently() {
    let mut client = client(everything()).await;
    let id = client.begin("tools/call", json!({ "name": "all" })).await;
    // All three requests arrive before the client responds to any of them.
    let roots = client.hear("roots/list").await;
    let sampling = client.hear("sampling/createMessage").await;
    let form = client.hear("elicitation/create").await;
    assert_eq!(sampling["params"]["maxTokens"], 9);
    assert_eq!(form["params"]["requestedSchema"]["required"], json!(["name"]));
    for (asked, result) in [
        (roots, json!({ "roots": [] })),
        (sampling, sampled("x")),
        (form, json!({ "action": "accept", "content": { "name": "Ada" } })),
    ] {
        client.send(json!({ "jsonrpc": "2.0", "id": asked["id"], "result": result })).await;
    }
    assert_eq!(text(&client.response(id).await), "true true 0");
}

#[tokio::test]
async fn client_without_the_capability_is_not_asked() {
    let mut nothing = client(json!({})).await;
    for tool in ["form", "url", "sample", "roots", "all"] {
        let response = nothing.call(tool, json!({})).await;
        assert_eq!(response["result"]["isError"], true, "{response}");
        assert!(text(&response).contains("has not declared"), "{response}");
    }
    assert!(nothing.heard.is_empty(), "{:?}", nothing.heard);

    // A client that declares `elicitation` without a mode supports forms.
    let mut forms = client(json!({ "elicitation": {}, "sampling": {} })).await;
    for tool in ["url", "sample_with_tools"] {
        assert!(text(&forms.call(tool, json!({})).await).contains("has not declared"));
    }
    let accepted = json!({ "action": "accept", "content": { "name": "Ada" } });
    answered(&mut forms, "form", "elicitation/create", accepted).await;
    let mut urls = client(json!({ "elicitation": { "url": {} } })).await;
    assert!(text(&urls.call("form", json!({})).await).contains("has not declared"));
}

#[tokio::test]
async fn client_error_fails_the_tool_call() {
    let mut client = client(everything()).await;
    let id = client.begin("tools/call", json!({ "name": "sample" })).await;
    let asked = client.hear("sampling/createMessage").await;
    let error = json!({ "code": -1, "message": "the user said no" });
    client.send(json!({ "jsonrpc": "2.0", "id": asked["id"], "error": error })).await;
    let response = client.response(id).await;
    assert_eq!(response["result"]["isError"], true);
    assert!(text(&response).contains("the user said no"), "{response}");
}

#[tokio::test]
async fn question_is_sent_up_to_three_times_until_the_answer_is_valid() {
    let mut client = client(everything()).await;
    let id = client.begin("tools/call", json!({ "name": "form" })).await;
    for result in [
        json!({ "action": "accept", "content": {} }),
        json!({ "action": "accept", "content": { "name": 7 } }),
        json!({ "action": "accept", "content": { "name": "Ada" } }),
    ] {
        let asked = client.hear("elicitation/create").await;
        client.send(json!({ "jsonrpc": "2.0", "id": asked["id"], "result": result })).await;
    }
    assert!(text(&client.response(id).await).contains("Ada"));

    let id = client.begin("tools/call", json!({ "name": "form" })).await;
    for _ in 0..3 {
        let asked = client.hear("elicitation/create").await;
        let result = json!({ "roots": [] });
        client.send(json!({ "jsonrpc": "2.0", "id": asked["id"], "result": result })).await;
    }
    let response = client.response(id).await;
    assert!(text(&response).contains("response to the request `name` is invalid"), "{response}");
}

#[tokio::test]
async fn invalid_form_schema_fails_the_tool_call() {
    let mut client = client(everything()).await;
    let response = client.call("bad_schema", json!({})).await;
    assert!(text(&response).contains("the request `x` to the client is invalid"), "{response}");
    assert!(client.heard.is_empty());
}

#[tokio::test(start_paused = true)]
async fn unanswered_question_fails_after_the_input_timeout() {
    let server = McpServer::new(tools()).with_input_timeout(Duration::from_secs(5));
    let mut client = Client::older(&server, "2025-11-25", everything()).await;
    let id = client.begin("tools/call", json!({ "name": "roots" })).await;
    let asked = client.hear("roots/list").await;
    let response = client.response(id).await;
    assert!(text(&response).contains("did not respond to the request `roots` within 5 s"));
    let cancelled = client.hear("notifications/cancelled").await;
    assert_eq!(cancelled["params"]["requestId"], asked["id"]);
}

#[tokio::test]
async fn cancelled_call_cancels_its_question() {
    let mut client = client(everything()).await;
    let id = client.begin("tools/call", json!({ "name": "roots" })).await;
    let asked = client.hear("roots/list").await;
    let cancelled = json!({
        "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": id },
    });
    client.send(cancelled).await;
    let told = client.hear("notifications/cancelled").await;
    assert_eq!(told["params"]["requestId"], asked["id"]);
}

#[tokio::test(start_paused = true)]
async fn dropped_question_is_cancelled_at_the_client() {
    let mut client = client(everything()).await;
    let id = client.begin("tools/call", json!({ "name": "gives_up" })).await;
    let asked = client.hear("roots/list").await;
    let told = client.hear("notifications/cancelled").await;
    assert_eq!(told["params"]["requestId"], asked["id"]);
    assert_eq!(text(&client.response(id).await), "gave up");
}

#[tokio::test]
async fn peer_works_in_another_task_until_the_call_ends() {
    let (peers, mut kept) = tokio::sync::mpsc::unbounded_channel();
    let mut tools = ToolRegistry::new();
    add(&mut tools, "elsewhere", move |_, ctx| {
        let (peer, peers) = (peer(&ctx), peers.clone());
        async move {
            peers.send(peer.clone()).unwrap();
            let roots = tokio::spawn(async move { peer.roots("roots").await }).await.unwrap()?;
            Ok(ToolOutput::text(roots.len().to_string()))
        }
    });
    let server = McpServer::new(tools);
    let mut client = Client::older(&server, "2025-11-25", everything()).await;
    let response = answered(&mut client, "elsewhere", "roots/list", json!({ "roots": [] })).await;
    assert_eq!(text(&response), "0");

    let peer = kept.recv().await.unwrap();
    let error = peer.roots("again").await.unwrap_err().to_string();
    assert!(error.contains("the call is over"), "{error}");
    peer.log(neuron_mcp::LogLevel::Error, None, "nobody hears it");
    client.request("ping", json!({})).await;
    assert!(client.heard.is_empty(), "{:?}", client.heard);
}

#[tokio::test]
async fn end_of_the_call_cancels_a_question_of_another_task() {
    let (asked, mut told) = tokio::sync::mpsc::unbounded_channel();
    let release = std::sync::Arc::new(tokio::sync::Notify::new());
    let released = release.clone();
    let mut tools = ToolRegistry::new();
    add(&mut tools, "leaves", move |_, ctx| {
        let (peer, asked, released) = (peer(&ctx), asked.clone(), released.clone());
        async move {
            let asking = peer.clone();
            tokio::spawn(async move { asked.send(asking.roots("roots").await).unwrap() });
            released.notified().await;
            Ok(ToolOutput::text("left"))
        }
    });
    let mut client = Client::older(&McpServer::new(tools), "2025-11-25", everything()).await;
    let id = client.begin("tools/call", json!({ "name": "leaves" })).await;
    let question = client.hear("roots/list").await;
    release.notify_one();
    // The cancellation must arrive before the result of the call. Afterwards the client could no longer assign the
    // cancellation to a call.
    let cancelled = client.receive().await;
    assert_eq!(cancelled["method"], "notifications/cancelled", "{cancelled}");
    assert_eq!(cancelled["params"]["requestId"], question["id"]);
    assert_eq!(text(&client.response(id).await), "left");
    let error = told.recv().await.unwrap().unwrap_err().to_string();
    assert!(error.contains("the call is over"), "{error}");
}

#[tokio::test]
async fn log_messages_do_not_displace_a_cancellation() {
    let mut tools = ToolRegistry::new();
    add(&mut tools, "chats", |_, ctx| async move {
        let peer = peer(&ctx);
        let gave_up = tokio::time::timeout(Duration::from_millis(1), peer.roots("roots")).await;
        assert!(gave_up.is_err());
        for n in 0..1000 {
            peer.log(neuron_mcp::LogLevel::Error, None, n);
        }
        Ok(ToolOutput::text("done"))
    });
    let mut client = Client::older(&McpServer::new(tools), "2025-11-25", everything()).await;
    let id = client.begin("tools/call", json!({ "name": "chats" })).await;
    assert_eq!(text(&client.response(id).await), "done");
    let cancelled = client.heard.iter().any(|heard| heard["method"] == "notifications/cancelled");
    assert!(cancelled, "{:?}", client.heard.front());
}
