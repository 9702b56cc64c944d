//! The requests that every provider is asked to write: each part of a request at least once.

use neuron_types::{
    CacheControl, CacheTtl, CompletionRequest, ContentBlock, ContentItem, DocumentSource,
    EmbeddedResource, EmbeddingRequest, ImageSource, Message, ReasoningEffort, ResourceLink,
    ResponseFormat, Role, SystemBlock, SystemPrompt, ThinkingConfig, ToolAnnotations, ToolCall,
    ToolChoice, ToolDefinition,
};
use serde_json::{Value, json};

use crate::vendor::MODEL;

/// Each request with a name.
pub(crate) fn corpus() -> Vec<(&'static str, CompletionRequest)> {
    let mut corpus = vec![("one question", ask("hi"))];
    corpus.extend(conversations());
    corpus.extend(options());
    corpus.extend(tools());
    corpus.extend(media());
    corpus.extend(reasoning());
    corpus.push(("everything at once", everything()));
    corpus
}

/// A request with one question.
pub(crate) fn ask(text: &str) -> CompletionRequest {
    request(vec![Message::user(text)])
}

pub(crate) fn request(messages: Vec<Message>) -> CompletionRequest {
    CompletionRequest { messages, ..Default::default() }
}

/// A tool with everything that a definition can have.
pub(crate) fn weather() -> ToolDefinition {
    ToolDefinition {
        name: "get_weather".into(),
        title: Some("Weather".into()),
        description: "Returns the weather in a city".into(),
        input_schema: json!({
            "$schema": "https://json-schema.org/draft/2020-12/schema",
            "title": "GetWeatherArgs",
            "type": "object",
            "properties": {
                "city": {"type": "string", "description": "The city"},
                "days": {"type": ["integer", "null"], "minimum": 1, "default": null},
            },
            "required": ["city"],
        }),
        output_schema: Some(json!({"type": "string"})),
        annotations: Some(ToolAnnotations {
            read_only_hint: Some(true),
            destructive_hint: Some(false),
            idempotent_hint: Some(true),
            open_world_hint: Some(true),
        }),
        cache_control: None,
    }
}

/// A tool with as little as possible.
fn now() -> ToolDefinition {
    ToolDefinition {
        name: "now".into(),
        title: None,
        description: "Returns the time".into(),
        input_schema: json!({"type": "object", "properties": {}}),
        output_schema: None,
        annotations: None,
        cache_control: None,
    }
}

