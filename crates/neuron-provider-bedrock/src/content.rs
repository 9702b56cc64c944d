//! Conversion of the content of a response to content blocks.
//!
//! <https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_ContentBlock.html>

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use neuron_model::{ContentBlock, ToolCall};
use serde_json::{Map, Value};

use crate::PROVIDER;
use crate::allowed;
use crate::block::ORIGIN;
use crate::ids::ResponseIds;
use crate::model::{Family, Model};

/// The request of a response, as far as the response depends on it.
#[derive(Debug, Clone)]
pub(crate) struct Origin {
    /// Id of the model that was asked. The response does not contain it.
    pub(crate) model: String,
    /// Id of the request in the header `x-amzn-requestid`. Empty if the server sent none.
    pub(crate) request_id: String,
    is_claude: bool,
    /// Set if other models than Claude accept their reasoning back.
    keeps_reasoning: bool,
    /// The origin of raw blocks.
    name: String,
}

impl Origin {
    pub(crate) fn new(model: Model<'_>) -> Self {
        Self {
            model: model.id.to_owned(),
            request_id: String::new(),
            is_claude: model.family == Family::Claude,
            keeps_reasoning: model.reads_reasoning(),
            name: model.origin().to_owned(),
        }
    }

    /// Returns `true` if signatures are a part of messages.
    pub(crate) fn has_signatures(&self) -> bool {
        self.is_claude
    }

    /// Creates a raw block with the name of the origin, because other models may reject the block.
    fn raw(&self, mut json: Map<String, Value>, portable: Option<ContentBlock>) -> ContentBlock {
        json.insert(ORIGIN.to_owned(), self.name.as_str().into());
        raw(json.into(), portable)
    }
}

/// Converter of the blocks of one response.
#[derive(Debug)]
pub(crate) struct Reader {
    pub(crate) origin: Origin,
    ids: ResponseIds,
}

impl Reader {
    pub(crate) fn new(origin: Origin) -> Self {
        Self { origin, ids: ResponseIds::default() }
    }

    /// Completes a tool call with a unique id. Returns the id and the name of the tool, or `None` if
    /// the call is not a call of the request's tools. Must be called once for each call, before [`read`](Self::read).
    pub(crate) fn complete(&mut self, call: &mut Map<String, Value>) -> Option<(String, String)> {
        if is_of_server(call) {
            return None;
        }
        // Current models send the type of a plain call too. The API does not list it, so it may not go back.
        if text(call, "type") == Some("tool_use") {
            call.remove("type");
        }
        let name = text(call, "name").filter(|name| !name.is_empty())?;
        let name = name.to_owned();
        let id = text(call, "toolUseId").unwrap_or_default();
        let id = self.ids.next(id, &self.origin.request_id);
        call.insert("toolUseId".to_owned(), id.as_str().into());
        Some((id, name))
    }

    /// Converts the JSON of a block. Returns `None` for a block without content. A block of an unknown kind or with
    /// unknown fields becomes a [`ContentBlock::Raw`].
    pub(crate) fn read(&self, json: Value) -> Option<ContentBlock> {
        let Value::Object(mut fields) = json else {
            return (!json.is_null()).then(|| raw(json, None));
        };
        fields.retain(|_, value| !value.is_null());
        if fields.is_empty() {
            return None;
        }
        let is_single = fields.len() == 1;
        if let Some(said) = text(&fields, "text") {
            let block = (!said.is_empty()).then(|| ContentBlock::Text(said.to_owned()));
            return if is_single { block } else { Some(self.origin.raw(fields, block)) };
        }
        if let Some(Value::Object(reasoning)) = fields.get("reasoningContent") {
            return self
                .reasoning(reasoning)
                .unwrap_or_else(|portable| Some(self.origin.raw(fields, portable)));
        }
        if let Some(Value::Object(call)) = fields.get("toolUse") {
            return Some(match read_call(call) {
                Some((call, has_known_fields)) if is_single && has_known_fields => call,
                Some((call, _)) if !is_sendable(&fields) => call,
                call => self.origin.raw(fields, call.map(|(call, _)| call)),
            });
        }
        let portable = cited(&fields).filter(|said| !said.is_empty()).map(ContentBlock::Text);
        Some(self.origin.raw(fields, portable))
    }

