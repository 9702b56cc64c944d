//! The error of an invalid image or document.

use std::io;
use std::path::{Path, PathBuf};

/// The error of an image or a document that cannot be used. Returned by [`ImageSource`](crate::ImageSource) and
/// [`DocumentSource`](crate::DocumentSource).
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MediaError {
    /// The file cannot be read. It is missing, is a directory, or access is denied.
    #[error("cannot read {}: {source}", path.display())]
    Read {
        /// The path as passed by the caller.
        path: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
    /// The content is empty.
    #[error("{}the content is empty", prefix(path))]
    Empty {
        /// The path, if the content is from a file.
        path: Option<PathBuf>,
    },
    /// The type of the content is not accepted.
    #[error("{}{}: accepted are {}", prefix(path), reason(*found), accepted.join(", "))]
    Type {
        /// The path, if the content is from a file.
        path: Option<PathBuf>,
        /// The MIME type of the content, if known.
        found: Option<&'static str>,
        /// The accepted MIME types.
        accepted: &'static [&'static str],
    },
}

impl MediaError {
    /// Adds the path of the file.
    pub(crate) fn at(self, file: &Path) -> Self {
        let path = Some(file.to_owned());
        match self {
            Self::Empty { .. } => Self::Empty { path },
            Self::Type { found, accepted, .. } => Self::Type { path, found, accepted },
            read @ Self::Read { .. } => read,
        }
    }
}

fn prefix(path: &Option<PathBuf>) -> String {
    path.as_ref().map(|path| format!("{}: ", path.display())).unwrap_or_default()
}

fn reason(found: Option<&str>) -> String {
    found.map_or_else(
        || "the type of the content is unknown".to_owned(),
        |found| format!("{found} is not accepted"),
    )
}
