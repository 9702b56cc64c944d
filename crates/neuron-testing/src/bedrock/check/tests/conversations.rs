//! Checks conversations, tool calls, reasoning and cache points against Bedrock's rules.

use super::*;
use crate::bedrock::reasoning_signature;

fn user(blocks: Value) -> Value {
    json!({"role": "user", "content": blocks})
}

fn assistant(blocks: Value) -> Value {
    json!({"role": "assistant", "content": blocks})
}

fn text(text: &str) -> Value {
    json!({"text": text})
}

fn call(id: &str) -> Value {
    json!({"toolUse": {"toolUseId": id, "name": "now", "input": {"a": 1}}})
}

fn result(id: &str) -> Value {
    json!({"toolResult": {"toolUseId": id, "content": [{"text": "noon"}], "status": "success"}})
}

fn question() -> Value {
    user(json!([text("hi")]))
}

/// Returns the messages and the tool that they call.
fn said(messages: &[Value]) -> Value {
    let mut fields = chosen(json!({"auto": {}}));
    fields["messages"] = messages.into();
    fields
}

/// Returns a conversation with two calls, which these blocks follow.
fn after_calls(blocks: Value) -> Value {
    said(&[
        question(),
        assistant(json!([text("Let me look."), call("a"), call("b")])),
        user(blocks),
    ])
}

#[test]
fn user_begins_and_roles_may_repeat() {
    const BEGIN: &str = "A conversation must start with a user message. Try again with a \
                         conversation that starts with a user message.";
    let begun = json!({"messages": [assistant(json!([text("Hello.")])), question()]});
    for model in [NOVA, LLAMA, "the-model"] {
        refuses_at(model, begun.clone(), BEGIN);
    }
    accepts_at(CLAUDE, begun);
    refuses(json!({"messages": []}), BEGIN);
    refuses(json!({"messages": null}), BEGIN);
    accepts(json!({"messages": [question(), question(), assistant(json!([text("a")]))]}));
    let system = json!({"role": "system", "content": [text("Be brief.")]});
    accepts(json!({"messages": [system, question()]}));
}

#[test]
fn blank_texts_are_rejected() {
    let blank = "The text field in the ContentBlock object at messages.0.content.1 is blank. Add \
                 text to the text field, and try again.";
    for model in [CLAUDE, NOVA, "the-model"] {
        refuses_at(model, json!({"messages": [user(json!([text("hi"), text("")]))]}), blank);
    }
    let cited = |said: &str| {
        let cited = json!({"citationsContent": {"content": [text("a"), text(said)]}});
        json!({"messages": [question(), assistant(json!([cited])), question()]})
    };
    accepts(cited("b"));
    refuses(
        cited(""),
        "The text field in the ContentBlock object at messages.1.content.0.citationsContent.content.1 \
         is blank. Add text to the text field, and try again.",
    );
    let space = json!({"messages": [user(json!([text(" \n")]))]});
    claude_refuses(space.clone(), "messages: text content blocks must contain non-whitespace text");
    accepts_at(NOVA, space);
    refuses(
        json!({"messages": [user(json!([]))]}),
        "The content field in the Message object at messages.0 is empty. Add a ContentBlock object \
         to the content field and try again.",
    );
    claude_refuses(
        json!({"messages": [question(), assistant(json!([text("So ")]))]}),
        "messages: final assistant content cannot end with trailing whitespace",
    );
}