    /// Converts reasoning. Returns `Ok(None)` for reasoning without content. Returns the portable form as an error if
    /// the reasoning must be kept in its own JSON.
    fn reasoning(
        &self,
        reasoning: &Map<String, Value>,
    ) -> Result<Option<ContentBlock>, Option<ContentBlock>> {
        let inner = reasoning.get("reasoningText").and_then(Value::as_object);
        let said = inner.and_then(|inner| text(inner, "text")).unwrap_or_default();
        let signature = inner.and_then(|inner| text(inner, "signature")).unwrap_or_default();
        let is_known = reasoning.len() == 1
            && inner
                .is_some_and(|inner| inner.keys().all(|key| key == "text" || key == "signature"));
        let thinking = |signature: &str| ContentBlock::Thinking {
            thinking: said.to_owned(),
            signature: signature.to_owned(),
        };
        let portable = (!said.is_empty()).then(|| thinking(""));
        if is_known && said.is_empty() && signature.is_empty() {
            return Ok(None);
        }
        if self.origin.is_claude {
            if is_known {
                return Ok(Some(thinking(signature)));
            }
            let redacted = reasoning.get("redactedContent").and_then(Value::as_str);
            return match redacted.filter(|_| reasoning.len() == 1).and_then(redacted_data) {
                Some(data) => Ok(Some(ContentBlock::RedactedThinking { data })),
                None => Err(portable),
            };
        }
        // Only some models accept their reasoning back. For the others, the text is enough.
        match portable {
            Some(portable) if is_known && !self.origin.keeps_reasoning => Ok(Some(portable)),
            portable => Err(portable),
        }
    }
}

/// Returns encrypted reasoning as Anthropic's API sends it. Bedrock sends the bytes of this text in base64.
fn redacted_data(content: &str) -> Option<String> {
    String::from_utf8(STANDARD.decode(content).ok()?).ok()
}

/// Converts a tool call. Also returns `true` if all fields of the call are known. Returns `None` if the call is not a
/// call of the request's tools.
fn read_call(call: &Map<String, Value>) -> Option<(ContentBlock, bool)> {
    let name = text(call, "name").filter(|name| !name.is_empty() && !is_of_server(call))?;
    let input = match call.get("input") {
        None | Some(Value::Null) => ToolCall::parse_input(""),
        Some(Value::String(text)) => ToolCall::parse_input(text),
        Some(input) => input.clone(),
    };
    let is_known = |(key, value): (&String, &Value)| {
        ["toolUseId", "name", "input"].contains(&key.as_str()) || value.is_null()
    };
    let id = text(call, "toolUseId").unwrap_or_default().to_owned();
    let block = ContentBlock::ToolUse { id, name: name.to_owned(), input };
    Some((block, call.iter().all(is_known)))
}

/// Returns `true` if the API accepts the JSON of a call back.
fn is_sendable(fields: &Map<String, Value>) -> bool {
    fields.get("toolUse").and_then(Value::as_object).is_some_and(|call| {
        call.get("input").is_some_and(Value::is_object)
            && text(call, "name").is_some_and(allowed::is_name)
            && text(call, "toolUseId").is_some_and(allowed::is_id)
    })
}

/// Returns `true` if the server runs the called tool itself. Any other type is a call of the request's tools. The model of
/// the API lists only `server_tool_use`, but the server also sends `tool_use`.
pub(crate) fn is_of_server(call: &Map<String, Value>) -> bool {
    text(call, "type") == Some("server_tool_use")
}

/// Returns the text of a block with citations. Returns `None` for any other block.
pub(crate) fn cited(fields: &Map<String, Value>) -> Option<String> {
    let parts = fields.get("citationsContent")?.get("content")?.as_array()?;
    Some(parts.iter().filter_map(|part| part.get("text")?.as_str()).collect())
}

fn text<'a>(fields: &'a Map<String, Value>, key: &str) -> Option<&'a str> {
    fields.get(key)?.as_str()
}

