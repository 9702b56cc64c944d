//! Where servers count tokens, and what they count.

use neuron_types::TokenUsage;

use super::*;

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

/// Checks what a count means, whole and streamed.
#[track_caller]
fn check_usage(usage: Value, expected: &TokenUsage) {
    let mut body = whole(json!({"content": "a"}));
    body["usage"] = usage.clone();
    assert_eq!(&read_whole(&body).unwrap().usage, expected, "{usage}");
    check_chunks(&[json!({"choices": [], "usage": usage})], expected);
}

/// Checks what the chunks after the reason to stop count.
#[track_caller]
fn check_chunks(chunks: &[Value], expected: &TokenUsage) {
    let answer = [chunk(json!({"content": "a"})), last_chunk("stop")];
    let bytes = [sse(&answer), sse(chunks), b"data: [DONE]\n\n".to_vec()].concat();
    let events = read_bytes::<ChatAnswer>(&bytes);
    assert_eq!(&response_of(&events).usage, expected);
    check_every_byte::<ChatAnswer>(&bytes, end_of_reason(&bytes));
}

/// xAI's total counts reasoning a third time; Gemini's endpoint counts thoughts in the total alone
/// (recorded answers of both).
#[test]
fn reasoning_beside_the_answer_is_counted() {
    let details = |tokens: Value| json!({"reasoning_tokens": tokens});
    // xAI.
    check_usage(
        json!({"prompt_tokens": 32, "completion_tokens": 9, "total_tokens": 145, "completion_tokens_details": details(json!(104))}),
        &tokens(32, 113, None, Some(104)),
    );
    // Gemini.
    check_usage(
        json!({"prompt_tokens": 66, "completion_tokens": 6, "total_tokens": 100}),
        &tokens(66, 34, None, Some(28)),
    );
    check_usage(json!({"prompt_tokens": 66, "total_tokens": 100}), &tokens(66, 34, None, Some(34)));
}

#[test]
fn reasoning_within_the_answer_is_counted_once() {
    let details = |tokens: Value| json!({"reasoning_tokens": tokens});
    // OpenAI.
    check_usage(
        json!({"prompt_tokens": 32, "completion_tokens": 113, "total_tokens": 145, "completion_tokens_details": details(json!(104))}),
        &tokens(32, 113, None, Some(104)),
    );
    // Perplexity's is flat.
    check_usage(
        json!({"prompt_tokens": 32, "completion_tokens": 113, "total_tokens": 145, "reasoning_tokens": 104}),
        &tokens(32, 113, None, Some(104)),
    );
    // A total that no count explains, none, one that is too small, and one without a prompt.
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
fn cached_tokens_in_every_place() {
    for cached in [
        // OpenAI and Mistral; Mistral's other form; Moonshot; DeepSeek, which has two.
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
fn usage_in_every_place() {
    let usage = json!({"prompt_tokens": 5, "completion_tokens": 2});
    let expected = tokens(5, 2, None, None);
    // Moonshot; Groq without the option.
    let choice = json!({"index": 0, "delta": {}, "finish_reason": "stop", "usage": usage});
    check_chunks(&[json!({"choices": [choice]})], &expected);
    let groq = json!({"id": "req_1", "usage": usage});
    check_chunks(&[json!({"choices": [], "x_groq": groq})], &expected);
    check_chunks(&[json!({"choices": null, "x_groq": groq})], &expected);
    // A chunk of text may have it too, and what counts nothing takes nothing back.
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
        let events = read_bytes::<ChatAnswer>(&sse(&answer));
        assert_eq!(response_of(&events).usage, expected, "{place}");
        assert_eq!(response_of(&events).message.content, [text("ab")]);
    }
}

/// Perplexity counts in every chunk, and each count contains those before it (recorded streams).
#[test]
fn of_cumulative_counts_the_last_is_kept() {
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
    let events = read_bytes::<ChatAnswer>(&sse(&chunks));
    assert_eq!(response_of(&events).usage, tokens(5, 3, None, None));
}
