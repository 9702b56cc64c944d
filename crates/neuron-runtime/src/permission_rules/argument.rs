//! Conditions of permission rules on the arguments of a call.

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

/// A pattern for the value of an argument.
///
/// [`Text`](Self::Text), [`Path`](Self::Path) and [`Command`](Self::Command) apply to strings and to lists of strings.
/// In a list, an allow rule requires all strings to match. A deny rule or an ask rule requires only one string to
/// match. For a value of any other type the match is undecidable, as explained at
/// [`PermissionRules`](super::PermissionRules).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", try_from = "PatternForm")]
#[non_exhaustive]
pub enum ArgumentPattern {
    /// A text in which `*` matches any characters. `\*` is a literal star. The comparison is case-sensitive.
    Text(String),
    /// A path. `*` matches any characters within a name, and `**` matches any number of names. For example, `/code/**`
    /// matches the directory `/code` and everything in it.
    ///
    /// A pattern that starts with `**` matches anywhere. Any other pattern that does not start with a slash is relative
    /// to [`with_directory`](super::PermissionRules::with_directory).
    ///
    /// Only plain paths are compared. The match is undecidable if the path
    ///
    /// - contains a name `..`, a backslash or a control character,
    /// - starts with `~`, two slashes, a drive or a URL scheme,
    /// - has a name that ends with a dot or a space, or that means another name on Windows (`.env::$DATA`,
    ///   `SECRET~1.TXT`), or
    /// - differs from the pattern only in upper and lower case.
    ///
    /// Names `.` and repeated slashes are ignored.
    Path(String),
    /// A command line. `*` matches any characters within a word. `**` at the end matches any further words, as in
    /// `git status **`.
    ///
    /// Only commands of plain words are compared. The match is undecidable if the command contains quotes, separators,
    /// redirections, substitutions, wildcards, or assignments of variables. A rule that denies any plain command
    /// therefore also denies every command that is not plain.
    ///
    /// A pattern cannot limit the actions of the program itself. Allow a program only if none of its options runs
    /// another program.
    Command(String),
    /// A boolean, number, string, list or object that the argument must equal. The match is undecidable if the argument
    /// has another type, or is a number in another notation (`1` and `1.0`). It is also undecidable if a list or an
    /// object differs only in such values.
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

/// The JSON form of a pattern, which has exactly one of these fields. It is not an enum, because an enum would accept
/// an object with two of the fields.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PatternForm {
    text: Option<String>,
    path: Option<String>,
    command: Option<String>,
    /// Deserialised with `present`, so that a `null` is a value and not a missing field.
    #[serde(default, deserialize_with = "present")]
    equals: Option<Value>,
}

/// Deserialises a field that is present, including `null`, as `Some`.
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

/// A condition on an argument with its parsed pattern.
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
    /// Parses the pattern of a condition.
    ///
    /// # Errors
    ///
    /// Returns a description of the fault in the condition.
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

    /// Compares the arguments of a call with the condition. `effect` is the effect of the condition's rule. It decides
    /// whether all strings of a list must match, or only one.
    pub(super) fn check(
        &self,
        effect: PermissionEffect,
        input: &Value,
        definition: Option<&ToolDefinition>,
        directory: Option<&Directory>,
    ) -> Finding {
        let about = |why: &str| format!("the argument `{}`: {why}", self.argument);
        // The model's arguments may be incomplete JSON.
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
                // A list is allowed only if all of its values match, and is forbidden if one value matches.
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

/// Compares a value with the expected value of [`ArgumentPattern::Equals`].
fn equals(expected: &Value, value: &Value) -> Finding {
    let is_same_type = std::mem::discriminant(expected) == std::mem::discriminant(value);
    match (expected, value) {
        _ if expected == value => Finding::Yes,
        // A tool may read 1 and 1.0 as the same number.
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

/// Returns `true` if a tool's schema lists all of its arguments, and `argument` is not among them.
fn lists_others(tool: &ToolDefinition, argument: &str) -> bool {
    let name = match argument.strip_prefix('/') {
        // A JSON pointer escapes `/` as `~1` and `~` as `~0`.
        Some(pointer) => {
            let first = pointer.split('/').next().unwrap_or_default();
            first.replace("~1", "/").replace("~0", "~")
        }
        None => argument.to_owned(),
    };
    let Some(schema) = tool.input_schema.as_object() else {
        return false;
    };
    // A schema with one of these keywords may accept arguments that `properties` does not list.
    let is_open = ["$ref", "allOf", "anyOf", "oneOf", "patternProperties", "if"]
        .iter()
        .any(|keyword| schema.contains_key(*keyword));
    let listed = schema.get("properties").and_then(Value::as_object);
    !is_open && listed.is_some_and(|properties| !properties.contains_key(&name))
}
