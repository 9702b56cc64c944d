//! How a server that is compatible with Chat Completions differs from OpenAI.

mod servers;

use std::borrow::Cow;
use std::fmt;

use neuron_http::{BaseUrl, Rejection};
use neuron_types::{ContentBlock, ForcedCalls, Message, ProviderError};

use crate::request::PROVIDER;

/// A description of a server that is compatible with Chat Completions: its address, and what it reads and writes
/// differently.
///
/// There are ready-made dialects, for example [`Dialect::mistral`] and [`Dialect::azure`]. Their sources are the vendors'
/// documentation, to which [`documentation`](Self::documentation) leads. For another server start from [`Dialect::new`]
/// and set the fields that differ.
///
/// Reading needs no dialect: answers, streams and errors of all these servers are read alike. For errors of other servers
/// there are [`overflow_words`](Self::overflow_words) and [`unknown_model_words`](Self::unknown_model_words).
///
/// `Debug` shows neither the query of the address, nor a password in it, nor the values of the headers.
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
    /// Fields of an answer that neuron does not model go back only to the vendor of this name, because strict servers
    /// refuse those of others. What a user says in the API's own words ([`ContentBlock::Raw`]) and fields of tools are
    /// named `openai` for all servers.
    pub name: &'static str,
    /// Address to which `/chat/completions` and `/embeddings` are appended. A query in it goes with each request.
    pub base_url: Cow<'static, str>,
    /// Page of the vendor that describes the API.
    pub documentation: &'static str,
    /// Environment variable with the key, which [`OpenAi::compatible_from_env`](crate::OpenAi::compatible_from_env)
    /// reads. Empty for servers without keys.
    pub key_variable: &'static str,
    /// Place of the key.
    pub key_header: KeyHeader,
    /// Field with the limit on the tokens of an answer.
    pub token_limit: TokenLimit,
    /// Role of system prompts.
    pub system_role: SystemRole,
    /// Answers whose reasoning goes back with the next request.
    pub reasoning: ReasoningBack,
    /// Field in which reasoning goes back.
    pub reasoning_field: &'static str,
    /// Sends `strict` with tools. If `false`, strict tools are sent as other tools, for servers that refuse the field.
    pub strict_tools: bool,
    /// Whether the model can be forced to call a certain tool.
    pub forced_calls: ForcedCalls,
    /// Sends ids of calls as nine letters and digits, which Mistral requires. Other ids, of calls to another vendor's
    /// model, are replaced.
    pub short_call_ids: bool,
    /// Fields that are never sent, because the server refuses them. Fields of `extra` are sent.
    pub left_out: &'static [&'static str],
    /// Words of errors for a context that is too long, in lower case, beside those of known vendors. A
    /// rejected request with one of them is [`ContextWindowExceeded`](neuron_types::ProviderError::ContextWindowExceeded).
    pub overflow_words: &'static [&'static str],
    /// Words of errors for an unknown model, in lower case, beside those of known vendors. A rejected request with one of them is
    /// [`ModelNotFound`](neuron_types::ProviderError::ModelNotFound).
    pub unknown_model_words: &'static [&'static str],
    /// Headers of each request, by their names in lower case.
    pub headers: &'static [(&'static str, &'static str)],
}

/// The role of system prompts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum SystemRole {
    /// `developer`, OpenAI's own.
    #[default]
    Developer,
    /// `system`, for compatible servers that know no other.
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

/// The place of the key in a request.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum KeyHeader {
    /// `Authorization: Bearer …`. Without a key the header is not sent.
    #[default]
    Bearer,
    /// A header with the key alone, by its name in lower case.
    Named(&'static str),
}

/// The field with the limit on the tokens of an answer.
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

/// The answers whose reasoning goes back with the next request, in [`Dialect::reasoning_field`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum ReasoningBack {
    /// None, as at OpenAI. `reasoning_details` always go back to the vendor that sent them.
    #[default]
    Never,
    /// Answers with tool calls. Servers that require it refuse the next request otherwise. An answer without reasoning
    /// goes back with a space, because Moonshot refuses an empty text.
    WithCalls,
    /// All answers.
    Always,
}

impl ReasoningBack {
    /// Returns `true` if the reasoning of this answer goes back.
    pub(crate) fn goes_back(self, answer: &Message) -> bool {
        match self {
            Self::Never => false,
            Self::WithCalls => answer.tool_uses().next().is_some(),
            Self::Always => true,
        }
    }
}

/// The name in a dialect.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Vendor(pub(crate) &'static str);

impl Default for Vendor {
    fn default() -> Self {
        Self(PROVIDER)
    }
}

impl Vendor {
    /// Gives this name to the content of an answer that only the vendor understands.
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
    /// Creates the dialect of a server that differs from OpenAI only by its address. The role of system prompts is
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

    /// Returns the error of a rejected request by the words of this server.
    pub(crate) fn explain(&self, rejection: &Rejection) -> ProviderError {
        use ProviderError as E;
        let vendor = rejection.vendor_error();
        let error = rejection.error_of(&vendor, vendor.message());
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

    /// Returns the id of a call as the server takes it.
    pub(crate) fn call_id<'a>(&self, id: &'a str) -> Cow<'a, str> {
        const LENGTH: usize = 9;
        const DIGITS: &[u8; 32] = b"0123456789abcdefghijklmnopqrstuv";
        let is_short = id.len() == LENGTH && id.chars().all(|c| c.is_ascii_alphanumeric());
        if !self.short_call_ids || is_short {
            return id.into();
        }
        // FNV-1a, because equal ids must stay equal. Five bits make a digit.
        let hash = id.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        });
        let digit = |place: usize| DIGITS.iter().cycle().nth((hash >> (5 * place)) as usize % 32);
        (0..LENGTH).filter_map(digit).map(|digit| char::from(*digit)).collect()
    }

    /// Replaces the address, for another region, an account of one's own or a proxy.
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
