//! Serialisation of the tools of a request.

use neuron_http::VendorFields;
use neuron_model::ToolDefinition;
use serde::ser::{Error, SerializeSeq};
use serde::{Serialize, Serializer};

use super::super::search::{SEARCH_TYPE, Search};
use crate::request::{Parameters, vendor_fields};

/// The tools of a request. If OpenAI searches the deferred tools, its search and the deferred tools come last.
pub(super) struct Tools<'a> {
    pub(super) search: &'a Search<'a>,
    /// Set if the server accepts the field `strict`.
    pub(super) strict: bool,
}

impl Serialize for Tools<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self { search, strict } = *self;
        let visible = search.tools().map(|tool| Tool::new(tool, strict, false));
        let own = search.adds_tool().then_some(Ok(Tool::Search { r#type: SEARCH_TYPE }));
        let deferred = search.searched();
        let deferred = deferred.map(|(tool, is_deferred)| Tool::new(tool, strict, is_deferred));
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
    Function {
        r#type: &'static str,
        name: &'a str,
        description: &'a str,
        parameters: Parameters<'a>,
        /// Value of the field `strict`. `None` if the dialect does not accept the field. Otherwise the field is always
        /// sent, even if it is `false`. The API's default is `true`, and rejects most schemas.
        #[serde(skip_serializing_if = "Option::is_none")]
        strict: Option<bool>,
        #[serde(skip_serializing_if = "std::ops::Not::not")]
        defer_loading: bool,
        #[serde(flatten)]
        vendor: VendorFields<'a>,
    },
    Search {
        r#type: &'static str,
    },
}

impl<'a> Tool<'a> {
    fn new<E: Error>(
        tool: &'a ToolDefinition,
        takes_strict: bool,
        is_deferred: bool,
    ) -> Result<Self, E> {
        const DEFERRED: [&str; 6] =
            ["type", "name", "description", "parameters", "strict", "defer_loading"];
        let vendor = vendor_fields(tool);
        let written: &[&str] = if is_deferred { &DEFERRED } else { vendor.written };
        Ok(Self::Function {
            r#type: "function",
            name: &tool.name,
            description: &tool.description,
            parameters: Parameters::of(tool, takes_strict)?,
            strict: takes_strict.then(|| tool.is_strict()),
            defer_loading: is_deferred,
            vendor: VendorFields { written, ..vendor },
        })
    }
}
