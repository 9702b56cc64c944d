//! Deferred tools, whose definitions are not in the requests.

use neuron_types::{
    CALL_TOOL, ContentBlock, ContentItem, Message, RegistryError, Role, SEARCH_TOOLS,
    ToolDefinition, ToolUseRef, is_search_tool,
};

use super::{Registered, ToolRegistry};
use crate::tool_search::{self, ToolSearch};

impl ToolRegistry {
    /// Defers all tools that are not [visible](ToolSearch::visible) in the settings. Registers the tools [`SEARCH_TOOLS`] and
    /// [`CALL_TOOL`], with which the model finds and calls the deferred tools.
    ///
    /// Use deferred tools if the registry has so many tools that their definitions would fill the model's context. A
    /// request then has the definitions of the visible tools only. A search returns the definitions of matching tools
    /// as text at the end of the conversation. No earlier byte of the request changes, so a vendor's prompt cache still
    /// applies.
    ///
    /// An agent runs the tool that a call of [`CALL_TOOL`] names, under the name and with the arguments of this tool.
    /// Hooks, permission policy, approvals, middleware, effects, idempotency keys, sandbox and telemetry apply to this
    /// tool. A deferred tool can be called if an earlier result of [`SEARCH_TOOLS`] in the conversation has its
    /// definition. Other calls fail like calls of unknown tools. The conversation is the only state. A loaded session
    /// and a replayed run therefore know the found tools. After a compaction that removes a result, the model searches
    /// again.
    ///
    /// A permission policy must allow [`SEARCH_TOOLS`]. It never decides on a call of [`CALL_TOOL`]. A call of
    /// [`CALL_TOOL`] that is incomplete or names [`CALL_TOOL`] is refused before the policy.
    ///
    /// A loop of your own sends [`visible_definitions`](Self::visible_definitions), and runs [`ToolUseRef::target`] of
    /// each call. It refuses the calls in [`calls_not_found`](Self::calls_not_found).
    ///
    /// With [`ToolSearch::prefer_vendor`], the vendor searches where it can.
    ///
    /// Tools that are registered or removed later are deferred or no longer found. A second call replaces the settings.
    /// Removing [`SEARCH_TOOLS`] or [`CALL_TOOL`] removes both, and makes all tools visible.
    ///
    /// # Replay
    ///
    /// A durable run can replay after deferred tools were added or removed. If the model had found a tool that was removed
    /// since, the permission policy decides on its calls again, without its definition. The replay fails with
    /// `DurableError::NonDeterminism` in these cases, in which the run depended on more than the name of a removed tool:
    ///
    /// - The tool is an [agent](neuron_types::AgentTool), or its call has an
    ///   [effect key](neuron_types::ToolDyn::effect_key).
    /// - The tool [runs alone](neuron_types::ToolDyn::runs_alone), and the response had other calls.
    /// - The permission policy decides by the definition of the tool.
    /// - The tool rejected arguments about which the policy had asked for an approval.
    ///
    /// # Errors
    ///
    /// [`RegistryError::NameTaken`] if a tool is registered as [`SEARCH_TOOLS`] or [`CALL_TOOL`]. The registry is then
    /// unchanged.
    ///
    /// # Example
    ///
    /// ```
    /// use neuron_tool::{ToolRegistry, ToolSearch, neuron_tool};
    /// use neuron_types::{CALL_TOOL, ContentBlock, Message, Role, SEARCH_TOOLS, ToolContext, ToolError};
    /// use serde_json::json;
    ///
    /// /// Reads a file
    /// #[neuron_tool]
    /// async fn read_file(path: String) -> Result<String, ToolError> {
    ///     Ok(format!("content of {path}"))
    /// }
    ///
    /// /// Creates an issue
    /// #[neuron_tool]
    /// async fn create_issue(title: String) -> Result<String, ToolError> {
    ///     Ok(format!("created: {title}"))
    /// }
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let mut tools = ToolRegistry::new();
    /// tools.register(ReadFileTool);
    /// tools.register(CreateIssueTool);
    /// tools.defer_tools(ToolSearch::new().visible(["read_file"]))?;
    ///
    /// let visible = tools.visible_definitions();
    /// let names: Vec<&str> = visible.iter().map(|tool| &*tool.name).collect();
    /// assert_eq!(names, ["read_file", SEARCH_TOOLS, CALL_TOOL]);
    ///
    /// // An agent makes these calls for the model.
    /// let input = json!({ "query": "open an issue" });
    /// let output = tools.execute(SEARCH_TOOLS, input.clone(), &ToolContext::default()).await?;
    /// assert!(output.content[0].to_string().starts_with(r#"{"name":"create_issue""#));
    ///
    /// let call = ContentBlock::ToolUse { id: "1".into(), name: SEARCH_TOOLS.into(), input };
    /// let result = ContentBlock::ToolResult {
    ///     tool_use_id: "1".into(),
    ///     content: output.content,
    ///     is_error: false,
    /// };
    /// let conversation = [
    ///     Message { role: Role::Assistant, content: vec![call] },
    ///     Message { role: Role::User, content: vec![result] },
    /// ];
    /// assert_eq!(tools.found_tools(&conversation), ["create_issue"]);
    /// # Ok(())
    /// # }
    /// ```
    pub fn defer_tools(&mut self, search: ToolSearch) -> Result<&mut Self, RegistryError> {
        if self.search.is_none() {
            self.check_name_is_free(SEARCH_TOOLS)?;
            self.check_name_is_free(CALL_TOOL)?;
        }
        self.search = Some(search);
        self.refresh_search();
        self.tools.insert(CALL_TOOL.to_owned(), Registered::own(tool_search::call_tool()));
        Ok(self)
    }

