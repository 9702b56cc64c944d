//! The end of a call leaves no process behind. A named pipe shows this: its reader sees the end of the file when
//! the last process that has the pipe open is gone.

use std::path::{Path, PathBuf};
use std::pin::pin;
use std::process::{Command, Stdio};
use std::task::{Context, Waker};
use std::time::Duration;

use neuron_types::{SandboxError, SandboxLimit, ToolContext, ToolError};
use rustix::fs::{CWD, Mode};
use tokio::io::AsyncReadExt as _;
use tokio::net::unix::pipe::{OpenOptions, Receiver};
use tokio_util::sync::CancellationToken;

use crate::support::{Folder, build, builder, run, run_in, shell, text};

/// Starts processes that hold the pipe in the background, as orphans, ignoring signals, stopped, and with their
/// output redirected.
const MANY: &str = "exec 5>pipe; echo held >&5
sleep 1000 &
(sleep 1000 & sleep 1000 &)
(trap '' TERM HUP INT; sleep 1000 & wait) &
(setsid sleep 1000 2>/dev/null; sleep 1000) >/dev/null 2>&1 &
nohup sleep 1000 >/dev/null 2>&1 &
sh -c 'kill -STOP $$' &
echo ready";

fn pipe(folder: &Folder) -> PathBuf {
    let path = folder.path().join("pipe");
    rustix::fs::mkfifoat(CWD, &path, Mode::RUSR | Mode::WUSR).unwrap();
    path
}

/// Waits until the pipe is held.
async fn held(path: &Path) -> Receiver {
    let mut pipe = OpenOptions::new().open_receiver(path).unwrap();
    let held = async {
        pipe.readable().await.unwrap();
        let mut word = [0; 5];
        pipe.read_exact(&mut word).await.unwrap();
        assert_eq!(&word, b"held\n");
    };
    tokio::time::timeout(PATIENCE, held).await.expect("the program does not start");
    pipe
}

/// Waits until nobody holds the pipe any more.
async fn assert_closed(mut pipe: Receiver) {
    let mut none = [0; 1];
    let closed = tokio::time::timeout(PATIENCE, pipe.read(&mut none));
    assert_eq!(closed.await.expect("a process is left").unwrap(), 0);
}

