//! Serialisation of requests.
//!
//! Equal requests are serialised to equal bytes, and `messages` is the last field. The body of each turn therefore
//! begins with the bytes of the previous turn's body, unless the conversation was compacted between them. Prompt caches
//! need this.

mod tools;

use neuron_http::{
    CallIds, Fields, ObjectInput, RenamedRequest, RequestLimits, Shortest, ToolNames, ascii_name,
    is_common_image, write_json,
};
use neuron_model::{
    CacheControl, CacheTtl, ContentBlock, ContentItem, ContextEdit, Message, ModelContent,
    ProviderError, ReasoningEffort, RequestRef, ResponseFormat, Role, SystemPrompt, ThinkingConfig,
    ToolChoice,
};
use serde::ser::SerializeSeq;
use serde::{Serialize, Serializer};
use serde_json::Value;

use self::tools::Tools;
use crate::container;
use crate::echo::Echo;
use crate::ids::ids;
use crate::open_calls::OpenCalls;
use crate::search::Search;
use crate::source::{Source, document, image, image_at, pdf};
use crate::thinking::thinking;

/// Name of Anthropic in telemetry, and name of the API's JSON format in a [`ContentBlock::Raw`].
pub(crate) const PROVIDER: &str = "anthropic";

/// Type of the context edit that requests an immediate summary of the conversation. The API has a separate request
/// field for this edit.
pub(crate) const SUMMARIZE: &str = "summarize";

/// The names of tools that the API accepts: `^[a-zA-Z0-9_-]{1,128}$`.
///
/// <https://platform.claude.com/docs/en/agents-and-tools/tool-use/implement-tool-use>
pub(crate) const NAMES: ToolNames = ToolNames::new(|name| ascii_name(name, 128), 128);

/// What Anthropic's server rejects: stop sequences of white space, and images of other types than JPEG, PNG, GIF and
/// WebP. It has no maximum number of stop sequences.
///
/// <https://platform.claude.com/docs/en/build-with-claude/vision>
const LIMITS: RequestLimits =
    RequestLimits::new("Anthropic").without_blank_stop_sequences().only_common_images();

/// The settings of the client that affect requests.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Settings<'a> {
    pub(crate) model: &'a str,
    pub(crate) max_tokens: usize,
    /// Cache breakpoint at the end of the conversation, if the client sets one.
    pub(crate) cache: Option<&'a CacheControl>,
    /// Set if the server is not Anthropic's. A gateway may accept more than [`LIMITS`].
    pub(crate) is_other_server: bool,
}

/// Serialises a request. `stream` requests a streamed response.
///
/// # Errors
///
/// [`ProviderError::InvalidRequest`] if the request has content or a setting that the API cannot express, or if its
/// `extra` is not an object or sets `stream`.
pub(crate) fn write(
    request: RequestRef<'_>,
    settings: Settings<'_>,
    stream: bool,
) -> Result<Vec<u8>, ProviderError> {
    write_renamed(&NAMES.rename(request), settings, stream)
}

/// Serialises a request whose names of tools the API accepts, as [`write`] does.
pub(crate) fn write_renamed(
    renamed: &RenamedRequest<'_>,
    settings: Settings<'_>,
    stream: bool,
) -> Result<Vec<u8>, ProviderError> {
    let limits = if settings.is_other_server { RequestLimits::new("Anthropic") } else { LIMITS };
    limits.check(renamed.original())?;
    let request = renamed.request();
    if let Some(ResponseFormat::JsonObject) = request.response_format {
        return Err(ProviderError::InvalidRequest(
            "Anthropic has no free JSON mode: use ResponseFormat::JsonSchema".into(),
        ));
    }
    // The API has one field for an immediate summary, and another field for rules that edit the context. It rejects a
    // request with both fields.
    if edits(request).any(is_summarize) && edits(request).count() > 1 {
        return Err(ProviderError::InvalidRequest(
            "the API summarises on request (`summarize`) or edits by rules, not both at once"
                .into(),
        ));
    }
    write_json(request.extra, |fields| write_fields(fields, request, settings, stream))
}

