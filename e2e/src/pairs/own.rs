//! Content that only one vendor's servers send, in the vendor's JSON.

use neuron_types::ContentBlock;
use serde_json::{Value, json};

use super::plan::Mark;

/// Creates the blocks of a response.
pub(crate) type Make = fn(Mark) -> Vec<ContentBlock>;

/// Returns raw blocks. A server sends their JSON unchanged.
fn raw(provider: &str, parts: impl IntoIterator<Item = Value>) -> Vec<ContentBlock> {
    let block = |json| ContentBlock::Raw { provider: provider.into(), json, portable: None };
    parts.into_iter().map(block).collect()
}

pub(crate) fn search(mark: Mark) -> Vec<ContentBlock> {
    let mut blocks = begun_search(mark);
    blocks.extend(ended_search(mark));
    blocks
}

pub(crate) fn begun_search(mark: Mark) -> Vec<ContentBlock> {
    raw(
        "anthropic",
        [json!({
            "type": "server_tool_use", "id": format!("srvtoolu_{}", mark.0), "name": "web_search",
            "input": {"query": "rust"},
        })],
    )
}

pub(crate) fn ended_search(mark: Mark) -> Vec<ContentBlock> {
    let found = json!({
        "type": "web_search_result", "title": "Rust", "url": "https://rust-lang.org",
        "encrypted_content": format!("found-secret-{}-", mark.0), "page_age": null,
    });
    let citation = json!({
        "type": "web_search_result_location", "cited_text": "Rust is", "title": "Rust",
        "url": "https://rust-lang.org", "encrypted_index": format!("index-secret-{}-", mark.0),
    });
    raw(
        "anthropic",
        [
            json!({
                "type": "web_search_tool_result", "tool_use_id": format!("srvtoolu_{}", mark.0),
                "content": [found],
            }),
            json!({"type": "text", "text": format!("cited {mark}"), "citations": [citation]}),
        ],
    )
}

pub(crate) fn redacted_thinking(mark: Mark) -> Vec<ContentBlock> {
    vec![ContentBlock::RedactedThinking { data: format!("redacted-secret-{}-", mark.0) }]
}

pub(crate) fn direct_call(mark: Mark) -> Vec<ContentBlock> {
    raw(
        "anthropic",
        [json!({
            "type": "tool_use", "id": format!("toolu_{}", mark.0), "name": "look",
            "input": {"a": mark.to_string()}, "caller": {"type": "direct"},
        })],
    )
}

pub(crate) fn shell(mark: Mark) -> Vec<ContentBlock> {
    let id = format!("srvtoolu_{}", mark.0);
    raw(
        "anthropic",
        [
            json!({
                "type": "server_tool_use", "id": id, "name": "bash_code_execution",
                "input": {"command": "ls"},
            }),
            json!({
                "type": "bash_code_execution_tool_result", "tool_use_id": id,
                "content": {
                    "type": "bash_code_execution_result", "stdout": "a\n", "stderr": "",
                    "return_code": 0, "content": [],
                },
            }),
        ],
    )
}

pub(crate) fn compaction(mark: Mark) -> Vec<ContentBlock> {
    vec![ContentBlock::Compaction { content: format!("so far: {mark}") }]
}

/// Returns an item of the Responses API with the fields that most items have.
fn item(kind: &str, prefix: &str, mark: Mark, fields: Value) -> Value {
    let mut item = json!({"id": format!("{prefix}_secret{}-", mark.0), "type": kind});
    if let (Some(item), Value::Object(fields)) = (item.as_object_mut(), fields) {
        item.extend(fields);
    }
    item
}

pub(crate) fn web_search_call(mark: Mark) -> Vec<ContentBlock> {
    let citation = json!({
        "type": "url_citation", "start_index": 0, "end_index": 5, "title": "Rust",
        "url": "https://rust-lang.org",
    });
    let text = json!({
        "type": "output_text", "text": format!("cited {mark}"), "annotations": [citation],
        "logprobs": [],
    });
    let action = json!({"type": "search", "query": "rust", "queries": ["rust"]});
    raw(
        "openai",
        [
            item("web_search_call", "ws", mark, json!({"status": "completed", "action": action})),
            item(
                "message",
                "msg",
                mark,
                json!({"status": "completed", "role": "assistant", "content": [text]}),
            ),
        ],
    )
}

pub(crate) fn custom_tool_call(mark: Mark) -> Vec<ContentBlock> {
    let fields = json!({
        "call_id": format!("call_custom_{}", mark.0), "name": "sketch",
        "input": format!("draw \"{mark}\""),
    });
    raw("openai", [item("custom_tool_call", "ctc", mark, fields)])
}

pub(crate) fn encrypted_compaction(mark: Mark) -> Vec<ContentBlock> {
    let fields = json!({"encrypted_content": format!("compaction-secret-{}-", mark.0)});
    raw("openai", [item("compaction", "cmp", mark, fields)])
}

