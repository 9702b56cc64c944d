//! Checks texts of every kind and length, in requests and responses.

use neuron_types::{BoxedProvider, CompletionRequest, Message, Provider};

use super::ProviderHarness;
use super::context::{TestContext, Way, ask, steady};
use super::events::check_events;
use super::json::has_text;
use neuron_testing::Reply;

/// Texts that incorrect encoders and decoders change, each with a name for the case.
pub(super) const TEXTS: [(&str, &str); 8] = [
    ("a short text", "Hello."),
    ("an empty text", ""),
    ("white space", " \n\t "),
    ("line ends", "a\r\nb\rc\nd\n\ne\n"),
    ("characters of every length", "añ 日本 🦀 👩‍👩‍👧 e\u{301}"),
    ("control characters", "\u{0}\u{1b}\u{7f}\u{85}\u{2028}\u{2029}\u{feff}"),
    ("quotes and backslashes", r#"\ " \" \n \u0041 {"text":"x"}"#),
    ("a text like the wire's", "data: [DONE]\n\nevent: error\ndata: {\"error\":{}}\n\n: x\n"),
];

/// Checks that texts arrive unchanged in whole responses and in streams. Also checks that calls with an owned request
/// and with a borrowed request have the same effect.
///
/// # Panics
///
/// Panics at the first violation.
pub async fn text<H: ProviderHarness>(harness: &H) {
    let ctx = TestContext::start(harness, "text").await;
    for (name, text) in TEXTS {
        for chunk_chars in [1, 16, 1000] {
            let case = ctx.case(format_args!("{name}, {chunk_chars} characters a delta"));
            let reply = Reply::text(text).chunk_chars(chunk_chars);
            let response = ctx.both(&case, ask().view(), reply).await;
            case.equal("the text", response.message.text(), text);
            if ctx.can.response_models {
                case.equal("the model", response.model.as_str(), "model-of-the-answer");
            }
            if ctx.can.response_ids {
                case.equal("the id", response.id.as_str(), "answer_1");
            }
        }
    }

    let case = ctx.case("no content");
    let response = ctx.both(&case, ask().view(), Reply::message(Vec::new())).await;
    case.equal("the text", response.message.text(), "");
    case.equal("the number of tool calls", response.message.tool_uses().count(), 0);

    let case = ctx.case("megabytes each way");
    let text = "日本 🦀 text\n".repeat(150_000);
    let request = CompletionRequest { messages: vec![Message::user(text.clone())], ..ask() };
    let reply = Reply::text(text.clone()).chunk_chars(5000);
    let response = ctx.both(&case, request.view(), reply).await;
    case.equal("the text", response.message.text(), text.as_str());
    let body = case.some("the body is not JSON", ctx.last_request(&case).json);
    case.holds(has_text(&body, &text), "the text of the request is not in it");

    by_value(&ctx).await;

    let case = ctx.case("behind a pointer and in a task");
    let provider = BoxedProvider::new(ctx.provider);
    for way in Way::BOTH {
        ctx.server.push("hello");
        let provider = provider.clone();
        let call = tokio::spawn(async move { way.answer(&provider).await });
        let response = case.ok(case.ok(case.soon(call).await));
        case.equal("the text", response.message.text(), "hello");
    }
}

/// Checks that [`Provider::complete`] and [`Provider::complete_stream`] send the same body and return the same response
/// as their `_ref` variants.
async fn by_value<H: ProviderHarness>(ctx: &TestContext<'_, H>) {
    let case = ctx.case("a request by value");
    let reply = steady(Reply::text("Hello."));
    let whole = case.ok(ctx.whole(&case, ask().view(), reply.clone()).await);
    let by_reference = ctx.last_request(&case).body;

    ctx.server.push(reply.clone());
    let response = case.ok(case.soon(ctx.provider.complete(ask())).await);
    case.equal("the answer", ctx.meaning(&response), ctx.meaning(&whole));
    let shown = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let by_value = ctx.last_request(&case).body;
    case.equal("the body", shown(&by_value), shown(&by_reference));

    ctx.server.push(reply);
    let handle = case.ok(case.soon(ctx.provider.complete_stream(ask())).await);
    let events = case.soon(futures_util::StreamExt::collect(handle.receiver)).await;
    let response = check_events(&case, events);
    case.equal("the streamed answer", ctx.meaning(&response), ctx.meaning(&whole));
}
