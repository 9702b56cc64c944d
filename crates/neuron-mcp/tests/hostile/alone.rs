//! A test in a process of its own: for what is about the whole process, its memory and its environment.

use std::process::Command;
use std::time::Duration;

use tokio::runtime::Builder;

/// Says to a process which test it runs.
const ALONE: &str = "HOSTILE_TEST_ALONE";

/// No test takes longer, or something hangs.
pub(crate) const LIMIT: Duration = Duration::from_secs(120);

/// Runs `work` in a process that does nothing else. `test` is the test's full name, `environment` what is added
/// to that of the process.
pub(crate) fn alone(test: &str, environment: &[(&str, &str)], work: impl Future<Output = ()>) {
    if std::env::var(ALONE).is_ok_and(|name| name == test) {
        let runtime = Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        return runtime
            .block_on(async { tokio::time::timeout(LIMIT, work).await.expect("it hangs") });
    }
    let output = Command::new(std::env::current_exe().unwrap())
        .args([test, "--exact", "--nocapture"])
        .env(ALONE, test)
        .envs(environment.iter().copied())
        .output()
        .unwrap();
    let (stdout, stderr) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{stdout}\n{stderr}");
    assert!(stdout.contains("1 passed"), "no test has the name {test}: {stdout}");
}

/// The most memory that this process had, in megabytes; `None` where the system does not tell.
pub(crate) fn peak_megabytes() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    Some(line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() / 1024)
}

/// Fails if this process ever had more memory.
#[track_caller]
pub(crate) fn assert_peak_below(megabytes: u64) {
    if let Some(peak) = peak_megabytes() {
        assert!(peak < megabytes, "{peak} MB were used");
    }
}
