//! Checks the bodies of requests. Every field must be in the body, and equal requests must have equal bytes.

use neuron_types::{
    CompletionRequest, ContentBlock, DocumentSource, ImageSource, Message, ResponseFormat, Role,
    SystemBlock, SystemPrompt, ToolChoice,
};
use serde_json::{Value, json};

use super::context::{TestContext, ask};
use super::json::{field_text, has_number, has_text, has_value};
use super::text::TEXTS;
use super::tools::{answer_calls, ask_with_tools};
use super::{Capabilities, ProviderHarness};
use crate::case::{Case, shown};
use neuron_testing::{RecordedRequest, Reply};

/// Base64 of a PNG image with one pixel.
const PNG: &str = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";
const MODEL: &str = "a-model-of-the-request";
const IMAGE_URL: &str = "https://pictures.example/a.png?size=1&x=%20";
/// Base64 of the first bytes of a PDF.
const PDF: &str = "JVBERi0xLjcKJcOkw7zDtsOfCg==";
const DOCUMENT: &str = "Line one.\nZeile zwei: ß.";

/// Checks that every field of a request is in the body, and that equal requests have bodies with equal bytes.
///
/// # Panics
///
/// Panics at the first violation.
pub async fn requests<H: ProviderHarness>(harness: &H) {
    let ctx = TestContext::start(harness, "requests").await;
    for (name, text) in TEXTS.into_iter().filter(|(_, text)| !text.trim().is_empty()) {
        let mut answered = ask();
        // The text must not be at the end, because some vendors reject trailing white space there.
        answered.messages.extend([Message::assistant(text), Message::user("go on")]);
        for (role, request) in [
            ("user", CompletionRequest { messages: vec![Message::user(text)], ..ask() }),
            ("system", CompletionRequest { system: Some(text.into()), ..ask() }),
            ("model", answered),
        ] {
            let case = ctx.case(format_args!("{name} of the {role}"));
            ctx.is_sent(&case, request, &[json!(text)]).await;
        }
    }
    for (can, name, request, expected) in fields(&ctx.can) {
        if can {
            ctx.is_sent(&ctx.case(name), request, &expected).await;
        }
    }
    let request = ask_with_tools();
    let expected: Vec<_> = request
        .tools
        .iter()
        .flat_map(|tool| {
            let schema = tool.input_schema.get("properties").cloned().unwrap_or_default();
            [json!(tool.name), json!(tool.description), schema]
        })
        .collect();
    ctx.is_sent(&ctx.case("the tools"), request, &expected).await;
    if ctx.can.tool_choice {
        tool_choices(&ctx).await;
    }
    equal_requests(&ctx).await;
}

/// Returns requests that each set one optional field.
///
/// An item has a flag, the name of the field, the request, and the values that its body must contain. The flag is
/// `true` if the vendor has the field.
fn fields(can: &Capabilities) -> [(bool, &'static str, CompletionRequest, Vec<Value>); 11] {
    let block = |text: &str| SystemBlock { text: text.into(), cache_control: None };
    let system = Some(SystemPrompt::Blocks(vec![block("be kind"), block("be brief")]));
    let stop_sequences = vec!["HALT".into(), "</end>".into()];
    let properties = json!({"colour": {"type": "string"}});
    let response_format = Some(ResponseFormat::JsonSchema {
        name: "answer".into(),
        schema: json!({
            "type": "object",
            "properties": properties,
            "required": ["colour"],
            "additionalProperties": false,
        }),
        strict: true,
    });
    let about = |block: ContentBlock| {
        let content = vec![ContentBlock::Text("what is this?".into()), block];
        CompletionRequest { messages: vec![Message { role: Role::User, content }], ..ask() }
    };
    let image = |source| about(ContentBlock::Image { source });
    let document = |source| about(ContentBlock::Document { source });
    let png = ImageSource::Base64 { media_type: "image/png".into(), data: PNG.into() };
    // The default model of a provider may reject `temperature`, so these requests name a model.
    let named = || CompletionRequest { model: MODEL.into(), ..ask() };
    let texts = |texts: &[&str]| texts.iter().map(|text| json!(text)).collect();
    [
        (
            true,
            "a system prompt of two blocks",
            CompletionRequest { system, ..ask() },
            texts(&["be kind", "be brief"]),
        ),
        (true, "the model", named(), texts(&[MODEL])),
        (
            true,
            "the limit of tokens",
            CompletionRequest { max_tokens: Some(77), ..named() },
            vec![json!(77)],
        ),
        (
            can.sampling,
            "the temperature",
            CompletionRequest { temperature: Some(0.7), ..named() },
            vec![json!(0.7)],
        ),
        (
            can.sampling,
            "top_p",
            CompletionRequest { top_p: Some(0.9), ..named() },
            vec![json!(0.9)],
        ),
        (
            can.stop_sequences,
            "stop sequences",
            CompletionRequest { stop_sequences, ..named() },
            texts(&["HALT", "</end>"]),
        ),
        (
            can.structured_output,
            "a schema for the answer",
            CompletionRequest { response_format, ..ask() },
            vec![properties],
        ),
        (can.images, "an image", image(png), texts(&[PNG, "what is this?"])),
        (
            can.image_urls,
            "the address of an image",
            image(ImageSource::Url { url: IMAGE_URL.into() }),
            texts(&[IMAGE_URL, "what is this?"]),
        ),
        (
            can.documents,
            "a PDF",
            document(DocumentSource::Base64Pdf { data: PDF.into() }),
            texts(&[PDF, "what is this?"]),
        ),
        (
            can.text_documents,
            "a document of plain text",
            document(DocumentSource::PlainText { data: DOCUMENT.into() }),
            texts(&[DOCUMENT, "what is this?"]),
        ),
    ]
}

/// Checks that each tool choice has a different body.
async fn tool_choices<H: ProviderHarness>(ctx: &TestContext<'_, H>) {
    let mut bodies: Vec<(ToolChoice, Value)> = Vec::new();
    for choice in [
        ToolChoice::Auto,
        ToolChoice::None,
        ToolChoice::Required,
        ToolChoice::Specific { name: "look".into() },
        ToolChoice::Specific { name: "find".into() },
    ] {
        let case = ctx.case(format_args!("the choice {choice:?}"));
        let request = CompletionRequest { tool_choice: Some(choice.clone()), ..ask_with_tools() };
        let [body, _] = ctx.sent(&case, request.view()).await;
        if let Some((other, _)) = bodies.iter().find(|(_, other)| *other == body) {
            case.fail(format_args!("has the same body as the choice {other:?}"));
        }
        bodies.push((choice, body));
    }
}

/// Checks that two equal requests have the same bytes.
async fn equal_requests<H: ProviderHarness>(ctx: &TestContext<'_, H>) {
    let case = ctx.case("equal requests");
    let mut bodies = Vec::new();
    for _ in 0..2 {
        // Each round creates the request anew. Otherwise both rounds would have the same addresses and hash seeds.
        let request = CompletionRequest { system: Some("be kind".into()), ..ask_with_tools() };
        ctx.both(&case, request.view(), Reply::text("well")).await;
        let text = |sent: RecordedRequest| String::from_utf8_lossy(&sent.body).into_owned();
        bodies.push(ctx.last_requests(&case).map(text));
    }
    if let [first, second] = &bodies[..] {
        case.equal("the bytes of the second", second, first);
    }
}

impl<H: ProviderHarness> TestContext<'_, H> {
    /// Sends a request for a whole response and for a stream. Checks that both bodies contain the `expected` values. A
    /// text may also be in the URL, in which some vendors expect the name of the model.
    async fn is_sent(&self, case: &Case, request: CompletionRequest, expected: &[Value]) {
        let bodies = self.sent(case, request.view()).await;
        for (body, sent) in bodies.iter().zip(self.last_requests(case)) {
            for part in expected {
                let is_there = match part {
                    Value::String(text) => has_text(body, text) || sent.path.contains(text),
                    Value::Number(number) => has_number(body, number.as_f64().unwrap_or(f64::NAN)),
                    value => has_value(body, value),
                };
                case.holds(is_there, format_args!("{part} is not in the body {body}"));
            }
        }
    }
}

