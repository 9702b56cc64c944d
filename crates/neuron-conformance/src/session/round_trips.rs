//! Sessions that are loaded as they were saved.

use neuron_types::{Message, SessionState, SessionStorage};

use super::context::TestContext;
use super::sample;

/// Checks that a session is loaded as it was saved.
///
/// The sessions have every kind of block, of text and of number, a state, and times with nanoseconds.
///
/// # Panics
///
/// At the first violation.
pub async fn round_trips<S: SessionStorage>(storage: &S) {
    let mut ctx = TestContext::new("round_trips", storage);
    ctx.begin("a small session");
    let small = ctx.session("small");
    ctx.save(&small).await;
    ctx.begin("a small session, loaded again");
    ctx.check(&small.id).await;

    ctx.begin("every kind of block");
    let everything = sample::everything(ctx.id("everything"));
    ctx.save(&everything).await;

    ctx.begin("a state without messages");
    let mut session = ctx.session("state");
    session.messages.clear();
    session.state = sample::state();
    ctx.save(&session).await;
    ctx.begin("an empty state");
    session.state = SessionState::default();
    ctx.save(&session).await;

    let times = [(0, 0), (-1, 1), (253_402_300_799, 999_999_999), (-62_135_596_800, 0)];
    for (index, (seconds, nanoseconds)) in times.into_iter().enumerate() {
        ctx.begin(format_args!("the time {seconds} s, {nanoseconds} ns"));
        let mut session = ctx.session(format_args!("time-{index}"));
        session.updated_at = sample::moment(seconds, nanoseconds);
        session.created_at = session.updated_at;
        ctx.save(&session).await;
    }

    ctx.begin("sessions do not disturb each other");
    ctx.check(&everything.id).await;
    ctx.save(&ctx.session("other")).await;
    ctx.check(&everything.id).await;

    ctx.begin("a message that came last is there at once");
    let mut session = ctx.session("growing");
    for index in 0..20 {
        session.messages.push(Message::user(format!("message {index}")));
        ctx.save(&session).await;
    }
    ctx.finish().await;
}
