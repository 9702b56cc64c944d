//! Checks right bodies, and bodies that break one rule each.

use serde_json::{Value, json};

use super::*;
use crate::checker::tests::{check_coverage, check_refused, check_shapes, with};
use crate::gemini::thought_signature;

const FLASH: &str = "/v1beta/models/gemini-3.8-flash:generateContent";
const OLD: &str = "/v1beta/models/gemini-2.5-flash:generateContent";
const PRO: &str = "/v1beta/models/gemini-2.5-pro:generateContent";
const ARGON: &str = "/v1beta/models/gemini-4-argon:generateContent";
const VERTEX: &str = "/v1beta1/projects/p/locations/global/publishers/google/models/gemini-3.8-flash:generateContent";

fn route(path: &str) -> Route {
    Route::parse(path).unwrap()
}

fn body(fields: Value) -> Value {
    with(json!({"contents": [{"role": "user", "parts": [{"text": "hi"}]}]}), fields)
}

fn said(contents: Value) -> Value {
    body(json!({"contents": contents}))
}

fn part(part: Value) -> Value {
    said(json!([user(json!([part]))]))
}

fn config(fields: Value) -> Value {
    body(json!({"generationConfig": fields}))
}

fn functions(functions: Value) -> Value {
    body(json!({"tools": [{"functionDeclarations": functions}]}))
}

fn user(parts: Value) -> Value {
    json!({"role": "user", "parts": parts})
}

fn model(parts: Value) -> Value {
    json!({"role": "model", "parts": parts})
}

