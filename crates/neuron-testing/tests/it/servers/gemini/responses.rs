//! Tests of whole and streamed responses, of embeddings, and of broken streams.

use neuron_testing::gemini::{Route, json_body, sse_bytes};
use neuron_testing::{Reply, ServerReply, Wire};
use neuron_types::{
    ContentBlock, EmbeddingResponse, EmbeddingUsage, ProviderError, StopReason, TokenUsage,
    ToolCall,
};
use serde_json::{Value, json};

use super::{
    EMBED, EMBED_AT_VERTEX, EMBED_ONE, GENERATE, PREDICT, STREAM, call, chunks, parts, post,
    response, start,
};

fn route(endpoint: &str) -> Route {
    let path = endpoint.strip_prefix("POST ").unwrap().split('?').next().unwrap();
    Route::parse(path).unwrap()
}

/// Returns parts without their signatures.
fn unsigned(parts: &Value) -> Value {
    let mut parts = parts.clone();
    for part in parts.as_array_mut().unwrap() {
        part.as_object_mut().unwrap().remove("thoughtSignature");
    }
    parts
}

fn everything() -> Vec<ContentBlock> {
    vec![
        ContentBlock::Thinking { thinking: "hmm".into(), signature: "lost".into() },
        ContentBlock::Text("añ🦀".into()),
        call("call_1", "f", json!({"a": 1})),
        call("", "g", json!({})),
        ContentBlock::Compaction { content: "lost".into() },
    ]
}

#[tokio::test]
async fn whole_response_has_all_parts_and_the_usage() {
    let server = start([response(everything())]).await;
    let answer = post(&server, GENERATE).await;
    assert_eq!(answer.header("content-type"), Some("application/json"));
    let body = answer.json();
    assert_eq!(
        unsigned(parts(&body)),
        json!([
            {"text": "hmm", "thought": true},
            {"text": "añ🦀"},
            {"functionCall": {"id": "call_1", "name": "f", "args": {"a": 1}}},
            {"functionCall": {"name": "g", "args": {}}},
        ])
    );
    assert_eq!(body["candidates"][0]["finishReason"], "STOP");
    assert_eq!((&body["modelVersion"], &body["responseId"]), (&json!("m"), &json!("id_9")));
    assert_eq!(
        body["usageMetadata"],
        json!({
            "promptTokenCount": 50,
            "cachedContentTokenCount": 40,
            "candidatesTokenCount": 6,
            "thoughtsTokenCount": 3,
            "totalTokenCount": 59,
            "promptTokensDetails": [{"modality": "TEXT", "tokenCount": 50}],
        })
    );
    assert_eq!(body, json_body(&response(everything()), &route(GENERATE)));
}

#[tokio::test]
async fn stream_splits_texts_and_ends_with_the_finish_reason() {
    let server = start([Reply::from(response(everything())).chunk_chars(2)]).await;
    let answer = post(&server, STREAM).await;
    assert_eq!(answer.header("content-type"), Some("text/event-stream"));
    let chunks = chunks(&answer);
    let contents: Vec<Value> = chunks.iter().map(|chunk| unsigned(parts(chunk))).collect();
    assert_eq!(
        contents,
        [
            json!([{"text": "hm", "thought": true}]),
            json!([{"text": "m", "thought": true}]),
            json!([{"text": "añ"}]),
            json!([{"text": "🦀"}]),
            json!([{"functionCall": {"id": "call_1", "name": "f", "args": {"a": 1}}}]),
            json!([{"functionCall": {"name": "g", "args": {}}}]),
            json!([{"text": ""}]),
        ]
    );
    assert_eq!(answer.chunks.len(), 7, "one chunk for each event");
    let (last, rest) = chunks.split_last().unwrap();
    assert!(rest.iter().all(|chunk| chunk["candidates"][0].get("finishReason").is_none()));
    assert_eq!(last["candidates"][0]["finishReason"], "STOP");
    let whole = json_body(&response(everything()), &route(GENERATE));
    assert_eq!(last["usageMetadata"], whole["usageMetadata"]);
    assert_eq!(rest[0]["usageMetadata"].get("candidatesTokenCount"), None);
    assert_eq!(rest[5]["usageMetadata"]["candidatesTokenCount"], 5);
    let bytes = sse_bytes(&response(everything()), 2, &Wire::default(), &route(STREAM));
    assert_eq!(answer.bytes(), bytes);
}

