//! The names of tools in a request.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};

use neuron_model::{
    CompletionResponse, ContentBlock, Message, RequestRef, StreamEvent, ToolChoice, ToolDefinition,
};
use serde_json::Value;

use crate::UniqueTexts;

/// The rule of a vendor for the names of tools. A vendor rejects the whole request if it contains another name.
///
/// The name of a tool of the request is not replaced if the vendor accepts it. A replaced name differs from all other
/// names of tools in the request, also those in [`RequestRef::extra`]. The names in the conversation do not change, so it
/// can move between vendors.
///
/// # Example
///
/// ```
/// use neuron_http::{ToolNames, ascii_name};
/// use neuron_model::{CompletionRequest, ToolDefinition};
///
/// const NAMES: ToolNames = ToolNames::new(|name| ascii_name(name, 64), 64);
///
/// let tool: ToolDefinition =
///     serde_json::from_str(r#"{"name": "fs.read", "description": "", "input_schema": {}}"#)?;
/// let request = CompletionRequest { tools: vec![tool], ..Default::default() };
///
/// let renamed = NAMES.rename(request.view());
/// assert_eq!(renamed.request().tools[0].name, "fs_read");
/// assert_eq!(renamed.into_originals().of("fs_read"), "fs.read");
/// # Ok::<_, serde_json::Error>(())
/// ```
#[derive(Debug, Clone, Copy)]
pub struct ToolNames {
    fit: fn(&str) -> Cow<'_, str>,
    most: usize,
}

impl ToolNames {
    /// Creates the rule of a vendor.
    ///
    /// `fit` replaces what the vendor rejects in a name, and returns a valid name unchanged. A name with a number has at
    /// most `most` characters.
    #[must_use]
    pub const fn new(fit: fn(&str) -> Cow<'_, str>, most: usize) -> Self {
        Self { fit, most }
    }

    /// Replaces the names that the vendor rejects in the tools, the choice of a tool and the tool calls of a request. A
    /// request without such names is not copied.
    ///
    /// The JSON in a [`ContentBlock::Raw`] and the tools in [`RequestRef::extra`] are not changed, because they are in the
    /// vendor's own format.
    #[must_use]
    pub fn rename(self, request: RequestRef<'_>) -> RenamedRequest<'_> {
        if names(request).all(|name| self.accepts(name)) {
            return RenamedRequest { request, changed: None };
        }
        let mut sent = HashMap::new();
        let mut taken = UniqueTexts::new(self.most);
        for tool in request.extra_tools() {
            let name = tool.get("name").or_else(|| tool.get("function")?.get("name"));
            taken.insert(name.and_then(Value::as_str).unwrap_or_default().into());
        }
        // Names of tools that the vendor accepts must not change, so they come first.
        let (valid, others): (Vec<_>, Vec<_>) = tools(request).partition(|name| self.accepts(name));
        let called = request.messages.iter().flat_map(called);
        for name in valid.into_iter().chain(others).chain(called).chain(chosen(request)) {
            sent.entry(name).or_insert_with(|| taken.give((self.fit)(name)).into_owned());
        }
        sent.retain(|name, sent| name != sent);
        let new_name = |name: &str| sent.get(name).cloned();
        let tool = |tool: &ToolDefinition| rename_tool(tool, &new_name);
        let message = |message: &Message| {
            let mut message = message.clone();
            rename_calls(&mut message, &new_name);
            message
        };
        let changed = Changed {
            tools: request.tools.iter().map(tool).collect(),
            messages: request.messages.iter().map(message).collect(),
            choice: chosen(request).and_then(new_name).map(|name| ToolChoice::Specific { name }),
            originals: sent.iter().map(|(&name, sent)| (sent.clone(), name.to_owned())).collect(),
        };
        RenamedRequest { request, changed: Some(Box::new(changed)) }
    }

    fn accepts(self, name: &str) -> bool {
        (self.fit)(name) == name
    }
}

/// Returns all names of tools in a request.
fn names(request: RequestRef<'_>) -> impl Iterator<Item = &str> {
    tools(request).chain(request.messages.iter().flat_map(called)).chain(chosen(request))
}

/// Returns the names of the tools of a request, with the deferred tools.
fn tools(request: RequestRef<'_>) -> impl Iterator<Item = &str> {
    let deferred = request.tools.iter().flat_map(ToolDefinition::deferred_names);
    request.tools.iter().map(|tool| tool.name.as_str()).chain(deferred)
}

fn called(message: &Message) -> impl Iterator<Item = &str> {
    message.tool_uses().map(|call| call.name)
}

fn chosen(request: RequestRef<'_>) -> Option<&str> {
    match request.tool_choice? {
        ToolChoice::Specific { name } => Some(name),
        _ => None,
    }
}

fn rename_tool(
    tool: &ToolDefinition,
    new_name: &impl Fn(&str) -> Option<String>,
) -> ToolDefinition {
    let mut renamed = tool.clone();
    if tool.deferred_names().next().is_some() {
        let deferred = tool.deferred_tools();
        let deferred: Vec<_> = deferred.iter().map(|tool| rename_tool(tool, new_name)).collect();
        renamed = renamed.with_deferred_tools(&deferred);
    }
    if let Some(name) = new_name(&tool.name) {
        renamed.name = name;
    }
    renamed
}

/// Replaces the names of the tool calls in a message for which `new_name` returns another name.
fn rename_calls(message: &mut Message, new_name: &impl Fn(&str) -> Option<String>) {
    for block in &mut message.content {
        if let Some(ContentBlock::ToolUse { name, .. }) = block.portable_mut()
            && let Some(new) = new_name(name)
        {
            *name = new;
        }
    }
}

/// A request whose names of tools the vendor accepts.
#[derive(Debug)]
pub struct RenamedRequest<'a> {
    request: RequestRef<'a>,
    changed: Option<Box<Changed>>,
}

