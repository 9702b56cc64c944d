//! Differences between OpenAI and servers that are compatible with Chat Completions.

mod servers;

use std::borrow::Cow;
use std::fmt;

use neuron_http::{BaseUrl, Rejection};
use neuron_types::{ContentBlock, ForcedCalls, Message, ProviderError};

use crate::request::PROVIDER;

/// A description of a server that is compatible with Chat Completions. Contains its URL and its differences from
/// OpenAI.
///
/// There are predefined dialects, for example [`Dialect::mistral`] and [`Dialect::azure`]. They follow the vendors'
/// documentation, linked by [`documentation`](Self::documentation). For another server start from [`Dialect::new`] and
/// set the fields that differ.
///
/// A dialect affects only requests. Responses, streams and errors of all these servers are parsed in the same way. For
/// errors of other servers set [`overflow_words`](Self::overflow_words) and
/// [`unknown_model_words`](Self::unknown_model_words).
///
/// `Debug` does not show the query of the URL, a password in it, or the values of the headers.
///
/// # Example
///
/// ```
/// use neuron_provider_openai::{Dialect, OpenAi, TokenLimit};
///
/// # fn key() -> String { String::new() }
/// let mistral = OpenAi::compatible(Dialect::mistral(), key()).model("mistral-large-latest");
///
/// let mut dialect = Dialect::new("https://llm.example.com/v1");
/// dialect.token_limit = TokenLimit::MaxTokens;
/// let own = OpenAi::compatible(dialect, key()).model("our-model");
/// ```
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Dialect {
    /// Name of the vendor in telemetry and in conversations. Default: `openai`.
    ///
    /// Unknown fields of a response are sent back only to the vendor of this name, because strict servers reject those
    /// of other vendors. Raw content of the user ([`ContentBlock::Raw`]) and vendor fields of tools have the name
    /// `openai` for all servers.
    pub name: &'static str,
    /// Base URL, to which `/chat/completions` and `/embeddings` are appended. Its query is sent with each request.
    pub base_url: Cow<'static, str>,
    /// URL of the vendor's API documentation.
    pub documentation: &'static str,
    /// Environment variable with the key, for [`OpenAi::compatible_from_env`](crate::OpenAi::compatible_from_env).
    /// Empty for servers without keys.
    pub key_variable: &'static str,
    /// Header with the key.
    pub key_header: KeyHeader,
    /// Field with the maximum number of output tokens.
    pub token_limit: TokenLimit,
    /// Role of system prompts.
    pub system_role: SystemRole,
    /// Responses whose reasoning is sent back in the next request.
    pub reasoning: ReasoningBack,
    /// Field in which reasoning is sent back.
    pub reasoning_field: &'static str,
    /// Sends `strict` with tools. If `false`, strict tools are sent like other tools, for servers that reject the
    /// field.
    pub strict_tools: bool,
    /// Support for forcing the model to call a certain tool.
    pub forced_calls: ForcedCalls,
    /// Sends call ids as nine letters and digits, which Mistral requires. Ids of another form, from calls of other
    /// vendors' models, are replaced.
    pub short_call_ids: bool,
    /// Fields that are omitted, because the server rejects them. Fields of `extra` are sent anyway.
    pub left_out: &'static [&'static str],
    /// Phrases in the server's errors about an exceeded context window, in lower case. They complement the phrases of
    /// known vendors. A rejected request whose message has one of these phrases is a
    /// [`ContextWindowExceeded`](neuron_types::ProviderError::ContextWindowExceeded).
    pub overflow_words: &'static [&'static str],
    /// Phrases in the server's errors about an unknown model, in lower case. They complement the phrases of known
    /// vendors. A rejected request whose message has one of these phrases is a
    /// [`ModelNotFound`](neuron_types::ProviderError::ModelNotFound).
    pub unknown_model_words: &'static [&'static str],
    /// Headers of each request, with names in lower case.
    pub headers: &'static [(&'static str, &'static str)],
}

/// The role of system prompts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum SystemRole {
    /// `developer`, as OpenAI prefers.
    #[default]
    Developer,
    /// `system`, for compatible servers that do not know `developer`.
    System,
}

impl SystemRole {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Developer => "developer",
            Self::System => "system",
        }
    }
}

/// The header with the API key.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum KeyHeader {
    /// `Authorization: Bearer …`. The header is not sent if there is no key.
    #[default]
    Bearer,
    /// A header whose value is the key alone. The name is in lower case.
    Named(&'static str),
}

/// The field with the maximum number of output tokens.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum TokenLimit {
    /// `max_completion_tokens`, which OpenAI's reasoning models require.
    #[default]
    MaxCompletionTokens,
    /// `max_tokens`.
    MaxTokens,
}

impl TokenLimit {
    pub(crate) fn field(self) -> &'static str {
        match self {
            Self::MaxCompletionTokens => "max_completion_tokens",
            Self::MaxTokens => "max_tokens",
        }
    }
}

