//! Conversion of the parts of a response to content blocks.
//!
//! <https://ai.google.dev/api/caching#Part>

use neuron_http::UniqueTexts;
use neuron_model::{ContentBlock, ProviderError, ToolCall};
use serde_json::{Map, Value, json};
use uuid::Uuid;

use crate::model::base_name;
use crate::partial_call::PartialCall;

/// Name of the field that the crate adds to a signed part. It contains the name of the model that was asked. The
/// field is never sent. The API rejects a signature of another model, and a signature does not show its model.
pub(crate) const SIGNED_BY: &str = "neuron:signedBy";

/// The server of a response.
#[derive(Debug, Clone)]
pub(crate) struct Origin {
    /// Name of the platform, for raw blocks.
    pub(crate) vendor: &'static str,
    /// Name of the model that was asked, without the path before it. Empty if it is not known.
    pub(crate) model: String,
}

impl Origin {
    pub(crate) fn new(vendor: &'static str, model: &str) -> Self {
        Self { vendor, model: base_name(model).to_owned() }
    }
}

/// The content of a response so far.
#[derive(Debug)]
pub(crate) struct Parts {
    origin: Origin,
    blocks: Vec<ContentBlock>,
    /// Ids of all calls in `blocks`.
    ids: UniqueTexts<'static>,
    /// The call whose fragments are still arriving.
    open: Option<PartialCall>,
}

impl Parts {
    pub(crate) fn new(origin: Origin) -> Self {
        Self { origin, blocks: Vec::new(), ids: UniqueTexts::default(), open: None }
    }

    /// Adds a part, and returns the block with its content. A text continues the text before it, unless a part is
    /// signed. Returns `None` for a part without content, and for a fragment of a function call. The last fragment adds
    /// the whole call.
    ///
    /// # Errors
    ///
    /// [`ProviderError::StreamError`] if a fragment of a function call is malformed.
    pub(crate) fn add(&mut self, part: Value) -> Result<Option<ContentBlock>, ProviderError> {
        let Some(block) = self.read(part)? else {
            return Ok(None);
        };
        match (self.blocks.last_mut(), &block) {
            (Some(ContentBlock::Text(text)), ContentBlock::Text(more)) => text.push_str(more),
            // All thinking blocks here are unsigned. Signed thinking is a raw block.
            (
                Some(ContentBlock::Thinking { thinking: text, .. }),
                ContentBlock::Thinking { thinking: more, .. },
            ) => text.push_str(more),
            _ => self.blocks.push(block.clone()),
        }
        Ok(Some(block))
    }

    /// Returns `true` if the last fragment of a function call has not arrived.
    pub(crate) fn is_in_call(&self) -> bool {
        self.open.is_some()
    }

    /// Returns the blocks of the complete response. A call without its last fragment becomes a raw block that is no
    /// call, so that it does not run.
    pub(crate) fn into_blocks(mut self) -> Vec<ContentBlock> {
        if let Some(call) = self.open.take() {
            self.blocks.push(self.raw(call.into_part(), None));
        }
        self.blocks
    }

    /// Returns the blocks of a response whose calls are malformed. The calls become raw blocks that are no calls, so
    /// that they do not run.
    pub(crate) fn into_blocks_without_calls(self) -> Vec<ContentBlock> {
        let vendor = self.origin.vendor;
        let blocks = self.into_blocks().into_iter().map(|block| match block {
            ContentBlock::ToolUse { name, input, .. } => {
                raw(vendor, json!({"functionCall": {"name": name, "args": input}}), None)
            }
            ContentBlock::Raw { provider, json, portable } => {
                let is_call = matches!(portable.as_deref(), Some(ContentBlock::ToolUse { .. }));
                ContentBlock::Raw { provider, json, portable: portable.filter(|_| !is_call) }
            }
            block => block,
        });
        blocks.collect()
    }

    fn read(&mut self, mut part: Value) -> Result<Option<ContentBlock>, ProviderError> {
        let Some(fields) = part.as_object_mut() else {
            return Ok((!part.is_null()).then(|| self.raw(part, None)));
        };
        fields.retain(|_, value| !value.is_null());
        // These values mean the same as a missing field.
        let is_default = |key: &str, value: &Value| {
            key == "thought" && value == &Value::Bool(false)
                || key == "thoughtSignature" && value == ""
        };
        fields.retain(|key, value| !is_default(key, value));
        if fields.contains_key("functionCall") {
            return self.read_call(part);
        }
        let is_thought = fields.get("thought").is_some_and(|thought| thought == true);
        let text = fields.get("text").and_then(Value::as_str).map(str::to_owned);
        let Some(text) = text else {
            let portable = if is_thought { None } else { portable(fields) };
            return Ok((!fields.is_empty()).then(|| self.raw(part, portable)));
        };
        let is_plain = fields.keys().all(|key| key == "text" || key == "thought" && is_thought);
        let block = match is_thought {
            true => ContentBlock::Thinking { thinking: text, signature: String::new() },
            false => ContentBlock::Text(text),
        };
        let has_text = fields.get("text").is_some_and(|text| text != "");
        Ok(match (is_plain, has_text) {
            (true, has_text) => has_text.then_some(block),
            // A signed part stays a part of its own, because the signature must be sent back on exactly this part.
            (false, has_text) => Some(self.raw(part, has_text.then_some(block))),
        })
    }

