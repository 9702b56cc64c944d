//! The registry of tools, which runs calls through the middleware.

mod calls;
mod deferred;

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use indexmap::IndexMap;
use neuron_types::{
    BoxedSandbox, RegistryError, Sandbox, Tool, ToolContext, ToolDefinition, ToolDyn, ToolError,
    ToolOutput, WasmBoxedFuture,
};
use serde_json::Value;

use crate::builtin::OutputFormatter;
use crate::merged::{self, Merged};
use crate::middleware::{Nested, ToolMiddleware};
use crate::tool_search::ToolSearch;

/// The tools that a model can call, in registration order, and the middleware around their calls.
///
/// Registered tools keep their order, because prompt caches and replay depend on it. A clone shares the tools and the
/// middleware. Tools and middleware that are added later are not shared.
///
/// # Example
///
/// ```
/// use neuron_tool::{ToolRegistry, neuron_tool};
/// use neuron_types::{ToolContext, ToolError};
///
/// /// Adds two numbers
/// #[neuron_tool(effect = Pure)]
/// async fn add(a: i64, b: i64) -> Result<i64, ToolError> {
///     Ok(a + b)
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let mut registry = ToolRegistry::new();
/// registry.register(AddTool);
///
/// // With a duplicate name, `register` replaces the tool, and `try_register` returns an error.
/// let error = registry.try_register(AddTool).unwrap_err();
/// assert_eq!(error.to_string(), "a tool named `add` is registered already");
///
/// let ctx = ToolContext::default();
/// let output = registry.execute("add", serde_json::json!({ "a": 1, "b": 2 }), &ctx).await?;
/// assert_eq!(output.content[0].to_string(), "3");
///
/// let error = registry.execute("add", serde_json::json!({ "a": 1, "b": "2" }), &ctx).await;
/// assert_eq!(
///     error.unwrap_err().to_string(),
///     "invalid input: arguments of `add`: `$.b`: invalid type: string \"2\", expected i64"
/// );
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Default)]
pub struct ToolRegistry {
    tools: IndexMap<String, Registered>,
    /// Middleware around every call, outermost first.
    global: Vec<Arc<dyn ToolMiddleware>>,
    /// Middleware around the calls of one tool, inside the global middleware, outermost first.
    by_tool: HashMap<String, Vec<Arc<dyn ToolMiddleware>>>,
    /// The sandbox in which tools run. `None` runs the tools in this process.
    sandbox: Option<BoxedSandbox>,
    /// Settings of the deferred tools. `None` if all tools are visible.
    search: Option<ToolSearch>,
    /// Maximum number of characters of an output or an error. `None` for [`MAX_OUTPUT_CHARACTERS`].
    max_output_characters: Option<usize>,
}

/// Default maximum number of characters of an output or an error, some 50,000 tokens of English text.
const MAX_OUTPUT_CHARACTERS: usize = 200_000;

/// A registered tool with its definition.
#[derive(Clone)]
pub(crate) struct Registered {
    pub(crate) tool: Arc<dyn ToolDyn>,
    /// The definition of the tool. It is read once, because a schema is costly to generate and must not change between
    /// two requests. The `Arc` allows middleware to compare definitions by address.
    pub(crate) definition: Arc<ToolDefinition>,
    /// The tool in the field `tool` with its concrete type, if the tool was merged from another registry. `None` for
    /// any other tool.
    merged: Option<Arc<Merged>>,
    /// Set for the two tools of the search for deferred tools, which belong to the registry. Sandboxes and limits of
    /// outputs do not apply to them.
    pub(crate) is_own: bool,
}

impl Registered {
    /// Creates the entry of a tool from another registry.
    pub(crate) fn merged(tool: Merged) -> Self {
        let merged = Arc::new(tool);
        Self { merged: Some(merged.clone()), ..Self::new(merged) }
    }

    /// Creates the entry of a tool of the search for deferred tools.
    pub(crate) fn own(tool: Arc<dyn ToolDyn>) -> Self {
        Self { is_own: true, ..Self::new(tool) }
    }

    /// Checks that the tool can run in `sandbox`. If `sandbox` is `None`, checks that the tool can run without a
    /// sandbox.
    fn check_in(&self, sandbox: Option<&BoxedSandbox>) -> Result<(), RegistryError> {
        if let Some(merged) = &self.merged {
            return merged.check_in(sandbox);
        }
        let sandbox = sandbox.filter(|_| !self.is_own);
        let reason = match sandbox {
            Some(sandbox) => match sandbox.check_tool(&*self.tool) {
                Ok(()) => return Ok(()),
                Err(error) => error.to_string(),
            },
            None if self.tool.runs_program() => "it runs a program, and there is no sandbox".into(),
            None => return Ok(()),
        };
        Err(RegistryError::CannotRun { name: self.definition.name.clone(), reason })
    }

