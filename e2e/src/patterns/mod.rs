//! The patterns that vendors document for the values in a request, such as the characters and the length of a name.
//!
//! The types of the vendors' clients have no such patterns. Each vendor has a table, whose rows name their sources. The
//! tables judge all requests that the commands `requests` and `pairs` send. The tests spoil a valid request at each place
//! of each row.

mod anthropic;
mod bedrock;
mod gemini;
mod ollama;
mod openai;

use std::ops::RangeInclusive;

use serde_json::Value;

/// A pattern, and the places of its values in a body.
///
/// The steps of a place are separated by dots. A step is the name of a field, `*` for all items of a list or all fields of
/// an object, or `[kind]` for the items of a list whose `type` is `kind`.
struct Row {
    places: &'static [&'static str],
    rule: Rule,
}

/// What a pattern allows. Values of another type than the pattern's are wrong.
enum Rule {
    /// A text of these characters. `a-z` stands for a range.
    Name(&'static str, RangeInclusive<usize>),
    /// Like [`Name`](Self::Name), with fewer characters for the first one.
    NameFrom(&'static str, &'static str, RangeInclusive<usize>),
    /// The number of characters of a text, of items of a list, or of fields of an object.
    Length(RangeInclusive<usize>),
    /// The number of characters of each name of a field.
    KeyLength(RangeInclusive<usize>),
    /// The smallest number.
    Least(u64),
    OneOf(&'static [&'static str]),
    StartsWith(&'static [&'static str]),
    /// A text with other characters than white space.
    NotBlank,
    /// A JSON Schema of an object, without these keys at its root.
    ObjectSchema(&'static [&'static str]),
    /// An object without these fields.
    Without(&'static [&'static str]),
    /// The number of values at all places together.
    AtMost(usize),
}

const fn row(places: &'static [&'static str], rule: Rule) -> Row {
    Row { places, rule }
}

/// Checks the body of a request that was sent to this path.
///
/// # Errors
///
/// Returns a description of all values that break a pattern. Also returns an error if no table belongs to the path.
pub(crate) fn check(path: &str, body: &Value) -> Result<(), String> {
    let problems: Vec<String> = table(path)?.iter().flat_map(|row| row.problems(body)).collect();
    if problems.is_empty() { Ok(()) } else { Err(problems.join("; ")) }
}

fn table(path: &str) -> Result<&'static [Row], String> {
    let path = path.split('?').next().unwrap_or_default();
    let (_, end) = path.rsplit_once('/').unwrap_or_default();
    match end.rsplit_once(':').map_or(end, |(_, method)| method) {
        "messages" => Ok(anthropic::ROWS),
        "completions" => Ok(openai::CHAT),
        "responses" => Ok(openai::RESPONSES),
        "generateContent" | "streamGenerateContent" => Ok(gemini::ROWS),
        "converse" | "converse-stream" => Ok(bedrock::ROWS),
        "chat" => Ok(ollama::ROWS),
        "embeddings" | "embed" | "batchEmbedContents" => Ok(&[]),
        _ => Err(format!("no patterns are known for `{path}`")),
    }
}

impl Row {
    /// Returns a description of each value in a body that breaks the pattern.
    fn problems(&self, body: &Value) -> Vec<String> {
        let found: Vec<Found<'_>> =
            self.places.iter().flat_map(|place| values_at(body, place)).collect();
        if let Rule::AtMost(most) = self.rule {
            let count = found.len();
            let problem =
                || format!("{count} values at {}: more than {most}", self.places.join(", "));
            return if count > most { vec![problem()] } else { Vec::new() };
        }
        let broken = found.into_iter().filter_map(|found| {
            let reason = self.rule.broken_by(found.value)?;
            Some(format!("{}: {reason}", found.pointer))
        });
        broken.collect()
    }
}

/// A value in a body.
struct Found<'b> {
    /// The place as a JSON pointer.
    pointer: String,
    value: &'b Value,
}

fn values_at<'b>(body: &'b Value, place: &str) -> Vec<Found<'b>> {
    let start = vec![Found { pointer: String::new(), value: body }];
    place
        .split('.')
        .fold(start, |found, step| found.into_iter().flat_map(|found| found.step(step)).collect())
}

impl<'b> Found<'b> {
    fn step(self, step: &str) -> Vec<Found<'b>> {
        let kind = step.strip_prefix('[').and_then(|step| step.strip_suffix(']'));
        let is_wanted = |key: &str, value: &Value| match kind {
            Some(kind) => value.get("type").and_then(Value::as_str) == Some(kind),
            None => step == "*" || step == key,
        };
        let entries: Vec<(String, &Value)> = match self.value {
            Value::Array(items) => {
                items.iter().enumerate().map(|(index, item)| (index.to_string(), item)).collect()
            }
            Value::Object(fields) if kind.is_none() => {
                fields.iter().map(|(key, field)| (key.clone(), field)).collect()
            }
            _ => Vec::new(),
        };
        let wanted = entries.into_iter().filter(|(key, value)| is_wanted(key, value));
        let found = wanted.map(|(key, value)| {
            let key = key.replace('~', "~0").replace('/', "~1");
            Found { pointer: format!("{}/{key}", self.pointer), value }
        });
        found.collect()
    }
}

