//! Ids: taken as they are, or refused.

use std::fmt::Debug;

use neuron_types::{
    Message, Session, SessionRevision, SessionStorage, StorageError, VersionedSessionStorage,
};

use super::context::TestContext;
use super::sample;
use crate::case::Case;

/// Checks that ids are taken as they are, in any form that
/// [`check_session_id`](neuron_types::check_session_id) takes, that ids which differ little are two
/// sessions or the second is refused, and that all others are [`StorageError::InvalidId`].
///
/// # Panics
///
/// At the first thing that does not hold.
pub async fn ids<S: SessionStorage>(storage: &S) {
    let ctx = TestContext::new("ids", storage);
    for (name, id) in taken(&ctx.id("")) {
        let case = ctx.case(name);
        let session = sample::small(id);
        ctx.save(&case, &session).await;
        ctx.stored(&case, &session).await;
        case.equal("what is listed", ctx.listed(&case).await, vec![session.summary()]);
        case.ok(case.soon(storage.delete(&session.id)).await);
        ctx.absent(&case.step("deleted"), &session.id).await;
    }
    alike(&ctx).await;

    let before = case_list(&ctx).await;
    for (name, id) in refused() {
        let case = ctx.case(name);
        invalid(&case.step("save"), &id, case.soon(storage.save(&sample::small(&id))).await);
        invalid(&case.step("load"), &id, case.soon(storage.load(&id)).await);
        invalid(&case.step("delete"), &id, case.soon(storage.delete(&id)).await);
    }
    let case = ctx.case("after all that were refused");
    case.equal("what is listed", case_list(&ctx).await, before);
    ctx.finish().await;
}

/// Checks that the methods with revisions refuse the same ids.
///
/// # Panics
///
/// At the first thing that does not hold.
pub async fn versioned_ids<S: VersionedSessionStorage>(storage: &S) {
    let ctx = TestContext::new("versioned_ids", storage);
    let case = ctx.case("an id that is taken");
    let session = ctx.session("session");
    let revision = case.ok(case.soon(storage.create(&session)).await);
    for (name, id) in refused() {
        let case = ctx.case(name);
        let bad = sample::small(&id);
        let messages = [Message::user("lost")];
        invalid(&case.step("create"), &id, case.soon(storage.create(&bad)).await);
        invalid(&case.step("load_versioned"), &id, case.soon(storage.load_versioned(&id)).await);
        invalid(&case.step("revision"), &id, case.soon(storage.revision(&id)).await);
        invalid(&case.step("update"), &id, case.soon(storage.update(&bad, &revision)).await);
        let appended: Result<SessionRevision, _> =
            case.soon(storage.append(&id, &messages, None, &revision)).await;
        invalid(&case.step("append"), &id, appended);
    }
    for (name, id) in taken(&ctx.id("x")) {
        let case = ctx.case(name);
        let mut session: Session = sample::small(id);
        let first = case.ok(case.soon(storage.create(&session)).await);
        session.messages.pop();
        let second = case.ok(case.soon(storage.update(&session, &first)).await);
        case.equal("the revision", case.ok(storage.revision(&session.id).await), second);
        ctx.stored(&case, &session).await;
    }
    ctx.finish().await;
}

/// Ids of different writing that mean different sessions. A file system may not tell them apart; then
/// the storage refuses the second one.
async fn alike<S: SessionStorage>(ctx: &TestContext<'_, S>) {
    let long = "x".repeat(150);
    let (long_1, long_2) = (format!("{long}1"), format!("{long}2"));
    let pairs = [
        ("chat", "CHAT"),
        ("\u{e9}", "e\u{301}"),
        ("ß", "SS"),
        ("a", "a.json"),
        ("b", "b~1"),
        (&long_1, &long_2),
    ];
    for (one, other) in pairs {
        let case = ctx.case(format_args!("{one:?} and {other:?}"));
        let first = sample::written(ctx.id(one), 1, 3, 10);
        let second = sample::written(ctx.id(other), 2, 4, 10);
        ctx.save(&case, &first).await;
        if case.soon(ctx.storage.save(&second)).await.is_ok() {
            ctx.stored(&case.step("the second"), &second).await;
        }
        ctx.stored(&case.step("the first"), &first).await;
    }
}

async fn case_list<S: SessionStorage>(ctx: &TestContext<'_, S>) -> Vec<String> {
    let case = ctx.case("the list");
    ctx.listed(&case).await.into_iter().map(|summary| summary.id).collect()
}

#[track_caller]
fn invalid<T: Debug>(case: &Case, id: &str, result: Result<T, StorageError>) {
    match case.err(result) {
        StorageError::InvalidId { id: named, reason } => {
            let shown = named.trim_end_matches('…');
            case.holds(id.starts_with(shown), format_args!("the error names {named:?}"));
            case.holds(!reason.is_empty(), "the error has no reason");
        }
        other => case.fail(format_args!("failed with {other:?} and not with InvalidId")),
    }
}

/// Ids of every form that is allowed.
fn taken(prefix: &str) -> Vec<(&'static str, String)> {
    let with = |text: &str| format!("{prefix}{text}");
    let longest = 200usize.saturating_sub(prefix.len());
    vec![
        ("an id of 200 bytes", with(&"x".repeat(longest))),
        ("an id of few characters and many bytes", with(&"対".repeat(longest / 3))),
        ("an id with an address", with("user@example.org")),
        ("an id with spaces", with("a  b c")),
        ("an id with full stops", with("a..b.json.tmp")),
        ("an id with quotes", with("it's-\u{201c}quoted\u{201d}")),
        ("an id with the signs of queries", with("100%_of;--$1#&=+,")),
        ("an id with brackets", with("(a)[b]{c}!~^`")),
        ("an id in other scripts", with("対話-עברית-👩\u{200d}👧")),
        ("an id that is nearly reserved", with("console.com10")),
    ]
}

/// Ids of every form that is refused.
fn refused() -> Vec<(&'static str, String)> {
    let mut ids = vec![
        ("an empty id", String::new()),
        ("1000 characters", "x".repeat(1000)),
        ("201 bytes", "x".repeat(201)),
        ("201 bytes in 67 characters", "対".repeat(67)),
    ];
    let names = [
        "..",
        ".",
        "../x",
        "../../etc/passwd",
        "a/../../x",
        "a/b",
        "/etc/passwd",
        "/",
        "./x",
        r"..\x",
        r"a\b",
        r"C:\x",
        "C:x",
        r"\\server\share",
        "file:stream",
        ".hidden",
        "x.",
        "x ",
        " x",
        "a\0b",
        "\0",
        "a\nb",
        "\t",
        "a\u{7f}",
        "a\u{85}b",
        "a*",
        "a?",
        "a\"b",
        "<a>",
        "a|b",
        "con",
        "CON",
        "prn",
        "Aux",
        "nul",
        "NUL.json",
        "nul .x",
        "com1",
        "COM9.txt",
        "lpt1",
        "LPT\u{b2}",
        "conin$",
        "CONOUT$",
    ];
    ids.extend(names.map(|name| (name, name.to_owned())));
    ids
}
