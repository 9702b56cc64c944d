//! Saving over what is there.

use neuron_types::{Message, SessionStorage};

use super::context::TestContext;
use super::sample;

/// Checks that the last writer wins: a history that is longer, shorter, equal, or another from its
/// first message, its middle or its last, and an older time.
///
/// # Panics
///
/// At the first thing that does not hold.
pub async fn rewriting<S: SessionStorage>(storage: &S) {
    let ctx = TestContext::new("rewriting", storage);
    let original = sample::written(ctx.id("session"), 1, 50, 100);
    let another = Message::user("another");
    let changed = |index: usize| {
        let mut session = original.clone();
        if let Some(message) = session.messages.get_mut(index) {
            *message = another.clone();
        }
        session
    };
    let with = |change: &dyn Fn(&mut Vec<Message>)| {
        let mut session = original.clone();
        change(&mut session.messages);
        session
    };
    let mut older = original.clone();
    older.updated_at = sample::moment(1_000_000_000, 1);
    older.created_at = sample::moment(1_000_000_000, 0);
    let mut other_state = original.clone();
    other_state.state = sample::state();
    let versions = [
        ("equal", original.clone()),
        ("longer", with(&|messages| messages.push(another.clone()))),
        ("much longer", sample::written(&original.id, 1, 500, 100)),
        ("shorter", with(&|messages| messages.truncate(20))),
        ("without its first message", with(&|messages| drop(messages.remove(0)))),
        ("with a first message more", with(&|messages| messages.insert(0, another.clone()))),
        (
            "with a message more in the middle",
            with(&|messages| messages.insert(25, another.clone())),
        ),
        ("with another first message", changed(0)),
        ("with another message in the middle", changed(25)),
        ("with another last message", changed(49)),
        ("reversed", with(&|messages| messages.reverse())),
        ("empty", with(&|messages| messages.clear())),
        ("by another writer", sample::written(&original.id, 2, 50, 100)),
        ("shorter and by another writer", sample::written(&original.id, 3, 3, 100)),
        ("with an older time", older),
        ("with another state", other_state),
    ];
    for (name, version) in &versions {
        let case = ctx.case(name);
        ctx.save(&case, &original).await;
        ctx.save(&case, version).await;
        ctx.stored(&case, version).await;
        case.equal("what is listed", ctx.listed(&case).await, vec![version.summary()]);
        ctx.save(&case.step("and back"), &original).await;
        ctx.stored(&case.step("and back"), &original).await;
    }
    // One after the other, without the original between them.
    for (name, version) in &versions {
        let case = ctx.case(format_args!("{name}, after another"));
        ctx.save(&case, version).await;
        ctx.stored(&case, version).await;
    }
    ctx.finish().await;
}
