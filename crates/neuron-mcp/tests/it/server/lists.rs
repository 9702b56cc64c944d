//! Tests of the server's resources, prompts and completions.

use neuron_mcp::{
    ElicitationRequest, ElicitationResponse, McpPeer, McpPrompt, McpPromptArgument,
    McpPromptMessage, McpPromptResult, McpPromptSet, McpResource, McpResourceContents,
    McpResourceSet, McpResourceTemplate, McpResources, McpServer, PaginatedList,
};
use neuron_tool::ToolRegistry;
use neuron_types::ToolError;
use serde_json::{Value, json};

use super::{Client, code};

fn argument(name: &str, required: bool) -> McpPromptArgument {
    McpPromptArgument { name: name.to_owned(), description: None, required }
}

fn server() -> McpServer {
    let resources = McpResourceSet::new()
        .with_text(McpResource::new("test://text", "text"), "hello")
        .with_blob(
            McpResource {
                mime_type: Some("image/png".into()),
                ..McpResource::new("test://blob", "blob")
            },
            "aQ==",
        )
        .with_resource(McpResource::new("test://asks", "asks"), |request| async move {
            let schema = json!({ "type": "object", "properties": {} });
            request.peer.elicit("go", ElicitationRequest::form("Go?", schema)).await?;
            Ok(vec![McpResourceContents::text(request.uri, "gone")])
        })
        .with_resource(McpResource::new("test://broken", "broken"), |_| async {
            Err(ToolError::ExecutionFailed("the disk is gone".into()))
        })
        .with_resource(McpResource::new("test://panics", "panics"), |_| async { panic!("no") })
        .with_template(McpResourceTemplate::new("test://{id}/data", "data"), |request| async move {
            let id = &request.variables["id"];
            Ok(vec![McpResourceContents::text(&request.uri, format!("data of {id}"))])
        })
        .with_completion("test://{id}/data", "id", |query| {
            (0..200).map(|number| format!("{}{number}", query.value)).collect()
        })
        .with_page_size(2);
    let greet = McpPrompt {
        arguments: vec![argument("name", true), argument("tone", false)],
        ..McpPrompt::new("greet")
    };
    let prompts = McpPromptSet::new()
        .with_prompt(greet, |request| async move {
            let text = format!("Greet {}.", request.arguments["name"]);
            Ok(McpPromptResult {
                description: Some("greets".into()),
                messages: vec![McpPromptMessage::user(text), McpPromptMessage::assistant("Hi")],
            })
        })
        .with_prompt(McpPrompt::new("asks"), |request| async move {
            let schema = json!({
                "type": "object", "properties": { "x": { "type": "string" } }, "required": ["x"],
            });
            let answer = request.peer.elicit("x", ElicitationRequest::form("X?", schema)).await?;
            let ElicitationResponse::Accept(fields) = answer else {
                return Err(ToolError::PermissionDenied("the person refused".into()));
            };
            let messages = vec![McpPromptMessage::user(fields["x"].to_string())];
            Ok(McpPromptResult { messages, ..McpPromptResult::default() })
        })
        .with_completion("greet", "tone", |query| {
            let tones = ["formal", "friendly"];
            let fits = tones.into_iter().filter(|tone| tone.starts_with(&query.value));
            fits.map(str::to_owned).collect()
        });
    McpServer::new(ToolRegistry::new()).with_resources(resources).with_prompts(prompts)
}

async fn older() -> Client {
    Client::older(&server(), "2025-11-25", json!({})).await
}

async fn read(client: &mut Client, uri: &str) -> Value {
    client.request("resources/read", json!({ "uri": uri })).await
}

#[tokio::test]
async fn capabilities_list_what_the_server_has() {
    let mut client = Client::connect(&server());
    let result = client.initialize("2025-06-18", json!({})).await;
    assert_eq!(
        result["capabilities"],
        json!({
            "completions": {},
            "logging": {},
            "prompts": { "listChanged": true },
            "resources": { "listChanged": true, "subscribe": true },
            "tools": { "listChanged": true },
        })
    );
}

