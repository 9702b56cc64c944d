//! Differences between OpenAI and servers that are compatible with Chat Completions.

mod servers;

use std::borrow::Cow;
use std::fmt;

use neuron_http::{BaseUrl, Rejection, RequestLimits};
use neuron_model::{ContentBlock, ForcedCalls, Message, ProviderError};

use crate::request::PROVIDER;

/// A description of a server that is compatible with Chat Completions. It contains the server's URL, and the
/// differences between requests to the server and requests to OpenAI.
///
/// There are predefined dialects, for example [`Dialect::mistral`] and [`Dialect::azure`]. They follow the vendors'
/// documentation, linked by [`documentation`](Self::documentation). For any other server, call [`Dialect::new`] and set
/// the fields in which the server differs from OpenAI.
///
/// A dialect affects only requests. Responses, streams and errors of all servers are parsed in the same way, except for
/// Gemini's count of reasoning tokens. If errors of your server are classified wrongly, set
/// [`overflow_words`](Self::overflow_words) and [`unknown_model_words`](Self::unknown_model_words).
///
/// The `Debug` output does not contain the query of the URL, a password in the URL, or the values of the headers.
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
    /// Name of the vendor in telemetry and in stored conversations. Default: `openai`.
    ///
    /// Fields of a response that this crate does not know are stored with this name. They are sent back only to the
    /// vendor of the same name, because strict servers reject the fields of other vendors. [`ContentBlock::Raw`] in
    /// user messages and vendor fields of tools use the name `openai` for all servers.
    pub name: &'static str,
    /// Base URL of the server. The client appends `/chat/completions` or `/embeddings` to the path. The query of the
    /// URL, if any, is sent with each request.
    pub base_url: Cow<'static, str>,
    /// URL of the vendor's API documentation. Empty if unknown.
    pub documentation: &'static str,
    /// Name of the environment variable with the API key, read by
    /// [`OpenAi::compatible_from_env`](crate::OpenAi::compatible_from_env). Empty for a server without keys.
    pub key_variable: &'static str,
    /// Header that contains the API key.
    pub key_header: KeyHeader,
    /// Request field that contains the maximum number of output tokens.
    pub token_limit: TokenLimit,
    /// Role in which system prompts are sent.
    pub system_role: SystemRole,
    /// Selects the earlier responses whose reasoning is sent back to the server.
    pub reasoning: ReasoningBack,
    /// Name of the message field in which reasoning is sent back to the server.
    pub reasoning_field: &'static str,
    /// Set if the server accepts the field `strict` of a tool. If `false`, strict tools are sent without this field.
    pub strict_tools: bool,
    /// The requests in which the server accepts a forced tool call.
    pub forced_calls: ForcedCalls,
    /// Set if the ids of tool calls must have exactly nine letters and digits, as Mistral requires. Any other id, such
    /// as one from another vendor's model, is then replaced.
    pub short_call_ids: bool,
    /// Maximum number of characters in the id of a tool call. A longer id, such as one from another vendor's server, is
    /// then replaced.
    pub longest_call_id: usize,
    /// Maximum number of stop sequences in a request. More are an error. Default: no maximum.
    pub max_stop_sequences: usize,
    /// Set if the server accepts only images of the types PNG, JPEG, GIF and WebP, as OpenAI does. An image of another
    /// type in a message of the user is then an error.
    pub only_common_images: bool,
    /// Names of request fields that the server rejects. The client omits these fields, unless
    /// [`CompletionRequest::extra`](neuron_model::CompletionRequest::extra) contains them.
    pub left_out: &'static [&'static str],
    /// Lower-case phrases in the server's errors about an exceeded context window. If the error message of a rejected
    /// request contains such a phrase, the error is a
    /// [`ContextWindowExceeded`](neuron_model::ProviderError::ContextWindowExceeded). The phrases of known vendors are
    /// always recognised.
    pub overflow_words: &'static [&'static str],
    /// Lower-case phrases in the server's errors about an unknown model. If the error message of a rejected request
    /// contains such a phrase, the error is a [`ModelNotFound`](neuron_model::ProviderError::ModelNotFound). The
    /// phrases of known vendors are always recognised.
    pub unknown_model_words: &'static [&'static str],
    /// Headers that each request contains, as pairs of a name in lower case and a value.
    pub headers: &'static [(&'static str, &'static str)],
}

/// The role in which system prompts are sent.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum SystemRole {
    /// The role `developer`, which OpenAI prefers.
    #[default]
    Developer,
    /// The role `system`, for compatible servers that do not know `developer`.
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

/// The request header that contains the API key.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum KeyHeader {
    /// The header `Authorization: Bearer …`.
    #[default]
    Bearer,
    /// A header of this name, whose value is the API key alone. The name must be in lower case.
    Named(&'static str),
}

/// The request field that contains the maximum number of output tokens.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum TokenLimit {
    /// The field `max_completion_tokens`, which OpenAI's reasoning models require.
    #[default]
    MaxCompletionTokens,
    /// The field `max_tokens`, which most compatible servers use.
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

