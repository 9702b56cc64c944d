//! The client program that the MCP conformance suite starts for each scenario. Uses only this crate, and not the SDK.

use std::collections::HashMap;
use std::error::Error;

use neuron_mcp::{
    ElicitationHandler, ElicitationRequest, ElicitationResponse, HttpConfig, McpClient,
    McpClientBuilder, McpError, McpVersion, OAuthConfig,
};
use neuron_types::ToolDefinition;
use serde_json::{Map, Value, json};

use super::authorization_page::{AuthorizationPage, get};

type Outcome = Result<(), Box<dyn Error + Send + Sync>>;

/// Runs the scenario that the MCP conformance suite selects by environment variables. Does nothing in an ordinary test
/// run.
#[test]
fn scenario() -> Outcome {
    let Ok(name) = std::env::var("MCP_CONFORMANCE_SCENARIO") else { return Ok(()) };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(play(&Scenario::from_environment(name)?))
}

/// The scenario of the MCP conformance suite that this process runs.
struct Scenario {
    name: String,
    /// URL of the suite's server.
    server: String,
    version: McpVersion,
    /// Additional data of the scenario, such as client credentials.
    context: Value,
}

impl Scenario {
    fn from_environment(name: String) -> Result<Self, Box<dyn Error + Send + Sync>> {
        let wanted = std::env::var("MCP_CONFORMANCE_PROTOCOL_VERSION")?;
        let version = McpVersion::ALL.into_iter().find(|version| version.as_str() == wanted);
        let context = std::env::var("MCP_CONFORMANCE_CONTEXT").unwrap_or_else(|_| "{}".to_owned());
        Ok(Self {
            name,
            server: std::env::args().next_back().ok_or("no address")?,
            version: version.ok_or(format!("an unknown version: {wanted}"))?,
            context: serde_json::from_str(&context)?,
        })
    }

    /// Returns a text field of the scenario's `context`, which is JSON data from the conformance suite. Returns an
    /// empty string if the field is missing.
    fn context(&self, field: &str) -> &str {
        self.context[field].as_str().unwrap_or_default()
    }

    async fn connect(&self, builder: McpClientBuilder) -> Result<McpClient, McpError> {
        let config = HttpConfig { url: self.server.clone(), ..HttpConfig::default() };
        builder.versions([self.version]).elicitation(Accepts).connect_http(config).await
    }
}

/// Connects to the server of the MCP conformance suite, sends the requests of the scenario, and closes the connection.
async fn play(scenario: &Scenario) -> Outcome {
    let builder = match authorization(scenario).await {
        Some(oauth) => McpClient::builder().oauth(oauth),
        None => McpClient::builder(),
    };
    let client = scenario.connect(builder).await?;
    let outcome = use_server(scenario, &client).await;
    client.close().await;
    outcome
}

/// Returns the OAuth configuration of an authorization scenario. Returns `None` for other scenarios.
async fn authorization(scenario: &Scenario) -> Option<OAuthConfig> {
    let name = scenario.name.strip_prefix("auth/")?;
    let (id, secret) = (scenario.context("client_id"), scenario.context("client_secret"));
    let by_person = OAuthConfig::new(AuthorizationPage).with_client_name("neuron");
    Some(match name {
        "client-credentials-basic" => {
            OAuthConfig::client_credentials(id, secret, issuer(&scenario.server).await?)
        }
        "pre-registration" => by_person
            .with_client(id)
            .with_client_secret(secret)
            .with_issuer(scenario.context("issuer")),
        // The URL at which the suite serves a client metadata document.
        "basic-cimd" => by_person
            .with_client_metadata_url("https://conformance-test.local/client-metadata.json"),
        _ => by_person,
    })
}

/// Returns the issuer that the suite's server names. The scenario does not contain the issuer.
async fn issuer(server: &str) -> Option<String> {
    let (host, path) = server.strip_prefix("http://")?.split_once('/')?;
    let metadata = format!("http://{host}/.well-known/oauth-protected-resource/{path}");
    let response = get(&metadata).await.ok()?;
    let json = response.get(response.find('{')?..=response.rfind('}')?)?;
    let metadata: Value = serde_json::from_str(json).ok()?;
    metadata["authorization_servers"][0].as_str().map(str::to_owned)
}

/// Sends the requests that the scenario expects from the client.
async fn use_server(scenario: &Scenario, client: &McpClient) -> Outcome {
    let tools = client.list_all_tools().await?;
    match scenario.name.as_str() {
        "http-custom-headers" => {
            for call in scenario.context["toolCalls"].as_array().into_iter().flatten() {
                let name = call["name"].as_str().unwrap_or_default();
                client.call_tool_json(name, call["arguments"].clone()).await?;
            }
        }
        // Send the received input schema back, so that the suite can check that no part was lost.
        "json-schema-2020-12-preservation" => {
            let tool = tools.iter().find(|tool| tool.name == "json_schema_2020_12_tool");
            let schema = &tool.ok_or("the tool is missing")?.input_schema;
            client.call_tool_json("json_schema_echo", json!({"schema": schema})).await?;
        }
        "sep-2322-client-request-state" => {
            // Concurrent calls, so that the suite detects if a call uses the state of another call.
            let calls = tools.iter().map(|tool| client.call_tool_json(&tool.name, json!({})));
            futures_util::future::try_join_all(calls).await?;
        }
        "http-standard-headers" => {
            call_all(client, &tools).await?;
            for resource in client.list_all_resources().await? {
                client.read_resource(&resource.uri).await?;
            }
            for prompt in client.list_all_prompts().await? {
                client.get_prompt(&prompt.name, HashMap::new()).await?;
            }
        }
        _ => call_all(client, &tools).await?,
    }
    Ok(())
}

async fn call_all(client: &McpClient, tools: &[ToolDefinition]) -> Outcome {
    for tool in tools {
        client.call_tool(&tool.name, arguments(&tool.input_schema)).await?;
    }
    Ok(())
}

/// Returns arguments for a tool with this input schema, with a sample value for each required parameter.
fn arguments(schema: &Value) -> Map<String, Value> {
    let required = schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str);
    required.map(|name| (name.to_owned(), some_value(&schema["properties"][name]))).collect()
}

/// Returns a sample value of the type that the JSON schema names.
fn some_value(schema: &Value) -> Value {
    match schema["type"].as_str() {
        Some("number" | "integer") => json!(5),
        Some("boolean") => json!(true),
        Some("array") => json!([]),
        Some("object") => json!({}),
        Some("null") => Value::Null,
        _ => json!("text"),
    }
}

/// An elicitation handler that accepts every form with its default values, and declines URLs.
struct Accepts;

impl ElicitationHandler for Accepts {
    async fn elicit(&self, request: ElicitationRequest) -> Result<ElicitationResponse, McpError> {
        let ElicitationRequest::Form { schema, .. } = request else {
            return Ok(ElicitationResponse::Decline);
        };
        let fields = schema["properties"].as_object().into_iter().flatten();
        let filled: Map<String, Value> = fields
            .map(|(name, field)| {
                let value = field.get("default").cloned().unwrap_or_else(|| some_value(field));
                (name.clone(), value)
            })
            .collect();
        Ok(ElicitationResponse::Accept(filled.into()))
    }
}
