//! Tests of whole and streamed responses, and of broken streams.

use std::time::Duration;

use neuron_testing::bedrock::{Route, json_body, reasoning_signature, stream_bytes};
use neuron_testing::{Reply, ServerReply, Wire};
use neuron_types::{
    ContentBlock, EmbeddingResponse, EmbeddingUsage, ProviderError, StopReason, TokenUsage,
    ToolCall,
};
use serde_json::{Value, json};

use super::{CONVERSE, HEADERS, STREAM, ask, blocks, events, post, response, start};
use crate::servers::http::exchange;

fn route(endpoint: &str) -> Route {
    Route::parse(endpoint.strip_prefix("POST ").unwrap()).unwrap()
}

fn call(id: &str, input: Value) -> ContentBlock {
    ContentBlock::ToolUse { id: id.into(), name: "f".into(), input }
}

fn everything() -> Vec<ContentBlock> {
    vec![
        ContentBlock::Thinking { thinking: "hmm".into(), signature: "c2ln".into() },
        ContentBlock::RedactedThinking { data: "encrypted".into() },
        ContentBlock::Text("añ🦀".into()),
        call("call_1", json!({"a": 1})),
        call("call_2", json!({})),
        ContentBlock::Compaction { content: "lost".into() },
    ]
}

#[tokio::test]
async fn whole_response_has_all_blocks_and_the_usage() {
    let server = start([response(everything())]).await;
    let answer = post(&server, CONVERSE).await;
    assert_eq!(answer.header("content-type"), Some("application/json"));
    assert_eq!(answer.header("x-amzn-requestid"), Some("req_1"));
    let body = answer.json();
    let call = |id: &str, input| json!({"toolUse": {"toolUseId": id, "name": "f", "input": input}});
    assert_eq!(
        body,
        json!({
            "output": {"message": {"role": "assistant", "content": [
                {"reasoningContent": {"reasoningText": {"text": "hmm", "signature": "c2ln"}}},
                {"reasoningContent": {"redactedContent": "ZW5jcnlwdGVk"}},
                {"text": "añ🦀"},
                call("call_1", json!({"a": 1})),
                call("call_2", json!({})),
            ]}},
            "stopReason": "end_turn",
            "usage": {
                "inputTokens": 10, "outputTokens": 9, "totalTokens": 59, "cacheReadInputTokens": 40,
            },
            "metrics": {"latencyMs": 250},
        })
    );
    assert_eq!(body, json_body(&response(everything()), &route(CONVERSE)));
}

#[tokio::test]
async fn stream_has_an_event_for_each_delta_and_ends_with_the_usage() {
    let server = start([Reply::from(response(everything())).chunk_chars(2)]).await;
    let answer = post(&server, STREAM).await;
    assert_eq!(answer.header("content-type"), Some("application/vnd.amazon.eventstream"));
    assert_eq!(answer.header("x-amzn-requestid"), Some("req_1"));
    let frames = events(&answer);
    assert!(frames.iter().all(|frame| frame.header(":message-type") == "event"));
    assert!(frames.iter().all(|frame| frame.header(":content-type") == "application/json"));
    let found: Vec<(&str, &Value)> =
        frames.iter().map(|frame| (frame.name(), &frame.payload)).collect();
    let at =
        |index: u32, key: &str, value: Value| json!({(key): value, "contentBlockIndex": index});
    let delta = |index, value| ("contentBlockDelta", at(index, "delta", value));
    let stop = |index: u32| ("contentBlockStop", json!({"contentBlockIndex": index}));
    let call = |index, id: &str| {
        let start = json!({"toolUse": {"toolUseId": id, "name": "f"}});
        ("contentBlockStart", at(index, "start", start))
    };
    let reasoning = |value: Value| json!({"reasoningContent": value});
    let input = |text: &str| json!({"toolUse": {"input": text}});
    let usage = json!({
        "inputTokens": 10, "outputTokens": 9, "totalTokens": 59, "cacheReadInputTokens": 40,
    });
    let expected = [
        ("messageStart", json!({"role": "assistant"})),
        delta(0, reasoning(json!({"text": "hm"}))),
        delta(0, reasoning(json!({"text": "m"}))),
        delta(0, reasoning(json!({"signature": "c2ln"}))),
        stop(0),
        delta(1, reasoning(json!({"redactedContent": "ZW5jcnlwdGVk"}))),
        stop(1),
        delta(2, json!({"text": "añ"})),
        delta(2, json!({"text": "🦀"})),
        stop(2),
        call(3, "call_1"),
        delta(3, input("{\"")),
        delta(3, input("a\"")),
        delta(3, input(":1")),
        delta(3, input("}")),
        stop(3),
        call(4, "call_2"),
        delta(4, input("")),
        stop(4),
        ("messageStop", json!({"stopReason": "end_turn"})),
        ("metadata", json!({"usage": usage, "metrics": {"latencyMs": 250}})),
    ];
    let expected: Vec<(&str, &Value)> =
        expected.iter().map(|(name, payload)| (*name, payload)).collect();
    assert_eq!(found, expected);
    assert_eq!(answer.chunks.len(), expected.len(), "one chunk for each event");
    let bytes = stream_bytes(&response(everything()), 2, &Wire::default(), &route(STREAM));
    assert_eq!(answer.bytes(), bytes);
}

