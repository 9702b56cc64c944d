//! Whether what is loaded is what was saved.

use neuron_types::{Message, SessionState, SessionStorage};

use super::context::TestContext;
use super::sample;

/// Checks that what is loaded is what was saved: every kind of block, of text and of number, the
/// state, and both times to the nanosecond.
///
/// # Panics
///
/// At the first thing that does not hold.
pub async fn round_trips<S: SessionStorage>(storage: &S) {
    let ctx = TestContext::new("round_trips", storage);

    let case = ctx.case("a small session");
    let session = ctx.session("small");
    ctx.save(&case, &session).await;
    ctx.stored(&case, &session).await;
    // Reading changes nothing.
    ctx.stored(&case.step("loaded again"), &session).await;

    let case = ctx.case("every kind of block");
    let everything = sample::everything(ctx.id("everything"));
    ctx.save(&case, &everything).await;
    ctx.stored(&case, &everything).await;

    let case = ctx.case("a state without messages");
    let mut session = ctx.session("state");
    session.messages.clear();
    session.state = sample::state();
    ctx.save(&case, &session).await;
    ctx.stored(&case, &session).await;

    let case = ctx.case("an empty state");
    session.state = SessionState::default();
    ctx.save(&case, &session).await;
    ctx.stored(&case, &session).await;

    let times = [(0, 0), (-1, 1), (253_402_300_799, 999_999_999), (-62_135_596_800, 0)];
    for (index, (seconds, nanoseconds)) in times.into_iter().enumerate() {
        let case = ctx.case(format_args!("the time {seconds} s, {nanoseconds} ns"));
        let mut session = ctx.session(format_args!("time-{index}"));
        session.updated_at = sample::moment(seconds, nanoseconds);
        session.created_at = sample::moment(seconds, nanoseconds);
        ctx.save(&case, &session).await;
        ctx.stored(&case, &session).await;
    }

    let case = ctx.case("sessions do not disturb each other");
    ctx.stored(&case, &everything).await;
    let other = ctx.session("other");
    ctx.save(&case, &other).await;
    ctx.stored(&case, &everything).await;

    let case = ctx.case("a message that came last is there at once");
    let mut session = ctx.session("growing");
    for index in 0..20 {
        session.messages.push(Message::user(format!("message {index}")));
        ctx.save(&case, &session).await;
        ctx.stored(&case, &session).await;
    }
    ctx.finish().await;
}
