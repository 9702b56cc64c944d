//! Registries that defer the definitions of their tools.

use std::collections::BTreeSet;

use neuron_tool::builtin::{OutputFormatter, OutputSpiller};
use neuron_tool::{MemoryOutputStore, ToolRegistry, ToolSearch};
use neuron_types::{
    CALL_TOOL, ContentBlock, ContentItem, Message, RegistryError, Role, SEARCH_TOOLS, ToolContext,
    ToolDefinition, ToolEffect, ToolError, ToolOutput,
};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::support::{async_tool, definition};

/// Registers a tool that returns its own name.
fn register(registry: &mut ToolRegistry, definition: ToolDefinition) {
    let name = definition.name.clone();
    registry.register_dyn(async_tool(definition, ToolEffect::Pure, move |_, _| {
        let name = name.clone();
        Box::pin(async move { Ok(ToolOutput::text(name)) })
    }));
}

/// Returns a registry of tools with these names and descriptions.
fn tools(list: &[(&str, &str)]) -> ToolRegistry {
    let mut registry = ToolRegistry::new();
    for (name, description) in list {
        register(
            &mut registry,
            ToolDefinition { description: (*description).into(), ..definition(name) },
        );
    }
    registry
}

fn deferred(list: &[(&str, &str)], search: ToolSearch) -> ToolRegistry {
    let mut registry = tools(list);
    registry.defer_tools(search).unwrap();
    registry
}

const LIST: [(&str, &str); 4] = [
    ("read_file", "Reads a file"),
    ("create_issue", "Creates an issue"),
    ("list_issues", "Lists all issues"),
    ("send_mail", "Sends a mail"),
];

fn visible(registry: &ToolRegistry) -> Vec<String> {
    registry.visible_definitions().into_iter().map(|tool| tool.name).collect()
}

async fn search(registry: &ToolRegistry, query: &str) -> String {
    let input = json!({ "query": query });
    let output = registry.execute(SEARCH_TOOLS, input, &ToolContext::default()).await.unwrap();
    assert!(!output.is_error);
    let [ContentItem::Text(text)] = &output.content[..] else { panic!("{output:?}") };
    text.clone()
}

/// Returns the messages of one call with its result.
fn exchange(name: &str, input: Value, text: &str, is_error: bool) -> [Message; 2] {
    let call = ContentBlock::ToolUse { id: "1".into(), name: name.into(), input };
    let content = vec![ContentItem::Text(text.into())];
    let result = ContentBlock::ToolResult { tool_use_id: "1".into(), content, is_error };
    [
        Message { role: Role::Assistant, content: vec![call] },
        Message { role: Role::User, content: vec![result] },
    ]
}

fn searched(text: &str) -> [Message; 2] {
    exchange(SEARCH_TOOLS, json!({ "query": "q" }), text, false)
}

#[test]
fn visible_tools_and_search_are_the_definitions_of_a_request() {
    let registry = deferred(&LIST, ToolSearch::new().visible(["send_mail", "later"]));
    assert_eq!(visible(&registry), ["send_mail", SEARCH_TOOLS, CALL_TOOL]);
    assert!(registry.defers_tools());
    assert!(registry.is_deferred("read_file") && !registry.is_deferred("send_mail"));
    assert!(!registry.is_deferred(SEARCH_TOOLS) && !registry.is_deferred("unknown"));
    assert_eq!(registry.len(), 6);
    assert!(registry.definition("read_file").is_some(), "the tool itself stays registered");

    let plain = tools(&LIST);
    assert_eq!(plain.visible_definitions(), plain.definitions());
    assert!(!plain.defers_tools() && !plain.is_deferred("read_file"));
}

#[tokio::test]
async fn search_returns_one_definition_for_each_line() {
    let mut registry = tools(&LIST);
    let schema = json!({
        "type": "object",
        "properties": { "to": { "type": "string", "description": "two\nlines" } },
        "required": ["to"],
    });
    let mail = ToolDefinition { input_schema: schema.clone(), ..definition("send_mail") };
    let mail = ToolDefinition { description: "Sends\na mail".into(), ..mail };
    register(&mut registry, mail.strict().with_vendor_field("openai", "x", 1));
    registry.defer_tools(ToolSearch::new()).unwrap();
    let text = search(&registry, "mail").await;
    let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let expected =
        json!({ "name": "send_mail", "description": "Sends\na mail", "input_schema": schema });
    assert_eq!(lines, [expected], "without the options for vendors");
    assert_eq!(search(&registry, "issue").await.lines().count(), 2);
}

