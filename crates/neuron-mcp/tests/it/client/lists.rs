//! Tests of paginated lists, including lists that never end.

use std::time::Duration;

use neuron_mcp::{McpClient, McpError, McpTimeout};
use serde_json::{Value, json};

use super::{connected, connected_to, connected_to_modern};
use crate::script::Script;

/// Serves a list in `pages` pages. Returns the cursors that the client sent.
///
/// `page` returns the page with a number, counted from zero, and the cursor of the next page. The cursor is `None` for
/// the last page.
async fn serve_pages(
    server: &mut Script,
    method: &str,
    pages: usize,
    page: impl Fn(usize) -> (Value, Option<String>),
) -> Vec<Value> {
    let mut cursors = Vec::new();
    for number in 0..pages {
        let request = server.expect(method).await;
        cursors.push(request["params"]["cursor"].clone());
        let (mut result, next) = page(number);
        if let Some(next) = next {
            result["nextCursor"] = next.into();
        }
        server.reply(&request, result).await;
    }
    cursors
}

fn tool(number: usize) -> Value {
    json!({ "tools": [{ "name": format!("tool-{number}"), "inputSchema": { "type": "object" } }] })
}

#[tokio::test]
async fn page_has_the_cursor_of_the_next_page() {
    let (client, mut server) = connected(McpClient::builder()).await;
    let serving = serve_pages(&mut server, "tools/list", 1, |_| (tool(0), Some("b".to_owned())));
    let (page, cursors) = tokio::join!(client.list_tools(Some("a")), serving);
    let page = page.unwrap();
    assert_eq!(page.items[0].name, "tool-0");
    assert_eq!(page.next_cursor.as_deref(), Some("b"));
    assert_eq!(cursors, ["a"]);
}

#[tokio::test]
async fn all_pages_are_fetched() {
    let (client, mut server) = connected(McpClient::builder()).await;
    let next = |number: usize| (number < 29).then(|| format!("page-{}", number + 1));

    let serving = serve_pages(&mut server, "tools/list", 30, |number| (tool(number), next(number)));
    let (tools, cursors) = tokio::join!(client.list_all_tools(), serving);
    assert_eq!(tools.unwrap().len(), 30);
    assert_eq!((&cursors[0], &cursors[29]), (&Value::Null, &json!("page-29")));

    let serving = serve_pages(&mut server, "resources/list", 30, |number| {
        let uri = format!("file:///{number}");
        (json!({ "resources": [{ "uri": uri, "name": "r" }] }), next(number))
    });
    let (resources, _) = tokio::join!(client.list_all_resources(), serving);
    assert_eq!(resources.unwrap()[29].uri, "file:///29");

    let serving = serve_pages(&mut server, "resources/templates/list", 30, |number| {
        let uri = format!("file:///{number}/{{path}}");
        (json!({ "resourceTemplates": [{ "uriTemplate": uri, "name": "t" }] }), next(number))
    });
    let (templates, _) = tokio::join!(client.list_all_resource_templates(), serving);
    assert_eq!(templates.unwrap()[29].uri_template, "file:///29/{path}");

    let serving = serve_pages(&mut server, "prompts/list", 30, |number| {
        (json!({ "prompts": [{ "name": format!("p{number}") }] }), next(number))
    });
    let (prompts, _) = tokio::join!(client.list_all_prompts(), serving);
    assert_eq!(prompts.unwrap()[29].name, "p29");
}

#[tokio::test]
async fn empty_list_has_no_items() {
    let (client, mut server) = connected(McpClient::builder()).await;
    let serving = serve_pages(&mut server, "tools/list", 1, |_| (json!({ "tools": [] }), None));
    let (tools, _) = tokio::join!(client.list_all_tools(), serving);
    assert!(tools.unwrap().is_empty());
}

#[tokio::test]
async fn repeated_cursor_ends_the_list() {
    let (client, mut server) = connected(McpClient::builder()).await;
    let serving = serve_pages(&mut server, "tools/list", 3, |number| {
        (tool(number), Some(["a", "b", "a"][number].to_owned()))
    });
    let (tools, _) = tokio::join!(client.list_all_tools(), serving);
    let names: Vec<_> = tools.unwrap().into_iter().map(|tool| tool.name).collect();
    assert_eq!(names, ["tool-0", "tool-1", "tool-2"]);
}

