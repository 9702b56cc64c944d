//! The fields of a request in its body, wherever the vendor expects them.

use neuron_types::{
    CompletionRequest, ContentBlock, DocumentSource, ImageSource, Message, ResponseFormat, Role,
    SystemBlock, SystemPrompt, ToolChoice,
};
use serde_json::{Value, json};

use super::ProviderHarness;
use super::context::{TestContext, ask};
use super::json::{has_number, has_text, has_value};
use super::text::TEXTS;
use super::tools::ask_with_tools;
use crate::case::Case;

/// Base64 of a picture of one dot.
const PNG: &str = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";
const IMAGE_URL: &str = "https://pictures.example/a.png?size=1&x=%20";
/// Base64 of the beginning of a PDF.
const PDF: &str = "JVBERi0xLjcKJcOkw7zDtsOfCg==";

/// Checks that every part of a request is in the body, and that equal requests have equal bytes.
///
/// # Panics
///
/// At the first violation.
pub async fn requests<H: ProviderHarness>(harness: &H) {
    let ctx = TestContext::start(harness, "requests").await;
    texts(&ctx).await;
    settings(&ctx).await;
    media(&ctx).await;
    tools(&ctx).await;
    if ctx.can.structured_output {
        structured_output(&ctx).await;
    }
    equal_requests(&ctx).await;
}

async fn check<H: ProviderHarness>(
    ctx: &TestContext<H>,
    case: &Case,
    request: &CompletionRequest,
    is_there: impl Fn(&Value) -> bool,
) {
    for body in ctx.sent(case, request).await {
        case.holds(is_there(&body), format_args!("it is not in the body {body}"));
    }
}

async fn texts<H: ProviderHarness>(ctx: &TestContext<H>) {
    for (name, text) in TEXTS.into_iter().filter(|(_, text)| !text.trim().is_empty()) {
        let mut request = ask();
        request.messages = vec![Message::user(text)];
        let case = ctx.case(format_args!("{name} of the user"));
        check(ctx, &case, &request, |body| has_text(body, text)).await;

        let mut request = ask();
        request.system = Some(text.into());
        let case = ctx.case(format_args!("{name} of the system"));
        check(ctx, &case, &request, |body| has_text(body, text)).await;

        let mut request = ask();
        // Not at the end, where some vendors want no white space.
        request.messages.extend([Message::assistant(text), Message::user("go on")]);
        let case = ctx.case(format_args!("{name} of the model"));
        check(ctx, &case, &request, |body| has_text(body, text)).await;
    }
    let block = |text: &str| SystemBlock { text: text.into(), cache_control: None };
    let mut request = ask();
    request.system = Some(SystemPrompt::Blocks(vec![block("be kind"), block("be brief")]));
    let is_there = |body: &Value| has_text(body, "be kind") && has_text(body, "be brief");
    check(ctx, &ctx.case("a system prompt of two blocks"), &request, is_there).await;
}

async fn settings<H: ProviderHarness>(ctx: &TestContext<H>) {
    let mut request = ask();
    request.model = "a-model-of-the-request".into();
    let is_there = |body: &Value| has_text(body, "a-model-of-the-request");
    check(ctx, &ctx.case("the model"), &request, is_there).await;

    request.max_tokens = Some(77);
    let is_there = |body: &Value| has_number(body, 77.0);
    check(ctx, &ctx.case("the limit of tokens"), &request, is_there).await;

    if ctx.can.sampling {
        request.temperature = Some(0.7);
        let is_there = |body: &Value| has_number(body, 0.7);
        check(ctx, &ctx.case("the temperature"), &request, is_there).await;

        request.temperature = None;
        request.top_p = Some(0.9);
        let is_there = |body: &Value| has_number(body, 0.9);
        check(ctx, &ctx.case("top_p"), &request, is_there).await;
    }
    if ctx.can.stop_sequences {
        request.stop_sequences = vec!["HALT".into(), "</end>".into()];
        let is_there = |body: &Value| has_text(body, "HALT") && has_text(body, "</end>");
        check(ctx, &ctx.case("stop sequences"), &request, is_there).await;
    }
}

