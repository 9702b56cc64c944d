//! Classifies errors by a table of vendors' error codes and messages ([`Fault`]). No other file knows specific vendors.

use neuron_model::ProviderError;

/// The class of an error, derived from its codes and its message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    /// A quota, a spending limit or a machine's memory is exhausted. A retry does not help.
    Quota,
    /// The requested model does not exist.
    NoModel,
    /// Too many requests or tokens in a period.
    RateLimit,
    /// The server is temporarily overloaded.
    Overloaded,
    /// The server is still loading the model.
    Loading,
    /// The API key is missing, wrong or not permitted.
    Key,
    /// The conversation does not fit into the model's context window.
    TooLong,
    /// The request is invalid, even if the status suggests a retry.
    Request,
}

/// HTTP status of the response. `None` for an error inside a response with a successful status.
type Status = Option<u16>;

/// Error codes and types with their class. They take precedence over messages. The comments name the vendors that send
/// them.
const CODES: &[(&str, Fault)] = &[
    // OpenAI, Azure, Groq, Cerebras.
    ("context_length_exceeded", Fault::TooLong),
    // llama.cpp, LM Studio.
    ("exceed_context_size_error", Fault::TooLong),
    // GitHub Copilot.
    ("model_max_prompt_tokens_exceeded", Fault::TooLong),
    // z.ai, for this and all other numbers in this table (docs.z.ai/api-reference/api-code).
    ("1261", Fault::TooLong),
    // OpenAI, Groq.
    ("model_not_found", Fault::NoModel),
    // Azure.
    ("DeploymentNotFound", Fault::NoModel),
    // Mistral.
    ("invalid_model", Fault::NoModel),
    // Ark.
    ("InvalidEndpointOrModel.NotFound", Fault::NoModel),
    // OpenAI.
    ("insufficient_quota", Fault::Quota),
    ("billing_hard_limit_reached", Fault::Quota),
    ("billing_not_active", Fault::Quota),
    // Anthropic: status 402, and spending limits with the status of a rate limit.
    ("billing_error", Fault::Quota),
    ("enforced_spend_limit_reached", Fault::Quota),
    ("contract_spend_limit_reached", Fault::Quota),
    // Moonshot.
    ("exceeded_current_quota_error", Fault::Quota),
    // DashScope.
    ("Arrearage", Fault::Quota),
    // z.ai: balance, usage limits of plans, fair use.
    ("1113", Fault::Quota),
    ("1308", Fault::Quota),
    ("1309", Fault::Quota),
    ("1310", Fault::Quota),
    ("1311", Fault::Quota),
    ("1313", Fault::Quota),
    ("1314", Fault::Quota),
    ("1315", Fault::Quota),
    ("1316", Fault::Quota),
    ("1317", Fault::Quota),
    ("1318", Fault::Quota),
    ("1319", Fault::Quota),
    ("1320", Fault::Quota),
    ("1321", Fault::Quota),
    // MiniMax (platform.minimax.io/docs/api-reference/errorcode).
    ("base_resp 1002", Fault::RateLimit),
    ("base_resp 1004", Fault::Key),
    ("base_resp 1008", Fault::Quota),
    // OpenAI, Anthropic.
    ("rate_limit_exceeded", Fault::RateLimit),
    ("rate_limit_error", Fault::RateLimit),
    // Azure, in streams.
    ("too_many_requests", Fault::RateLimit),
    // z.ai.
    ("1302", Fault::RateLimit),
    ("1305", Fault::Overloaded),
    // OpenAI, Anthropic.
    ("server_is_overloaded", Fault::Overloaded),
    ("slow_down", Fault::Overloaded),
    ("overloaded_error", Fault::Overloaded),
    ("invalid_api_key", Fault::Key),
    ("authentication_error", Fault::Key),
    ("permission_error", Fault::Key),
];

/// Error types that are too general to classify an error. They are used only if neither the message nor the HTTP status
/// gives the class.
const WEAK_CODES: [&str; 2] = ["invalid_request_error", "invalid_prompt"];

/// Types of errors about a missing object, from Anthropic, OpenAI-compatible servers, Google and vLLM.
const NOT_FOUND: [&str; 3] = ["not_found_error", "NOT_FOUND", "NotFoundError"];

