//! What runs wait for, for whoever asks: a virtual object of Restate's beside the service, one for each
//! run.

use neuron_types::PendingApproval;
use restate_sdk::context::{
    Context, ContextClient, ContextReadState, ContextWriteState, ObjectContext, RequestTarget,
    SharedObjectContext,
};
use restate_sdk::errors::HandlerResult;
use serde::{Deserialize, Serialize};

use crate::payload::Stored;

/// The handlers of the object.
pub(crate) const PENDING: &str = "pending";
pub(crate) const SHOW: &str = "show";
pub(crate) const HIDE: &str = "hide";

/// The state that holds what a run waits for.
const STATE: &str = "pending";

/// What a run waits for.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Waiting {
    /// The signal that carries the decisions.
    signal: String,
    /// The calls to decide on, without conversations.
    pending: PendingApproval,
}

/// The name of the object beside a service.
pub(crate) fn name(service: &str) -> String {
    format!("{service}.waiting")
}

/// Says what a run waits for.
pub(crate) fn show(
    ctx: &Context<'_>,
    service: &str,
    run_id: &str,
    pending: &PendingApproval,
    signal: &str,
) {
    let mut shown = PendingApproval::new(pending.run_id.clone(), pending.calls.clone());
    (shown.run_number, shown.turn, shown.turns) = (pending.run_number, pending.turn, pending.turns);
    leave_out_messages(&mut shown);
    let waiting = Waiting { signal: signal.to_owned(), pending: shown };
    let target = RequestTarget::object(name(service), run_id, SHOW);
    drop(ctx.request::<_, ()>(target, Stored(waiting)).send());
}

/// Leaves out the conversations: that of the run, and those of the agents inside its calls.
pub(crate) fn leave_out_messages(pending: &mut PendingApproval) {
    pending.messages = Vec::new();
    for nested in pending.calls.iter_mut().filter_map(|call| call.nested.as_mut()) {
        leave_out_messages(nested);
    }
}

/// Says that a run does not wait any more.
pub(crate) fn hide(ctx: &Context<'_>, service: &str, run_id: &str) {
    let target = RequestTarget::object(name(service), run_id, HIDE);
    drop(ctx.request::<_, ()>(target, ()).send());
}

pub(crate) async fn handle_pending(
    ctx: SharedObjectContext<'_>,
) -> HandlerResult<Stored<Option<Waiting>>> {
    let waiting = ctx.get::<Stored<Waiting>>(STATE).await?;
    Ok(Stored(waiting.map(|Stored(waiting)| waiting)))
}

pub(crate) fn handle_show(ctx: &ObjectContext<'_>, waiting: Stored<Waiting>) {
    ctx.set(STATE, waiting);
}

pub(crate) fn handle_hide(ctx: &ObjectContext<'_>) {
    ctx.clear(STATE);
}
