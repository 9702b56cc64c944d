//! Checks request bodies against Gemini's rules, each with the expected error text.

mod conversations;
mod embeddings;

use serde_json::json;

use super::*;
use crate::shape::tests::check_shapes;

const FLASH: &str = "/v1beta/models/gemini-3.8-flash:generateContent";
const OLD: &str = "/v1beta/models/gemini-2.5-flash:generateContent";
const VERTEX: &str = "/v1beta1/projects/p/locations/global/publishers/google/models/gemini-3.8-flash:generateContent";

fn route(path: &str) -> Route {
    Route::parse(path).unwrap()
}

fn with(fields: Value) -> Value {
    let mut body = json!({"contents": [{"role": "user", "parts": [{"text": "hi"}]}]});
    for (key, value) in fields.as_object().unwrap() {
        body[key] = value.clone();
    }
    body
}

#[track_caller]
fn accepts_at(path: &str, fields: Value) {
    assert_eq!(check_request(&with(fields), &route(path)), Ok(()));
}

#[track_caller]
fn accepts(fields: Value) {
    accepts_at(FLASH, fields);
}

#[track_caller]
fn refuses_at(path: &str, fields: Value, expected: &str) {
    let error = check_request(&with(fields), &route(path)).unwrap_err();
    assert_eq!((error.code, error.status.as_str()), (400, "INVALID_ARGUMENT"));
    assert_eq!(error.message, expected);
}

#[track_caller]
fn refuses(fields: Value, expected: &str) {
    refuses_at(FLASH, fields, expected);
}

#[track_caller]
fn refuses_part(part: Value, expected: &str) {
    refuses(json!({"contents": [{"role": "user", "parts": [part]}]}), expected);
}

#[track_caller]
fn refuses_function(function: Value, expected: &str) {
    refuses(json!({"tools": [{"functionDeclarations": [function]}]}), expected);
}

#[track_caller]
fn refuses_schema(schema: Value, expected: &str) {
    refuses_function(json!({"name": "f", "parameters": schema}), expected);
}

#[test]
fn every_shape_has_known_kinds() {
    check_shapes(Wording, &["google_ai_only", "vertex_only", "part_data"]);
}

#[test]
fn valid_requests_are_accepted() {
    accepts(json!({}));
    accepts(json!({"systemInstruction": {"parts": [{"text": "Be brief."}]}, "tools": null}));
    accepts(json!({"generationConfig": {
        "temperature": 0.5, "topP": 1, "topK": 40, "maxOutputTokens": 65536, "stopSequences": ["END"],
        "responseMimeType": "application/json", "responseJsonSchema": {"type": "object", "const": 1},
        "thinkingConfig": {"includeThoughts": true, "thinkingLevel": "LOW"}, "seed": -1,
    }}));
    accepts(json!({
        "safetySettings": [{"category": "HARM_CATEGORY_HARASSMENT", "threshold": "BLOCK_NONE"}],
        "serviceTier": "flex", "labels": {"team": "a"}, "store": false,
    }));
    accepts(json!({"contents": [{"role": "user", "parts": [
        {"inlineData": {"mimeType": "image/png", "data": "iVBORw0KGgo="}},
        {"inlineData": {"mimeType": "image/png", "data": "_-8"}},
        {"fileData": {"mimeType": "application/pdf", "fileUri": "gs://a/b.pdf"}},
        {"text": ""},
    ]}]}));
    accepts(json!({"cachedContent": "cachedContents/a"}));
    accepts(json!({"generation_config": {"thinking_config": {"include_thoughts": true}}}));
    accepts_at(VERTEX, json!({"modelArmorConfig": {"promptTemplateName": "a"}}));
}

#[test]
fn invalid_structure_is_rejected() {
    refuses(
        json!({"messages": []}),
        "Invalid JSON payload received. Unknown name \"messages\": Cannot find field.",
    );
    refuses_part(
        json!({"txt": "hi"}),
        "Invalid JSON payload received. Unknown name \"txt\" at 'contents[0].parts[0]': Cannot \
         find field.",
    );
    refuses_part(
        json!({"text": 5}),
        "Invalid value at 'contents[0].parts[0].text' (TYPE_STRING), 5",
    );
    refuses_part(
        json!({"text": ["hi"]}),
        "Invalid JSON payload received. Unknown name \"text\" at 'contents[0].parts[0]': Proto \
         field is not repeating, cannot start list.",
    );
    refuses(
        json!({"generationConfig": {"thinkingConfig": {"thinkingLevel": "low"}}}),
        "Invalid value at 'generation_config.thinking_config.thinking_level' (TYPE_ENUM), \"low\"",
    );
    refuses(
        json!({"contents": []}),
        "* GenerateContentRequest.contents: contents is not specified",
    );
    refuses(
        json!({"contents": null}),
        "* GenerateContentRequest.contents: contents is not specified",
    );
    for role in [json!({"role": "system", "parts": []}), json!({"parts": []})] {
        refuses(json!({"contents": [role]}), "Please use a valid role: user, model.");
    }
    refuses(
        json!({"contents": [{"role": "user", "parts": []}]}),
        "* GenerateContentRequest.contents[0].parts: contents.parts must not be empty.",
    );
    refuses(
        json!({"contents": [{"role": "model", "parts": [{"text": "hi"}]}]}),
        "Please ensure that multiturn requests start with a user turn.",
    );
}