    /// Returns `true` if [`defer_tools`](Self::defer_tools) was called, and the search was not removed later.
    #[must_use]
    pub fn defers_tools(&self) -> bool {
        self.search.is_some()
    }

    /// Returns `true` if tools are deferred with [`ToolSearch::prefer_vendor`].
    #[must_use]
    pub fn prefers_vendor_search(&self) -> bool {
        self.search.as_ref().is_some_and(ToolSearch::prefers_vendor)
    }

    /// Returns `true` if the registry has a tool with this name whose definition is not in the model's context.
    #[must_use]
    pub fn is_deferred(&self, name: &str) -> bool {
        let search = self.search.as_ref();
        search.is_some_and(|search| search.defers(name)) && self.tools.contains_key(name)
    }

    /// Returns the definitions that belong into a request, in registration order. Without
    /// [`defer_tools`](Self::defer_tools), these are all definitions. With [`ToolSearch::prefer_vendor`], the definition of
    /// [`SEARCH_TOOLS`] also contains the deferred definitions.
    #[must_use]
    pub fn visible_definitions(&self) -> Vec<ToolDefinition> {
        let mut visible = self.definitions_of(false);
        // Added here and not in the tool, because the tool is created again for each registered tool.
        let search = visible.iter_mut().find(|tool| tool.name == SEARCH_TOOLS);
        if let Some(search) = search.filter(|_| self.prefers_vendor_search()) {
            *search = search.clone().with_deferred_tools(&self.deferred_definitions());
        }
        visible
    }

    /// Returns the definitions of the tools that are [deferred](Self::is_deferred), in registration order.
    #[must_use]
    pub fn deferred_definitions(&self) -> Vec<ToolDefinition> {
        self.definitions_of(true)
    }

    fn definitions_of(&self, is_deferred: bool) -> Vec<ToolDefinition> {
        let tools = self.tools.iter().filter(|(name, _)| self.is_deferred(name) == is_deferred);
        tools.map(|(_, registered)| (*registered.definition).clone()).collect()
    }

    /// Returns the names of the deferred tools whose definitions are in a conversation, in the order in which the model
    /// found them. Tools that only the vendor's search found are not included.
    ///
    /// The result depends only on the messages and the registered tools. Only successful results of [`SEARCH_TOOLS`]
    /// count.
    #[must_use]
    pub fn found_tools(&self, messages: &[Message]) -> Vec<String> {
        let mut found: Vec<String> = Vec::new();
        if !self.defers_tools() {
            return found;
        }
        let mut searches: Vec<&str> = Vec::new();
        for message in messages {
            if message.role == Role::Assistant {
                searches = searches_in(message);
                continue;
            }
            for name in results(message, &searches).flat_map(tool_search::names_in) {
                if self.is_deferred(&name) && !found.contains(&name) {
                    found.push(name);
                }
            }
        }
        found
    }