#[derive(Debug)]
struct Changed {
    tools: Vec<ToolDefinition>,
    messages: Vec<Message>,
    choice: Option<ToolChoice>,
    originals: BTreeMap<String, String>,
}

impl RenamedRequest<'_> {
    /// Returns the request to send.
    #[must_use]
    pub fn request(&self) -> RequestRef<'_> {
        match &self.changed {
            None => self.request,
            Some(changed) => RequestRef {
                tools: &changed.tools,
                messages: &changed.messages,
                tool_choice: changed.choice.as_ref().or(self.request.tool_choice),
                ..self.request
            },
        }
    }

    /// Returns the request before its tools were renamed.
    #[must_use]
    pub fn original(&self) -> RequestRef<'_> {
        self.request
    }

    /// Returns the original names, for the [body](crate::RequestBody) of the request.
    #[must_use]
    pub fn into_originals(self) -> OriginalNames {
        OriginalNames(self.changed.map(|changed| changed.originals).unwrap_or_default())
    }
}

/// The original names of the tools that have another name in a request. [`Reply`](crate::Reply) restores them in the
/// response, and [`Endpoint::post`](crate::Endpoint::post) adds them to the error of a rejected request.
#[derive(Debug, Clone, Default)]
pub struct OriginalNames(BTreeMap<String, String>);

impl OriginalNames {
    /// Returns the name of the tool that has the name `sent` in the request.
    #[must_use]
    pub fn of<'n>(&'n self, sent: &'n str) -> &'n str {
        self.0.get(sent).map_or(sent, String::as_str)
    }

    /// Returns `true` if all tools have their own names in the request, as nearly always.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Adds the original name after each quoted name in a text that a tool has only in the request.
    pub(crate) fn beside_sent(&self, mut text: String) -> String {
        for (sent, original) in &self.0 {
            for quote in ['\'', '"', '`'] {
                let quoted = format!("{quote}{sent}{quote}");
                if text.contains(&quoted) {
                    text = text.replace(&quoted, &format!("{quoted} (`{original}`)"));
                }
            }
        }
        text
    }

    /// Restores the names of the tools that the model called.
    pub(crate) fn restore(&self, response: &mut CompletionResponse) {
        self.restore_message(&mut response.message);
    }

    fn restore_message(&self, message: &mut Message) {
        if !self.0.is_empty() {
            rename_calls(message, &|name| self.0.get(name).cloned());
        }
    }