/// Parts of error messages, in lower case, with the class of the error. A message matches a row if it contains all
/// parts of the row. The first matching row decides. A comment names the vendor that sends the message.
const WORDINGS: &[(Fault, &[&str])] = &[
    // Anthropic: a 400 `invalid_request_error`.
    (Fault::Quota, &["credit balance is too low"]),
    // xAI.
    (Fault::Quota, &["used all available credits"]),
    // Ollama's cloud: "you have reached your weekly usage limit".
    (Fault::Quota, &["reached your", "usage limit"]),
    // Ollama: the machine's memory.
    (Fault::Quota, &["more system memory"]),
    // OpenRouter.
    (Fault::NoModel, &["not a valid model id"]),
    (Fault::NoModel, &["no endpoints found for"]),
    // DeepSeek.
    (Fault::NoModel, &["supported api model names are"]),
    // Bedrock.
    (Fault::NoModel, &["provided model identifier is invalid"]),
    // OpenAI, OpenRouter, DeepSeek, vLLM, SGLang.
    (Fault::TooLong, &["maximum context length is"]),
    (Fault::TooLong, &["exceeds the model's maximum context length"]),
    // OpenAI's Responses API.
    (Fault::TooLong, &["exceeds the context window"]),
    // Azure.
    (Fault::TooLong, &["input tokens exceed the configured limit"]),
    // GitHub Copilot.
    (Fault::TooLong, &["prompt token count of", "exceeds the limit of"]),
    // Gemini, Vertex.
    (Fault::TooLong, &["input token count", "exceeds the maximum number of tokens"]),
    (Fault::TooLong, &["input token count", "only supports up to"]),
    (Fault::TooLong, &["maximum number of tokens allowed"]),
    // Mistral. Its code 3051 has other meanings too.
    (Fault::TooLong, &["too large for model with", "maximum context length"]),
    // Groq, Cerebras.
    (Fault::TooLong, &["reduce the length of the messages"]),
    (Fault::TooLong, &["current length is", "while limit is"]),
    // xAI.
    (Fault::TooLong, &["maximum prompt length is"]),
    // Together, SGLang, and Text Generation Inference.
    (Fault::TooLong, &["longer than the model's context length"]),
    (Fault::TooLong, &["`inputs` tokens + `max_new_tokens` must be"]),
    (Fault::TooLong, &["`inputs` must have less than"]),
    // Anthropic, Fireworks, Ark.
    (Fault::TooLong, &["prompt is too long"]),
    // Anthropic: "input length and `max_tokens` exceed context limit".
    (Fault::TooLong, &["exceed context limit"]),
    // Cohere. Bedrock's "Too many tokens, please wait" is a rate limit.
    (Fault::TooLong, &["too many tokens", "cannot exceed"]),
    (Fault::TooLong, &["too many tokens", "size limit exceeded"]),
    // z.ai.
    (Fault::TooLong, &["prompt exceeds max length"]),
    // Moonshot.
    (Fault::TooLong, &["exceeded model token limit"]),
    // MiniMax.
    (Fault::TooLong, &["context window exceeds limit"]),
    // DashScope.
    (Fault::TooLong, &["range of input length should be"]),
    // Bedrock.
    (Fault::TooLong, &["input is too long"]),
    (Fault::TooLong, &["too many input tokens"]),
    (Fault::TooLong, &["too many total text bytes"]),
    (Fault::TooLong, &["input tokens exceeded"]),
    (Fault::TooLong, &["prompt tokens", "exceed model maximum"]),
    // vLLM.
    (Fault::TooLong, &["model's context length is only"]),
    (Fault::TooLong, &["longer than the maximum model length"]),
    // LM Studio.
    (Fault::TooLong, &["greater than the context length"]),
    // llama.cpp, LocalAI with llama.cpp, Ollama.
    (Fault::TooLong, &["exceed", "context size"]),
    (Fault::TooLong, &["exceed", "context length"]),
    // llama.cpp and Ollama. `error loading model` is permanent and does not match.
    (Fault::Loading, &["model is loading"]),
    // Hugging Face.
    (Fault::Loading, &["is currently loading"]),
    (Fault::Loading, &["loading model"]),
    // llama.cpp: tools without the option, and mutually exclusive constraints (`server-common.cpp`).
    (Fault::Request, &["requires --jinja"]),
    (Fault::Request, &["cannot use both json_schema and grammar"]),
    (Fault::Request, &["cannot use custom grammar constraints with tools"]),
    // llama.cpp: chat templates that reject a conversation.
    (Fault::Request, &["conversation roles must alternate"]),
    (Fault::Request, &["system role not supported"]),
    (Fault::Request, &["image input is not supported"]),
    (Fault::Request, &["audio input is not supported"]),
    // OpenRouter: policies and capabilities, with status 404.
    (Fault::Request, &["no endpoints found matching"]),
    (Fault::Request, &["no endpoints found that"]),
    // LocalAI.
    (Fault::Request, &["failed reading parameters from request"]),
    // vLLM: pydantic's text, "2 validation errors for ChatCompletionRequest".
    (Fault::Request, &["validation error", "request"]),
    // Ollama.
    (Fault::Request, &["does not support tools"]),
    (Fault::Request, &["does not support thinking"]),
    (Fault::Request, &["does not support chat"]),
    (Fault::Request, &["missing data required for image input"]),
    (Fault::Request, &["invalid json schema in format"]),
    // Ollama, in streams.
    (Fault::Overloaded, &["server busy"]),
    (Fault::Overloaded, &["maximum pending requests"]),
    (Fault::Overloaded, &["overloaded"]),
    (Fault::Key, &["unauthorized"]),
    (Fault::Key, &["forbidden"]),
];

