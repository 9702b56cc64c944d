//! Tests of the journal records that engines store for steps.

use std::path::Path;
use std::time::Duration;

use neuron_types::{
    ApprovalDecisions, CompletionRequest, ContentBlock, ContentItem, Message, PendingApproval,
    PendingCall, StopReason, ToolDefinition,
};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::{digest, tool_digest};

fn at() -> DateTime<Utc> {
    DateTime::from_timestamp_millis(1_790_000_000_123).unwrap()
}

fn response(text: &str) -> CompletionResponse {
    CompletionResponse {
        id: "msg_1".into(),
        model: "m".into(),
        message: Message::assistant(text),
        usage: TokenUsage { input_tokens: 3, output_tokens: 5, ..TokenUsage::default() },
        stop_reason: StopReason::EndTurn,
    }
}

/// Serialises a record and parses it again.
fn stored<T: Serialize + DeserializeOwned>(record: &StepRecord<T>) -> StepRecord<T> {
    StepRecord::from_json(&record.to_json().unwrap()).unwrap()
}

#[test]
fn stored_json_does_not_change() {
    let record = StepRecord::of_llm(Ok(response("hi")), at());
    let answer = r#"{"version":1,"ok":{"id":"msg_1","model":"m","message":{"role":"assistant","content":[{"type":"text","text":"hi"}]},"usage":{"input_tokens":3,"output_tokens":5},"stop_reason":"end_turn"},"at":1790000000123}"#;
    assert_eq!(String::from_utf8(record.to_json().unwrap()).unwrap(), answer);

    let usage = TokenUsage { input_tokens: 1, ..TokenUsage::default() };
    let record = StepRecord::of_tool(Err(ToolError::ModelRetry("again".into())), usage, at());
    let failure = r#"{"version":1,"error":{"kind":"ModelRetry","detail":"again"},"usage":{"input_tokens":1,"output_tokens":0},"at":1790000000123}"#;
    assert_eq!(String::from_utf8(record.to_json().unwrap()).unwrap(), failure);
}

