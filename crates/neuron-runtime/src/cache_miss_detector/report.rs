//! The report of a model call that should have been read from the vendor's cache ([`CacheMiss`]).

use std::fmt;
use std::time::Duration;

/// A model call that read fewer tokens from the vendor's prompt cache than the previous call of its conversation had
/// left there.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct CacheMiss {
    /// Id of the run.
    pub run_id: String,
    /// Number of the turn, from zero.
    pub turn: usize,
    /// Name of the agent. Empty if the agent has no name.
    pub agent: String,
    /// The model that answered.
    pub model: CachedModel,
    /// Minimum number of tokens that the call should have read from the cache.
    pub expected_tokens: usize,
    /// Number of tokens that the call read from the cache.
    pub read_tokens: usize,
    /// The cause of the miss.
    pub cause: CacheMissCause,
}

/// A model with its own prompt cache.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct CachedModel {
    /// Name of the route, if a router chose the provider. Empty otherwise.
    pub route: String,
    /// Name of the provider. Empty if unknown.
    pub provider: String,
    /// Name of the model that created the response.
    pub model: String,
}

/// The cause of a [`CacheMiss`].
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum CacheMissCause {
    /// The previous call is older than the lifetime of the cache.
    Expired {
        /// Time between the starts of the two calls.
        after: Duration,
    },
    /// Another model, provider or route answered the previous call.
    OtherModel {
        /// The model that answered the previous call.
        previous: CachedModel,
    },
    /// The conversation was compacted, by the agent's context strategy or by the vendor.
    Compacted,
    /// The request does not start with the previous request.
    Changed(PrefixChange),
    /// The request starts with the previous request, but has fewer [cache breakpoints](neuron_types::RequestRef::cache), and
    /// the vendor caches only up to a breakpoint. This happens if a layer or another agent sets no `cache`.
    FewerBreakpoints,
    /// The request starts with the previous request, but has more new content blocks than Anthropic's models look back
    /// from a cache breakpoint, which is 20. This happens if a response has about ten tool calls.
    ManyNewBlocks {
        /// Number of content blocks behind the previous request.
        blocks: usize,
    },
    /// The request starts with the previous request, but Anthropic may have removed a part of it on its server, so the
    /// cached prefix ended there. This happens in two cases:
    ///
    /// - The request has an [edit](neuron_types::ContextEdit::Raw) that clears tool results or thinking, for example
    ///   `clear_tool_uses_20250919`.
    /// - The request has a new message of the user behind thinking. Claude up to Opus 4.1, Sonnet 4.5 and Haiku 4.5
    ///   then removes the earlier thinking, unless an edit `clear_thinking_20251015` has `"keep": "all"`.
    ///
    /// Sources: [context editing](https://platform.claude.com/docs/en/build-with-claude/context-editing),
    /// [extended thinking](https://platform.claude.com/docs/en/build-with-claude/extended-thinking).
    EditedByVendor,
    /// The request starts with the previous request, and the vendor's cache did not have it. A vendor may evict cached
    /// prompts early, or process the call on another server.
    Evicted,
}

/// The first difference between a request and the previous request.
///
/// The offset counts the bytes in a canonical JSON of the requests, see
/// [`CacheMissDetector`](crate::CacheMissDetector#comparison).
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct PrefixChange {
    /// The part of the request that differs first.
    pub part: PrefixPart,
    /// Offset of the first byte that differs, in the canonical JSON of the request.
    pub offset: usize,
    /// Path of the innermost JSON value that contains this byte, for example `messages[3].content[0].text`.
    ///
    /// A path may contain keys of tool arguments, so the log does not contain the path.
    pub path: String,
    /// Offset of the byte in this value. The quote at the start of a text does not count.
    pub offset_in_value: usize,
}

/// The part of a request in which a [`PrefixChange`] is.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum PrefixPart {
    /// The definition of a tool.
    Tool {
        /// Name of the tool at this place. If the request has no tool at this place, the name in the previous request.
        name: String,
    },
    /// The system prompt.
    System,
    /// A setting that vendors render into the prompt, for example the tool choice or the format of the response.
    Setting {
        /// Name of the field of [`RequestRef`](neuron_types::RequestRef). Empty if one of the requests has no settings.
        name: String,
    },
    /// A message.
    Message {
        /// Index of the message in the request, from zero.
        index: usize,
    },
}

impl CacheMissCause {
    /// Returns `true` if the cause is part of normal operation: the cache [expired](Self::Expired), or the conversation
    /// was [compacted](Self::Compacted) or [edited by the vendor](Self::EditedByVendor).
    #[must_use]
    pub fn is_usual(&self) -> bool {
        matches!(self, Self::Expired { .. } | Self::Compacted | Self::EditedByVendor)
    }
}

impl fmt::Display for CachedModel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { route, provider, model } = self;
        match (&**route, &**provider) {
            ("", "") => write!(f, "`{model}`"),
            ("", provider) => write!(f, "`{model}` of `{provider}`"),
            (route, _) => write!(f, "`{model}` of the route `{route}`"),
        }
    }
}

impl fmt::Display for CacheMissCause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Expired { after } => {
                write!(f, "the previous call was made {} seconds before", after.as_secs())
            }
            Self::OtherModel { previous } => {
                write!(f, "the previous call was answered by {previous}")
            }
            Self::Compacted => f.write_str("the conversation was compacted"),
            Self::Changed(PrefixChange { part, offset, .. }) => {
                write!(f, "{part} differs from the previous request, at byte {offset} of its JSON")
            }
            Self::FewerBreakpoints => {
                f.write_str("the request has fewer cache breakpoints than the previous request")
            }
            Self::ManyNewBlocks { blocks } => {
                write!(f, "the request has {blocks} new content blocks")
            }
            Self::EditedByVendor => {
                f.write_str("the vendor may have removed earlier tool results or thinking")
            }
            Self::Evicted => f.write_str(
                "the vendor's cache did not have the previous request, which is unchanged",
            ),
        }
    }
}

impl fmt::Display for PrefixPart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tool { name } => write!(f, "the definition of the tool `{name}`"),
            Self::System => f.write_str("the system prompt"),
            Self::Setting { name } if name.is_empty() => f.write_str("the settings"),
            Self::Setting { name } => write!(f, "the setting `{name}`"),
            Self::Message { index } => write!(f, "message {index}"),
        }
    }
}
