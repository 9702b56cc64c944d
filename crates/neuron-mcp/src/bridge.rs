//! Bridge from the tools of an MCP server to the tools of an agent.

mod error;
mod names;
mod options;
mod output;
mod pins;
mod schema;
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

/// An agent's tool that forwards its calls to a tool of an MCP server.
///
/// # Definition for the model
///
/// - **Name:** the name at the server, after the prefix of the [options](BridgeOptions::with_prefix). Characters that
///   model vendors do not allow become `_`. A name ends with a hash if it is too long, or if it would otherwise equal
///   another name.
/// - **Schema of the arguments:** JSON Schema 2020-12 with `type` and `properties` at the root. The schema accepts the
///   same arguments as the schema of the server. [`discover`](Self::discover) leaves out a tool whose schema describes
///   no object, or refers to another document.
/// - **Title, description, schema of the result, annotations:** taken from the server. Permission rules can use the
///   annotations, but annotations are claims of the server.
///
/// A server may change its tools after a person has reviewed them. [`McpToolPins`] detects such a change.
///
/// # Results
///
/// A result that the server marks as an error is returned to the model ([`ToolOutput::is_error`]). Structured content
/// is kept, and is also added as JSON text if the result has no other content. Data that is not valid base64 is
/// replaced by a text, because model vendors reject requests that contain it.
///
/// The registry limits the [length of results and errors](neuron_tool::ToolRegistry::set_max_output_characters). Add
/// `SchemaValidator` (feature `validation` of `neuron-tool`) to check structured content against the schema of the
/// result.
///
/// # Errors
///
/// | cause | error |
/// |---|---|
/// | the server does not know the tool | [`ToolError::NotFound`] |
/// | the server rejected the arguments | [`ToolError::InvalidInput`], which [`RetryInvalidInput`] converts to a hint for the model |
/// | the run was cancelled | [`ToolError::Cancelled`] |
/// | a timeout, a lost connection or any other failure | [`ToolError::ExecutionFailed`] with the [`McpError`], or with the source of [`McpError::Other`] |
///
/// [`RetryInvalidInput`]: neuron_tool::builtin::RetryInvalidInput
///
/// # Effect
///
/// [`ToolEffect::AtMostOnce`], unless the [options](BridgeOptions) trust the annotations of the server.
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
///     registry.try_register_dyn(tool)?; // Returns an error if the name is taken.
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct McpToolBridge {
    client: Arc<McpClient>,
    /// Name of the tool at the server.
    name: String,
    /// The definition that the model receives. Its name can differ from the name at the server.
    definition: ToolDefinition,
    /// Effect class of the tool. Tells the agent if a call may be repeated.
    effect: ToolEffect,
}

impl McpToolBridge {
    /// Creates a tool from the definition that the server returned.
    #[must_use]
    pub fn new(client: Arc<McpClient>, definition: ToolDefinition) -> Self {
        Self::with_options(client, definition, &BridgeOptions::default())
    }

    /// Creates a tool from the definition that the server returned, with options. Filters in the options, such as
    /// [`BridgeOptions::with_tools`], are ignored.
    #[must_use]
    pub fn with_options(
        client: Arc<McpClient>,
        definition: ToolDefinition,
        options: &BridgeOptions,
    ) -> Self {
        let shown = names::model_name(options.prefix(), &definition.name);
        Self::named(client, definition, shown, options)
    }

    /// Creates a bridge to a tool of the server. `definition` comes from the server, and `shown` is the name of the
    /// tool for the model.
    fn named(
        client: Arc<McpClient>,
        definition: ToolDefinition,
        shown: String,
        options: &BridgeOptions,
    ) -> Self {
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

    /// Lists all tools of a server, for registration in a tool registry.
    ///
    /// # Errors
    ///
    /// Returns the same errors as [`McpClient::list_all_tools`].
    ///
    /// # Cancel safety
    ///
    /// Dropping the future cancels the request.
    pub async fn discover(client: &Arc<McpClient>) -> Result<Vec<Arc<dyn ToolDyn>>, McpError> {
        Self::discover_with(client, &BridgeOptions::default()).await
    }

    /// Lists the tools of a server that the options select, for registration in a tool registry.
    ///
    /// # Errors
    ///
    /// Returns the same errors as [`McpClient::list_all_tools`].
    ///
    /// # Cancel safety
    ///
    /// Dropping the future cancels the request.
    ///
    /// # Example: two servers with a tool of the same name
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

    /// Returns the client that is connected to the server.
    #[must_use]
    pub fn client(&self) -> &Arc<McpClient> {
        &self.client
    }
}

/// Lists the tools of a server, and creates a bridge for each tool that the options select. The bridges are in the
/// order of the server. Also returns the selected tools that get no bridge, with the reason.
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
            true => options
                .refuses(&definition, definitions.len())
                .or_else(|| schema::refuses(&definition)),
            false => {
                Some("the server lists this name twice; only the first tool is used".to_owned())
            }
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
    /// Lists all tools of a server, for registration in a tool registry. Equivalent to [`McpToolBridge::discover`].
    ///
    /// # Errors
    ///
    /// Returns the same errors as [`list_all_tools`](Self::list_all_tools).
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

    /// Checks that the arguments are an object or `null`, because the protocol requires an object. The server validates
    /// the fields.
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
