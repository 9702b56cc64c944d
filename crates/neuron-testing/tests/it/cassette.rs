//! Tests of `Cassette`, which records and replays the requests to a model and its responses.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use neuron_provider_anthropic::Anthropic;
use neuron_testing::{
    AnthropicServer, Cassette, CassetteMatching, CassetteMode, CassettePace, Reply,
    ScriptedProvider,
};
use neuron_types::{
    CompletionRequest, ContentBlock, Message, Provider, ProviderError, StreamEvent, SystemPrompt,
};
use proptest::prelude::*;
use serde_json::{Value, json};
use tempfile::TempDir;

fn folder() -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("cassettes/weather.json");
    (folder, path)
}

fn recording<P: Provider>(path: &Path, provider: P) -> Cassette<P> {
    Cassette::new(path, provider).mode(CassetteMode::Record)
}

/// Creates a cassette that replays the file at `path`. Its provider has no replies, so any call of the provider fails.
fn replaying(path: &Path) -> Cassette<ScriptedProvider> {
    Cassette::new(path, ScriptedProvider::default()).mode(CassetteMode::Replay)
}

fn asking(text: &str) -> CompletionRequest {
    CompletionRequest { messages: vec![Message::user(text)], ..Default::default() }
}

async fn events<P: Provider + 'static>(
    provider: &Cassette<P>,
    request: &CompletionRequest,
) -> Vec<StreamEvent> {
    let mut stream = provider.complete_stream_ref(request.view()).await.unwrap().receiver;
    let mut events = Vec::new();
    while let Some(event) = stream.recv().await {
        events.push(event);
    }
    events
}

fn shown(events: &[StreamEvent]) -> Vec<String> {
    events.iter().map(|event| format!("{event:?}")).collect()
}

fn refusal<T: std::fmt::Debug>(result: Result<T, ProviderError>) -> String {
    match result.unwrap_err() {
        ProviderError::InvalidRequest(text) => text,
        error => panic!("{error:?}"),
    }
}

#[tokio::test]
async fn vendor_is_not_called_again_and_its_key_is_not_in_the_file() {
    let (_folder, path) = folder();
    let call = Reply::tool_call("call_1", "weather", json!({"city": "Bern"}));
    let server = AnthropicServer::start([call, Reply::text("Sunny.")]).await.unwrap();
    let vendor = Anthropic::new(AnthropicServer::API_KEY).base_url(server.url());
    let recorder = recording(&path, vendor);
    let request = asking("How is the weather in Bern?");
    let whole = recorder.complete_ref(request.view()).await.unwrap();
    let streamed = events(&recorder, &asking("Briefly.")).await;
    drop(server);
    let file = std::fs::read_to_string(&path).unwrap();
    assert!(!file.contains(AnthropicServer::API_KEY), "{file}");

    let cassette = replaying(&path);
    assert_eq!(cassette.unused(), 2);
    assert_eq!(cassette.complete_ref(request.view()).await.unwrap(), whole);
    assert_eq!(shown(&events(&cassette, &asking("Briefly.")).await), shown(&streamed));
    cassette.assert_complete();
}

#[tokio::test(start_paused = true)]
async fn stream_is_replayed_with_its_pieces_and_times() {
    let (_folder, path) = folder();
    let reply = Reply::text("Hello there").thinking("A greeting.", "signature");
    let reply = reply.chunk_chars(4).event_delay(Duration::from_millis(70));
    let vendor = ScriptedProvider::new([reply]);
    let start = tokio::time::Instant::now();
    let recorded = events(&recording(&path, vendor), &asking("hi")).await;
    let time = start.elapsed();
    assert!(recorded.len() > 6, "{recorded:?}");

    let start = tokio::time::Instant::now();
    let replayed = events(&replaying(&path).pace(CassettePace::Recorded), &asking("hi")).await;
    assert_eq!(shown(&replayed), shown(&recorded));
    assert_eq!(start.elapsed(), time);

    let start = tokio::time::Instant::now();
    let replayed = events(&replaying(&path), &asking("hi")).await;
    assert_eq!(shown(&replayed), shown(&recorded));
    assert_eq!(start.elapsed(), Duration::ZERO);
}

