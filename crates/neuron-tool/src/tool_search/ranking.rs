//! The order of the tools that match a query. The rules are documented at [`ToolSearch`](super::ToolSearch).

use std::cmp::Reverse;
use std::sync::Arc;

use neuron_types::ToolDefinition;

/// Maximum number of different words of a query.
const MAX_WORDS: usize = 32;

/// Minimum number of characters of a word that matches the start of another word.
const MIN_START: usize = 3;

/// Returns the matching tools, the best first.
pub(super) fn rank<'d>(query: &str, tools: &'d [Arc<ToolDefinition>]) -> Vec<&'d ToolDefinition> {
    let mut asked: Vec<String> = Vec::new();
    for word in words(query) {
        if asked.len() < MAX_WORDS && !asked.contains(&word) {
            asked.push(word);
        }
    }
    let points: Vec<Vec<u32>> = tools.iter().map(|tool| points_of(tool, &asked)).collect();
    let weights: Vec<u32> = (0..asked.len())
        .map(|index| {
            let matches = |points: &&Vec<u32>| points.get(index).is_some_and(|points| *points > 0);
            weight(tools.len(), points.iter().filter(matches).count())
        })
        .collect();
    let mut hits: Vec<(bool, u32, &ToolDefinition)> = tools
        .iter()
        .zip(&points)
        .map(|(tool, points)| {
            let sum = points.iter().zip(&weights).map(|(points, weight)| points * weight).sum();
            (is_named(query, &tool.name), sum, &**tool)
        })
        .filter(|(is_named, sum, _)| *is_named || *sum > 0)
        .collect();
    // The sort is stable, so equal tools keep their order.
    hits.sort_by_key(|(is_named, sum, _)| Reverse((*is_named, *sum)));
    hits.into_iter().map(|(_, _, tool)| tool).collect()
}

/// Returns `true` if the query contains the whole name of a tool.
fn is_named(query: &str, name: &str) -> bool {
    let is_outside = |char: char| !char.is_alphanumeric() && char != '_' && char != '-';
    query.split(is_outside).any(|term| term == name) || query.trim() == name
}

/// Returns the points that each word earns with a tool.
fn points_of(tool: &ToolDefinition, asked: &[String]) -> Vec<u32> {
    let (name, description) = (words(&tool.name), words(&tool.description));
    let points = |word: &String| match (best(word, &name), best(word, &description)) {
        (Match::Whole, _) => 4,
        (Match::Start, _) => 3,
        (Match::None, Match::Whole) => 2,
        (Match::None, Match::Start) => 1,
        (Match::None, Match::None) => 0,
    };
    asked.iter().map(points).collect()
}

/// The way in which two words match. A later variant is a better match.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Match {
    None,
    Start,
    Whole,
}

/// Returns the best match of a word with one of `words`.
fn best(word: &str, words: &[String]) -> Match {
    let matches = words.iter().map(|other| match other == word {
        true => Match::Whole,
        false if starts(word, other) || starts(other, word) => Match::Start,
        false => Match::None,
    });
    matches.max().unwrap_or(Match::None)
}

fn starts(short: &str, long: &str) -> bool {
    long.starts_with(short) && short.chars().count() >= MIN_START
}

/// Returns the weight of a word that matches `matching` of `all` tools.
fn weight(all: usize, matching: usize) -> u32 {
    all.checked_div(matching).and_then(usize::checked_ilog2).map_or(0, |doublings| doublings + 1)
}

/// Returns the words of a text in lower case.
fn words(text: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut word = String::new();
    let mut was_lower = false;
    for char in text.chars() {
        let starts_word = char.is_uppercase() && was_lower;
        if (!char.is_alphanumeric() || starts_word) && !word.is_empty() {
            words.push(std::mem::take(&mut word));
        }
        if char.is_alphanumeric() {
            word.extend(char.to_lowercase());
        }
        was_lower = char.is_lowercase() || char.is_numeric();
    }
    if !word.is_empty() {
        words.push(word);
    }
    words
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn tools(tools: &[(&str, &str)]) -> Vec<Arc<ToolDefinition>> {
        let tool = |&(name, description): &(&str, &str)| {
            Arc::new(super::super::definition(name, description, serde_json::json!({})))
        };
        tools.iter().map(tool).collect()
    }

    #[track_caller]
    fn check(query: &str, list: &[(&str, &str)], expected: &[&str]) {
        let list = tools(list);
        let names: Vec<&str> = rank(query, &list).iter().map(|tool| &*tool.name).collect();
        assert_eq!(names, expected, "{query}");
    }

    #[test]
    fn words_are_split_at_other_characters_and_capitals() {
        let check = |text: &str, expected: &[&str]| assert_eq!(words(text), expected, "{text}");
        check("create_issue", &["create", "issue"]);
        check("createIssue", &["create", "issue"]);
        check("  HTTP server, v2!", &["http", "server", "v2"]);
        check("s3Upload", &["s3", "upload"]);
        check("Größe/Straße", &["größe", "straße"]);
        check("", &[]);
        check("--", &[]);
    }

    #[test]
    fn better_places_come_first_and_equal_tools_keep_their_order() {
        let list = [
            ("a", "Lists the issues"),
            ("b", "Closes an issue"),
            ("list_issues", ""),
            ("open_issue", ""),
            ("unrelated", "Sends mail"),
            ("c", "Closes an issue"),
        ];
        check("issue", &list, &["open_issue", "list_issues", "b", "c", "a"]);
        check("mail", &list, &["unrelated"]);
        check("nothing", &list, &[]);
        check("", &list, &[]);
        check("!?", &list, &[]);
        check("issue", &[], &[]);
    }

    #[test]
    fn whole_name_comes_first() {
        let list = [("issue", "issue issue"), ("issue_list", "issue"), ("get-issue", "")];
        check("issue_list", &list, &["issue_list", "issue", "get-issue"]);
        check("`get-issue`, please", &list, &["get-issue", "issue", "issue_list"]);
        check("get-issue issue_list", &list, &["issue_list", "get-issue", "issue"]);
    }

    #[test]
    fn rare_words_count_more_than_frequent_words() {
        let list = [
            ("w", "the the the a to"),
            ("x", "Adds the row to the table"),
            ("y", "Gives the list to a user"),
            ("slack_post", "Posts"),
            ("z", "Does the work to a file"),
        ];
        check("send the text to a slack channel", &list[1..], &["slack_post", "y", "z", "x"]);
    }

    #[test]
    fn short_words_match_only_as_a_whole() {
        let list = [("s3", "x"), ("s30", "y"), ("abc", "z"), ("abcdef", "z")];
        check("s3", &list, &["s3"]);
        check("abcd", &list, &["abc", "abcdef"]);
    }

    #[test]
    fn only_first_words_of_a_query_count() {
        let words: Vec<String> = (0..MAX_WORDS).map(|number| format!("q{number}")).collect();
        let list = [("mail", "")];
        check(&format!("mail {}", words.join(" ")), &list, &["mail"]);
        check(&format!("{} mails", words.join(" ")), &list, &[]);
    }

    proptest! {
        #[test]
        fn any_query_has_the_same_ranking_twice_without_duplicates(
            query in any::<String>(),
            names in proptest::collection::vec("[a-c_]{1,6}", 0..20),
        ) {
            let names: Vec<(&str, &str)> = names.iter().map(|name| (&**name, "b c")).collect();
            let list = tools(&names);
            let ranked = rank(&query, &list);
            prop_assert_eq!(&ranked, &rank(&query, &list));
            prop_assert!(ranked.len() <= list.len());
        }
    }
}