#[tokio::test]
async fn stream_without_sse_is_an_array() {
    let server = start([Reply::text("hello").chunk_chars(3)]).await;
    let answer = post(&server, STREAM.strip_suffix("?alt=sse").unwrap()).await;
    assert_eq!(answer.header("content-type"), Some("application/json"));
    let texts: Vec<Value> = answer
        .json()
        .as_array()
        .unwrap()
        .iter()
        .map(|chunk| parts(chunk)[0]["text"].clone())
        .collect();
    assert_eq!(texts, ["hel", "lo", ""]);
}

#[tokio::test]
async fn stop_reasons_become_finish_reasons_or_a_block() {
    let reasons = [
        (StopReason::ToolUse, "STOP"),
        (StopReason::StopSequence, "STOP"),
        (StopReason::MaxTokens, "MAX_TOKENS"),
        (StopReason::ContentFilter, "SAFETY"),
        (StopReason::Refusal, "ESCALATION"),
        (StopReason::Other("MALFORMED_FUNCTION_CALL".into()), "MALFORMED_FUNCTION_CALL"),
        (StopReason::Other("CONTINUATION".into()), "CONTINUATION"),
    ];
    let replies = reasons.iter().map(|(reason, _)| Reply::text("a").stop_reason(reason.clone()));
    let server = start(replies).await;
    for (reason, expected) in &reasons {
        let body = post(&server, GENERATE).await.json();
        let candidate = &body["candidates"][0];
        assert_eq!(candidate["finishReason"], *expected, "{reason:?}");
        assert_eq!(candidate.get("safetyRatings").is_some(), *expected == "SAFETY");
        assert_eq!(candidate.get("continuationToken").is_some(), *expected == "CONTINUATION");
    }

    let blocked = || Reply::message(Vec::new()).stop_reason(StopReason::Refusal);
    let server = start([blocked(), blocked()]).await;
    let body = post(&server, GENERATE).await.json();
    assert_eq!(body["promptFeedback"], json!({"blockReason": "PROHIBITED_CONTENT"}));
    assert_eq!(body.get("candidates"), None);
    let streamed = post(&server, STREAM).await;
    assert_eq!(chunks(&streamed)[0]["promptFeedback"], body["promptFeedback"]);
}

#[tokio::test]
async fn empty_response_has_no_parts() {
    let empty = || Reply::message(Vec::new()).usage(TokenUsage::default());
    let server = start([empty(), empty()]).await;
    let expected = json!([{"content": {"role": "model"}, "index": 0, "finishReason": "STOP"}]);
    let body = post(&server, GENERATE).await.json();
    assert_eq!(body["candidates"], expected);
    assert_eq!(body["usageMetadata"], json!({"totalTokenCount": 0}));
    assert_eq!(chunks(&post(&server, STREAM).await)[0]["candidates"], expected);
}

#[tokio::test]
async fn invalid_arguments_are_sent_as_text() {
    let broken = ToolCall::invalid_json_input("{\"a\": ");
    let server = start([Reply::tool_call("c1", "f", broken)]).await;
    let body = post(&server, GENERATE).await.json();
    assert_eq!(parts(&body)[0]["functionCall"]["args"], "{\"a\": ");
}

#[tokio::test]
async fn raw_parts_are_sent_unchanged() {
    let raw = |provider: &str, json: Value, portable: Option<&str>| ContentBlock::Raw {
        provider: provider.into(),
        json,
        portable: portable.map(|text| Box::new(ContentBlock::Text(text.into()))),
    };
    let signed = json!({"text": "own", "thoughtSignature": "c2ln"});
    let code = json!({"executableCode": {"language": "PYTHON", "code": "1"}});
    let content = vec![
        raw("gcp.gemini", code.clone(), None),
        raw("gcp.vertex_ai", json!({"type": "x"}), Some("portable")),
        raw("openai", json!({"type": "x"}), None),
        raw("gcp.gemini", signed.clone(), Some("own")),
    ];
    let server =
        start([Reply::message(content.clone()), Reply::message(content).chunk_chars(1)]).await;
    let body = post(&server, GENERATE).await.json();
    assert_eq!(*parts(&body), json!([code, {"text": "portable"}, signed]));
    let streamed = chunks(&post(&server, STREAM).await);
    assert_eq!(*parts(&streamed[0]), json!([code]));
    assert_eq!(*parts(streamed.last().unwrap()), json!([signed]));
}

