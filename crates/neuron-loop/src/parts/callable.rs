//! The tools that the calls of a response can run, and the reasons why other tools cannot run.

use std::borrow::Cow;
use std::sync::Arc;

use neuron_tool::ToolRegistry;
use neuron_types::{
    CALL_TOOL, ContentBlock, Message, ModelCall, SEARCH_TOOLS, ToolDefinition, ToolDyn, ToolError,
    ToolUseRef, is_search_tool,
};
use serde_json::Value;

use super::Env;
use crate::ledger::{OutputRules, is_invalid_json};

/// The tools that the calls of a response can run. A tool is excluded if the request did not offer it, or if it is
/// deferred and the model has not found it.
#[derive(Clone)]
pub(crate) struct CallableTools<'a> {
    registry: &'a ToolRegistry,
    /// Names of the excluded tools.
    excluded: Arc<[String]>,
}

impl<'a> Env<'a> {
    /// Returns the tools of the agent without the `excluded` ones.
    pub(crate) fn callable(&self, excluded: Arc<[String]>) -> CallableTools<'a> {
        CallableTools { registry: &self.parts.definition.tools, excluded }
    }

    /// Returns the names of the agent's tools that a layer removed from a request, and of the deferred tools that a
    /// layer refused.
    pub(crate) fn not_offered(&self, call: &ModelCall<'_>) -> Arc<[String]> {
        let (tools, offered) = (self.frame.tools, call.request.tools);
        // Usually no layer has changed the tools. Then there is nothing to compare.
        if std::ptr::eq(tools, offered) && call.refused.is_empty() {
            return Arc::default();
        }
        let is_offered = |name: &str| offered.iter().any(|tool| tool.name == name);
        let removed = tools.iter().filter(|tool| !is_offered(&tool.name));
        let removed = removed.map(|tool| tool.name.clone());
        // FAULT a deferred tool that a layer refused is offered: without `.chain(call.refused.iter().map(|name|
        //     (*name).to_owned()))` (deferred_tools::restriction_of_a_turn_applies_to_found_tools)
        removed.chain(call.refused.iter().map(|name| (*name).to_owned())).collect()
    }

    /// [Corrects](ToolDefinition::correct_arguments) the arguments of the calls in a response, before hooks, policies
    /// and validators see them.
    pub(crate) fn correct(&self, answer: &mut Message) {
        // FAULT arguments in a text are not read: without the statement
        //     (arguments::text_with_an_array_is_read_before_the_policy)
        for block in &mut answer.content {
            if let Some(ContentBlock::ToolUse { name, input, .. }) = block.portable_mut() {
                self.correct_input(name, input);
            }
        }
    }

    /// Corrects the arguments of a call, and of the call inside a call of [`CALL_TOOL`].
    pub(crate) fn correct_input(&self, name: &str, input: &mut Value) {
        let tools = &self.parts.definition.tools;
        // The registry does not know the output tool.
        let offered = || self.frame.tools.iter().find(|tool| tool.name == name);
        if let Some(definition) = tools.definition(name).or_else(offered) {
            definition.correct_arguments(input);
        }
        if name == CALL_TOOL
            && tools.defers_tools()
            && let Value::Object(fields) = input
            && let Some(target) = fields.get("name").and_then(Value::as_str)
            && let Some(definition) = tools.definition(target)
            && let Some(arguments) = fields.get_mut("arguments")
        {
            definition.correct_arguments(arguments);
        }
    }
}

impl<'a> CallableTools<'a> {
    pub(crate) fn get(&self, name: &str) -> Option<Arc<dyn ToolDyn>> {
        if self.excludes(name) { None } else { self.registry.get(name) }
    }

