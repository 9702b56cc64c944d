//! Tests of requests for input since protocol version 2026-07-28. The result of a call contains a request such as an
//! elicitation, and the client repeats the call with its response.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use neuron_mcp::{
    ElicitationRequest, ElicitationResponse, InputRequest, McpServer, SamplingRequest,
};
use neuron_tool::{ToolRegistry, tool_middleware_fn};
use neuron_types::{Message, ToolError, ToolOutput};
use serde_json::{Value, json};

use super::{Client, add, code, one, peer, text};

/// Returns a request for a form with one required text field.
fn ask_for(field: &str) -> ElicitationRequest {
    let schema = json!({
        "type": "object", "properties": { field: { "type": "string" } }, "required": [field],
    });
    ElicitationRequest::form(format!("Your {field}?"), schema)
}

/// Returns the response of a client whose user submitted a form with the fields `content`.
fn accept(content: Value) -> Value {
    json!({ "action": "accept", "content": content })
}

#[track_caller]
fn field(response: ElicitationResponse, name: &str) -> String {
    match response {
        ElicitationResponse::Accept(fields) => fields[name].as_str().unwrap().to_owned(),
        other => panic!("{other:?}"),
    }
}

/// Returns tools that send elicitation, sampling and roots requests to the client in different ways.
fn tools() -> ToolRegistry {
    let mut tools = ToolRegistry::new();
    for name in ["steps", "other"] {
        add(&mut tools, name, |_, ctx| async move {
            let name = field(peer(&ctx).elicit("name", ask_for("name")).await?, "name");
            let color = field(peer(&ctx).elicit("color", ask_for("color")).await?, "color");
            Ok(ToolOutput::text(format!("{name} likes {color}: {}", ctx.call_id)))
        });
    }
    add(&mut tools, "all", |_, ctx| async move {
        let sampling = SamplingRequest {
            messages: vec![Message::user("Hi")],
            max_tokens: 50,
            ..Default::default()
        };
        let answers = peer(&ctx)
            .ask([
                ("name", InputRequest::from(ask_for("name"))),
                ("greeting", sampling.into()),
                ("roots", InputRequest::Roots),
            ])
            .await?;
        let greeting = answers.sampling("greeting").unwrap().message.text();
        Ok(ToolOutput::text(format!("{greeting} {}", answers.roots("roots").unwrap().len())))
    });
    add(&mut tools, "swallows", |_, ctx| async move {
        let answer = peer(&ctx).elicit("name", ask_for("name")).await;
        Ok(ToolOutput::text(format!("did without: {}", answer.is_err())))
    });
    add(&mut tools, "chooses", |_, ctx| async move {
        if !peer(&ctx).supports_elicitation_form() {
            return Ok(ToolOutput::text("never mind"));
        }
        peer(&ctx).elicit("name", ask_for("name")).await?;
        Ok(ToolOutput::text("asked"))
    });
    add(&mut tools, "endless", |_, ctx| async move {
        for round in 0.. {
            peer(&ctx).elicit(format!("q{round}"), ask_for("x")).await?;
        }
        unreachable!("there is always another question")
    });
    add(&mut tools, "fails_otherwise", |_, ctx| async move {
        let _ = peer(&ctx).roots("roots").await;
        Err(ToolError::ModelRetry("say please".into()))
    });
    tools
}

fn server() -> McpServer {
    McpServer::new(tools())
}

/// Returns the capabilities of a client that supports elicitation, sampling and roots.
fn everything() -> Value {
    json!({ "elicitation": {}, "sampling": {}, "roots": {} })
}

fn client() -> Client {
    Client::modern(&server(), everything())
}

/// Returns the field `requestState` of a result that requires input. The client must send this state back.
#[track_caller]
fn state(response: &Value) -> Value {
    assert_eq!(response["result"]["resultType"], "input_required", "{response}");
    assert!(response["result"]["requestState"].is_string(), "{response}");
    response["result"]["requestState"].clone()
}

