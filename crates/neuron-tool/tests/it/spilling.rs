//! Tests of `OutputSpiller`, its reader, and the memory store.

use std::sync::Arc;

use futures_util::FutureExt;
use neuron_tool::builtin::{OutputReader, OutputSpiller};
use neuron_tool::{MemoryOutputStore, OutputPiece, OutputStore, ToolRegistry};
use neuron_types::{
    ContentItem, EmbeddedResource, ImageSource, ResourceLink, ToolContext, ToolEffect, ToolError,
    ToolOutput, WasmBoxedFuture,
};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::support::{registry, run, shown, tool};

fn text(text: &str) -> ContentItem {
    ContentItem::Text(text.into())
}

fn image() -> ContentItem {
    ContentItem::Image { source: ImageSource::Url { url: "https://a/b.png".into() } }
}

/// Creates a registry with a tool that returns this content, an `OutputSpiller`, and the tool that reads its stored
/// outputs.
fn spilling(content: Vec<ContentItem>, limit: usize) -> ToolRegistry {
    let output = ToolOutput { content, structured_content: Some(json!(7)), is_error: true };
    with_store(output, MemoryOutputStore::new(), limit)
}

fn with_store(output: ToolOutput, store: impl OutputStore + 'static, limit: usize) -> ToolRegistry {
    let spiller = OutputSpiller::new(store, limit);
    let mut registry = registry([tool("t", move |_| Ok(output.clone()))]);
    registry.register_dyn(Arc::new(spiller.reader()));
    registry.add_middleware(spiller);
    registry
}

/// Returns the handle, the name of the stored text, from the notice in an output.
fn handle(output: &ToolOutput) -> String {
    let text: String = output.content.iter().map(ContentItem::to_string).collect();
    text.split("handle `").nth(1).unwrap().split('`').next().unwrap().to_owned()
}

async fn read(registry: &ToolRegistry, input: Value) -> String {
    shown(&run(registry, "read_output", input).await)
}

#[tokio::test]
async fn long_output_is_truncated_and_read_in_pieces() {
    let content = vec![image(), text("äöü 123"), image(), text("456 789"), text("!")];
    let registry = spilling(content, 6);
    let output = run(&registry, "t", json!({})).await.unwrap();
    let handle = handle(&output);
    let notice = format!(
        "äöü 12\n[the first 6 of 17 characters are shown; read on with the tool `read_output`, handle \
         `{handle}`, offset 6]"
    );
    assert_eq!(
        output,
        ToolOutput {
            content: vec![image(), text(&notice), image()],
            structured_content: Some(json!(7)),
            is_error: true,
        }
    );
    for (input, expected) in [
        (json!({}), "3\n456 \n[characters 6 to 12 of 17; read on with offset 12]"),
        (json!({ "offset": 12 }), "789\n!\n[characters 12 to 17 of 17; this is the end]"),
        (json!({ "offset": 0 }), "äöü 12\n[characters 0 to 6 of 17; read on with offset 6]"),
        (
            json!({ "offset": 1, "characters": 2 }),
            "öü\n[characters 1 to 3 of 17; read on with offset 3]",
        ),
        (
            json!({ "offset": 1, "characters": 9999 }),
            "öü 123\n[characters 1 to 7 of 17; read on with offset 7]",
        ),
        (
            json!({ "offset": 17 }),
            "retry: arguments of `read_output`: `$.offset`: 17 is not before the end; the output \
             has 17 characters",
        ),
        (
            json!({ "offset": "6" }),
            "retry: arguments of `read_output`: `$.offset`: expected a number of characters, zero \
             or more",
        ),
        (
            json!({ "characters": -1 }),
            "retry: arguments of `read_output`: `$.characters`: expected a number of characters, \
             zero or more",
        ),
        (
            json!({ "handle": "output-2" }),
            "retry: arguments of `read_output`: `$.handle`: there is no output `output-2` any \
             more, or there never was",
        ),
        (
            json!({ "handle": null }),
            "retry: arguments of `read_output`: `$.handle`: expected the handle of an output, a \
             string",
        ),
    ] {
        let mut whole = json!({ "handle": handle, "offset": 6 });
        for (name, value) in input.as_object().unwrap() {
            whole[name] = value.clone();
        }
        assert_eq!(read(&registry, whole).await, expected, "{input}");
    }
}

