//! Tests of prefixes, conversations and vendors' rules without an agent.

use std::time::Duration;

use neuron_types::{
    CALL_TOOL, CacheControl, CacheTtl, CompletionRequest, ContentBlock, ContextEdit,
    ContextManagement, HistoryKey, HookScope, Message, OperationKind, Outcome, RequestRef, Role,
    SEARCH_TOOLS, SystemBlock, SystemPrompt, TokenUsage, ToolChoice, ToolDefinition,
    UsageIteration,
};
use proptest::prelude::*;
use serde_json::json;

use super::prefix::{Followed, Prefix};
use super::vendor::Removal;
use super::*;

fn tool(name: &str, description: &str) -> ToolDefinition {
    ToolDefinition {
        name: name.into(),
        title: None,
        description: description.into(),
        input_schema: json!({ "type": "object" }),
        output_schema: None,
        annotations: None,
        cache_control: None,
    }
}

/// Texts with common beginnings, characters of several bytes, and characters that JSON escapes.
fn text() -> impl Strategy<Value = String> {
    "[aé\"\\\\]{0,3}"
}

fn message() -> impl Strategy<Value = Message> {
    let block = prop_oneof![
        text().prop_map(ContentBlock::Text),
        text().prop_map(|text| ContentBlock::ToolUse {
            id: "c".into(),
            name: "t".into(),
            input: json!({ "x": [text], "y": 1 }),
        }),
    ];
    let role = prop_oneof![Just(Role::User), Just(Role::Assistant)];
    (role, prop::collection::vec(block, 0..3)).prop_map(|(role, content)| Message { role, content })
}

fn request() -> impl Strategy<Value = CompletionRequest> {
    let tools = prop::collection::vec(("[ab]", text()), 0..3);
    let system = prop::option::of(text());
    let choice = prop::option::of(prop_oneof![Just(ToolChoice::None), Just(ToolChoice::Auto)]);
    let messages = prop::collection::vec(message(), 0..4);
    (tools, system, choice, messages).prop_map(|(tools, system, tool_choice, messages)| {
        CompletionRequest {
            tools: tools.iter().map(|(name, text)| tool(name, text)).collect(),
            system: system.map(SystemPrompt::from),
            tool_choice,
            messages,
            ..Default::default()
        }
    })
}

/// Two requests, which are equal in random parts.
fn pair() -> impl Strategy<Value = (CompletionRequest, CompletionRequest)> {
    (request(), request(), any::<[bool; 4]>(), 0..4_usize).prop_map(|(a, b, same, kept)| {
        let mut next = b;
        if same[0] {
            next.tools.clone_from(&a.tools);
        }
        if same[1] {
            next.system.clone_from(&a.system);
        }
        if same[2] {
            next.tool_choice.clone_from(&a.tool_choice);
        }
        if same[3] {
            next.messages.splice(..0, a.messages.iter().take(kept).cloned());
        }
        (a, next)
    })
}

/// Returns the first byte that differs, or the length of the shorter text. Returns `None` if `b` starts with `a`.
fn naive_difference(a: &[u8], b: &[u8]) -> Option<usize> {
    (0..a.len()).find(|index| a.get(*index) != b.get(*index))
}

#[track_caller]
fn check_followed(previous: RequestRef<'_>, next: RequestRef<'_>) {
    let (old, new) = (Prefix::of(previous).unwrap(), Prefix::of(next).unwrap());
    let followed = old.follow(next).unwrap();
    let change = match &followed {
        Followed::Extended { .. } => None,
        Followed::Different(next) => Some(old.change(next)),
    };
    let found = change.as_ref().map(|change| change.offset);
    assert_eq!(found, naive_difference(old.json(), new.json()));
    let text = |prefix: &Prefix| String::from_utf8(prefix.json().to_vec()).unwrap();
    if let Some(change) = change {
        assert!(!change.path.is_empty(), "{} {}", text(&old), text(&new));
    }
    assert!(matches!(old.follow(previous).unwrap(), Followed::Extended { .. }));
    let prefix = old.followed_by(followed);
    assert_eq!((text(&prefix), prefix.messages), (text(&new), new.messages));
    assert!(matches!(prefix.follow(next).unwrap(), Followed::Extended { .. }));
}