/// The responses whose reasoning is sent back in the next request, in [`Dialect::reasoning_field`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum ReasoningBack {
    /// No response, as at OpenAI. `reasoning_details` are always sent back to the vendor that created them.
    #[default]
    Never,
    /// Responses with tool calls. Servers that require it otherwise reject the next request. For a response without
    /// reasoning a space is sent, because Moonshot rejects an empty text.
    WithCalls,
    /// All responses.
    Always,
}

impl ReasoningBack {
    /// Returns `true` if the reasoning of this message is sent back.
    pub(crate) fn is_sent_back(self, answer: &Message) -> bool {
        match self {
            Self::Never => false,
            Self::WithCalls => answer.tool_uses().next().is_some(),
            Self::Always => true,
        }
    }
}

/// The vendor name of a dialect.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Vendor(pub(crate) &'static str);

impl Default for Vendor {
    fn default() -> Self {
        Self(PROVIDER)
    }
}

impl Vendor {
    /// Marks content that only this vendor understands with the vendor's name.
    pub(crate) fn sign(self, message: &mut Message) {
        if self.0 == PROVIDER {
            return;
        }
        for block in &mut message.content {
            if let ContentBlock::Raw { provider, .. } = block
                && provider == PROVIDER
            {
                *provider = self.0.to_owned();
            }
        }
    }
}

impl Dialect {
    /// Creates the dialect of a server that differs from OpenAI only by its URL. The role of system prompts is
    /// `system`, which all servers accept.
    #[must_use]
    pub const fn new(base_url: &'static str) -> Self {
        Self {
            name: PROVIDER,
            base_url: Cow::Borrowed(base_url),
            documentation: "",
            key_variable: "",
            key_header: KeyHeader::Bearer,
            token_limit: TokenLimit::MaxCompletionTokens,
            system_role: SystemRole::System,
            reasoning: ReasoningBack::Never,
            reasoning_field: "reasoning_content",
            strict_tools: true,
            forced_calls: ForcedCalls::Accepted,
            short_call_ids: false,
            left_out: &[],
            overflow_words: &[],
            unknown_model_words: &[],
            headers: &[],
        }
    }

    /// Classifies a rejected request, including the phrases of this dialect.
    pub(crate) fn explain(&self, rejection: &Rejection) -> ProviderError {
        use ProviderError as E;
        let vendor = rejection.vendor_error();
        let error = rejection.error_of(&vendor, vendor.message());
        // Other classes follow from the status or from the error code, which are more reliable than phrases.
        let (E::InvalidRequest(text) | E::ServiceUnavailable(text)) = &error else {
            return error;
        };
        let has = |words: &[&str]| words.iter().any(|word| vendor.says(word));
        match (has(self.overflow_words), has(self.unknown_model_words)) {
            (true, _) => E::ContextWindowExceeded(text.clone()),
            (_, true) => E::ModelNotFound(text.clone()),
            _ => error,
        }
    }

    /// Returns the id of a call in the format that the server requires.
    pub(crate) fn call_id<'a>(&self, id: &'a str) -> Cow<'a, str> {
        const LENGTH: usize = 9;
        const DIGITS: &[u8; 32] = b"0123456789abcdefghijklmnopqrstuv";
        let is_short = id.len() == LENGTH && id.chars().all(|c| c.is_ascii_alphanumeric());
        if !self.short_call_ids || is_short {
            return id.into();
        }
        // FNV-1a, a stable hash, because equal ids must stay equal. Five bits make a digit.
        let hash = id.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        });
        let digit = |place: usize| DIGITS.iter().cycle().nth((hash >> (5 * place)) as usize % 32);
        (0..LENGTH).filter_map(digit).map(|digit| char::from(*digit)).collect()
    }

    /// Replaces the base URL, for another region, an account or a proxy.
    #[must_use]
    pub fn at(mut self, base_url: impl Into<Cow<'static, str>>) -> Self {
        self.base_url = base_url.into();
        self
    }
}

impl fmt::Debug for Dialect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let headers: Vec<&str> = self.headers.iter().map(|(name, _)| *name).collect();
        f.debug_struct("Dialect")
            .field("name", &self.name)
            .field("base_url", &BaseUrl::new(&*self.base_url))
            .field("documentation", &self.documentation)
            .field("key_variable", &self.key_variable)
            .field("key_header", &self.key_header)
            .field("token_limit", &self.token_limit)
            .field("system_role", &self.system_role)
            .field("reasoning", &self.reasoning)
            .field("reasoning_field", &self.reasoning_field)
            .field("strict_tools", &self.strict_tools)
            .field("forced_calls", &self.forced_calls)
            .field("short_call_ids", &self.short_call_ids)
            .field("left_out", &self.left_out)
            .field("overflow_words", &self.overflow_words)
            .field("unknown_model_words", &self.unknown_model_words)
            .field("headers", &headers)
            .finish()
    }
}

impl Default for Dialect {
    fn default() -> Self {
        Self::openai()
    }
}