fn hi() -> Value {
    user(json!([{"text": "hi"}]))
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

/// Returns a conversation with the call `f`, and with this value in the response.
fn returned(fields: Value) -> Value {
    let response = with(result("1", "f")["functionResponse"].clone(), fields);
    said(json!([
        hi(),
        model(json!([signed(call("1", "f"))])),
        user(json!([{"functionResponse": response}]))
    ]))
}

#[test]
fn each_field_has_its_kind() {
    check_shapes(&TABLE, false);
}

#[test]
fn right_requests_are_accepted() {
    let image = json!({"inlineData": {"mimeType": "image/png", "data": "_-8", "displayName": "a"}});
    let first = model(json!([{"text": "Let me look."}, signed(call("1", "f")), call("2", "g")]));
    let results = user(json!([result("1", "f"), result("2", "g")]));
    let second = [model(json!([signed(call("3", "f"))])), user(json!([result("3", "f")]))];
    let end = model(json!([{"text": "It is noon."}, signed(json!({"text": ""}))]));
    let whole = json!([hi(), first, results, second[0], second[1], end, hi()]);
    let unsigned = [model(json!([call("1", "f")])), user(json!([result("1", "f")]))];
    let skipped =
        with(call("1", "f"), json!({"thoughtSignature": "skip_thought_signature_validator"}));
    let foreign = with(call("1", "f"), json!({"thoughtSignature": "c2ln"}));
    let bare = json!([
        hi(),
        model(json!([{"functionCall": {"name": "f"}}, {"functionCall": {"name": "f"}}])),
        user(
            json!([{"functionResponse": {"name": "f", "response": {}}}, {"functionResponse": {"name": "f", "response": {}}}])
        ),
    ]);
    let search = json!([{"googleSearch": {}}, {"functionDeclarations": [{"name": "f"}]}]);
    let schema = json!({
        "type": "OBJECT", "properties": {"a": {"type": "array", "items": {"type": "STRING"}}, "max_items": {"anyOf": [{}]}},
    });
    let chosen =
        json!({"functionCallingConfig": {"mode": "ANY", "allowedFunctionNames": ["_g.b:c-1"]}});
    for (path, right) in [
        (
            FLASH,
            body(json!({"systemInstruction": {"parts": [{"text": "Be brief."}]}, "store": false})),
        ),
        (
            FLASH,
            config(
                json!({"responseMimeType": "application/json", "responseJsonSchema": {"const": 1}, "maxOutputTokens": 65536}),
            ),
        ),
        (
            FLASH,
            body(
                json!({"generation_config": {"thinking_config": {"include_thoughts": true, "thinking_budget": -1}}}),
            ),
        ),
        (FLASH, body(json!({"cachedContent": "cachedContents/a"}))),
        (FLASH, part(json!({"fileData": {"fileUri": "gs://a/b"}}))),
        (FLASH, part(image.clone())),
        (FLASH, said(whole)),
        (FLASH, said(json!([hi(), unsigned[0], unsigned[1], hi()]))),
        (FLASH, said(json!([hi(), model(json!([skipped])), unsigned[1]]))),
        (FLASH, said(json!([hi(), model(json!([foreign])), unsigned[1], hi()]))),
        (FLASH, returned(json!({"response": {"image": {"$ref": "a"}}, "parts": [image]}))),
        (
            FLASH,
            body(
                json!({"tools": [{"functionDeclarations": [{"name": "_g.b:c-1", "parameters": schema}]}], "toolConfig": chosen}),
            ),
        ),
        (
            FLASH,
            body(
                json!({"tools": search, "toolConfig": {"includeServerSideToolInvocations": true}}),
            ),
        ),
        (FLASH, body(json!({"tools": [{"googleSearch": {}}, {"codeExecution": {}}]}))),
        (OLD, said(bare)),
        (OLD, config(json!({"thinkingConfig": {"thinkingBudget": 0}}))),
        (ARGON, config(json!({"maxOutputTokens": 32768}))),
        (ARGON, with(config(json!({"maxOutputTokens": 32769})), json!({"continuationToken": "a"}))),
        (
            "/v1beta/models/gemini-4-argon:streamGenerateContent",
            config(json!({"maxOutputTokens": 32769})),
        ),
        (
            VERTEX,
            body(
                json!({"modelArmorConfig": {}, "toolConfig": {"functionCallingConfig": {"mode": "AUTO"}}}),
            ),
        ),
        (VERTEX, body(json!({"tools": search}))),
        ("/v1beta/models/gemma-4:generateContent", said(json!([hi(), unsigned[0], unsigned[1]]))),
    ] {
        assert_eq!(check_request(&right, &route(path)), Ok(()), "{right}");
    }
}

#[test]
fn wrong_requests_are_refused() {
    let number = "is equal to the number of function call parts";
    let order = "comes immediately after a function call turn";
    let unknown = |name: &str, place: &str| {
        format!("Unknown name \"{name}\" at '{place}': Cannot find field.")
    };
    let (call_1, results) = (signed(call("1", "f")), user(json!([result("1", "f")])));
    let calls = model(json!([call_1, call("2", "g")]));
    let mut changed = call_1.clone();
    changed["functionCall"]["args"]["a"] = json!(2);
    let copied = with(call("2", "f"), json!({"thoughtSignature": call_1["thoughtSignature"]}));
    let merged = with(
        json!({"text": "ab"}),
        json!({"thoughtSignature": signed(json!({"text": "b"}))["thoughtSignature"]}),
    );
    let corrupted = |call: Value| {
        ("Corrupted thought signature.", said(json!([hi(), model(json!([call])), results])))
    };
    let with_id = said(json!([hi(), model(json!([call("1", "f")])), results]));
    let search = json!([{"googleSearch": {}}, {"functionDeclarations": [{"name": "f"}]}]);
    let blob = |fields: Value| json!({"inlineData": with(json!({"mimeType": "image/png", "data": "AAAA"}), fields)});
    let schema = |schema: Value| functions(json!([{"name": "f", "parameters": schema}]));
    let mode = |mode: &str| json!({"functionCallingConfig": {"mode": mode, "allowedFunctionNames": ["f"]}});
    let place = "tools[0].function_declarations[0].parameters.properties.b";
    let mut cases: Vec<(&str, &str, Value)> = Vec::new();
    let texts = [
        unknown("messages", ""),
        unknown("txt", "contents[0].parts[0]"),
        unknown("const", place),
        unknown("store", ""),
        unknown("modelArmorConfig", ""),
        unknown("toolCall", "contents[0].parts[0]"),
        unknown("id", "contents[1].parts[0].function_call"),
    ]
    .map(|text| text.replace(" at ''", ""));
    let [messages, txt, constant, store, armor, tool_call, id] = texts.each_ref();
    let mut at = |path: &'static str, more: Vec<(&'static str, Value)>| {
        cases.extend(more.into_iter().map(|(expected, body)| (path, expected, body)));
    };
    at(
        FLASH,
        vec![
            ("contents is not specified", body(json!({"contents": []}))),
            ("contents is not specified", body(json!({"contents": null}))),
            (
                "Please use a valid role",
                said(json!([{"role": "system", "parts": [{"text": "a"}]}])),
            ),
            ("Please use a valid role", said(json!([{"parts": [{"text": "a"}]}]))),
            ("parts must not be empty", said(json!([user(json!([]))]))),
            ("contents[0]: contents.parts must not be empty", said(json!([{"role": "user"}]))),
            ("contents[0].parts[0].text' (string), 5", part(json!({"text": 5}))),
            (
                "thinking_level' (TYPE_ENUM), \"low\"",
                config(json!({"thinkingConfig": {"thinkingLevel": "low"}})),
            ),
            ("contents[0].parts[0]: 0 is not specified", part(json!({"thought": true}))),
            ("Cannot set 'text'", part(with(blob(json!({})), json!({"text": "a"})))),
            ("mimeType is not specified", part(blob(json!({"mimeType": null})))),
            ("Base64 decoding failed for \"data:\"", part(blob(json!({"data": "data:"})))),
            ("fileUri is not specified", part(json!({"fileData": {"mimeType": "image/png"}}))),
            ("must be in the range [0, 2]", config(json!({"temperature": 3}))),
            ("must be in the range [0, 1]", config(json!({"topP": -1}))),
            (
                "at most 5 are allowed, but 6",
                config(json!({"stopSequences": ["a", "b", "c", "d", "e", "f"]})),
            ),
            (
                "one of thinking budget and",
                config(json!({"thinkingConfig": {"thinkingBudget": 9, "thinkingLevel": "LOW"}})),
            ),
            (
                "only one of response_schema",
                config(
                    json!({"responseSchema": {}, "responseJsonSchema": {}, "responseMimeType": "application/json"}),
                ),
            ),
            ("a response schema needs", config(json!({"responseSchema": {"type": "OBJECT"}}))),
            (
                "a response schema needs",
                config(json!({"responseJsonSchema": {}, "responseMimeType": "text/plain"})),
            ),
            (
                "only one of a schema and",
                functions(json!([{"name": "f", "parameters": {}, "parametersJsonSchema": {}}])),
            ),
            ("functionDeclarations must not be empty", functions(json!([]))),
            ("tools[0]: 0 is not specified", body(json!({"tools": [{}]}))),
            (
                "Cannot set 'urlContext'",
                body(json!({"tools": [{"googleSearch": {}, "urlContext": {}}]})),
            ),
            ("Must be a-z, A-Z, 0-9", functions(json!([{"name": "a b"}]))),
            ("Must start with a letter or an underscore.", functions(json!([{"name": "1a"}]))),
            (
                "Duplicate function declaration found: f",
                functions(json!([{"name": "f"}, {"name": "f"}])),
            ),
            ("Please enable tool_config", body(json!({"tools": search}))),
            (
                "set without function_declarations",
                body(json!({"tools": [{"googleSearch": {}}], "toolConfig": mode("ANY")})),
            ),
            (
                "only be set if the mode is ANY",
                body(
                    json!({"tools": [{"functionDeclarations": [{"name": "f"}]}], "toolConfig": mode("AUTO")}),
                ),
            ),
            (
                "CachedContent can not be used",
                body(json!({"cachedContent": "a", "tools": [{"googleSearch": {}}]})),
            ),
            ("(TYPE_ENUM), \"map\"", schema(json!({"type": "map"}))),
            ("start with a user turn", said(json!([model(json!([{"text": "hi"}])), hi()]))),
            ("ends with a user role", said(json!([hi(), model(json!([{"text": "Let me see."}]))]))),
            (number, said(json!([hi(), calls]))),
            (number, said(json!([hi(), calls, hi()]))),
            (number, said(json!([hi(), calls, results]))),
            (number, said(json!([hi(), calls, results, user(json!([result("2", "g")]))]))),
            (
                number,
                said(json!([
                    hi(),
                    model(json!([call_1])),
                    user(json!([result("1", "f"), result("1", "f")]))
                ])),
            ),
            (order, said(json!([hi(), calls, user(json!([result("2", "g"), result("1", "f")]))]))),
            (order, said(json!([results]))),
            (order, returned(json!({"name": "g"}))),
            (order, returned(json!({"id": "2"}))),
            (order, returned(json!({"id": null}))),
            (
                "call turn comes immediately after a user turn",
                said(json!([hi(), model(json!([{"text": "a"}])), calls, results])),
            ),
            ("in model turns", said(json!([user(json!([call("1", "f")]))]))),
            (
                "in model turns",
                said(json!([hi(), model(json!([call_1])), model(json!([result("1", "f")]))])),
            ),
            (
                "only function response parts",
                said(json!([
                    hi(),
                    model(json!([call_1])),
                    user(json!([result("1", "f"), {"text": "so"}]))
                ])),
            ),
            ("name is not specified", returned(json!({"name": null}))),
            ("response is not specified", returned(json!({"response": null}))),
            (
                "Unsupported MIME type: audio/wav",
                returned(json!({"parts": [blob(json!({"mimeType": "audio/wav"}))]})),
            ),
            (
                "Base64 decoding failed",
                returned(json!({"parts": [blob(json!({"data": "data:image/png;base64,AAAA"}))]})),
            ),
            ("`default_api:f` , position 2.", with_id.clone()),
            (
                "`default_api:f` , position 2.",
                said(json!([
                    hi(),
                    model(json!([call("1", "f"), signed(call("2", "g"))])),
                    user(json!([result("1", "f"), result("2", "g")]))
                ])),
            ),
            (
                "`default_api:f` , position 4.",
                said(json!([
                    hi(),
                    model(json!([call_1])),
                    results,
                    model(json!([call("1", "f")])),
                    results
                ])),
            ),
            corrupted(changed),
            corrupted(merged),
            corrupted(signed_at("/v1beta/models/gemini-3.7-flash:generateContent", call("1", "f"))),
            corrupted(signed_at(VERTEX, call("1", "f"))),
            (
                "Corrupted",
                said(json!([
                    hi(),
                    model(json!([call_1, copied])),
                    user(json!([result("1", "f"), result("2", "f")]))
                ])),
            ),
        ],
    );
    at(
        OLD,
        vec![
            (
                "Thinking level is not supported",
                config(json!({"thinkingConfig": {"thinkingLevel": "LOW"}})),
            ),
            ("Tool use with function calling", body(json!({"tools": search}))),
            (
                "'application/json' is unsupported",
                with(
                    functions(json!([{"name": "f"}])),
                    json!({"generationConfig": {"responseMimeType": "application/json"}}),
                ),
            ),
        ],
    );
    at(
        PRO,
        vec![("Budget 0 is invalid", config(json!({"thinkingConfig": {"thinkingBudget": 0}})))],
    );
    at(ARGON, vec![("must be at most 32768", config(json!({"maxOutputTokens": 32769})))]);
    at(
        VERTEX,
        vec![("empty mimeType parameter", part(json!({"fileData": {"fileUri": "gs://a/b"}})))],
    );
    cases.push((FLASH, messages, body(json!({"messages": []}))));
    cases.push((FLASH, txt, part(json!({"txt": "hi"}))));
    cases.push((FLASH, constant, schema(json!({"properties": {"b": {"const": 1}}}))));
    cases.push((FLASH, armor, body(json!({"modelArmorConfig": {}}))));
    cases.push((VERTEX, store, body(json!({"store": true}))));
    cases.push((VERTEX, tool_call, part(json!({"toolCall": {"toolType": "GOOGLE_SEARCH"}}))));
    cases.push((OLD, id, with_id));
    let mut found = Vec::new();
    for (path, expected, body) in cases {
        found.extend(check_refused(
            vec![(expected, body)],
            |body| check_request(body, &route(path)),
            |error| {
                assert_eq!((error.code, error.status.as_str()), (400, "INVALID_ARGUMENT"));
                error.message
            },
        ));
    }
    found.extend(embedding_refusals());
    check_coverage(&TABLE, &found);
}