proptest! {
    #[test]
    fn offset_of_a_change_is_the_first_difference_of_the_json((previous, next) in pair()) {
        check_followed(previous.view(), next.view());
    }

    /// With a key, only the new messages are serialised, so the result must be the same.
    #[test]
    fn requests_with_a_key_are_compared_like_requests_without(
        (previous, next) in pair(),
        new in prop::collection::vec(message(), 0..3),
    ) {
        let key = HistoryKey::unique();
        let messages = [&*previous.messages, &*new].concat();
        let next = RequestRef { messages: &messages, ..next.view() };
        check_followed(previous.view().with_history(key), next.with_history(key));
    }
}

/// The key guarantees equal messages. Different messages show that the detector does not read them again.
#[test]
fn messages_with_a_known_key_are_not_read_again() {
    let (key, other) = (HistoryKey::unique(), HistoryKey::unique());
    let (old, new) = ([Message::user("a")], [Message::user("b"), Message::user("c")]);
    let request = RequestRef { messages: &old, ..Default::default() };
    let next = RequestRef { messages: &new, ..Default::default() };
    for (key, next, is_extended) in [
        (Some(key), next.with_history(key), true),
        (Some(key), next.with_history(other), false),
        (None, next, false),
    ] {
        let request = key.map_or(request, |key| request.with_history(key));
        let followed = Prefix::of(request).unwrap().follow(next).unwrap();
        assert_eq!(matches!(followed, Followed::Extended { .. }), is_extended);
    }
}

#[track_caller]
fn check_change(
    previous: &CompletionRequest,
    current: &CompletionRequest,
    part: PrefixPart,
    path: &str,
    offset: usize,
) {
    let [previous, current] = [previous, current].map(|it| Prefix::of(it.view()).unwrap());
    let change = previous.change(&current);
    assert_eq!((change.part, &*change.path, change.offset_in_value), (part, path, offset));
}