    /// Runs the tool without middleware. If `sandbox` is not `None`, the tool runs in the sandbox, except for a tool of
    /// the search for deferred tools.
    pub(crate) fn call<'a>(
        &'a self,
        input: &'a Value,
        ctx: &'a ToolContext,
        sandbox: Option<&'a BoxedSandbox>,
    ) -> WasmBoxedFuture<'a, Result<ToolOutput, ToolError>> {
        match (sandbox.filter(|_| !self.is_own), &self.merged) {
            (None, _) => self.tool.call_ref_dyn(input, ctx),
            // Pass the sandbox to the other registry, because the sandbox must be inside the middleware of that
            // registry.
            (Some(_), Some(merged)) => Box::pin(merged.call(input.clone(), ctx, sandbox, None)),
            (Some(sandbox), None) => {
                let input = input.clone();
                Box::pin(async move { Ok(sandbox.execute_tool(&*self.tool, input, ctx).await?) })
            }
        }
    }

    /// Runs the tool without middleware. If the tool is an agent, it runs with the durable context in `nested`, and
    /// outside of the sandbox. Any other tool runs as in [`call`](Self::call).
    pub(crate) fn call_nested<'a>(
        &'a self,
        input: &'a Value,
        ctx: &'a ToolContext,
        sandbox: Option<&'a BoxedSandbox>,
        nested: Nested<'a>,
    ) -> WasmBoxedFuture<'a, Result<ToolOutput, ToolError>> {
        match (&self.merged, self.tool.agent()) {
            (Some(merged), _) => Box::pin(merged.call(input.clone(), ctx, sandbox, Some(nested))),
            (None, Some(agent)) => {
                agent.call_in(nested.name, input.clone(), ctx, nested.durability)
            }
            (None, None) => self.call(input, ctx, sandbox),
        }
    }

    /// Creates the entry of a tool. If the tool's definition contains another name than [`ToolDyn::name`], the name in
    /// the definition is replaced.
    pub(crate) fn new(tool: Arc<dyn ToolDyn>) -> Self {
        let mut definition = tool.definition();
        if definition.name != tool.name() {
            tracing::warn!(
                tool = tool.name(),
                defined_as = definition.name,
                "a tool's definition has another name than the tool; the tool's name is used"
            );
            tool.name().clone_into(&mut definition.name);
        }
        if !is_valid(tool.name()) {
            tracing::warn!(
                tool = tool.name(),
                "not every vendor takes this name: it has 1 to 64 ASCII letters, digits, `_` or `-`"
            );
        }
        Self { tool, definition: Arc::new(definition), merged: None, is_own: false }
    }
}