/// Until 2025-11-25, several servers send an empty cursor at the end of a list. Since 2026-07-28, it is a cursor like
/// any other.
#[tokio::test]
async fn empty_cursor_ends_the_list_before_2026_07_28() {
    let empty = |number: usize| (tool(number), (number == 0).then(String::new));
    let (client, mut server) = connected(McpClient::builder()).await;
    let serving = serve_pages(&mut server, "tools/list", 1, empty);
    let (tools, _) = tokio::join!(client.list_all_tools(), serving);
    assert_eq!(tools.unwrap().len(), 1);

    let capabilities = json!({ "tools": {} });
    let (client, mut server) = connected_to_modern(McpClient::builder(), capabilities).await;
    let serving = serve_pages(&mut server, "tools/list", 2, |number| {
        let (mut page, next) = empty(number);
        // Required since 2026-07-28.
        page["resultType"] = "complete".into();
        page["ttlMs"] = 0.into();
        page["cacheScope"] = "private".into();
        (page, next)
    });
    let (tools, cursors) = tokio::join!(client.list_all_tools(), serving);
    assert_eq!((tools.unwrap().len(), &cursors[1]), (2, &json!("")));
}

/// These characters hide text from a person, change its order, or control a terminal.
#[tokio::test]
async fn hidden_characters_are_removed_from_what_a_server_names() {
    const HIDDEN: &str = "a\u{202e}b\u{1b}\u{e0041}\nc";
    let (name, text) = ("abc", "ab\nc");
    let (client, mut server) = connected(McpClient::builder()).await;
    let named = |mut item: Value| {
        for field in ["name", "title", "description"] {
            item[field] = HIDDEN.into();
        }
        item
    };
    let serving = async {
        let request = server.expect("tools/list").await;
        let schema = json!({ "type": "object", "description": HIDDEN, "default": HIDDEN });
        let tool = named(json!({ "inputSchema": schema, "outputSchema": schema }));
        server.reply(&request, json!({ "tools": [tool] })).await;
        let request = server.expect("resources/list").await;
        let resource = named(json!({ "uri": "file:///a" }));
        server.reply(&request, json!({ "resources": [resource] })).await;
        let request = server.expect("resources/templates/list").await;
        let template = named(json!({ "uriTemplate": "file:///{a}" }));
        server.reply(&request, json!({ "resourceTemplates": [template] })).await;
        let request = server.expect("prompts/list").await;
        let prompt = named(json!({ "arguments": [named(json!({}))] }));
        server.reply(&request, json!({ "prompts": [prompt] })).await;
        let request = server.expect("ping").await;
        server.refuse(&request, -32000, HIDDEN).await;
    };
    let asking = async {
        let shown = (name, Some(name), Some(text));
        let tool = client.list_all_tools().await.unwrap().remove(0);
        assert_eq!((&*tool.name, tool.title.as_deref(), Some(&*tool.description)), shown);
        let schema = json!({ "type": "object", "description": text, "default": HIDDEN });
        assert_eq!((&tool.input_schema, &tool.output_schema), (&schema, &Some(schema.clone())));
        let it = client.list_all_resources().await.unwrap().remove(0);
        assert_eq!((&*it.name, it.title.as_deref(), it.description.as_deref()), shown);
        let it = client.list_all_resource_templates().await.unwrap().remove(0);
        assert_eq!((&*it.name, it.title.as_deref(), it.description.as_deref()), shown);
        let it = client.list_all_prompts().await.unwrap().remove(0);
        assert_eq!((&*it.name, it.title.as_deref(), it.description.as_deref()), shown);
        assert_eq!(
            (&*it.arguments[0].name, it.arguments[0].description.as_deref()),
            (name, Some(text))
        );
        let error = client.ping().await.unwrap_err().to_string();
        assert!(error.contains("ab\nc (-32000)"), "{error:?}");
    };
    tokio::join!(asking, serving);
}

