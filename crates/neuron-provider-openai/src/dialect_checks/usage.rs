//! Tests that parse token counts. Servers use different fields, and the same field may have different meanings.

use neuron_model::TokenUsage;

use super::*;
use crate::dialect::Dialect;

fn tokens(
    input: usize,
    output: usize,
    cached: Option<usize>,
    thought: Option<usize>,
) -> TokenUsage {
    TokenUsage {
        input_tokens: input,
        output_tokens: output,
        cache_read_tokens: cached,
        reasoning_tokens: thought,
        ..TokenUsage::default()
    }
}

/// Checks how `usage` is parsed, in a response that is not streamed and in a stream.
#[track_caller]
fn check_usage(usage: Value, expected: &TokenUsage) {
    let mut body = whole(json!({"content": "a"}));
    body["usage"] = usage.clone();
    assert_eq!(&read_whole(&body).unwrap().usage, expected, "{usage}");
    check_chunks(&[json!({"choices": [], "usage": usage})], expected);
}

/// Checks the token counts in a whole and a streamed response of the server with this dialect.
#[track_caller]
fn check_usage_of(dialect: &Dialect, usage: Value, expected: &TokenUsage) {
    let vendor = Vendor(dialect.name);
    let mut body = whole(json!({"content": "a"}));
    body["usage"] = usage.clone();
    let body = body.to_string();
    let answer = response::read(body.as_bytes(), &Secret::default(), vendor).unwrap();
    let chunks = [chunk(json!({"content": "a"})), with(last_chunk("stop"), "usage", usage)];
    let bytes = [sse(&chunks), b"data: [DONE]\n\n".to_vec()].concat();
    let events = read_with(ChatDecoder::new(true, vendor), vec![Ok(bytes.into())]);
    assert_eq!((&answer.usage, &response_of(&events).usage), (expected, expected), "{vendor:?}");
}

/// Checks the usage of a stream that has `chunks` after the finish reason.
#[track_caller]
fn check_chunks(chunks: &[Value], expected: &TokenUsage) {
    let answer = [chunk(json!({"content": "a"})), last_chunk("stop")];
    let bytes = [sse(&answer), sse(chunks), b"data: [DONE]\n\n".to_vec()].concat();
    let events = read_bytes::<ChatDecoder>(&bytes);
    assert_eq!(&response_of(&events).usage, expected);
    check_every_byte::<ChatDecoder>(&bytes, end_of_reason(&bytes));
}

/// Reasoning tokens that `completion_tokens` excludes must be added to the output tokens. xAI counts reasoning only in
/// the total and in the details. Gemini's endpoint counts it only in the total. The responses were recorded.
#[test]
fn reasoning_outside_output_tokens_is_added() {
    let details = |tokens: Value| json!({"reasoning_tokens": tokens});
    // The counts of xAI.
    check_usage(
        json!({"prompt_tokens": 32, "completion_tokens": 9, "total_tokens": 145, "completion_tokens_details": details(json!(104))}),
        &tokens(32, 113, None, Some(104)),
    );
    // The counts of Gemini.
    let counts = json!({"prompt_tokens": 66, "completion_tokens": 6, "total_tokens": 100});
    let thoughts_alone = json!({"prompt_tokens": 66, "total_tokens": 100});
    for dialect in [Dialect::gemini(), Dialect::vertex("p", "eu")] {
        check_usage_of(&dialect, counts.clone(), &tokens(66, 34, None, Some(28)));
        check_usage_of(&dialect, thoughts_alone.clone(), &tokens(66, 34, None, Some(34)));
    }
}

/// The total of a server other than Gemini's may contain tokens that are no reasoning. Mistral counts the tokens of
/// speech only there. Regression test. They were counted as reasoning.
#[test]
fn tokens_of_speech_in_the_total_are_no_reasoning() {
    let counts = json!({"prompt_audio_seconds": 203, "prompt_tokens": 4, "completion_tokens": 635, "total_tokens": 3264});
    for dialect in [Dialect::mistral(), Dialect::openai(), Dialect::new("http://localhost/v1")] {
        check_usage_of(&dialect, counts.clone(), &tokens(4, 635, None, None));
    }
}

