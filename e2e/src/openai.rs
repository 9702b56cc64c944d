//! What is OpenAI's alone: the answers and requests that no other vendor has, and that it has two
//! APIs for messages.

use neuron_provider_openai::OpenAi;
use neuron_testing::Reply;
use neuron_types::{
    BoxedEmbeddingProvider, BoxedProvider, CompletionRequest, CompletionResponse, ContentBlock,
    ContextEdit, ContextManagement, Message, Role, StopReason, TokenUsage,
};
use serde_json::{Value, json};

use crate::answers::{answer, answers, embeddings};
use crate::corpus::{ask, request, weather};
use crate::failures;
use crate::serve::Case;
use crate::vendor::{API_KEY, Form, MODEL};

pub(crate) const FORMS: &[Form] = &[
    Form {
        name: "chat",
        provider: |url| BoxedProvider::new(OpenAi::new(API_KEY).base_url(url).model(MODEL)),
        refused: &["a document at an address", "context management"],
    },
    Form {
        name: "responses",
        provider: |url| {
            BoxedProvider::new(OpenAi::new(API_KEY).base_url(url).model(MODEL).responses_api())
        },
        refused: &["stop sequences"],
    },
];

pub(crate) fn embedder(url: &str) -> BoxedEmbeddingProvider {
    BoxedEmbeddingProvider::new(OpenAi::new(API_KEY).base_url(url))
}

const CHAT: &str = "chat";
const RESPONSES: &str = "responses";

/// How often a client asks each API for the same answer: whole, as events, and through its stream
/// helper.
const WAYS: usize = 3;

/// How many requests the client thinks of by itself.
const OWN_REQUESTS: usize = 11;

pub(crate) fn cases() -> Vec<Case> {
    let both = answers().into_iter().chain(own_answers());
    let both = both.map(|(name, response)| (name, response, &[CHAT, RESPONSES][..]));
    let chat = chat_answers().into_iter().map(|(name, response)| (name, response, &[CHAT][..]));
    let responses = items().into_iter().map(|(name, response)| (name, response, &[RESPONSES][..]));
    let mut cases = Vec::new();
    for (name, response, apis) in both.chain(chat).chain(responses) {
        let count = WAYS * apis.len();
        let replies = (0..count).map(|_| Reply::from(response.clone()).chunk_chars(5).into());
        cases.push(Case {
            name: name.into(),
            replies: replies.collect(),
            means: json!({"answer": response, "apis": apis}),
        });
    }
    cases.extend(failures::refusals());
    for api in [CHAT, RESPONSES] {
        for mut case in failures::breaks() {
            case.name = format!("{api}: {}", case.name);
            if let Some(means) = case.means.as_object_mut() {
                means.insert("api".into(), api.into());
            }
            cases.push(case);
        }
    }
    // As the client likes, as numbers, and in base64.
    cases.push(embeddings(3));
    cases.extend(failures::of_the_clients_choice(OWN_REQUESTS));
    cases
}

