//! Checks the free space of the file systems to which programs may write ([`Disks`]).

use std::os::fd::OwnedFd;
use std::path::PathBuf;

use neuron_types::SandboxError;
use rustix::fs::{Mode, OFlags, StatVfs};

use super::{Settings, setup_failed};

/// Maximum of the default reserve in bytes. The reserve is the space that must stay free on a file system.
const LARGEST_RESERVE: u64 = 256 << 20;

/// Open paths on the file systems to which programs may write.
pub(super) struct Disks(Vec<OwnedFd>);

impl Disks {
    /// Opens all paths to which programs may write.
    pub(super) fn new(settings: &Settings) -> Result<Self, SandboxError> {
        let open = |path: &PathBuf| {
            rustix::fs::open(path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())
                .map_err(|error| setup_failed(path.display(), error))
        };
        settings.write.iter().map(open).collect::<Result<_, _>>().map(Self)
    }

    /// Returns the reserve in bytes of a file system that has less free space than its reserve. Returns `None` if there
    /// is no such file system. `reserve` is the configured reserve, or `None` for the default.
    pub(super) fn short_of(&self, reserve: Option<u64>) -> Option<u64> {
        // A file system that returns an error, for example of a server that is gone, cannot be written either. It is
        // skipped.
        self.0.iter().filter_map(|disk| rustix::fs::fstatvfs(disk).ok()).find_map(|disk| {
            let reserve = reserve.unwrap_or_else(|| default_reserve(&disk));
            (bytes(&disk, disk.f_bavail) < reserve).then_some(reserve)
        })
    }
}

/// Returns the default reserve of a file system in bytes. It is 5 % of the size, and at most [`LARGEST_RESERVE`].
fn default_reserve(disk: &StatVfs) -> u64 {
    (bytes(disk, disk.f_blocks) / 20).min(LARGEST_RESERVE)
}

fn bytes(disk: &StatVfs, blocks: u64) -> u64 {
    disk.f_frsize.saturating_mul(blocks)
}
