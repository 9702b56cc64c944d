//! Tests of attacks on processes, privileges, limits and inherited resources.

use std::process::{Command, Stdio};

use neuron_sandbox::Confinement;
use neuron_types::ToolCommand;

use crate::support::{Folder, assert_refused, attempt, build, builder, run, shell, text};

#[tokio::test]
async fn other_processes_cannot_be_accessed() {
    let folder = Folder::new();
    let Some(sandbox) = build(builder(&folder)) else { return };
    let ours = std::process::id().to_string();
    // An older kernel cannot block signals to other processes.
    let has_signals = sandbox.confinement() != Confinement::Full;
    let is_signal = |what: &&str| matches!(*what, "kill" | "exists" | "kill_leader");
    let is_tried = |what: &&str| !(has_signals && is_signal(what));
    for what in ["kill", "exists", "limit_other", "other_group"].into_iter().filter(is_tried) {
        assert_refused(what, &attempt(&sandbox, what, &[&ours]).await);
    }
    for what in ["session", "own_group", "kill_leader", "memfd"].into_iter().filter(is_tried) {
        assert_refused(what, &attempt(&sandbox, what, &[]).await);
    }
    if has_signals {
        assert_eq!(attempt(&sandbox, "exists", &[&ours]).await, "did it");
    }
    for file in ["environ", "mem", "maps", "cmdline", "fd/0", "cwd"] {
        let path = format!("/proc/{ours}/{file}");
        assert_refused(&path, &attempt(&sandbox, "read", &[&path]).await);
    }
}

/// Even if `/proc` is readable, the kernel protects the memory and the environment of other processes.
#[tokio::test]
async fn proc_shows_no_secrets_of_other_processes() {
    let folder = Folder::new();
    let Some(sandbox) = build(builder(&folder).read("/proc")) else { return };
    for file in ["environ", "mem", "maps"] {
        let path = format!("/proc/{}/{file}", std::process::id());
        assert_refused(&path, &attempt(&sandbox, "read", &[&path]).await);
    }
    // Only the program's own three files are open, although this process has more.
    let _open = std::fs::File::open("/etc/hostname");
    assert_eq!(attempt(&sandbox, "open_files", &[]).await, "did 3");
}

#[tokio::test]
async fn program_has_no_capabilities_and_cannot_raise_limits() {
    let folder = Folder::new();
    let Some(sandbox) = build(builder(&folder)) else { return };
    for what in ["capabilities", "regain", "raise"] {
        assert_refused(what, &attempt(&sandbox, what, &[]).await);
    }
    let Some(with_proc) = build(builder(&folder).read("/proc")) else { return };
    let output = text(run(&with_proc, ToolCommand::new("cat").arg("/proc/self/limits")).await);
    for (name, most) in
        [("pending signals", "1024"), ("nice priority", "0"), ("realtime priority", "0")]
    {
        let line = output.lines().find_map(|line| line.strip_prefix(&format!("Max {name} ")));
        assert_eq!(line.unwrap().split_whitespace().nth(1), Some(most), "{output}");
    }
    let output = text(run(&sandbox, ToolCommand::new("unshare").args(["-Ur", "true"])).await);
    assert!(output.contains("not permitted"), "{output}");
}