    /// Restores the names of the tools that the model called in an event of a stream.
    pub(crate) fn restore_event(&self, event: &mut StreamEvent) {
        match event {
            StreamEvent::ToolUseStart { name, .. } | StreamEvent::ToolUse { name, .. } => {
                if let Some(original) = self.0.get(name) {
                    name.clone_from(original);
                }
            }
            StreamEvent::MessageComplete(message) => self.restore_message(message),
            StreamEvent::ResponseComplete(response) => self.restore(response),
            _ => {}
        }
    }
}

/// Returns a name with `_` in place of each character except ASCII letters, digits, `_` and `-`. A name with more than
/// `most` characters is truncated, and an empty name becomes `unnamed`.
///
/// Most vendors accept such names. Models sometimes call tools that do not exist, with invalid names such as
/// `functions.look` or without a name.
///
/// # Example
///
/// ```
/// use neuron_http::ascii_name;
///
/// assert_eq!(ascii_name("look_up", 64), "look_up");
/// assert_eq!(ascii_name("functions.look", 64), "functions_look");
/// assert_eq!(ascii_name("functions.look", 9), "functions");
/// assert_eq!(ascii_name("", 64), "unnamed");
/// ```
#[must_use]
pub fn ascii_name(name: &str, most: usize) -> Cow<'_, str> {
    let is_allowed = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    if name.is_empty() {
        return "unnamed".into();
    }
    if name.len() <= most && name.chars().all(is_allowed) {
        return name.into();
    }
    let allowed = name.chars().map(|c| if is_allowed(c) { c } else { '_' });
    allowed.take(most).collect::<String>().into()
}

#[cfg(test)]
mod tests {
    use neuron_model::{CompletionRequest, Role, StopReason, TokenUsage};
    use serde_json::json;

    use super::*;

    const NAMES: ToolNames = ToolNames::new(|name| ascii_name(name, 64), 64);

    fn tool(name: &str) -> ToolDefinition {
        let tool = json!({"name": name, "description": "", "input_schema": {"type": "object"}});
        serde_json::from_value(tool).unwrap()
    }

    fn call(name: &str) -> ContentBlock {
        ContentBlock::ToolUse { id: "c".into(), name: name.into(), input: json!({}) }
    }

    fn raw(name: &str) -> ContentBlock {
        let json = json!({"name": "as the vendor sent it"});
        let portable = Some(Box::new(call(name)));
        ContentBlock::Raw { provider: "p".into(), json, portable }
    }

    fn request(tools: &[&str], called: Vec<ContentBlock>) -> CompletionRequest {
        CompletionRequest {
            tools: tools.iter().copied().map(tool).collect(),
            messages: vec![Message::user("hi"), Message { role: Role::Assistant, content: called }],
            ..CompletionRequest::default()
        }
    }

    fn called_in(message: &Message) -> Vec<&str> {
        called(message).collect()
    }

    #[test]
    fn names_are_replaced_there_and_back() {
        let tools = ["fs.read", "fs/read", "fs_read", "look"];
        let called = vec![call("fs?read"), raw("fs/read"), call("look"), call("")];
        let mut request = request(&tools, called);
        request.tool_choice = Some(ToolChoice::Specific { name: "fs/read".into() });
        let renamed = NAMES.rename(request.view());
        let sent = renamed.request();
        let names: Vec<_> = sent.tools.iter().map(|tool| tool.name.clone()).collect();
        assert_eq!(names, ["fs_read_2", "fs_read_3", "fs_read", "look"]);
        let sent_calls = ["fs_read_4", "fs_read_3", "look", "unnamed"];
        assert_eq!(called_in(&sent.messages[1]), sent_calls);
        let ContentBlock::Raw { json, .. } = &sent.messages[1].content[1] else { panic!() };
        assert_eq!(*json, json!({"name": "as the vendor sent it"}));
        assert_eq!(sent.tool_choice, Some(&ToolChoice::Specific { name: "fs_read_3".into() }));
        assert_eq!(sent.messages[0], request.messages[0]);

        let mut response = CompletionResponse {
            id: String::new(),
            model: String::new(),
            message: sent.messages[1].clone(),
            usage: TokenUsage::default(),
            stop_reason: StopReason::ToolUse,
        };
        let events = [
            StreamEvent::ToolUseStart { id: "c".into(), name: "fs_read_2".into() },
            StreamEvent::ToolUse { id: "c".into(), name: "fs_read_2".into(), input: json!({}) },
            StreamEvent::ToolUseStart { id: "c".into(), name: "unknown".into() },
            StreamEvent::MessageComplete(response.message.clone()),
            StreamEvent::ResponseComplete(Box::new(response.clone())),
        ];
        let originals = renamed.into_originals();
        for (name, sent) in tools.iter().zip(&names) {
            assert_eq!(originals.of(sent), *name);
        }
        assert_eq!(originals.of("unknown"), "unknown");
        originals.restore(&mut response);
        assert_eq!(response.message, request.messages[1]);
        let restored = events.map(|mut event| {
            originals.restore_event(&mut event);
            event
        });
        let [StreamEvent::ToolUseStart { name: first, .. }, called, second, message, whole] =
            &restored
        else {
            panic!("{restored:?}");
        };
        assert_eq!(first, "fs.read");
        assert!(matches!(called, StreamEvent::ToolUse { name, .. } if name == "fs.read"));
        assert!(matches!(second, StreamEvent::ToolUseStart { name, .. } if name == "unknown"));
        assert!(matches!(message, StreamEvent::MessageComplete(it) if *it == request.messages[1]));
        let StreamEvent::ResponseComplete(whole) = whole else { panic!("{whole:?}") };
        assert_eq!(whole.message, request.messages[1]);
    }

