//! Why a model stopped.

use neuron_types::StopReason;
use serde_json::json;

use super::ProviderHarness;
use super::context::{TestContext, ask};
use super::tools::ask_with_tools;
use neuron_testing::Reply;

/// Checks every reason to stop that the vendor has a word for, whole and streamed.
///
/// # Panics
///
/// At the first violation.
pub async fn stop_reasons<H: ProviderHarness>(harness: &H) {
    let ctx = TestContext::start(harness, "stop reasons").await;
    for reason in &ctx.can.stop_reasons {
        let case = ctx.case(format_args!("{reason:?}"));
        let (request, reply) = match reason {
            StopReason::ToolUse => {
                (ask_with_tools(), Reply::tool_call("call_1", "look", json!({"a": 1})))
            }
            _ => (ask(), Reply::text("As far as it goes.")),
        };
        let reply = reply.stop_reason(reason.clone());
        let response = ctx.both(&case, &request, reply).await;
        case.equal("the reason", &response.stop_reason, reason);
    }
}
