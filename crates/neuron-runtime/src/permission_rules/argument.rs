//! Conditions on the arguments of a call.

use neuron_types::{ToolCall, ToolDefinition};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

use super::command_pattern::CommandPattern;
use super::finding::Finding;
use super::glob::Glob;
use super::path_pattern::{Directory, PathPattern};
use super::rule::PermissionEffect;

/// A condition of a [`PermissionRule`](super::PermissionRule) that requires an argument to match a pattern.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ArgumentCondition {
    /// Name of the argument, or a JSON pointer if it starts with a slash (`/options/path`).
    pub argument: String,
    /// The pattern that the argument must match.
    pub matches: ArgumentPattern,
}

/// A pattern of values of an argument.
///
/// Patterns of texts are for strings, and for lists of strings: a rule that allows wants all of them to
/// match, one that denies or asks wants one. Of anything else it cannot be told whether it matches.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", try_from = "PatternForm")]
#[non_exhaustive]
pub enum ArgumentPattern {
    /// A text in which `*` matches any characters. `\*` is a literal star. The comparison is case-sensitive.
    Text(String),
    /// A path. `*` matches any characters within a name, and `**` any number of names, so that `/code/**` is
    /// the directory and everything in it. A pattern that starts with `**` matches anywhere. A pattern without
    /// a slash at its start is relative to [`with_directory`](super::PermissionRules::with_directory).
    ///
    /// A path is compared only if it is plain: with a name `..`, a backslash, a `~` or a scheme at its
    /// beginning, two slashes there, control characters, a name that ends with a dot or a space, or one
    /// that stands for another on Windows (`.env::$DATA`, `SECRET~1.TXT`), it cannot be told whether it
    /// matches; neither if it differs only in capital letters. Names `.` and slashes too many do not
    /// count.
    Path(String),
    /// A command line. `*` matches any characters within a word, and `**` at the end any further words, as in
    /// `git status **`.
    ///
    /// A command is compared only if it is plain words without quotes, separators, redirections,
    /// substitutions, patterns or assignments of variables; else it cannot be told whether it matches.
    /// So a rule that denies one plain command stops all that are not plain. What the program then does
    /// is another matter: allow a program only if none of its options runs another.
    Command(String),
    /// Exactly this boolean, number, text, list or object. A value of another type, or a number in another
    /// notation, is unclear, and so are a list and an object that differ only in such values.
    Equals(Value),
}

impl ArgumentPattern {
    /// Creates a [`Text`](Self::Text) pattern.
    pub fn text(pattern: impl Into<String>) -> Self {
        Self::Text(pattern.into())
    }

    /// Creates a [`Path`](Self::Path) pattern.
    pub fn path(pattern: impl Into<String>) -> Self {
        Self::Path(pattern.into())
    }

    /// Creates a [`Command`](Self::Command) pattern.
    pub fn command(pattern: impl Into<String>) -> Self {
        Self::Command(pattern.into())
    }

    /// Creates an [`Equals`](Self::Equals) pattern.
    pub fn equals(value: impl Into<Value>) -> Self {
        Self::Equals(value.into())
    }
}

/// The JSON form of a pattern. Its errors name two patterns in one object, which an enum would not.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PatternForm {
    text: Option<String>,
    path: Option<String>,
    command: Option<String>,
    /// Also a `null`.
    #[serde(default, deserialize_with = "present")]
    equals: Option<Value>,
}

fn present<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(deserializer).map(Some)
}

impl TryFrom<PatternForm> for ArgumentPattern {
    type Error = &'static str;

    fn try_from(form: PatternForm) -> Result<Self, &'static str> {
        match form {
            PatternForm { text: Some(text), path: None, command: None, equals: None } => {
                Ok(Self::Text(text))
            }
            PatternForm { text: None, path: Some(path), command: None, equals: None } => {
                Ok(Self::Path(path))
            }
            PatternForm { text: None, path: None, command: Some(command), equals: None } => {
                Ok(Self::Command(command))
            }
            PatternForm { text: None, path: None, command: None, equals: Some(value) } => {
                Ok(Self::Equals(value))
            }
            _ => Err("a pattern is exactly one of `text`, `path`, `command` and `equals`"),
        }
    }
}

/// A condition, ready to be checked.
#[derive(Debug, Clone)]
pub(super) struct CompiledCondition {
    argument: String,
    pattern: Compiled,
}

#[derive(Debug, Clone)]
enum Compiled {
    Text(Glob),
    Path(PathPattern),
    Command(CommandPattern),
    Equals(Value),
}

