//! Runs a test in a separate process. Used by tests that check the memory or the environment of the whole process.

use std::process::Command;
use std::time::Duration;

use tokio::runtime::Builder;

/// Environment variable with the name of the test that the child process runs.
const ALONE: &str = "HOSTILE_TEST_ALONE";

/// Time limit of each test. A test that takes longer is considered to hang.
pub(crate) const LIMIT: Duration = Duration::from_secs(120);

/// Runs `work` in a child process that runs no other test. Panics if `work` fails or takes longer than [`LIMIT`].
///
/// `test` is the full name of the calling test, such as `hostile::sizes::name`. `environment` contains additional
/// environment variables for the child process.
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

/// Returns the peak resident memory of this process, in MB. Returns `None` on systems without `/proc`.
pub(crate) fn peak_megabytes() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    Some(line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() / 1024)
}

/// Panics if the peak memory of this process is at least this many MB. Does nothing on systems without `/proc`.
#[track_caller]
pub(crate) fn assert_peak_below(megabytes: u64) {
    if let Some(peak) = peak_megabytes() {
        assert!(peak < megabytes, "{peak} MB were used");
    }
}
