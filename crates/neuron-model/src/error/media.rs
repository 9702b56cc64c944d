//! The error of an invalid image or document.

use std::io;
use std::path::{Path, PathBuf};

/// The error of an image or a document that cannot be used. Returned by the constructors of
/// [`ImageSource`](crate::ImageSource) and [`DocumentSource`](crate::DocumentSource).
///
/// # Causes and fixes
///
#[doc = include_str!("../../errors/media_error.md")]
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MediaError {
    /// The file cannot be read, for example because it is missing, is a directory, or access is denied.
    #[error("cannot read {}: {source}", path.display())]
    Read {
        /// The path of the file, as passed by the caller.
        path: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
    /// The content is empty.
    #[error("{}the content is empty", prefix(path))]
    Empty {
        /// The path of the file. `None` if the content is not from a file.
        path: Option<PathBuf>,
    },
    /// The MIME type of the content is not accepted.
    #[error("{}{}: accepted are {}", prefix(path), reason(*found), accepted.join(", "))]
    Type {
        /// The path of the file. `None` if the content is not from a file.
        path: Option<PathBuf>,
        /// The MIME type of the content. `None` if it was not recognised.
        found: Option<&'static str>,
        /// The accepted MIME types.
        accepted: &'static [&'static str],
    },
}

impl MediaError {
    /// Sets the path of the file whose content caused the error.
    pub(crate) fn at(self, file: &Path) -> Self {
        let path = Some(file.to_owned());
        match self {
            Self::Empty { .. } => Self::Empty { path },
            Self::Type { found, accepted, .. } => Self::Type { path, found, accepted },
            read @ Self::Read { .. } => read,
        }
    }
}

/// Formats the path as the start of an error text. Returns an empty text without a path.
fn prefix(path: &Option<PathBuf>) -> String {
    path.as_ref().map(|path| format!("{}: ", path.display())).unwrap_or_default()
}

fn reason(found: Option<&str>) -> String {
    found.map_or_else(
        || "the type of the content is unknown".to_owned(),
        |found| format!("{found} is not accepted"),
    )
}