impl CompiledCondition {
    /// Reads a condition.
    ///
    /// # Errors
    ///
    /// What is wrong with it.
    pub(super) fn new(condition: &ArgumentCondition) -> Result<Self, String> {
        let argument = condition.argument.clone();
        if argument.is_empty() {
            return Err("a condition names no argument".into());
        }
        let in_argument = |why| format!("the pattern of the argument `{argument}`: {why}");
        let pattern = match &condition.matches {
            ArgumentPattern::Text(pattern) => Compiled::Text(Glob::new(pattern)),
            ArgumentPattern::Path(pattern) => {
                Compiled::Path(PathPattern::new(pattern).map_err(in_argument)?)
            }
            ArgumentPattern::Command(pattern) => {
                Compiled::Command(CommandPattern::new(pattern).map_err(in_argument)?)
            }
            ArgumentPattern::Equals(value) => Compiled::Equals(value.clone()),
        };
        Ok(Self { argument, pattern })
    }

    pub(super) fn check(
        &self,
        effect: PermissionEffect,
        input: &Value,
        definition: Option<&ToolDefinition>,
        directory: Option<&Directory>,
    ) -> Finding {
        let about = |why: &str| format!("the argument `{}`: {why}", self.argument);
        if !input.is_object() || ToolCall::invalid_json(input).is_some() {
            return Finding::unknown("the arguments are no JSON object");
        }
        let found = match self.argument.starts_with('/') {
            true => input.pointer(&self.argument),
            false => input.get(&self.argument),
        };
        let Some(value) = found else {
            return match definition.is_some_and(|tool| lists_others(tool, &self.argument)) {
                true => Finding::No,
                false => Finding::Unknown(about("it is missing")),
            };
        };
        let finding = match (&self.pattern, value) {
            (Compiled::Equals(expected), value) => equals(expected, value),
            (_, Value::String(text)) => self.check_text(text, directory),
            (_, Value::Array(values)) if !values.is_empty() => {
                let check = |value: &Value| match value {
                    Value::String(text) => self.check_text(text, directory),
                    _ => Finding::unknown("it is not a text"),
                };
                match effect {
                    PermissionEffect::Allow => values
                        .iter()
                        .fold(Finding::Yes, |finding, value| finding.and(|| check(value))),
                    PermissionEffect::Ask | PermissionEffect::Deny => values
                        .iter()
                        .fold(Finding::No, |finding, value| finding.or(|| check(value))),
                }
            }
            _ => Finding::unknown("it is not a text"),
        };
        match finding {
            Finding::Unknown(why) => Finding::Unknown(about(&why)),
            finding => finding,
        }
    }

    fn check_text(&self, text: &str, directory: Option<&Directory>) -> Finding {
        match &self.pattern {
            Compiled::Text(glob) => Finding::of(glob.matches(text)),
            Compiled::Path(pattern) => pattern.matches(text, directory),
            Compiled::Command(pattern) => pattern.matches(text),
            Compiled::Equals(expected) => equals(expected, &Value::from(text)),
        }
    }
}

fn equals(expected: &Value, value: &Value) -> Finding {
    let is_same_type = std::mem::discriminant(expected) == std::mem::discriminant(value);
    match (expected, value) {
        _ if expected == value => Finding::Yes,
        // 1 and 1.0: a tool may read both as the same.
        (Value::Number(one), Value::Number(other)) if one.as_f64() == other.as_f64() => {
            Finding::unknown("it is the number, but written otherwise")
        }
        (Value::Array(ones), Value::Array(others)) if ones.len() == others.len() => {
            all_equal(ones.iter().zip(others))
        }
        (Value::Object(ones), Value::Object(others)) if ones.len() == others.len() => {
            let other = |(name, one)| Some((one, others.get(name)?));
            let pairs: Option<Vec<_>> = ones.iter().map(other).collect();
            pairs.map_or(Finding::No, |pairs| all_equal(pairs.into_iter()))
        }
        _ if is_same_type => Finding::No,
        _ => Finding::unknown("it is of another type"),
    }
}

fn all_equal<'v>(values: impl Iterator<Item = (&'v Value, &'v Value)>) -> Finding {
    values.fold(Finding::Yes, |all, (expected, value)| all.and(|| equals(expected, value)))
}

/// Returns `true` if the schema of a tool lists its arguments without this one.
fn lists_others(tool: &ToolDefinition, argument: &str) -> bool {
    let name = match argument.strip_prefix('/') {
        // As a JSON pointer writes it.
        Some(pointer) => {
            let first = pointer.split('/').next().unwrap_or_default();
            first.replace("~1", "/").replace("~0", "~")
        }
        None => argument.to_owned(),
    };
    let Some(schema) = tool.input_schema.as_object() else {
        return false;
    };
    // These may take others.
    let is_open = ["$ref", "allOf", "anyOf", "oneOf", "patternProperties", "if"]
        .iter()
        .any(|keyword| schema.contains_key(*keyword));
    let listed = schema.get("properties").and_then(Value::as_object);
    !is_open && listed.is_some_and(|properties| !properties.contains_key(&name))
}