#[tokio::test]
async fn results_and_names_are_limited() {
    let list: Vec<(String, String)> =
        (0..40).map(|number| (format!("tool_{number}"), "Does it".to_owned())).collect();
    let list: Vec<(&str, &str)> =
        list.iter().map(|(name, description)| (&**name, &**description)).collect();
    let text = search(&deferred(&list, ToolSearch::new()), "tool").await;
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len(), 6);
    assert!(lines[0].starts_with(r#"{"name":"tool_0""#), "{text}");
    assert!(lines[5].starts_with("also matching: tool_5, tool_6, "), "{text}");
    assert!(lines[5].ends_with(", tool_24 and 15 more; search for a name to get its definition"));

    let few = ToolSearch::new().max_results(0).max_names(0);
    assert_eq!(search(&deferred(&list, few), "tool").await.lines().count(), 1);
    let few = ToolSearch::new().max_results(2).max_names(1);
    let text = search(&deferred(&list[..3], few), "tool_1").await;
    assert!(text.starts_with(r#"{"name":"tool_1""#), "a whole name comes first: {text}");
    let last = "also matching: tool_2; search for a name to get its definition";
    assert_eq!(text.lines().last(), Some(last));
}

#[tokio::test]
async fn search_without_match_or_query_says_so() {
    let registry = deferred(&LIST, ToolSearch::new().visible(["read_file"]));
    let expected = "none of the 3 tools matches `file`; search for other words of a tool's name or description";
    assert_eq!(search(&registry, "file").await, expected, "visible tools are not searched");
    let text = search(&registry, &"x".repeat(1_000_000)).await;
    assert!(text.len() < 400, "a huge query is not repeated: {}", text.len());
    let text = search(&deferred(&[], ToolSearch::new()), "").await;
    assert!(text.starts_with("none of the 0 tools"), "{text}");
    for input in [json!({}), json!({ "query": 1 }), json!(null)] {
        let ctx = ToolContext::default();
        let error = registry.execute(SEARCH_TOOLS, input, &ctx).await.unwrap_err();
        let expected = "invalid input: `search_tools` needs the string `query`";
        assert_eq!(error.to_string(), expected);
    }
}

#[tokio::test]
async fn search_follows_later_changes_of_the_registry() {
    let mut registry = deferred(&LIST, ToolSearch::new().visible(["shown"]));
    let before = registry.visible_definitions();
    register(&mut registry, ToolDefinition { description: "Adds".into(), ..definition("add") });
    assert!(search(&registry, "add").await.contains(r#""name":"add""#));
    register(&mut registry, ToolDefinition { description: "Sums".into(), ..definition("add") });
    assert!(search(&registry, "add").await.contains(r#""description":"Sums""#));
    registry.merge_prefixed("github_", tools(&[("star", "Stars a repository")])).unwrap();
    assert!(search(&registry, "star").await.contains(r#""name":"github_star""#));
    registry.remove("add").unwrap();
    assert!(search(&registry, "add").await.starts_with("none of"));
    assert_eq!(registry.visible_definitions(), before, "no change of the request");
    register(&mut registry, definition("shown"));
    assert_eq!(visible(&registry), [SEARCH_TOOLS, CALL_TOOL, "shown"]);

    let copy = registry.clone();
    registry.remove("send_mail").unwrap();
    assert!(search(&copy, "mail").await.contains("send_mail"), "a copy does not change");
    registry.defer_tools(ToolSearch::new().visible(["create_issue"])).unwrap();
    assert!(!registry.is_deferred("create_issue") && registry.is_deferred("shown"));
}

#[test]
fn taken_names_are_an_error() {
    for name in [SEARCH_TOOLS, CALL_TOOL] {
        let mut registry = tools(&[(name, "")]);
        let error = registry.defer_tools(ToolSearch::new()).unwrap_err();
        assert_eq!(error, RegistryError::NameTaken { name: name.into() });
        assert!(!registry.defers_tools() && registry.len() == 1);

        let mut registry = deferred(&LIST, ToolSearch::new());
        let own = registry.definition(name).unwrap().clone();
        register(&mut registry, definition(name));
        assert_eq!(registry.definition(name), Some(&own), "the tool is left out");
    }
}

#[test]
fn deferring_registry_is_not_merged() {
    let mut registry = tools(&[("a", "")]);
    let error = registry.merge_prefixed("b_", deferred(&LIST, ToolSearch::new())).unwrap_err();
    assert_eq!(error, RegistryError::DefersTools);
    assert_eq!(registry.len(), 1);
}

#[test]
fn removing_the_search_makes_all_tools_visible() {
    for name in [SEARCH_TOOLS, CALL_TOOL] {
        let mut registry = deferred(&LIST, ToolSearch::new());
        assert_eq!(registry.remove(name).unwrap().name(), name);
        assert_eq!(registry.definitions(), tools(&LIST).definitions());
        assert_eq!(registry.visible_definitions(), registry.definitions());
        assert!(registry.found_tools(&searched(r#"{"name":"read_file"}"#)).is_empty());
    }
}

#[tokio::test]
async fn found_tools_follow_from_successful_results() {
    let registry = deferred(&LIST, ToolSearch::new().visible(["read_file"]));
    let text = search(&registry, "issue").await;
    let found = |messages: &[Message]| registry.found_tools(messages);
    assert_eq!(found(&[]), [""; 0]);
    assert_eq!(found(&searched(&text)), ["create_issue", "list_issues"]);
    let twice = [searched(&search(&registry, "mail").await), searched(&text)].concat();
    assert_eq!(found(&twice), ["send_mail", "create_issue", "list_issues"]);
    // Through the other tool of the search.
    let input = json!({ "name": SEARCH_TOOLS, "arguments": { "query": "issue" } });
    assert_eq!(found(&exchange(CALL_TOOL, input, &text, false)).len(), 2);

    // A middleware may shorten the result.
    let cut = &text[..text.len() - 3];
    assert_eq!(found(&searched(cut)), ["create_issue"]);
    for end in 0..text.len() {
        assert!(found(&searched(&text[..end])).len() <= 2);
    }

    let none: [&[Message]; 5] = [
        &exchange(SEARCH_TOOLS, json!({ "query": "issue" }), &text, true),
        &exchange("send_mail", json!({}), &text, false),
        &searched("create_issue"),
        &searched(r#"{"name":"unknown"}"#),
        &searched(r#"{"name":"read_file"}"#),
    ];
    for messages in none {
        assert_eq!(found(messages), [""; 0], "{messages:?}");
    }
    // The id of the search is used again by a call of another tool.
    let [call, _] = searched("");
    let [other, result] = exchange("send_mail", json!({}), &text, false);
    assert_eq!(found(&[call, other, result]), [""; 0]);
}

#[tokio::test]
async fn output_limits_keep_whole_definitions() {
    let description = "Sends. ".repeat(1_000);
    let list = [("send_mail", description.as_str()), ("read_file", "Reads")];
    let limits: [fn(&mut ToolRegistry); 2] = [
        |registry| {
            registry.add_middleware(OutputFormatter::new(50));
        },
        |registry| {
            let spiller = OutputSpiller::new(MemoryOutputStore::new(), 50);
            registry.add_middleware(spiller);
        },
    ];
    for limit in limits {
        let mut registry = deferred(&list, ToolSearch::new());
        limit(&mut registry);
        let text = search(&registry, "mail").await;
        assert_eq!(registry.found_tools(&searched(&text)), ["send_mail"]);
        let [call, _] = exchange("send_mail", json!({}), "", false);
        assert_eq!(registry.calls_not_found(&searched(&text), &call), [""; 0]);
    }
}

/// Regression test. The reader of stored outputs was deferred, although the notice in an output tells the model to call
/// it.
#[test]
fn reader_of_stored_outputs_stays_visible() {
    let spiller = OutputSpiller::new(MemoryOutputStore::new(), 50);
    let mut registry = tools(&LIST);
    registry.register_dyn(std::sync::Arc::new(spiller.reader()));
    registry.add_middleware(spiller);
    for search in [ToolSearch::new(), ToolSearch::default().visible(["read_file"])] {
        registry.defer_tools(search).unwrap();
        assert!(visible(&registry).contains(&"read_output".to_owned()));
        let [call, _] = exchange("read_output", json!({}), "", false);
        assert_eq!(registry.calls_not_found(&[], &call), [""; 0]);
    }
}

/// Regression test. The limits of outputs did not apply to any tool with the name of the search. An MCP server may have
/// such a tool.
#[tokio::test]
async fn output_limits_apply_to_other_tools_with_the_name_of_the_search() {
    let long = || {
        async_tool(definition(SEARCH_TOOLS), ToolEffect::Pure, |_, _| {
            Box::pin(async { Ok(ToolOutput::text("x".repeat(1_000))) })
        })
    };
    let is_limited = async |registry: ToolRegistry| {
        let ctx = ToolContext::default();
        let output = registry.execute(SEARCH_TOOLS, json!({}), &ctx).await.unwrap();
        output.content[0].to_string().len() < 200
    };
    for is_merged in [false, true] {
        let registry = || {
            let mut registry = ToolRegistry::new();
            registry.register_dyn(long());
            if is_merged {
                let inner = std::mem::take(&mut registry);
                registry.merge(inner).unwrap();
            }
            registry
        };
        let mut formatted = registry();
        formatted.add_middleware(OutputFormatter::new(50));
        assert!(is_limited(formatted).await);
        let mut spilled = registry();
        spilled.add_middleware(OutputSpiller::new(MemoryOutputStore::new(), 50));
        assert!(is_limited(spilled).await);
    }
}

#[tokio::test]
async fn calls_not_found_do_not_depend_on_the_registered_tools() {
    let registry = deferred(&LIST, ToolSearch::new().visible(["read_file", "later"]));
    let text = search(&registry, "issue").await;
    let through =
        |name: &str| exchange(CALL_TOOL, json!({ "name": name, "arguments": {} }), "", false);
    let mut other = deferred(&[], ToolSearch::new().visible(["read_file", "later"]));
    register(&mut other, definition("send_mail"));
    let mail = [searched(&text), searched(r#"{"name":"send_mail"}"#)].concat();
    let cut = searched(&text[..text.len() - 3]);
    for (before, name, is_found) in [
        (&searched(&text)[..], "create_issue", true),
        (&searched(&text)[..], "send_mail", false),
        (&searched(&text)[..], "unknown", false),
        (&mail[..], "create_issue", true),
        (&mail[..], "send_mail", true),
        (&cut[..], "create_issue", true),
        (&cut[..], "list_issues", false),
        (&searched(r#"{"name":"x","description":"\"send_mail\""}"#)[..], "send_mail", false),
        (&[], "create_issue", false),
        (&[], "read_file", true),
        (&[], "later", true),
        (&[], SEARCH_TOOLS, true),
        (&[], CALL_TOOL, true),
    ] {
        for [response, _] in [exchange(name, json!({}), "", false), through(name)] {
            let expected: &[&str] = if is_found { &[] } else { &[name] };
            assert_eq!(registry.calls_not_found(before, &response), expected, "{name}");
            assert_eq!(other.calls_not_found(before, &response), expected, "{name}");
            assert_eq!(tools(&LIST).calls_not_found(before, &response), [""; 0]);
        }
    }
}

#[tokio::test]
async fn call_tool_by_itself_is_an_error_that_names_the_cause() {
    let registry = deferred(&LIST, ToolSearch::new());
    for (input, expected) in [
        (json!({}), "`call_tool` needs the string `name`"),
        (json!({ "name": "send_mail", "arguments": "{}" }), "`call_tool` needs the string `name`"),
        (
            json!({ "name": "send_mail", "arguments": {} }),
            "`call_tool` does not run a tool by itself",
        ),
        (
            json!({ "name": CALL_TOOL, "arguments": {} }),
            "`call_tool` does not run a tool by itself",
        ),
    ] {
        let ctx = ToolContext::default();
        let error = registry.execute(CALL_TOOL, input.clone(), &ctx).await.unwrap_err();
        let ToolError::InvalidInput(text) = error else { panic!("{error}") };
        assert!(text.starts_with(expected), "{input}: {text}");
        assert!(registry.get(CALL_TOOL).unwrap().check_input(&input).is_err());
    }
}

#[tokio::test]
async fn thousand_tools_take_few_bytes() {
    let list: Vec<(String, String)> = (0..1_000)
        .map(|number| {
            (format!("server_{number}_act"), format!("Does {number}. {}", "x".repeat(300)))
        })
        .collect();
    let list: Vec<(&str, &str)> =
        list.iter().map(|(name, description)| (&**name, &**description)).collect();
    let size = |registry: &ToolRegistry| {
        serde_json::to_string(&registry.visible_definitions()).unwrap().len()
    };
    let (small, large) =
        (deferred(&list[..10], ToolSearch::new()), deferred(&list, ToolSearch::new()));
    assert_eq!(size(&small), size(&large), "the size does not depend on the number of tools");
    assert!(size(&large) < 1_500, "{}", size(&large));
    assert!(size(&tools(&list)) > 300_000);
    let text = search(&large, "server act").await;
    assert!(text.len() < 5 * 450 + 500, "{}", text.len());
    assert!(search(&large, "server 777").await.starts_with(r#"{"name":"server_777_act""#));
}

proptest! {
    #[test]
    fn found_tools_depend_only_on_the_conversation(
        texts in proptest::collection::vec(
            (proptest::sample::subsequence(LIST.to_vec(), 0..4), any::<bool>(), any::<bool>()),
            0..8,
        ),
    ) {
        let registry = deferred(&LIST, ToolSearch::new());
        let mut reversed = LIST;
        reversed.reverse();
        let other = deferred(&reversed, ToolSearch::new().max_results(1));
        let mut messages = Vec::new();
        let mut expected = BTreeSet::new();
        let mut before: Vec<String> = Vec::new();
        for (found, is_search, is_error) in texts {
            let lines: Vec<String> =
                found.iter().map(|(name, _)| json!({ "name": name }).to_string()).collect();
            let name = if is_search { SEARCH_TOOLS } else { "send_mail" };
            messages.extend(exchange(name, json!({}), &lines.join("\n"), is_error));
            if is_search && !is_error {
                expected.extend(found.iter().map(|(name, _)| (*name).to_owned()));
            }
            let now = registry.found_tools(&messages);
            for (name, _) in LIST {
                let [response, _] = exchange(name, json!({}), "", false);
                let missing = registry.calls_not_found(&messages, &response);
                prop_assert_eq!(missing.is_empty(), now.iter().any(|found| found == name));
            }
            prop_assert!(now.starts_with(&before), "a longer conversation only adds tools");
            prop_assert_eq!(&now, &other.found_tools(&messages), "another process agrees");
            prop_assert_eq!(now.iter().cloned().collect::<BTreeSet<_>>(), expected.clone());
            before = now;
        }
        let stored = serde_json::to_string(&messages).unwrap();
        let loaded: Vec<Message> = serde_json::from_str(&stored).unwrap();
        prop_assert_eq!(registry.found_tools(&loaded), before, "a loaded session agrees");
    }
}

/// Regression test. Before the fix, each registration serialised the definitions of all earlier tools.
#[test]
fn registration_does_not_read_the_other_definitions_for_the_vendor() {
    let mut registry = deferred(&LIST[..1], ToolSearch::new().prefer_vendor());
    for (name, _) in &LIST[1..] {
        register(&mut registry, definition(name));
        let search = registry.definition(SEARCH_TOOLS).unwrap();
        assert_eq!(search.deferred_tools(), []);
    }
    let deferred = |registry: &ToolRegistry| {
        let search = registry.visible_definitions().swap_remove(0);
        assert_eq!(search.name, SEARCH_TOOLS);
        search.deferred_tools().into_iter().map(|tool| tool.name).collect::<Vec<_>>()
    };
    assert_eq!(deferred(&registry), LIST.map(|(name, _)| name));
    registry.remove("read_file").unwrap();
    assert_eq!(deferred(&registry), LIST[1..].iter().map(|(name, _)| *name).collect::<Vec<_>>());
}

#[test]
fn with_the_vendors_search_only_calls_through_call_tool_must_be_found() {
    let registry = deferred(&LIST, ToolSearch::new().visible(["read_file"]).prefer_vendor());
    assert!(registry.prefers_vendor_search());
    assert!(!deferred(&LIST, ToolSearch::new()).prefers_vendor_search());
    assert_eq!(visible(&registry), ["read_file", SEARCH_TOOLS, CALL_TOOL]);
    let through = json!({ "name": "send_mail", "arguments": {} });
    let calls = [("send_mail", json!({})), ("nothing", json!({})), (CALL_TOOL, through)];
    let content = calls.map(|(name, input)| ContentBlock::ToolUse {
        id: name.into(),
        name: name.into(),
        input,
    });
    let [direct, unknown, through] = content;
    let missing = |before: &[Message], content: &[&ContentBlock]| {
        let content = content.iter().copied().cloned().collect();
        registry.calls_not_found(before, &Message { role: Role::Assistant, content })
    };
    assert_eq!(missing(&[], &[&direct, &unknown]), [""; 0]);
    assert_eq!(missing(&[], &[&direct, &through]), ["send_mail"]);
    let found = searched(r#"{"name":"send_mail"}"#);
    assert_eq!(missing(&found, &[&through]), [""; 0]);
}
