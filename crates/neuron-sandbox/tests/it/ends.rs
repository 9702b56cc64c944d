//! Tests that no process of a program remains after a call. Each process keeps a named pipe open. The test reads the
//! pipe until its end, which comes after all processes have ended.

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

/// Shell script that starts several kinds of processes. They include background processes, orphans, stopped processes,
/// and processes that ignore signals or redirect their output. Each process keeps the named pipe `pipe` open.
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

/// Waits until a process has opened the named pipe, and returns the reader of the pipe.
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

/// Waits until no process has the pipe open.
async fn assert_closed(mut pipe: Receiver) {
    let mut none = [0; 1];
    let closed = tokio::time::timeout(PATIENCE, pipe.read(&mut none));
    assert_eq!(closed.await.expect("a process is left").unwrap(), 0);
}

/// Maximum time to wait for the start or the end of processes. Only a failing test waits so long.
const PATIENCE: Duration = Duration::from_secs(60);

#[tokio::test(flavor = "multi_thread")]
async fn no_process_remains_after_the_program_ends() {
    let folder = Folder::new();
    let path = pipe(&folder);
    let Some(sandbox) = build(builder(&folder).write(folder.path())) else { return };
    let call = tokio::spawn(async move { text(run(&sandbox, shell(MANY)).await) });
    let pipe = held(&path).await;
    assert_eq!(call.await.unwrap(), "ready\n");
    assert_closed(pipe).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn no_process_remains_after_a_limit() {
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
async fn no_process_remains_after_a_cancellation() {
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
    // All processes have ended when the call returns, not only shortly afterwards.
    assert_eq!(pipe.try_read(&mut [0; 1]).unwrap(), 0);

    let error = run_in(&sandbox, shell("echo never"), &ctx).await.unwrap_err();
    assert!(matches!(error, SandboxError::Tool(ToolError::Cancelled)), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn no_process_remains_after_a_dropped_call() {
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

/// Drops the future of a call after different times, while the sandbox starts the program.
#[tokio::test(flavor = "multi_thread")]
async fn call_can_be_dropped_during_its_start() {
    let folder = Folder::new();
    let Some(sandbox) = build(builder(&folder)) else { return };
    for microseconds in (0..12_000).step_by(400) {
        let call = run(&sandbox, shell("sleep 1000"));
        let early = tokio::time::timeout(Duration::from_micros(microseconds), call).await;
        assert!(early.is_err());
    }
    assert_eq!(text(run(&sandbox, shell("echo still")).await), "still\n");
}

/// Runs a program in a sandbox. Other tests start this test as a child process and kill it. Does nothing if the
/// environment variable `HOST` or `HOST_RUNS` is missing.
#[tokio::test]
async fn host() {
    let (Some(folder), Ok(script)) = (std::env::var_os("HOST"), std::env::var("HOST_RUNS")) else {
        return;
    };
    if std::env::var_os("HOST_ADOPTS").is_some() {
        rustix::process::set_child_subreaper(Some(rustix::process::getpid())).unwrap();
    }
    let builder = neuron_sandbox::ProcessSandbox::builder(&folder)
        .accept_older_kernel()
        .write(&folder)
        .read("/proc");
    match builder.build() {
        Ok(sandbox) => println!("{:?}", run(&sandbox, shell(&script)).await),
        Err(error) => println!("{error:?}"),
    }
}

/// All processes of a program end if this process is killed with `KILL`, although it then cannot clean up.
#[tokio::test(flavor = "multi_thread")]
async fn no_process_remains_after_this_process_dies() {
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

/// A program that ignores `HUP` must be killed when this process dies. The program has a stopped child, because the
/// kernel sends `HUP` to an orphaned group with a stopped process.
#[tokio::test(flavor = "multi_thread")]
async fn process_that_ignores_signals_ends_after_this_process_dies() {
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

/// If this process becomes the parent of orphans, it must wait for them. The first process of a container becomes their
/// parent. Ended orphans that are not waited for would count against the process limit for ever.
#[tokio::test]
async fn adopted_orphans_are_waited_for() {
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

/// If the kernel discards ended children, their ids could belong to other processes, which the sandbox would then kill.
#[tokio::test]
async fn sandbox_rejects_a_process_that_ignores_sigchld() {
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

/// A background process that keeps the output open must not delay the end of the call.
#[tokio::test]
async fn background_process_does_not_delay_the_end_of_the_call() {
    let folder = Folder::new();
    let Some(sandbox) = build(builder(&folder)) else { return };
    let output = run(&sandbox, shell("sleep 1000 & echo first; exit 4")).await.unwrap();
    assert_eq!(output.content[0].to_string(), "first\n[exit status 4]");
}