    /// Returns the names of the tools that a response calls, although neither a request nor the conversation `before`
    /// the response has their definitions. Such a call must fail, because the model has not read the definition. Returns
    /// nothing without [`defer_tools`](Self::defer_tools).
    ///
    /// With [`ToolSearch::prefer_vendor`], only calls through [`CALL_TOOL`] are checked. Only the vendor knows which
    /// definitions its search gave to the model. A model may therefore call a tool directly before it has read the
    /// definition, as [OpenAI's models](https://github.com/openai/openai-agents-js/issues/1518) sometimes do. The call then
    /// runs if the arguments are valid and the permission policy and the approvals allow it.
    ///
    /// The result does not depend on the registered tools, and includes unknown names. A replayed run therefore refuses
    /// the same calls after a tool was added or removed.
    #[must_use]
    pub fn calls_not_found(&self, before: &[Message], response: &Message) -> Vec<String> {
        let mut missing: Vec<String> = Vec::new();
        let Some(search) = &self.search else {
            return missing;
        };
        for call in response.tool_uses() {
            let name = call.target().name;
            let is_checked = call.name == CALL_TOOL || !search.prefers_vendor();
            if is_checked && search.defers(name) && !missing.iter().any(|known| known == name) {
                missing.push(name.to_owned());
            }
        }
        // A tool was usually found shortly before its call, so the newest results are read first.
        let mut rest = before;
        while !missing.is_empty()
            && let Some(index) = rest.iter().rposition(|message| message.role == Role::Assistant)
            && let Some((earlier, last)) = rest.split_at_checked(index)
            && let Some((calls, answers)) = last.split_first()
        {
            let searches = searches_in(calls);
            for text in answers.iter().flat_map(|message| results(message, &searches)) {
                missing.retain(|name| !tool_search::has_definition(text, name));
            }
            rest = earlier;
        }
        missing
    }

    /// Updates the search after a change of the registered tools.
    pub(super) fn refresh_search(&mut self) {
        let Some(search) = &self.search else {
            return;
        };
        let deferred = self.tools.iter().filter(|(name, _)| search.defers(name));
        let definitions = deferred.map(|(_, registered)| registered.definition.clone()).collect();
        let tool = Registered::own(search.search_tool(definitions));
        // An existing entry keeps its position.
        self.tools.insert(SEARCH_TOOLS.to_owned(), tool);
    }

    /// Returns `true` for the names of the two tools of the search, if tools are deferred.
    pub(super) fn is_search_tool(&self, name: &str) -> bool {
        self.defers_tools() && is_search_tool(name)
    }

    /// Removes the two tools of the search. All tools are visible then.
    pub(super) fn stop_deferring(&mut self) {
        self.search = None;
        self.tools.shift_remove(SEARCH_TOOLS);
        self.tools.shift_remove(CALL_TOOL);
    }
}

/// Returns the ids of the searches in a response. Ids of calls are unique only within a message.
fn searches_in(response: &Message) -> Vec<&str> {
    let calls = response.tool_uses().map(ToolUseRef::target);
    calls.filter(|call| call.name == SEARCH_TOOLS).map(|call| call.id).collect()
}

/// Returns the texts of the successful results in a message that belong to the calls with these ids.
fn results<'m>(message: &'m Message, ids: &[&str]) -> impl Iterator<Item = &'m str> {
    message
        .content
        .iter()
        .filter_map(ContentBlock::portable)
        .flat_map(|block| match block {
            ContentBlock::ToolResult { tool_use_id, content, is_error: false }
                if ids.contains(&tool_use_id.as_str()) =>
            {
                content.as_slice()
            }
            _ => &[],
        })
        .filter_map(|item| match item {
            ContentItem::Text(text) => Some(text.as_str()),
            _ => None,
        })
}
