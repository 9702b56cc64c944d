//! Tests of attacks on the machine's resources. Each attack is stopped, and the error names the limit.

use std::time::{Duration, Instant};

use neuron_types::{CommandOutput, SandboxError, SandboxLimit, ToolCommand, ToolOutput};

use crate::support::{Folder, attack, attempt, build, builder, run, shell, text};

#[track_caller]
fn exceeded(result: Result<ToolOutput, SandboxError>) -> (SandboxLimit, CommandOutput) {
    match result {
        Err(SandboxError::LimitExceeded { limit, output }) => (limit, *output),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn time_limit_ends_a_sleeping_program_and_keeps_its_output() {
    let folder = Folder::new();
    let limit = Duration::from_secs(3);
    let Some(sandbox) = build(builder(&folder).time_limit(limit)) else { return };
    let script = "trap '' TERM INT HUP; echo started; echo trouble >&2; sleep 1000; sleep 1000";
    let start = Instant::now();
    let (stopped, output) = exceeded(run(&sandbox, shell(script)).await);
    assert_eq!(stopped, SandboxLimit::Time(limit));
    assert!(start.elapsed() >= limit);
    assert_eq!((&output.stdout[..], &output.stderr[..]), (&b"started\n"[..], &b"trouble\n"[..]));
    // A program that stops itself with `STOP` cannot end itself.
    let (stopped, _) = exceeded(run(&sandbox, shell("kill -STOP $$")).await);
    assert_eq!(stopped, SandboxLimit::Time(limit));
}

#[tokio::test]
async fn processor_time_limit_stops_a_busy_program() {
    let folder = Folder::new();
    let limit = Duration::from_millis(300);
    let Some(sandbox) = build(builder(&folder).cpu_time_limit(limit)) else { return };
    let (stopped, _) = exceeded(run(&sandbox, attack("burn", &[])).await);
    assert_eq!(stopped, SandboxLimit::CpuTime(limit));
    // Six processes exceed the limit only together, and the first process uses almost no time.
    let script = "for n in 1 2 3 4 5 6; do (while :; do :; done) & done; wait";
    let (stopped, _) = exceeded(run(&sandbox, shell(script)).await);
    assert_eq!(stopped, SandboxLimit::CpuTime(limit));
    // Each process has ended when the next one starts.
    let script = "n=0; while [ $n -lt 2000 ]; do n=$((n + 1)); \
                  sh -c 'i=0; while [ $i -lt 20000 ]; do i=$((i + 1)); done'; done";
    let (stopped, _) = exceeded(run(&sandbox, shell(script)).await);
    assert_eq!(stopped, SandboxLimit::CpuTime(limit));
}

/// Processor time must count even if a program spends it in many children that each end within 10 milliseconds. No
/// parent waits for these children, so the kernel discards their processor time.
#[tokio::test]
async fn processor_time_of_short_processes_is_counted() {
    let python = "/usr/bin/python3";
    if !std::path::Path::new(python).exists() {
        println!("not checked: hidden processor time (no {python})");
        return;
    }
    let folder = Folder::new();
    let limit = Duration::from_millis(400);
    let builder = builder(&folder).cpu_time_limit(limit).time_limit(Duration::from_secs(600));
    let Some(sandbox) = build(builder) else { return };
    let script = r"
import os, signal, time
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
for _ in range(250):
    if os.fork() == 0:
        while time.process_time() < 0.008: pass
        os._exit(0)
    try: os.wait()
    except ChildProcessError: pass
";
    let (stopped, _) = exceeded(run(&sandbox, ToolCommand::new(python).args(["-c", script])).await);
    assert_eq!(stopped, SandboxLimit::CpuTime(limit));
}

#[tokio::test]
async fn memory_limit_stops_an_allocating_program() {
    let folder = Folder::new();
    let limit = 128 << 20;
    let Some(sandbox) = build(builder(&folder).memory_limit(limit)) else { return };
    let said = attempt(&sandbox, "touch_memory", &[&(32 << 20).to_string(), "1"]).await;
    assert_eq!(said, "did 512");
    let (stopped, _) =
        exceeded(run(&sandbox, attack("touch_memory", &[&(200 << 20).to_string(), "10"])).await);
    assert_eq!(stopped, SandboxLimit::Memory(limit));
    // The kernel limits the memory of a single process.
    let said = attempt(&sandbox, "reserve_memory", &[&(4_u64 << 30).to_string()]).await;
    assert!(said.starts_with("refused"), "{said}");
    // Several processes exceed the limit together.
    let own = "\"$0\" attacker::attacker --exact --nocapture";
    let script = format!("{own} & {own} & {own} & wait");
    let command =
        ToolCommand::new("sh").arg("-c").arg(script).arg(std::env::current_exe().unwrap());
    let command = command.env("ATTACK", format!("touch_memory\n{}\n10", 60 << 20));
    let (stopped, _) = exceeded(run(&sandbox, command).await);
    assert_eq!(stopped, SandboxLimit::Memory(limit));
}

/// The memory of a process must count even if its first thread has ended. `/proc` then shows the process as dead and
/// without memory. Page tables must count too, even for memory that was only read.
#[tokio::test]
async fn memory_of_dead_threads_and_page_tables_is_counted() {
    let python = "/usr/bin/python3";
    if !std::path::Path::new(python).exists() {
        println!("not checked: hidden memory (no {python})");
        return;
    }
    let folder = Folder::new();
    let limit = 128 << 20;
    // The programs are slow on a loaded machine.
    let builder = builder(&folder).memory_limit(limit).time_limit(Duration::from_secs(600));
    let Some(sandbox) = build(builder) else { return };
    let without_first_thread = r"
import ctypes, mmap, os, threading, time
ended = threading.Event()
def allocate():
    ended.wait()
    time.sleep(0.1)
    memory = mmap.mmap(-1, 256 << 20)
    for _ in range(256): memory.write(b'x' * (1 << 20))
    time.sleep(5)
    os._exit(0)
threading.Thread(target=allocate).start()
ended.set()
exit_thread = {'x86_64': 60}.get(os.uname().machine, 93)
ctypes.CDLL(None).syscall(exit_thread, 0)
";
    let tables = r"
import ctypes, time
libc = ctypes.CDLL(None)
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t] + [ctypes.c_int] * 3 + [ctypes.c_long]
size = 150 << 30
start = libc.mmap(None, size, 1, 0x4022, -1, 0)
for at in range(0, size, 2 << 20): ctypes.c_char.from_address(start + at).value
time.sleep(5)
";
    for script in [without_first_thread, tables] {
        let command = ToolCommand::new(python).args(["-c", script]);
        let (stopped, _) = exceeded(run(&sandbox, command).await);
        assert_eq!(stopped, SandboxLimit::Memory(limit), "{script}");
    }
}

/// Shared memory counts, so a program cannot hide memory in it.
#[tokio::test]
async fn shared_memory_is_counted() {
    let folder = Folder::new();
    let limit = 128 << 20;
    let Some(sandbox) = build(builder(&folder).memory_limit(limit)) else { return };
    let script = "import mmap, time\nm = mmap.mmap(-1, 256 << 20)\nfor _ in range(256): m.write(b'x' * (1 << 20))\n\
                  time.sleep(1000)";
    let python = "/usr/bin/python3";
    if !std::path::Path::new(python).exists() {
        println!("not checked: shared memory (no {python})");
        return;
    }
    let (stopped, _) = exceeded(run(&sandbox, ToolCommand::new(python).args(["-c", script])).await);
    assert_eq!(stopped, SandboxLimit::Memory(limit));
}

#[tokio::test]
async fn process_limit_stops_a_forking_program() {
    let folder = Folder::new();
    let Some(sandbox) = build(builder(&folder).process_limit(40)) else { return };
    // Each script ends after some thousand processes or some seconds, in case the sandbox does not stop it.
    for script in [
        // The number of processes doubles in each step.
        "f() { [ $1 -gt 10 ] && exec sleep 10; f $(($1 + 1)) | f $(($1 + 1)) & }; f 0; sleep 10",
        // The processes are started one after another, as orphans.
        "n=0; while [ $n -lt 3000 ]; do (sleep 10 &); n=$((n + 1)); done; sleep 10",
        // A tree in which each process has two children.
        "s='[ $1 -gt 10 ] && exec sleep 10; n=$(($1 + 1)); \
            sh -c \"$0\" \"$0\" $n & sh -c \"$0\" \"$0\" $n & wait'; sh -c \"$s\" \"$s\" 0; sleep 10",
    ] {
        let (stopped, _) = exceeded(run(&sandbox, shell(script)).await);
        assert_eq!(stopped, SandboxLimit::Processes(40), "{script}");
    }
    let (stopped, _) = exceeded(run(&sandbox, attack("threads", &["100"])).await);
    assert_eq!(stopped, SandboxLimit::Processes(40));
}

#[tokio::test]
async fn file_size_limit_stops_a_growing_file() {
    let folder = Folder::new();
    let limit = 1 << 20;
    let builder = builder(&folder).write(folder.path()).file_size_limit(limit);
    let Some(sandbox) = build(builder) else { return };
    let path = folder.path().join("large");
    let size = (2 << 20).to_string();
    let (stopped, _) =
        exceeded(run(&sandbox, attack("large_file", &[path.to_str().unwrap(), &size])).await);
    assert_eq!(stopped, SandboxLimit::FileSize(limit));
    assert!(std::fs::metadata(path).unwrap().len() <= limit);
}

#[tokio::test]
async fn disk_reserve_stops_a_writing_program() {
    let folder = Folder::new();
    let path = folder.path().join("small");
    let small = path.to_str().unwrap();
    let disk = rustix::fs::statvfs(folder.path()).unwrap();
    let free = disk.f_bavail * disk.f_frsize;
    let with = |reserve| build(builder(&folder).write(folder.path()).disk_reserve(reserve));
    let Some(all) = with(u64::MAX) else { return };
    let stopped = run(&all, attack("large_file", &[small, "65536"])).await;
    assert_eq!(exceeded(stopped).0, SandboxLimit::DiskReserve(u64::MAX));
    // Other programs may write to the disk during the test, so the reserve is far below the free space.
    for reserve in [0, free / 2] {
        let half = with(reserve).unwrap();
        assert!(run(&half, attack("large_file", &[small, "65536"])).await.is_ok());
    }
    // A disk that the sandbox cannot write needs no reserve.
    let reads = build(builder(&folder).disk_reserve(u64::MAX)).unwrap();
    assert!(run(&reads, shell("exit 0")).await.is_ok());
}

#[tokio::test]
async fn output_above_the_limit_is_counted_and_discarded() {
    let folder = Folder::new();
    let Some(sandbox) = build(builder(&folder).output_limit(1000)) else { return };
    let script = "head -c 3000000 /dev/zero | tr '\\0' x; head -c 2000 /dev/zero >&2; echo end >&2";
    let output = text(run(&sandbox, shell(script)).await);
    let out = format!("{}\n[2999000 more bytes were dropped]\n[stderr]\n", "x".repeat(1000));
    assert!(output.starts_with(&out), "{output}");
    assert!(output.ends_with("\n[1004 more bytes were dropped]"), "{output}");

    let limit = Duration::from_secs(2);
    let Some(sandbox) = build(builder(&folder).output_limit(10).time_limit(limit)) else { return };
    let (stopped, output) = exceeded(run(&sandbox, ToolCommand::new("yes")).await);
    assert_eq!((stopped, &output.stdout[..]), (SandboxLimit::Time(limit), &b"y\ny\ny\ny\ny\n"[..]));
    assert!(output.stdout_dropped > 0);
}
