//! A server's tools as tools of an agent.

mod error;
mod names;
mod options;
mod output;
mod pins;
mod schema;
mod shown;
mod toolset;

use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;

use neuron_types::{
    McpError, ToolContext, ToolDefinition, ToolDyn, ToolEffect, ToolError, ToolOutput,
    WasmBoxedFuture,
};
use serde_json::Value;

pub use self::options::BridgeOptions;
pub use self::pins::{McpPinnedPolicy, McpToolPins};
pub use self::toolset::{McpLeftOut, McpNameTaken, McpToolChanges, McpToolset};
use crate::McpClient;

pub(crate) use self::names::model_names;
pub(crate) use self::schema::cleaned as cleaned_schema;

/// A tool of a server as a tool of an agent, which sends its calls to the server.
///
/// # What the model sees
///
/// - The name: the server's own, behind the prefix of the [options](BridgeOptions::with_prefix), with `_` in
///   place of what vendors take in no name. Names that are too long, or would be the same, end with a hash.
/// - The schema of the arguments: with `type` and `properties` at the top, and in the words of JSON Schema
///   2020-12. Which arguments are valid does not change, and nothing is fetched.
/// - Title, description, the schema of results and the annotations: as the server has them, but for characters that
///   hide or reorder text. Rules for permissions can go by the annotations; they are claims of the server.
///
/// A server may change its tools after somebody has looked at them: see [`McpToolPins`].
///
/// # Results
///
/// A result that the server marks as an error is one for the model ([`ToolOutput::is_error`]). Structured
/// content is kept, and is told as JSON if a result has nothing else. Bytes that are no base64 are told in
/// words, because vendors refuse requests with them.
///
/// # Errors
///
/// | what happened | error |
/// |---|---|
/// | the server does not know the tool | [`ToolError::NotFound`] |
/// | it refused the arguments | [`ToolError::InvalidInput`], which [`RetryInvalidInput`] lets the model mend |
/// | the run was cancelled | [`ToolError::Cancelled`] |
/// | a time limit, a lost connection, anything else | [`ToolError::ExecutionFailed`] with the [`McpError`] or what is in it |
///
/// [`RetryInvalidInput`]: neuron_tool::builtin::RetryInvalidInput
///
/// # Effect
///
/// [`ToolEffect::AtMostOnce`] whatever the server claims, unless the [options](BridgeOptions) trust it.
///
/// # Example
///
/// ```no_run
/// use std::sync::Arc;
/// use neuron_mcp::{McpClient, McpToolBridge, StdioConfig};
/// use neuron_tool::ToolRegistry;
///
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// let client = Arc::new(
///     McpClient::connect_stdio(StdioConfig {
///         command: "npx".to_string(),
///         args: vec!["-y".to_string(), "@modelcontextprotocol/server-everything".to_string()],
///         env: vec![],
///     })
///     .await?,
/// );
///
/// let mut registry = ToolRegistry::new();
/// for tool in McpToolBridge::discover(&client).await? {
///     registry.try_register_dyn(tool)?; // A name that is taken is an error.
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct McpToolBridge {
    client: Arc<McpClient>,
    /// Name of the tool at the server.
    name: String,
    /// Definition for the model.
    definition: ToolDefinition,
    effect: ToolEffect,
}

impl McpToolBridge {
    /// A tool with the definition that its server gave.
    #[must_use]
    pub fn new(client: Arc<McpClient>, definition: ToolDefinition) -> Self {
        Self::with_options(client, definition, &BridgeOptions::default())
    }

    /// A tool with the definition that its server gave, and with options. Whether it is
    /// [one of those wanted](BridgeOptions::with_tools) is not asked.
    #[must_use]
    pub fn with_options(
        client: Arc<McpClient>,
        definition: ToolDefinition,
        options: &BridgeOptions,
    ) -> Self {
        let shown = names::model_name(options.prefix(), &definition.name);
        Self::named(client, definition, shown, options)
    }

    fn named(
        client: Arc<McpClient>,
        definition: ToolDefinition,
        shown: String,
        options: &BridgeOptions,
    ) -> Self {
        let definition = shown::cleaned(definition);
        Self {
            client,
            effect: options.effect(definition.annotations),
            definition: ToolDefinition {
                name: shown,
                input_schema: schema::cleaned(&definition.input_schema),
                ..definition.clone()
            },
            name: definition.name,
        }
    }

    /// All tools of a server, ready to be registered.
    ///
    /// # Errors
    ///
    /// As [`McpClient::list_all_tools`].
    ///
    /// # Cancel safety
    ///
    /// Dropping the future cancels the request.
    pub async fn discover(client: &Arc<McpClient>) -> Result<Vec<Arc<dyn ToolDyn>>, McpError> {
        Self::discover_with(client, &BridgeOptions::default()).await
    }

