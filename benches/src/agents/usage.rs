//! Reads the resources that this process has used from Linux's `/proc`. A system call such as `getrusage` would need
//! unsafe code.

use std::fs;
use std::io;
use std::time::Duration;

/// Number of ticks per second of the times in `/proc`. It is 100 on every architecture that Rust supports.
const TICKS: u64 = 100;

/// Returns the user and system CPU time of this process, with a resolution of 10 ms.
pub fn cpu_time() -> io::Result<Duration> {
    let stat = read("stat")?;
    // The second field is the program's name in brackets. It may itself contain spaces and brackets, so parsing starts
    // after the last bracket.
    let fields = stat.rsplit_once(')').map(|(_, rest)| rest.split_ascii_whitespace());
    let mut times = fields.into_iter().flatten().skip(11).map(str::parse::<u64>);
    match (times.next(), times.next()) {
        (Some(Ok(user)), Some(Ok(system))) => {
            Ok(Duration::from_millis((user + system) * 1000 / TICKS))
        }
        _ => Err(unexpected("stat")),
    }
}

/// Returns the peak resident memory of this process, in bytes.
pub fn peak_memory() -> io::Result<usize> {
    let status = read("status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kilobytes = line.and_then(|line| line.trim().strip_suffix("kB")?.trim().parse().ok());
    kilobytes.map(|number: usize| number * 1024).ok_or_else(|| unexpected("status"))
}

/// Returns the hard limit of open files, which is the maximum to which this process can raise its limit.
pub fn most_open_files() -> io::Result<usize> {
    let limits = read("limits")?;
    let line = limits.lines().find_map(|line| line.strip_prefix("Max open files"));
    let most = line.and_then(|line| line.split_ascii_whitespace().nth(1));
    match most {
        Some("unlimited") => Ok(usize::MAX),
        Some(most) => most.parse().map_err(|_| unexpected("limits")),
        None => Err(unexpected("limits")),
    }
}

fn read(name: &str) -> io::Result<String> {
    let path = format!("/proc/self/{name}");
    fs::read_to_string(&path).map_err(|error| {
        io::Error::new(error.kind(), format!("{path}: {error}; this benchmark needs Linux"))
    })
}

fn unexpected(name: &str) -> io::Error {
    io::Error::other(format!("/proc/self/{name} is not as expected"))
}