/// Raw system calls with which a program could attack are blocked. A Python script makes these calls.
#[tokio::test]
async fn raw_system_calls_are_blocked() {
    let python = "/usr/bin/python3";
    let found = Command::new(python).arg("-V").stdout(Stdio::null()).status();
    if !found.is_ok_and(|status| status.success()) || !cfg!(target_arch = "x86_64") {
        println!("not checked: system calls by their number (no {python} on x86-64)");
        assert!(!std::env::var("CI").is_ok_and(|ci| ci == "true"), "with CI=true it must be");
        return;
    }
    let folder = Folder::new();
    let Some(sandbox) = build(builder(&folder)) else { return };
    let script = r"
import ctypes, os, sys
libc = ctypes.CDLL(None, use_errno=True)
ours = int(sys.argv[1])
def call(name, number, *args):
    ctypes.set_errno(0)
    result = libc.syscall(ctypes.c_long(number), *[ctypes.c_long(a) for a in args])
    print(name, result, ctypes.get_errno())
call('ptrace', 101, 16, ours, 0, 0)
call('process_vm_readv', 310, ours, 0, 0, 0, 0, 0)
call('clone3', 435, 0, 0)
call('clone_newuser', 56, 0x10000011, 0, 0, 0, 0)
call('clone_newtime', 56, 0x91, 0, 0, 0, 0)
call('clone_parent', 56, 0x8011, 0, 0, 0, 0)
call('unshare', 272, 0x10000000)
call('io_uring', 425, 8, 0)
call('bpf', 321, 0, 0, 0)
call('perf', 298, 0, 0, 0, 0, 0)
call('userfaultfd', 323, 0)
call('keyctl', 250, 0, -3, 1)
call('shmget', 29, 0, 1 << 30, 0o1600)
call('semop', 65, 1 << 30, 0, 1)
call('semtimedop', 220, 1 << 30, 0, 1, 0)
call('msgsnd', 69, 1 << 30, 0, 0, 0)
call('msgrcv', 70, 1 << 30, 0, 0, 0, 0)
call('mq_open', 240, 0, 0, 0, 0)
call('mount', 165, 0, 0, 0, 0, 0)
call('inotify', 254, 0, 0, 0)
call('setsid_x32', 0x40000000 + 112)
call('socket_x32', 0x40000000 + 41, 1, 1, 0)
call('future', 470, 0, 0)
call('far_future', 5000, 0, 0)
# The kernel looks at 32 bits of these; so must the filter.
call('socket_high', 41, (1 << 32) + 2, 1, 0)
call('setpgid_high', 109, 0, 1 << 32)
call('ioctl_high', 16, 0, (1 << 32) + 0x5412, 0)
call('prlimit', 302, ours, 4, 0, 0)
call('setpriority', 141, 0, ours, 19)
call('affinity', 203, ours, 8, 0)
call('seccomp_ok', 39)
";
    let ours = std::process::id().to_string();
    let command = ToolCommand::new(python).args(["-c", script]).arg(ours);
    let output = run(&sandbox, command).await.unwrap();
    let output = output.content[0].to_string();
    for line in output.lines() {
        let words: Vec<&str> = line.split(' ').collect();
        let [name, result, errno] = words[..] else { panic!("{output}") };
        match name {
            "seccomp_ok" => assert_ne!(result, "-1", "{line}"),
            "clone3" | "io_uring" | "future" | "far_future" | "setsid_x32" | "socket_x32" => {
                assert_eq!((result, errno), ("-1", "38"), "{line}");
            }
            _ => assert_eq!((result, errno), ("-1", "1"), "{line}"),
        }
    }
    assert_eq!(output.lines().count(), 31, "{output}");
}

/// Programs do not inherit files that this process opened without the close-on-exec flag, as a foreign library may do.
#[tokio::test]
async fn inherited_files_are_closed() {
    let folder = Folder::new();
    let file = folder.file("file", "");
    // Runs in a separate process, so that other tests do not inherit the files too.
    let Some(_) = build(builder(&folder)) else { return };
    let host = |redirection: &str| {
        let test = std::env::current_exe().unwrap();
        let script = format!("exec \"$0\" ends::host --exact --nocapture {redirection}");
        let mut command = Command::new("bash");
        command
            .args(["-c", &script])
            .arg(test)
            .env("HOST", folder.path())
            .env("HOST_RUNS", "echo only $(ls /proc/self/fd)");
        command.env("FILE", &file).output()
    };
    if Command::new("bash").arg("--version").output().is_err() {
        println!("not checked: inherited files (no bash to open them)");
        return;
    }
    for redirection in ["3<\"$FILE\" 9>>\"$FILE\"", "20<\"$FILE\" 3<\"$FILE\" 137>>\"$FILE\""] {
        let output = host(redirection).unwrap();
        let output = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.contains("Ok") && output.contains("only 0 1 2 3\\n"), "{output}");
    }
}

#[tokio::test]
async fn set_user_id_programs_give_no_rights() {
    let folder = Folder::new();
    let script = "grep NoNewPrivs /proc/self/status";
    let Some(with_proc) = build(builder(&folder).read("/proc")) else { return };
    let output = text(run(&with_proc, shell(script)).await);
    assert_eq!(output.split_whitespace().last(), Some("1"));
}