    /// The tools of a server that the options want, ready to be registered.
    ///
    /// # Errors
    ///
    /// As [`McpClient::list_all_tools`].
    ///
    /// # Cancel safety
    ///
    /// Dropping the future cancels the request.
    ///
    /// # Example: two servers with tools of one name
    ///
    /// ```no_run
    /// use std::sync::Arc;
    /// use neuron_mcp::{BridgeOptions, McpClient, McpToolBridge};
    /// use neuron_tool::ToolRegistry;
    ///
    /// # async fn example(github: Arc<McpClient>, jira: Arc<McpClient>) -> Result<(), Box<dyn std::error::Error>> {
    /// let mut registry = ToolRegistry::new();
    /// for (client, prefix) in [(&github, "github"), (&jira, "jira")] {
    ///     let options = BridgeOptions::new().with_prefix(prefix);
    ///     for tool in McpToolBridge::discover_with(client, &options).await? {
    ///         registry.try_register_dyn(tool)?; // `github_create_issue`, `jira_create_issue`
    ///     }
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub async fn discover_with(
        client: &Arc<McpClient>,
        options: &BridgeOptions,
    ) -> Result<Vec<Arc<dyn ToolDyn>>, McpError> {
        let (tools, _) = bridges(client, options).await?;
        Ok(tools.into_iter().map(|tool| Arc::new(tool) as Arc<dyn ToolDyn>).collect())
    }

    /// Returns the name of the tool at the server.
    #[must_use]
    pub fn server_tool_name(&self) -> &str {
        &self.name
    }

    /// The client of the server.
    #[must_use]
    pub fn client(&self) -> &Arc<McpClient> {
        &self.client
    }
}

/// Returns the selected tools of a server in its order, and the tools that are left out.
async fn bridges(
    client: &Arc<McpClient>,
    options: &BridgeOptions,
) -> Result<(Vec<McpToolBridge>, Vec<McpLeftOut>), McpError> {
    let (mut seen, mut definitions, mut left_out) = (HashSet::new(), Vec::new(), Vec::new());
    for definition in client.list_all_tools().await? {
        if !options.wants(&definition) {
            continue;
        }
        let reason = match seen.insert(definition.name.clone()) {
            true => options.refuses(&definition, definitions.len()),
            false => Some("the server lists it twice, and the first counts".to_owned()),
        };
        match reason {
            None => definitions.push(definition),
            Some(reason) => left_out.push(McpLeftOut::new(definition.name, reason)),
        }
    }
    let names: Vec<&str> = definitions.iter().map(|definition| definition.name.as_str()).collect();
    let shown = model_names(options.prefix(), &names);
    let tools = definitions.into_iter().zip(shown);
    let tools = tools.map(|(definition, shown)| {
        McpToolBridge::named(Arc::clone(client), definition, shown, options)
    });
    Ok((tools.collect(), left_out))
}

impl McpClient {
    /// Returns all tools of a server for a registry, as [`McpToolBridge::discover`] does.
    ///
    /// # Errors
    ///
    /// As [`list_all_tools`](Self::list_all_tools).
    ///
    /// # Cancel safety
    ///
    /// Dropping the future cancels the request.
    pub async fn discover_tools(client: &Arc<Self>) -> Result<Vec<Arc<dyn ToolDyn>>, McpError> {
        McpToolBridge::discover(client).await
    }
}

impl ToolDyn for McpToolBridge {
    fn name(&self) -> &str {
        &self.definition.name
    }

    fn definition(&self) -> ToolDefinition {
        self.definition.clone()
    }

    fn call_dyn<'a>(
        &'a self,
        input: Value,
        ctx: &'a ToolContext,
    ) -> WasmBoxedFuture<'a, Result<ToolOutput, ToolError>> {
        Box::pin(async move {
            self.check_input(&input)?;
            match self.client.call_tool_refusable(&self.name, input, ctx).await {
                Ok(output) => Ok(output::for_model(output)),
                Err(error) => Err(error::tool_error(&self.definition.name, error)),
            }
        })
    }

    fn effect(&self) -> ToolEffect {
        self.effect
    }

    fn is_foreign(&self) -> bool {
        true
    }

    /// Checks that the arguments are an object, as the protocol requires. The server validates its content.
    fn check_input(&self, input: &Value) -> Result<(), ToolError> {
        match input {
            Value::Object(_) | Value::Null => Ok(()),
            _ => Err(ToolError::InvalidInput(format!(
                "arguments of `{}`: expected an object",
                self.definition.name
            ))),
        }
    }
}

impl fmt::Debug for McpToolBridge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("McpToolBridge")
            .field("name", &self.name)
            .field("definition", &self.definition)
            .field("effect", &self.effect)
            .finish_non_exhaustive()
    }
}
