//! The nightly step `pages`, which opens the pages of the built book in Chromium.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use super::links;
use crate::{prerequisites, process};

/// Names of the program, on the distributions that have it.
const NAMES: [&str; 4] = ["chromium", "chromium-browser", "google-chrome", "chrome"];

/// Width of a small phone, in CSS pixels.
const PHONE: u32 = 360;

/// Widths at which each page is opened, in CSS pixels.
const WIDTHS: [u32; 2] = [PHONE, 1200];

/// Minimum size of the letters in a picture, in CSS pixels.
const LETTERS: u32 = 9;

/// Opens each page of the book in Chromium, without a window.
///
/// # Errors
///
/// Returns an error if a page is wider than its window, has no title, or writes to the console of the browser. On a
/// small phone, tables must also fit without scrolling, and each picture must be visible and readable.
pub(crate) fn check() -> Result<(), String> {
    let index = super::build()?;
    let book = index.parent().unwrap_or(Path::new("."));
    let Some(browser) = find() else {
        let reason = "no Chromium is installed: on Debian, `apt install chromium` installs it";
        return prerequisites::not_checked("the book in a browser", reason);
    };
    let pages = pages(book)?;
    let folder = book.parent().unwrap_or(book);
    let cannot = |error: std::io::Error| format!("{}: {error}", folder.display());
    let wrapper = folder.join("browser.html");
    fs::write(&wrapper, html(&pages)).map_err(cannot)?;
    // Chromium's own sandbox does not work for root, as in a container. It opens only our own files.
    let mut command = process::program(browser);
    command.args(["--headless", "--no-sandbox", "--disable-gpu", "--allow-file-access-from-files"]);
    command.args(["--enable-logging=stderr", "--virtual-time-budget=100000000", "--dump-dom"]);
    let mut profile = OsString::from("--user-data-dir=");
    profile.push(folder.join("browser"));
    command.arg(profile).arg(format!("file://{}", wrapper.display()));
    let output = command.output().map_err(|error| process::cannot_start(&command, &error))?;
    let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
    verdict(&text(&output.stdout), &text(&output.stderr), pages.len())?;
    println!("pages: {} pages opened in Chromium", pages.len());
    Ok(())
}

/// Returns an error with the problems in the output of the browser. `document` is the wrapper page after its script has
/// run, and `log` is the browser's log.
fn verdict(document: &str, log: &str, pages: usize) -> Result<(), String> {
    let result = document.split_once("<pre id=\"result\">").map_or("", |(_, rest)| rest);
    let result = result.split("</pre>").next().unwrap_or_default();
    let end = format!("checked {pages} pages");
    let mut problems: Vec<&str> = result.lines().filter(|line| *line != end).collect();
    problems.extend(log.lines().filter(|line| line.contains(":CONSOLE")));
    if !result.ends_with(&end) {
        problems.push("the browser did not open all pages");
    }
    if problems.is_empty() { Ok(()) } else { Err(problems.join("\n")) }
}

/// Returns the name of the installed browser, or `None` if there is none.
fn find() -> Option<&'static str> {
    NAMES.into_iter().find(|name| {
        let mut command = process::program(name);
        command.arg("--version");
        process::quietly(command).is_ok()
    })
}

/// Returns the pages that readers open, relative to the book's folder.
fn pages(book: &Path) -> Result<Vec<PathBuf>, String> {
    let mut pages: Vec<PathBuf> = links::files(book, "html")?
        .into_iter()
        .filter_map(|path| Some(path.strip_prefix(book).ok()?.to_owned()))
        // `toc.html` is the table of contents for readers without JavaScript, which other pages embed.
        .filter(|page| page != Path::new("toc.html") && page != Path::new("404.html"))
        .collect();
    pages.sort();
    Ok(pages)
}

/// Returns a page that opens each page of the book in a frame, and writes the problems into itself.
fn html(pages: &[PathBuf]) -> String {
    let names: Vec<String> = pages.iter().map(|page| page.display().to_string()).collect();
    let names = serde_json::json!(names);
    format!(
        r#"<pre id="result"></pre>
<script>
const problems = [];
function onPhone(page) {{
  const wide = [...page.querySelectorAll("main table")].filter((table) => {{
    const box = table.parentElement;
    return table.scrollWidth > table.clientWidth || box.scrollWidth > box.clientWidth;
  }});
  const found = wide.map((table) => `has a wide table: ${{table.rows[0].textContent.trim().replace(/\s+/g, " ")}}`);
  const pictures = [...page.querySelectorAll("main svg[viewBox][role=img]")];
  const shown = pictures.filter((picture) => picture.getBoundingClientRect().width > 0);
  if (2 * shown.length !== pictures.length) found.push("does not have each picture in two forms");
  for (const picture of shown) {{
    const scale = picture.getBoundingClientRect().width / picture.viewBox.baseVal.width;
    const letters = scale * picture.getAttribute("font-size");
    if (letters < {LETTERS}) found.push(`has letters of ${{letters.toFixed(1)}} pixels: ${{picture.ariaLabel}}`);
  }}
  return found;
}}
async function check(page, width) {{
  const frame = document.createElement("iframe");
  frame.style = `width: ${{width}}px; height: 800px`;
  const loaded = new Promise((resolve) => {{ frame.onload = resolve; }});
  frame.src = "html/" + page;
  document.body.append(frame);
  await loaded;
  const root = frame.contentDocument.documentElement;
  if (root.scrollWidth > width) problems.push(`${{page}} needs ${{root.scrollWidth}} of ${{width}} pixels`);
  if (!frame.contentDocument.querySelector("main h1")) problems.push(`${{page}} has no title`);
  if (width === {PHONE}) for (const problem of onPhone(frame.contentDocument)) problems.push(`${{page}} ${{problem}}`);
  frame.remove();
}}
(async () => {{
  const pages = {names};
  for (const page of pages) for (const width of {WIDTHS:?}) await check(page, width);
  problems.push(`checked ${{pages.length}} pages`);
  document.getElementById("result").textContent = problems.join("\n");
}})();
</script>
"#
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn problems_of_pages_and_of_the_console_are_reported() {
        let page = |text: &str| format!("<html><pre id=\"result\">{text}</pre><script>");
        assert_eq!(verdict(&page("checked 2 pages"), "[1:2:ERROR:dbus] no bus", 2), Ok(()));
        let wide = verdict(&page("a.html needs 700 of 360 pixels\nchecked 2 pages"), "", 2);
        assert_eq!(wide.unwrap_err(), "a.html needs 700 of 360 pixels");
        let log = "[1:2:INFO:CONSOLE:1] \"boom\"";
        assert_eq!(verdict(&page("checked 2 pages"), log, 2).unwrap_err(), log);
        for unfinished in ["", "<html>", &page(""), &page("checked 1 pages")] {
            assert!(verdict(unfinished, "", 2).is_err(), "{unfinished}");
        }
    }
}