#[tokio::test]
async fn frames_may_be_split_and_cut_at_any_byte() {
    let reply = || Reply::text("hello").chunk_chars(2);
    let whole = Wire::default;
    let server = start([
        reply().over(whole()),
        reply().over(whole().split_every(7)),
        reply().over(whole().split_at(13)),
        reply().over(whole().cut_at(100)),
        reply().over(whole().crlf().no_space()),
        reply().over(whole().comments().padded()),
    ])
    .await;
    let usual = post(&server, STREAM).await;
    let every = post(&server, STREAM).await;
    assert!(every.chunks.iter().rev().skip(1).all(|chunk| chunk.len() == 7));
    assert_eq!(every.bytes(), usual.bytes());
    let halves = post(&server, STREAM).await;
    assert_eq!((halves.chunks.len(), halves.chunks[0].len()), (2, 13));
    assert_eq!(halves.bytes(), usual.bytes());
    let cut = post(&server, STREAM).await;
    assert_eq!((cut.bytes().len(), cut.complete), (100, false));
    assert_eq!(post(&server, STREAM).await.bytes(), usual.bytes());

    let odd = events(&post(&server, STREAM).await);
    let (unknown, known): (Vec<_>, Vec<_>) =
        odd.into_iter().partition(|frame| frame.name() == "keepAlive");
    let mut usual = events(&usual);
    assert_eq!(unknown.len(), usual.len(), "one unknown event before each event");
    usual.iter_mut().for_each(|frame| frame.payload["p"] = json!("abcdefghijklmn"));
    assert_eq!(known, usual);
}

#[tokio::test]
async fn stop_reasons_have_bedrocks_words() {
    let reasons = [
        (StopReason::EndTurn, "end_turn"),
        (StopReason::ToolUse, "tool_use"),
        (StopReason::MaxTokens, "max_tokens"),
        (StopReason::StopSequence, "stop_sequence"),
        (StopReason::ContentFilter, "content_filtered"),
        (StopReason::Refusal, "content_filtered"),
        (StopReason::ContextWindowExceeded, "model_context_window_exceeded"),
        (StopReason::Other("guardrail_intervened".into()), "guardrail_intervened"),
    ];
    let replies = reasons.iter().map(|(reason, _)| Reply::text("a").stop_reason(reason.clone()));
    let server = start(replies).await;
    for (reason, expected) in &reasons {
        assert_eq!(post(&server, CONVERSE).await.json()["stopReason"], *expected, "{reason:?}");
    }
}

#[tokio::test]
async fn empty_response_has_no_blocks() {
    let empty = || Reply::message(Vec::new()).usage(TokenUsage::default());
    let server = start([empty(), empty()]).await;
    let body = post(&server, CONVERSE).await.json();
    assert_eq!(*blocks(&body), json!([]));
    let usage = json!({"inputTokens": 0, "outputTokens": 0, "totalTokens": 0});
    assert_eq!(body["usage"], usage);
    let frames = events(&post(&server, STREAM).await);
    let names: Vec<&str> = frames.iter().map(|frame| frame.name()).collect();
    assert_eq!(names, ["messageStart", "messageStop", "metadata"]);
}

#[tokio::test]
async fn invalid_arguments_are_sent_as_text() {
    let broken = || Reply::tool_call("c1", "f", ToolCall::invalid_json_input("{\"a\": "));
    let server = start([broken(), broken().chunk_chars(100)]).await;
    let body = post(&server, CONVERSE).await.json();
    assert_eq!(blocks(&body)[0]["toolUse"]["input"], "{\"a\": ");
    let frames = events(&post(&server, STREAM).await);
    assert_eq!(frames[2].payload["delta"]["toolUse"]["input"], "{\"a\": ");
}

#[tokio::test]
async fn raw_blocks_are_sent_unchanged() {
    let raw = |provider: &str, json: Value, portable: Option<&str>| ContentBlock::Raw {
        provider: provider.into(),
        json,
        portable: portable.map(|text| Box::new(ContentBlock::Text(text.into()))),
    };
    let cited = json!({"citationsContent": {
        "content": [{"text": "It is so."}],
        "citations": [{"title": "t", "location": {"web": {"url": "https://example.com"}}}],
    }});
    let content = || {
        Reply::message(vec![
            raw("aws.bedrock", cited.clone(), Some("It is so.")),
            raw("anthropic", json!({"type": "x"}), Some("portable")),
            raw("openai", json!({"type": "x"}), None),
        ])
    };
    let server = start([content(), content().chunk_chars(100)]).await;
    let body = post(&server, CONVERSE).await.json();
    assert_eq!(*blocks(&body), json!([cited, {"text": "portable"}]));
    let frames = events(&post(&server, STREAM).await);
    assert_eq!(frames[1].payload["delta"], json!({"text": "It is so."}));
    let citation = &cited["citationsContent"]["citations"][0];
    assert_eq!(frames[2].payload["delta"]["citation"], *citation);
}

