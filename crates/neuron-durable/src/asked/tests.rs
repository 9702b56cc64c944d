//! Tests of the comparison of requests with a journal, and of its error texts.

use neuron_types::{CompletionRequest, SystemPrompt, ToolDefinition};
use serde_json::json;

use super::*;

fn tool(name: &str, description: &str) -> ToolDefinition {
    let tool = json!({ "name": name, "description": description, "input_schema": {} });
    serde_json::from_value(tool).unwrap()
}

fn request() -> CompletionRequest {
    CompletionRequest {
        model: "small".into(),
        messages: vec![Message::user("a"), Message::assistant("b"), Message::user("c")],
        system: Some(SystemPrompt::from("You are kind.")),
        tools: vec![tool("pay", "Pays."), tool("look", "Looks.")],
        temperature: Some(0.5),
        ..Default::default()
    }
}

/// Returns the error of a run whose journal contains the request `old`, and whose agent now sends the request `new`.
fn error(old: &CompletionRequest, new: &CompletionRequest) -> String {
    let recorded = RequestLog::default().ask(old.view()).unwrap();
    let log = RequestLog::default();
    let asked = log.ask(new.view()).unwrap();
    let error = log.replay("model/0", &asked, &recorded).unwrap_err();
    assert_eq!(error.kind(), "NonDeterminism");
    let go_on = RequestLog::new(ChangedAgent::GoOn);
    go_on.replay("model/0", &asked, &recorded).unwrap();
    error.to_string()
}