#[tokio::test]
async fn batch_embed_returns_scripted_embeddings() {
    let embeddings = || EmbeddingResponse {
        embeddings: vec![vec![0.5, -1.0]],
        model: String::new(),
        usage: EmbeddingUsage { prompt_tokens: 3, total_tokens: 3 },
    };
    let server =
        start([ServerReply::from(embeddings()), "hello".into(), embeddings().into()]).await;
    let body = post(&server, EMBED).await.json();
    assert_eq!(body["embeddings"], json!([{"values": [0.5, -1.0]}]));
    assert_eq!(body["usageMetadata"]["promptTokenCount"], 3);

    for (endpoint, wrong) in [
        (EMBED, "the script's reply holds a message, and this request asks for embeddings"),
        (STREAM, "the script's reply holds embeddings, and this request asks for a message"),
    ] {
        let answer = post(&server, endpoint).await;
        assert_eq!((answer.status, &answer.json()["error"]["message"]), (400, &json!(wrong)));
    }
}

#[tokio::test]
async fn each_method_of_vertex_returns_embeddings_in_its_format() {
    let two = EmbeddingResponse {
        embeddings: vec![vec![0.5], vec![-1.0]],
        model: String::new(),
        usage: EmbeddingUsage { prompt_tokens: 3, total_tokens: 3 },
    };
    let one = EmbeddingResponse { embeddings: vec![vec![0.5]], ..two.clone() };
    let replies = [two.clone(), one, two.clone(), two].map(ServerReply::from);
    let server = start(replies.into_iter().chain(["hello".into(), "hello".into()])).await;
    let usage = json!({"promptTokenCount": 3, "totalTokenCount": 3});
    for (endpoint, expected) in [
        (
            EMBED_AT_VERTEX,
            json!({"embeddings": [{"values": [0.5]}, {"values": [-1.0]}], "usageMetadata": usage}),
        ),
        (
            EMBED_ONE,
            json!({"embedding": {"values": [0.5]}, "usageMetadata": usage, "truncated": false}),
        ),
        (
            PREDICT,
            json!({"predictions": [
                {"embeddings": {
                    "values": [0.5], "statistics": {"token_count": 3, "truncated": false},
                }},
                {"embeddings": {
                    "values": [-1.0], "statistics": {"token_count": 0, "truncated": false},
                }},
            ]}),
        ),
    ] {
        let answer = post(&server, endpoint).await;
        assert_eq!((answer.status, answer.json()), (200, expected), "{endpoint}");
    }
    for (endpoint, wrong) in [
        (EMBED_ONE, "the script's reply holds 2 embeddings, and this request asks for one"),
        (EMBED_ONE, "the script's reply holds a message, and this request asks for embeddings"),
        (PREDICT, "the script's reply holds a message, and this request asks for embeddings"),
    ] {
        let answer = post(&server, endpoint).await;
        assert_eq!((answer.status, &answer.json()["error"]["message"]), (400, &json!(wrong)));
    }
}

#[tokio::test]
async fn errors_have_a_status_only_before_the_first_chunk() {
    let busy = || ProviderError::ServiceUnavailable("The model is overloaded.".into());
    let reply = Reply::text("hello").chunk_chars(2);
    // The stream has four chunks: "he", "ll", "o", and the end.
    let server = start([
        ServerReply::from(busy()),
        reply.clone().fail_after(2, busy()).into(),
        reply.clone().end_early_after(3).into(),
        reply.clone().fail_after(1, ProviderError::Network("reset".into())).into(),
        reply.clone().fail_after(3, busy()).into(),
        reply.over(Wire::default().cut_at(30)),
    ])
    .await;
    let error = json!({"error": {
        "code": 503, "message": "The model is overloaded.", "status": "UNAVAILABLE",
    }});
    let answer = post(&server, STREAM).await;
    assert_eq!((answer.status, answer.json()), (503, error.clone()));

    let failed = post(&server, STREAM).await;
    let events = chunks(&failed);
    assert_eq!((failed.status, events.len(), &events[2]), (200, 3, &error));
    let ended = post(&server, STREAM).await;
    assert_eq!((chunks(&ended).len(), ended.complete), (3, true));
    let aborted = post(&server, STREAM).await;
    assert_eq!((chunks(&aborted).len(), aborted.complete), (1, false));
    assert_eq!(post(&server, GENERATE).await.status, 503);
    let cut = post(&server, STREAM).await;
    assert_eq!((cut.bytes().len(), cut.complete), (30, false));
    server.assert_complete();
}