#[test]
fn blocks_are_only_in_their_role() {
    let refuses_block = |role: &str, block: Value, kind: &str| {
        let mut fields = said(&[question(), json!({"role": role, "content": [block]})]);
        fields["messages"][0] = question();
        refuses(
            fields,
            &format!(
                "The {kind} field in the ContentBlock object at messages.1.content.0 is not \
                 supported in {role} messages."
            ),
        );
    };
    refuses_block("user", call("a"), "toolUse");
    let reasoning = json!({"reasoningContent": {"redactedContent": "AAAA"}});
    refuses_block("user", reasoning.clone(), "reasoningContent");
    let source = json!({"text": "a"});
    refuses_block("assistant", json!({"document": {"name": "a", "source": source}}), "document");
    let media = |format: &str| json!({"format": format, "source": {"bytes": "AAAA"}});
    refuses_block("assistant", json!({"image": media("png")}), "image");
    refuses_block("assistant", json!({"audio": media("mp3")}), "audio");
    refuses_block("system", reasoning, "reasoningContent");
    refuses(
        said(&[question(), assistant(json!([result("a")]))]),
        "The toolResult field at messages.1.content.0.toolResult is not supported in assistant \
         messages.",
    );
}

#[test]
fn every_call_has_one_result_in_the_next_turn() {
    accepts(after_calls(json!([result("b"), result("a")])));
    accepts(after_calls(json!([result("a"), result("b"), text("Briefly.")])));
    let parts = [user(json!([result("a")])), user(json!([result("b")]))];
    accepts(said(&[&[question(), assistant(json!([call("a"), call("b")]))], &parts[..]].concat()));
    let missing = |path: &str, ids: &str| {
        format!("Expected toolResult blocks at {path} for the following Ids: {ids}")
    };
    refuses(after_calls(json!([result("a")])), &missing("messages.2.content", "b"));
    refuses(after_calls(json!([text("And?")])), &missing("messages.2.content", "a, b"));
    refuses(
        said(&[question(), assistant(json!([call("a")]))]),
        &missing("messages.1.content", "a"),
    );
    refuses(after_calls(json!([result("a"), result("c")])), &missing("messages.2.content", "b"));
    refuses(
        after_calls(json!([result("a"), result("b"), result("c")])),
        "The number of toolResult blocks at messages.2.content exceeds the number of toolUse blocks \
         of previous turn.",
    );
    refuses(
        said(&[user(json!([result("a")]))]),
        "The number of toolResult blocks at messages.0.content exceeds the number of toolUse blocks \
         of previous turn.",
    );
    refuses(
        after_calls(json!([result("a"), result("a")])),
        "The toolResult blocks at messages.2.content contain duplicate Ids: a",
    );
    refuses(
        said(&[question(), assistant(json!([call("a"), call("a")])), user(json!([result("a")]))]),
        "The toolUse blocks at messages.1.content contain duplicate Ids: a",
    );
}

#[test]
fn calls_and_results_need_tools() {
    let mut without = after_calls(json!([result("a"), result("b")]));
    without.as_object_mut().unwrap().remove("toolConfig");
    refuses(
        without,
        "The toolConfig field must be defined when using toolUse and toolResult content blocks.",
    );
}

#[test]
fn calls_and_results_have_valid_ids_and_json() {
    for id in ["", "a b", "é", "a/b"] {
        breaks(
            said(&[question(), assistant(json!([call(id)])), user(json!([result(id)]))]),
            "at 'messages.2.member.content.1.member.toolUse.toolUseId'",
            "Member must satisfy regular expression pattern: [a-zA-Z0-9_.:-]+",
        );
    }
    let long = "a".repeat(65);
    breaks(
        said(&[question(), assistant(json!([call(&long)]))]),
        "at 'messages.2.member.content.1.member.toolUse.toolUseId'",
        "Member must have length less than or equal to 64",
    );
    let mut text_input = call("a");
    text_input["toolUse"]["input"] = json!("{}");
    refuses(
        said(&[question(), assistant(json!([text_input]))]),
        "The format of the value at messages.1.content.0.toolUse.input is invalid. Provide a json \
         object for the field and try again.",
    );
    accepts(said(&[
        question(),
        assistant(json!([call("a.b:c-1_")])),
        user(json!([{"toolResult": {"toolUseId": "a.b:c-1_", "content": [{"json": {"a": 1}}]}}])),
    ]));
}

