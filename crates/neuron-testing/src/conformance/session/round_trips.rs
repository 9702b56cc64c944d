//! Whether what is loaded is what was saved.

use neuron_types::{Message, SessionState, SessionStorage};

use super::bench::Bench;
use super::sample;

/// Checks that what is loaded is what was saved: every kind of block, of text and of number, the
/// state, and both times to the nanosecond.
///
/// # Panics
///
/// At the first thing that does not hold.
pub async fn round_trips<S: SessionStorage>(storage: &S) {
    let bench = Bench::new("round_trips", storage);

    let case = bench.case("a small session");
    let session = bench.session("small");
    bench.save(&case, &session).await;
    bench.stored(&case, &session).await;
    // Reading changes nothing.
    bench.stored(&case.step("loaded again"), &session).await;

    let case = bench.case("every kind of block");
    let everything = sample::everything(bench.id("everything"));
    bench.save(&case, &everything).await;
    bench.stored(&case, &everything).await;

    let case = bench.case("a state without messages");
    let mut session = bench.session("state");
    session.messages.clear();
    session.state = sample::state();
    bench.save(&case, &session).await;
    bench.stored(&case, &session).await;

    let case = bench.case("an empty state");
    session.state = SessionState::default();
    bench.save(&case, &session).await;
    bench.stored(&case, &session).await;

    let times = [(0, 0), (-1, 1), (253_402_300_799, 999_999_999), (-62_135_596_800, 0)];
    for (index, (seconds, nanoseconds)) in times.into_iter().enumerate() {
        let case = bench.case(format_args!("the time {seconds} s, {nanoseconds} ns"));
        let mut session = bench.session(format_args!("time-{index}"));
        session.updated_at = sample::moment(seconds, nanoseconds);
        session.created_at = sample::moment(seconds, nanoseconds);
        bench.save(&case, &session).await;
        bench.stored(&case, &session).await;
    }

    let case = bench.case("sessions do not disturb each other");
    bench.stored(&case, &everything).await;
    let other = bench.session("other");
    bench.save(&case, &other).await;
    bench.stored(&case, &everything).await;

    let case = bench.case("a message that came last is there at once");
    let mut session = bench.session("growing");
    for index in 0..20 {
        session.messages.push(Message::user(format!("message {index}")));
        bench.save(&case, &session).await;
        bench.stored(&case, &session).await;
    }
    bench.finish().await;
}