#[test]
fn error_names_each_changed_field_with_old_and_new_value() {
    let old = request();
    let changed = |change: fn(&mut CompletionRequest)| {
        let mut new = old.clone();
        change(&mut new);
        error(&old, &new)
    };
    for (text, old, new) in [
        (changed(|new| new.model = "big".into()), r#"model: "small""#, r#"model: "big""#),
        (
            changed(|new| new.system = Some(SystemPrompt::from("You are strict."))),
            r#""text":"You are kind.""#,
            r#"system: …"type":"text","text":"You are strict.""#,
        ),
        (changed(|new| new.temperature = None), "temperature: 0.5", "no temperature"),
        (changed(|new| new.max_tokens = Some(7)), "no max_tokens", "max_tokens: 7"),
        (
            changed(|new| new.tools[0] = tool("pay", "Pays twice.")),
            r#"tools.pay.description: "Pays.""#,
            r#"tools.pay.description: "Pays twice.""#,
        ),
        (
            changed(|new| drop(new.tools.remove(1))),
            r#"tools.look.name: "look""#,
            "no tools.look.name",
        ),
        (changed(|new| new.tools.reverse()), "tools in another order", "the same tools"),
        (changed(|new| drop(new.messages.pop())), "messages: 3 of digest", "messages: 2 of digest"),
    ] {
        let (expected, got) = text.split_once(", got ").unwrap();
        assert!(expected.contains("model/0 with") && expected.contains(old), "{text}");
        assert!(got.contains(new), "{text}");
    }
    let (old, new) =
        (request(), CompletionRequest { model: "big".into(), tools: vec![], ..request() });
    let text = error(&old, &new);
    assert!(text.contains("model: \"big\"") && text.contains("no tools.pay.description"), "{text}");
}

#[test]
fn error_shows_a_long_field_around_its_first_difference() {
    let with = |end: &str| CompletionRequest {
        system: Some(SystemPrompt::from(format!("{}{end}", "ü".repeat(1000)).as_str())),
        ..request()
    };
    let text = error(&with("old"), &with("new"));
    assert!(text.contains("üüold\"") && text.contains("üünew\""), "{text}");
    assert!(text.len() < 500, "{text}");
    // The texts differ only after the stored part, so the error shows their digests.
    let with = |end: &str| CompletionRequest {
        system: Some(SystemPrompt::from(format!("{}{end}", "ü".repeat(9000)).as_str())),
        ..request()
    };
    let text = error(&with("old"), &with("new"));
    assert_eq!(text.matches("… (digest ").count(), 2, "{text}");
    let most: usize =
        RequestLog::default().ask(with("x").view()).unwrap().fields.values().map(String::len).sum();
    assert!(most < 5000, "{most}");
}

#[test]
fn fields_are_stored_once_for_equal_settings() {
    let log = RequestLog::default();
    let mut request = request();
    let mut kept = Vec::new();
    for turn in 0..6 {
        request.temperature = Some(0.5).filter(|_| turn < 3 || turn == 5);
        let asked = log.ask(request.view()).unwrap();
        log.keep(&asked);
        request.messages.push(Message::assistant(format!("{turn}")));
        kept.push((request.clone(), asked));
    }
    let has_fields: Vec<_> = kept.iter().map(|(_, asked)| !asked.fields.is_empty()).collect();
    assert_eq!(has_fields, [true, false, false, true, false, false]);
    // A call that is not in the journal keeps its fields when it is made again.
    log.restart();
    assert!(!log.ask(request.view()).unwrap().fields.is_empty());
    assert!(!log.ask(request.view()).unwrap().fields.is_empty());
}

#[test]
fn changed_call_after_equal_calls_is_an_error() {
    let (log, journal) = (RequestLog::default(), RequestLog::default());
    let mut request = request();
    for turn in 0..3 {
        let recorded = journal.ask(request.view()).unwrap();
        journal.keep(&recorded);
        let new = CompletionRequest {
            temperature: request.temperature.filter(|_| turn < 2),
            ..request.clone()
        };
        let asked = log.ask(new.view()).unwrap();
        let replayed = log.replay(&format!("model/{turn}"), &asked, &recorded);
        match turn {
            2 => {
                let text = replayed.unwrap_err().to_string();
                assert!(
                    text.contains("model/2 with temperature: 0.5, got no temperature"),
                    "{text}"
                );
            }
            _ => replayed.unwrap(),
        }
        request.messages.push(Message::user("more"));
    }
}

#[test]
fn digest_of_a_conversation_does_not_depend_on_its_key() {
    let log = RequestLog::default();
    let (first, second, mut request) = (HistoryKey::unique(), HistoryKey::unique(), request());
    for (key, is_shorter) in [(first, false), (first, false), (second, true), (second, false)] {
        if is_shorter {
            request.messages.remove(0);
        }
        request.messages.push(Message::user("more"));
        let named = log.ask(request.view().with_history(key)).unwrap();
        let plain = RequestLog::default().ask(request.view()).unwrap();
        assert_eq!(named.conversation, plain.conversation);
    }
    // The conversation is shorter than before under the same key, so all messages are hashed again.
    request.messages.truncate(1);
    let named = log.ask(request.view().with_history(second)).unwrap();
    assert_eq!(named.conversation, RequestLog::default().ask(request.view()).unwrap().conversation);
}

#[test]
fn record_keeps_the_request_if_its_response_is_too_long() {
    use crate::StepRecord;
    let asked = RequestLog::default().ask(request().view()).unwrap();
    let answer = serde_json::from_value(json!({
        "id": "", "model": "", "message": Message::assistant("x".repeat(5000)),
        "usage": {}, "stop_reason": "end_turn",
    }));
    let record = StepRecord::of_llm(Ok(answer.unwrap()), Default::default());
    let record = record.with_asked(asked.clone());
    let within = |limit: usize| {
        let json = record.to_json_within(limit).unwrap();
        StepRecord::<neuron_types::CompletionResponse>::from_json(&json).unwrap()
    };
    for limit in [1000, 100_000] {
        let read = within(limit);
        assert_eq!(read.asked, Some(asked.clone()));
        assert_eq!(read.ok.is_some(), limit > 1000);
    }
    // The fields are removed if the record has no room for them beside the response or the error.
    let whole = record.to_json().unwrap().len();
    for (limit, has_answer) in [(whole - 1, true), (100, false)] {
        let read = within(limit);
        assert_eq!((read.ok.is_some(), read.asked), (has_answer, Some(asked.without_fields())));
    }
}

#[test]
fn settings_without_their_fields_differ_by_digest() {
    let log = RequestLog::default();
    let recorded = log.ask(request().view()).unwrap().without_fields();
    let mut changed = request();
    changed.model = "large".into();
    let asked = log.ask(changed.view()).unwrap();
    let error = log.replay("model/0", &asked, &recorded).unwrap_err().to_string();
    assert!(error.contains(&format!("settings: digest {}", recorded.settings)), "{error}");
}

#[test]
fn extra_fields_are_kept_as_a_digest() {
    let mut secret = request();
    secret.extra = Some(json!({ "token": "s3cret" }));
    let asked = RequestLog::default().ask(secret.view()).unwrap();
    assert!(asked.fields["extra"].starts_with("digest "), "{:?}", asked.fields);
    assert!(!serde_json::to_string(&asked).unwrap().contains("s3cret"));
    let text = error(&secret, &request());
    assert!(text.contains("extra: digest ") && text.contains("no extra"), "{text}");
}

#[test]
fn changed_deferred_tools_are_not_a_changed_agent() {
    let request = |deferred: &[ToolDefinition]| CompletionRequest {
        tools: vec![tool("look", "Looks."), tool("search_tools", "").with_deferred_tools(deferred)],
        ..request()
    };
    let recorded = RequestLog::default().ask(request(&[tool("pay", "Pays.")]).view()).unwrap();
    assert!(!format!("{recorded:?}").contains("pay"), "{recorded:?}");
    for deferred in [&[][..], &[tool("pay", "Pays twice."), tool("send", "Sends.")]] {
        let asked = RequestLog::default().ask(request(deferred).view()).unwrap();
        RequestLog::default().replay("model/0", &asked, &recorded).unwrap();
    }
    // The visible tools still count.
    let text = error(&request(&[]), &super::tests::request());
    assert!(text.contains("tools.search_tools"), "{text}");
}

#[test]
fn hashed_messages_are_not_hashed_again() {
    let (log, key, mut request) = (RequestLog::default(), HistoryKey::unique(), request());
    let expected = request.clone();
    log.ask(request.view().with_history(key)).unwrap();
    // A loop never changes an earlier message. The equal digest shows that only the new message is hashed.
    request.messages[0] = Message::user("another text");
    request.messages.push(Message::user("new"));
    let asked = log.ask(request.view().with_history(key)).unwrap();
    let mut expected = expected;
    expected.messages.push(Message::user("new"));
    let whole = RequestLog::default().ask(expected.view()).unwrap();
    assert_eq!(asked.conversation, whole.conversation);
}