    /// Parses a part with a function call, or with a fragment of it. Returns `None` for a fragment that is not the
    /// last.
    fn read_call(&mut self, mut part: Value) -> Result<Option<ContentBlock>, ProviderError> {
        let Some(call) = part.get_mut("functionCall").and_then(Value::as_object_mut) else {
            return Ok(Some(self.raw(part, None)));
        };
        if self.open.is_none() && !PartialCall::is_fragment(call) {
            // The last part of a call may be followed by an empty part.
            let is_empty =
                call.is_empty() && part.as_object().is_some_and(|fields| fields.len() == 1);
            return Ok((!is_empty).then(|| self.read_whole_call(part)));
        }
        let call = std::mem::take(call);
        let mut fields = part.as_object_mut().map(std::mem::take).unwrap_or_default();
        fields.remove("functionCall");
        let mut open = self.open.take().unwrap_or_default();
        Ok(match open.extend(fields, call)? {
            true => Some(self.read_whole_call(open.into_part())),
            false => {
                self.open = Some(open);
                None
            }
        })
    }

    /// Parses a part with a function call. A call with an id or a signature becomes a raw block. A call without a name
    /// becomes a raw block that is no call.
    fn read_whole_call(&mut self, mut part: Value) -> ContentBlock {
        let call = part.get_mut("functionCall").and_then(Value::as_object_mut);
        let Some(call) = call else {
            return self.raw(part, None);
        };
        let Some(name) = call.get("name").and_then(Value::as_str).filter(|name| !name.is_empty())
        else {
            return self.raw(part, None);
        };
        let name = name.to_owned();
        let input = arguments(call);
        let server_id = call.get("id").and_then(Value::as_str).unwrap_or_default().to_owned();
        let is_plain = call.keys().all(|key| key == "name" || key == "args");
        let id = self.unique_id(&server_id);
        let call = ContentBlock::ToolUse { id, name, input };
        let is_plain = is_plain && part.as_object().is_some_and(|fields| fields.len() == 1);
        if is_plain { call } else { self.raw(part, Some(call)) }
    }

    /// Returns a part in its own JSON. A signed part names its model.
    fn raw(&self, mut part: Value, portable: Option<ContentBlock>) -> ContentBlock {
        let Origin { vendor, model, .. } = &self.origin;
        if let Some(fields) = part.as_object_mut().filter(|fields| is_signed(fields))
            && !model.is_empty()
        {
            fields.insert(SIGNED_BY.to_owned(), model.as_str().into());
        }
        raw(vendor, part, portable)
    }

    /// Returns an id that no earlier call of the response has. This is the server's id, with a number appended if an
    /// earlier call has that id. A UUID replaces a missing id.
    fn unique_id(&mut self, server_id: &str) -> String {
        self.ids.give_id(server_id, || format!("call_{}", Uuid::new_v4().simple()))
    }
}

/// Returns the block for other vendors that has the content of a part which is neither a text nor a call. Returns `None`
/// if there is none, as for an image: other vendors do not accept images in messages of the model.
fn portable(fields: &Map<String, Value>) -> Option<ContentBlock> {
    let text_of = |part: &str, key: &str| fields.get(part)?.get(key)?.as_str();
    if let Some(code) = text_of("executableCode", "code") {
        let language = text_of("executableCode", "language").unwrap_or_default();
        return Some(fenced(&language.to_lowercase(), code));
    }
    text_of("codeExecutionResult", "output").map(|output| fenced("", output))
}

/// Returns a block of code in Markdown, as a thought: the code that the server executed is no part of the answer. Its fence is longer than each run of backticks in the code.
fn fenced(language: &str, code: &str) -> ContentBlock {
    let runs = code.split(|c| c != '`').map(str::len);
    let fence = "`".repeat(runs.max().unwrap_or_default().max(2) + 1);
    let code = code.trim_end_matches('\n');
    let thinking = format!("\n{fence}{language}\n{code}\n{fence}\n");
    ContentBlock::Thinking { thinking, signature: String::new() }
}

