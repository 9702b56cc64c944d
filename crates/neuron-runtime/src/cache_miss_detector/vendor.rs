//! The rules by which vendors cache prompts.

use std::borrow::Cow;
use std::time::Duration;

use neuron_types::{
    CacheControl, CacheTtl, ContentBlock, ContextEdit, Message, RequestRef, Role, SystemPrompt,
    TokenUsage, ToolDefinition,
};
use serde_json::Value;

/// The prompt tokens of one pass of a model.
#[derive(Debug, Clone, Copy)]
pub(super) struct Pass {
    pub(super) input: usize,
    pub(super) read: Option<usize>,
    written: Option<usize>,
}

/// Returns the first and the last pass of a call. A call has several passes if the vendor ran tools inside the call.
pub(super) fn passes(usage: &TokenUsage) -> (Pass, Pass) {
    let whole = Pass {
        input: usage.input_tokens,
        read: usage.cache_read_tokens,
        written: usage.cache_creation_tokens,
    };
    // The passes of other kinds, such as compactions, have other prompts.
    let all = usage.iterations.as_deref().unwrap_or_default();
    let mut passes = all.iter().filter(|pass| pass.kind == "message").map(|pass| Pass {
        input: pass.input_tokens,
        read: pass.cache_read_tokens,
        written: pass.cache_creation_tokens,
    });
    let first = passes.next().unwrap_or(whole);
    (first, passes.next_back().unwrap_or(first))
}

impl Pass {
    /// Returns the minimum number of tokens that the vendor's cache has after this pass.
    ///
    /// Vendors that cache what a breakpoint marks report exactly what they read and wrote. Other vendors cache in
    /// blocks of tokens, and route calls by load, so half of the prompt is expected. Nothing is expected of an unknown
    /// vendor that did not read from a cache, because it may have none.
    pub(super) fn cached(self, provider: &str, minimum: usize) -> usize {
        let reported =
            self.read.unwrap_or_default().saturating_add(self.written.unwrap_or_default());
        if needs_breakpoints(provider) {
            reported
        } else if self.written.is_some_and(|written| written > 0) {
            reported / 2
        } else if self.input >= minimum && (reported > 0 || caches_automatically(provider)) {
            self.input / 2
        } else {
            0
        }
    }
}

/// Returns `true` if the vendor caches only what a cache breakpoint marks.
pub(super) fn needs_breakpoints(provider: &str) -> bool {
    matches!(provider, "anthropic" | "aws.bedrock")
}

/// Returns the tools whose definitions are in the vendor's prompt. Of the tools that it searches, OpenAI has the names
/// and descriptions in the prompt. Anthropic has nothing of them there.
///
/// - <https://developers.openai.com/api/docs/guides/tools-tool-search>
/// - <https://platform.claude.com/docs/en/agents-and-tools/tool-use/tool-search-tool>
pub(super) fn tools_in_prompt<'a>(
    provider: &str,
    request: RequestRef<'a>,
) -> Cow<'a, [ToolDefinition]> {
    let tools = request.tools_without_deferred();
    if !matches!(provider, "openai" | "azure.ai.openai") || matches!(tools, Cow::Borrowed(_)) {
        return tools;
    }
    let deferred = request.deferred_tools().into_iter();
    let named = deferred.map(|tool| ToolDefinition { input_schema: Value::Null, ..tool });
    tools.into_owned().into_iter().chain(named).collect()
}

/// Returns the number of cache breakpoints in a request.
pub(super) fn breakpoints(request: RequestRef<'_>) -> usize {
    let system = match request.system {
        Some(SystemPrompt::Blocks(blocks)) => blocks.as_slice(),
        _ => &[],
    };
    let in_system = system.iter().filter(|block| block.cache_control.is_some()).count();
    let in_tools = request.tools.iter().filter(|tool| tool.cache_control.is_some()).count();
    usize::from(request.cache.is_some()).saturating_add(in_system).saturating_add(in_tools)
}