/// Checks requests for embeddings, and returns the messages of the wrong ones.
fn embedding_refusals() -> Vec<String> {
    let vertex =
        |model: &str| format!("/v1/projects/p/locations/eu/publishers/google/models/{model}");
    let (google, batch, open, single) = (
        "/v1beta/models/gemini-embedding-2:batchEmbedContents".to_owned(),
        vertex("gemini-embedding-2:batchEmbedContents"),
        vertex("maas-e5:batchEmbedContents"),
        vertex("gemini-embedding-2:embedContent"),
    );
    let (text, first) =
        (vertex("text-embedding-005:predict"), vertex("gemini-embedding-001:predict"));
    let content = json!({"content": {"parts": [{"text": "one"}]}});
    let request = with(
        content.clone(),
        json!({"model": "models/gemini-embedding-2", "outputDimensionality": 3}),
    );
    let requests = |requests: Vec<Value>| json!({"requests": requests});
    let instances = |count: usize| json!({"instances": vec![json!({"content": "a", "task_type": "CLUSTERING"}); count]});
    let image =
        json!({"content": {"parts": [{"inlineData": {"mimeType": "image/png", "data": ""}}]}});
    for (path, right) in [
        (&google, requests(vec![request.clone(); 100])),
        (&batch, requests(vec![content.clone()])),
        (
            &single,
            with(content.clone(), json!({"embed_content_config": {"output_dimensionality": 3}})),
        ),
        (&text, with(instances(250), json!({"parameters": {"autoTruncate": false}}))),
        (&first, instances(1)),
    ] {
        assert_eq!(check_embeddings_request(&right, &route(path)), Ok(()), "{path}: {right}");
    }
    let cases = [
        (&google, "at most 100 are allowed, but 101", requests(vec![request.clone(); 101])),
        (&google, "must not be empty", requests(Vec::new())),
        (
            &google,
            "requests[0]: model must be the model of the batch",
            requests(vec![content.clone()]),
        ),
        (
            &google,
            "requests[0].model: model must be the model of the batch",
            requests(vec![with(content.clone(), json!({"model": "gemini-embedding-2"}))]),
        ),
        (
            &google,
            "content must have parts with text",
            requests(vec![with(image.clone(), json!({"model": "models/gemini-embedding-2"}))]),
        ),
        (&single, "content must have parts with text", image),
        (&open, "Precondition check failed.", requests(vec![content.clone()])),
        (&first, "at most 1 instance", instances(2)),
        (&text, "at most 250 are allowed", instances(251)),
    ];
    let mut found: Vec<String> = Vec::new();
    for (path, expected, body) in cases {
        let check = |body: &Value| check_embeddings_request(body, &route(path));
        found.extend(check_refused(vec![(expected, body)], check, |error| error.message));
    }
    for (path, body) in [
        (vertex("text-embedding-005:embedContent"), content),
        (vertex("gemini-embedding-2:predict"), instances(1)),
    ] {
        let error = check_embeddings_request(&body, &route(&path)).unwrap_err();
        assert_eq!((error.code, error.status.as_str()), (400, "FAILED_PRECONDITION"), "{path}");
    }
    found
}