#[test]
fn results_have_content_unless_they_succeeded() {
    let results = |content: Value, status: &str| {
        let fields = json!({"toolUseId": "a", "content": content, "status": status});
        let calls = assistant(json!([call("a")]));
        said(&[question(), calls, user(json!([{"toolResult": fields}]))])
    };
    accepts(results(json!([]), "success"));
    refuses(
        results(json!([]), "error"),
        "The content field at messages.2.content.0.toolResult cannot be empty when status value is \
         error.",
    );
    claude_refuses(
        results(json!([{"text": ""}]), "success"),
        "messages: text content blocks must be non-empty",
    );
    let image = json!([{"image": {"format": "png", "source": {"bytes": "AAAA"}}}]);
    accepts(results(image.clone(), "success"));
    for model in [NOVA, LLAMA] {
        accepts_at(model, results(image.clone(), "success"));
    }
    let others = ["meta.llama3-2-90b-instruct-v1%3A0", "google.gemma-3-4b-it", "us.xai.grok-4-6"];
    for model in others.into_iter().chain([MISTRAL, "global.openai.gpt-6-sol"]) {
        refuses_at(
            model,
            results(image.clone(), "success"),
            "This model doesn't support the image field for user messages. Remove image and try again.",
        );
    }
    refuses_at(
        "writer.palmyra-x5-v1%3A0",
        results(json!([]), "success"),
        "This model doesn't support the status field. Remove status and try again.",
    );
}

#[test]
fn some_models_allow_nothing_beside_results() {
    let expected =
        "Conversation blocks and tool result blocks cannot be provided in the same turn.";
    let with_text = after_calls(json!([result("a"), result("b"), text("Briefly.")]));
    refuses_at(LLAMA, with_text.clone(), expected);
    refuses_at(MISTRAL, with_text, expected);
    accepts_at(LLAMA, after_calls(json!([result("a"), result("b")])));
    let document = json!({"document": {"name": "a", "source": {"text": "a"}}});
    let with_document = after_calls(json!([result("a"), result("b"), text("Read."), document]));
    refuses(with_document.clone(), expected);
    accepts_at(NOVA, with_document);
}

#[test]
fn tools_of_the_vendor_have_their_results_in_the_same_message() {
    let call = json!({"toolUse": {
        "toolUseId": "a", "name": "nova_grounding", "input": {}, "type": "server_tool_use",
    }});
    let result = json!({"toolResult": {
        "toolUseId": "a", "content": [{"json": {}}], "type": "nova_grounding_result",
    }});
    accepts(said(&[question(), assistant(json!([call, result, text("It is so.")]))]));
}

#[test]
fn reasoning_comes_back_unchanged() {
    let thought = |text: &str, signature: Option<String>| {
        let fields = json!({"text": text, "signature": signature});
        let reasoning = json!({"reasoningContent": {"reasoningText": fields}});
        json!({"messages": [question(), assistant(json!([reasoning, text_of()])), question()]})
    };
    fn text_of() -> Value {
        text("Hello.")
    }
    let own = |text: &str| Some(reasoning_signature(text, &route(CLAUDE)));
    accepts_at(CLAUDE, thought("hm", own("hm")));
    accepts_at(CLAUDE, thought("", own("")));
    accepts(thought("hm", Some("c2lnbmF0dXJl".into())));
    claude_refuses(
        thought("hm!", own("hm")),
        "`thinking` or `redacted_thinking` blocks in the latest assistant message cannot be \
         modified. These blocks must remain as they were in the original response.",
    );
    claude_refuses(thought("hm", None), "messages.1.content.0.thinking.signature: Field required");
    accepts_at("deepseek.r1-v1%3A0", thought("hm", None));
    refuses_at(
        LLAMA,
        thought("hm", None),
        "This model doesn't support the reasoningContent field. Remove reasoningContent and try \
         again.",
    );
    let encrypted = json!({"reasoningContent": {"redactedContent": "AAAA"}});
    let encrypted = json!({"messages": [question(), assistant(json!([encrypted])), question()]});
    accepts(encrypted.clone());
    accepts_at("global.openai.gpt-5.6-sol", encrypted.clone());
    refuses_at(
        "openai.gpt-oss-120b-1%3A0",
        encrypted,
        "This model doesn't support the reasoningContent field. Remove reasoningContent and try \
         again.",
    );
}