#[tokio::test]
async fn text_resources_are_stored() {
    let resource = |resource| ContentItem::Resource { resource };
    let bytes = || resource(EmbeddedResource::blob("a:c", "aGk="));
    let link = ContentItem::ResourceLink { resource: ResourceLink::new("a:b", "b") };
    let content = vec![bytes(), resource(EmbeddedResource::text("a:b", "äöü")), text("!"), link];
    let registry = spilling(content, 16);
    let output = run(&registry, "t", json!({})).await.unwrap();
    let handle = handle(&output);
    let notice = format!(
        "[resource a:b]\nä\n[the first 16 of 46 characters are shown; read on with the tool \
         `read_output`, handle `{handle}`, offset 16]"
    );
    assert_eq!(output.content, [bytes(), text(&notice)]);
    for (offset, expected) in [
        (16, "öü\n!\n[link to re\n[characters 16 to 32 of 46; read on with offset 32]"),
        (32, "source a:b: b]\n[characters 32 to 46 of 46; this is the end]"),
    ] {
        let rest = json!({ "handle": handle, "offset": offset });
        assert_eq!(read(&registry, rest).await, expected);
    }
}

#[tokio::test]
async fn short_output_is_unchanged() {
    let content = vec![text("123"), image(), text("456")];
    let output = run(&spilling(content.clone(), 6), "t", json!({})).await.unwrap();
    assert_eq!(output.content, content);
}

#[tokio::test]
async fn output_is_truncated_with_a_notice_if_the_store_fails() {
    struct Full;
    impl OutputStore for Full {
        fn put<'a>(
            &'a self,
            _: String,
            _: &'a ToolContext,
        ) -> WasmBoxedFuture<'a, Result<String, ToolError>> {
            Box::pin(async { Err(ToolError::ExecutionFailed("disk full".into())) })
        }
        fn read<'a>(
            &'a self,
            _: &'a str,
            _: usize,
            _: usize,
            _: &'a ToolContext,
        ) -> WasmBoxedFuture<'a, Result<Option<OutputPiece>, ToolError>> {
            Box::pin(async { Err(ToolError::ExecutionFailed("disk gone".into())) })
        }
    }
    let registry = with_store(ToolOutput::text("1234"), Full, 2);
    assert_eq!(
        shown(&run(&registry, "t", json!({})).await),
        "12\n[the first 2 of 4 characters are shown; the rest could not be stored]"
    );
    assert_eq!(read(&registry, json!({ "handle": "x" })).await, "execution failed: disk gone");
}

#[tokio::test]
async fn output_of_another_session_cannot_be_read() {
    let store = MemoryOutputStore::new();
    let ctx = |session: &str| ToolContext { session_id: session.into(), ..Default::default() };
    let handle = store.put("secret".into(), &ctx("a")).await.unwrap();
    for (session, is_found) in [("a", true), ("b", false), ("", false)] {
        let piece = store.read(&handle, 0, 9, &ctx(session)).await.unwrap();
        assert_eq!(piece.is_some(), is_found);
    }
}

/// The handle of a stored text must contain a random part. Regression test. The handles were consecutive numbers, so a
/// model could guess a handle and read the text of another user.
#[tokio::test]
async fn handles_cannot_be_guessed() {
    let ctx = ToolContext::default();
    let stores = [MemoryOutputStore::new(), MemoryOutputStore::new()];
    let mut handles = Vec::new();
    for store in &stores {
        for number in 0..50 {
            handles.push(store.put(format!("secret {number}"), &ctx).await.unwrap());
        }
    }
    for guess in ["output-", "output-1", "output-0000000000000001", "1", ""] {
        assert_eq!(stores[0].read(guess, 0, 9, &ctx).await.unwrap(), None);
    }
    // The last part of a handle must be random. It must not repeat within a store or in another store.
    let mut parts: Vec<_> = handles.iter().filter_map(|handle| handle.split('-').nth(1)).collect();
    parts.sort_unstable();
    parts.dedup();
    assert_eq!(parts.len(), 100);
}

