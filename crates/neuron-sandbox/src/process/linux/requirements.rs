//! Checks the requirements for listing and killing the processes of a program.

use std::fs;

use neuron_types::SandboxError;

use super::setup_failed;

/// Bit of `SIGCHLD` in the signal masks of `/proc/self/status`.
const CHILD_SIGNAL: u64 = 1 << (libc::SIGCHLD - 1);

/// Returns an error if `/proc` may hide processes of a program. Some systems hide processes that this process may not
/// trace, and a program can make itself untraceable.
pub(super) fn check_processes_are_seen() -> Result<(), SandboxError> {
    let mounts = fs::read_to_string("/proc/self/mountinfo");
    let mounts = mounts.map_err(|error| setup_failed("/proc/self/mountinfo", error))?;
    // A user who is exempt from `hidepid` can read the status of process 1.
    match hides_processes(&mounts) && fs::read("/proc/1/stat").is_err() {
        true => Err(SandboxError::SetupFailed(
            "/proc hides processes from this user (its option `hidepid`), so that programs could not \
             be watched"
                .to_owned(),
        )),
        false => Ok(()),
    }
}

/// Returns an error if this process ignores `SIGCHLD`. The kernel would then discard ended children, and could reuse
/// their ids. The sandbox could kill the wrong process.
pub(super) fn check_ends_are_kept() -> Result<(), SandboxError> {
    let status = fs::read_to_string("/proc/self/status");
    let status = status.map_err(|error| setup_failed("/proc/self/status", error))?;
    match ignores_child_signal(&status) {
        true => Err(SandboxError::SetupFailed(
            "this process ignores SIGCHLD, so that it does not learn how programs end; set it to its \
             default"
                .to_owned(),
        )),
        false => Ok(()),
    }
}

/// Returns `true` if the visible mount of `/proc` has the option `hidepid`. `mounts` is the content of
/// `/proc/self/mountinfo`. If a directory has several mounts, the last one is visible.
fn hides_processes(mounts: &str) -> bool {
    let option = mounts.lines().rev().find_map(|line| {
        let (mount, file_system) = line.split_once(" - ")?;
        if mount.split(' ').nth(4) != Some("/proc") {
            return None;
        }
        let options = file_system.split(' ').nth(2).unwrap_or_default();
        Some(options.split(',').find_map(|option| option.strip_prefix("hidepid=")))
    });
    option.flatten().is_some_and(|option| !matches!(option, "0" | "off"))
}

/// Returns `true` if the content of `/proc/self/status` shows that `SIGCHLD` is ignored.
fn ignores_child_signal(status: &str) -> bool {
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let ignored = ignored.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    ignored.is_some_and(|mask| mask & CHILD_SIGNAL != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hidepid_is_read_from_the_visible_mount() {
        let shown = "45 43 0:21 / /proc rw,relatime - proc proc rw\n";
        let hidden = "63 45 0:39 / /proc rw,relatime shared:3 - proc proc rw,hidepid=invisible\n";
        let other = "64 45 0:40 / /srv/proc rw - proc proc rw,hidepid=2\n";
        let below = "65 45 0:41 / /proc/sys ro - proc proc rw\n";
        for (mounts, expected) in [
            (shown.to_owned(), false),
            (hidden.to_owned(), true),
            (format!("{shown}{hidden}{below}"), true),
            (format!("{hidden}{shown}"), false),
            (format!("{shown}{other}"), false),
            (hidden.replace("invisible", "2"), true),
            (hidden.replace("invisible", "0"), false),
            (hidden.replace("invisible", "off"), false),
            (String::new(), false),
        ] {
            assert_eq!(hides_processes(&mounts), expected, "{mounts}");
        }
    }

    #[test]
    fn ignored_child_signal_is_detected() {
        assert!(ignores_child_signal("SigBlk:\t0\nSigIgn:\t0000000000010000\nSigCgt:\t0\n"));
        assert!(!ignores_child_signal("SigIgn:\t0000000000021000\nSigCgt:\t0000000000010000\n"));
        assert!(!ignores_child_signal(""));
        check_ends_are_kept().unwrap();
    }
}