/// Checks that the conversation in each request begins with the bytes of the conversation in the previous request.
///
/// The tools must have the same bytes in every request. A request for a stream and a request for a whole response must
/// have the same bytes for the conversation and the tools. Prompt caches of vendors need such equal prefixes.
///
/// # Panics
///
/// Panics at the first violation.
pub async fn prefixes<H: ProviderHarness>(harness: &H) {
    let ctx = TestContext::start(harness, "prefixes").await;
    let signature = if ctx.can.signatures { "c2lnbmVk" } else { "" };
    let think = |reply: Reply| match ctx.can.thinking {
        true => reply.thinking("Hm, 日本.", signature),
        false => reply,
    };
    let replies = [
        think(Reply::tool_call("callNum01", "look", json!({"z": 1, "a": [0.1, "é"]}))),
        think(Reply::tool_call("callNum02", "find", json!({})).with_text("And now?")),
        think(Reply::text("Here you are: \"22 °C\".")),
        Reply::text("You are welcome."),
    ];
    let mut request = CompletionRequest { system: Some("be kind".into()), ..ask_with_tools() };
    let mut before: Option<Sent> = None;
    for (turn, reply) in replies.into_iter().enumerate() {
        let case = ctx.case(format_args!("turn {}", turn + 1));
        let response = ctx.both(&case, request.view(), reply).await;
        let [sent, streamed] = ctx
            .last_requests(&case)
            .map(|sent| Sent::of(&case, &sent.body, ctx.can.conversation_field));
        case.equal("what a streamed request sends", &streamed, &sent);
        if let Some(before) = &before {
            case.equal("the tools", &sent.tools, &before.tools);
            let (now, begins) = (&sent.conversation, &before.conversation);
            // The closing bracket of the earlier list is not a prefix of the longer list.
            let is_prefix = now.starts_with(begins.strip_suffix(']').unwrap_or(begins).trim_end());
            let (now, begins) = (shown(now), shown(begins));
            let what = format_args!("the conversation {now}\n  does not begin with {begins}");
            case.holds(is_prefix, what);
        }
        before = Some(sent);
        let calls_tools = response.message.tool_uses().next().is_some();
        request.messages.push(response.message);
        match calls_tools {
            true => answer_calls(&mut request, turn > 0),
            false => request.messages.push(Message::user("thanks")),
        }
    }
}

/// The conversation and the tools of a request body, as the original JSON texts.
#[derive(Debug, PartialEq)]
struct Sent {
    conversation: String,
    tools: Option<String>,
}

impl Sent {
    fn of(case: &Case, body: &[u8], field: &str) -> Self {
        let what = format!("the body has no field `{field}`");
        let conversation = case.some(&what, field_text(body, field)).to_owned();
        let is_list = conversation.starts_with('[') && conversation.ends_with(']');
        case.holds(is_list, format_args!("`{field}` is no list"));
        Self { conversation, tools: field_text(body, "tools").map(str::to_owned) }
    }
}