impl Rule {
    /// Returns the reason why a value breaks the pattern.
    fn broken_by(&self, value: &Value) -> Option<String> {
        let text = value.as_str();
        let is_within = |range: &RangeInclusive<usize>, length| range.contains(&length);
        let is_right = match self {
            Self::Name(class, length) => text.is_some_and(|text| {
                is_within(length, text.chars().count()) && text.chars().all(|c| is_in(class, c))
            }),
            Self::NameFrom(first, class, length) => text.is_some_and(|text| {
                is_within(length, text.chars().count())
                    && text.starts_with(|c| is_in(first, c))
                    && text.chars().all(|c| is_in(class, c))
            }),
            Self::Length(length) => match value {
                Value::String(text) => is_within(length, text.chars().count()),
                Value::Array(items) => is_within(length, items.len()),
                Value::Object(fields) => is_within(length, fields.len()),
                _ => false,
            },
            Self::KeyLength(length) => value.as_object().is_some_and(|fields| {
                fields.keys().all(|key| is_within(length, key.chars().count()))
            }),
            Self::Least(least) => value.as_u64().is_some_and(|number| number >= *least),
            Self::OneOf(texts) => text.is_some_and(|text| texts.contains(&text)),
            Self::StartsWith(starts) => {
                text.is_some_and(|text| starts.iter().any(|start| text.starts_with(start)))
            }
            Self::NotBlank => text.is_some_and(|text| !text.trim().is_empty()),
            Self::ObjectSchema(refused) => {
                value.get("type").is_some_and(|kind| kind == "object")
                    && refused.iter().all(|key| value.get(key).is_none())
            }
            Self::Without(refused) => value
                .as_object()
                .is_some_and(|fields| refused.iter().all(|key| !fields.contains_key(*key))),
            Self::AtMost(_) => true,
        };
        (!is_right).then(|| {
            let shown: String = value.to_string().chars().take(80).collect();
            format!("{shown} is not {}", self.wanted())
        })
    }

    fn wanted(&self) -> String {
        match self {
            Self::Name(class, length) => format!("{length:?} of [{class}]"),
            Self::NameFrom(first, class, length) => format!("{length:?} of [{first}][{class}]"),
            Self::Length(length) => format!("of the length {length:?}"),
            Self::KeyLength(length) => format!("an object with keys of the length {length:?}"),
            Self::Least(least) => format!("at least {least}"),
            Self::OneOf(texts) => format!("one of {}", texts.join(", ")),
            Self::StartsWith(starts) => format!("a text that starts with {}", starts.join(" or ")),
            Self::NotBlank => "a text with other characters than white space".to_owned(),
            Self::ObjectSchema(refused) => {
                format!("the schema of an object without {} at its root", refused.join(", "))
            }
            Self::Without(refused) => format!("an object without {}", refused.join(", ")),
            Self::AtMost(most) => format!("one of at most {most}"),
        }
    }
}

