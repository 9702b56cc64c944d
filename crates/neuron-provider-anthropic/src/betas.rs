//! Names of beta features for the `anthropic-beta` header of a request.
//!
//! <https://platform.claude.com/docs/en/api/beta-headers>

use neuron_model::{ContentBlock, ContextEdit, RequestRef};
use serde_json::Value;

use crate::fallback::is_fallback;
use crate::request::{PROVIDER, SUMMARIZE};

/// Name of the beta feature for automatic compaction of long conversations, and for compaction blocks.
const COMPACTION: &str = "compact-2026-01-12";

/// Name of the beta feature for an immediate compaction, which a request starts with its field `compaction`.
const COMPACTION_NOW: &str = "compact-2026-09-04";

/// Name of the beta feature for a fallback to another model if the first model declines, and for fallback blocks.
const FALLBACK: &str = "server-side-fallback-2026-07-01";

/// Name of the beta feature for all context edits except compaction.
const CONTEXT_MANAGEMENT: &str = "context-management-2025-06-27";

/// Fields of the request body that need a beta feature. Each pair is a JSON pointer to the field and the name of the
/// feature.
const FIELDS: &[(&str, &str)] = &[
    ("/compaction", COMPACTION_NOW),
    ("/container/skills", "skills-2025-10-02"),
    ("/fallback_credit_token", "fallback-credit-2026-07-01"),
    ("/fallbacks", FALLBACK),
    ("/mcp_servers", "mcp-client-2025-11-20"),
    ("/output_config/task_budget", "task-budgets-2026-03-13"),
    ("/thread", "message-threads-2026-08-12"),
];

/// Returns the names of the beta features that a request needs, including features that `extra` uses. The names are
/// sorted, and no name is repeated.
pub(crate) fn of(request: RequestRef<'_>) -> Vec<&'static str> {
    let mut needed = Vec::new();
    for edit in request.context_management.iter().flat_map(|management| &management.edits) {
        needed.extend(match edit {
            ContextEdit::Compact { strategy } => Some(of_edit(strategy)),
            ContextEdit::Raw { json } => json.get("type").and_then(Value::as_str).map(of_edit),
            _ => None,
        });
    }
    if let Some(extra) = &request.extra {
        let is_set = |pointer| extra.pointer(pointer).is_some_and(|value| !value.is_null());
        needed.extend(FIELDS.iter().filter(|(field, _)| is_set(field)).map(|(_, beta)| *beta));
        let edits = extra.pointer("/context_management/edits").and_then(Value::as_array);
        let kinds = edits.into_iter().flatten().filter_map(|edit| edit.get("type")?.as_str());
        needed.extend(kinds.map(of_edit));
    }
    // The API also requires the name of a feature if an earlier response contains a block of this feature.
    let mut blocks = request.messages.iter().flat_map(|message| &message.content);
    if blocks.clone().any(is_compaction) && !needed.contains(&COMPACTION_NOW) {
        needed.push(COMPACTION);
    }
    if blocks.any(is_fallback) {
        needed.push(FALLBACK);
    }
    // Sorted, so that equal requests have equal headers.
    needed.sort_unstable();
    needed.dedup();
    needed
}

/// Returns the name of the beta feature for a context edit of type `kind`.
fn of_edit(kind: &str) -> &'static str {
    match kind {
        SUMMARIZE => COMPACTION_NOW,
        kind if kind.starts_with("compact_") => COMPACTION,
        _ => CONTEXT_MANAGEMENT,
    }
}

/// Returns `true` if the block will be sent as a compaction block.
fn is_compaction(block: &ContentBlock) -> bool {
    match block {
        ContentBlock::Compaction { .. } => true,
        ContentBlock::Raw { provider, json, .. } if provider == PROVIDER => {
            json.get("type").is_some_and(|kind| kind == "compaction")
        }
        block => matches!(block.portable(), Some(ContentBlock::Compaction { .. })),
    }
}

#[cfg(test)]
mod tests {
    use neuron_model::{CompletionRequest, ContextManagement, Message, Role};
    use serde_json::json;

    use super::*;

    #[track_caller]
    fn check_edit(edit: ContextEdit, expected: &[&str]) {
        let management = ContextManagement { edits: vec![edit] };
        let request =
            CompletionRequest { context_management: Some(management), ..Default::default() };
        assert_eq!(of(request.view()), expected);
    }

    #[track_caller]
    fn check_extra(extra: Value, expected: &[&str]) {
        assert_eq!(of(RequestRef { extra: Some(&extra), ..Default::default() }), expected);
    }

    #[test]
    fn each_context_edit_adds_its_beta() {
        let compact = |strategy: &str| ContextEdit::Compact { strategy: strategy.into() };
        check_edit(compact("compact_20260112"), &["compact-2026-01-12"]);
        check_edit(compact("summarize"), &["compact-2026-09-04"]);
        let raw = |kind: &str| ContextEdit::Raw { json: json!({"type": kind}) };
        check_edit(raw("compact_20260112"), &["compact-2026-01-12"]);
        check_edit(raw("clear_tool_uses_20250919"), &["context-management-2025-06-27"]);
        check_edit(raw("clear_thinking_20251015"), &["context-management-2025-06-27"]);
        check_edit(raw("summarize"), &["compact-2026-09-04"]);
        check_edit(ContextEdit::Raw { json: json!({}) }, &[]);
    }

    #[test]
    fn fields_in_extra_add_their_betas() {
        check_extra(json!({}), &[]);
        check_extra(json!({"metadata": {"user_id": "u"}, "thread": null}), &[]);
        check_extra(json!({"mcp_servers": []}), &["mcp-client-2025-11-20"]);
        check_extra(json!({"container": {"skills": []}}), &["skills-2025-10-02"]);
        check_extra(json!({"container": "id"}), &[]);
        check_extra(
            json!({"context_management": {"edits": [{"type": "compact_20260112"}, {"type": "clear_thinking_20251015"}]}, "fallbacks": "default"}),
            &[
                "compact-2026-01-12",
                "context-management-2025-06-27",
                "server-side-fallback-2026-07-01",
            ],
        );
    }

    #[test]
    fn beta_blocks_in_conversation_add_their_beta() {
        let check = |block: ContentBlock, expected: &[&str]| {
            let message = Message { role: Role::Assistant, content: vec![block] };
            let request = CompletionRequest { messages: vec![message], ..Default::default() };
            assert_eq!(of(request.view()), expected);
        };
        check(ContentBlock::Compaction { content: "s".into() }, &["compact-2026-01-12"]);
        let raw = |provider: &str| ContentBlock::Raw {
            provider: provider.into(),
            json: json!({"type": "compaction", "content": null}),
            portable: None,
        };
        check(raw("anthropic"), &["compact-2026-01-12"]);
        check(raw("openai"), &[]);
        check(ContentBlock::Text("s".into()), &[]);
        let fallback = ContentBlock::Raw {
            provider: "anthropic".into(),
            json: json!({"type": "fallback", "from": {"model": "a"}, "to": {"model": "b"}}),
            portable: None,
        };
        check(fallback, &["server-side-fallback-2026-07-01"]);
    }
}