/// Returns the keys of the input requests in a result that requires input.
#[track_caller]
fn asked(response: &Value) -> Vec<&str> {
    let requests = response["result"]["inputRequests"].as_object();
    requests.unwrap_or_else(|| panic!("{response}")).keys().map(String::as_str).collect()
}

#[tokio::test]
async fn call_has_one_round_per_question() {
    let mut client = client();
    let first = client.call("steps", json!({})).await;
    assert_eq!(
        first["result"]["inputRequests"],
        json!({ "name": {
        "method": "elicitation/create",
        "params": {
            "mode": "form",
            "message": "Your name?",
            "requestedSchema": {
                "type": "object",
                "properties": { "name": { "type": "string" } },
                "required": ["name"],
            },
        },
    } })
    );
    let responses = json!({ "name": accept(json!({ "name": "Ada" })) });
    let second = client.next_round("steps", responses, &state(&first)).await;
    assert_eq!(asked(&second), ["color"]);
    assert_ne!(state(&first), state(&second));
    let responses = json!({ "color": accept(json!({ "color": "red" })) });
    let third = client.next_round("steps", responses.clone(), &state(&second)).await;
    assert!(text(&third).starts_with("Ada likes red"), "{third}");
    assert_eq!(third["result"]["resultType"], "complete");
    // A repeated round has the same call id. A tool can use this id to detect work that it has already done.
    let again = client.next_round("steps", responses, &state(&second)).await;
    assert_eq!(text(&again), text(&third));
}

#[tokio::test]
async fn questions_of_several_kinds_share_one_round() {
    let mut client = client();
    let first = client.call("all", json!({})).await;
    assert_eq!(asked(&first), ["greeting", "name", "roots"]);
    let requests = &first["result"]["inputRequests"];
    assert_eq!(requests["roots"]["method"], "roots/list");
    assert_eq!(requests["greeting"]["method"], "sampling/createMessage");
    let responses = json!({
        "name": accept(json!({ "name": "Ada" })),
        "greeting": { "role": "assistant", "content": { "type": "text", "text": "Hi" }, "model": "m" },
        "roots": { "roots": [{ "uri": "file:///a" }] },
    });
    let second = client.next_round("all", responses, &state(&first)).await;
    assert_eq!(text(&second), "Hi 1");
}

#[tokio::test]
async fn missing_or_invalid_responses_are_asked_again() {
    let mut client = client();
    let first = client.call("all", json!({})).await;
    let responses = json!({
        "name": accept(json!({ "name": "Ada" })),
        "greeting": 12345,
        "color": accept(json!({ "color": "red" })),
    });
    let second = client.next_round("all", responses, &state(&first)).await;
    assert_eq!(asked(&second), ["greeting", "roots"]);

    for wrong in [
        json!({}),
        json!({ "name": null }),
        json!({ "name": "Ada" }),
        json!({ "name": accept(json!({})) }),
        json!({ "name": accept(json!({ "name": 7 })) }),
        json!({ "name": { "action": "accept" } }),
        json!({ "name": { "roots": [] } }),
        json!({ "wrong_key": accept(json!({ "name": "Ada" })) }),
    ] {
        let first = client.call("steps", json!({})).await;
        let again = client.next_round("steps", wrong.clone(), &state(&first)).await;
        assert_eq!(asked(&again), ["name"], "{wrong}");
        let responses = json!({
            "name": accept(json!({ "name": "Ada" })),
            // The tool has not asked for the color yet.
            "color": accept(json!({ "color": "red" })),
        });
        let last = client.next_round("steps", responses, &state(&again)).await;
        assert_eq!(asked(&last), ["color"]);
    }
    for shapeless in [json!(null), json!(7), json!([1])] {
        let params = json!({ "name": "steps", "inputResponses": shapeless });
        let response = client.request("tools/call", params).await;
        assert!(response["error"].is_object() || asked(&response) == ["name"], "{response}");
    }
}

#[tokio::test]
async fn response_in_the_first_request_is_accepted() {
    let mut client = client();
    let params = json!({ "name": "steps", "inputResponses": {
        "name": accept(json!({ "name": "Ada" })), "other": 1,
    } });
    let response = client.request("tools/call", params).await;
    assert_eq!(asked(&response), ["color"]);
}

