//! Tests that the sandbox limits a program that only forks, with each mechanism for the process limit. Each test runs
//! in a control group with a higher limit, which protects the machine if the sandbox fails.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use std::{env, fs, process};

use neuron_sandbox::ProcessCounting;
use neuron_types::{SandboxError, SandboxLimit, ToolCommand};

use crate::support::{Folder, build, builder, not_checked, run};

/// Number of processes that the sandbox allows.
const LIMIT: u64 = 100;

/// Maximum number of processes in the control group around the test. It protects the machine if the sandbox fails.
const SAFE: u64 = 3000;

/// Maximum number of processes and threads in the control group beside the forking program. They belong to the test
/// binary and to the shell that leads the program's process group.
const AROUND: u64 = 40;

/// Maximum time from the start to the end of the program.
const LONGEST: Duration = Duration::from_secs(20);

/// C source of a program that only forks.
const BOMB: &str = "#include <unistd.h>\nint main(void) { for (;;) fork(); }\n";

/// Runs the forking program in a sandbox. Other tests start this test in a child process. The environment variable
/// `FORK_BOMB_COUNTING` names the expected [`ProcessCounting`]. Does nothing without this variable.
#[tokio::test]
async fn within() {
    let Ok(expected) = env::var("FORK_BOMB_COUNTING") else { return };
    let folder = Folder::new();
    let builder = builder(&folder).execute(folder.path()).process_limit(LIMIT);
    let is_watched = expected == "Watched";
    if is_watched {
        let error = builder.clone().build().unwrap_err().to_string();
        assert!(error.contains("watched_process_limit"), "{error}");
    }
    let builder = if is_watched { builder.watched_process_limit() } else { builder };
    let Some(sandbox) = build(builder) else { return };
    assert_eq!(format!("{:?}", sandbox.process_counting()), expected);
    let program = compile(&folder);
    let start = Instant::now();
    let ended = run(&sandbox, ToolCommand::new(&program)).await;
    let Err(SandboxError::LimitExceeded { limit, .. }) = ended else { panic!("{ended:?}") };
    assert_eq!(limit, SandboxLimit::Processes(LIMIT));
    assert!(start.elapsed() < LONGEST, "{:?}", start.elapsed());
    assert_eq!(processes_of(&program), 0, "all have ended");
    println!("HELD");
}

fn compile(folder: &Folder) -> PathBuf {
    let (source, program) = (folder.file("bomb.c", BOMB), folder.path().join("bomb"));
    let compiled = Command::new("cc").arg("-o").arg(&program).arg(source).status().unwrap();
    assert!(compiled.success());
    program
}

fn processes_of(program: &Path) -> usize {
    let all = fs::read_dir("/proc").unwrap().flatten();
    all.filter(|entry| fs::read_link(entry.path().join("exe")).is_ok_and(|exe| exe == program))
        .count()
}

/// A control group that limits the processes of a test. Only root can create it.
struct Fence(PathBuf);

impl Fence {
    fn new() -> Option<Self> {
        let own = fs::read_to_string("/proc/self/cgroup").ok()?;
        let place = |name: &str| {
            own.lines().find_map(|line| {
                let (controllers, place) = line.split_once(':')?.1.split_once(':')?;
                (controllers == name).then(|| place.trim_start_matches('/').to_owned())
            })
        };
        let first = || Some(Path::new("/sys/fs/cgroup/pids").join(place("pids")?));
        let second = || Some(Path::new("/sys/fs/cgroup").join(place("")?).parent()?.to_owned());
        let parents = [first(), second()].into_iter().flatten();
        parents.map(|parent| parent.join(format!("fork-bomb-{}", process::id()))).find_map(|path| {
            fs::create_dir(&path).ok()?;
            let fence = Self(path);
            fs::write(fence.0.join("pids.max"), SAFE.to_string()).ok()?;
            Some(fence)
        })
    }

    /// Runs the test `within` in the control group. Checks that at most `most` processes exist at the same time, and
    /// that the sandbox uses the mechanism `counting`. `wrapper` is a command that runs the test binary, for example as
    /// another user.
    fn run(&self, wrapper: &str, counting: ProcessCounting, most: u64) {
        let script = format!(
            "echo $$ > {procs} && exec {wrapper} \"$0\" --exact fork_bomb::within --nocapture",
            procs = self.0.join("cgroup.procs").display(),
        );
        let mut command = Command::new("/bin/sh");
        command.args(["-c", &script]).arg(env::current_exe().unwrap());
        command.env("FORK_BOMB_COUNTING", format!("{counting:?}"));
        // Busy processes make the checks of the sandbox slower.
        let spin = || {
            let mut command = Command::new("/bin/sh");
            command.args(["-c", "while :; do :; done"]).spawn().unwrap()
        };
        let mut busy = [spin(), spin(), spin(), spin()];
        let ended = command.stdin(Stdio::null()).output();
        for other in &mut busy {
            other.kill().unwrap();
            other.wait().unwrap();
        }
        let output = ended.unwrap();
        let text = String::from_utf8_lossy(&output.stdout);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() && text.contains("HELD"), "{text}\n{errors}");
        let peak = fs::read_to_string(self.0.join("pids.peak")).unwrap();
        println!("{peak} processes at a time");
        assert!(peak.trim().parse::<u64>().unwrap() <= most, "{peak}");
    }
}

impl Drop for Fence {
    fn drop(&mut self) {
        for _ in 0..100 {
            if fs::remove_dir(&self.0).is_ok() {
                return;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

fn fence() -> Option<Fence> {
    let fence = Fence::new();
    if fence.is_none() {
        not_checked("programs that only fork", "no control group can be made for the test");
    }
    fence
}

#[test]
fn cgroup_stops_a_forking_program() {
    if let Some(fence) = fence() {
        fence.run("", ProcessCounting::Cgroup, LIMIT + AROUND);
    }
}

#[test]
fn user_limit_stops_a_forking_program() {
    if let Some(fence) = fence() {
        fence.run(
            "setpriv --reuid 65534 --regid 65534 --clear-groups",
            ProcessCounting::UserLimit,
            2 * LIMIT + AROUND,
        );
    }
}

#[test]
fn watched_limit_must_be_enabled_and_stops_a_forking_program() {
    if let Some(fence) = fence() {
        let hidden = "unshare --mount sh -c 'umount --recursive /sys/fs/cgroup && exec \"$@\"' sh";
        fence.run(hidden, ProcessCounting::Watched, SAFE - 1);
    }
}