/// Returns `true` if a part has a thought signature.
pub(crate) fn is_signed(fields: &Map<String, Value>) -> bool {
    fields.get("thoughtSignature").and_then(Value::as_str).is_some_and(|text| !text.is_empty())
}

/// Returns the arguments of a call. Replaces arguments in the call that are not an object, because the API rejects them
/// in the next request.
fn arguments(call: &mut Map<String, Value>) -> Value {
    match call.get("args") {
        None | Some(Value::Null) => {
            call.remove("args");
            Value::Object(Map::new())
        }
        Some(Value::Object(args)) => Value::Object(args.clone()),
        Some(other) => {
            let input = match other.as_str() {
                Some(text) => ToolCall::parse_input(text),
                None => other.clone(),
            };
            let args = if input.is_object() { input.clone() } else { json!({"input": input}) };
            call.insert("args".to_owned(), args);
            input
        }
    }
}

fn raw(vendor: &str, json: Value, portable: Option<ContentBlock>) -> ContentBlock {
    ContentBlock::Raw { provider: vendor.to_owned(), json, portable: portable.map(Box::new) }
}

#[cfg(test)]
mod tests {
    use neuron_model::{Message, Role};

    use super::*;

    const V: &str = "gcp.gemini";

    fn blocks(parts: &[Value]) -> Vec<ContentBlock> {
        let mut read = Parts::new(Origin::new(V, ""));
        for part in parts {
            read.add(part.clone()).unwrap();
        }
        read.into_blocks()
    }

    #[track_caller]
    fn check(parts: &[Value], expected: &[ContentBlock]) {
        assert_eq!(blocks(parts), expected);
    }

    fn text(text: &str) -> ContentBlock {
        ContentBlock::Text(text.into())
    }

    fn thought(text: &str) -> ContentBlock {
        ContentBlock::Thinking { thinking: text.into(), signature: String::new() }
    }

    fn call(id: &str, input: Value) -> ContentBlock {
        ContentBlock::ToolUse { id: id.into(), name: "f".into(), input }
    }

    #[test]
    fn plain_texts_and_thoughts_are_joined() {
        check(
            &[
                json!({"text": "h", "thought": true}),
                json!({"text": "m", "thought": true, "thoughtSignature": ""}),
                json!({"text": "a", "thought": false}),
                json!({"text": ""}),
                json!({}),
                json!(null),
                json!({"text": "b", "inlineData": null}),
            ],
            &[thought("hm"), text("ab")],
        );
    }

    #[test]
    fn signed_part_stays_a_part_of_its_own() {
        let signed = json!({"text": "b", "thoughtSignature": "s"});
        let empty = json!({"text": "", "thoughtSignature": "t"});
        let bare = json!({"thoughtSignature": "u"});
        let reasoning = json!({"text": "r", "thought": true, "thoughtSignature": "v"});
        check(
            &[
                json!({"text": "a"}),
                signed.clone(),
                json!({"text": "c"}),
                empty.clone(),
                bare.clone(),
                reasoning.clone(),
            ],
            &[
                text("a"),
                raw(V, signed, Some(text("b"))),
                text("c"),
                raw(V, empty, None),
                raw(V, bare, None),
                raw(V, reasoning, Some(thought("r"))),
            ],
        );
    }

    #[test]
    fn signed_part_names_the_model_that_was_asked() {
        let call = json!({"functionCall": {"name": "f", "id": "x"}});
        let mut read = Parts::new(Origin::new(V, "models/m"));
        for (signature, model) in [(json!("s"), json!("m")), (json!(""), json!(null))] {
            let mut part = call.clone();
            part["thoughtSignature"] = signature;
            let Some(ContentBlock::Raw { json, .. }) = read.add(part).unwrap() else { panic!() };
            assert_eq!(json.get(SIGNED_BY).cloned().unwrap_or_default(), model);
        }
    }

    #[test]
    fn call_keeps_the_servers_id() {
        let own = json!({"functionCall": {"name": "f", "args": {"a": 1}, "id": "x"}});
        let signed = json!({"functionCall": {"name": "f", "id": "x"}, "thoughtSignature": "s"});
        check(
            &[own.clone(), signed.clone()],
            &[
                raw(V, own, Some(call("x", json!({"a": 1})))),
                raw(V, signed, Some(call("x_2", json!({})))),
            ],
        );
    }

    #[test]
    fn call_without_id_gets_a_unique_id() {
        let blocks = blocks(&[
            json!({"functionCall": {"name": "f", "args": {"a": 1}}}),
            json!({"functionCall": {"name": "f", "id": ""}}),
        ]);
        let calls: Vec<_> = blocks.iter().filter_map(ContentBlock::as_tool_use).collect();
        assert!(matches!(blocks[0], ContentBlock::ToolUse { .. }));
        assert!(calls[0].id.starts_with("call_") && calls[0].id != calls[1].id);
    }

