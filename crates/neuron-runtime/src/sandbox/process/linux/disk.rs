//! The free space on the disks to which programs may write ([`Disks`]).

use std::os::fd::OwnedFd;
use std::path::PathBuf;

use neuron_types::SandboxError;
use rustix::fs::{Mode, OFlags, StatVfs};

use super::{Settings, setup_failed};

/// The largest reserve by default, in bytes.
const LARGEST_RESERVE: u64 = 256 << 20;

/// The file systems on which programs may write, each by an open path.
pub(super) struct Disks(Vec<OwnedFd>);

impl Disks {
    /// Opens the paths.
    pub(super) fn new(settings: &Settings) -> Result<Self, SandboxError> {
        let open = |path: &PathBuf| {
            rustix::fs::open(path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())
                .map_err(|error| setup_failed(path.display(), error))
        };
        settings.write.iter().map(open).collect::<Result<_, _>>().map(Self)
    }

    /// Returns the reserve of a file system that has less free space than that.
    pub(super) fn short_of(&self, reserve: Option<u64>) -> Option<u64> {
        // A file system that cannot be asked, of a server that is gone for instance, cannot be written either.
        self.0.iter().filter_map(|disk| rustix::fs::fstatvfs(disk).ok()).find_map(|disk| {
            let reserve = reserve.unwrap_or_else(|| default_reserve(&disk));
            (bytes(&disk, disk.f_bavail) < reserve).then_some(reserve)
        })
    }
}

fn default_reserve(disk: &StatVfs) -> u64 {
    (bytes(disk, disk.f_blocks) / 20).min(LARGEST_RESERVE)
}

fn bytes(disk: &StatVfs, blocks: u64) -> u64 {
    disk.f_frsize.saturating_mul(blocks)
}