#[test]
fn provider_errors_round_trip() {
    use ProviderError as E;
    let errors = [
        E::Network("reset".into()),
        E::RateLimit { retry_after: Some(Duration::from_millis(7250)) },
        E::RateLimit { retry_after: None },
        E::ModelLoading("soon".into()),
        E::Timeout(Duration::from_secs(9)),
        E::ServiceUnavailable("503".into()),
        E::Authentication("who?".into()),
        E::InvalidRequest("what?".into()),
        E::ContextWindowExceeded("full".into()),
        E::ModelNotFound("m".into()),
        E::InsufficientResources("small".into()),
        E::StreamError("cut".into()),
        E::Other("else".into()),
    ];
    for error in errors {
        let told = |error: &E| {
            (error.kind(), error.to_string(), error.retry_after(), error.is_retryable())
        };
        let expected = told(&error);
        match stored(&StepRecord::of_llm(Err(error), at())).into_llm() {
            Err(DurableError::Provider(error)) => assert_eq!(told(&error), expected),
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn tool_errors_round_trip_with_their_usage() {
    use ToolError as E;
    let pending = || {
        let call = ToolCall { id: "c".into(), name: "wire".into(), input: json!({"amount": 1}) };
        Box::new(PendingApproval::new("inner", vec![PendingCall::new(call, "may it?")]))
    };
    let errors = || {
        [
            E::NotFound("t".into()),
            E::InvalidInput("what?".into()),
            E::ExecutionFailed("broke".into()),
            E::PermissionDenied("no".into()),
            E::Cancelled,
            E::ModelRetry("again".into()),
            E::HookTerminated("stop".into()),
            E::ApprovalRequired(pending()),
        ]
    };
    let usage = TokenUsage { input_tokens: 11, output_tokens: 3, ..TokenUsage::default() };
    for (error, expected) in errors().into_iter().zip(errors()) {
        let record = stored(&StepRecord::of_tool(Err(error), usage.clone(), at()));
        let meter = UsageMeter::default();
        match record.clone().into_tool(&meter) {
            Err(DurableError::Tool(error)) => {
                assert_eq!(error.kind(), expected.kind());
                assert_eq!(error.to_string(), expected.to_string());
                if let (E::ApprovalRequired(is), E::ApprovalRequired(was)) = (error, expected) {
                    assert_eq!(is, was);
                }
            }
            other => panic!("{other:?}"),
        }
        assert_eq!(meter.total(), usage);
        assert!(record.into_tool_uncounted().is_err());
    }
}

#[test]
fn only_into_tool_counts_the_tokens_of_a_tool() {
    let usage = TokenUsage { input_tokens: 2, ..TokenUsage::default() };
    let record = stored(&StepRecord::of_tool(Ok(ToolOutput::text("ok")), usage.clone(), at()));
    let meter = UsageMeter::default();
    assert_eq!(record.clone().into_tool_uncounted().unwrap(), ToolOutput::text("ok"));
    assert_eq!(meter.total(), TokenUsage::default());
    assert_eq!(record.into_tool(&meter).unwrap(), ToolOutput::text("ok"));
    assert_eq!(meter.total(), usage);
}

#[test]
fn newer_version_is_an_error_that_names_it() {
    let json = |version: u32| {
        json!({"version": version, "ok": {"content": [], "is_error": false}, "at": 0}).to_string()
    };
    let read = |version| StepRecord::<ToolOutput>::from_json(json(version).as_bytes()).unwrap();
    read(0).into_tool_uncounted().unwrap();
    read(1).into_tool_uncounted().unwrap();
    let newer = [2, u32::MAX].map(|version| read(version).into_tool_uncounted().unwrap_err());
    let texts = newer.map(|error| error.to_string());
    assert!(texts[0].contains("version 2, and this release reads up to 1"), "{texts:?}");
    assert!(texts[1].contains("4294967295"), "{texts:?}");
}

#[test]
fn unknown_fields_are_ignored_and_missing_fields_have_defaults() {
    let json =
        br#"{"version":1,"ok":{"content":[]},"at":5,"span":"new","usage":{"output_tokens":2}}"#;
    let record = StepRecord::<ToolOutput>::from_json(json).unwrap();
    assert_eq!(record.usage.output_tokens, 2);
    assert_eq!(record.ended_at().timestamp_millis(), 5);
    assert!(record.into_tool_uncounted().unwrap().content.is_empty());
}

#[test]
fn record_needs_exactly_one_of_value_and_error() {
    let value = json!({"content": []});
    let error = json!({"kind": "Cancelled"});
    for fields in [json!({}), json!({"ok": value, "error": error})] {
        let mut record = json!({"version": 1, "at": 0});
        record.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        let record = StepRecord::<ToolOutput>::from_json(record.to_string().as_bytes()).unwrap();
        let text = record.into_tool_uncounted().unwrap_err().to_string();
        assert!(text.contains("neither a value nor an error"), "{text}");
    }
}

#[test]
fn truncated_record_is_an_error() {
    let json = StepRecord::of_llm(Ok(response("grüße")), at()).to_json().unwrap();
    for end in 0..json.len() {
        let error = StepRecord::<CompletionResponse>::from_json(&json[..end]).unwrap_err();
        assert!(error.to_string().contains("cannot be read"), "{error}");
    }
    for other in [&b"null"[..], b"[]", b"7", b"{\"version\":-1}", b"\xff\xfe"] {
        StepRecord::<CompletionResponse>::from_json(other).unwrap_err();
    }
}

#[test]
fn invalid_time_is_read_as_the_epoch() {
    let json = format!(r#"{{"version":1,"ok":{{"content":[]}},"at":{}}}"#, i64::MAX);
    let record = StepRecord::<ToolOutput>::from_json(json.as_bytes()).unwrap();
    assert_eq!(record.ended_at(), DateTime::<Utc>::default());
}

#[test]
fn too_long_response_is_replaced_by_an_error() {
    let record = StepRecord::of_llm(Ok(response(&"x".repeat(5000))), at());
    let length = record.to_json().unwrap().len();
    assert_eq!(record.to_json_within(length).unwrap(), record.to_json().unwrap());
    for limit in [length - 1, 1000, 0] {
        let json = record.to_json_within(limit).unwrap();
        assert!(json.len() < 400, "{}", json.len());
        let short = StepRecord::<CompletionResponse>::from_json(&json).unwrap();
        assert_eq!(short.ended_at(), at());
        let Err(DurableError::Provider(error)) = short.into_llm() else { panic!("no error") };
        assert_eq!((error.kind(), error.is_retryable()), ("Other", false));
        let text = error.to_string();
        let says = format!("the model's answer takes {length} bytes in the journal");
        assert!(text.contains(&says) && text.contains(&format!("may have {limit}")), "{text}");
    }
}

#[test]
fn too_long_tool_result_is_replaced_by_an_error_with_its_usage() {
    let usage = TokenUsage { input_tokens: 9, ..TokenUsage::default() };
    let output = ToolOutput::text("y".repeat(5000));
    let record = StepRecord::of_tool(Ok(output), usage.clone(), at());
    let length = record.to_json().unwrap().len();
    assert_eq!(record.to_json_within("fetch", length).unwrap(), record.to_json().unwrap());
    let json = record.to_json_within("fetch", length - 1).unwrap();
    let short = StepRecord::<ToolOutput>::from_json(&json).unwrap();
    assert_eq!((short.ended_at(), &short.usage), (at(), &usage));
    let Err(DurableError::Tool(error)) = short.into_tool_uncounted() else { panic!("no error") };
    assert_eq!(error.kind(), "ExecutionFailed");
    assert!(error.to_string().contains("the result of `fetch` takes"), "{error}");

    // An error of the tool that is too long is replaced too.
    let failure = ToolError::ModelRetry("z".repeat(5000));
    let record = StepRecord::of_tool(Err(failure), usage, at());
    let json = record.to_json_within("fetch", 1000).unwrap();
    let short = StepRecord::<ToolOutput>::from_json(&json).unwrap();
    let text = short.into_tool_uncounted().unwrap_err().to_string();
    assert!(text.contains("the result of `fetch` takes"), "{text}");
}

#[test]
fn to_json_rejects_too_deeply_nested_values() {
    let deep = |depth: usize| {
        let value = (0..depth).fold(json!(1), |inner, _| json!([inner]));
        let output = ToolOutput { structured_content: Some(value), ..ToolOutput::text("deep") };
        StepRecord::of_tool(Ok(output), TokenUsage::default(), at())
    };
    assert_eq!(stored(&deep(100)), deep(100));
    let error = deep(stored_json::DEEPEST + 10).to_json().unwrap_err();
    assert!(matches!(error, DurableError::Other(_)), "{error}");
}

/// If a result is nested too deeply to be stored, an error must be stored instead. Without a journal entry, each
/// resumption would run the tool or call the model again.
#[test]
fn too_deeply_nested_result_is_replaced_by_an_error() {
    let deep = || (0..300).fold(json!(1), |inner, _| json!([inner]));
    let output = ToolOutput { structured_content: Some(deep()), ..ToolOutput::text("done") };
    let usage = TokenUsage { input_tokens: 1, ..TokenUsage::default() };
    let record = StepRecord::of_tool(Ok(output), usage.clone(), at());
    let json = record.to_json_within("tree", DEFAULT_RECORD_LIMIT).unwrap();
    let read = StepRecord::<ToolOutput>::from_json(&json).unwrap();
    assert_eq!((&read.usage, read.ended_at()), (&usage, at()));
    let error = read.into_tool_uncounted().unwrap_err().to_string();
    assert!(error.contains("the result of `tree` cannot be stored"), "{error}");

    let mut answer = response("hi");
    let call = ContentBlock::ToolUse { id: "c".into(), name: "tree".into(), input: deep() };
    answer.message.content.push(call);
    let json = StepRecord::of_llm(Ok(answer), at()).to_json_within(DEFAULT_RECORD_LIMIT).unwrap();
    let read = StepRecord::<CompletionResponse>::from_json(&json).unwrap();
    let error = read.into_llm().unwrap_err().to_string();
    assert!(error.contains("the model's answer cannot be stored"), "{error}");
}

#[test]
fn into_value_returns_the_value_and_rejects_an_error() {
    let record = stored(&StepRecord::of_value(json!({"signal": "yes"}), at()));
    assert_eq!(record.into_value().unwrap(), json!({"signal": "yes"}));
    let json = br#"{"version":1,"error":{"kind":"Cancelled"},"at":0}"#;
    let text = StepRecord::<Value>::from_json(json).unwrap().into_value().unwrap_err().to_string();
    assert!(text.contains("has the error Cancelled"), "{text}");
}

/// Journals contain digests. A release that changes the digests cannot continue the runs of the previous release.
#[test]
fn digests_do_not_change_between_releases() {
    let request = CompletionRequest {
        model: "m".into(),
        messages: vec![Message::user("hi"), Message::assistant("hello")],
        system: Some("Be kind.".into()),
        temperature: Some(0.5),
        max_tokens: Some(100),
        tools: vec![ToolDefinition {
            name: "look".into(),
            title: None,
            description: "Looks".into(),
            input_schema: json!({"type": "object"}),
            output_schema: None,
            annotations: None,
            cache_control: None,
        }],
        ..CompletionRequest::default()
    };
    assert_eq!(digest::of(&request.view()).unwrap(), "d38ad00af8a1b86e185e5ead1c85b7c1");
    assert_eq!(
        digest::of(&CompletionRequest::default().view()).unwrap(),
        "475a3b6e8226fcfcda4850b6b13a8347"
    );
    let call = ToolCall { id: "a".into(), name: "look".into(), input: json!({"b": 1, "a": "ü"}) };
    assert_eq!(tool_digest(&call).unwrap(), "fc987ca0fd2ca4db50456f553e883938");
}

#[test]
fn digest_covers_the_request_but_not_the_call_id() {
    let request = |text: &str| CompletionRequest {
        messages: vec![Message::user(text)],
        ..CompletionRequest::default()
    };
    assert_eq!(
        digest::of(&request("a").view()).unwrap(),
        digest::of(&request("a").view()).unwrap()
    );
    let changes = [
        request("b"),
        CompletionRequest { system: Some("x".into()), ..request("a") },
        CompletionRequest { temperature: Some(0.0), ..request("a") },
        CompletionRequest { messages: vec![Message::assistant("a")], ..request("a") },
        CompletionRequest { messages: vec![Message::user("a"), Message::user("")], ..request("a") },
    ];
    let digests: Vec<_> =
        changes.iter().map(|request| digest::of(&request.view()).unwrap()).collect();
    for digest in &digests {
        assert_ne!(*digest, digest::of(&request("a").view()).unwrap());
        assert_eq!(digest.len(), 32);
        assert!(digest.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f')), "{digest}");
    }

    let call = |id: &str, name: &str, input: Value| {
        tool_digest(&ToolCall { id: id.into(), name: name.into(), input }).unwrap()
    };
    // The model chooses the id, which differs in each run.
    assert_eq!(call("a", "t", json!({})), call("b", "t", json!({})));
    assert_ne!(call("a", "t", json!({})), call("a", "u", json!({})));
    assert_ne!(call("a", "t", json!({"x": 1})), call("a", "t", json!({"x": 1.0})));
    // The boundary between the name and the arguments is part of the digest.
    assert_ne!(call("", "a", json!("b")), call("", "a\",\"b", json!("")));
}

#[test]
fn unknown_outcome_is_a_tool_result_or_an_error() {
    let output = UnknownOutcome::default().of_call("pay").unwrap();
    assert_eq!(output, outcome_unknown("pay"));
    assert!(output.is_error);
    let ContentItem::Text(text) = &output.content[0] else { panic!("no text") };
    assert!(text.contains("`pay` is unknown") && text.contains("not run again"), "{text}");
    let error = UnknownOutcome::Fail.of_call("pay").unwrap_err();
    assert!(matches!(error, DurableError::Other(_)), "{error:?}");
    assert!(error.to_string().contains("`pay`"), "{error}");
}

fn invocation() -> ToolInvocation {
    let mut ctx = ToolContext {
        cwd: "/srv/agent".into(),
        session_id: "session".into(),
        environment: [("PATH", "/bin"), ("API_KEY", "hunter2"), ("HOME", "/root")]
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .into(),
        call_id: "c1".into(),
        run_id: "run".into(),
        idempotency_key: "run/0/2/1/c1".into(),
        turn: Some(2),
        ..ToolContext::default()
    };
    ctx.extensions.insert("an extension of the caller's".to_owned());
    let call = ToolCall { id: "c1".into(), name: "look".into(), input: json!({"place": "Oslo"}) };
    ToolInvocation::new(call, ctx).with_effect(ToolEffect::Idempotent)
}

#[test]
fn tool_request_contains_only_allowed_variables() {
    let options = ActivityOptions::default();
    let none = ToolRequest::new(&invocation(), options.clone(), &[]);
    assert!(none.environment.is_empty());
    let allowed = ["PATH".to_owned(), "UNSET".to_owned(), "home".to_owned()];
    let request = ToolRequest::new(&invocation(), options, &allowed);
    for request in [none, request] {
        let json = serde_json::to_string(&request).unwrap();
        for secret in ["hunter2", "API_KEY", "/root", "extension"] {
            assert!(!json.contains(secret), "{json}");
        }
        let read: ToolRequest = serde_json::from_str(&json).unwrap();
        assert_eq!(read, request);
        assert_eq!(read.context().environment.len(), request.environment.len());
    }
}

#[test]
fn place_of_a_call_is_its_agent_or_an_error_if_the_agent_is_missing() {
    let tools = || -> Arc<dyn ToolSet> { Arc::new(neuron_tool::ToolRegistry::new()) };
    let options = ActivityOptions::default();
    let mut invocation = invocation();
    let (_, ctx) =
        ToolRequest::new(&invocation, options.clone(), &[]).place(None, tools()).unwrap();
    assert_eq!((ctx.call_id.as_str(), AgentPath::of(&ctx)), ("c1", &[][..]));
    AgentPath::enter(&mut invocation.ctx, "clerk");
    let missing = ToolRequest::new(&invocation, options, &[]).place(None, tools());
    let Err(DurableError::NonDeterminism { expected, .. }) = missing else { panic!("no error") };
    assert_eq!(expected, "the tool `clerk`, an agent");
}

#[test]
fn debug_hides_the_values_of_variables() {
    let mut invocation = invocation();
    invocation.ctx.environment.insert("TOKEN".into(), "hunter2".into());
    let options = ActivityOptions::default();
    let request = ToolRequest::new(&invocation, options, &["TOKEN".to_owned()]);
    assert_eq!(request.environment["TOKEN"], "hunter2");
    let text = format!("{request:?}");
    assert!(text.contains("TOKEN") && !text.contains("hunter2"), "{text}");
}

#[test]
fn context_in_another_process_has_the_same_fields() {
    let allowed = ["PATH".to_owned(), "HOME".to_owned()];
    let invocation = invocation();
    let request = ToolRequest::new(&invocation, ActivityOptions::default(), &allowed);
    assert_eq!(request.call, invocation.call);
    assert_eq!(request.effect, ToolEffect::Idempotent);
    let ctx = request.context();
    assert_eq!(ctx.cwd, Path::new("/srv/agent"));
    assert_eq!((ctx.session_id.as_str(), ctx.run_id.as_str()), ("session", "run"));
    assert_eq!((ctx.call_id.as_str(), ctx.turn), ("c1", Some(2)));
    assert_eq!(ctx.idempotency_key, "run/0/2/1/c1");
    assert_eq!(ctx.environment["PATH"], "/bin");
    assert_eq!(ctx.environment["HOME"], "/root");
    assert!(ctx.extensions.get::<String>().is_none());
    // The new context has its own meter and its own token.
    ctx.usage.add(&TokenUsage { input_tokens: 1, ..TokenUsage::default() });
    assert_eq!(invocation.ctx.usage.total(), TokenUsage::default());
    ctx.cancellation_token.cancel();
    assert!(!invocation.ctx.cancellation_token.is_cancelled());
}

#[test]
fn tool_request_contains_a_nested_approval() {
    let mut invocation = invocation();
    let call = ToolCall { id: "in".into(), name: "wire".into(), input: json!({}) };
    let pending = PendingApproval::new("inner", vec![PendingCall::new(call, "may it?")]);
    let decisions = ApprovalDecisions::new().approve("in");
    let resumed = ResumedApproval::new(pending, decisions);
    invocation.ctx.extensions.insert(resumed.clone());
    let request = ToolRequest::new(&invocation, ActivityOptions::default(), &[]);
    let read: ToolRequest =
        serde_json::from_str(&serde_json::to_string(&request).unwrap()).unwrap();
    assert_eq!(read.context().extensions.get::<ResumedApproval>(), Some(&resumed));
    let before = ToolRequest { resumed: None, ..request.clone() };
    assert_eq!(before.call_id(), request.idempotency_key);
    assert_ne!(request.call_id(), before.call_id());
    assert_eq!(read.call_id(), request.call_id());
}

#[test]
fn effect_is_the_same_for_all_calls_of_an_outermost_run_with_one_key() {
    let call = |tool: &str, key: Option<&str>| {
        let mut invocation = invocation();
        invocation.call.name = tool.into();
        invocation.effect_key = key.map(str::to_owned);
        invocation
    };
    let scope = EffectScope::new("r");
    let effect = scope.effect(&call("pay", Some("17"))).unwrap();
    // Computed with another implementation: printf '%s' '["r","pay","17"]' | sha256sum
    assert_eq!(effect, "40d0b0b59f84b7b9e51bc221ac6e213c2b611748f109c6059368ffa1cb2dc8b5");
    let inside = scope.inside(Some(effect.clone()));
    assert_eq!(inside.effect(&call("pay", Some("17"))), Some(effect.clone()));
    let refused = |scope: &EffectScope| scope.refusal(Some(&effect)).is_some();
    assert_eq!((refused(&inside), refused(&scope)), (true, false));
    assert!(inside.refusal(None).is_none());
    assert_eq!((scope.inside(None), inside.carried), (scope.clone(), vec![effect.clone()]));
    let others = [
        scope.effect(&call("pay", Some("18"))),
        scope.effect(&call("wire", Some("17"))),
        EffectScope::new("s").effect(&call("pay", Some("17"))),
    ];
    assert!(others.iter().all(|other| other.as_ref().is_some_and(|other| *other != effect)));
    assert_eq!(scope.effect(&call("pay", None)), None);

    let snapshot = neuron_types::RunSnapshot::new("first", Vec::new());
    assert_eq!(EffectScope::starting(&snapshot.into(), "second"), EffectScope::new("first"));
    assert_eq!(EffectScope::starting(&"go".into(), "second"), EffectScope::new("second"));
    let nameless = neuron_types::RunSnapshot::new("", Vec::new());
    assert_eq!(EffectScope::starting(&nameless.into(), "second"), EffectScope::new("second"));
}

#[test]
fn serialised_tool_request_is_deterministic() {
    let names: Vec<String> = (0..40).map(|number| format!("NAME_{number}")).collect();
    let json = || {
        let mut invocation = invocation();
        invocation.ctx.environment =
            names.iter().map(|name| (name.clone(), "value".to_owned())).collect();
        let request = ToolRequest::new(&invocation, ActivityOptions::default(), &names);
        serde_json::to_string(&request).unwrap()
    };
    let first = json();
    // The environment of a context is a hash map with a random order.
    assert!((0..20).all(|_| json() == first));
}

#[test]
fn tool_requests_of_other_releases_are_read() {
    let mut json =
        serde_json::to_value(ToolRequest::new(&invocation(), ActivityOptions::default(), &[]))
            .unwrap();
    let fields = json.as_object_mut().unwrap();
    fields.insert("something".into(), json!("new"));
    for old in ["session_id", "turn"] {
        fields.remove(old);
    }
    let read: ToolRequest = serde_json::from_value(json).unwrap();
    assert_eq!((read.session_id.as_str(), read.turn), ("", None));
    assert_eq!(read.idempotency_key, "run/0/2/1/c1");
}

fn any_usage() -> impl Strategy<Value = TokenUsage> {
    let count = || prop_oneof![0..5_usize, any::<u32>().prop_map(|count| count as usize)];
    (count(), count(), proptest::option::of(count())).prop_map(|(input, output, cached)| {
        TokenUsage {
            input_tokens: input,
            output_tokens: output,
            cache_read_tokens: cached,
            ..TokenUsage::default()
        }
    })
}

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_filter("is finite", |number| number.is_finite()).prop_map(Value::from),
        any::<String>().prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 24, 4, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            proptest::collection::vec((any::<String>(), inner), 0..4)
                .prop_map(|fields| Value::Object(fields.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn any_response_round_trips(
        text in any::<String>(),
        call in any::<(String, String)>(),
        input in any_json(),
        usage in any_usage(),
        at in any::<i32>(),
    ) {
        let mut message = Message::assistant(text);
        let (id, name) = call;
        message.content.push(ContentBlock::ToolUse { id, name, input });
        let answer = CompletionResponse { message, usage, ..response("") };
        let at = DateTime::from_timestamp_millis(i64::from(at)).unwrap();
        let read = stored(&StepRecord::of_llm(Ok(answer.clone()), at));
        prop_assert_eq!(read.ended_at(), at);
        prop_assert_eq!(read.into_llm().unwrap(), answer);
    }

    #[test]
    fn any_tool_result_round_trips_within_its_limit(
        text in any::<String>(),
        value in proptest::option::of(any_json()),
        is_error in any::<bool>(),
        usage in any_usage(),
        limit in 0..2000_usize,
    ) {
        // A `null` is stored as a missing value.
        let value = value.filter(|value| !value.is_null());
        let output = ToolOutput { structured_content: value, is_error, ..ToolOutput::text(text) };
        let record = StepRecord::of_tool(Ok(output.clone()), usage.clone(), at());
        prop_assert_eq!(&stored(&record), &record);
        let json = record.to_json_within("fetch", limit).unwrap();
        let read = StepRecord::<ToolOutput>::from_json(&json).unwrap();
        prop_assert_eq!(&read.usage, &usage);
        match read.into_tool_uncounted() {
            Ok(read) => {
                prop_assert!(json.len() <= limit);
                prop_assert_eq!(read, output);
            }
            Err(error) => {
                prop_assert!(record.to_json().unwrap().len() > limit);
                prop_assert!(error.to_string().contains("`fetch`"));
            }
        }
    }

    #[test]
    fn any_bytes_parse_without_a_panic(bytes in any::<Vec<u8>>()) {
        if let Ok(record) = StepRecord::<ToolOutput>::from_json(&bytes) {
            let _ = record.into_tool_uncounted();
        }
    }
}