async fn media<H: ProviderHarness>(ctx: &TestContext<H>) {
    let can = &ctx.can;
    let image = |source| ContentBlock::Image { source };
    let document = |source| ContentBlock::Document { source };
    let cases = [
        (
            can.images,
            "an image",
            image(ImageSource::Base64 { media_type: "image/png".into(), data: PNG.into() }),
            PNG,
        ),
        (
            can.image_urls,
            "the address of an image",
            image(ImageSource::Url { url: IMAGE_URL.into() }),
            IMAGE_URL,
        ),
        (can.documents, "a PDF", document(DocumentSource::Base64Pdf { data: PDF.into() }), PDF),
        (
            can.text_documents,
            "a document of plain text",
            document(DocumentSource::PlainText { data: "Line one.\nZeile zwei: ß.".into() }),
            "Line one.\nZeile zwei: ß.",
        ),
    ];
    for (_, name, block, data) in cases.into_iter().filter(|(can, ..)| *can) {
        let mut request = ask();
        let content = vec![ContentBlock::Text("what is this?".into()), block];
        request.messages = vec![Message { role: Role::User, content }];
        let is_there = |body: &Value| has_text(body, data) && has_text(body, "what is this?");
        check(ctx, &ctx.case(name), &request, is_there).await;
    }
}

async fn tools<H: ProviderHarness>(ctx: &TestContext<H>) {
    let case = ctx.case("the tools");
    let mut request = ask_with_tools();
    let tools = request.tools.clone();
    check(ctx, &case, &request, |body| {
        tools.iter().all(|tool| {
            has_text(body, &tool.name)
                && has_text(body, &tool.description)
                && tool.input_schema.get("properties").is_some_and(|schema| has_value(body, schema))
        })
    })
    .await;
    if !ctx.can.tool_choice {
        return;
    }
    let choices = [
        ToolChoice::Auto,
        ToolChoice::None,
        ToolChoice::Required,
        ToolChoice::Specific { name: "look".into() },
        ToolChoice::Specific { name: "find".into() },
    ];
    let mut bodies: Vec<(ToolChoice, Value)> = Vec::new();
    for choice in choices {
        let case = ctx.case(format_args!("the choice {choice:?}"));
        request.tool_choice = Some(choice.clone());
        let [body, _] = ctx.sent(&case, &request).await;
        if let Some((other, _)) = bodies.iter().find(|(_, other)| *other == body) {
            case.fail(format_args!("has the same body as the choice {other:?}"));
        }
        bodies.push((choice, body));
    }
}

async fn structured_output<H: ProviderHarness>(ctx: &TestContext<H>) {
    let properties = json!({"colour": {"type": "string"}});
    let mut request = ask();
    request.response_format = Some(ResponseFormat::JsonSchema {
        name: "answer".into(),
        schema: json!({
            "type": "object",
            "properties": properties,
            "required": ["colour"],
            "additionalProperties": false,
        }),
        strict: true,
    });
    let case = ctx.case("a schema for the answer");
    check(ctx, &case, &request, |body| has_value(body, &properties)).await;
}

async fn equal_requests<H: ProviderHarness>(ctx: &TestContext<H>) {
    let case = ctx.case("equal requests");
    let mut bodies = Vec::new();
    for _ in 0..2 {
        // Made anew: an address or a hash must not count.
        let request = CompletionRequest { system: Some("be kind".into()), ..ask_with_tools() };
        case.ok(ctx.whole(&case, &request, "well").await);
        let whole = ctx.last_request(&case).body;
        case.ok(ctx.streamed(&case, &request, "well").await);
        let streamed = ctx.last_request(&case).body;
        bodies.push([whole, streamed].map(|body| String::from_utf8_lossy(&body).into_owned()));
    }
    if let [first, second] = &bodies[..] {
        case.equal("the bytes of the second", second, first);
    }
}
