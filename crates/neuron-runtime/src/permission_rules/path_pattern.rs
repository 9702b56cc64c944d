//! Patterns for paths. Paths are compared as text. The match is undecidable for an unusual path, such as a path with
//! `..`. Otherwise another spelling of a denied path could pass a deny rule.

use neuron_types::PermissionRuleError;

use super::finding::Finding;
use super::glob::Glob;

/// A pattern for paths. `*` matches any characters within a name, and `**` matches any number of names.
#[derive(Debug, Clone)]
pub(super) struct PathPattern {
    start: Start,
    parts: Vec<Part>,
}

/// The place in a path at which a pattern starts to match.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Start {
    /// The root of the file system, because the pattern starts with a slash.
    Root,
    /// The directory to which relative paths refer.
    Directory,
    /// Any directory of the path, because the pattern starts with `**`.
    Anywhere,
}

#[derive(Debug, Clone, PartialEq)]
enum Part {
    Name(Glob),
    /// Any number of names, including none.
    Any,
}

impl PathPattern {
    /// Parses a pattern.
    ///
    /// # Errors
    ///
    /// Returns a description of the fault in the pattern.
    pub(super) fn new(pattern: &str) -> Result<Self, String> {
        let path = Path::new(pattern).map_err(|why| format!("it {why}"))?;
        let part = |name: &str| match name {
            "**" => Ok(Part::Any),
            name if name.contains("**") => {
                Err(format!("`**` stands for whole names, and `{name}` has it within one"))
            }
            name => Ok(Part::Name(Glob::new(name))),
        };
        let parts = path.names.iter().map(|name| part(name)).collect::<Result<Vec<_>, _>>()?;
        let start = match (path.is_absolute, parts.first()) {
            (true, _) => Start::Root,
            (false, Some(Part::Any)) => Start::Anywhere,
            (false, Some(Part::Name(_))) => Start::Directory,
            (false, None) => return Err("it names no path".into()),
        };
        Ok(Self { start, parts })
    }

    /// Compares a path with the pattern. `directory` is the directory to which relative paths refer, if it is known.
    pub(super) fn matches(&self, path: &str, directory: Option<&Directory>) -> Finding {
        let path = match Path::new(path) {
            Ok(path) => path,
            Err(why) => return Finding::Unknown(format!("the path {why}")),
        };
        let unknown_if = |may_match: bool| match may_match {
            true => Finding::unknown("it is not known where relative paths start"),
            false => Finding::No,
        };
        match (self.start, path.is_absolute, directory) {
            (Start::Root | Start::Anywhere, true, _) | (Start::Directory, false, _) => {
                compare(&self.parts, &path.names)
            }
            (Start::Root | Start::Anywhere, false, Some(directory)) => {
                let names = directory.names.iter().map(String::as_str).chain(path.names);
                compare(&self.parts, &names.collect::<Vec<_>>())
            }
            (Start::Directory, true, Some(directory)) => {
                let parts = directory.names.iter().map(|name| Part::Name(Glob::of(name)));
                compare(&parts.chain(self.parts.iter().cloned()).collect::<Vec<_>>(), &path.names)
            }
            (Start::Root | Start::Anywhere, false, None) => {
                let is_anywhere = self.start == Start::Anywhere;
                match compare(&self.parts, &path.names) {
                    finding @ Finding::Yes if is_anywhere => finding,
                    // The unknown directory may match the first parts of the pattern, so every split of the pattern is
                    // tried.
                    _ => unknown_if((0..=self.parts.len()).any(|first| {
                        let rest = self.parts.get(first..).unwrap_or_default();
                        compare(rest, &path.names) != Finding::No
                    })),
                }
            }
            (Start::Directory, true, None) => {
                // The first names of the path may be the unknown directory.
                let parts = [&[Part::Any], &self.parts[..]].concat();
                unknown_if(compare(&parts, &path.names) != Finding::No)
            }
        }
    }
}