fn raw(json: Value, portable: Option<ContentBlock>) -> ContentBlock {
    ContentBlock::Raw { provider: PROVIDER.to_owned(), json, portable: portable.map(Box::new) }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read_by(model: &str, blocks: &[Value]) -> Vec<ContentBlock> {
        let mut reader = Reader::new(Origin::new(Model::new(model, "")));
        let mut blocks = blocks.to_vec();
        for block in &mut blocks {
            if let Some(call) = block.get_mut("toolUse").and_then(Value::as_object_mut) {
                reader.complete(call);
            }
        }
        blocks.into_iter().filter_map(|block| reader.read(block)).collect()
    }

    #[track_caller]
    fn check(model: &str, block: Value, expected: Option<ContentBlock>) {
        let blocks = read_by(model, &[block]);
        assert_eq!(blocks, Vec::from_iter(expected), "{model}");
    }

    /// Returns a raw block of an origin.
    fn own(origin: &str, mut json: Value, portable: Option<ContentBlock>) -> ContentBlock {
        json[ORIGIN] = json!(origin);
        raw(json, portable)
    }

    fn thinking(thinking: &str, signature: &str) -> ContentBlock {
        ContentBlock::Thinking { thinking: thinking.into(), signature: signature.into() }
    }

    const CLAUDE: &str = "us.anthropic.claude-opus-4-6-v1";

    #[test]
    fn reasoning_is_kept_for_the_models_that_accept_it() {
        let reasoning = |text: &str, signature: &str| json!({"reasoningContent": {"reasoningText": {"text": text, "signature": signature}}});
        check(CLAUDE, reasoning("hm", "s"), Some(thinking("hm", "s")));
        check(CLAUDE, reasoning("", "s"), Some(thinking("", "s")));
        check(CLAUDE, reasoning("", ""), None);
        check("amazon.nova-2-lite-v1:0", reasoning("hm", "s"), Some(thinking("hm", "")));
        let plain = json!({"reasoningContent": {"reasoningText": {"text": "hm"}}});
        check("zai.glm-5", plain.clone(), Some(thinking("hm", "")));
        for (model, origin) in [("deepseek.r1-v1:0", "deepseek"), ("opaque", "opaque")] {
            let kept = own(origin, plain.clone(), Some(thinking("hm", "")));
            check(model, plain.clone(), Some(kept));
        }
    }

    #[test]
    fn redacted_reasoning_is_the_text_of_anthropics_api() {
        let redacted = |content: &str| json!({"reasoningContent": {"redactedContent": content}});
        let data = ContentBlock::RedactedThinking { data: "EmwK".into() };
        check(CLAUDE, redacted("RW13Sw=="), Some(data));
        for (model, content, origin) in
            [(CLAUDE, "/w==", "claude"), ("amazon.nova-2-lite-v1:0", "RW13Sw==", "nova-2")]
        {
            check(model, redacted(content), Some(own(origin, redacted(content), None)));
        }
    }

    #[test]
    fn calls_have_unique_ids() {
        let call = |id: &str, name: &str, input: Value| ContentBlock::ToolUse {
            id: id.into(),
            name: name.into(),
            input,
        };
        let blocks = [
            json!({"toolUse": {"toolUseId": "a", "name": "fs_read", "input": {"x": 1}}}),
            json!({"toolUse": {"toolUseId": "a", "name": "look", "type": null}}),
            json!({"toolUse": {"name": "look", "input": "{\"x\""}}),
            json!({"toolUse": {"toolUseId": "b", "name": "fs.read", "input": {}, "new": 1}}),
            json!({"toolUse": {"toolUseId": "d", "name": "look", "input": {}, "type": "tool_use"}}),
        ];
        assert_eq!(
            read_by(CLAUDE, &blocks),
            [
                call("a", "fs_read", json!({"x": 1})),
                call("a_2", "look", json!({})),
                call("tooluse", "look", json!({"invalid_json": "{\"x\""})),
                // A model may call a tool that does not exist, with a name that the API rejects.
                call("b", "fs.read", json!({})),
                // Recorded from Claude Sonnet 4.5 and Nova 2 Lite.
                call("d", "look", json!({})),
            ]
        );
        let more = json!({"toolUse": {"toolUseId": "c", "name": "look", "input": {}, "new": 1}});
        let kept = own("claude", more.clone(), Some(call("c", "look", json!({}))));
        check(CLAUDE, more, Some(kept.clone()));
        // A type that goes back must be one that the API lists.
        let typed = json!({"toolUse": {
            "toolUseId": "c", "name": "look", "input": {}, "new": 1, "type": "tool_use",
        }});
        check(CLAUDE, typed, Some(kept));
        let other = json!({"toolUse": {
            "toolUseId": "c", "name": "look", "input": {}, "type": "novel",
        }});
        let kept = own("claude", other.clone(), Some(call("c", "look", json!({}))));
        check(CLAUDE, other, Some(kept));
    }

    #[test]
    fn unknown_blocks_are_kept() {
        let cited = json!({"citationsContent": {
            "content": [{"text": "a"}, {"text": "b"}], "citations": [{"title": "t"}],
        }});
        let text = |text: &str| Some(ContentBlock::Text(text.into()));
        check(CLAUDE, cited.clone(), Some(own("claude", cited, text("ab"))));
        let more = json!({"text": "a", "new": 1});
        check(CLAUDE, more.clone(), Some(own("claude", more, text("a"))));
        for block in [
            json!({"toolUse": {"toolUseId": "a", "name": "nova_grounding", "type": "server_tool_use"}}),
            json!({"toolResult": {"toolUseId": "a", "content": []}}),
            json!({"toolUse": {"toolUseId": "a", "input": {}}}),
            json!({"toolUse": 1}),
            json!({"image": {"format": "png", "source": {"bytes": "aGk="}}}),
            json!({"text": 1}),
        ] {
            check(CLAUDE, block.clone(), Some(own("claude", block, None)));
        }
        check(CLAUDE, json!(7), Some(raw(json!(7), None)));
        for block in [json!({"text": ""}), json!({}), json!(null), json!({"text": null})] {
            check(CLAUDE, block, None);
        }
        check(CLAUDE, json!({"text": "a", "new": null}), Some(ContentBlock::Text("a".into())));
    }
}