fn write_fields(
    fields: &mut Fields<'_>,
    request: RequestRef<'_>,
    settings: Settings<'_>,
    stream: bool,
) -> serde_json::Result<()> {
    let model = request.model_or(settings.model);
    let search = Search::of(&request, model);
    fields.entry("model", model)?;
    fields.entry("max_tokens", &max_tokens(request, settings))?;
    // False is the API's default, so `stream` is omitted unless it is true.
    fields.some("stream", stream.then_some(true))?;
    fields.some("temperature", request.temperature.map(Shortest))?;
    fields.some("top_p", request.top_p.map(Shortest))?;
    let stops = request.stop_sequences;
    fields.some("stop_sequences", (!stops.is_empty()).then_some(stops))?;
    fields.some("thinking", thinking(request, &search))?;
    fields.some("output_config", output_config(request))?;
    match edits(request).next() {
        None => {}
        Some(edit) if is_summarize(edit) => fields.entry("compaction", &Edit(edit))?,
        Some(_) => {
            let edits = EditList { edits: edits(request).map(Edit).collect() };
            fields.entry("context_management", &edits)?;
        }
    }
    // The breakpoint is a top-level field. A mark on the last block would change the bytes of this message in the next
    // turn.
    fields
        .some("cache_control", conversation_cache(request, settings).as_ref().map(Cache::from))?;
    fields.some("tools", (!request.tools.is_empty()).then_some(Tools(&search)))?;
    fields.some("tool_choice", tool_choice(request))?;
    fields.some("container", container::of(request))?;
    let (leading, messages) = request.split_leading_system();
    let system = System { prompt: request.system, leading };
    fields.some("system", (!system.is_empty()).then_some(system))?;
    // The other fields of `extra` come before the messages, which must be last.
    fields.rest_but("messages")?;
    fields.entry("messages", &Messages { messages, search: &search })
}

/// Returns the maximum number of output tokens. The API requires this number, and it must exceed the thinking budget.
fn max_tokens(request: RequestRef<'_>, settings: Settings<'_>) -> usize {
    match (request.max_tokens, request.thinking) {
        (Some(max_tokens), _) => max_tokens,
        (None, Some(ThinkingConfig::Enabled { budget_tokens })) => {
            // Thinking counts towards the maximum, so the budget is added to keep the same maximum for the visible
            // output.
            settings.max_tokens.saturating_add(budget_tokens)
        }
        (None, _) => settings.max_tokens,
    }
}

#[derive(Serialize)]
struct OutputConfig<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    effort: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    format: Option<Format<'a>>,
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Format<'a> {
    JsonSchema { schema: &'a Value },
}

fn output_config(request: RequestRef<'_>) -> Option<OutputConfig<'_>> {
    let effort = match request.reasoning_effort {
        Some(ReasoningEffort::Low) => Some("low"),
        Some(ReasoningEffort::Medium) => Some("medium"),
        Some(ReasoningEffort::High) => Some("high"),
        // The API has no effort `none`. `thinking` is set to `disabled` instead.
        _ => None,
    };
    let format = match &request.response_format {
        Some(ResponseFormat::JsonSchema { schema, .. }) => Some(Format::JsonSchema { schema }),
        _ => None,
    };
    (effort.is_some() || format.is_some()).then_some(OutputConfig { effort, format })
}

/// Maximum number of cache breakpoints in a request.
///
/// <https://platform.claude.com/docs/en/build-with-claude/prompt-caching>
const MAX_BREAKPOINTS: usize = 4;

/// Returns the cache breakpoint for the end of the conversation. The client's setting takes precedence over the
/// request's.
///
/// Returns `None` if neither is set. The request's breakpoint is also dropped if tools and system prompts already have
/// the maximum number of breakpoints.
fn conversation_cache(request: RequestRef<'_>, settings: Settings<'_>) -> Option<CacheControl> {
    let blocks = request.system.map_or(&[][..], |system| match system {
        SystemPrompt::Blocks(blocks) => blocks,
        SystemPrompt::Text(_) => &[],
    });
    let tools = request.tools.iter().filter(|tool| tool.cache_control.is_some()).count();
    let marks = tools + blocks.iter().filter(|block| block.cache_control.is_some()).count();
    // The client's setting is explicit, so it is always sent. The request's breakpoint is only a hint.
    settings.cache.copied().or(request.cache.filter(|_| marks < MAX_BREAKPOINTS))
}

/// Returns the context edits of a request.
fn edits(request: RequestRef<'_>) -> impl Iterator<Item = &ContextEdit> {
    request.context_management.into_iter().flat_map(|management| &management.edits)
}

/// Returns `true` if the edit requests an immediate summary.
fn is_summarize(edit: &ContextEdit) -> bool {
    match edit {
        ContextEdit::Compact { strategy } => strategy == SUMMARIZE,
        ContextEdit::Raw { json } => json.get("type").is_some_and(|kind| kind == SUMMARIZE),
        _ => false,
    }
}

#[derive(Serialize)]
struct EditList<'a> {
    edits: Vec<Edit<'a>>,
}