#[tokio::test]
async fn stream_serves_a_whole_response_and_a_whole_response_a_stream() {
    let (_folder, path) = folder();
    let vendor = ScriptedProvider::new([Reply::text("one"), Reply::text("two")]);
    let cassette = recording(&path, vendor);
    events(&cassette, &asking("first")).await;
    cassette.complete_ref(asking("second").view()).await.unwrap();

    let cassette = replaying(&path);
    let first = cassette.complete_ref(asking("first").view()).await.unwrap();
    assert_eq!(first.message.text(), "one");
    let second = events(&cassette, &asking("second")).await;
    assert!(matches!(&second[0], StreamEvent::TextDelta(text) if text == "two"), "{second:?}");
}

#[tokio::test(start_paused = true)]
async fn errors_are_replayed_with_their_kind() {
    let (_folder, path) = folder();
    let limit = || ProviderError::RateLimit { retry_after: Some(Duration::from_secs(3)) };
    let broken = || ProviderError::StreamError("cut".to_owned());
    let vendor = ScriptedProvider::new([
        Reply::error(limit()),
        Reply::error(ProviderError::Network("refused".into())),
        Reply::text("Hello").chunk_chars(2).fail_after(2, broken()),
    ]);
    let check = async |cassette: Cassette<ScriptedProvider>| {
        let error = cassette.complete_ref(asking("a").view()).await.unwrap_err();
        assert_eq!(error.retry_after(), Some(Duration::from_secs(3)), "{error:?}");
        let error = cassette.complete_stream_ref(asking("b").view()).await.unwrap_err();
        assert!(matches!(&error, ProviderError::Network(_)) && error.is_retryable(), "{error:?}");
        let events = events(&cassette, &asking("c")).await;
        let Some(StreamEvent::Error(error)) = events.last() else { panic!("{events:?}") };
        assert_eq!((events.len(), error.kind()), (3, "StreamError"));
    };
    check(recording(&path, vendor).record_errors()).await;
    check(replaying(&path).pace(CassettePace::Recorded)).await;
    // In an immediate replay, the error has no delay before a retry.
    let error = replaying(&path).complete_ref(asking("a").view()).await.unwrap_err();
    assert_eq!(error.retry_after(), Some(Duration::ZERO));
}

#[tokio::test]
async fn errors_that_may_pass_are_not_recorded() {
    let (_folder, path) = folder();
    let vendor = ScriptedProvider::new([Reply::text("one")]);
    recording(&path, vendor).complete_ref(asking("a").view()).await.unwrap();
    let before = std::fs::read_to_string(&path).unwrap();
    // A new recording without a valid key fails and does not change the file.
    let vendor = ScriptedProvider::new([
        Reply::error(ProviderError::Authentication("no key".to_owned())),
        Reply::error(ProviderError::ServiceUnavailable("overloaded".to_owned())),
    ]);
    let cassette = recording(&path, vendor);
    cassette.complete_ref(asking("a").view()).await.unwrap_err();
    cassette.complete_stream_ref(asking("b").view()).await.unwrap_err();
    assert_eq!(std::fs::read_to_string(&path).unwrap(), before);
    drop(cassette);
    // Errors that the request itself causes are recorded.
    let vendor =
        ScriptedProvider::new([Reply::error(ProviderError::InvalidRequest("too much".to_owned()))]);
    recording(&path, vendor).complete_ref(asking("a").view()).await.unwrap_err();
    assert_eq!(refusal(replaying(&path).complete_ref(asking("a").view()).await), "too much");
}

#[tokio::test]
async fn second_cassette_that_records_a_file_is_an_error() {
    let (_folder, path) = folder();
    let first = recording(&path, ScriptedProvider::new([Reply::text("one"), Reply::text("two")]));
    first.complete_ref(asking("a").view()).await.unwrap();
    let second = recording(&path, ScriptedProvider::new([Reply::text("x")]));
    let text = refusal(second.complete_ref(asking("b").view()).await);
    assert!(text.contains("another cassette of this process records"), "{text}");
    first.clone().complete_ref(asking("c").view()).await.unwrap();
    drop(first);
    assert_eq!(replaying(&path).unused(), 2);
    let third = recording(&path, ScriptedProvider::new([Reply::text("x")]));
    third.complete_ref(asking("b").view()).await.unwrap();
}