pub(crate) fn code_interpreter_call(mark: Mark) -> Vec<ContentBlock> {
    let fields = json!({
        "status": "completed", "code": "print(1)", "container_id": "cntr_1",
        "outputs": [{"type": "logs", "logs": "1\n"}],
    });
    raw("openai", [item("code_interpreter_call", "ci", mark, fields)])
}

pub(crate) fn mcp_call(mark: Mark) -> Vec<ContentBlock> {
    let fields = json!({
        "status": "completed", "name": "look", "arguments": "{}", "server_label": "files",
        "output": "a", "error": null, "approval_request_id": null,
    });
    raw("openai", [item("mcp_call", "mcp", mark, fields)])
}

pub(crate) fn image_generation_call(mark: Mark) -> Vec<ContentBlock> {
    let fields = json!({"status": "completed", "result": "aGk="});
    raw("openai", [item("image_generation_call", "ig", mark, fields)])
}

pub(crate) fn file_search_call(mark: Mark) -> Vec<ContentBlock> {
    let fields = json!({"status": "completed", "queries": ["rust"], "results": null});
    raw("openai", [item("file_search_call", "fs", mark, fields)])
}

pub(crate) fn annotations(mark: Mark) -> Vec<ContentBlock> {
    let citation = json!({
        "type": "url_citation",
        "url_citation": {
            "start_index": 0, "end_index": 5, "title": "Rust", "url": "https://rust-lang.org",
        },
    });
    let fields = json!({"type": "message", "annotations": [citation]});
    let mut blocks = raw("openai", [fields]);
    blocks.push(ContentBlock::Text(format!("cited {mark}")));
    blocks
}

pub(crate) fn speech(mark: Mark) -> Vec<ContentBlock> {
    let audio = json!({
        "id": format!("audio_secret{}-", mark.0), "data": "UklGRg==", "expires_at": 1,
        "transcript": format!("said {mark}"),
    });
    raw("openai", [json!({"type": "message", "audio": audio})])
}

pub(crate) fn custom_call(mark: Mark) -> Vec<ContentBlock> {
    raw(
        "openai",
        [json!({
            "id": format!("call_custom_{}", mark.0), "type": "custom",
            "custom": {"name": "sketch", "input": format!("draw \"{mark}\"")},
        })],
    )
}

fn code(provider: &str, mark: Mark) -> Vec<ContentBlock> {
    raw(
        provider,
        [
            json!({"executableCode": {"language": "PYTHON", "code": format!("print('{mark}')\n")}}),
            json!({"codeExecutionResult": {
                "outcome": "OUTCOME_OK", "output": format!("{mark} ```\n"),
            }}),
        ],
    )
}

fn image(provider: &str) -> Vec<ContentBlock> {
    raw(provider, [json!({"inlineData": {"mimeType": "image/png", "data": "aGk="}})])
}

pub(crate) fn code_of_gemini(mark: Mark) -> Vec<ContentBlock> {
    code("gcp.gemini", mark)
}

pub(crate) fn code_of_vertex(mark: Mark) -> Vec<ContentBlock> {
    code("gcp.vertex_ai", mark)
}

pub(crate) fn image_of_gemini(_mark: Mark) -> Vec<ContentBlock> {
    image("gcp.gemini")
}

pub(crate) fn image_of_vertex(_mark: Mark) -> Vec<ContentBlock> {
    image("gcp.vertex_ai")
}

pub(crate) fn server_call_of_gemini(mark: Mark) -> Vec<ContentBlock> {
    let id = format!("search-secret-{}-", mark.0);
    raw(
        "gcp.gemini",
        [
            json!({"toolCall": {"id": id, "toolType": "GOOGLE_SEARCH_WEB", "args": {"queries": ["rust"]}}}),
            json!({"toolResponse": {"id": id, "toolType": "GOOGLE_SEARCH_WEB", "response": {}}}),
        ],
    )
}

pub(crate) fn citations(mark: Mark) -> Vec<ContentBlock> {
    let citation = json!({
        "title": "Weather", "sourceContent": [{"text": "sunny"}],
        "location": {"documentChar": {"documentIndex": 0, "start": 0, "end": 5}},
    });
    let cited = json!({
        "content": [{"text": format!("cited {mark}")}], "citations": [citation],
    });
    raw("aws.bedrock", [json!({"citationsContent": cited})])
}

pub(crate) fn grounding(mark: Mark) -> Vec<ContentBlock> {
    let id = format!("tooluse_secret{}-", mark.0);
    raw(
        "aws.bedrock",
        [
            json!({"toolUse": {
                "toolUseId": id, "name": "nova_grounding", "type": "server_tool_use", "input": {},
            }}),
            json!({"toolResult": {
                "toolUseId": id, "type": "nova_grounding_result", "content": [{"text": "found"}],
            }}),
        ],
    )
}

pub(crate) fn image_of_bedrock(_mark: Mark) -> Vec<ContentBlock> {
    raw("aws.bedrock", [json!({"image": {"format": "png", "source": {"bytes": "aGk="}}})])
}