struct Edit<'a>(&'a ContextEdit);

impl Serialize for Edit<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            ContextEdit::Compact { strategy } => serializer.collect_map([("type", strategy)]),
            ContextEdit::Raw { json } => json.serialize(serializer),
            _ => Err(serde::ser::Error::custom("a context edit that is not known")),
        }
    }
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Choice<'a> {
    Auto,
    None,
    Any,
    Tool { name: &'a str },
}

fn tool_choice(request: RequestRef<'_>) -> Option<Choice<'_>> {
    // The API rejects `tool_choice` without tools. Without tools, `auto` and `none` have no effect and are omitted.
    let more = request.extra.and_then(|extra| extra.get("tools"));
    let no_tools = request.tools.is_empty() && more.is_none();
    Some(match request.tool_choice? {
        ToolChoice::Auto | ToolChoice::None if no_tools => return None,
        ToolChoice::Auto => Choice::Auto,
        ToolChoice::None => Choice::None,
        ToolChoice::Required => Choice::Any,
        ToolChoice::Specific { name } => Choice::Tool { name },
    })
}

#[derive(Serialize)]
struct Cache {
    r#type: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    ttl: Option<&'static str>,
}

impl From<&CacheControl> for Cache {
    fn from(control: &CacheControl) -> Self {
        let ttl = match control.ttl {
            Some(CacheTtl::FiveMinutes) => Some("5m"),
            Some(CacheTtl::OneHour) => Some("1h"),
            _ => None,
        };
        Self { r#type: "ephemeral", ttl }
    }
}

/// The system prompt of the request and the system messages at the beginning of the conversation.
struct System<'a> {
    prompt: Option<&'a SystemPrompt>,
    leading: &'a [Message],
}

impl System<'_> {
    fn is_empty(&self) -> bool {
        let prompt_is_blank = match self.prompt {
            None => true,
            Some(SystemPrompt::Text(text)) => is_blank(text),
            Some(SystemPrompt::Blocks(blocks)) => blocks.iter().all(|block| is_blank(&block.text)),
        };
        prompt_is_blank && self.leading_texts().next().is_none()
    }

    fn leading_texts(&self) -> impl Iterator<Item = &str> {
        let blocks = self.leading.iter().flat_map(|message| &message.content);
        blocks.filter_map(ContentBlock::as_text).filter(|text| !is_blank(text))
    }
}

impl Serialize for System<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Block<'a> {
            r#type: &'static str,
            text: &'a str,
            #[serde(skip_serializing_if = "Option::is_none")]
            cache_control: Option<Cache>,
        }
        let plain = |text| Block { r#type: "text", text, cache_control: None };
        // A string is the shortest form of a single text.
        if let (Some(SystemPrompt::Text(text)), None) = (self.prompt, self.leading_texts().next()) {
            return serializer.serialize_str(text);
        }
        let mut blocks = serializer.serialize_seq(None)?;
        match self.prompt {
            Some(SystemPrompt::Text(text)) if !is_blank(text) => {
                blocks.serialize_element(&plain(text))?;
            }
            Some(SystemPrompt::Blocks(prompt)) => {
                for block in prompt.iter().filter(|block| !is_blank(&block.text)) {
                    let cache_control = block.cache_control.as_ref().map(Cache::from);
                    blocks.serialize_element(&Block { cache_control, ..plain(&block.text) })?;
                }
            }
            _ => {}
        }
        for text in self.leading_texts() {
            blocks.serialize_element(&plain(text))?;
        }
        blocks.end()
    }
}