/// Selects the earlier responses whose reasoning is sent back to the server, in [`Dialect::reasoning_field`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum ReasoningBack {
    /// Sends no reasoning back. OpenAI's own API has no field for it. The field `reasoning_details` is independent of
    /// this setting and is always sent back to the vendor that created it.
    #[default]
    Never,
    /// Sends the reasoning of responses with tool calls back. Some servers reject the next request without this
    /// reasoning. If such a response has no reasoning, the client sends a space, because Moonshot rejects an empty
    /// text.
    WithCalls,
    /// Sends the reasoning of all responses back.
    Always,
}

impl ReasoningBack {
    /// Returns `true` if the reasoning of the assistant message `answer` is sent back.
    pub(crate) fn is_sent_back(self, answer: &Message) -> bool {
        match self {
            Self::Never => false,
            Self::WithCalls => answer.tool_uses().next().is_some(),
            Self::Always => true,
        }
    }
}

/// The name of a vendor, from [`Dialect::name`].
#[derive(Debug, Clone, Copy)]
pub(crate) struct Vendor(pub(crate) &'static str);

impl Default for Vendor {
    fn default() -> Self {
        Self(PROVIDER)
    }
}

impl Vendor {
    /// Returns `true` for Gemini's endpoints, on Google AI and on Vertex AI.
    pub(crate) fn is_gemini(self) -> bool {
        self.0 == servers::GEMINI
    }

    /// Replaces the provider `openai` of each [`ContentBlock::Raw`] in `message` with this vendor's name. The block is
    /// then sent back only to this vendor.
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
    /// Creates the dialect of a server that differs from OpenAI only in its URL. System prompts have the role `system`,
    /// which all servers accept.
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
            longest_call_id: usize::MAX,
            max_stop_sequences: usize::MAX,
            only_common_images: false,
            left_out: &[],
            overflow_words: &[],
            unknown_model_words: &[],
            headers: &[],
        }
    }

    /// Converts a rejected request into an error. The phrases of this dialect are used only if the status and the error
    /// code do not identify anything more specific than an invalid request or an unavailable service.
    pub(crate) fn explain(&self, rejection: &Rejection) -> ProviderError {
        use ProviderError as E;
        let vendor = rejection.vendor_error();
        let error = rejection.error_of(&vendor, vendor.message());
        // All other errors follow from the status or from the error code, which are more reliable than phrases.
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

    /// Returns what the server rejects in a request.
    pub(crate) fn limits(&self) -> RequestLimits {
        let vendor = if self.name == PROVIDER { "OpenAI" } else { self.name };
        let limits = RequestLimits::new(vendor).max_stop_sequences(self.max_stop_sequences);
        if self.only_common_images { limits.only_common_images() } else { limits }
    }

    /// Returns the id of a tool call in the format that the server requires. If
    /// [`short_call_ids`](Self::short_call_ids) is set, an id of another format is replaced by a hash of nine
    /// characters. An id with more characters than [`longest_call_id`](Self::longest_call_id) is replaced too.
    pub(crate) fn call_id<'a>(&self, id: &'a str) -> Cow<'a, str> {
        const LENGTH: usize = 9;
        const DIGITS: &[u8; 32] = b"0123456789abcdefghijklmnopqrstuv";
        let is_short = id.len() == LENGTH && id.chars().all(|c| c.is_ascii_alphanumeric());
        if is_short || !self.short_call_ids && id.chars().count() <= self.longest_call_id {
            return id.into();
        }
        // FNV-1a is a stable hash. A call and its result must keep equal ids in every request. Five bits make a digit.
        let hash = id.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        });
        if !self.short_call_ids {
            return format!("call_{hash:016x}").into();
        }
        let digit = |place: usize| DIGITS.iter().cycle().nth((hash >> (5 * place)) as usize % 32);
        (0..LENGTH).filter_map(digit).map(|digit| char::from(*digit)).collect()
    }

    /// Replaces the base URL, for example for another region, for an account or for a proxy.
    ///
    /// If the URL leads from OpenAI's server to another one, [`max_stop_sequences`](Self::max_stop_sequences) and
    /// [`only_common_images`](Self::only_common_images) return to their defaults. The other server may accept more.
    #[must_use]
    pub fn at(mut self, base_url: impl Into<Cow<'static, str>>) -> Self {
        let base_url = base_url.into();
        let is_openai = |url: &str| BaseUrl::new(url).is_within("openai.com");
        if is_openai(&self.base_url) && !is_openai(&base_url) {
            self.max_stop_sequences = usize::MAX;
            self.only_common_images = false;
        }
        self.base_url = base_url;
        self
    }
}

impl fmt::Debug for Dialect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The values of headers may be secrets, so only the names are shown.
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
            .field("longest_call_id", &self.longest_call_id)
            .field("max_stop_sequences", &self.max_stop_sequences)
            .field("only_common_images", &self.only_common_images)
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