#[test]
fn new_models_of_claude_continue_no_response() {
    const SONNET_4_6: &str = "us.anthropic.claude-sonnet-4-6";
    const SONNET_5: &str = "global.anthropic.claude-sonnet-5";
    let expected = "The model returned the following errors: This model does not support assistant \
                    message prefill. The conversation must end with a user message.";
    let begun = json!({"messages": [question(), assistant(json!([text("So")]))]});
    accepts(begun.clone());
    accepts_at(NOVA, begun.clone());
    refuses_at(SONNET_4_6, begun.clone(), expected);
    refuses_at(SONNET_5, begun, expected);
    let encrypted = json!({"reasoningContent": {"redactedContent": "AAAA"}});
    let thought = |blocks| json!({"messages": [question(), assistant(blocks), question()]});
    accepts_at(SONNET_4_6, thought(json!([encrypted])));
    refuses_at(SONNET_5, thought(json!([encrypted, encrypted])), expected);
    accepts_at(SONNET_5, thought(json!([encrypted, text("So.")])));
}

fn point(ttl: Option<&str>) -> Value {
    json!({"cachePoint": {"type": "default", "ttl": ttl}})
}

#[test]
fn cache_points_are_few_and_the_longest_come_first() {
    let points = |ttls: &[&str]| {
        let blocks = ttls.iter().flat_map(|ttl| [text("a"), point(Some(ttl))]);
        json!({"messages": [user(blocks.collect())]})
    };
    accepts(points(&["1h", "1h", "5m", "5m"]));
    claude_refuses(
        points(&["5m"; 5]),
        "A maximum of 4 blocks with cache_control may be provided. Found 5.",
    );
    let mut mixed = points(&["1h"]);
    mixed["system"] = json!([text("a"), point(None)]);
    for fields in [points(&["5m", "1h"]), mixed] {
        claude_refuses(
            fields,
            "a ttl='1h' cache_control block must not come after a ttl='5m' cache_control block. \
             Note that blocks are processed in the following order: `tools`, `system`, `messages`.",
        );
    }
    claude_refuses(
        json!({"system": [point(None), text("a")]}),
        "system.0: a cachePoint block must follow the blocks that are cached",
    );
}

#[test]
fn some_models_have_no_cache() {
    let cached = |ttl| json!({"system": [text("a"), point(ttl)]});
    let mut tools = chosen(json!({"auto": {}}));
    tools["toolConfig"]["tools"].as_array_mut().unwrap().push(point(None));
    accepts(tools.clone());
    accepts_at(NOVA, cached(None));
    let expected = "You invoked an unsupported model or your request did not allow prompt caching. \
                    See the documentation for more information.";
    for (model, fields) in [(LLAMA, cached(None)), (NOVA, cached(Some("1h")))] {
        fails_at(model, fields, 403, "AccessDeniedException", expected);
    }
    nova_refuses_point(tools, "/toolConfig/tools/1");
}

#[track_caller]
fn nova_refuses_point(fields: Value, place: &str) {
    let expected = format!(
        "The model returned the following errors: Malformed input request: #{place}: extraneous key \
         [cachePoint] is not permitted, please reformat your input and try again."
    );
    refuses_at(NOVA, fields, &expected);
}

#[test]
fn cache_point_of_nova_follows_a_text() {
    let after = |block| after_calls(json!([result("a"), result("b"), block, point(None)]));
    accepts_at(NOVA, after(text("Briefly.")));
    let image = json!({"image": {"format": "png", "source": {"bytes": "AAAA"}}});
    accepts_at(CLAUDE, after(image.clone()));
    nova_refuses_point(after(image), "/messages/2/content/3");
    let results = after_calls(json!([result("a"), result("b"), point(None)]));
    accepts_at(CLAUDE, results.clone());
    nova_refuses_point(results, "/messages/2/content/2");
}
