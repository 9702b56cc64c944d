//! Patterns of paths. Paths are compared by their text, and a path that is not plain is unclear, so that none slips
//! through.

use neuron_types::PermissionRuleError;

use super::finding::Finding;
use super::glob::Glob;

/// A pattern of paths, with `*` within a name and `**` for any number of names.
#[derive(Debug, Clone)]
pub(super) struct PathPattern {
    start: Start,
    parts: Vec<Part>,
}

/// The start of a pattern.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Start {
    Root,
    /// The directory of relative paths.
    Directory,
    /// It begins with `**`.
    Anywhere,
}

#[derive(Debug, Clone, PartialEq)]
enum Part {
    Name(Glob),
    /// Any number of names, also none.
    Any,
}

impl PathPattern {
    /// Reads a pattern.
    ///
    /// # Errors
    ///
    /// What is wrong with it.
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

    /// Compares a path with the pattern.
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
                    // The names before it may be those that the first parts want.
                    _ => unknown_if((0..=self.parts.len()).any(|first| {
                        let rest = self.parts.get(first..).unwrap_or_default();
                        compare(rest, &path.names) != Finding::No
                    })),
                }
            }
            (Start::Directory, true, None) => {
                // The first names may be those of the directory.
                let parts = [&[Part::Any], &self.parts[..]].concat();
                unknown_if(compare(&parts, &path.names) != Finding::No)
            }
        }
    }
}

/// Compares the parts with all of the names. The result is unclear if only upper and lower case differ.
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

/// Returns `true` if the parts match all of the names.
fn all_match(parts: &[Part], names: &[&str]) -> bool {
    // `reached[n]`: the parts so far match the first n names.
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

/// The directory of relative paths.
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

/// A path that means the same whoever reads it.
struct Path<'a> {
    is_absolute: bool,
    names: Vec<&'a str>,
}

impl<'a> Path<'a> {
    /// Reads a path.
    ///
    /// # Errors
    ///
    /// What keeps it from being told where the path leads.
    fn new(text: &'a str) -> Result<Self, String> {
        let names: Vec<&str> =
            text.split('/').filter(|name| !name.is_empty() && *name != ".").collect();
        let why = match names.first() {
            _ if text.is_empty() => "is empty",
            _ if text.contains(char::is_control) => "has a control character",
            // What separates names on Windows.
            _ if text.contains('\\') => "has a backslash",
            _ if text.starts_with("//") => "begins with two slashes",
            _ if names.contains(&"..") => "goes up by `..`",
            Some(first) if first.starts_with('~') => "begins with `~`",
            // A drive, or the scheme of a URL.
            Some(first) if first.contains(':') => "begins with a drive or a scheme",
            // Windows leaves these out.
            _ if names.iter().any(|name| name.ends_with(['.', ' '])) => {
                "has a name that ends with a dot or a space"
            }
            // `.env::$DATA` is `.env` there, and `SECRET~1.TXT` may be `secrets.txt`.
            _ if names.iter().any(|name| name.contains(":$") || is_short_name(name)) => {
                "has a name that may stand for another on Windows"
            }
            _ => return Ok(Self { is_absolute: text.starts_with('/'), names }),
        };
        Err(why.to_owned())
    }
}

/// Returns `true` if a name looks like a short form (8.3) of a longer name on Windows.
fn is_short_name(name: &str) -> bool {
    let mut tails = name.split('~').skip(1);
    tails.any(|tail| tail.starts_with(|first: char| first.is_ascii_digit()))
}