#[tokio::test]
async fn changed_state_is_refused() {
    let mut client = client();
    let first = client.call("steps", json!({})).await;
    let good = state(&first).as_str().unwrap().to_owned();
    let responses = json!({ "name": accept(json!({ "name": "Ada" })) });
    let mut changed = vec![String::new(), "x".into(), format!("{good}-TAMPERED"), "é".repeat(99)];
    for index in 0..good.len() {
        let other = if good.as_bytes()[index] == b'A' { "B" } else { "A" };
        changed.push(format!("{}{other}{}", &good[..index], &good[index + 1..]));
        changed.push(good[..index].to_owned());
    }
    changed.push("A".repeat(2 << 20));
    for state in changed {
        let response = client.next_round("steps", responses.clone(), &json!(state)).await;
        // Base64 may leave unused bits in its last character, and changing only those would go unnoticed. Here every
        // change of a character is refused.
        assert_eq!(code(&response), -32602, "{state}");
    }
    let response = client.next_round("steps", responses, &json!(good)).await;
    assert_eq!(asked(&response), ["color"]);
}

#[tokio::test]
async fn state_is_valid_only_for_its_call() {
    let mut client = client();
    let first = client.call("steps", json!({ "a": 1, "b": [1, { "c": 2, "d": 3 }] })).await;
    let responses = json!({ "name": accept(json!({ "name": "Ada" })) });
    let params = |name: &str, arguments: Value| {
        json!({
            "name": name, "arguments": arguments,
            "inputResponses": responses, "requestState": state(&first),
        })
    };
    for (name, arguments) in [
        ("other", json!({ "a": 1, "b": [1, { "c": 2, "d": 3 }] })),
        ("steps", json!({ "a": 1, "b": [1, { "c": 2, "d": 4 }] })),
        ("steps", json!({})),
    ] {
        let response = client.request("tools/call", params(name, arguments)).await;
        assert_eq!(code(&response), -32602);
    }
    let same = params("steps", json!({ "b": [1, { "d": 3, "c": 2 }], "a": 1 }));
    assert_eq!(asked(&client.request("tools/call", same).await), ["color"]);

    // Each server without a configured key has its own random key.
    let mut other = self::client();
    let same = params("steps", json!({ "a": 1, "b": [1, { "c": 2, "d": 3 }] }));
    assert_eq!(code(&other.request("tools/call", same).await), -32602);
}

#[tokio::test]
async fn servers_with_the_same_key_accept_each_others_state() {
    let key = [7_u8; 32];
    let mut one = Client::modern(&server().with_state_key(key), everything());
    let mut other = Client::modern(&server().with_state_key(key), everything());
    let first = one.call("steps", json!({})).await;
    let responses = json!({ "name": accept(json!({ "name": "Ada" })) });
    assert_eq!(asked(&other.next_round("steps", responses, &state(&first)).await), ["color"]);
}

#[tokio::test]
async fn expired_state_is_refused() {
    let server = server().with_state_ttl(Duration::ZERO);
    let mut client = Client::modern(&server, everything());
    let first = client.call("steps", json!({})).await;
    let responses = json!({ "name": accept(json!({ "name": "Ada" })) });
    // The expiry has a resolution of one millisecond. Retry until the first millisecond is over.
    let end = std::time::Instant::now() + super::LIMIT;
    let response = loop {
        let response = client.next_round("steps", responses.clone(), &state(&first)).await;
        if response["error"].is_object() || std::time::Instant::now() > end {
            break response;
        }
    };
    assert_eq!(code(&response), -32602);
    let message = response["error"]["message"].as_str().unwrap();
    assert!(!message.contains("expired"), "which check failed is not told: {message}");
}