#[tokio::test]
async fn resources_are_paged_and_can_be_read() {
    let mut client = older().await;
    let response = client.request("resources/list", json!({})).await;
    assert_eq!(
        response["result"]["resources"],
        json!([
            { "uri": "test://text", "name": "text" },
            { "uri": "test://blob", "name": "blob", "mimeType": "image/png" },
        ])
    );
    let cursor = &response["result"]["nextCursor"];
    let response = client.request("resources/list", json!({ "cursor": cursor })).await;
    assert_eq!(response["result"]["resources"][0]["uri"], "test://asks");
    let response = client.request("resources/list", json!({ "cursor": "x" })).await;
    assert_eq!(code(&response), -32602);

    let response = client.request("resources/templates/list", json!({})).await;
    assert_eq!(
        response["result"],
        json!({
            "resourceTemplates": [{ "uriTemplate": "test://{id}/data", "name": "data" }],
        })
    );

    assert_eq!(
        read(&mut client, "test://text").await["result"],
        json!({
            "contents": [{ "uri": "test://text", "text": "hello" }],
        })
    );
    assert_eq!(
        read(&mut client, "test://blob").await["result"]["contents"],
        json!([
            { "uri": "test://blob", "mimeType": "image/png", "blob": "aQ==" },
        ])
    );
    assert_eq!(
        read(&mut client, "test://a%20b/data").await["result"]["contents"],
        json!([
            { "uri": "test://a%20b/data", "text": "data of a b" },
        ])
    );
}

#[tokio::test]
async fn unknown_resource_error_code_depends_on_version() {
    let mut client = older().await;
    let response = read(&mut client, "test://none").await;
    assert_eq!(
        (code(&response), &response["error"]["data"]["uri"]),
        (-32002, &json!("test://none"))
    );
    let mut client = Client::modern(&server(), json!({}));
    let response = read(&mut client, "test://none").await;
    assert_eq!(
        (code(&response), &response["error"]["data"]["uri"]),
        (-32602, &json!("test://none"))
    );
}

#[tokio::test]
async fn failed_resource_read_keeps_the_connection() {
    let mut client = older().await;
    let response = read(&mut client, "test://broken").await;
    assert_eq!(code(&response), -32603);
    assert!(response["error"]["message"].as_str().unwrap().contains("the disk is gone"));
    assert_eq!(code(&read(&mut client, "test://panics").await), -32603);
    assert_eq!(code(&client.request("resources/read", json!({})).await), -32602);
    assert!(read(&mut client, "test://text").await["result"].is_object());
}

#[tokio::test]
async fn resource_read_can_ask_the_client() {
    let mut client = Client::modern(&server(), json!({ "elicitation": {} }));
    let response = read(&mut client, "test://asks").await;
    let result = &response["result"];
    assert_eq!(result["resultType"], "input_required", "{response}");
    assert_eq!(result["inputRequests"]["go"]["method"], "elicitation/create");
    let mut params = json!({
        "uri": "test://asks",
        "inputResponses": { "go": { "action": "accept" } },
        "requestState": result["requestState"],
    });
    let response = client.request("resources/read", params.clone()).await;
    assert_eq!(response["result"]["contents"][0]["text"], "gone", "{response}");
    // The request state is valid only for the resource that requested the input.
    params["uri"] = json!("test://text");
    assert_eq!(code(&client.request("resources/read", params).await), -32602);
}

#[tokio::test]
async fn prompts_are_listed_and_filled_with_arguments() {
    let mut client = older().await;
    let response = client.request("prompts/list", json!({})).await;
    assert_eq!(
        response["result"]["prompts"][0],
        json!({
            "name": "greet",
            "arguments": [{ "name": "name", "required": true }, { "name": "tone", "required": false }],
        })
    );
    let params = json!({ "name": "greet", "arguments": { "name": "Ada" } });
    let response = client.request("prompts/get", params).await;
    assert_eq!(
        response["result"],
        json!({
            "description": "greets",
            "messages": [
                { "role": "user", "content": { "type": "text", "text": "Greet Ada." } },
                { "role": "assistant", "content": { "type": "text", "text": "Hi" } },
            ],
        })
    );
    for params in [
        json!({ "name": "greet" }),
        json!({ "name": "greet", "arguments": { "tone": "formal" } }),
        json!({ "name": "greet", "arguments": { "name": 7 } }),
        json!({ "name": "greet", "arguments": ["Ada"] }),
        json!({ "name": "none" }),
        json!({}),
    ] {
        assert_eq!(code(&client.request("prompts/get", params.clone()).await), -32602, "{params}");
    }
}

#[tokio::test]
async fn prompt_can_ask_the_client() {
    let mut client = Client::modern(&server(), json!({ "elicitation": {} }));
    let response = client.request("prompts/get", json!({ "name": "asks" })).await;
    let state = &response["result"]["requestState"];
    assert_eq!(response["result"]["inputRequests"]["x"]["params"]["message"], "X?", "{response}");
    let next = |answer: Value| json!({ "name": "asks", "inputResponses": { "x": answer }, "requestState": state });
    let params = next(json!({ "action": "accept", "content": { "x": "y" } }));
    let response = client.request("prompts/get", params).await;
    assert_eq!(response["result"]["messages"][0]["content"]["text"], "\"y\"");
    let response = client.request("prompts/get", next(json!({ "action": "decline" }))).await;
    assert_eq!(code(&response), -32603);

    // Before 2026-07-28 the server sends the elicitation as a separate request.
    let mut client = Client::older(&server(), "2025-06-18", json!({ "elicitation": {} })).await;
    let id = client.begin("prompts/get", json!({ "name": "asks" })).await;
    let asked = client.hear("elicitation/create").await;
    let result = json!({ "action": "accept", "content": { "x": "z" } });
    client.send(json!({ "jsonrpc": "2.0", "id": asked["id"], "result": result })).await;
    let response = client.response(id).await;
    assert_eq!(response["result"]["messages"][0]["content"]["text"], "\"z\"");
}