struct Messages<'a> {
    messages: &'a [Message],
    search: &'a Search<'a>,
}

impl Serialize for Messages<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct WireMessage<C> {
            role: &'static str,
            content: C,
        }
        // The id of a call depends on all earlier messages, so messages are entered in order.
        let mut ids = ids(self.messages);
        let open_calls = OpenCalls::new(self.messages);
        let blank =
            WireMessage { role: "user", content: [Block::Text { text: "[blank message]" }] };
        let (mut last_role, mut is_blank) = (Role::Assistant, false);
        let mut sequence = serializer.serialize_seq(None)?;
        for message in self.messages {
            let role = match message.role {
                Role::User => "user",
                Role::Assistant => "assistant",
                Role::System => "system",
            };
            ids.enter_message(message);
            let calls = Calls { ids: &ids, open_calls: &open_calls, search: self.search };
            let content = Content::of(message, calls);
            // Other vendors accept blank messages. Without this message, the conversation could begin with the model, or
            // the model would continue its last response.
            if is_blank && message.role == Role::Assistant {
                sequence.serialize_element(&blank)?;
                (last_role, is_blank) = (Role::User, false);
            }
            // The API rejects messages without content.
            if content.blocks().next().is_none() {
                is_blank |= message.role == Role::User && last_role == Role::Assistant;
                continue;
            }
            (last_role, is_blank) = (message.role, false);
            sequence.serialize_element(&WireMessage { role, content })?;
        }
        if is_blank {
            sequence.serialize_element(&blank)?;
        }
        sequence.end()
    }
}

#[derive(Clone, Copy)]
pub(crate) struct Content<'a> {
    blocks: &'a [ContentBlock],
    calls: Calls<'a>,
}

/// The ids of calls, and the tools that the API searches. The blocks of a request depend on them.
#[derive(Clone, Copy)]
pub(crate) struct Calls<'a> {
    pub(crate) ids: &'a CallIds<'a>,
    pub(crate) open_calls: &'a OpenCalls<'a>,
    pub(crate) search: &'a Search<'a>,
}

impl<'a> Content<'a> {
    /// Returns the content of a message without thinking at its end. The API rejects a message that ends with thinking,
    /// for example because the rest of the message is left out (<https://github.com/tailcallhq/forgecode/issues/2107>).
    pub(crate) fn of(message: &'a Message, calls: Calls<'a>) -> Self {
        let is_end = |block| self::block(block, calls).is_some_and(|block| !block.is_thinking());
        let end = message.content.iter().rposition(is_end).map_or(0, |last| last + 1);
        Self { blocks: message.content.get(..end).unwrap_or_default(), calls }
    }

    pub(crate) fn blocks(self) -> impl Iterator<Item = Block<'a>> {
        self.blocks.iter().filter_map(move |block| self::block(block, self.calls))
    }
}

impl Serialize for Content<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut sequence = serializer.serialize_seq(None)?;
        for block in self.blocks() {
            sequence.serialize_element(&block)?;
        }
        sequence.end()
    }
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(crate) enum Block<'a> {
    Text {
        text: &'a str,
    },
    /// An item of a tool result for which the API has no block type, so it is sent as text.
    #[serde(rename = "text")]
    ItemText {
        text: ItemText<'a>,
    },
    Thinking {
        thinking: &'a str,
        signature: &'a str,
    },
    RedactedThinking {
        data: &'a str,
    },
    ToolUse {
        id: &'a str,
        name: &'a str,
        input: ObjectInput<'a>,
    },
    ToolResult {
        tool_use_id: &'a str,
        #[serde(skip_serializing_if = "Items::is_empty")]
        content: Items<'a>,
        #[serde(skip_serializing_if = "std::ops::Not::not")]
        is_error: bool,
    },
    Image {
        source: Source<'a>,
    },
    Document {
        source: Source<'a>,
    },
    Compaction {
        content: &'a str,
    },
    #[serde(untagged)]
    Raw(Echo<'a>),
}