impl Fault {
    /// Converts the class into an error with this text.
    pub(crate) fn error(self, text: String) -> ProviderError {
        match self {
            Self::Quota => ProviderError::InsufficientResources(text),
            Self::NoModel => ProviderError::ModelNotFound(text),
            Self::RateLimit => ProviderError::RateLimit { retry_after: None },
            Self::Overloaded => ProviderError::ServiceUnavailable(text),
            Self::Loading => ProviderError::ModelLoading(text),
            Self::Key => ProviderError::Authentication(text),
            Self::TooLong => ProviderError::ContextWindowExceeded(text),
            Self::Request => ProviderError::InvalidRequest(text),
        }
    }

    /// Classifies an error by its codes and types (`words`), its message and the status. Returns `None` if the class is
    /// unknown.
    pub(crate) fn of(words: &[&str], message: &str, status: Status) -> Option<Self> {
        let message = without_quotation(message);
        let code = words.iter().find_map(|word| find(CODES, word));
        match code.or_else(|| Self::of_message(words, &message, status)) {
            Some(Self::TooLong) if output_limit_exceeds_window(&message) => Some(Self::Request),
            None if status.is_none() && words.iter().any(|word| WEAK_CODES.contains(word)) => {
                Some(Self::Request)
            }
            fault => fault,
        }
    }

    /// Classifies an error by its message. Returns `None` if the message fits no class.
    ///
    /// `words` are the codes and types of the error. They are used only to recognise a missing model.
    fn of_message(words: &[&str], message: &str, status: Status) -> Option<Self> {
        let is_missing = status == Some(404)
            || status.is_none()
                && (words.iter().any(|word| NOT_FOUND.contains(word))
                    || message.contains("not found"));
        if is_missing && names_model(message) {
            return Some(Self::NoModel);
        }
        let mut rows =
            WORDINGS.iter().filter(|(_, parts)| parts.iter().all(|part| message.contains(part)));
        let (fault, _) = rows.find(|(fault, _)| fault.is_possible(message, status))?;
        Some(*fault)
    }

    /// Returns `true` if an error of this class can have this message and this status. The check excludes unrelated
    /// errors whose messages contain the same words.
    fn is_possible(self, message: &str, status: Status) -> bool {
        let is_failure = status.is_none_or(|status| status >= 500);
        match self {
            Self::Quota => is_failure || matches!(status, Some(400 | 402 | 403 | 429)),
            Self::NoModel => is_failure || matches!(status, Some(400 | 404 | 422)),
            // Status 402 and 429 concern the account, 401 the key, and 404 a missing object.
            Self::TooLong => !matches!(status, Some(401 | 402 | 404 | 429)),
            Self::Loading => is_failure && !message.contains("error loading model"),
            Self::Request => is_failure || status == Some(404),
            Self::RateLimit | Self::Overloaded | Self::Key => status.is_none(),
        }
    }
}