#[tokio::test]
async fn stream_that_ends_after_its_message_is_recorded() {
    let (_folder, path) = folder();
    let whole = ScriptedProvider::new([Reply::text("Hello")]);
    let mut stream = whole.complete_stream_ref(asking("a").view()).await.unwrap().receiver;
    let mut until = 0;
    while let Some(event) = stream.recv().await {
        until += 1;
        if let StreamEvent::MessageComplete(_) = event {
            break;
        }
    }
    let vendor = ScriptedProvider::new([Reply::text("Hello").end_early_after(until)]);
    let recorded = events(&recording(&path, vendor), &asking("a")).await;
    assert_eq!(shown(&events(&replaying(&path), &asking("a")).await), shown(&recorded));
}

#[tokio::test]
async fn null_and_absent_fields_are_distinguished() {
    let (_folder, path) = folder();
    let extra = |extra: Option<Value>| CompletionRequest { extra, ..asking("a") };
    let requests = [extra(Some(json!({"a": null}))), extra(Some(Value::Null)), extra(None)];
    let vendor = ScriptedProvider::new(["1", "2", "3"].map(Reply::text));
    let cassette = recording(&path, vendor);
    for request in &requests {
        cassette.complete_ref(request.view()).await.unwrap();
    }
    let cassette = replaying(&path);
    for request in &requests {
        cassette.complete_ref(request.view()).await.unwrap();
    }
}

#[tokio::test]
async fn exchange_that_cannot_be_read_again_fails_where_it_is_recorded() {
    let (_folder, path) = folder();
    let deep = (0..125).fold(json!(1), |inner, _| json!([inner]));
    let vendor = ScriptedProvider::new([Reply::tool_call("1", "deep", deep), Reply::text("x")]);
    let cassette = recording(&path, vendor);
    let error = cassette.complete_ref(asking("a").view()).await.unwrap_err().to_string();
    assert!(error.contains("cannot record") && error.contains("recursion limit"), "{error}");
    assert!(!path.exists());
}

#[tokio::test]
async fn missing_file_names_the_way_to_record_it() {
    let (_folder, path) = folder();
    let cassette = replaying(&path);
    let text = refusal(cassette.complete_ref(asking("hi").view()).await);
    let expected =
        format!("there is no cassette {}: record it with NEURON_CASSETTES=record", path.display());
    assert_eq!(text, expected);
    assert_eq!(cassette.unused(), 0);
    assert!(!path.exists());
}

#[tokio::test]
async fn request_without_a_recording_is_an_error_with_the_differences_to_the_nearest() {
    let (_folder, path) = folder();
    let vendor = ScriptedProvider::new([Reply::text("4"), Reply::text("9")]);
    let cassette = recording(&path, vendor);
    let long = format!("{} What is 2 + 2? {}", "Think well. ".repeat(20), "Be brief. ".repeat(20));
    cassette.complete_ref(asking(&long).view()).await.unwrap();
    let unlike = CompletionRequest { max_tokens: Some(5), ..asking("Name nine cities.") };
    cassette.complete_ref(unlike.view()).await.unwrap();

    let sent =
        CompletionRequest { temperature: Some(0.5), ..asking(&long.replace("2 + 2", "3 + 3")) };
    let text = refusal(replaying(&path).complete_ref(sent.view()).await);
    assert!(text.contains("record it with NEURON_CASSETTES=missing"), "{text}");
    assert!(text.contains("recording 0 (counted from 0)"), "{text}");
    let lines: Vec<&str> = text.lines().skip(1).collect();
    assert_eq!(lines.len(), 2, "{text}");
    assert!(lines[0].starts_with("  messages[0].content[0].text: recorded …"), "{text}");
    assert!(lines[0].contains("2 + 2?") && lines[0].contains("3 + 3?"), "{text}");
    assert!(lines[0].len() < 400, "{text}");
    assert_eq!(lines[1], "  temperature: recorded nothing, sent 0.5");
}