#[test]
fn fields_of_the_other_platform_are_rejected() {
    let unknown = |name: &str, place: &str| {
        format!("Invalid JSON payload received. Unknown name \"{name}\"{place}: Cannot find field.")
    };
    refuses_at(VERTEX, json!({"store": true}), &unknown("store", ""));
    refuses(json!({"modelArmorConfig": {}}), &unknown("modelArmorConfig", ""));
    let part = json!({"toolCall": {"toolType": "GOOGLE_SEARCH"}});
    let contents = json!([{"role": "user", "parts": [part]}]);
    let place = " at 'contents[0].parts[0]'";
    refuses_at(VERTEX, json!({"contents": contents}), &unknown("toolCall", place));
    refuses(
        json!({
            "tools": [{"functionDeclarations": [{"name": "f"}]}],
            "toolConfig": {"functionCallingConfig": {"streamFunctionCallArguments": true}},
        }),
        &unknown("streamFunctionCallArguments", " at 'tool_config.function_calling_config'"),
    );
}

#[test]
fn part_needs_exactly_one_kind_of_data() {
    refuses_part(
        json!({"thought": true}),
        "* GenerateContentRequest.contents[0].parts[0].data: required oneof field 'data' must have \
         one initialized field",
    );
    refuses_part(
        json!({"text": "a", "inlineData": {"mimeType": "image/png", "data": ""}}),
        "Invalid value at 'contents[0].parts[0]' (oneof), oneof field 'data' is already set. \
         Cannot set 'inline_data'",
    );
    refuses_part(
        json!({"inlineData": {"data": "AAAA"}}),
        "* GenerateContentRequest.contents[0].parts[0].inline_data.mime_type: mime_type is not \
         specified",
    );
    refuses_part(
        json!({"inlineData": {"mimeType": "image/png", "data": "data:image/png"}}),
        "Invalid value at 'contents[0].parts[0].inline_data.data' (TYPE_BYTES), Base64 decoding \
         failed for \"data:image/png\"",
    );
    refuses_part(
        json!({"text": "a", "thoughtSignature": "?"}),
        "Invalid value at 'contents[0].parts[0].thought_signature' (TYPE_BYTES), Base64 decoding \
         failed for \"?\"",
    );
    refuses_part(
        json!({"fileData": {"mimeType": "image/png"}}),
        "* GenerateContentRequest.contents[0].parts[0].file_data.file_uri: file_uri is not specified",
    );
    let part = json!({"fileData": {"fileUri": "gs://a/b"}});
    let file = json!({"contents": [{"role": "user", "parts": [part]}]});
    accepts(file.clone());
    refuses_at(
        VERTEX,
        file,
        "Unable to submit request because it has an empty mimeType parameter in fileData. Add a \
         value to the parameter and try again.",
    );
}

#[test]
fn numbers_out_of_range_are_rejected() {
    let refuses_config = |config: Value, expected: &str| {
        refuses(
            json!({"generationConfig": config}),
            &format!("* GenerateContentRequest.generation_config.{expected}"),
        );
    };
    refuses_config(
        json!({"temperature": 3}),
        "temperature: temperature must be in the range [0.0, 2.0].",
    );
    refuses_config(json!({"topP": -1}), "top_p: top_p must be in the range [0.0, 1.0].");
    refuses_config(
        json!({"maxOutputTokens": 0}),
        "max_output_tokens: max_output_tokens must be positive.",
    );
    refuses_config(
        json!({"stopSequences": ["a", "b", "c", "d", "e", "f"]}),
        "stop_sequences: at most 5 stop_sequences are allowed, but 6 are set",
    );
}

