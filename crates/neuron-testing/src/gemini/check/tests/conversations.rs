//! Checks conversations with function calls against Gemini's rules.

use super::*;
use crate::gemini::thought_signature;

const NUMBER: &str = "Please ensure that the number of function response parts is equal to the \
                      number of function call parts of the function call turn.";

fn user(parts: Value) -> Value {
    json!({"role": "user", "parts": parts})
}

fn model(parts: Value) -> Value {
    json!({"role": "model", "parts": parts})
}

fn text(text: &str) -> Value {
    json!({"text": text})
}

fn call(id: &str, name: &str) -> Value {
    json!({"functionCall": {"id": id, "name": name, "args": {"a": 1}}})
}

fn signed_at(path: &str, mut part: Value) -> Value {
    part["thoughtSignature"] = thought_signature(&part, &route(path)).into();
    part
}

fn signed(part: Value) -> Value {
    signed_at(FLASH, part)
}

fn result(id: &str, name: &str) -> Value {
    json!({"functionResponse": {"id": id, "name": name, "response": {"output": "noon"}}})
}

fn question() -> Value {
    user(json!([text("hi")]))
}

#[track_caller]
fn accepts_contents(contents: &[Value]) {
    accepts(json!({"contents": contents}));
}

#[track_caller]
fn refuses_contents(contents: &[Value], expected: &str) {
    refuses(json!({"contents": contents}), expected);
}

#[track_caller]
fn lacks_signature(contents: &[Value], name: &str, position: usize) {
    refuses_contents(
        contents,
        &format!(
            "Function call is missing a thought_signature in functionCall parts. This is required \
             for tools to work correctly, and missing thought_signature may lead to degraded model \
             performance. Additional data, function call `default_api:{name}` , position \
             {position}. Please refer to https://ai.google.dev/gemini-api/docs/thought-signatures \
             for more details."
        ),
    );
}

#[test]
fn conversation_must_end_with_the_user() {
    refuses_contents(
        &[question(), model(json!([text("Let me see.")]))],
        "Please ensure that multiturn requests ends with a user role or a function response.",
    );
}

#[test]
fn signed_calls_with_their_responses_are_accepted() {
    let first = model(json!([text("Let me look."), signed(call("1", "f")), call("2", "g")]));
    let results = user(json!([result("1", "f"), result("2", "g")]));
    let second = model(json!([signed(call("3", "f"))]));
    let more = user(json!([result("3", "f")]));
    let end = model(json!([text("It is noon."), signed(text(""))]));
    accepts_contents(&[question(), first, results, second, more, end, question()]);
    // The extra content of the user begins a new turn.
    let unsigned = model(json!([call("1", "f")]));
    accepts_contents(&[question(), unsigned, user(json!([result("1", "f")])), question()]);
    let two_texts =
        [question(), model(json!([text("a")])), model(json!([text("b")])), question(), question()];
    accepts_contents(&two_texts);
}

#[test]
fn every_call_needs_one_response_in_the_next_content() {
    let calls = || model(json!([signed(call("1", "f")), call("2", "g")]));
    refuses_contents(&[question(), calls()], NUMBER);
    refuses_contents(&[question(), calls(), question()], NUMBER);
    refuses_contents(&[question(), calls(), user(json!([result("1", "f")]))], NUMBER);
    let split = [user(json!([result("1", "f")])), user(json!([result("2", "g")]))];
    refuses_contents(&[&[question(), calls()], &split[..]].concat(), NUMBER);
    let three = user(json!([result("1", "f"), result("2", "g"), result("2", "g")]));
    refuses_contents(&[question(), calls(), three], NUMBER);
}

#[test]
fn turns_have_the_right_order() {
    let calls = || model(json!([signed(call("1", "f"))]));
    let results = || user(json!([result("1", "f")]));
    let call_turn = "Please ensure that function call turn comes immediately after a user turn or \
                     after a function response turn.";
    refuses_contents(&[calls(), results()], call_turn);
    refuses_contents(&[question(), model(json!([text("a")])), calls(), results()], call_turn);
    refuses_contents(&[user(json!([call("1", "f")]))], call_turn);
    let response_turn =
        "Please ensure that function response turn comes immediately after a function call turn.";
    refuses_contents(&[results()], response_turn);
    refuses_contents(&[question(), calls(), results(), results()], response_turn);
    refuses_contents(&[question(), calls(), model(json!([result("1", "f")]))], response_turn);
    refuses_contents(
        &[question(), calls(), user(json!([result("1", "f"), text("Briefly.")]))],
        "Please ensure that function response turn has only function response parts.",
    );
}

