//! The book: builds it with mdBook, checks its links, and writes its text for programs.

pub(crate) mod browser;
mod charts;
mod links;

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

pub(crate) use charts::rewrite_charts;

use crate::{prerequisites, process, tools, workspace};

/// Builds the book in `target/book`. Returns the path of its first page.
///
/// The static files to deploy are in `target/book/html`. They include `llms.txt`, a list of the pages, and `book.md`,
/// the text of the whole book.
///
/// # Errors
///
/// Returns an error if mdBook prints a warning, for example about a missing file, or if a link is broken.
pub(crate) fn build() -> Result<PathBuf, String> {
    let folder = workspace::members()?.target_directory.join("book");
    let first = folder.join("html/index.html");
    let mut command = process::program("mdbook");
    command.args(["build", "book", "--dest-dir"]).arg(&folder);
    if let Err(reason) = tools::MDBOOK.add_to(&mut command) {
        prerequisites::not_checked("the book", &reason)?;
        return Ok(first);
    }
    let output = command.output().map_err(|error| process::cannot_start(&command, &error))?;
    let log = String::from_utf8_lossy(&output.stderr).into_owned();
    let problems: Vec<&str> =
        log.lines().filter(|line| line.contains("WARN") || line.contains("ERROR")).collect();
    if !output.status.success() || !problems.is_empty() {
        return Err(format!("mdBook reports problems:\n{log}"));
    }
    for (renderer, extension) in [("html", "html"), ("html", "js"), ("markdown", "md")] {
        clean(&folder.join(renderer), extension)?;
    }
    links::check(&folder.join("html"))?;
    let pages = pages(&folder.join("markdown"))?;
    let write = |name: &str, text: String| {
        let path = folder.join("html").join(name);
        fs::write(&path, text).map_err(|error| format!("{}: {error}", path.display()))
    };
    write("llms.txt", list(&pages))?;
    write("book.md", pages.iter().map(|page| format!("{}\n\n", page.text.trim())).collect())?;
    Ok(first)
}

/// Removes the parts of a program that a page does not show. mdBook removes the comments that mark its parts only from
/// included parts, and not from whole programs. The function `main` is public because each program is a module.
fn clean(folder: &Path, extension: &str) -> Result<(), String> {
    for path in links::files(folder, extension)? {
        let cannot = |error| format!("{}: {error}", path.display());
        let text = fs::read_to_string(&path).map_err(cannot)?;
        let cleaned = with_private_main(&without_anchors(&text));
        if cleaned != text {
            fs::write(&path, cleaned).map_err(cannot)?;
        }
    }
    Ok(())
}

/// Returns a text without the comments `// ANCHOR: name` and `// ANCHOR_END: name`, and without the lines that have
/// nothing else. In the search index, a line break is a space or `\\n`.
fn without_anchors(text: &str) -> String {
    let mut without = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, marker)) = rest.split_once("// ANCHOR") {
        let name = marker.trim_start_matches("_END").trim_start_matches(": ");
        let after = name.trim_start_matches(|c: char| c.is_alphanumeric() || c == '_');
        let kept = before.trim_end_matches(' ');
        without.push_str(kept);
        rest = match kept.ends_with('\n') {
            true => after.strip_prefix('\n').unwrap_or(after),
            false => after,
        };
    }
    without + rest
}

fn with_private_main(text: &str) -> String {
    text.replace("pub async fn main()", "async fn main()").replace("pub fn main()", "fn main()")
}

/// A page of the book, with the files that it includes.
struct Page {
    title: String,
    /// The address of the page, relative to the book's.
    address: String,
    text: String,
}

/// Reads the pages that mdBook wrote as Markdown, in the order of the table of contents.
fn pages(folder: &Path) -> Result<Vec<Page>, String> {
    let contents = process::root().join("book/pages/SUMMARY.md");
    let contents = fs::read_to_string(contents).map_err(|error| format!("SUMMARY.md: {error}"))?;
    let mut pages = Vec::new();
    for line in contents.lines() {
        let Some((title, file)) = line
            .trim_start_matches("- ")
            .strip_prefix('[')
            .and_then(|link| link.strip_suffix(')')?.split_once("]("))
        else {
            continue;
        };
        let text =
            fs::read_to_string(folder.join(file)).map_err(|error| format!("{file}: {error}"))?;
        let text = without_narrow_pictures(&text);
        let address = file.replace(".md", ".html");
        pages.push(Page { title: title.to_owned(), address, text });
    }
    Ok(pages)
}

/// Returns a page without the forms of its pictures for narrow windows, which show the same again.
fn without_narrow_pictures(text: &str) -> String {
    let mut parts = text.split("<svg class=\"narrow\"");
    let before = parts.next().unwrap_or_default().to_owned();
    parts.fold(before, |page, part| {
        page + part.split_once("</svg>\n").map_or("", |(_, after)| after)
    })
}

/// Returns the text of `llms.txt`: each page with its first sentence. <https://llmstxt.org> describes the format.
fn list(pages: &[Page]) -> String {
    let mut text = "# neuron\n\n> Rust crates for AI agents: providers, tools, the agent loop, sessions, durable runs, MCP, telemetry.\n\n[The whole book in one file](book.md)\n\n## Pages\n\n".to_owned();
    for Page { title, address, text: page } in pages {
        let mut paragraphs = page.split("\n\n").map(str::trim);
        let first = paragraphs
            .find(|part| part.starts_with(|first: char| first.is_alphanumeric() || first == '`'));
        let paragraph = first.unwrap_or_default().replace('\n', " ");
        let sentence = paragraph.split_inclusive(". ").next().unwrap_or_default().trim();
        let _ = writeln!(text, "- [{title}]({address}): {sentence}");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn anchors_are_removed_from_programs_and_from_the_search_index() {
        let program = "use a;\n// ANCHOR: main\nfn main() {\n    // ANCHOR_END: main\n}\n";
        assert_eq!(without_anchors(program), "use a;\nfn main() {\n}\n");
        let index = r"Ok(())\n}\n// ANCHOR_END: client // ANCHOR: server\n/// Serves";
        assert_eq!(without_anchors(index), r"Ok(())\n}\n\n/// Serves");
        assert_eq!(without_anchors("// a comment\n"), "// a comment\n");
    }

    #[test]
    fn each_picture_is_once_in_the_text_for_programs() {
        let picture =
            |class: &str| format!("<svg class=\"{class}\" width=\"100%\">\n<rect/>\n</svg>\n");
        let page = format!("# A page\n\n{}\n{}\nText\n", picture("wide"), picture("narrow"));
        let expected = format!("# A page\n\n{}\n\nText\n", picture("wide"));
        assert_eq!(without_narrow_pictures(&page), expected);
        assert_eq!(without_narrow_pictures("no picture"), "no picture");
    }

    #[test]
    fn main_is_private_in_the_book() {
        let program = "pub async fn main() -> Result\npub fn main() {\npub fn other() {";
        let shown = "async fn main() -> Result\nfn main() {\npub fn other() {";
        assert_eq!(with_private_main(program), shown);
    }
}