#[tokio::test]
async fn strict_recording_is_used_once() {
    let (_folder, path) = folder();
    let vendor = ScriptedProvider::new([Reply::text("one"), Reply::text("two")]);
    let cassette = recording(&path, vendor);
    for _ in 0..2 {
        cassette.complete_ref(asking("again").view()).await.unwrap();
    }
    let cassette = replaying(&path);
    for expected in ["one", "two"] {
        let response = cassette.complete_ref(asking("again").view()).await.unwrap();
        assert_eq!(response.message.text(), expected);
    }
    let text = refusal(cassette.complete_ref(asking("again").view()).await);
    assert!(text.contains("recording 0 (counted from 0), which was used before"), "{text}");
}

#[tokio::test]
async fn lenient_matching_compares_only_messages_and_uses_recordings_again() {
    let (_folder, path) = folder();
    let vendor = ScriptedProvider::new([Reply::text("one"), Reply::text("two")]);
    let cassette = recording(&path, vendor);
    for _ in 0..2 {
        cassette.complete_ref(asking("hi").view()).await.unwrap();
    }
    let changed = CompletionRequest {
        model: "another".to_owned(),
        system: Some(SystemPrompt::from("Be brief.")),
        temperature: Some(0.5),
        ..asking("hi")
    };
    let cassette = replaying(&path);
    let text = refusal(cassette.complete_ref(changed.view()).await);
    assert!(text.contains("  model: recorded \"\", sent \"another\""), "{text}");
    let cassette = replaying(&path).matching(CassetteMatching::Lenient);
    for expected in ["one", "two", "one", "two"] {
        let response = cassette.complete_ref(changed.view()).await.unwrap();
        assert_eq!(response.message.text(), expected);
    }
    let text = refusal(cassette.complete_ref(asking("bye").view()).await);
    assert!(text.contains("  [0].content[0].text: recorded \"hi\", sent \"bye\""), "{text}");
}

#[tokio::test]
async fn only_missing_exchanges_call_the_vendor() {
    let (_folder, path) = folder();
    let missing = |provider| Cassette::new(&path, provider).mode(CassetteMode::Missing);
    let first = missing(ScriptedProvider::new([Reply::text("one")]));
    first.complete_ref(asking("first").view()).await.unwrap();
    drop(first);
    let vendor = ScriptedProvider::new([Reply::text("two")]);
    let second = missing(vendor.clone());
    for (request, expected) in [("first", "one"), ("second", "two")] {
        let response = second.complete_ref(asking(request).view()).await.unwrap();
        assert_eq!(response.message.text(), expected);
    }
    assert_eq!(vendor.calls(), 1);
    second.assert_complete();
    assert_eq!(replaying(&path).unused(), 2);
}

#[tokio::test]
#[should_panic(expected = "the recordings [1] (counted from 0) were not used")]
async fn unused_recording_fails_the_assertion() {
    let (_folder, path) = folder();
    let vendor = ScriptedProvider::new([Reply::text("one"), Reply::text("two")]);
    let cassette = recording(&path, vendor);
    for request in ["first", "second"] {
        cassette.complete_ref(asking(request).view()).await.unwrap();
    }
    let cassette = replaying(&path);
    cassette.complete_ref(asking("first").view()).await.unwrap();
    cassette.assert_complete();
}

/// Returns the text of all deltas of the recorded streams.
fn recorded_deltas(path: &Path) -> String {
    let file: Value = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    let exchanges = file["exchanges"].as_array().unwrap().iter();
    let pieces = exchanges.flat_map(|exchange| exchange["stream"].as_array().into_iter().flatten());
    let deltas = pieces.filter_map(|piece| {
        ["text", "thinking"]
            .iter()
            .find_map(|kind| piece[kind].as_str())
            .or_else(|| piece["tool_use_delta"]["delta"].as_str())
    });
    deltas.collect()
}