#[test]
fn large_output_needs_a_stream_or_a_continuation() {
    const ARGON: &str = "/v1beta/models/gemini-4-argon:";
    let unstreamed = format!("{ARGON}generateContent");
    let config = |tokens: u32| json!({"generationConfig": {"maxOutputTokens": tokens}});
    refuses_at(
        &unstreamed,
        config(32_769),
        "* GenerateContentRequest.generation_config.max_output_tokens: max_output_tokens must be \
         at most 32768 for a request that is not streamed and has no continuation_token.",
    );
    accepts_at(&unstreamed, config(32_768));
    accepts_at(&format!("{ARGON}streamGenerateContent"), config(1_000_000));
    let mut more = config(1_000_000);
    more["continuationToken"] = json!("Y29udGludWVz");
    accepts_at(&unstreamed, more);
    accepts(config(65_536));
}

#[test]
fn thinking_has_a_budget_or_a_level() {
    let config = |thinking: Value| json!({"generationConfig": {"thinkingConfig": thinking}});
    refuses(
        config(json!({"thinkingBudget": 1024, "thinkingLevel": "LOW"})),
        "You can only set only one of thinking budget and thinking level.",
    );
    refuses_at(
        OLD,
        config(json!({"thinkingLevel": "LOW"})),
        "Thinking level is not supported for this model.",
    );
    refuses_at(
        "/v1/models/gemini-2.5-pro:generateContent",
        config(json!({"thinkingBudget": 0})),
        "Budget 0 is invalid. This model only works in thinking mode.",
    );
    accepts_at(OLD, config(json!({"thinkingBudget": 0})));
    accepts(config(json!({"thinkingBudget": -1})));
}

#[test]
fn response_schema_needs_json() {
    let path = "* GenerateContentRequest.generation_config";
    let refuses_config = |config: Value, expected: &str| {
        refuses(json!({"generationConfig": config}), &format!("{path}.{expected}"));
    };
    let json_needed =
        "response_mime_type: a response schema needs the response_mime_type `application/json`.";
    refuses_config(json!({"responseSchema": {"type": "OBJECT"}}), json_needed);
    refuses_config(
        json!({"responseJsonSchema": {}, "responseMimeType": "text/plain"}),
        json_needed,
    );
    refuses_config(
        json!({"responseMimeType": "text/html"}),
        "response_mime_type: allowed mimetypes are `text/plain`, `application/json`, and \
         `text/x.enum`.",
    );
    refuses_config(
        json!({
            "responseSchema": {}, "responseJsonSchema": {}, "responseMimeType": "application/json",
        }),
        "response_json_schema: only one of response_schema and response_json_schema can be set.",
    );
    refuses(
        json!({"generationConfig": {
            "responseMimeType": "application/json", "responseSchema": {"const": 1},
        }}),
        "Invalid JSON payload received. Unknown name \"const\" at \
         'generation_config.response_schema': Cannot find field.",
    );
    let with_functions = json!({
        "tools": [{"functionDeclarations": [{"name": "f"}]}],
        "generationConfig": {"responseMimeType": "application/json"},
    });
    refuses_at(
        OLD,
        with_functions.clone(),
        "Function calling with a response mime type: 'application/json' is unsupported",
    );
    accepts(with_functions);
}

#[test]
fn valid_tools_are_accepted() {
    accepts(json!({"tools": []}));
    accepts(json!({
        "tools": [{"functionDeclarations": [
            {"name": "_a.b:c-1", "description": "d", "parametersJsonSchema": {"oneOf": [true]}},
            {"name": "g", "parameters": {
                "type": "OBJECT",
                "properties": {
                    "a": {"type": "array", "items": {"type": "STRING", "enum": ["x"]}},
                    "b": {"anyOf": [{"type": "NUMBER", "minimum": 0}, {"type": "NULL"}]},
                },
                "required": ["a"],
                "propertyOrdering": ["b", "a"],
            }},
        ]}],
        "toolConfig": {"functionCallingConfig": {"mode": "ANY", "allowedFunctionNames": ["g"]}},
    }));
    accepts(json!({"tools": [{"googleSearch": {}}, {"codeExecution": {}}]}));
    accepts(json!({
        "tools": [{"googleSearch": {}}, {"functionDeclarations": [{"name": "f"}]}],
        "toolConfig": {"includeServerSideToolInvocations": true},
    }));
    accepts_at(VERTEX, json!({"toolConfig": {"functionCallingConfig": {"mode": "AUTO"}}}));
}

