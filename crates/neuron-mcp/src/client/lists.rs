//! Methods that list tools, resources, resource templates and prompts, as single pages or as complete lists.

use std::collections::HashSet;

use neuron_types::{McpError, ToolDefinition};
use rmcp::model::{self, ClientRequest, CustomResult, PaginatedRequestParams, ServerResult};
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::request::Scope;
use super::{McpClient, unexpected};
use crate::json_length::json_length;
use crate::text::cleaned_name;
use crate::wire;
use crate::{
    McpLimitExceeded, McpPrompt, McpResource, McpResourceTemplate, McpTimeout, PaginatedList,
};

/// Maximum number of pages of a complete list. A server could return an endless list.
const MOST_PAGES: usize = 2_000;
/// Maximum number of items of a complete list, to limit its memory.
const MOST_ITEMS: usize = 1_000_000;
/// Maximum size of a complete list, as a multiple of the maximum message size.
const MOST_MESSAGES_LONG: usize = 4;

/// Converts the result of a list request to a page.
type Read<T> = fn(ServerResult) -> Result<PaginatedList<T>, McpError>;

/// List methods. Names, titles and descriptions contain no control characters, and no characters that hide or reorder
/// text.
impl McpClient {
    /// Lists one page of the tools. Without a cursor, lists the first page.
    ///
    /// # Errors
    ///
    /// [`McpError::Other`] with [`McpRequestError`](crate::McpRequestError) if the server refuses the request, for
    /// example because the cursor is unknown. Otherwise returns the same errors as [`call_tool`](Self::call_tool).
    ///
    /// # Cancel safety
    ///
    /// Dropping the future cancels the request.
    pub async fn list_tools(
        &self,
        cursor: Option<&str>,
    ) -> Result<PaginatedList<ToolDefinition>, McpError> {
        tools(self.request(&Scope::default(), ask_tools(cursor)).await?)
    }

    /// Lists all tools. Returns an empty list if the server declares no tools and does not know the method.
    ///
    /// The list ends with a warning in the log if the server repeats a cursor, or sends an empty cursor before MCP
    /// 2026-07-28. The items that were read until then are returned.
    ///
    /// # Errors
    ///
    /// Returns the same errors as [`list_tools`](Self::list_tools), and [`McpError::Other`] with
    /// - [`McpLimitExceeded`] if the list has more than 2,000 pages, more than a million items, or more than four times
    ///   [`max_message_bytes`](crate::McpClientBuilder::max_message_bytes),
    /// - [`McpTimeout`] if all pages together take longer than
    ///   [`max_request_time`](crate::McpClientBuilder::max_request_time).
    ///
    /// # Cancel safety
    ///
    /// Dropping the future cancels the request.
    pub async fn list_all_tools(&self) -> Result<Vec<ToolDefinition>, McpError> {
        let offered = self.current().server.capabilities.tools.is_some();
        self.all(offered, ask_tools, tools).await
    }

    /// Lists one page of the resources. Without a cursor, lists the first page.
    ///
    /// # Errors
    ///
    /// Returns the same errors as [`list_tools`](Self::list_tools).
    ///
    /// # Cancel safety
    ///
    /// Dropping the future cancels the request.
    pub async fn list_resources(
        &self,
        cursor: Option<&str>,
    ) -> Result<PaginatedList<McpResource>, McpError> {
        resources(self.request(&Scope::default(), ask_resources(cursor)).await?)
    }

    /// Lists all resources. Returns an empty list if the server declares no resources and does not know the method.
    ///
    /// # Errors
    ///
    /// Returns the same errors as [`list_all_tools`](Self::list_all_tools).
    ///
    /// # Cancel safety
    ///
    /// Dropping the future cancels the request.
    pub async fn list_all_resources(&self) -> Result<Vec<McpResource>, McpError> {
        let offered = self.current().server.capabilities.resources.is_some();
        self.all(offered, ask_resources, resources).await
    }

