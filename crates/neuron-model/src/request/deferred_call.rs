//! Calls of tools whose definitions are not in the request.

use std::borrow::Cow;

use serde_json::Value;

use crate::{RequestRef, ToolChoice, ToolDefinition, ToolUseRef};

/// Name of the tool with which a model searches for tools that are not in the request.
pub const SEARCH_TOOLS: &str = "search_tools";

/// Name of the tool with which a model calls a tool that is not in the request.
pub const CALL_TOOL: &str = "call_tool";

/// Returns `true` for [`SEARCH_TOOLS`] and [`CALL_TOOL`].
#[must_use]
pub fn is_search_tool(name: &str) -> bool {
    name == SEARCH_TOOLS || name == CALL_TOOL
}

impl ToolUseRef<'_> {
    /// Returns the call of the tool that a call of [`CALL_TOOL`] names, with the same id. Any other call is returned
    /// unchanged.
    ///
    /// The arguments of [`CALL_TOOL`] are the string `name` and the object `arguments`. A call with other arguments is
    /// returned unchanged too.
    ///
    /// # Example
    ///
    /// ```
    /// use neuron_model::{CALL_TOOL, ToolUseRef};
    /// use serde_json::json;
    ///
    /// let input = json!({ "name": "create_issue", "arguments": { "title": "Crash" } });
    /// let call = ToolUseRef { id: "1", name: CALL_TOOL, input: &input };
    /// let input = json!({ "title": "Crash" });
    /// assert_eq!(call.target(), ToolUseRef { id: "1", name: "create_issue", input: &input });
    /// ```
    #[must_use]
    pub fn target(self) -> Self {
        if self.name != CALL_TOOL {
            return self;
        }
        match (self.input.get("name"), self.input.get("arguments")) {
            (Some(Value::String(name)), Some(input @ Value::Object(_))) => {
                Self { name, input, ..self }
            }
            _ => self,
        }
    }
}

impl<'a> RequestRef<'a> {
    /// Returns the tools that the provider may search itself. They are in the definition of [`SEARCH_TOOLS`], see
    /// [`ToolDefinition::with_deferred_tools`].
    ///
    /// A provider with such a search sends these tools and the tools [beside them](Self::tools_beside). All other providers
    /// send [`tools`](Self::tools), so the model searches with [`SEARCH_TOOLS`].
    ///
    /// Returns nothing if the request does not have both [`SEARCH_TOOLS`] and [`CALL_TOOL`], because the model must then
    /// not search. Returns nothing if [`tool_choice`](Self::tool_choice) forces a call of [`SEARCH_TOOLS`] or
    /// [`CALL_TOOL`], because vendors reject a choice of a tool that is not sent.
    #[must_use]
    pub fn deferred_tools(self) -> Vec<ToolDefinition> {
        let tool = |name: &str| self.tools.iter().find(|tool| tool.name == name);
        match (tool(SEARCH_TOOLS), tool(CALL_TOOL), self.tool_choice) {
            (_, _, Some(ToolChoice::Specific { name })) if is_search_tool(name) => Vec::new(),
            (Some(search), Some(_), _) => search.deferred_tools(),
            _ => Vec::new(),
        }
    }