#[test]
fn invalid_tools_are_rejected() {
    for tool in [json!({}), json!({"functionDeclarations": []})] {
        refuses(
            json!({"tools": [tool]}),
            "The GenerateContentRequest proto is invalid:\n  * tools[0].tool_type: required one_of \
             'tool_type' must have one initialized field",
        );
    }
    refuses(
        json!({"tools": [{"googleSearch": {}, "urlContext": {}}]}),
        "Invalid value at 'tools[0]' (oneof), oneof field 'tool_type' is already set. Cannot set \
         'url_context'",
    );
    for name in ["", "1a", "a b", "é", &"a".repeat(129)] {
        refuses_function(
            json!({"name": name}),
            "The GenerateContentRequest proto is invalid:\n  * \
             tools[0].function_declarations[0].name: [FIELD_INVALID] Invalid function name. Must start with a letter or an underscore. Must be a-z, A-Z, \
             0-9, or contain underscores (_), dots (.), colons (:), or dashes (-), with a maximum \
             length of 128.",
        );
    }
    let functions = json!([{"functionDeclarations": [{"name": "f"}, {"name": "f"}]}]);
    refuses(json!({"tools": functions}), "Duplicate function declaration found: f");
    let many: Vec<Value> = (0..513).map(|index| json!({"name": format!("f{index}")})).collect();
    refuses(
        json!({"tools": [{"functionDeclarations": many}]}),
        "* GenerateContentRequest.tools: at most 512 function declarations are allowed.",
    );
    let both = json!([{"googleSearch": {}}, {"functionDeclarations": [{"name": "f"}]}]);
    refuses(
        json!({"tools": both}),
        "Please enable tool_config.include_server_side_tool_invocations to use Built-in tools with \
         Function calling.",
    );
    refuses_at(OLD, json!({"tools": both}), "Tool use with function calling is unsupported");
}

#[test]
fn choice_needs_functions_and_the_right_mode() {
    let refuses_choice = |tools: Value, choice: Value, expected: &str| {
        let config = json!({"functionCallingConfig": choice});
        refuses(json!({"tools": tools, "toolConfig": config}), expected);
    };
    let without = "Function calling config is set without function_declarations.";
    refuses_choice(json!([]), json!({"mode": "AUTO"}), without);
    refuses_choice(json!([{"googleSearch": {}}]), json!({"mode": "NONE"}), without);
    let tools = json!([{"functionDeclarations": [{"name": "f"}]}]);
    refuses_choice(
        tools.clone(),
        json!({"mode": "AUTO", "allowedFunctionNames": ["f"]}),
        "* GenerateContentRequest.tool_config.function_calling_config.allowed_function_names: \
         allowed_function_names can only be set if the mode is ANY.",
    );
    refuses_choice(
        tools,
        json!({"mode": "REQUIRED"}),
        "Invalid value at 'tool_config.function_calling_config.mode' (TYPE_ENUM), \"REQUIRED\"",
    );
}

#[test]
fn cache_excludes_the_fields_that_it_has() {
    refuses(
        json!({"cachedContent": "cachedContents/a", "tools": [{"googleSearch": {}}]}),
        "CachedContent can not be used with GenerateContent request setting system_instruction, \
         tools or tool_config.\n\nProposed fix: move those values to CachedContent from \
         GenerateContent request.",
    );
}

#[test]
fn schema_has_a_fixed_set_of_fields() {
    let place = "tools[0].function_declarations[0].parameters";
    for key in ["$schema", "const", "exclusiveMinimum", "multipleOf", "oneOf", "allOf", "$ref"] {
        refuses_schema(
            json!({"type": "OBJECT", "properties": {"a": {}, "b": {key: 1}}}),
            &format!(
                "Invalid JSON payload received. Unknown name \"{key}\" at \
                 '{place}.properties[1].value': Cannot find field."
            ),
        );
    }
    refuses_schema(
        json!({"anyOf": [{"uniqueItems": true}]}),
        &format!(
            "Invalid JSON payload received. Unknown name \"uniqueItems\" at '{place}.any_of[0]': \
             Cannot find field."
        ),
    );
    refuses_schema(
        json!({"type": ["string", "null"]}),
        &format!(
            "Invalid JSON payload received. Unknown name \"type\" at '{place}': Proto field is not \
             repeating, cannot start list."
        ),
    );
    refuses_schema(
        json!({"enum": [1]}),
        &format!("Invalid value at '{place}.enum[0]' (TYPE_STRING), 1"),
    );
    refuses_schema(
        json!({"type": "map"}),
        &format!("Invalid value at '{place}.type' (TYPE_ENUM), \"MAP\""),
    );
    refuses_schema(
        json!({"items": {"type": "ARRAY"}}),
        &format!("* GenerateContentRequest.{place}.items.items: missing field."),
    );
    refuses_schema(
        json!({"properties": {"a": {}}, "required": ["a", "b"]}),
        &format!("* GenerateContentRequest.{place}.required[1]: property is not defined"),
    );
    refuses_function(
        json!({"name": "f", "parameters": {}, "parametersJsonSchema": {}}),
        "* GenerateContentRequest.tools[0].function_declarations[0].parameters_json_schema: only \
         one of parameters and parameters_json_schema can be set.",
    );
}