    /// Lists one page of the resource templates. Without a cursor, lists the first page.
    ///
    /// # Errors
    ///
    /// Returns the same errors as [`list_tools`](Self::list_tools).
    ///
    /// # Cancel safety
    ///
    /// Dropping the future cancels the request.
    pub async fn list_resource_templates(
        &self,
        cursor: Option<&str>,
    ) -> Result<PaginatedList<McpResourceTemplate>, McpError> {
        templates(self.request(&Scope::default(), ask_templates(cursor)).await?)
    }

    /// Lists all resource templates. Returns an empty list if the server does not know the method.
    ///
    /// # Errors
    ///
    /// Returns the same errors as [`list_all_tools`](Self::list_all_tools).
    ///
    /// # Cancel safety
    ///
    /// Dropping the future cancels the request.
    pub async fn list_all_resource_templates(&self) -> Result<Vec<McpResourceTemplate>, McpError> {
        // A server that declares resources may not support templates.
        self.all(false, ask_templates, templates).await
    }

    /// Lists one page of the prompts. Without a cursor, lists the first page.
    ///
    /// # Errors
    ///
    /// Returns the same errors as [`list_tools`](Self::list_tools).
    ///
    /// # Cancel safety
    ///
    /// Dropping the future cancels the request.
    pub async fn list_prompts(
        &self,
        cursor: Option<&str>,
    ) -> Result<PaginatedList<McpPrompt>, McpError> {
        prompts(self.request(&Scope::default(), ask_prompts(cursor)).await?)
    }

    /// Lists all prompts. Returns an empty list if the server declares no prompts and does not know the method.
    ///
    /// # Errors
    ///
    /// Returns the same errors as [`list_all_tools`](Self::list_all_tools).
    ///
    /// # Cancel safety
    ///
    /// Dropping the future cancels the request.
    pub async fn list_all_prompts(&self) -> Result<Vec<McpPrompt>, McpError> {
        let offered = self.current().server.capabilities.prompts.is_some();
        self.all(offered, ask_prompts, prompts).await
    }

    /// Requests all pages of a list. All pages together must arrive within
    /// [`max_request_time`](crate::McpClientBuilder::max_request_time).
    ///
    /// `ask` creates the request of a page, and `read` converts its result. `offered` is `true` if the server declares
    /// that it has such lists. If it is `false` and the server does not know the method, returns an empty list.
    async fn all<T>(
        &self,
        offered: bool,
        ask: fn(Option<&str>) -> ClientRequest,
        read: Read<T>,
    ) -> Result<Vec<T>, McpError> {
        let limit = self.shared.settings.max_request_time;
        match tokio::time::timeout(limit, self.pages(offered, ask, read)).await {
            Ok(items) => items,
            Err(_) => Err(McpTimeout::error(ask(None).method(), limit)),
        }
    }

    /// Requests all pages of a list without a time limit for the whole list.
    ///
    /// `ask` creates the request of a page, and `read` converts its result. `offered` is `true` if the server declares
    /// that it has such lists. If it is `false` and the server does not know the method, returns an empty list.
    async fn pages<T>(
        &self,
        offered: bool,
        ask: fn(Option<&str>) -> ClientRequest,
        read: Read<T>,
    ) -> Result<Vec<T>, McpError> {
        let most_bytes = self.shared.settings.max_message_bytes.saturating_mul(MOST_MESSAGES_LONG);
        let mut bytes = 0_usize;
        let mut items = Vec::new();
        let mut seen = HashSet::new();
        let mut cursor: Option<String> = None;
        loop {
            let request = ask(cursor.as_deref());
            let exceeds = |limit, unit, setting| {
                McpError::Other(Box::new(McpLimitExceeded {
                    method: request.method().to_owned(),
                    what: "the server's list",
                    limit,
                    unit,
                    setting,
                }))
            };
            let answer = match self.request(&Scope::default(), request.clone()).await {
                Err(error)
                    if !offered && cursor.is_none() && wire::error::is_unknown_method(&error) =>
                {
                    return Ok(items);
                }
                answer => answer?,
            };
            bytes = bytes.saturating_add(json_length(&answer));
            let page = read(answer)?;
            items.extend(page.items);
            let Some(following) = page.next_cursor else { return Ok(items) };
            // Servers with these mistakes are common. What they sent so far is the list.
            let mistake = match following.is_empty() && self.version().has_handshake() {
                true => Some("empty"),
                false => (!seen.insert(following.clone())).then_some("repeated"),
            };
            if let Some(cursor) = mistake {
                let method = request.method();
                tracing::warn!(target: "neuron_mcp", method, cursor, "ended the server's list at an invalid cursor");
                return Ok(items);
            }
            if seen.len() >= MOST_PAGES {
                return Err(exceeds(MOST_PAGES, "pages", None));
            }
            if items.len() > MOST_ITEMS {
                return Err(exceeds(MOST_ITEMS, "items", None));
            }
            if bytes > most_bytes {
                return Err(exceeds(most_bytes, "bytes", Some("max_message_bytes")));
            }
            cursor = Some(following);
        }
    }
}

