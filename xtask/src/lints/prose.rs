//! Limits habits that make the summaries of the documentation slow to read.
//!
//! A summary is the first sentence of a doc comment. Each limit is a maximum share of the summaries in the sources of
//! all crates.

use super::assert_none;
use super::sources::files;

/// A habit that makes summaries slow to read, and its limit. A summary is the first sentence of a doc comment.
///
/// The fields are:
///
/// - a description of the habit
/// - the maximum share of summaries with the habit, in per cent of all summaries
/// - a function that returns `true` if a summary has the habit
type Habit = (&'static str, f64, fn(&Summary) -> bool);

const HABITS: [Habit; 4] = [
    ("opens with a clause, such as `What` or `Whether`: name the thing", 1.5, opens_with_clause),
    ("joins two thoughts by a colon or a semicolon: write two sentences", 6.0, joins),
    ("has more than 25 words", 2.0, is_long),
    ("says `one that`, `those of` or the like: name the thing", 1.0, names_nothing),
];

/// First words by which a summary counts as beginning with a clause, instead of a noun or a verb.
const CLAUSES: [&str; 13] = [
    "What", "Who", "How", "Whether", "Whose", "Where", "One", "That", "Those", "Such", "Nothing",
    "Nobody", "Which",
];

/// Phrases in which a pronoun replaces the name of a thing.
const BARE: [&str; 14] = [
    "one that",
    "ones that",
    "those that",
    "that of",
    "those of",
    "what is",
    "what was",
    "what it",
    "what they",
    "what a",
    "what the",
    "such a one",
    "of which one",
    "one of those",
];

#[test]
fn summaries_of_the_documentation_are_plain() {
    let is_source =
        |path: &str| path.starts_with("crates/") && path.contains("/src/") && path.ends_with(".rs");
    check(is_source, summaries_of, 5_000);
}

#[test]
fn paragraphs_of_the_book_are_plain() {
    let is_page = |path: &str| path.starts_with("book/pages/") && path.ends_with(".md");
    check(is_page, first_sentences_of, 500);
}

/// Panics if the files that `is_checked` selects exceed a limit, or if they have fewer than `least` sentences.
fn check(
    is_checked: impl Fn(&str) -> bool,
    sentences: fn(&str) -> Vec<(usize, String)>,
    least: usize,
) {
    let mut summaries = Vec::new();
    for (path, text) in files().filter(|(path, _)| is_checked(path)) {
        let found = sentences(&text).into_iter();
        summaries.extend(found.map(|(line, text)| (format!("{path}:{line}"), Summary::new(&text))));
    }
    assert!(summaries.len() > least, "only {} summaries were found", summaries.len());
    let mut problems = Vec::new();
    for (habit, most, has) in HABITS {
        let found: Vec<_> = summaries.iter().filter(|(_, summary)| has(summary)).collect();
        let share = 100.0 * found.len() as f64 / summaries.len() as f64;
        println!("{share:.1} % of the summaries: {habit}");
        if share > most {
            let places = found.iter().map(|(place, summary)| format!("{place}: {}", summary.text));
            let places = places.collect::<Vec<_>>().join("\n");
            problems.push(format!("{share:.1} %, and {most} % is the maximum: {habit}\n{places}"));
        }
    }
    assert_none(&problems);
}

/// A summary of a doc comment.
struct Summary {
    /// The summary as written.
    text: String,
    /// The summary with all code and links replaced by `x`.
    plain: String,
}

impl Summary {
    fn new(text: &str) -> Self {
        Self { text: text.to_owned(), plain: without_links(&without_code(text)) }
    }
}

fn opens_with_clause(summary: &Summary) -> bool {
    let first = summary.text.split(|char: char| !char.is_alphanumeric()).next();
    first.is_some_and(|word| CLAUSES.contains(&word))
}

fn joins(summary: &Summary) -> bool {
    summary.plain.contains(';') || summary.plain.replace("::", "").contains(':')
}

fn is_long(summary: &Summary) -> bool {
    summary.plain.split_whitespace().count() > 25
}

fn names_nothing(summary: &Summary) -> bool {
    let words = summary.plain.to_lowercase();
    let words: Vec<&str> = words.split(|char: char| !char.is_alphanumeric()).collect();
    let words = format!(" {} ", words.join(" "));
    BARE.iter().any(|bare| words.contains(&format!(" {bare} ")))
}

/// Returns the text with all code between backticks replaced by `x`.
fn without_code(text: &str) -> String {
    let parts = text.split('`').enumerate();
    parts.map(|(number, part)| if number % 2 == 0 { part } else { "x" }).collect()
}

/// Returns the text with all Markdown links replaced by `x`.
fn without_links(text: &str) -> String {
    let mut plain = String::new();
    let mut rest = text;
    while let Some((before, link)) = rest.split_once('[') {
        plain.push_str(before);
        plain.push('x');
        rest = link.split_once(']').map_or("", |(_, after)| after);
        if let Some(target) = rest.strip_prefix('(') {
            rest = target.split_once(')').map_or("", |(_, after)| after);
        }
    }
    plain + rest
}

/// Returns the first sentence of each doc comment in a source file, with the number of the comment's first line.
fn summaries_of(text: &str) -> Vec<(usize, String)> {
    let mut summaries = Vec::new();
    let mut block: Vec<&str> = Vec::new();
    let mut kind = "";
    let mut start = 0;
    // The additional empty line ends a block at the end of the file.
    for (number, line) in text.lines().chain([""]).enumerate() {
        let line = line.trim_start();
        let mark = ["///", "//!"].into_iter().find(|mark| line.starts_with(mark));
        let mark = mark.filter(|_| !line.starts_with("////"));
        if mark != Some(kind) {
            if let Some(summary) = summary(&block) {
                summaries.push((start, summary));
            }
            (block, kind, start) = (Vec::new(), mark.unwrap_or_default(), number + 1);
        }
        if let Some(content) = mark.and_then(|mark| line.strip_prefix(mark)) {
            block.push(content.strip_prefix(' ').unwrap_or(content));
        }
    }
    summaries
}

/// Returns the first sentence of each paragraph of a Markdown page, with the number of its line.
fn first_sentences_of(page: &str) -> Vec<(usize, String)> {
    let mut sentences = Vec::new();
    let mut block: Vec<&str> = Vec::new();
    let mut in_code = false;
    for (number, line) in page.lines().chain([""]).enumerate() {
        in_code ^= line.trim_start().starts_with("```");
        if !line.is_empty() && !in_code {
            block.push(line);
            continue;
        }
        if let Some(sentence) = summary(&block) {
            // A colon at the end introduces the code, the list or the table after the paragraph.
            let sentence = sentence.trim_end_matches(':').to_owned();
            sentences.push((number + 1 - block.len(), sentence));
        }
        block.clear();
    }
    sentences
}

/// Returns the first sentence of a doc comment or of a paragraph. Returns `None` if the text starts with code, a heading,
/// a table or a list.
fn summary(block: &[&str]) -> Option<String> {
    let ends = |line: &&&str| {
        let line = line.trim_start();
        line.is_empty() || ["```", "#", "|", "- ", "* "].iter().any(|mark| line.starts_with(mark))
    };
    let paragraph: Vec<&str> = block.iter().take_while(|line| !ends(line)).copied().collect();
    let paragraph = paragraph.join(" ");
    let end = paragraph.match_indices(['.', '!', '?']).find(|(place, _)| {
        let rest = paragraph.get(place + 1..).unwrap_or_default();
        let next = rest.trim_start();
        next.len() < rest.len()
            && next.starts_with(|char: char| char.is_ascii_uppercase() || "`[".contains(char))
    });
    let sentence = end.map_or(&*paragraph, |(place, _)| &paragraph[..=place]);
    (!sentence.is_empty()).then(|| sentence.to_owned())
}

#[test]
fn summaries_are_first_sentences() {
    let text = "\
//! A file. With more.
//!
//! And more.

/// Returns `true` if
/// it is so, e.g. here. More.
#[inline]
fn a() {}

//// No documentation.
/// ```
/// code
/// ```
/// - a list
fn b() {}
    /// Indented, and without an end
";
    let found = summaries_of(text);
    let found: Vec<_> = found.iter().map(|(line, text)| (*line, &**text)).collect();
    assert_eq!(
        found,
        [
            (1, "A file."),
            (5, "Returns `true` if it is so, e.g. here."),
            (16, "Indented, and without an end"),
        ]
    );
}

#[test]
fn habits_are_recognised() {
    let has = |habit: usize, text: &str| HABITS[habit].2(&Summary::new(text));
    for (habit, text) in [
        (0, "What it counts."),
        (0, "Whether it is held."),
        (1, "Reads a page: the first."),
        (1, "Reads a page; the first."),
        (2, &*"word ".repeat(26)),
        (3, "A lock, and those of others."),
        (3, "Says what is there."),
    ] {
        assert!(has(habit, text), "{text}");
    }
    for text in [
        "Returns the whole of `a: b; c`.",
        "Calls [`Agent::run`](a::b) once.",
        "Somewhat is whole.",
        "Ones are counted.",
    ] {
        assert!((0..4).all(|habit| !has(habit, text)), "{text}");
    }
}