#[tokio::test]
async fn completion_returns_up_to_100_values() {
    let mut client = older().await;
    let complete = |reference: Value, name: &str, value: &str| json!({ "ref": reference, "argument": { "name": name, "value": value } });
    let greet = json!({ "type": "ref/prompt", "name": "greet" });
    let params = complete(greet.clone(), "tone", "fr");
    let response = client.request("completion/complete", params).await;
    assert_eq!(response["result"]["completion"]["values"], json!(["friendly"]));
    let response = client.request("completion/complete", complete(greet, "name", "")).await;
    assert_eq!(response["result"]["completion"]["values"], json!([]));

    let data = json!({ "type": "ref/resource", "uri": "test://{id}/data" });
    let response = client.request("completion/complete", complete(data, "id", "7")).await;
    let completion = &response["result"]["completion"];
    assert_eq!(completion["values"].as_array().unwrap().len(), 100);
    assert_eq!((&completion["total"], &completion["hasMore"]), (&json!(200), &json!(true)));

    for reference in [
        json!({ "type": "ref/prompt", "name": "none" }),
        json!({ "type": "ref/resource", "uri": "test://none" }),
        json!({ "type": "ref/other" }),
    ] {
        let params = complete(reference, "x", "");
        assert_eq!(code(&client.request("completion/complete", params).await), -32602);
    }
}

#[tokio::test]
async fn list_and_read_results_have_a_ttl_since_2026() {
    let mut client = Client::modern(&server(), json!({}));
    for (method, params) in [
        ("tools/list", json!({})),
        ("prompts/list", json!({})),
        ("resources/list", json!({})),
        ("resources/templates/list", json!({})),
        ("resources/read", json!({ "uri": "test://text" })),
    ] {
        let response = client.request(method, params).await;
        let result = &response["result"];
        assert_eq!((&result["ttlMs"], &result["cacheScope"]), (&json!(0), &json!("private")));
    }
}

#[tokio::test]
async fn list_ttl_is_sent_only_since_2026() {
    let server = server();
    for method in ["tools/list", "prompts/list", "resources/list", "resources/templates/list"] {
        let mut client = Client::modern(&server, json!({}));
        assert_eq!(client.request(method, json!({})).await["result"]["ttlMs"], 0);
        let mut client = Client::older(&server, "2025-11-25", json!({})).await;
        assert_eq!(client.request(method, json!({})).await["result"]["ttlMs"], Value::Null);
    }
}

/// An implementation of [`McpResources`] without [`McpResourceSet`].
struct Own;

impl McpResources for Own {
    async fn list(
        &self,
        cursor: Option<&str>,
        peer: &McpPeer,
    ) -> Result<PaginatedList<McpResource>, ToolError> {
        match cursor {
            None => Ok(PaginatedList {
                items: vec![McpResource::new(format!("own://{}", peer.version()), "own")],
                next_cursor: Some("more".into()),
            }),
            Some("more") => Ok(PaginatedList::default()),
            Some(_) => Err(ToolError::InvalidInput("no such page".into())),
        }
    }

    async fn read(&self, uri: &str, _: &McpPeer) -> Result<Vec<McpResourceContents>, ToolError> {
        Ok(vec![McpResourceContents::text(uri, "mine")])
    }
}

#[tokio::test]
async fn custom_resources_implementation_is_served() {
    let server = McpServer::new(ToolRegistry::new()).with_resources(Own);
    let mut client = Client::older(&server, "2025-03-26", json!({})).await;
    let response = client.request("resources/list", json!({})).await;
    assert_eq!(response["result"]["resources"][0]["uri"], "own://2025-03-26");
    assert_eq!(response["result"]["nextCursor"], "more");
    let response = client.request("resources/list", json!({ "cursor": "more" })).await;
    assert_eq!(response["result"], json!({ "resources": [] }));
    let response = client.request("resources/list", json!({ "cursor": "other" })).await;
    assert_eq!(code(&response), -32602);
    assert_eq!(code(&client.request("prompts/list", json!({})).await), -32601);
}