#[tokio::test]
async fn secrets_are_not_in_the_file_and_are_restored() {
    const TOKEN: &str = "hunter2 \"and\" more";
    const KEY: &str = "sk-ant-api03-AAAABBBBCCCCDDDDEEEE";
    let (_folder, path) = folder();
    let nested = json!({"env": format!("KEY:\n{KEY}"), "token": TOKEN}).to_string();
    let request =
        asking(&format!("My token is {TOKEN}, and my key is {KEY}. Is sk-8 a size? {nested}"));
    let vendor = ScriptedProvider::new([
        Reply::text(format!("I keep {TOKEN} and {KEY}.")),
        Reply::tool_call("1", "log_in", json!({"token": TOKEN, "Names-1 hunter2 \"and\" more": 1}))
            .with_text(format!("As {TOKEN}, with {KEY}."))
            .chunk_chars(4),
    ]);
    let with = |cassette: Cassette<ScriptedProvider>, token: &str| {
        cassette.secret("token", token).secret("user", "hunter2").secret("empty", "")
    };
    let cassette = with(recording(&path, vendor.clone()), TOKEN);
    cassette.complete_ref(request.view()).await.unwrap();
    events(&cassette, &asking("log in")).await;
    // The vendor receives the request unchanged.
    assert_eq!(vendor.requests()[0], request);
    let file = std::fs::read_to_string(&path).unwrap();
    for text in [&file, &recorded_deltas(&path)] {
        assert!(!text.contains("hunter2") && !text.contains("AAAABBBB"), "{text}");
    }
    assert!(
        file.contains("My token is [secret:token], and my key is [KEY]. Is sk-8 a size?"),
        "{file}"
    );
    assert_eq!(
        recorded_deltas(&path),
        "As [secret:token], with [KEY].\
         {\"token\":\"[secret:token:json]\",\"Names-1 [secret:token:json]\":1}"
    );

    let other = "an \"other\" one";
    let cassette = with(replaying(&path), other);
    let nested = json!({"env": format!("KEY:\n{KEY}"), "token": other}).to_string();
    let request =
        asking(&format!("My token is {other}, and my key is {KEY}. Is sk-8 a size? {nested}"));
    let response = cassette.complete_ref(request.view()).await.unwrap();
    assert_eq!(response.message.text(), format!("I keep {other} and [KEY]."));
    let replayed = events(&cassette, &asking("log in")).await;
    let delta: String = replayed
        .iter()
        .filter_map(|event| match event {
            StreamEvent::ToolUseInputDelta { delta, .. } => Some(delta.as_str()),
            _ => None,
        })
        .collect();
    let expected = json!({"token": other, "Names-1 an \"other\" one": 1});
    assert_eq!(serde_json::from_str::<Value>(&delta).unwrap(), expected);
    let input = replayed.iter().find_map(|event| match event {
        StreamEvent::ToolUse { input, .. } => Some(input),
        _ => None,
    });
    assert_eq!(input, Some(&expected));
}

/// The tables with all formats are in `neuron-types`.
#[tokio::test]
async fn secrets_in_known_formats_are_not_in_the_file() {
    let (_folder, path) = folder();
    let key = "0a1b2c3d".repeat(5);
    let part = "a1".repeat(20);
    let text = format!(
        "sk-{key}, hf_{key}, eyJ{part}.eyJ{part}.{part}, redis://me:{key}@host, \
         Authorization: Bearer {key}, MISTRAL_API_KEY={key}, token <token>"
    );
    let expected = "[KEY], [KEY], [KEY], redis://me:[KEY]@host, \
                    Authorization: Bearer [KEY], MISTRAL_API_KEY=[KEY], token <token>";
    let request = asking(&text);
    let vendor = ScriptedProvider::new([
        Reply::text(&text),
        Reply::tool_call("1", "log_in", json!({ "api_key": key })).with_text(&text).chunk_chars(7),
    ]);
    let cassette = recording(&path, vendor);
    cassette.complete_ref(request.view()).await.unwrap();
    events(&cassette, &asking("log in")).await;
    let file = std::fs::read_to_string(&path).unwrap();
    for secret in [&key, &part] {
        assert!(!file.contains(secret) && !recorded_deltas(&path).contains(secret), "{file}");
    }
    assert_eq!(recorded_deltas(&path), format!("{expected}{{\"api_key\":\"[KEY]\"}}"));

    let cassette = replaying(&path);
    let response = cassette.complete_ref(request.view()).await.unwrap();
    assert_eq!(response.message.text(), expected);
    let replayed = events(&cassette, &asking("log in")).await;
    let input = replayed.iter().find_map(|event| match event {
        StreamEvent::ToolUse { input, .. } => Some(input),
        _ => None,
    });
    assert_eq!(input, Some(&json!({ "api_key": "[KEY]" })));
}