#[test]
fn reasoning_inside_output_tokens_is_counted_once() {
    let details = |tokens: Value| json!({"reasoning_tokens": tokens});
    // The counts of OpenAI.
    check_usage(
        json!({"prompt_tokens": 32, "completion_tokens": 113, "total_tokens": 145, "completion_tokens_details": details(json!(104))}),
        &tokens(32, 113, None, Some(104)),
    );
    // Perplexity sends its count at the top level of the usage.
    check_usage(
        json!({"prompt_tokens": 32, "completion_tokens": 113, "total_tokens": 145, "reasoning_tokens": 104}),
        &tokens(32, 113, None, Some(104)),
    );
    // The total matches no count, is missing, is too small, or comes without input tokens.
    for total in [json!(200), json!(null), json!(7)] {
        check_usage(
            json!({"prompt_tokens": 32, "completion_tokens": 113, "total_tokens": total, "completion_tokens_details": details(json!(104))}),
            &tokens(32, 113, None, Some(104)),
        );
    }
    check_usage(
        json!({"prompt_tokens": 5, "completion_tokens": 2, "total_tokens": 9, "completion_tokens_details": details(json!(0))}),
        &tokens(5, 2, None, Some(0)),
    );
    check_usage(json!({"completion_tokens": 2, "total_tokens": 9}), &tokens(0, 2, None, None));
}

#[test]
fn cached_tokens_are_found_in_every_field() {
    for cached in [
        // The fields of OpenAI and Mistral, of Mistral's other format, of Moonshot, and of DeepSeek with both fields.
        json!({"prompt_tokens_details": {"cached_tokens": 3}}),
        json!({"num_cached_tokens": 3}),
        json!({"prompt_tokens_details": {"cached_tokens": 0}, "num_cached_tokens": 3}),
        json!({"cached_tokens": 3}),
        json!({"prompt_cache_hit_tokens": 3, "prompt_cache_miss_tokens": 2}),
        json!({"prompt_cache_hit_tokens": 3, "prompt_tokens_details": {"cached_tokens": 3}}),
    ] {
        let mut usage = json!({"prompt_tokens": 5, "completion_tokens": 2, "total_tokens": 7});
        usage.as_object_mut().unwrap().extend(cached.as_object().unwrap().clone());
        check_usage(usage, &tokens(5, 2, Some(3), None));
    }
}

#[test]
fn usage_is_found_in_every_field() {
    let usage = json!({"prompt_tokens": 5, "completion_tokens": 2});
    let expected = tokens(5, 2, None, None);
    // Moonshot sends the usage in a choice. Groq sends it in `x_groq` if the request did not ask for it.
    let choice = json!({"index": 0, "delta": {}, "finish_reason": "stop", "usage": usage});
    check_chunks(&[json!({"choices": [choice]})], &expected);
    let groq = json!({"id": "req_1", "usage": usage});
    check_chunks(&[json!({"choices": [], "x_groq": groq})], &expected);
    check_chunks(&[json!({"choices": null, "x_groq": groq})], &expected);
    // A chunk with text may also contain a usage. A usage of zero does not replace an earlier usage.
    for place in ["choice", "x_groq"] {
        let mut said = chunk(json!({"content": "b"}));
        match place {
            "choice" => said["choices"][0]["usage"] = usage.clone(),
            _ => said["x_groq"] = json!({"usage": usage}),
        }
        let empty = json!({"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0});
        let answer = [
            chunk(json!({"content": "a"})),
            said,
            last_chunk("stop"),
            json!({"choices": [], "usage": {}}),
            json!({"choices": [], "usage": empty, "x_groq": {"usage": {}}}),
        ];
        let events = read_bytes::<ChatDecoder>(&sse(&answer));
        assert_eq!(response_of(&events).usage, expected, "{place}");
        assert_eq!(response_of(&events).message.content, [text("ab")]);
    }
}

/// Cumulative counts must not be added, because recorded streams of Perplexity contain all counts so far in every
/// chunk.
#[test]
fn last_of_cumulative_counts_is_kept() {
    let counted = |mut chunk: Value, output: usize| {
        chunk["usage"] =
            json!({"prompt_tokens": 5, "completion_tokens": output, "total_tokens": 5 + output});
        chunk
    };
    let chunks = [
        counted(chunk(json!({"role": "assistant", "content": "a"})), 1),
        counted(chunk(json!({"role": "assistant", "content": "b"})), 2),
        counted(last_chunk("stop"), 3),
    ];
    let events = read_bytes::<ChatDecoder>(&sse(&chunks));
    assert_eq!(response_of(&events).usage, tokens(5, 3, None, None));
}
