//! Serialisation of the tools of a request.

use std::borrow::Cow;
use std::ops::Not;

use neuron_http::{VendorFields, tool_schema};
use neuron_model::ToolDefinition;
use serde::ser::{Error, SerializeSeq};
use serde::{Serialize, Serializer};
use serde_json::Value;

use super::{Cache, PROVIDER};
use crate::search::{SEARCH_NAME, SEARCH_TYPE, Search};

/// The tools of a request. If Anthropic searches the deferred tools, its search and the deferred tools come last.
pub(super) struct Tools<'a>(pub(super) &'a Search<'a>);

impl Serialize for Tools<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let search = self.0;
        let visible = search.tools().map(|tool| Tool::new(tool, false));
        let own = search
            .adds_tool()
            .then_some(Ok(Tool::Search { r#type: SEARCH_TYPE, name: SEARCH_NAME }));
        let deferred = search.deferred().iter().map(|tool| Tool::new(tool, true));
        let mut tools = serializer.serialize_seq(None)?;
        for tool in visible.chain(own).chain(deferred) {
            tools.serialize_element(&tool?)?;
        }
        tools.end()
    }
}

#[derive(Serialize)]
#[serde(untagged)]
enum Tool<'a> {
    Custom {
        name: &'a str,
        description: &'a str,
        input_schema: Cow<'a, Value>,
        #[serde(skip_serializing_if = "Option::is_none")]
        cache_control: Option<Cache>,
        #[serde(skip_serializing_if = "Not::not")]
        strict: bool,
        #[serde(skip_serializing_if = "Not::not")]
        defer_loading: bool,
        #[serde(flatten)]
        vendor: VendorFields<'a>,
    },
    Search {
        r#type: &'static str,
        name: &'static str,
    },
}

impl<'a> Tool<'a> {
    fn new<E: Error>(tool: &'a ToolDefinition, is_deferred: bool) -> Result<Self, E> {
        const VISIBLE: [&str; 5] =
            ["name", "description", "input_schema", "cache_control", "strict"];
        const DEFERRED: [&str; 6] =
            ["name", "description", "input_schema", "cache_control", "strict", "defer_loading"];
        let written: &[&str] = if is_deferred { &DEFERRED } else { &VISIBLE };
        Ok(Self::Custom {
            name: &tool.name,
            description: &tool.description,
            input_schema: tool_schema(tool, true)?,
            // The API rejects a cache breakpoint on a deferred tool.
            cache_control: tool.cache_control.as_ref().filter(|_| !is_deferred).map(Cache::from),
            strict: tool.is_strict(),
            defer_loading: is_deferred,
            vendor: VendorFields { tool, provider: PROVIDER, written },
        })
    }
}