/// Regression test. Only the key was replaced, or only the secret, and the file had the rest of the other.
#[tokio::test]
async fn secret_and_key_that_overlap_are_both_replaced() {
    let (_folder, path) = folder();
    let key = format!("sk-{}", "0a1b2c3d".repeat(4));
    let request = asking(&format!("{key}-hunter2 and more, hunter2 and more {key}, pre-{key}"));
    let cassette = recording(&path, ScriptedProvider::new([Reply::text("Yes.")]))
        .secret("end", "hunter2 and more")
        .secret("start", "pre-sk-0a1b");
    cassette.complete_ref(request.view()).await.unwrap();
    let file = std::fs::read_to_string(&path).unwrap();
    let expected = "[KEY][secret:end], [secret:end] [KEY], [secret:start][KEY]";
    assert!(file.contains(expected), "{file}");
}

#[tokio::test]
async fn secret_that_is_a_word_of_the_format_is_replaced_only_in_texts() {
    let (_folder, path) = folder();
    let vendor = ScriptedProvider::new([Reply::text("the assistant ends the text")]);
    let cassette =
        recording(&path, vendor).secret("a", "stan").secret("b", "text").secret("c", "end_turn");
    let request = asking("an assistant and a text");
    cassette.complete_ref(request.view()).await.unwrap();
    let file = std::fs::read_to_string(&path).unwrap();
    assert!(file.contains("an assi[secret:a]t and a [secret:b]"), "{file}");
    let cassette = replaying(&path).secret("a", "stan").secret("b", "text").secret("c", "end_turn");
    let response = cassette.complete_ref(request.view()).await.unwrap();
    assert_eq!(response.message.text(), "the assistant ends the text");
}

#[tokio::test]
async fn normalized_values_may_differ() {
    let (_folder, path) = folder();
    let at = |time: &str| CompletionRequest {
        system: Some(SystemPrompt::from(format!("It is {time}."))),
        ..asking("hi")
    };
    let without_time =
        |request: &mut CompletionRequest| request.system = Some(SystemPrompt::from("It is late."));
    let vendor = ScriptedProvider::new([Reply::text("Hello.")]);
    let cassette = recording(&path, vendor.clone()).normalize(without_time);
    cassette.complete_ref(at("10:00").view()).await.unwrap();
    assert_eq!(vendor.requests()[0], at("10:00"));
    let cassette = replaying(&path).normalize(without_time);
    cassette.complete_ref(at("22:30").view()).await.unwrap();
    refusal(replaying(&path).complete_ref(at("10:00").view()).await);
}

#[tokio::test]
async fn dropped_stream_is_not_recorded() {
    let (_folder, path) = folder();
    let vendor = ScriptedProvider::new([
        Reply::text("a long text").chunk_chars(2).hang_after(3),
        Reply::text("short"),
    ]);
    let cassette = recording(&path, vendor);
    let request = asking("long");
    let mut stream = cassette.complete_stream_ref(request.view()).await.unwrap().receiver;
    assert!(stream.recv().await.is_some());
    drop(stream);
    assert!(!path.exists());
    events(&cassette, &asking("short")).await;
    assert_eq!(replaying(&path).unused(), 1);
}