#[test]
fn response_has_the_name_and_id_of_its_call() {
    let refuses_result = |result: Value, expected: &str| {
        let calls = model(json!([signed(call("1", "f"))]));
        refuses_contents(&[question(), calls, user(json!([result]))], expected);
    };
    let place = "* GenerateContentRequest.contents[2].parts[0].function_response";
    refuses_result(
        result("1", "g"),
        &format!("{place}.name: function_response.name does not match function_call.name"),
    );
    let ids = "functionResponse.id does not match functionCall.id";
    refuses_result(result("2", "f"), ids);
    refuses_result(json!({"functionResponse": {"name": "f", "response": {}}}), ids);
    refuses_result(
        json!({"functionResponse": {"id": "1", "response": {}}}),
        &format!("{place}.name: Name cannot be empty."),
    );
    refuses_result(
        json!({"functionResponse": {"id": "1", "name": "f"}}),
        &format!("{place}.response: response is not specified"),
    );
    refuses_result(
        json!({"functionResponse": {"id": "1", "name": "f", "response": "noon"}}),
        "Invalid value at 'contents[2].parts[0].function_response.response' (TYPE_MESSAGE), \
         \"noon\"",
    );
    refuses_result(
        json!({"functionResponse": {"id": "1", "name": "f", "response": {"x": [{"$ref": "a"}]}}}),
        &format!(
            "{place}.response: the reference \"a\" does not name a part of the function response"
        ),
    );
    refuses_result(
        json!({"functionResponse": {"id": "1", "name": "f", "response": {}, "parts": [
            {"inlineData": {"mimeType": "audio/wav", "data": ""}},
        ]}}),
        "Unsupported MIME type: audio/wav",
    );
    let with_image = json!({"functionResponse": {
        "id": "1", "name": "f", "response": {"image": {"$ref": "a"}}, "parts": [
            {"inlineData": {"mimeType": "image/png", "data": "AAAA", "displayName": "a"}},
        ],
    }});
    accepts_contents(&[
        question(),
        model(json!([signed(call("1", "f"))])),
        user(json!([with_image])),
    ]);
}

#[test]
fn first_call_of_each_step_needs_a_signature() {
    let results = user(json!([result("1", "f")]));
    let unsigned = model(json!([call("1", "f")]));
    lacks_signature(&[question(), unsigned.clone(), results.clone()], "f", 2);
    let empty = json!({"functionCall": call("1", "f")["functionCall"], "thoughtSignature": ""});
    lacks_signature(&[question(), model(json!([empty])), results.clone()], "f", 2);
    let first = model(json!([signed(call("1", "f"))]));
    lacks_signature(&[question(), first, results.clone(), unsigned, results.clone()], "f", 4);
    let second_only = model(json!([call("1", "f"), signed(call("2", "g"))]));
    lacks_signature(
        &[question(), second_only, user(json!([result("1", "f"), result("2", "g")]))],
        "f",
        2,
    );
    let skipped = json!({
        "functionCall": {"id": "1", "name": "f", "args": {}},
        "thoughtSignature": "skip_thought_signature_validator",
    });
    accepts_contents(&[question(), model(json!([skipped])), results]);
}

#[test]
fn signature_must_belong_to_its_part() {
    let corrupted = "Corrupted thought signature.";
    let refuses_call = |call: Value| {
        let results = user(json!([result("1", "f")]));
        refuses_contents(&[question(), model(json!([call])), results], corrupted);
    };
    let right = signed(call("1", "f"));
    let mut changed = right.clone();
    changed["functionCall"]["args"]["a"] = json!(2);
    refuses_call(changed);
    refuses_call(signed_at("/v1beta/models/gemini-3.7-flash:generateContent", call("1", "f")));
    refuses_call(signed_at(VERTEX, call("1", "f")));
    let mut foreign = call("1", "f");
    foreign["thoughtSignature"] = json!("c2ln");
    refuses_call(foreign.clone());
    // A copy of the signature on a second call.
    let mut copied = call("2", "f");
    copied["thoughtSignature"] = right["thoughtSignature"].clone();
    let results = user(json!([result("1", "f"), result("2", "f")]));
    refuses_contents(&[question(), model(json!([right, copied])), results.clone()], corrupted);
    // A signed text that was merged with another text.
    let mut merged = text("ab");
    merged["thoughtSignature"] = signed(text("b"))["thoughtSignature"].clone();
    refuses_contents(&[question(), model(json!([merged]))], corrupted);
    // Signatures of earlier turns are not validated.
    let results = user(json!([result("1", "f")]));
    accepts_contents(&[question(), model(json!([foreign])), results, question()]);
}

#[test]
fn old_models_have_neither_ids_nor_signatures() {
    let call = json!({"functionCall": {"name": "f", "args": {}}});
    let result = json!({"functionResponse": {"name": "f", "response": {}}});
    let contents = |call: &Value, result: &Value| json!({"contents": [question(), model(json!([call])), user(json!([result]))]});
    accepts_at(OLD, contents(&call, &result));
    let mut with_id = call.clone();
    with_id["functionCall"]["id"] = json!("1");
    refuses_at(
        OLD,
        contents(&with_id, &result),
        "Invalid JSON payload received. Unknown name \"id\" at \
         'contents[1].parts[0].function_call': Cannot find field.",
    );
}

#[test]
fn model_of_another_family_accepts_a_call_without_a_signature() {
    let results = user(json!([result("1", "f")]));
    let contents = |call: Value| json!({"contents": [question(), model(json!([call])), results]});
    let path = "/v1beta/models/gemma-4:generateContent";
    accepts_at(path, contents(call("1", "f")));
    accepts_at(path, contents(signed_at(path, call("1", "f"))));
    refuses_at(path, contents(signed(call("1", "f"))), "Corrupted thought signature.");
}