    /// Returns [`tools`](Self::tools) without the deferred tools in them. The tools are only copied if they have deferred
    /// tools.
    #[must_use]
    pub fn tools_without_deferred(self) -> Cow<'a, [ToolDefinition]> {
        match self.tools.iter().any(ToolDefinition::has_deferred_tools) {
            true => self.tools.iter().map(ToolDefinition::without_deferred_tools).collect(),
            false => self.tools.into(),
        }
    }

    /// Iterates over the tools that a provider sends beside the [deferred tools](Self::deferred_tools) that it searches
    /// itself. If it searches none, these are all [`tools`](Self::tools). Otherwise [`SEARCH_TOOLS`] and [`CALL_TOOL`] are
    /// left out, because two searches would confuse the model.
    pub fn tools_beside(
        self,
        searched: &[ToolDefinition],
    ) -> impl Iterator<Item = &'a ToolDefinition> + use<'a> {
        let has_search = !searched.is_empty();
        self.tools.iter().filter(move |tool| !(has_search && is_search_tool(&tool.name)))
    }

    /// Iterates over the tools in [`extra`](Self::extra), which the caller added in the vendor's format.
    pub fn extra_tools(self) -> impl Iterator<Item = &'a Value> + use<'a> {
        let tools = self.extra.and_then(|extra| extra.get("tools")?.as_array());
        tools.into_iter().flatten()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_complete_call_names_another_tool() {
        let check = |name: &str, input: Value, expected: &str| {
            let call = ToolUseRef { id: "1", name, input: &input };
            assert_eq!(call.target().name, expected, "{name} {input}");
        };
        check(CALL_TOOL, json!({ "name": "a", "arguments": {} }), "a");
        check(CALL_TOOL, json!({ "arguments": {}, "name": "a", "note": 1 }), "a");
        check("other", json!({ "name": "a", "arguments": {} }), "other");
        let incomplete = [
            json!({ "name": "a" }),
            json!({ "arguments": {} }),
            json!({ "name": 1, "arguments": {} }),
            json!({ "name": "a", "arguments": "{}" }),
            json!({ "invalid_json": "{\"name\":" }),
            json!([]),
            json!(null),
        ];
        for input in incomplete {
            check(CALL_TOOL, input, CALL_TOOL);
        }
    }

    #[test]
    fn call_of_call_tool_inside_itself_is_unwrapped_once() {
        let inner = json!({ "name": "a", "arguments": {} });
        let input = json!({ "name": CALL_TOOL, "arguments": inner });
        let call = ToolUseRef { id: "1", name: CALL_TOOL, input: &input };
        assert_eq!(call.target(), ToolUseRef { id: "1", name: CALL_TOOL, input: &inner });
    }

    #[test]
    fn request_has_deferred_tools_only_with_both_tools_of_the_search() {
        let tool = |name: &str| {
            crate::request::tool_options::definition(name, json!({ "type": "object" }))
        };
        let search = tool(SEARCH_TOOLS).with_deferred_tools(&[tool("a"), tool("b").strict()]);
        let all = [tool("look"), search, tool(CALL_TOOL)];
        let names = |tools: &[ToolDefinition]| {
            let request = RequestRef { tools, ..RequestRef::default() };
            let deferred = request.deferred_tools();
            let beside = request.tools_beside(&deferred).map(|tool| tool.name.clone());
            let beside: Vec<String> = beside.collect();
            (deferred.into_iter().map(|tool| tool.name).collect::<Vec<_>>(), beside.join(" "))
        };
        assert_eq!(names(&all), (vec!["a".into(), "b".into()], "look".into()));
        assert_eq!(names(&all[..2]), (vec![], "look search_tools".into()));
        assert_eq!(names(&[tool("look"), tool(CALL_TOOL)]), (vec![], "look call_tool".into()));
        let without = [tool("look"), tool(SEARCH_TOOLS), tool(CALL_TOOL)];
        assert_eq!(names(&without), (vec![], "look search_tools call_tool".into()));
        assert_eq!(names(&[]), (vec![], String::new()));
    }

    #[test]
    fn extra_tools_are_the_tools_that_the_caller_added() {
        let count = |extra: Option<Value>| {
            let request = RequestRef { extra: extra.as_ref(), ..RequestRef::default() };
            request.extra_tools().count()
        };
        assert_eq!(count(Some(json!({ "tools": [{ "type": "web_search" }, {}] }))), 2);
        for extra in [None, Some(json!({})), Some(json!({ "tools": {} })), Some(json!([]))] {
            assert_eq!(count(extra), 0);
        }
    }

    #[test]
    fn tools_are_copied_only_if_they_have_deferred_tools() {
        let tool = |name: &str| {
            crate::request::tool_options::definition(name, json!({ "type": "object" }))
        };
        let search = tool(SEARCH_TOOLS).with_deferred_tools(&[tool("a")]);
        let all = [tool("look"), search];
        let without =
            |tools| RequestRef { tools, ..RequestRef::default() }.tools_without_deferred();
        assert!(matches!(without(&all[..1]), Cow::Borrowed(tools) if *tools == all[..1]));
        assert_eq!(*without(&all), [tool("look"), tool(SEARCH_TOOLS)]);
    }

    #[test]
    fn request_that_forces_a_search_has_no_deferred_tools() {
        let tool = |name: &str| {
            crate::request::tool_options::definition(name, json!({ "type": "object" }))
        };
        let search = tool(SEARCH_TOOLS).with_deferred_tools(&[tool("a")]);
        let all = [tool("look"), search, tool(CALL_TOOL)];
        for (forced, count) in [(SEARCH_TOOLS, 0), (CALL_TOOL, 0), ("look", 1)] {
            let choice = ToolChoice::Specific { name: forced.into() };
            let tool_choice = Some(&choice);
            let request = RequestRef { tools: &all, tool_choice, ..RequestRef::default() };
            assert_eq!(request.deferred_tools().len(), count, "{forced}");
        }
    }
}