#[tokio::test]
async fn concurrent_exchanges_are_replayed_in_any_order() {
    let (_folder, path) = folder();
    let requests: Vec<_> = (0..50).map(|number| asking(&format!("number {number}"))).collect();
    let vendor = ScriptedProvider::new((0..50).map(|number| {
        // The later requests end first.
        Reply::text(format!("answer {number}")).delay(Duration::from_millis(100 - 2 * number))
    }));
    let cassette = recording(&path, vendor);
    let ask = async |cassette: &Cassette<ScriptedProvider>, request: &CompletionRequest| {
        cassette.complete_ref(request.view()).await.unwrap().message.text()
    };
    let calls = requests.iter().map(|request| ask(&cassette, request));
    let recorded = futures_util::future::join_all(calls).await;
    assert_eq!(recorded[7], "answer 7");
    let cassette = replaying(&path);
    for (request, expected) in requests.iter().zip(recorded).rev() {
        assert_eq!(ask(&cassette, request).await, expected);
    }
    cassette.assert_complete();
}

#[tokio::test]
async fn file_is_readable_and_has_each_message_once() {
    let (_folder, path) = folder();
    let vendor = ScriptedProvider::new([
        Reply::tool_call("call_1", "weather", json!({"city": "Bern"})).id("1"),
        Reply::text("Sunny.").chunk_chars(3).id("2"),
    ]);
    let cassette = recording(&path, vendor);
    let mut request = CompletionRequest { max_tokens: Some(100), ..asking("Weather?") };
    let response = cassette.complete_ref(request.view()).await.unwrap();
    request.messages.push(response.message);
    request.messages.push(Message::user("Be brief."));
    request.max_tokens = None;
    request.temperature = Some(0.5);
    events(&cassette, &request).await;

    let file = std::fs::read_to_string(&path).unwrap();
    assert_eq!(file.matches("Weather?").count(), 1, "{file}");
    let file: Value = serde_json::from_str(&file).unwrap();
    let second = &file["exchanges"][1];
    assert_eq!(second["continues"], 0);
    assert_eq!(second["request"]["max_tokens"], Value::Null);
    assert_eq!(second["request"]["temperature"], 0.5);
    assert_eq!(second["request"]["messages"].as_array().unwrap().len(), 2);
    let text = std::fs::read_to_string(&path).unwrap();
    assert!(text.contains("\n        {\"ms\":0,\"text\":\"Sun\"},\n"), "{text}");
    replaying(&path).complete_ref(request.view()).await.unwrap();
}

#[tokio::test]
async fn damaged_file_is_an_error_that_names_it() {
    let (_folder, path) = folder();
    let vendor = ScriptedProvider::new([Reply::text("one"), Reply::text("two")]);
    let cassette = recording(&path, vendor);
    cassette.complete_ref(asking("a").view()).await.unwrap();
    events(&cassette, &asking("a")).await;
    let whole = std::fs::read(&path).unwrap();
    let name = path.display().to_string();
    // The last byte is only the line end after the last line.
    for end in 0..whole.len() - 1 {
        std::fs::write(&path, &whole[..end]).unwrap();
        let text = refusal(replaying(&path).complete_ref(asking("a").view()).await);
        assert!(text.contains(&name), "{end}: {text}");
    }
    for (damaged, part) in [
        (json!({"neuron_cassette": 2, "exchanges": []}), "its format is 2"),
        (
            json!({"neuron_cassette": 1, "exchanges": [{"continues": 0, "request": {}, "stream": []}]}),
            "continues none",
        ),
        (json!([]), "invalid"),
    ] {
        std::fs::write(&path, damaged.to_string()).unwrap();
        let text = refusal(replaying(&path).complete_ref(asking("a").view()).await);
        assert!(text.contains(part), "{text}");
        // The file is not overwritten, because it may be another file.
        let cassette = Cassette::new(&path, ScriptedProvider::new([Reply::text("x")]));
        let cassette = cassette.mode(CassetteMode::Missing);
        refusal(cassette.complete_ref(asking("a").view()).await);
        assert_eq!(std::fs::read_to_string(&path).unwrap(), damaged.to_string());
    }
}

#[tokio::test]
async fn file_that_cannot_be_written_fails_the_request() {
    let (folder, _) = folder();
    let path = folder.path().join("file/cassette.json");
    std::fs::write(folder.path().join("file"), "no folder").unwrap();
    let cassette =
        recording(&path, ScriptedProvider::new([Reply::text("one"), Reply::text("two")]));
    let error = cassette.complete_ref(asking("a").view()).await.unwrap_err().to_string();
    assert!(error.contains("cannot write the cassette"), "{error}");
    let events = events(&cassette, &asking("b")).await;
    let Some(StreamEvent::Error(error)) = events.last() else { panic!("{events:?}") };
    assert!(error.to_string().contains("cannot write the cassette"), "{error}");
}