/// For a test that fails.
const PATIENCE: Duration = Duration::from_secs(60);

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_left_when_the_program_ends() {
    let folder = Folder::new();
    let path = pipe(&folder);
    let Some(sandbox) = build(builder(&folder).write(folder.path())) else { return };
    let call = tokio::spawn(async move { text(run(&sandbox, shell(MANY)).await) });
    let pipe = held(&path).await;
    assert_eq!(call.await.unwrap(), "ready\n");
    assert_closed(pipe).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_left_at_a_limit() {
    let folder = Folder::new();
    let path = pipe(&folder);
    let limit = Duration::from_secs(5);
    let builder = builder(&folder).write(folder.path()).time_limit(limit);
    let Some(sandbox) = build(builder) else { return };
    let call =
        tokio::spawn(async move { run(&sandbox, shell(&format!("{MANY}\nsleep 1000"))).await });
    let pipe = held(&path).await;
    let error = call.await.unwrap().unwrap_err();
    assert!(
        matches!(error, SandboxError::LimitExceeded { limit: SandboxLimit::Time(at), .. } if at == limit)
    );
    assert_closed(pipe).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_left_when_the_call_is_cancelled() {
    let folder = Folder::new();
    let path = pipe(&folder);
    let Some(sandbox) = build(builder(&folder).write(folder.path())) else { return };
    let token = CancellationToken::new();
    let ctx = ToolContext { cancellation_token: token.clone(), ..Default::default() };
    let call = {
        let (sandbox, ctx) = (sandbox.clone(), ctx.clone());
        tokio::spawn(
            async move { run_in(&sandbox, shell(&format!("{MANY}\nsleep 1000")), &ctx).await },
        )
    };
    let pipe = held(&path).await;
    token.cancel();
    let error = call.await.unwrap().unwrap_err();
    assert!(matches!(error, SandboxError::Tool(ToolError::Cancelled)), "{error}");
    // Not within moments, but when the call has returned.
    assert_eq!(pipe.try_read(&mut [0; 1]).unwrap(), 0);

    let error = run_in(&sandbox, shell("echo never"), &ctx).await.unwrap_err();
    assert!(matches!(error, SandboxError::Tool(ToolError::Cancelled)), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_left_when_the_call_is_dropped() {
    let folder = Folder::new();
    let path = pipe(&folder);
    let Some(sandbox) = build(builder(&folder).write(folder.path())) else { return };
    let pipe = {
        let mut call = pin!(run(&sandbox, shell(&format!("{MANY}\nsleep 1000"))));
        let mut cx = Context::from_waker(Waker::noop());
        assert!(call.as_mut().poll(&mut cx).is_pending());
        held(&path).await
    };
    assert_closed(pipe).await;
}

/// A call that is dropped before its first process has come far.
#[tokio::test(flavor = "multi_thread")]
async fn a_call_can_be_dropped_at_any_moment() {
    let folder = Folder::new();
    let Some(sandbox) = build(builder(&folder)) else { return };
    for microseconds in (0..12_000).step_by(400) {
        let call = run(&sandbox, shell("sleep 1000"));
        let early = tokio::time::timeout(Duration::from_micros(microseconds), call).await;
        assert!(early.is_err());
    }
    assert_eq!(text(run(&sandbox, shell("echo still")).await), "still\n");
}

/// Not a test, but a process that runs a program in a sandbox, for a test that ends it.
#[tokio::test]
async fn host() {
    let (Some(folder), Ok(script)) = (std::env::var_os("HOST"), std::env::var("HOST_RUNS")) else {
        return;
    };
    if std::env::var_os("HOST_ADOPTS").is_some() {
        rustix::process::set_child_subreaper(Some(rustix::process::getpid())).unwrap();
    }
    let builder = neuron_runtime::ProcessSandbox::builder(&folder)
        .accept_older_kernel()
        .write(&folder)
        .read("/proc");
    match builder.build() {
        Ok(sandbox) => println!("{:?}", run(&sandbox, shell(&script)).await),
        Err(error) => println!("{error:?}"),
    }
}

/// The process that would end the program dies itself, in the way that leaves it no last word.
#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_left_when_this_process_dies() {
    let folder = Folder::new();
    let path = pipe(&folder);
    let Some(_) = build(builder(&folder)) else { return };
    let mut host = Command::new(std::env::current_exe().unwrap())
        .args(["ends::host", "--exact", "--nocapture"])
        .env("HOST", folder.path())
        .env("HOST_RUNS", format!("{MANY}\nsleep 1000"))
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let pipe = held(&path).await;
    host.kill().unwrap();
    host.wait().unwrap();
    assert_closed(pipe).await;
}

/// The kernel sends SIGHUP to an orphaned process group with a stopped process. A process that ignores SIGHUP must
/// still be killed.
#[tokio::test(flavor = "multi_thread")]
async fn nothing_deaf_is_left_when_this_process_dies() {
    let folder = Folder::new();
    let path = pipe(&folder);
    let Some(_) = build(builder(&folder)) else { return };
    let script = "trap '' HUP INT TERM; exec 5>pipe; sh -c 'kill -STOP $$' &
        until grep -q 'State:.T' /proc/$!/status; do :; done
        sleep 100 & echo held >&5; sleep 100";
    for _ in 0..5 {
        let mut host = Command::new(std::env::current_exe().unwrap())
            .args(["ends::host", "--exact", "--nocapture"])
            .env("HOST", folder.path())
            .env("HOST_RUNS", script)
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let pipe = held(&path).await;
        host.kill().unwrap();
        host.wait().unwrap();
        assert_closed(pipe).await;
    }
}

/// The first process of a container adopts all orphans. No other process waits for them, so they would count
/// against the limit for ever.
#[tokio::test]
async fn orphans_that_this_process_adopts_are_waited_for() {
    let folder = Folder::new();
    let Some(_) = build(builder(&folder)) else { return };
    let script = "n=0; while [ $n -lt 400 ]; do (true &); n=$((n + 1)); done; echo end";
    let host = Command::new(std::env::current_exe().unwrap())
        .args(["ends::host", "--exact", "--nocapture"])
        .env("HOST", folder.path())
        .env("HOST_ADOPTS", "1")
        .env("HOST_RUNS", script)
        .output()
        .unwrap();
    let output = String::from_utf8_lossy(&host.stdout);
    assert!(output.contains("Ok") && output.contains("end"), "{output}");
}

/// Without the ends of children their numbers would be others' before they are killed.
#[tokio::test]
async fn a_process_that_ignores_the_ends_of_children_is_refused() {
    let folder = Folder::new();
    let Some(_) = build(builder(&folder)) else { return };
    let host = Command::new("env")
        .arg("--ignore-signal=CHLD")
        .arg(std::env::current_exe().unwrap())
        .args(["ends::host", "--exact", "--nocapture"])
        .env("HOST", folder.path())
        .env("HOST_RUNS", "echo hi > ran")
        .output()
        .unwrap();
    let output = String::from_utf8_lossy(&host.stdout);
    assert!(output.contains("SetupFailed") && output.contains("ignores SIGCHLD"), "{output}");
    assert!(!folder.path().join("ran").exists());
}

/// A process in the background that keeps the outputs open must not keep the call.
#[tokio::test]
async fn a_descendant_with_the_output_open_does_not_hold_the_call() {
    let folder = Folder::new();
    let Some(sandbox) = build(builder(&folder)) else { return };
    let output = run(&sandbox, shell("sleep 1000 & echo first; exit 4")).await.unwrap();
    assert_eq!(output.content[0].to_string(), "first\n[exit status 4]");
}