/// Regression test. Before the fix, each output had another handle, so no two results of a tool were equal.
#[tokio::test]
async fn equal_outputs_of_a_session_have_the_same_handle() {
    let store = MemoryOutputStore::new().with_max_bytes(10);
    let ctx = |session: &str| ToolContext { session_id: session.into(), ..Default::default() };
    let put = async |session: &str, text: &str| store.put(text.into(), &ctx(session)).await;
    let first = put("a", "123").await.unwrap();
    let other = put("a", "456").await.unwrap();
    let of_another_session = put("b", "123").await.unwrap();
    assert_eq!(put("a", "123").await.unwrap(), first);
    assert!(first != other && first != of_another_session);
    assert_eq!(store.read(&of_another_session, 0, 9, &ctx("a")).await.unwrap(), None);
    // The text counts once, and is newer than the other texts.
    put("a", "7890").await.unwrap();
    for (handle, session, is_found) in
        [(&first, "a", true), (&other, "a", false), (&of_another_session, "b", true)]
    {
        let piece = store.read(handle, 0, 9, &ctx(session)).await.unwrap();
        assert_eq!(piece.is_some(), is_found, "{handle}");
    }
}

#[tokio::test]
async fn long_handle_is_shortened_in_the_error() {
    let registry = spilling(vec![], 5);
    let text = read(&registry, json!({ "handle": "ä".repeat(100_000) })).await;
    assert!(text.chars().count() < 300 && text.ends_with("there never was"), "{text}");
}

#[tokio::test]
async fn oldest_texts_are_removed_and_the_last_stays() {
    let store = MemoryOutputStore::new().with_max_bytes(10);
    let ctx = ToolContext::default();
    let mut handles = Vec::new();
    for text in ["12345", "67890", "1", "12345678901234567890"] {
        handles.push(store.put(text.into(), &ctx).await.unwrap());
        let found = handles.iter().filter(|handle| {
            store.read(handle, 0, 1, &ctx).now_or_never().unwrap().unwrap().is_some()
        });
        let expected = match handles.len() {
            1 => 1,
            2 | 3 => 2,
            _ => 1,
        };
        assert_eq!(found.count(), expected, "{handles:?}");
    }
    assert!(store.read(&handles[3], 0, 1, &ctx).await.unwrap().is_some());
    for handle in handles {
        assert!(handle.strip_prefix("output-").is_some_and(|hash| hash.len() == 16), "{handle}");
    }
}

#[test]
fn reader_is_pure_and_its_schema_has_the_maximum_length() {
    let registry = spilling(vec![], 500);
    let definition = registry.definition(OutputReader::NAME).unwrap();
    assert_eq!(definition.input_schema["properties"]["characters"]["maximum"], 500);
    assert_eq!(registry.get(OutputReader::NAME).unwrap().effect(), ToolEffect::Pure);
}

proptest! {
    #[test]
    fn pieces_add_up_to_the_whole_output(whole in "\\PC{1,40}", limit in 0_usize..12) {
        let registry = spilling(vec![text(&whole)], limit);
        let output = run(&registry, "t", json!({})).now_or_never().unwrap().unwrap();
        let total = whole.chars().count();
        if total <= limit {
            prop_assert_eq!(output.content, [text(&whole)]);
            return Ok(());
        }
        let (mut read, handle) = (String::new(), handle(&output));
        let mut offset = 0;
        while offset < total {
            let input = json!({ "handle": &handle, "offset": offset });
            let output = run(&registry, "read_output", input).now_or_never().unwrap().unwrap();
            let shown = output.content[0].to_string();
            let (piece, _) = shown.rsplit_once("\n[").unwrap();
            prop_assert!((1..=limit.max(1)).contains(&piece.chars().count()));
            offset += piece.chars().count();
            read.push_str(piece);
        }
        prop_assert_eq!(read, whole);
    }
}