type Named = (&'static str, CompletionRequest);

fn conversations() -> Vec<Named> {
    let system = |prompt: SystemPrompt| CompletionRequest { system: Some(prompt), ..ask("hi") };
    vec![
        (
            "a conversation",
            request(vec![
                Message::user("What is Rust? \u{1F980} \"quoted\" \\ \n"),
                Message::assistant("A language."),
                Message::user("And cargo?"),
            ]),
        ),
        (
            "messages of several blocks",
            request(vec![
                says(Role::User, vec![text("One."), text("Two.")]),
                says(Role::Assistant, vec![text("Three."), text("Four.")]),
                says(Role::User, vec![text("Five.")]),
            ]),
        ),
        ("two questions in a row", request(vec![Message::user("One."), Message::user("Two.")])),
        (
            "texts that say nothing",
            request(vec![
                says(Role::User, vec![text("  "), text("hi")]),
                says(Role::Assistant, vec![text("")]),
                Message::user("Are you there?"),
            ]),
        ),
        ("a system prompt", system("Be brief.".into())),
        (
            "a system prompt in blocks",
            system(SystemPrompt::Blocks(vec![
                SystemBlock {
                    text: "You are a weather station.".into(),
                    cache_control: Some(CacheControl { ttl: Some(CacheTtl::OneHour) }),
                },
                SystemBlock { text: "Be brief.".into(), cache_control: None },
                SystemBlock {
                    text: "Today is Monday.".into(),
                    cache_control: Some(CacheControl { ttl: Some(CacheTtl::FiveMinutes) }),
                },
            ])),
        ),
        (
            "system messages",
            CompletionRequest {
                system: Some("Be brief.".into()),
                ..request(vec![
                    Message::system("You are a weather station."),
                    Message::user("hi"),
                    Message::assistant("Hello."),
                    Message::system("The user is in Paris."),
                    Message::user("And the weather?"),
                ])
            },
        ),
    ]
}

fn options() -> Vec<Named> {
    let schema = || {
        json!({
            "type": "object",
            "properties": {"city": {"type": "string"}},
            "required": ["city"],
            "additionalProperties": false,
        })
    };
    let format = |format| CompletionRequest { response_format: Some(format), ..ask("hi") };
    let json_schema = |strict| {
        format(ResponseFormat::JsonSchema { name: "city".into(), schema: schema(), strict })
    };
    vec![
        ("a limit", CompletionRequest { max_tokens: Some(100), ..ask("hi") }),
        ("a temperature", CompletionRequest { temperature: Some(0.7), ..ask("hi") }),
        ("a top p", CompletionRequest { top_p: Some(0.9), ..ask("hi") }),
        (
            "stop sequences",
            CompletionRequest {
                stop_sequences: vec!["END".into(), "STOP here".into()],
                ..ask("hi")
            },
        ),
        ("another model", CompletionRequest { model: MODEL.into(), ..ask("hi") }),
        ("free text", format(ResponseFormat::Text)),
        (
            "any json object",
            CompletionRequest {
                response_format: Some(ResponseFormat::JsonObject),
                ..ask("Answer in json.")
            },
        ),
        ("json of a schema", json_schema(false)),
        ("json of a strict schema", json_schema(true)),
    ]
}

fn tools() -> Vec<Named> {
    let choose = |choice| CompletionRequest {
        tools: vec![weather(), now()],
        tool_choice: Some(choice),
        ..ask("What is the weather in Paris?")
    };
    let call = |id: &str, name: &str, input: Value| ContentBlock::ToolUse {
        id: id.into(),
        name: name.into(),
        input,
    };
    let result = |id: &str, content: Vec<ContentItem>, is_error| ContentBlock::ToolResult {
        tool_use_id: id.into(),
        content,
        is_error,
    };
    let item = |text: &str| ContentItem::Text(text.into());
    let image = || ContentItem::Image { source: png() };
    let with_tools =
        |messages| CompletionRequest { tools: vec![weather(), now()], ..request(messages) };
    let cached = ToolDefinition { cache_control: Some(CacheControl::default()), ..weather() };
    vec![
        ("tools", CompletionRequest { tools: vec![now(), cached], ..ask("hi") }),
        ("tools as the model likes", choose(ToolChoice::Auto)),
        ("tools, but not now", choose(ToolChoice::None)),
        ("some tool", choose(ToolChoice::Required)),
        ("this tool", choose(ToolChoice::Specific { name: "get_weather".into() })),
        (
            "a choice without tools",
            CompletionRequest { tool_choice: Some(ToolChoice::Auto), ..ask("hi") },
        ),
        (
            "parallel calls and their results",
            with_tools(vec![
                Message::user("What is the weather in Paris and Oslo?"),
                says(
                    Role::Assistant,
                    vec![
                        text("Let me look both up."),
                        call("call_1", "get_weather", json!({"city": "Paris"})),
                        call("call_2", "get_weather", json!({"city": "Oslo", "days": 2})),
                    ],
                ),
                says(
                    Role::User,
                    vec![
                        result("call_1", vec![item("22 degrees"), item("sunny")], false),
                        result("call_2", vec![item("no such station")], true),
                        text("Answer in one sentence."),
                    ],
                ),
            ]),
        ),
        (
            "a call without a text",
            with_tools(vec![
                Message::user("What time is it?"),
                says(Role::Assistant, vec![call("call_1", "now", json!({}))]),
                says(Role::User, vec![result("call_1", vec![item("noon")], false)]),
                Message::assistant("It is noon."),
                Message::user("Thanks."),
            ]),
        ),
        (
            "results with images, or with nothing",
            with_tools(vec![
                Message::user("Show me."),
                says(
                    Role::Assistant,
                    vec![
                        call("call_1", "now", json!({})),
                        call("call_2", "now", json!({})),
                        call("call_3", "now", json!({})),
                        call("call_4", "now", json!({})),
                    ],
                ),
                says(
                    Role::User,
                    vec![
                        result("call_1", vec![item("here"), image()], false),
                        result("call_2", vec![], false),
                        result("call_3", vec![image()], true),
                        result("call_4", vec![], true),
                    ],
                ),
            ]),
        ),
        (
            "results with sound and resources",
            with_tools(vec![
                Message::user("Show me."),
                says(
                    Role::Assistant,
                    vec![call("call_1", "now", json!({})), call("call_2", "now", json!({}))],
                ),
                says(
                    Role::User,
                    vec![
                        result("call_1", sound_and_resources(), false),
                        result("call_2", sound_and_resources(), true),
                    ],
                ),
            ]),
        ),
        (
            "arguments that are no object",
            with_tools(vec![
                Message::user("Go on."),
                says(
                    Role::Assistant,
                    vec![
                        call("call_1", "now", Value::Null),
                        call("call_2", "now", json!(["a", 1])),
                        call("call_3", "now", ToolCall::invalid_json_input("{\"city\": \"Pa")),
                    ],
                ),
                says(
                    Role::User,
                    vec![
                        result("call_1", vec![item("noon")], false),
                        result("call_2", vec![item("noon")], false),
                        result("call_3", vec![item("that is no JSON")], true),
                    ],
                ),
            ]),
        ),
    ]
}

fn media() -> Vec<Named> {
    let show = |block| request(vec![says(Role::User, vec![block, text("What is this?")])]);
    let document = |source| show(ContentBlock::Document { source });
    let url = || ImageSource::Url { url: "https://images.example/a.png".into() };
    vec![
        ("an image", show(ContentBlock::Image { source: png() })),
        ("an image at an address", show(ContentBlock::Image { source: url() })),
        ("a document", document(DocumentSource::Base64Pdf { data: "JVBERi0xLjQK".into() })),
        ("a document as text", document(DocumentSource::PlainText { data: "Chapter one.".into() })),
        (
            "a document at an address",
            document(DocumentSource::Url { url: "https://papers.example/a.pdf".into() }),
        ),
    ]
}

fn reasoning() -> Vec<Named> {
    let think = |thinking| CompletionRequest { thinking: Some(thinking), ..ask("hi") };
    let effort = |effort| CompletionRequest { reasoning_effort: Some(effort), ..ask("hi") };
    let thinking = |thinking: &str, signature: &str| ContentBlock::Thinking {
        thinking: thinking.into(),
        signature: signature.into(),
    };
    let raw = |json: Value, portable: Option<ContentBlock>| ContentBlock::Raw {
        provider: "elsewhere".into(),
        json,
        portable: portable.map(Box::new),
    };
    vec![
        ("thinking with a budget", think(ThinkingConfig::Enabled { budget_tokens: 2048 })),
        ("no thinking", think(ThinkingConfig::Disabled)),
        ("thinking as the model likes", think(ThinkingConfig::Adaptive)),
        ("no effort", effort(ReasoningEffort::None)),
        ("little effort", effort(ReasoningEffort::Low)),
        ("some effort", effort(ReasoningEffort::Medium)),
        ("much effort", effort(ReasoningEffort::High)),
        (
            "a conversation with thoughts",
            request(vec![
                Message::user("hi"),
                says(
                    Role::Assistant,
                    vec![
                        thinking("Hmm.", "c2lnbmF0dXJl"),
                        thinking("", "c2lnbmF0dXJl"),
                        thinking("Without a signature.", ""),
                        ContentBlock::RedactedThinking { data: "ZW5jcnlwdGVk".into() },
                        text("Hello."),
                    ],
                ),
                Message::user("And now?"),
            ]),
        ),
        (
            "a conversation with a summary",
            request(vec![
                Message::user("hi"),
                says(
                    Role::Assistant,
                    vec![
                        ContentBlock::Compaction { content: "They greeted each other.".into() },
                        text("Hello."),
                    ],
                ),
                Message::user("And now?"),
            ]),
        ),
        (
            "raw blocks from elsewhere",
            request(vec![
                Message::user("hi"),
                says(
                    Role::Assistant,
                    vec![
                        raw(json!({"type": "spell", "words": ["abracadabra"]}), None),
                        raw(json!({"type": "song", "lyrics": "la"}), Some(text("I sang a song."))),
                    ],
                ),
                Message::user("And now?"),
            ]),
        ),
    ]
}

fn everything() -> CompletionRequest {
    let tool_result = ContentBlock::ToolResult {
        tool_use_id: "call_1".into(),
        content: vec![ContentItem::Text("22 degrees".into())],
        is_error: false,
    };
    let tool_use = ContentBlock::ToolUse {
        id: "call_1".into(),
        name: "get_weather".into(),
        input: json!({"city": "Paris"}),
    };
    CompletionRequest {
        system: Some("Be brief.".into()),
        tools: vec![weather(), now()],
        tool_choice: Some(ToolChoice::Auto),
        max_tokens: Some(4096),
        top_p: Some(0.95),
        reasoning_effort: Some(ReasoningEffort::Medium),
        response_format: Some(ResponseFormat::JsonSchema {
            name: "answer".into(),
            schema: json!({
                "type": "object",
                "properties": {"text": {"type": "string"}},
                "required": ["text"],
                "additionalProperties": false,
            }),
            strict: true,
        }),
        ..request(vec![
            says(
                Role::User,
                vec![ContentBlock::Image { source: png() }, text("What is the weather there?")],
            ),
            says(Role::Assistant, vec![text("I see Paris."), tool_use]),
            says(Role::User, vec![tool_result]),
        ])
    }
}

/// The requests for embeddings.
pub(crate) fn embedding_requests() -> Vec<(&'static str, EmbeddingRequest)> {
    let embed = |texts: &[&str]| EmbeddingRequest {
        model: MODEL.into(),
        input: texts.iter().map(|text| (*text).to_owned()).collect(),
        ..Default::default()
    };
    vec![
        ("one text", embed(&["one"])),
        ("two texts", embed(&["one", "two \u{1F980}"])),
        ("few dimensions", EmbeddingRequest { dimensions: Some(3), ..embed(&["one", "two"]) }),
    ]
}

fn says(role: Role, content: Vec<ContentBlock>) -> Message {
    Message { role, content }
}

fn text(text: &str) -> ContentBlock {
    ContentBlock::Text(text.into())
}

/// What tools of others return.
fn sound_and_resources() -> Vec<ContentItem> {
    let blob = |mime_type: &str, data: &str| ContentItem::Resource {
        resource: EmbeddedResource::blob("file:///a", data).with_mime_type(mime_type),
    };
    vec![
        ContentItem::Audio { media_type: "audio/wav".into(), data: "UklGRg==".into() },
        ContentItem::Resource { resource: EmbeddedResource::text("file:///a", "noon") },
        blob("image/png", PIXEL),
        blob("image/svg+xml", "PHN2Zy8+"),
        blob("application/pdf", "JVBERi0xLjQK"),
        ContentItem::ResourceLink { resource: ResourceLink::new("file:///a", "a") },
    ]
}

/// One transparent pixel.
const PIXEL: &str = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";

fn png() -> ImageSource {
    ImageSource::Base64 { media_type: "image/png".into(), data: PIXEL.into() }
}