const CHILD: &str = "CASSETTE_TEST_PATH";

/// Checks that an environment variable sets the mode. The test starts itself as a child process, because it must not
/// change the environment of other tests.
#[tokio::test]
async fn variable_sets_the_mode() {
    if let Some(path) = std::env::var_os(CHILD) {
        let cassette = Cassette::new(path, ScriptedProvider::new([Reply::text("recorded")]));
        match cassette.complete_ref(asking("hi").view()).await {
            Ok(response) => println!("<{}>", response.message.text()),
            Err(error) => println!("<{error}>"),
        }
        return;
    }
    let (_folder, path) = folder();
    let run = |mode: Option<&str>| {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command
            .args(["cassette::variable_sets_the_mode", "--exact", "--nocapture"])
            .env(CHILD, &path);
        match mode {
            Some(mode) => command.env("NEURON_CASSETTES", mode),
            None => command.env_remove("NEURON_CASSETTES"),
        };
        String::from_utf8(command.output().unwrap().stdout).unwrap()
    };
    assert!(run(None).contains("there is no cassette"));
    let output = run(Some("rerecord"));
    assert!(output.contains("\"rerecord\", and not `replay`, `record` or `missing`"), "{output}");
    assert!(run(Some("missing")).contains("<recorded>"));
    std::fs::write(&path, std::fs::read_to_string(&path).unwrap().replace("recorded", "replayed"))
        .unwrap();
    for mode in [None, Some(""), Some("replay"), Some("missing")] {
        assert!(run(mode).contains("<replayed>"), "{mode:?}");
    }
    assert!(run(Some("record")).contains("<recorded>"));
}

fn block() -> impl Strategy<Value = ContentBlock> {
    prop_oneof![
        "\\PC{0,20}".prop_map(ContentBlock::Text),
        ("[a-z]{1,5}", "[a-z]{1,5}", "\\PC{0,9}").prop_map(|(id, name, text)| {
            ContentBlock::ToolUse { id, name, input: json!({"text": text, "n": [1, 2.5, null]}) }
        }),
    ]
}

fn message() -> impl Strategy<Value = Message> {
    let content = prop::collection::vec(block(), 0..3);
    (any::<bool>(), content).prop_map(|(is_user, content)| Message {
        content,
        ..if is_user { Message::user("") } else { Message::assistant("") }
    })
}

/// Generates requests of one conversation. Each request contains a random number of its first messages, and a random
/// maximum number of tokens.
fn requests() -> impl Strategy<Value = Vec<CompletionRequest>> {
    let messages = prop::collection::vec(message(), 1..8);
    let cuts = prop::collection::vec((0_usize..8, prop::option::of(1_usize..3)), 1..8);
    (messages, cuts).prop_map(|(messages, cuts)| {
        let request = |(end, max_tokens): (usize, Option<usize>)| CompletionRequest {
            messages: messages[..end.min(messages.len())].to_vec(),
            max_tokens,
            ..Default::default()
        };
        cuts.into_iter().map(request).collect()
    })
}

proptest! {
    #[test]
    fn every_recorded_request_finds_its_response(requests in requests(), is_stream: bool) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let (_folder, path) = folder();
            let replies = (0..requests.len()).map(|number| Reply::text(number.to_string()));
            let cassette = recording(&path, ScriptedProvider::new(replies));
            for request in &requests {
                match is_stream {
                    true => drop(events(&cassette, request).await),
                    false => drop(cassette.complete_ref(request.view()).await.unwrap()),
                }
            }
            let cassette = replaying(&path);
            for (number, request) in requests.iter().enumerate() {
                let response = cassette.complete_ref(request.view()).await.unwrap();
                assert_eq!(response.message.text(), number.to_string());
            }
            cassette.assert_complete();
        });
    }
}