/// Returns the result of a list with two tools. The schema of the second tool has more levels than the JSON parser
/// accepts.
pub(super) fn list_with_a_deep_schema() -> String {
    let deep = format!("{}{{}}{}", "{\"items\":".repeat(200), "}".repeat(200));
    format!(
        r#"{{"tools":[{},{{"name":"deep","inputSchema":{deep}}}]}}"#,
        json!({ "name": "flat", "inputSchema": { "type": "object" } })
    )
}

/// Regression test. One deep schema made the whole list unreadable.
#[tokio::test]
async fn tool_with_a_deep_schema_is_skipped() {
    let (client, mut server) = connected(McpClient::builder()).await;
    let serving = async {
        let request = server.expect("tools/list").await;
        let (id, result) = (&request["id"], list_with_a_deep_schema());
        let message = format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{result}}}"#);
        server.send_text(&message).await;
    };
    let (tools, ()) = tokio::join!(client.list_all_tools(), serving);
    let names: Vec<_> = tools.unwrap().into_iter().map(|tool| tool.name).collect();
    assert_eq!(names, ["flat"]);
}

#[tokio::test]
async fn endless_list_is_an_error() {
    let (client, mut server) = connected(McpClient::builder()).await;
    let serving = serve_pages(&mut server, "tools/list", 2_000, |number| {
        (json!({ "tools": [] }), Some(number.to_string()))
    });
    let (tools, _) = tokio::join!(client.list_all_tools(), serving);
    assert!(matches!(tools.unwrap_err(), McpError::Other(_)));
}

#[tokio::test(start_paused = true)]
async fn pages_share_the_time_limit_of_one_request() {
    let (client, mut server) = connected(McpClient::builder()).await;
    let serving = async {
        for number in 0.. {
            let request = server.next().await.unwrap();
            if request["method"] == "notifications/cancelled" {
                return number;
            }
            tokio::time::sleep(Duration::from_secs(59)).await;
            let mut result = tool(number);
            result["nextCursor"] = number.to_string().into();
            server.reply(&request, result).await;
        }
        unreachable!()
    };
    let (tools, pages) = tokio::join!(client.list_all_tools(), serving);
    let McpError::Other(error) = tools.unwrap_err() else { panic!("another error") };
    let error: &McpTimeout = error.downcast_ref().unwrap();
    assert_eq!((error.method.as_str(), error.limit.as_secs()), ("tools/list", 600));
    assert_eq!(pages, 11, "ten pages of 59 seconds, and one that was not waited for");
}

#[tokio::test]
async fn pages_share_a_size_limit() {
    const MESSAGE: usize = 10_000;
    const PAGES: usize = 5;
    for ends in [true, false] {
        let builder = McpClient::builder().max_message_bytes(MESSAGE);
        let (client, mut server) = connected(builder).await;
        let serving = serve_pages(&mut server, "prompts/list", PAGES, |number| {
            let prompt = json!({ "name": "p", "description": "x".repeat(MESSAGE * 9 / 10) });
            let next = !(ends && number + 1 == PAGES);
            (json!({ "prompts": [prompt] }), next.then(|| number.to_string()))
        });
        match tokio::join!(client.list_all_prompts(), serving).0 {
            Ok(prompts) => assert!(ends && prompts.len() == PAGES),
            Err(error) => assert!(!ends && matches!(error, McpError::Other(_)), "{error}"),
        }
    }
}

#[tokio::test]
async fn undeclared_list_that_is_refused_is_empty() {
    let (client, mut server) = connected_to(McpClient::builder(), json!({ "tools": {} })).await;
    let serving = async {
        let request = server.expect("prompts/list").await;
        server.refuse(&request, -32601, "no prompts").await;
        let request = server.expect("tools/list").await;
        server.refuse(&request, -32601, "no tools today").await;
    };
    let asking = async {
        assert!(client.list_all_prompts().await.unwrap().is_empty());
        // The server has declared tools, so its refusal is an error.
        client.list_all_tools().await.unwrap_err();
    };
    tokio::join!(asking, serving);
}