#[tokio::test]
async fn missing_client_capability_is_named_in_the_error() {
    let mut client = Client::modern(&server(), json!({ "sampling": {} }));
    let response = client.call("steps", json!({})).await;
    assert_eq!(code(&response), -32021);
    assert!(response["error"]["data"]["requiredCapabilities"]["elicitation"].is_object());
    let mut client = Client::modern(&server(), json!({}));
    let response = client.call("all", json!({})).await;
    assert_eq!(code(&response), -32021, "{response}");
    // A tool that ignores the missing capability succeeds. A tool that returns its own error fails with this error.
    assert_eq!(text(&client.call("chooses", json!({})).await), "never mind");
    assert_eq!(text(&client.call("swallows", json!({})).await), "did without: true");
    let response = client.call("fails_otherwise", json!({})).await;
    assert_eq!((&response["result"]["isError"], text(&response)), (&json!(true), "say please"));
}

#[tokio::test]
async fn tool_result_wins_over_a_pending_question() {
    let response = client().call("swallows", json!({})).await;
    assert_eq!(text(&response), "did without: true");
}

#[tokio::test]
async fn client_is_asked_even_if_the_tool_replaces_the_error() {
    #[derive(Debug, thiserror::Error)]
    #[error("mine")]
    struct Mine;

    let mut tools = ToolRegistry::new();
    add(&mut tools, "own_error", |_, ctx| async move {
        let answer = peer(&ctx).elicit("name", ask_for("name")).await;
        answer.map_err(|_| ToolError::ExecutionFailed(Box::new(Mine)))?;
        Ok(ToolOutput::text("done"))
    });
    add(&mut tools, "panics", |_, ctx| async move {
        peer(&ctx).elicit("name", ask_for("name")).await.unwrap();
        Ok(ToolOutput::text("done"))
    });
    add(&mut tools, "softened", |_, ctx| async move {
        peer(&ctx).elicit("name", ask_for("name")).await?;
        Ok(ToolOutput::text("done"))
    });
    tools.add_tool_middleware(
        "softened",
        tool_middleware_fn(|call, ctx, next| {
            Box::pin(async move {
                Ok(next
                    .run(call, ctx)
                    .await
                    .unwrap_or_else(|error| ToolOutput::error(error.to_string())))
            })
        }),
    );
    let mut client = Client::modern(&McpServer::new(tools), everything());
    for tool in ["own_error", "panics", "softened"] {
        let first = client.call(tool, json!({})).await;
        assert_eq!(asked(&first), ["name"], "{tool}");
        let responses = json!({ "name": accept(json!({ "name": "Ada" })) });
        assert_eq!(text(&client.next_round(tool, responses, &state(&first)).await), "done");
    }
}

#[tokio::test]
async fn rounds_and_state_length_are_limited() {
    let mut client = client();
    let mut response = client.call("endless", json!({})).await;
    let mut rounds = 0;
    while response["result"]["resultType"] == "input_required" {
        let key = asked(&response)[0].to_owned();
        let responses = json!({ key: accept(json!({ "x": "y" })) });
        response = client.next_round("endless", responses, &state(&response)).await;
        rounds += 1;
    }
    assert_eq!((rounds, &response["result"]["isError"]), (100, &json!(true)), "{response}");

    // A call also fails if its state becomes too long.
    let first = client.call("endless", json!({})).await;
    let responses = json!({ "q0": accept(json!({ "x": "y".repeat(1 << 20) })) });
    let response = client.next_round("endless", responses, &state(&first)).await;
    assert_eq!(response["result"]["isError"], true);
    assert!(text(&response).contains("too long"), "{response}");
}

#[tokio::test]
async fn tool_restarts_in_each_round() {
    let runs = Arc::new(AtomicUsize::new(0));
    let counted = runs.clone();
    let tools = one("t", move |_, ctx| {
        counted.fetch_add(1, Ordering::SeqCst);
        async move {
            peer(&ctx).elicit("name", ask_for("name")).await?;
            Ok(ToolOutput::text("done"))
        }
    });
    let mut client = Client::modern(&McpServer::new(tools), everything());
    let first = client.call("t", json!({})).await;
    let responses = json!({ "name": { "action": "decline" } });
    assert_eq!(text(&client.next_round("t", responses, &state(&first)).await), "done");
    assert_eq!(runs.load(Ordering::SeqCst), 2);
}
