//! Checks the links between the pages of the built book.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Component, Path, PathBuf};

/// Checks every link and picture of the HTML files in a folder.
///
/// # Errors
///
/// Returns an error with the links whose file or whose anchor does not exist. Links to other hosts are not followed.
pub(super) fn check(folder: &Path) -> Result<(), String> {
    let mut pages = BTreeMap::new();
    for path in files(folder, "html")? {
        let html = fs::read_to_string(&path);
        let html = html.map_err(|error| format!("{}: {error}", path.display()))?;
        pages.insert(path, html);
    }
    let ids: BTreeMap<&PathBuf, BTreeSet<&str>> =
        pages.iter().map(|(path, html)| (path, attributes(html, "id").collect())).collect();
    let (mut problems, mut links) = (Vec::new(), 0);
    for (path, html) in &pages {
        // All pages in one file, with links for the page that each part was. It is for printing.
        if path.ends_with("print.html") || path.ends_with("404.html") {
            continue;
        }
        for link in attributes(html, "href").chain(attributes(html, "src")) {
            if link.contains("://") || link.starts_with("mailto:") || link.starts_with("data:") {
                continue;
            }
            links += 1;
            let (file, anchor) = link.split_once('#').unwrap_or((link, ""));
            let file = file.split('?').next().unwrap_or_default();
            let target = if file.is_empty() {
                path.clone()
            } else {
                normal(&path.parent().unwrap_or(folder).join(file))
            };
            let anchor_exists = || ids.get(&target).is_none_or(|ids| ids.contains(anchor));
            if !target.exists() || !(anchor.is_empty() || anchor_exists()) {
                let page = path.strip_prefix(folder).unwrap_or(path).display();
                problems.push(format!("{page}: {link}"));
            }
        }
    }
    if problems.is_empty() && links > 1_000 {
        return Ok(());
    }
    Err(format!("{} of {links} links are broken:\n{}", problems.len(), problems.join("\n")))
}

/// Returns the paths of all files with an extension below a folder.
pub(super) fn files(folder: &Path, extension: &str) -> Result<Vec<PathBuf>, String> {
    let cannot = |error| format!("{}: {error}", folder.display());
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).map_err(cannot)? {
        let path = entry.map_err(cannot)?.path();
        if path.is_dir() {
            found.extend(files(&path, extension)?);
        } else if path.extension().is_some_and(|other| other == extension) {
            found.push(path);
        }
    }
    Ok(found)
}

/// Returns the values of an attribute in HTML.
fn attributes<'a>(html: &'a str, name: &str) -> impl Iterator<Item = &'a str> {
    let start = format!(" {name}=\"");
    let mut rest = html;
    std::iter::from_fn(move || {
        let (_, after) = rest.split_once(&start)?;
        let (value, after) = after.split_once('"')?;
        rest = after;
        Some(value)
    })
}

/// Removes `.` and `..` from a path.
fn normal(path: &Path) -> PathBuf {
    let mut normal = PathBuf::new();
    for part in path.components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir => {
                normal.pop();
            }
            part => normal.push(part),
        }
    }
    normal
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_are_found() {
        let html = r#"<a class="x" href="a.html#b">a</a><img src="c.svg"><a href="">"#;
        assert_eq!(attributes(html, "href").collect::<Vec<_>>(), ["a.html#b", ""]);
        assert_eq!(attributes(html, "src").collect::<Vec<_>>(), ["c.svg"]);
    }

    #[test]
    fn normal_removes_dots() {
        assert_eq!(normal(Path::new("/a/b/../c/./d")), Path::new("/a/c/d"));
    }
}