/// Returns the parameters of a list request for the page at `cursor`. `None` means the first page.
fn page(cursor: Option<&str>) -> PaginatedRequestParams {
    PaginatedRequestParams::default().with_cursor(cursor.map(str::to_owned))
}

/// Parses the items of a list with an invalid item, which the SDK parses as a custom result. Logs the invalid items, and
/// returns the others. Returns `None` if the result has no list with the name `key`.
fn list_from_json<T: DeserializeOwned>(
    result: &Value,
    key: &str,
) -> Option<(Vec<T>, Option<String>)> {
    let item = |item: &Value| {
        let read = wire::content::parsed(item);
        if read.is_none() {
            let name = item.get("name").and_then(Value::as_str).unwrap_or_default();
            let name = cleaned_name(name.to_owned());
            tracing::warn!(list = key, name, "skipped an invalid item of the server's list");
        }
        read
    };
    let items = result.get(key)?.as_array()?.iter().filter_map(item).collect();
    let next_cursor = match result.get("nextCursor") {
        Some(Value::String(cursor)) => Some(cursor.clone()),
        Some(cursor @ Value::Number(_)) => Some(cursor.to_string()),
        _ => None,
    };
    Some((items, next_cursor))
}

/// Defines two functions for a kind of list. The first creates the request of a page. The second converts the result to
/// a page.
macro_rules! list {
    ($ask:ident, $read:ident -> $Item:ty: $Request:ident,
        $Result:ident.$items:ident, $key:literal, $from_sdk:path) => {
        fn $ask(cursor: Option<&str>) -> ClientRequest {
            ClientRequest::$Request(model::$Request::with_param(page(cursor)))
        }

        fn $read(answer: ServerResult) -> Result<PaginatedList<$Item>, McpError> {
            let read = match answer {
                ServerResult::$Result(result) => Some((result.$items, result.next_cursor)),
                ServerResult::CustomResult(CustomResult(result)) => list_from_json(&result, $key),
                _ => None,
            };
            let (items, next_cursor) = read.ok_or_else(|| unexpected($ask(None).method()))?;
            let items = items.into_iter().map($from_sdk).collect();
            Ok(PaginatedList { items, next_cursor })
        }
    };
}

list!(ask_tools, tools -> ToolDefinition: ListToolsRequest,
    ListToolsResult.tools, "tools", wire::tool::definition_from_sdk);
list!(ask_resources, resources -> McpResource: ListResourcesRequest,
    ListResourcesResult.resources, "resources", wire::resource::from_sdk);
list!(ask_templates, templates -> McpResourceTemplate: ListResourceTemplatesRequest,
    ListResourceTemplatesResult.resource_templates, "resourceTemplates", wire::resource::template_from_sdk);
list!(ask_prompts, prompts -> McpPrompt: ListPromptsRequest,
    ListPromptsResult.prompts, "prompts", wire::prompt::from_sdk);