    pub(crate) fn definition(&self, name: &str) -> Option<&'a ToolDefinition> {
        if self.excludes(name) { None } else { self.registry.definition(name) }
    }

    /// Returns `true` if no call can run the tool.
    pub(crate) fn excludes(&self, name: &str) -> bool {
        self.excluded.iter().any(|excluded| excluded == name)
    }

    /// Returns `true` if the arguments of a call are not JSON.
    pub(crate) fn is_invalid(&self, call: ToolUseRef<'_>) -> bool {
        is_invalid_json(call.input, || self.definition(call.name))
    }

    /// Returns `true` if the tool is registered, or if the model may have found it before it was removed. If tools are
    /// deferred, a replay treats a tool that was removed like any other.
    pub(crate) fn may_know(&self, name: &str) -> bool {
        // FAULT a model that searches fails by names that it does not know: without `self.registry.defers_tools() ||`
        //     (deferred_tools::retry_limit_counts_each_tool_that_was_not_found)
        self.registry.defers_tools() || self.definition(name).is_some()
    }

    /// Returns `true` if a call of the tool needs the whole response, because only then it is known whether the model
    /// had found the tool.
    pub(crate) fn needs_whole_response(&self, name: &str) -> bool {
        // FAULT a deferred tool starts early before it was found: without `self.registry.is_deferred(name) ||`
        //     (deferred_tools::tools_that_start_early_have_been_found)
        self.registry.is_deferred(name) || self.is_call_tool(name)
    }

    /// Returns `true` if a call of [`CALL_TOOL`] is a call of the tool that it names.
    pub(crate) fn has_targets(&self) -> bool {
        // FAULT call_tool runs itself: `defers_tools()` -> `defers_tools() && false`
        //     (deferred_tools::model_finds_and_calls_a_tool)
        // FAULT a removed call_tool runs its target: without `&& !self.excludes(CALL_TOOL)`
        //     (deferred_tools::removed_call_tool_cannot_be_called)
        self.registry.defers_tools() && !self.excludes(CALL_TOOL)
    }

    /// Returns `true` for the name of [`CALL_TOOL`]. Without deferred tools, a tool with this name is an ordinary tool.
    fn is_call_tool(&self, name: &str) -> bool {
        self.registry.defers_tools() && name == CALL_TOOL
    }

    /// Returns the names of the tools that a response cannot call. If tools are deferred, these are also the called
    /// tools that the model has not found in the conversation `before` the response. If the vendor searches, the model
    /// may call any tool that the request gave the vendor.
    pub(crate) fn excluded_from(
        &self,
        before: &[Message],
        answer: &Message,
        output: Option<&OutputRules>,
    ) -> Cow<'_, [String]> {
        if !self.registry.defers_tools() {
            return Cow::Borrowed(&self.excluded);
        }
        // Without `call_tool`, the request offers no deferred tool.
        // FAULT a request without call_tool offers what was found: `&[]` -> `before`
        //     (deferred_tools::layer_that_removes_call_tool_prevents_all_deferred_tools)
        let before = if self.excludes(CALL_TOOL) { &[] } else { before };
        // FAULT a deferred tool runs before it was found: `answer` -> `&Message::user("")`
        //     (deferred_tools::tool_that_was_not_found_does_not_run)
        let mut excluded = self.registry.calls_not_found(before, answer);
        // Without one of the two tools, the request gave the vendor no deferred tool either.
        let no_search = || self.excludes(SEARCH_TOOLS) || self.excludes(CALL_TOOL);
        if self.registry.prefers_vendor_search() && no_search() {
            let calls = answer.tool_uses().filter(|call| self.registry.is_deferred(call.name));
            // FAULT a vendor that cannot search finds tools: without the line
            //     (vendor_search::restriction_of_a_turn_applies_to_the_vendor_too)
            excluded.extend(calls.map(|call| call.name.to_owned()));
        }
        // The registry does not know the output tool, whose definition is in the request.
        excluded.retain(|name| output.is_none_or(|output| output.tool_name() != Some(name)));
        // A layer may refuse hundreds of deferred tools, so only the called ones are stored.
        let is_called = |name: &String| answer.tool_uses().any(|call| call.target().name == name);
        for name in &*self.excluded {
            // FAULT a deferred tool that the turn does not retain runs: `||` -> `&&`
            //     (deferred_tools::restriction_of_a_turn_applies_to_found_tools)
            if !excluded.contains(name) && (!self.registry.is_deferred(name) || is_called(name)) {
                excluded.push(name.clone());
            }
        }
        Cow::Owned(excluded)
    }

    /// Returns the error of a call that its tool does not get. The tool is excluded, or the call is a call of
    /// [`CALL_TOOL`] that is incomplete or names [`CALL_TOOL`] itself. Returns `None` for any other call.
    pub(crate) fn refuses(&self, call: ToolUseRef<'_>) -> Option<ToolError> {
        // FAULT a tool that is not offered runs: `self.excludes(call.name)` -> `false`
        if self.excludes(call.name) {
            return Some(ToolError::NotFound(call.name.to_owned()));
        }
        match self.is_call_tool(call.name) {
            true => self.get(CALL_TOOL)?.check_input(call.input).err(),
            false => None,
        }
    }

    /// Returns the error text of a call of an unknown tool. It lists the tools in the request. If the vendor may have
    /// searched, the tools of the agent's own search are not listed, because the model may not have seen them.
    pub(crate) fn not_found(&self, name: &str) -> String {
        let tools = self.registry;
        let is_omitted = |name: &str| tools.prefers_vendor_search() && is_search_tool(name);
        let is_offered =
            |name: &&str| !self.excludes(name) && !tools.is_deferred(name) && !is_omitted(name);
        let names: Vec<&str> = tools.names().filter(is_offered).collect();
        let known = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
        let hint = if !tools.defers_tools() || self.excludes(SEARCH_TOOLS) {
            ""
        } else if tools.prefers_vendor_search() {
            ". Search for other tools before you call them"
        } else {
            ". Find other tools with `search_tools` before you call them"
        };
        format!("tool not found: {name}; the tools are: {known}{hint}")
    }
}
