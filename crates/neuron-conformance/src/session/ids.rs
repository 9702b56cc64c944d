//! Checks which session ids a storage accepts.

use neuron_types::{SessionStorage, VersionedSessionStorage};

use super::context::{Kind, TestContext};
use super::sample;

/// Checks that a storage accepts every id that [`check_session_id`](neuron_types::check_session_id) accepts.
///
/// The storage must reject every other id with [`InvalidId`](neuron_types::StorageError::InvalidId). Similar ids, such
/// as `chat` and `CHAT`, must not overwrite each other. Either both sessions are stored, or the second save fails.
///
/// # Panics
///
/// Panics at the first violation.
pub async fn ids<S: SessionStorage>(storage: &S) {
    let mut ctx = TestContext::new("ids", storage);
    for (name, id) in accepted(&ctx.id("")) {
        ctx.begin(name);
        ctx.save(&sample::small(&id)).await;
        ctx.delete(&id).await;
    }
    let (long_1, long_2) = ("x".repeat(150) + "1", "x".repeat(150) + "2");
    let alike =
        [("chat", "CHAT"), ("\u{e9}", "e\u{301}"), ("ß", "SS"), ("a", "a.json"), ("b", "b~1")];
    for (one, other) in alike.into_iter().chain([(long_1.as_str(), long_2.as_str())]) {
        ctx.begin(format_args!("{one:?} and {other:?}"));
        let first = sample::written(ctx.id(one), 1, 3, 10);
        let second = sample::written(ctx.id(other), 2, 4, 10);
        ctx.save(&first).await;
        // A file system may treat the two names as equal, and the storage then rejects the second id.
        if ctx.case.soon(storage.save(&second)).await.is_ok() {
            ctx.must_hold(&second);
            ctx.check(&second.id).await;
        }
        ctx.check(&first.id).await;
    }
    for (name, id) in refused() {
        ctx.begin(name);
        ctx.fails(Kind::InvalidId, &id, storage.save(&sample::small(&id))).await;
        ctx.fails(Kind::InvalidId, &id, storage.load(&id)).await;
        ctx.fails(Kind::InvalidId, &id, storage.delete(&id)).await;
    }
    ctx.check_list().await;
    ctx.finish().await;
}

/// Checks that the methods of [`VersionedSessionStorage`] accept and reject the same ids as
/// [`check_session_id`](neuron_types::check_session_id).
///
/// # Panics
///
/// Panics at the first violation.
pub async fn versioned_ids<S: VersionedSessionStorage>(storage: &S) {
    let mut ctx = TestContext::new("versioned_ids", storage);
    let session = ctx.session("session");
    let revision = ctx.create(&session).await;
    for (name, id) in refused() {
        ctx.begin(name);
        let bad = sample::small(&id);
        ctx.fails(Kind::InvalidId, &id, storage.create(&bad)).await;
        ctx.fails(Kind::InvalidId, &id, storage.load_versioned(&id)).await;
        ctx.fails(Kind::InvalidId, &id, storage.revision(&id)).await;
        ctx.fails(Kind::InvalidId, &id, storage.update(&bad, &revision)).await;
        let append = storage.append(&id, &bad.messages, None, &revision);
        ctx.fails(Kind::InvalidId, &id, append).await;
    }
    for (name, id) in accepted(&ctx.id("x")) {
        ctx.begin(name);
        let mut session = sample::small(id);
        let first = ctx.create(&session).await;
        session.messages.pop();
        ctx.update(&session, &first).await;
    }
    ctx.finish().await;
}

/// Returns ids of every form that a storage must accept, each with a name for the case.
fn accepted(prefix: &str) -> impl Iterator<Item = (&'static str, String)> {
    let longest = 200usize.saturating_sub(prefix.len());
    let ids = [
        ("an id of 200 bytes", "x".repeat(longest)),
        ("an id of few characters and many bytes", "対".repeat(longest / 3)),
        ("an id with an address", "user@example.org".into()),
        ("an id with spaces", "a  b c".into()),
        ("an id with full stops", "a..b.json.tmp".into()),
        ("an id with quotes", "it's-\u{201c}quoted\u{201d}".into()),
        ("an id with the signs of queries", "100%_of;--$1#&=+,".into()),
        ("an id with brackets", "(a)[b]{c}!~^`".into()),
        ("an id in other scripts", "対話-עברית-👩\u{200d}👧".into()),
        ("an id that is nearly reserved", "console.com10".into()),
    ];
    ids.map(|(name, id)| (name, format!("{prefix}{id}"))).into_iter()
}

/// Returns ids of every form that a storage must reject, each with a name for the case.
fn refused() -> impl Iterator<Item = (&'static str, String)> {
    let long = [
        ("an empty id", String::new()),
        ("1000 characters", "x".repeat(1000)),
        ("201 bytes", "x".repeat(201)),
        ("201 bytes in 67 characters", "対".repeat(67)),
    ];
    let paths = ["..", ".", "../x", "a/b", "/", "./x", r"..\x", r"a\b", r"C:\x", "C:x"];
    let long_paths =
        ["../../etc/passwd", "a/../../x", "/etc/passwd", r"\\server\share", "file:stream"];
    let ends = [".hidden", "x.", "x ", " x"];
    let controls = ["a\0b", "\0", "a\nb", "\t", "a\u{7f}", "a\u{85}b"];
    let signs = ["a*", "a?", "a\"b", "<a>", "a|b"];
    let devices = ["con", "CON", "prn", "Aux", "nul", "com1", "lpt1", "LPT²", "conin$", "CONOUT$"];
    let device_files = ["NUL.json", "nul .x", "COM9.txt"];
    let groups: [&[&'static str]; 7] =
        [&paths, &long_paths, &ends, &controls, &signs, &devices, &device_files];
    let names: Vec<_> = groups.concat().into_iter().map(|id| (id, id.to_owned())).collect();
    long.into_iter().chain(names)
}