/// Compares a pattern with a whole path. Returns `Unknown` if they differ only in upper and lower case.
fn compare(parts: &[Part], names: &[&str]) -> Finding {
    if all_match(parts, names) {
        return Finding::Yes;
    }
    let names: Vec<String> = names.iter().map(|name| name.to_lowercase()).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let parts: Vec<Part> = parts.iter().map(Part::to_lowercase).collect();
    match all_match(&parts, &names) {
        true => Finding::unknown("the path differs only in capital letters"),
        false => Finding::No,
    }
}

impl Part {
    fn to_lowercase(&self) -> Self {
        match self {
            Self::Name(glob) => Self::Name(glob.to_lowercase()),
            Self::Any => Self::Any,
        }
    }
}

/// Returns `true` if the parts of a pattern match all names of a path.
fn all_match(parts: &[Part], names: &[&str]) -> bool {
    // `reached[n]` is true if the parts so far match the first n names.
    let mut reached = vec![false; names.len() + 1];
    if let Some(start) = reached.first_mut() {
        *start = true;
    }
    for part in parts {
        let mut before = false;
        reached = match part {
            Part::Any => reached
                .iter()
                .map(|is_reached| {
                    before |= is_reached;
                    before
                })
                .collect(),
            Part::Name(glob) => std::iter::once(false)
                .chain(
                    reached
                        .iter()
                        .zip(names)
                        .map(|(is_reached, name)| *is_reached && glob.matches(name)),
                )
                .collect(),
        };
    }
    reached.last() == Some(&true)
}

/// The absolute directory to which relative paths refer.
#[derive(Debug, Clone)]
pub(super) struct Directory {
    text: String,
    names: Vec<String>,
}

impl Directory {
    pub(super) fn new(text: String) -> Result<Self, PermissionRuleError> {
        let invalid = |reason: &str| PermissionRuleError::InvalidDirectory {
            directory: text.clone(),
            reason: reason.to_owned(),
        };
        let path = Path::new(&text).map_err(|reason| invalid(&reason))?;
        if !path.is_absolute {
            return Err(invalid("is not absolute"));
        }
        let names = path.names.into_iter().map(str::to_owned).collect();
        Ok(Self { text, names })
    }

    pub(super) fn into_text(self) -> String {
        self.text
    }
}

/// A plain path, which names the same file on every operating system.
struct Path<'a> {
    is_absolute: bool,
    names: Vec<&'a str>,
}

impl<'a> Path<'a> {
    /// Splits a path into its names. Rejects paths that are not plain, such as a path with `..`.
    ///
    /// # Errors
    ///
    /// Returns the reason why the path is not plain, as a phrase such as "is empty".
    fn new(text: &'a str) -> Result<Self, String> {
        let names: Vec<&str> =
            text.split('/').filter(|name| !name.is_empty() && *name != ".").collect();
        let why = match names.first() {
            _ if text.is_empty() => "is empty",
            _ if text.contains(char::is_control) => "has a control character",
            // The separator on Windows.
            _ if text.contains('\\') => "has a backslash",
            _ if text.starts_with("//") => "begins with two slashes",
            _ if names.contains(&"..") => "goes up by `..`",
            Some(first) if first.starts_with('~') => "begins with `~`",
            // `C:` is a drive, and `file:` is a URL scheme.
            Some(first) if first.contains(':') => "begins with a drive or a scheme",
            // Windows ignores dots and spaces at the end of a name.
            _ if names.iter().any(|name| name.ends_with(['.', ' '])) => {
                "has a name that ends with a dot or a space"
            }
            // On Windows `.env::$DATA` is the content of `.env`, and `SECRET~1.TXT` may be the short name of
            // `secrets.txt`.
            _ if names.iter().any(|name| name.contains(":$") || is_short_name(name)) => {
                "has a name that may stand for another on Windows"
            }
            _ => return Ok(Self { is_absolute: text.starts_with('/'), names }),
        };
        Err(why.to_owned())
    }
}

/// Returns `true` if a name may be the short form (8.3) of a longer name on Windows, such as `SECRET~1.TXT`.
fn is_short_name(name: &str) -> bool {
    let mut tails = name.split('~').skip(1);
    tails.any(|tail| tail.starts_with(|first: char| first.is_ascii_digit()))
}