    #[test]
    fn request_with_valid_names_is_not_copied() {
        let request = request(&["look"], vec![call("look"), raw("other")]);
        let renamed = NAMES.rename(request.view());
        let sent = renamed.request();
        assert!(std::ptr::eq(sent.tools, request.tools.as_slice()));
        assert!(std::ptr::eq(sent.messages, request.messages.as_slice()));
        assert!(renamed.into_originals().0.is_empty());
    }

    #[test]
    fn names_of_the_callers_own_tools_are_taken() {
        let mut request = request(&["web.search", "fs.read"], vec![]);
        request.extra = Some(json!({ "tools": [
            { "type": "web_search_20250305", "name": "web_search" },
            { "type": "function", "function": { "name": "fs_read" } },
            { "type": "file_search" },
        ] }));
        let renamed = NAMES.rename(request.view());
        let tools = renamed.request().tools.iter().map(|tool| tool.name.as_str());
        assert_eq!(tools.collect::<Vec<_>>(), ["web_search_2", "fs_read_2"]);
    }

    #[test]
    fn deferred_tools_are_renamed() {
        let mut request = request(&["look"], vec![call("fs_read")]);
        request.tools.push(tool("search_tools").with_deferred_tools(&[tool("fs.read")]));
        let renamed = NAMES.rename(request.view());
        let sent = renamed.request();
        assert_eq!(sent.tools[1].deferred_tools()[0].name, "fs_read");
        assert_eq!(sent.tools[1].name, "search_tools");
        // The name of a tool has precedence over the name of a tool that was called earlier.
        assert_eq!(called_in(&sent.messages[1]), ["fs_read_2"]);
        assert_eq!(renamed.into_originals().of("fs_read"), "fs.read");
    }

    #[test]
    fn replaced_names_stay_the_same_while_the_conversation_grows() {
        let mut content = vec![call("a.b")];
        let mut before = vec![];
        for next in ["a/b", "a_b", "a b", "a.b"] {
            let request = request(&["x/y"], content.clone());
            let renamed = NAMES.rename(request.view());
            let names = called_in(&renamed.request().messages[1]).join(" ");
            assert!(names.starts_with(&before.join(" ")), "{names}");
            before = names.split(' ').map(str::to_owned).collect();
            content.push(call(next));
        }
        assert_eq!(before, ["a_b", "a_b_2", "a_b_3", "a_b_4"]);
    }

    #[test]
    fn any_name_becomes_a_valid_name() {
        let long = "é".repeat(100);
        for name in ["", ".", "a b", "\u{0}", &long, "名前"] {
            let sent = ascii_name(name, 64);
            assert!((1..=64).contains(&sent.len()) && sent.is_ascii(), "{name:?}: {sent}");
            assert_eq!(ascii_name(&sent, 64), sent);
        }
    }
}