/// Returns the class of a code. Returns `None` for an unknown code.
fn find(codes: &[(&str, Fault)], word: &str) -> Option<Fault> {
    codes.iter().find(|(code, _)| *code == word).map(|(_, fault)| *fault)
}

/// Texts after which an error message of a server quotes the request.
const QUOTES: &[&str] = &[
    // Ollama: a tool call of the model that could not be parsed.
    "raw='",
    // pydantic quotes the request: `str` of an error, of a list of errors, and their JSON.
    "input=",
    "input_value=",
    "'input':",
    "\"input\":",
];

/// Returns the part of an error message before the first text that it quotes from the request, in lower case. Quoted
/// text must not decide the class of an error, nor its delay.
pub(crate) fn without_quotation(message: &str) -> String {
    let end = QUOTES.iter().filter_map(|quote| message.find(quote)).min();
    end.and_then(|end| message.get(..end)).unwrap_or(message).to_lowercase()
}

/// Returns `true` if a "not found" message is about a model, and not about a path of the API. The word "model" must
/// come before "not found" or directly after it.
fn names_model(message: &str) -> bool {
    let phrases = ["not found", "does not exist", "endpoints found"];
    let splits = phrases.iter().filter_map(|phrase| message.split_once(phrase));
    let split = splits.min_by_key(|(before, _)| before.len());
    let (before, after) = split.unwrap_or((message, ""));
    let after = after.trim_start_matches([' ', ':']);
    let is_subject = before.contains("model")
        || after.strip_prefix("the ").unwrap_or(after).starts_with("model");
    let mut words = message.split(|letter: char| !letter.is_alphanumeric());
    is_subject && !words.any(|word| matches!(word, "url" | "path" | "route"))
}

/// Patterns that find the output limit in a message about an exceeded context window. The `#` marks the number.
const ANSWER_LIMIT: &[&str] = &[
    // vLLM.
    "is too large: #",
    "# output tokens",
    // OpenAI, DeepSeek.
    "# in the completion",
    "# for the completion",
    // OpenRouter.
    "# in the output",
    // SGLang.
    "# tokens for the completion",
    // Text Generation Inference.
    "# `max_new_tokens`",
    // Anthropic: "exceed context limit: 10 + 200000 > 200000".
    "+ #",
];

/// Patterns that find the size of the context window in a message. The `#` marks the number.
const WINDOW: &[&str] = &[
    "maximum context length is #",
    "maximum context length of #",
    "context length is only #",
    "must be <= #",
    "> #",
];

/// Returns `true` if the requested output limit alone exceeds the context window. A shorter conversation does not help
/// then.
fn output_limit_exceeds_window(message: &str) -> bool {
    match (number(message, ANSWER_LIMIT), number(message, WINDOW)) {
        (Some(limit), Some(window)) => limit >= window,
        _ => false,
    }
}