impl ToolRegistry {
    /// Creates an empty registry.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a tool. If a tool with the same name exists, the new tool replaces that tool at the same position, and a
    /// warning is logged.
    pub fn register<T: Tool + 'static>(&mut self, tool: T) {
        self.register_dyn(Arc::new(tool));
    }

    /// Adds a dynamic tool. If a tool with the same name exists, the new tool replaces that tool at the same position,
    /// and a warning is logged.
    ///
    /// A [foreign](ToolDyn::is_foreign) tool, such as a tool of an MCP server, does not replace another tool. If the
    /// name is taken, the foreign tool is not added, and an error is logged. For foreign tools, prefer
    /// [`try_register_dyn`](Self::try_register_dyn), which returns the error. The tools that
    /// [`defer_tools`](Self::defer_tools) added are not replaced either.
    pub fn register_dyn(&mut self, tool: Arc<dyn ToolDyn>) {
        if tool.is_foreign() && self.tools.contains_key(tool.name()) {
            tracing::error!(
                tool = tool.name(),
                "a tool with this name was registered before; the foreign one is left out"
            );
            return;
        }
        if self.is_search_tool(tool.name()) {
            tracing::error!(
                tool = tool.name(),
                "this name belongs to the search for deferred tools; the new tool is left out"
            );
            return;
        }
        // `Registered::new` ensures that the name in the definition is the tool's name.
        let registered = Registered::new(tool);
        let name = registered.definition.name.clone();
        if self.tools.contains_key(&name) {
            tracing::warn!(
                tool = name,
                "a tool with this name was registered before; it is replaced"
            );
        }
        self.tools.insert(name, registered);
        self.refresh_search();
    }

    /// Adds a tool whose name must not be taken.
    ///
    /// # Errors
    ///
    /// [`RegistryError::NameTaken`] if the name is registered already. The registry is then unchanged.
    pub fn try_register<T: Tool + 'static>(&mut self, tool: T) -> Result<(), RegistryError> {
        self.try_register_dyn(Arc::new(tool))
    }

    /// Adds a dynamic tool whose name must not be taken.
    ///
    /// # Errors
    ///
    /// [`RegistryError::NameTaken`] if the name is registered already. The registry is then unchanged.
    pub fn try_register_dyn(&mut self, tool: Arc<dyn ToolDyn>) -> Result<(), RegistryError> {
        self.check_name_is_free(tool.name())?;
        self.register_dyn(tool);
        Ok(())
    }

    /// Removes and returns a tool. Returns `None` if no tool has this name. All other tools keep their order.
    ///
    /// Middleware that was added for the name is kept. It applies to a tool that is later registered with this name.
    pub fn remove(&mut self, name: &str) -> Option<Arc<dyn ToolDyn>> {
        // `shift_remove` keeps the order of the other tools.
        let removed = self.tools.shift_remove(name)?;
        match self.is_search_tool(name) {
            true => self.stop_deferring(),
            false => self.refresh_search(),
        }
        Some(removed.tool)
    }

    /// Adds all tools of another registry in their order, with the middleware of that registry.
    ///
    /// The middleware of the other registry applies only to its own tools, and runs inside the middleware of this
    /// registry.
    ///
    /// # Errors
    ///
    /// [`RegistryError::NameTaken`] with the first name that is registered already. [`RegistryError::DefersTools`] if the
    /// other registry defers its tools. After an error, the registry is unchanged.
    pub fn merge(&mut self, other: Self) -> Result<(), RegistryError> {
        self.merge_prefixed("", other)
    }

    /// Adds all tools of another registry with a prefix before their names. Use a prefix if two registries may have
    /// tools with the same name, for example the tools of two MCP servers.
    ///
    /// The model and the middleware of this registry see the new names. The middleware of the other registry sees the
    /// original names.
    ///
    /// # Errors
    ///
    /// - [`RegistryError::NameTaken`] with the first name that is registered already.
    /// - [`RegistryError::InvalidName`] with the first name that is too long with the prefix, or contains characters
    ///   that vendors reject.
    /// - [`RegistryError::DefersTools`] if the other registry defers its tools.
    ///
    /// After an error, the registry is unchanged.
    ///
    /// # Example
    ///
    /// ```
    /// use neuron_tool::ToolRegistry;
    ///
    /// # fn tools_of(_server: &str) -> ToolRegistry { ToolRegistry::new() }
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let mut registry = ToolRegistry::new();
    /// registry.merge_prefixed("github_", tools_of("github"))?;
    /// registry.merge_prefixed("jira_", tools_of("jira"))?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn merge_prefixed(&mut self, prefix: &str, other: Self) -> Result<(), RegistryError> {
        if other.defers_tools() {
            return Err(RegistryError::DefersTools);
        }
        // Check all names before the first insertion, because an error must leave the registry unchanged.
        for name in other.names() {
            let name = format!("{prefix}{name}");
            self.check_name_is_free(&name)?;
            // Without a prefix, the name does not change. An invalid name was then logged when the tool was registered.
            if !prefix.is_empty() && !is_valid(&name) {
                return Err(RegistryError::InvalidName { name });
            }
        }
        for registered in merged::tools(prefix, other) {
            self.tools.insert(registered.definition.name.clone(), registered);
        }
        self.refresh_search();
        Ok(())
    }

    /// Returns [`RegistryError::NameTaken`] if a tool has this name.
    fn check_name_is_free(&self, name: &str) -> Result<(), RegistryError> {
        match self.tools.contains_key(name) {
            true => Err(RegistryError::NameTaken { name: name.to_owned() }),
            false => Ok(()),
        }
    }

    /// Returns a tool by its name. Returns `None` if no tool has this name.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<Arc<dyn ToolDyn>> {
        self.tools.get(name).map(|registered| registered.tool.clone())
    }

    /// Returns the definition of a tool. Returns `None` if no tool has this name.
    #[must_use]
    pub fn definition(&self, name: &str) -> Option<&ToolDefinition> {
        self.tools.get(name).map(|registered| &*registered.definition)
    }

    /// Returns all definitions in registration order.
    #[must_use]
    pub fn definitions(&self) -> Vec<ToolDefinition> {
        self.tools.values().map(|registered| (*registered.definition).clone()).collect()
    }

    /// Returns all definitions as shared pointers, whose address identifies a definition.
    #[cfg(feature = "validation")]
    pub(crate) fn shared_definitions(&self) -> impl Iterator<Item = &Arc<ToolDefinition>> {
        self.tools().map(|registered| &registered.definition)
    }

    /// Returns the names of the tools in registration order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.tools.keys().map(String::as_str)
    }

    /// Returns the number of tools.
    #[must_use]
    pub fn len(&self) -> usize {
        self.tools.len()
    }

    /// Returns `true` if the registry has no tools.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.tools.is_empty()
    }

    /// Adds global middleware, which wraps every call. Earlier global middleware is outside of the new middleware.
    pub fn add_middleware(&mut self, middleware: impl ToolMiddleware + 'static) -> &mut Self {
        self.global.push(Arc::new(middleware));
        self
    }

    /// Adds middleware that wraps the calls of one tool. The global middleware and the earlier middleware of this tool
    /// are outside of the new middleware. The tool may be registered later.
    pub fn add_tool_middleware(
        &mut self,
        tool: &str,
        middleware: impl ToolMiddleware + 'static,
    ) -> &mut Self {
        self.by_tool.entry(tool.to_owned()).or_default().push(Arc::new(middleware));
        self
    }

    /// Adds one middleware that wraps the calls of several tools. The tools share its counters and limits. Otherwise
    /// the effect is the same as [`add_tool_middleware`](Self::add_tool_middleware) for each tool.
    ///
    /// # Example
    ///
    /// ```
    /// use neuron_tool::{ToolRegistry, tool_middleware_fn};
    ///
    /// let mut registry = ToolRegistry::new();
    /// registry.add_group_middleware(["read_file", "write_file"], tool_middleware_fn(|call, ctx, next| {
    ///     Box::pin(async move {
    ///         println!("{} {}", call.name, call.input["path"]);
    ///         next.run(call, ctx).await
    ///     })
    /// }));
    /// ```
    pub fn add_group_middleware<T: Into<String>>(
        &mut self,
        tools: impl IntoIterator<Item = T>,
        middleware: impl ToolMiddleware + 'static,
    ) -> &mut Self {
        let middleware: Arc<dyn ToolMiddleware> = Arc::new(middleware);
        for tool in tools {
            self.by_tool.entry(tool.into()).or_default().push(middleware.clone());
        }
        self
    }

    /// Sets the sandbox in which all tools run. All middleware runs outside of the sandbox. Existing clones of the
    /// registry do not change.
    ///
    /// A tool that was [merged](Self::merge) from a registry with a sandbox still runs in that sandbox. A tool from a
    /// registry without a sandbox runs in this sandbox, inside the middleware of its registry. The two tools of
    /// [`defer_tools`](Self::defer_tools) run outside of the sandbox, because they only read the registry.
    ///
    /// # Example
    ///
    /// ```
    /// use neuron_tool::{ToolRegistry, neuron_tool};
    /// use neuron_types::{Sandbox, SandboxError, ToolContext, ToolDyn, ToolError, ToolOutput};
    ///
    /// /// Refuses every tool.
    /// struct Closed;
    ///
    /// impl Sandbox for Closed {
    ///     async fn execute_tool(
    ///         &self,
    ///         tool: &dyn ToolDyn,
    ///         _input: serde_json::Value,
    ///         _ctx: &ToolContext,
    ///     ) -> Result<ToolOutput, SandboxError> {
    ///         Err(SandboxError::SetupFailed(format!("`{}` cannot be confined", tool.name())))
    ///     }
    /// }
    ///
    /// /// Deletes a file
    /// #[neuron_tool]
    /// async fn delete(path: String) -> Result<(), ToolError> {
    ///     Ok(std::fs::remove_file(path).map_err(|error| ToolError::ExecutionFailed(Box::new(error)))?)
    /// }
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// let mut registry = ToolRegistry::new();
    /// registry.register(DeleteTool);
    /// registry.set_sandbox(Closed);
    ///
    /// let input = serde_json::json!({ "path": "/etc/passwd" });
    /// let error = registry.execute("delete", input, &ToolContext::default()).await.unwrap_err();
    /// assert_eq!(
    ///     error.to_string(),
    ///     "execution failed: sandbox setup failed: `delete` cannot be confined"
    /// );
    /// # }
    /// ```
    pub fn set_sandbox(&mut self, sandbox: impl Sandbox + 'static) -> &mut Self {
        self.sandbox = Some(BoxedSandbox::new(sandbox));
        self
    }

    /// Removes the sandbox and returns it. Returns `None` if there was no sandbox. Later calls run in this process.
    pub fn remove_sandbox(&mut self) -> Option<BoxedSandbox> {
        self.sandbox.take()
    }

    /// Sets the maximum number of characters of an output or an error of any tool. Default: 200,000. Longer texts are
    /// truncated with a notice, as by an [`OutputFormatter`] around all middleware. `usize::MAX` removes the limit.
    ///
    /// The limit belongs to the registry that is called, so it also applies to tools that are
    /// [merged](Self::merge) from another registry. The limit of the other registry no longer applies.
    pub fn set_max_output_characters(&mut self, characters: usize) -> &mut Self {
        self.max_output_characters = Some(characters);
        self
    }

    /// Returns the maximum number of characters of an output or an error. Returns `None` if the maximum was not set.
    #[must_use]
    pub fn max_output_characters(&self) -> Option<usize> {
        self.max_output_characters
    }

    /// Truncates the result of a call of the tool `name`. The results of the search for deferred tools stay whole.
    fn limited(
        &self,
        name: &str,
        result: Result<ToolOutput, ToolError>,
    ) -> Result<ToolOutput, ToolError> {
        if self.tools.get(name).is_some_and(|tool| tool.is_own) {
            return result;
        }
        let most = self.max_output_characters.unwrap_or(MAX_OUTPUT_CHARACTERS);
        OutputFormatter::new(most).limit(result)
    }

    /// Checks that calls of each tool can run.
    ///
    /// # Errors
    ///
    /// [`RegistryError::CannotRun`] with the first tool that cannot run. A tool cannot run in a sandbox that refuses
    /// it. A tool that only starts a program also cannot run without a sandbox.
    pub fn check_runnable(&self) -> Result<(), RegistryError> {
        self.tools.values().try_for_each(|tool| {
            if let Err(error) = tool.definition.arguments_schema() {
                let name = tool.definition.name.clone();
                return Err(RegistryError::CannotRun { name, reason: error.to_string() });
            }
            tool.check_in(self.sandbox())
        })
    }

    /// Checks that a tool can run in the registry's own sandbox, or in `sandbox` if the registry has no sandbox.
    pub(crate) fn check_tool_in(
        &self,
        name: &str,
        sandbox: Option<&BoxedSandbox>,
    ) -> Result<(), RegistryError> {
        let sandbox = self.sandbox().or(sandbox);
        self.tools.get(name).map_or(Ok(()), |tool| tool.check_in(sandbox))
    }

    /// Returns `true` if calls of a tool pass through middleware or a sandbox of this registry.
    pub(crate) fn wraps(&self, name: &str) -> bool {
        !self.global.is_empty() || self.by_tool.contains_key(name) || self.sandbox.is_some()
    }

    /// Returns the entries of all tools in registration order, and drops the middleware.
    pub(crate) fn into_tools(self) -> impl Iterator<Item = Registered> {
        self.tools.into_values()
    }

    /// Returns a tool by its name, without cloning its `Arc`. Returns `None` if no tool has this name.
    pub(crate) fn tool(&self, name: &str) -> Option<&dyn ToolDyn> {
        self.tools.get(name).map(|registered| &*registered.tool)
    }

    /// Returns the entries of all tools in registration order.
    pub(crate) fn tools(&self) -> impl Iterator<Item = &Registered> {
        self.tools.values()
    }

    /// Returns the registry's own sandbox. Returns `None` if there is no sandbox.
    pub(crate) fn sandbox(&self) -> Option<&BoxedSandbox> {
        self.sandbox.as_ref()
    }
}

/// Returns `true` if all vendors accept the name of a tool. A valid name has 1 to 64 ASCII letters, digits, `_` or `-`.
fn is_valid(name: &str) -> bool {
    let is_allowed = |char: char| char.is_ascii_alphanumeric() || char == '_' || char == '-';
    (1..=64).contains(&name.len()) && name.chars().all(is_allowed)
}

impl fmt::Debug for ToolRegistry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ToolRegistry")
            .field("tools", &self.tools.keys().collect::<Vec<_>>())
            .field("middleware", &self.global.len())
            .finish_non_exhaustive()
    }
}
