//! Creates files and directories that only their owner can read, because sessions may contain secrets.
//!
//! In a directory that a group shares, which has the setgid bit and is writable for the group, the group can read and
//! write them too. Existing files and directories keep their permissions. On other systems than Unix, new ones have the
//! permissions of their directory.

use std::fs::{DirBuilder, OpenOptions};
use std::io;
use std::path::Path;

/// Returns options that open the file `path` for writing. If the options create the file, it is private.
pub(super) fn writing(path: &Path) -> OpenOptions {
    let mut options = OpenOptions::new();
    options.write(true);
    #[cfg(unix)]
    {
        let mode = if is_shared(path) { 0o660 } else { 0o600 };
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, mode);
    }
    #[cfg(not(unix))]
    let _ = path;
    options
}

/// Creates a directory and all missing directories above it.
pub(super) fn create_directory(path: &Path) -> io::Result<()> {
    let mut builder = DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    {
        let mode = if is_shared(path) { 0o770 } else { 0o700 };
        std::os::unix::fs::DirBuilderExt::mode(&mut builder, mode);
    }
    builder.create(path)
}

/// Returns `true` if a group shares the directory of `path`.
#[cfg(unix)]
fn is_shared(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    const SHARED: u32 = 0o2020;
    let folder = path.parent().and_then(|folder| folder.metadata().ok());
    folder.is_some_and(|folder| folder.permissions().mode() & SHARED == SHARED)
}