impl Block<'_> {
    pub(crate) fn is_thinking(&self) -> bool {
        match self {
            Self::Thinking { .. } | Self::RedactedThinking { .. } => true,
            Self::Raw(echo) => echo.is_thinking(),
            _ => false,
        }
    }
}

/// Returns `true` if a text is empty or consists of white space. The API rejects such a text, even if a model wrote it.
fn is_blank(text: &str) -> bool {
    text.trim().is_empty()
}

/// Converts a block for the request. Returns `None` if the API would reject the block, or if only another provider can
/// read it.
fn block<'a>(block: &'a ContentBlock, calls: Calls<'a>) -> Option<Block<'a>> {
    Some(match block {
        ContentBlock::Text(text) if is_blank(text) => return None,
        ContentBlock::Text(text) => Block::Text { text },
        // Thinking without a signature was truncated or comes from another provider. The API rejects it.
        ContentBlock::Thinking { signature, .. } if signature.is_empty() => return None,
        ContentBlock::Thinking { thinking, signature } => Block::Thinking { thinking, signature },
        ContentBlock::RedactedThinking { data } => Block::RedactedThinking { data },
        ContentBlock::ToolUse { id, name, input } => {
            Block::ToolUse { id: calls.ids.of(id), name, input: ObjectInput(input) }
        }
        ContentBlock::ToolResult { tool_use_id, content, is_error } => Block::ToolResult {
            tool_use_id: calls.ids.of(tool_use_id),
            content: Items { content, is_error: *is_error },
            is_error: *is_error,
        },
        ContentBlock::Image { source } => Block::Image { source: image(source)? },
        ContentBlock::Document { source } => Block::Document { source: document(source)? },
        ContentBlock::Compaction { content } => Block::Compaction { content },
        // The API rejects a blank text even in a raw block that it sent itself.
        ContentBlock::Raw { provider, json, .. } if provider == PROVIDER => match block.as_text() {
            Some(text) if is_blank(text) => return None,
            _ if calls.search.omits(json) || calls.open_calls.contains(json) => return None,
            _ => Block::Raw(Echo::new(block, json, calls.search)),
        },
        ContentBlock::Raw { portable, .. } => return self::block(portable.as_deref()?, calls),
        _ => return None,
    })
}

/// The content of a tool result, serialised as a list of blocks. For a failed call, the list has only texts and is
/// never empty, because the API rejects anything else.
pub(crate) struct Items<'a> {
    content: &'a [ContentItem],
    is_error: bool,
}

impl Items<'_> {
    fn is_empty(&self) -> bool {
        self.items().next().is_none()
    }

    fn items(&self) -> impl Iterator<Item = Block<'_>> {
        let is_blank =
            |item: &ContentItem| matches!(item, ContentItem::Text(text) if is_blank(text));
        // The API rejects a failed result without content.
        let says_nothing = self.is_error && self.content.iter().all(is_blank);
        let items = self.content.iter().filter(move |item| !is_blank(item)).map(|item| match item
            .for_model()
        {
            ModelContent::Text(text) => Block::Text { text },
            // The API accepts only text in the result of a failed call.
            _ if self.is_error => Block::ItemText { text: ItemText(item) },
            ModelContent::Image { media_type, data } => {
                Block::Image { source: Source::Base64 { media_type, data } }
            }
            ModelContent::ImageUrl { url } if is_common_image(url) => {
                Block::Image { source: image_at(url) }
            }
            ModelContent::Pdf { data } => Block::Document { source: pdf(data) },
            _ => Block::ItemText { text: ItemText(item) },
        });
        items.chain(
            says_nothing.then_some(Block::Text { text: "[the tool failed without a message]" }),
        )
    }
}

/// An item of a tool result, serialised as text.
pub(crate) struct ItemText<'a>(&'a ContentItem);

impl Serialize for ItemText<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self.0)
    }
}

impl Serialize for Items<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut sequence = serializer.serialize_seq(None)?;
        for item in self.items() {
            sequence.serialize_element(&item)?;
        }
        sequence.end()
    }
}

#[cfg(test)]
mod tests;