/// Finds a number in `message`. Each pattern in `places` has `#` at the place of the number. Uses the first pattern
/// that occurs, and returns `None` if none occurs.
fn number(message: &str, places: &[&str]) -> Option<u64> {
    let is_other = |letter: char| !letter.is_ascii_digit() && letter != ',';
    places.iter().find_map(|place| {
        let (before, after) = place.split_once('#')?;
        let mark = if before.is_empty() { after } else { before };
        message.match_indices(mark).find_map(|(at, _)| {
            let number = if before.is_empty() {
                message.get(..at)?.rsplit(is_other).next()?
            } else {
                message.get(at + mark.len()..)?.split(is_other).next()?
            };
            number.replace(',', "").parse().ok()
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn output_limit_above_window_is_invalid_request() {
        for (limit_alone, overflow) in [
            // vLLM.
            (
                "'max_tokens' or 'max_completion_tokens' is too large: 5000. This model's maximum context length is 4096 tokens and your request has 10 input tokens (5000 > 4096 - 10).",
                "'max_tokens' or 'max_completion_tokens' is too large: 2000. This model's maximum context length is 4096 tokens and your request has 3000 input tokens (2000 > 4096 - 3000).",
            ),
            (
                "You passed 20 input tokens and requested 4096 output tokens. However, the model's context length is only 4096 tokens, resulting in a maximum input length of 0 tokens.",
                "You passed 4000 input tokens and requested 4095 output tokens. However, the model's context length is only 4096 tokens, resulting in a maximum input length of 1 tokens.",
            ),
            // OpenAI, DeepSeek.
            (
                "This model's maximum context length is 4097 tokens. However, you requested 4117 tokens (20 in the messages, 4097 in the completion).",
                "This model's maximum context length is 4097 tokens. However, you requested 5117 tokens (5017 in the messages, 100 in the completion).",
            ),
            // Numbers with separators.
            (
                "This model's maximum context length is 131,072 tokens. However, you requested 132,100 tokens (1,028 in the messages, 131,072 in the completion).",
                "This model's maximum context length is 131,072 tokens. However, you requested 131,500 tokens (131,000 in the messages, 500 in the completion).",
            ),
            // OpenAI's older API.
            (
                "This model's maximum context length is 4097 tokens, however you requested 4117 tokens (20 in your prompt; 4097 for the completion).",
                "This model's maximum context length is 4097 tokens, however you requested 5000 tokens (4500 in your prompt; 500 for the completion).",
            ),
            // OpenRouter.
            (
                "This endpoint's maximum context length is 8192 tokens. However, you requested about 10211 tokens (211 of text input, 10000 in the output).",
                "This endpoint's maximum context length is 8192 tokens. However, you requested about 9100 tokens (9000 of text input, 100 in the output).",
            ),
            // SGLang.
            (
                "Requested token count exceeds the model's maximum context length of 4096 tokens. You requested a total of 5010 tokens: 10 tokens from the input messages and 5000 tokens for the completion.",
                "Requested token count exceeds the model's maximum context length of 4096 tokens. You requested a total of 5000 tokens: 4500 tokens from the input messages and 500 tokens for the completion.",
            ),
            // Anthropic.
            (
                "input length and `max_tokens` exceed context limit: 10 + 200000 > 200000, decrease input length or `max_tokens` and try again",
                "input length and `max_tokens` exceed context limit: 178959 + 64000 > 200000, decrease input length or `max_tokens` and try again",
            ),
            // Text Generation Inference.
            (
                "Input validation error: `inputs` tokens + `max_new_tokens` must be <= 8192. Given: 20 `inputs` tokens and 8192 `max_new_tokens`",
                "Input validation error: `inputs` tokens + `max_new_tokens` must be <= 8192. Given: 8000 `inputs` tokens and 512 `max_new_tokens`",
            ),
        ] {
            for status in [None, Some(400), Some(500)] {
                for codes in [&[][..], &["context_length_exceeded"]] {
                    let of = |message| Fault::of(codes, message, status);
                    assert_eq!(of(limit_alone), Some(Fault::Request), "{limit_alone}");
                    assert_eq!(of(overflow), Some(Fault::TooLong), "{overflow}");
                }
            }
        }
    }

    #[test]
    fn model_not_found_requires_model_as_subject() {
        for message in [
            "model: claude-x",
            "Model not found, inaccessible, and/or not deployed",
            "Not found the model x or Permission denied",
            "The model `flux-image` does not exist or you do not have access to it.",
            "models/x is not found for API version v1main",
        ] {
            let fault = Fault::of(&["not_found_error"], message, Some(404));
            assert_eq!(fault, Some(Fault::NoModel), "{message}");
        }
        for (message, fault) in [
            (
                "No endpoints found matching your data policy (Free model publication). To enable, configure your settings",
                Some(Fault::Request),
            ),
            ("No endpoints found that support tool use by this model", Some(Fault::Request)),
            ("Image file not found: a.png, model=gpt-4", None),
            ("Tool `f` does not exist, requested by the model", None),
        ] {
            assert_eq!(Fault::of(&[], message, Some(404)), fault, "{message}");
        }
        let message = "Image file not found: a.png, model=gpt-4";
        assert_eq!(Fault::of(&[], message, None), None);
    }
}