/// Returns `true` if a class such as `a-z_` has a character. A `-` at its end is the character.
fn is_in(class: &str, c: char) -> bool {
    let mut rest = class.chars();
    while let Some(start) = rest.next() {
        let mut ahead = rest.clone();
        match (ahead.next(), ahead.next()) {
            (Some('-'), Some(end)) => {
                if (start..=end).contains(&c) {
                    return true;
                }
                rest = ahead;
            }
            _ if start == c => return true,
            _ => {}
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const TABLES: [(&str, &str); 6] = [
        ("/v1/messages", anthropic::EXAMPLE),
        ("/v1/chat/completions", openai::CHAT_EXAMPLE),
        ("/v1/responses", openai::RESPONSES_EXAMPLE),
        ("/v1beta/models/m:streamGenerateContent?alt=sse", gemini::EXAMPLE),
        ("/model/m/converse", bedrock::EXAMPLE),
        ("/api/chat", ollama::EXAMPLE),
    ];

    #[test]
    fn each_row_notices_a_spoiled_request_at_each_place() {
        for (path, example) in TABLES {
            let body: Value = serde_json::from_str(example).unwrap();
            assert_eq!(check(path, &body), Ok(()), "{path}");
            for row in table(path).unwrap() {
                for place in row.places {
                    let found = values_at(&body, place);
                    assert!(!found.is_empty(), "{path}: the example has nothing at {place}");
                    for wrong in row.rule.wrong(found[0].value) {
                        let mut spoiled = body.clone();
                        spoil(&mut spoiled, &row.rule, &found[0].pointer, wrong);
                        assert!(!row.problems(&spoiled).is_empty(), "{path}: {place}: {spoiled}");
                        assert!(check(path, &spoiled).is_err(), "{path}: {place}: {spoiled}");
                    }
                }
            }
        }
    }

    /// Puts a wrong value at a place. A value that may be repeated only a few times is added to its list again and again.
    fn spoil(body: &mut Value, rule: &Rule, pointer: &str, wrong: Value) {
        let Rule::AtMost(most) = rule else {
            *body.pointer_mut(pointer).unwrap() = wrong;
            return;
        };
        let steps: Vec<&str> = pointer.split('/').collect();
        let ends = (1..steps.len()).rev();
        let mut lists = ends.map(|end| steps[..end].join("/"));
        let list = lists.find(|list| body.pointer(list).unwrap().is_array());
        let list = body.pointer_mut(&list.unwrap()).unwrap().as_array_mut().unwrap();
        let repeated = list.clone();
        for _ in 0..=*most {
            list.extend(repeated.clone());
        }
    }

    impl Rule {
        /// Returns values that break the pattern in different ways. `right` is a value that keeps it.
        fn wrong(&self, right: &Value) -> Vec<Value> {
            let text = right.as_str().unwrap_or_default();
            let other = |class: &str| {
                let others = [' ', '/', 'é', '.', '\u{0}'];
                others.into_iter().find(|c| !is_in(class, *c)).unwrap()
            };
            let mut wrong = match self {
                Self::Name(class, length) | Self::NameFrom(_, class, length) => {
                    let mut wrong = lengths(length, |length| Value::from(text[..1].repeat(length)));
                    wrong.push(format!("{}{}", &text[1..], other(class)).into());
                    wrong
                }
                Self::Length(length) => lengths(length, |length| match right {
                    Value::Array(items) => vec![items[0].clone(); length].into(),
                    Value::Object(_) => Value::Object(
                        (0..length).map(|key| (key.to_string(), json!("a"))).collect(),
                    ),
                    _ => "a".repeat(length).into(),
                }),
                Self::KeyLength(length) => {
                    lengths(length, |length| json!({ ("a".repeat(length)): "a" }))
                }
                Self::Least(least) => vec![json!(least - 1)],
                Self::OneOf(_) | Self::StartsWith(_) => vec![json!("other"), json!("")],
                Self::NotBlank => vec![json!(""), json!(" \n\t")],
                Self::ObjectSchema(refused) => {
                    let mut wrong = vec![json!({}), json!({"type": "string"}), json!(true)];
                    wrong.extend(refused.iter().map(|key| json!({"type": "object", (*key): []})));
                    wrong
                }
                Self::Without(refused) => {
                    refused.iter().map(|key| json!({ (*key): "a" })).collect()
                }
                Self::AtMost(_) => return vec![Value::Null],
            };
            if let Self::NameFrom(first, class, _) = self {
                let c = ('!'..='~').find(|c| is_in(class, *c) && !is_in(first, *c));
                wrong.push(format!("{}{text}", c.unwrap()).into());
            }
            wrong.push(json!(0.5));
            wrong
        }
    }

    /// Returns the values of the lengths just outside of a range.
    fn lengths(range: &RangeInclusive<usize>, make: impl Fn(usize) -> Value) -> Vec<Value> {
        let less = range.start().checked_sub(1);
        let more = (*range.end() < usize::MAX).then(|| range.end() + 1);
        less.into_iter().chain(more).map(make).collect()
    }

    #[test]
    fn places_select_values() {
        let body = json!({"a": [{"type": "x", "b": 1}, {"type": "y", "b": 2}], "c/d": {"e": 3}});
        let at = |place: &str| -> Vec<(String, Value)> {
            let found = values_at(&body, place).into_iter();
            found.map(|found| (found.pointer, found.value.clone())).collect()
        };
        assert_eq!(at("a.*.b"), [("/a/0/b".into(), json!(1)), ("/a/1/b".into(), json!(2))]);
        assert_eq!(at("a.[y].b"), [("/a/1/b".into(), json!(2))]);
        assert_eq!(at("a.0.b"), [("/a/0/b".into(), json!(1))]);
        assert_eq!(at("c/d.*"), [("/c~1d/e".into(), json!(3))]);
        assert!(at("c/d.[y]").is_empty() && at("a.[z]").is_empty() && at("f").is_empty());
    }

    #[test]
    fn unknown_path_has_no_patterns() {
        let fault = check("/v1/other", &json!({})).unwrap_err();
        assert_eq!(fault, "no patterns are known for `/v1/other`");
        assert_eq!(check("/v1/embeddings", &json!({})), Ok(()));
    }
}