type Named = (&'static str, CompletionResponse);

fn raw(json: Value, portable: Option<ContentBlock>) -> ContentBlock {
    ContentBlock::Raw { provider: "openai".into(), json, portable: portable.map(Box::new) }
}

fn text(text: &str) -> ContentBlock {
    ContentBlock::Text(text.into())
}

fn own_answers() -> Vec<Named> {
    let thinking = ContentBlock::Thinking {
        thinking: "Hmm, let me see what they mean.".into(),
        signature: String::new(),
    };
    let reasoned = TokenUsage {
        input_tokens: 40,
        output_tokens: 90,
        reasoning_tokens: Some(70),
        ..Default::default()
    };
    vec![
        (
            "thinking before a text",
            CompletionResponse {
                usage: reasoned,
                ..answer(vec![thinking, text("It is so.")], StopReason::EndTurn)
            },
        ),
        ("a refusal", answer(vec![text("I cannot help with that.")], StopReason::Refusal)),
        ("a filtered answer", answer(vec![text("So far.")], StopReason::ContentFilter)),
        (
            "arguments that are no json",
            answer(
                vec![ContentBlock::ToolUse {
                    id: "call_1".into(),
                    name: "now".into(),
                    input: neuron_types::ToolCall::invalid_json_input("{\"zone\": \"U"),
                }],
                StopReason::MaxTokens,
            ),
        ),
    ]
}

/// Answers that only Chat Completions has.
fn chat_answers() -> Vec<Named> {
    let annotations = json!([{
        "type": "url_citation",
        "url_citation": {
            "url": "https://weather.example",
            "title": "Weather",
            "start_index": 0,
            "end_index": 5,
        },
    }]);
    vec![(
        "fields of the message that we do not model",
        answer(
            vec![
                text("It is sunny."),
                raw(json!({"type": "message", "annotations": annotations}), None),
            ],
            StopReason::EndTurn,
        ),
    )]
}

/// Answers made of items of the Responses API.
fn items() -> Vec<Named> {
    let reasoning = json!({
        "type": "reasoning",
        "id": "rs_1",
        "summary": [{"type": "summary_text", "text": "They mean the weather."}],
        "encrypted_content": "ZW5jcnlwdGVk",
    });
    let search = json!({
        "type": "web_search_call",
        "id": "ws_1",
        "status": "completed",
        "action": {"type": "search", "query": "weather", "queries": ["weather"]},
    });
    let message = json!({
        "type": "message",
        "id": "msg_1",
        "status": "completed",
        "role": "assistant",
        "phase": "final_answer",
        "content": [{
            "type": "output_text",
            "text": "It is sunny.",
            "annotations": [{
                "type": "url_citation",
                "url": "https://weather.example",
                "title": "Weather",
                "start_index": 0,
                "end_index": 5,
            }],
            "logprobs": [],
        }],
    });
    let call = json!({
        "type": "function_call",
        "id": "fc_1",
        "call_id": "call_1",
        "name": "now",
        "arguments": "{\"zone\":\"UTC\"}",
        "status": "completed",
    });
    let tool_use = ContentBlock::ToolUse {
        id: "call_1".into(),
        name: "now".into(),
        input: json!({"zone": "UTC"}),
    };
    vec![
        (
            "reasoning, a search and a text with its source",
            answer(
                vec![
                    raw(reasoning.clone(), None),
                    raw(search, None),
                    raw(message, Some(text("It is sunny."))),
                ],
                StopReason::EndTurn,
            ),
        ),
        (
            "reasoning and a call, as items",
            answer(vec![raw(reasoning, None), raw(call, Some(tool_use))], StopReason::ToolUse),
        ),
    ]
}

pub(crate) fn requests() -> Vec<(&'static str, CompletionRequest)> {
    let assistant = |content| Message { role: Role::Assistant, content };
    let edits = vec![ContextEdit::Compact { strategy: "compaction".into() }];
    vec![
        (
            "context management",
            CompletionRequest {
                context_management: Some(ContextManagement { edits }),
                ..ask("hi")
            },
        ),
        (
            "a refusal in the conversation",
            request(vec![
                Message::user("hi"),
                assistant(vec![raw(
                    json!({"type": "message", "refusal": "I cannot help with that."}),
                    Some(text("I cannot help with that.")),
                )]),
                Message::user("Why?"),
            ]),
        ),
        (
            "raw items of its own",
            request(
                std::iter::once(Message::user("What is the weather?"))
                    .chain(items().into_iter().take(1).map(|(_, response)| response.message))
                    .chain([Message::user("And tomorrow?")])
                    .collect(),
            ),
        ),
        (
            "extra fields",
            CompletionRequest {
                tools: vec![weather()],
                extra: Some(json!({
                    "metadata": {"user": "u1"},
                    "service_tier": "flex",
                    "safety_identifier": "u1",
                    "prompt_cache_key": "k",
                    "store": true,
                })),
                ..ask("hi")
            },
        ),
    ]
}