#[tokio::test]
async fn reasoning_of_claude_is_signed_and_comes_back_unchanged() {
    let thinking = || Reply::text("Hello.").thinking("hmm", "");
    let server = start([thinking(), thinking(), "well".into()]).await;
    let body = post(&server, CONVERSE).await.json();
    let reasoning = &blocks(&body)[0]["reasoningContent"]["reasoningText"];
    let signature = reasoning_signature("hmm", &route(CONVERSE));
    assert_eq!(*reasoning, json!({"text": "hmm", "signature": signature}));

    let other = post(&server, "POST /model/deepseek.r1-v1%3A0/converse").await.json();
    let unsigned = json!({"reasoningText": {"text": "hmm"}});
    assert_eq!(blocks(&other)[0]["reasoningContent"], unsigned);

    let next = async |content: &Value| {
        let mut question = ask();
        let messages = question["messages"].as_array_mut().unwrap();
        messages.push(json!({"role": "assistant", "content": content}));
        messages.push(json!({"role": "user", "content": [{"text": "And now?"}]}));
        exchange(&server.url(), CONVERSE, HEADERS, &question).await.status
    };
    let mut changed = blocks(&body).clone();
    changed[0]["reasoningContent"]["reasoningText"]["text"] = json!("hm");
    assert_eq!(next(&changed).await, 400);
    assert_eq!(next(blocks(&body)).await, 200);
}

#[tokio::test]
async fn errors_have_a_status_only_before_the_first_frame() {
    let busy = || ProviderError::ServiceUnavailable("The model is overloaded.".into());
    let reply = Reply::text("hello").chunk_chars(2);
    // The stream has seven frames: the start, three deltas, and the ends of the block, the message and the stream.
    let server = start([
        ServerReply::from(busy()),
        reply.clone().fail_after(2, busy()).into(),
        reply.clone().fail_after(3, ProviderError::Authentication("no".into())).into(),
        reply.clone().end_early_after(6).into(),
        reply.clone().fail_after(1, ProviderError::Network("reset".into())).into(),
        reply.clone().fail_after(6, busy()).into(),
        reply.clone().fail_after(0, busy()).into(),
    ])
    .await;
    let refused = post(&server, STREAM).await;
    let body = json!({"message": "The model is overloaded."});
    assert_eq!((refused.status, refused.json()), (503, body.clone()));
    assert_eq!(
        refused.header("x-amzn-errortype"),
        Some("ServiceUnavailableException:http://internal.amazon.com/coral/com.amazon.bedrock/")
    );
    assert_eq!(refused.header("x-amzn-requestid"), Some("req_1"));

    let failed = post(&server, STREAM).await;
    let frames = events(&failed);
    assert_eq!((failed.status, frames.len()), (200, 3));
    assert_eq!(frames[2].header(":message-type"), "exception");
    assert_eq!(frames[2].header(":exception-type"), "serviceUnavailableException");
    assert_eq!(frames[2].payload, body);

    let denied = &events(&post(&server, STREAM).await)[3];
    assert_eq!(denied.header(":message-type"), "error");
    assert_eq!(denied.header(":error-code"), "AccessDeniedException");
    assert_eq!((denied.header(":error-message"), &denied.payload), ("no", &Value::Null));

    let ended = post(&server, STREAM).await;
    assert_eq!((events(&ended).len(), ended.complete), (6, true));
    let aborted = post(&server, STREAM).await;
    assert_eq!((events(&aborted).len(), aborted.complete), (1, false));
    assert_eq!(post(&server, CONVERSE).await.status, 503);
    let first = post(&server, STREAM).await;
    assert_eq!((first.status, events(&first).len()), (200, 1));
    server.assert_complete();
}

#[tokio::test]
async fn delay_of_a_rate_limit_is_in_the_headers() {
    let limit = |seconds: Option<u64>| ProviderError::RateLimit {
        retry_after: seconds.map(Duration::from_secs),
    };
    let server = start([limit(Some(7)), limit(None)]).await;
    let delayed = post(&server, CONVERSE).await;
    assert_eq!((delayed.status, delayed.header("x-amz-retry-after")), (429, Some("7000")));
    assert_eq!(post(&server, CONVERSE).await.header("x-amz-retry-after"), None);
}

#[tokio::test]
async fn embeddings_are_not_a_message() {
    let server = start([EmbeddingResponse {
        embeddings: vec![vec![0.5]],
        model: String::new(),
        usage: EmbeddingUsage { prompt_tokens: 3, total_tokens: 3 },
    }])
    .await;
    let answer = post(&server, CONVERSE).await;
    let expected = "the script's reply holds embeddings, and this request asks for a message";
    assert_eq!((answer.status, &answer.json()["message"]), (400, &json!(expected)));
}