    #[test]
    fn arguments_that_are_not_an_object_are_kept() {
        for (args, input, sent) in [
            (json!("{\"a\":1}"), json!({"a": 1}), json!({"a": 1})),
            (json!("{\"a\""), json!({"invalid_json": "{\"a\""}), json!({"invalid_json": "{\"a\""})),
            (json!([1]), json!([1]), json!({"input": [1]})),
        ] {
            let blocks = blocks(&[json!({"functionCall": {"name": "f", "args": args, "id": "x"}})]);
            assert_eq!(blocks[0].as_tool_use().unwrap().input, &input);
            let ContentBlock::Raw { json, .. } = &blocks[0] else { panic!("{blocks:?}") };
            assert_eq!(json["functionCall"]["args"], sent);
        }
    }

    #[test]
    fn unknown_part_is_kept() {
        for part in [
            json!({"executableCode": {"language": "PYTHON", "code": "1"}}),
            json!({"text": "a", "mediaResolution": {"level": "LOW"}}),
            json!({"functionCall": {"args": {}}}),
            json!({"functionCall": 1}),
            json!({"text": 1}),
            json!(7),
        ] {
            let blocks = blocks(std::slice::from_ref(&part));
            let [ContentBlock::Raw { json, .. }] = &blocks[..] else { panic!("{blocks:?}") };
            assert_eq!((json, blocks[0].as_tool_use()), (&part, None));
        }
    }

    #[test]
    fn executed_code_and_its_output_have_a_portable_form() {
        let code =
            json!({"executableCode": {"language": "PYTHON", "code": "print(1)\n", "id": "a"}});
        let output = json!({"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": "1 ```\n"}});
        check(
            &[code.clone(), output.clone()],
            &[
                raw(V, code.clone(), Some(thought("\n```python\nprint(1)\n```\n"))),
                raw(V, output.clone(), Some(thought("\n````\n1 ```\n````\n"))),
            ],
        );
        let content = blocks(&[code, output, json!({"text": "It is 1."})]);
        assert_eq!(Message { role: Role::Assistant, content }.text(), "It is 1.");
        for part in [
            json!({"inlineData": {"mimeType": "audio/wav", "data": "aGk="}}),
            json!({"inlineData": {"mimeType": "image/png", "data": "aGk="}}),
            json!({"executableCode": {"language": "PYTHON"}}),
            json!({"codeExecutionResult": {"outcome": "OUTCOME_FAILED"}}),
            json!({"newContent": {"code": "1"}}),
        ] {
            check(std::slice::from_ref(&part), &[raw(V, part.clone(), None)]);
        }
    }

    #[test]
    fn fragments_become_one_call() {
        let name = json!({"functionCall": {"name": "f", "id": "x", "willContinue": true}, "thoughtSignature": "s"});
        let fragment = |fields: Value| json!({"functionCall": {"partialArgs": [fields], "willContinue": true}});
        let city = |text: &str, will_continue: bool| {
            fragment(
                json!({"jsonPath": "$.city", "stringValue": text, "willContinue": will_continue}),
            )
        };
        let end = json!({"functionCall": {}});
        let whole = json!({"functionCall": {"name": "f", "id": "x", "args": {"city": "Boston"}}, "thoughtSignature": "s"});
        let expected = raw(V, whole, Some(call("x", json!({"city": "Boston"}))));
        let mut second = city("Rome", false);
        second["functionCall"]["name"] = "g".into();
        second["functionCall"]["id"] = "y".into();
        second["functionCall"]["willContinue"] = false.into();
        let blocks = blocks(&[
            name,
            city("Bos", true),
            json!({"text": "a"}),
            city("ton", false),
            end.clone(),
            second,
            end,
        ]);
        assert_eq!(&blocks[..2], [text("a"), expected]);
        let calls: Vec<_> = blocks.iter().filter_map(ContentBlock::as_tool_use).collect();
        assert_eq!((calls[1].id, calls[1].name), ("y", "g"));
        assert_eq!((calls[1].input, blocks.len()), (&json!({"city": "Rome"}), 3));
    }

    #[test]
    fn fragments_in_a_wrong_order_are_an_error() {
        let name = json!({"functionCall": {"name": "f", "willContinue": true}});
        let nameless = json!({"functionCall": {"partialArgs": []}});
        for parts in [vec![name.clone(), name.clone()], vec![nameless]] {
            let mut read = Parts::new(Origin::new(V, ""));
            let results: Vec<_> = parts.into_iter().map(|part| read.add(part)).collect();
            assert_eq!(results.last().unwrap().as_ref().unwrap_err().kind(), "StreamError");
        }
    }
}