#[test]
fn change_has_its_part_path_and_offset() {
    let request = |tools: &[ToolDefinition], system: &str, messages: &[Message]| {
        let (tools, messages) = (tools.to_vec(), messages.to_vec());
        let system = Some(SystemPrompt::from(system.to_owned()));
        CompletionRequest { tools, system, messages, ..Default::default() }
    };
    let named = |name: &str| PrefixPart::Tool { name: name.into() };
    let message = |index| PrefixPart::Message { index };
    let setting = |name: &str| PrefixPart::Setting { name: name.into() };
    let [a, b] = ["a", "b"].map(|name| tool(name, "x"));
    let both = [a.clone(), b.clone()];
    let said = [Message::user("one"), Message::user("two")];
    let base = request(&both, "hi", &said);
    let one = request(std::slice::from_ref(&a), "hi", &said);
    check_change(&base, &request(&[b.clone(), a], "", &[]), named("b"), "tools[0].name", 0);
    check_change(&base, &one, named("b"), "tools[1]", 0);
    check_change(&one, &base, named("b"), "tools[1]", 0);
    check_change(&request(&[], "hi", &[]), &one, named("a"), "tools[0]", 0);
    let other = request(&[tool("a", "y"), b], "hi", &said);
    check_change(&base, &other, named("a"), "tools[0].description", 0);
    check_change(&base, &request(&both, "ho", &said), PrefixPart::System, "system[0]", 1);
    let choice = |choice| CompletionRequest { tool_choice: Some(choice), ..base.clone() };
    let (none, auto) = (choice(ToolChoice::None), choice(ToolChoice::Auto));
    check_change(&base, &none, setting(""), "settings", 1);
    check_change(&none, &base, setting(""), "settings", 1);
    check_change(&none, &auto, setting("tool_choice"), "settings.tool_choice.type", 0);
    check_change(&base, &request(&both, "hi", &said[..1]), message(1), "messages[1]", 0);
    let call = |input: serde_json::Value| {
        let call = ContentBlock::ToolUse { id: "c".into(), name: "t".into(), input };
        let call = Message { role: Role::Assistant, content: vec![call] };
        request(&both, "hi", &[said[0].clone(), call])
    };
    let (x, y) = (call(json!({ "a b": ["\"x"] })), call(json!({ "a b": ["\"y"] })));
    check_change(&x, &y, message(1), r#"messages[1].content[0].input["a b"][0]"#, 2);
    // The model's cache depends on the order of the keys.
    let (x, y) = (call(json!({ "x": 1, "y": 2 })), call(json!({ "y": 2, "x": 1 })));
    check_change(&x, &y, message(1), "messages[1].content[0].input", 2);
}

#[test]
fn prefix_has_no_breakpoints_and_no_marks() {
    let cache_control = Some(CacheControl::default());
    let blocks = vec![SystemBlock { text: "s".into(), cache_control }];
    let request = CompletionRequest {
        messages: vec![Message::user("hi").pinned()],
        system: Some(blocks.into()),
        tools: vec![ToolDefinition { cache_control, ..tool("a", "d") }],
        max_tokens: Some(1),
        tool_choice: Some(ToolChoice::Auto),
        ..Default::default()
    };
    let json = Prefix::of(request.view()).unwrap().json().to_vec();
    assert_eq!(
        String::from_utf8(json).unwrap(),
        r#"{"tools":[{"name":"a","description":"d","input_schema":{"type":"object"}}],"system":["s"],"settings":{"tool_choice":{"type":"auto"}},"messages":[{"role":"user","content":[{"type":"text","text":"hi"}]}"#
    );
}

/// Regression test. Before the fix, a change of the deferred tools was a change of `search_tools`, and the prefix
/// contained their definitions.
#[test]
fn only_the_parts_of_deferred_tools_that_are_in_the_prompt_are_compared() {
    let json = |provider, name, schema| {
        let deferred = ToolDefinition { input_schema: schema, ..tool(name, "d") };
        let search = tool(SEARCH_TOOLS, "s").with_deferred_tools(&[deferred]);
        let tools = [tool("look", "l"), search, tool(CALL_TOOL, "c")];
        let request = RequestRef { tools: &tools, ..Default::default() };
        let tools = vendor::tools_in_prompt(provider, request);
        let prefix = Prefix::of(RequestRef { tools: &tools, ..request }).unwrap();
        String::from_utf8(prefix.json().to_vec()).unwrap()
    };
    let (object, string) = (|| json!({ "type": "object" }), || json!({ "type": "string" }));
    let anthropic = json("anthropic", "a", object());
    assert_eq!(anthropic, json("anthropic", "b", string()));
    assert!(!anthropic.contains(r#""a""#), "{anthropic}");
    let openai = json("openai", "a", object());
    assert_eq!(openai, json("openai", "a", string()));
    assert_ne!(openai, json("openai", "b", object()));
    let named = r#",{"name":"a","description":"d","input_schema":null}],"system""#;
    assert!(openai.contains(named), "{openai}");
}

#[test]
fn cached_tokens_depend_on_the_vendor() {
    let cached = |provider: &str, input, read, written| {
        let usage = TokenUsage {
            input_tokens: input,
            cache_read_tokens: read,
            cache_creation_tokens: written,
            ..Default::default()
        };
        vendor::passes(&usage).1.cached(provider, 1_024)
    };
    for (provider, input, read, written, expected) in [
        ("anthropic", 5_000, Some(3_000), Some(1_000), 4_000),
        // Nothing is cached without a breakpoint, or below the model's minimum.
        ("anthropic", 5_000, Some(0), Some(0), 0),
        ("aws.bedrock", 5_000, None, None, 0),
        ("openai", 5_000, Some(0), None, 2_500),
        ("openai", 5_000, Some(3_000), Some(1_000), 2_000),
        ("openai", 5_000, Some(0), Some(0), 2_500),
        ("openai", 1_023, Some(0), None, 0),
        ("other", 5_000, Some(0), Some(0), 0),
        ("other", 5_000, Some(1), None, 2_500),
    ] {
        assert_eq!(cached(provider, input, read, written), expected, "{provider} {input}");
    }
}

#[test]
fn call_with_several_passes_reads_in_the_first_and_writes_in_the_last() {
    let pass = |kind: &str, input_tokens, read| UsageIteration {
        kind: kind.into(),
        input_tokens,
        cache_read_tokens: Some(read),
        cache_creation_tokens: Some(10),
        ..Default::default()
    };
    let usage = TokenUsage {
        input_tokens: 600,
        cache_read_tokens: Some(300),
        iterations: Some(vec![
            pass("compaction", 100, 1),
            pass("message", 200, 100),
            pass("message", 300, 200),
        ]),
        ..Default::default()
    };
    let (first, last) = vendor::passes(&usage);
    assert_eq!((first.input, first.read), (200, Some(100)));
    assert_eq!(last.cached("anthropic", 0), 210);
    let hour = CacheControl { ttl: Some(CacheTtl::OneHour) };
    assert_eq!(vendor::lifetime(Some(hour)), Duration::from_secs(3_600));
}

/// Runs one model call in a run of its own, and returns the sizes of the detector's maps while the run is open.
fn call(detector: &CacheMissDetector, session: &str, run_id: &str, first: &str) -> (usize, usize) {
    let scope = HookScope::new(run_id, 0, "openai", "m");
    let messages = [Message::user(first)];
    let request = RequestRef { messages: &messages, ..Default::default() };
    let open = |kind| detector.scope(&Operation::new(scope, kind)).unwrap();
    let run = open(OperationKind::Run { session_id: session, request: &request });
    let call = open(OperationKind::ModelCall { request: &request, streaming: false });
    let response = neuron_types::CompletionResponse {
        id: String::new(),
        model: String::new(),
        message: Message::assistant("a"),
        usage: TokenUsage::default(),
        stop_reason: neuron_types::StopReason::EndTurn,
    };
    call.end(Outcome::Response(&response));
    let sizes = detector.shared.lock().len();
    drop(run);
    sizes
}

#[test]
fn conversations_between_runs_are_bounded_by_their_bytes() {
    let size = Prefix::of(RequestRef { messages: &[Message::user("00")], ..Default::default() });
    let size = size.unwrap().json().len();
    let detector = CacheMissDetector::new();
    detector.shared.lock().set_max_idle_bytes(size * 3);
    for number in 0..50 {
        call(&detector, "", "run", &format!("{number:02}"));
        assert_eq!(detector.shared.lock().len(), (0, (number + 1).min(3)));
    }
    // The oldest are dropped, and a run continues the conversation that it starts with.
    let run = |first: &str| {
        let messages = [Message::user(first), Message::assistant("a"), Message::user("more")];
        let request = RequestRef { messages: &messages, ..Default::default() };
        let kind = OperationKind::Run { session_id: "", request: &request };
        let run = detector.scope(&Operation::new(HookScope::new("run", 0, "openai", "m"), kind));
        let sizes = detector.shared.lock().len();
        drop(run);
        sizes
    };
    assert_eq!(run("46"), (1, 3));
    assert_eq!(run("49"), (1, 2));
    let none = CacheMissDetector::new();
    none.shared.lock().set_max_idle_bytes(0);
    call(&none, "session", "run", "a");
    assert_eq!(none.shared.lock().len(), (0, 0));
}

/// Regression test. Before the fix, a run with another agent's first message continued the conversation of that agent.
#[test]
fn run_with_the_same_messages_alone_is_a_new_conversation() {
    let detector = CacheMissDetector::new();
    for idle in 0..3 {
        assert_eq!(call(&detector, "", "run", "go"), (1, idle));
    }
}

#[test]
fn session_continues_whatever_its_messages_are() {
    let detector = CacheMissDetector::new();
    for (session, text, idle) in [("s", "a", 0), ("s", "b", 0), ("t", "b", 1), ("", "b", 2)] {
        assert_eq!(call(&detector, session, "run", text), (1, idle), "{session} {text}");
    }
}

#[test]
fn dropped_run_with_the_id_of_another_keeps_its_conversation() {
    let detector = CacheMissDetector::new();
    let scope = HookScope::new("run", 0, "openai", "m");
    let request = RequestRef::default();
    let kind = OperationKind::Run { session_id: "", request: &request };
    let open = || detector.scope(&Operation::new(scope, kind)).unwrap();
    let (first, second) = (open(), open());
    drop(first);
    assert_eq!(detector.shared.lock().len(), (1, 0));
    drop(second);
    assert_eq!(detector.shared.lock().len(), (0, 0));
}

#[test]
fn agent_inside_a_tool_call_does_not_continue_the_session() {
    let detector = CacheMissDetector::new();
    call(&detector, "session", "run", "a");
    let outer = neuron_types::OuterCall::new("run", "call", 1);
    let scope = HookScope::new("inner", 0, "openai", "m").with_outer_call(Some(outer));
    let messages = [Message::user("b")];
    let request = RequestRef { messages: &messages, ..Default::default() };
    let kind = OperationKind::Run { session_id: "session", request: &request };
    let run = detector.scope(&Operation::new(scope, kind));
    assert_eq!(detector.shared.lock().len(), (1, 1));
    drop(run);
}

#[test]
fn replayed_call_is_not_compared() {
    let detector = CacheMissDetector::new();
    let scope = HookScope::new("run", 0, "openai", "m").with_replaying(true);
    let request = RequestRef::default();
    let kind = OperationKind::Run { session_id: "", request: &request };
    let run = detector.scope(&Operation::new(scope, kind));
    call(&detector, "", "run", "a");
    assert!(detector.shared.lock().has_last("run"));
    let kind = OperationKind::ModelCall { request: &request, streaming: false };
    assert!(detector.scope(&Operation::new(scope, kind)).is_none());
    assert!(!detector.shared.lock().has_last("run"));
    drop(run);
}

#[test]
fn vendor_removes_parts_only_as_documented() {
    let raw =
        |json: serde_json::Value| ContextManagement { edits: vec![ContextEdit::Raw { json }] };
    let thinking = ContentBlock::RedactedThinking { data: "hm".into() };
    let call = ContentBlock::ToolUse { id: "c".into(), name: "t".into(), input: json!({}) };
    let result =
        ContentBlock::ToolResult { tool_use_id: "c".into(), content: vec![], is_error: false };
    let result = Message { role: Role::User, content: vec![result] };
    let thought = |block: ContentBlock| Message { role: Role::Assistant, content: vec![block] };
    let asked = |first: ContentBlock, last: &Message| {
        vec![
            Message::user("a"),
            thought(first),
            result.clone(),
            thought(call.clone()),
            last.clone(),
        ]
    };
    let removal = |messages: &[Message], edits: Option<&ContextManagement>| {
        let context_management = edits;
        Removal::of(RequestRef { messages, context_management, ..Default::default() }, 3)
    };
    let (before, input) = (asked(thinking.clone(), &result), Message::user("b"));
    let after = asked(thinking, &input);
    assert_eq!(removal(&before, None), None);
    assert_eq!(removal(&asked(call.clone(), &input), None), None);
    assert_eq!(removal(&after, None), Some(Removal::EarlierThinking));
    let keeps = raw(json!({ "type": "clear_thinking_20251015", "keep": "all" }));
    assert_eq!(removal(&after, Some(&keeps)), None);
    let clears = raw(json!({ "type": "clear_tool_uses_20250919", "keep": { "value": 1 } }));
    assert_eq!(removal(&before, Some(&clears)), Some(Removal::Requested));
    let other = raw(json!({ "type": "compact_20260112" }));
    assert_eq!(removal(&before, Some(&other)), None);
    // Fewer messages than the previous request had.
    assert_eq!(removal(&before[..2], None), None);

    for (provider, model, requested, earlier) in [
        ("anthropic", "claude-sonnet-4-5-20250929", true, true),
        ("anthropic", "claude-haiku-4-5", true, true),
        ("anthropic", "claude-opus-4-20250514", true, true),
        ("anthropic", "claude-sonnet-4@20250514", true, true),
        ("aws.bedrock", "us.anthropic.claude-3-7-sonnet-20250219-v1:0", true, true),
        ("anthropic", "claude-opus-4-5-20251101", true, false),
        ("anthropic", "claude-sonnet-4-6", true, false),
        ("anthropic", "claude-haiku-5-5", true, false),
        ("openai", "claude-3", false, false),
    ] {
        assert_eq!(Removal::Requested.is_made_by(provider, model), requested, "{model}");
        assert_eq!(Removal::EarlierThinking.is_made_by(provider, model), earlier, "{model}");
    }
}