/// Returns `true` if the vendor is known to cache all prompts from a [minimum] size on.
fn caches_automatically(provider: &str) -> bool {
    matches!(
        provider,
        "openai"
            | "azure.ai.openai"
            | "deepseek"
            | "gcp.gemini"
            | "gcp.vertex_ai"
            | "ollama"
            | "x_ai"
    )
}

/// Number of content blocks in which Anthropic's models look for the end of a cached prefix, up to the breakpoint.
///
/// <https://platform.claude.com/docs/en/build-with-claude/prompt-caching>
pub(super) const LOOKBACK: usize = 20;

/// A part of the conversation that Anthropic may remove on its server. The cached prefix ends there.
///
/// - <https://platform.claude.com/docs/en/build-with-claude/context-editing>
/// - <https://platform.claude.com/docs/en/build-with-claude/extended-thinking>
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Removal {
    /// The request allows the removal of tool results or thinking.
    Requested,
    /// The thinking before the last message of the user. Only some models remove it by default.
    EarlierThinking,
}

impl Removal {
    /// Returns the removal that a request allows. Its first `known` messages were in the previous request.
    pub(super) fn of(request: RequestRef<'_>, known: usize) -> Option<Self> {
        let edits = request.context_management.into_iter().flat_map(|management| &management.edits);
        let mut keeps_thinking = false;
        for edit in edits {
            let ContextEdit::Raw { json } = edit else { continue };
            let text = |field| json.get(field).and_then(Value::as_str).unwrap_or_default();
            match (text("type").starts_with("clear_"), text("keep")) {
                (false, _) => {}
                (true, "all") => keeps_thinking = true,
                (true, _) => return Some(Self::Requested),
            }
        }
        let (known, new) = request.messages.split_at_checked(known)?;
        let is_removed =
            !keeps_thinking && new.iter().any(is_input) && known.iter().any(has_thinking);
        is_removed.then_some(Self::EarlierThinking)
    }

    /// Returns `true` if this model removes the part.
    pub(super) fn is_made_by(self, provider: &str, model: &str) -> bool {
        needs_breakpoints(provider) && (self == Self::Requested || removes_thinking(model))
    }
}

fn is_input(message: &Message) -> bool {
    let is_sent = |block: &ContentBlock| !block.is_mark() && block.as_tool_result_id().is_none();
    message.role == Role::User && message.content.iter().any(is_sent)
}

fn has_thinking(message: &Message) -> bool {
    let is_thinking = |block: &ContentBlock| {
        matches!(block, ContentBlock::Thinking { .. } | ContentBlock::RedactedThinking { .. })
    };
    message.content.iter().any(is_thinking)
}

/// Returns `true` for Claude up to Opus 4.1, Sonnet 4.5 and Haiku 4.5. All later models keep earlier thinking by
/// default.
fn removes_thinking(model: &str) -> bool {
    const MODELS: [&str; 8] = [
        "claude-3",
        "haiku-4-5",
        "opus-4-0",
        "opus-4-1",
        "opus-4-2025",
        "sonnet-4-0",
        "sonnet-4-2025",
        "sonnet-4-5",
    ];
    // Google's names have the date behind an `@`.
    let model = model.replace('@', "-");
    MODELS.iter().any(|part| model.contains(part))
}

/// Returns the minimum number of tokens of a prompt that the vendor caches.
///
/// Models of Anthropic need between 512 and 4,096 tokens, and report what they wrote.
///
/// - <https://developers.openai.com/api/docs/guides/prompt-caching>
/// - <https://ai.google.dev/gemini-api/docs/caching>
pub(super) fn minimum(provider: &str) -> usize {
    match provider {
        "gcp.gemini" | "gcp.vertex_ai" => 4_096,
        _ => 1_024,
    }
}

/// Returns the lifetime of the cache. It is one hour if the request's breakpoint says so, and otherwise five minutes,
/// which is the shortest lifetime that vendors document.
pub(super) fn lifetime(cache: Option<CacheControl>) -> Duration {
    match cache.and_then(|cache| cache.ttl) {
        Some(CacheTtl::OneHour) => Duration::from_secs(60 * 60),
        _ => Duration::from_secs(5 * 60),
    }
}
