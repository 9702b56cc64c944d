//! A permission policy made of rules about tools, arguments and annotations ([`PermissionRules`]).

mod argument;
mod command_pattern;
mod finding;
mod glob;
mod path_pattern;
mod rule;
#[cfg(test)]
mod tests;

use neuron_types::{
    PermissionDecision, PermissionPolicy, PermissionRuleError, ToolCall, ToolDefinition,
};
use serde::{Deserialize, Serialize};
use serde_json::Value;

pub use argument::{ArgumentCondition, ArgumentPattern};
use finding::Finding;
use path_pattern::Directory;
use rule::CompiledRule;
pub use rule::{AnnotationCondition, PermissionEffect, PermissionRule};

/// A [`PermissionPolicy`] made of rules about the names of tools, their arguments and their annotations.
///
/// If several rules match a call, the strongest effect decides. Deny is the strongest effect, then ask, then allow. The
/// order of the rules matters only for the text of the decision, which names the first rule with the strongest effect.
/// A call that matches no rule gets the [default](Self::with_default), which is to ask.
///
/// Set the policy with `AgentBuilder::permission_policy`, or use it in the middleware
/// `PermissionChecker` of `neuron-tool`, which denies calls that would need an approval.
/// [`CombinedPolicy`](crate::CombinedPolicy) combines it with other policies.
///
/// # Undecidable conditions
///
/// Some conditions cannot be decided. Examples are a missing argument, an argument of another type, a path with `..`,
/// or a tool without the annotation that the rule requires. In this case an allow rule does not match, and a deny rule
/// or an ask rule does match. There is one exception. If the tool's schema lists all arguments, a rule about an
/// argument that is not listed never matches.
///
/// # Limits of patterns
///
/// Rules are applied to the tool name and the arguments that the model wrote, before the tool parses them.
///
/// - Allow rules are safer than deny rules. A deny rule misses a spelling or a tool that its author did not foresee.
///   Allow the known calls, and let the default ask about all others.
/// - A path is compared as text. Symbolic links are not resolved, Unicode forms (two encodings of `é`) are not
///   normalised, and text that the tool itself expands (`$HOME`, `%2e%2e`) is not expanded. Only a sandbox confines a
///   tool.
/// - A shell command can run another command, with `sudo`, `env`, `xargs`, `git -c` or a script. See
///   [`ArgumentPattern::Command`].
/// - An annotation is a claim of the tool. A tool of a foreign server may lie, so rules that allow by annotation should
///   name only your own tools.
///
/// # Example
///
/// ```
/// use neuron_runtime::{ArgumentPattern, PermissionRule, PermissionRules};
/// use neuron_types::{PermissionDecision, PermissionPolicy};
/// use serde_json::json;
///
/// let rules = PermissionRules::new([
///     PermissionRule::allow("read_*"),
///     PermissionRule::allow("write_file").when("path", ArgumentPattern::path("/code/project/**")),
///     PermissionRule::deny("*_file")
///         .when("path", ArgumentPattern::path("**/.env"))
///         .because("it holds the keys"),
/// ])?;
///
/// let check = |tool: &str, path: &str| rules.check(tool, &json!({ "path": path }));
/// assert_eq!(check("read_file", "/etc/hosts"), PermissionDecision::Allow);
/// assert_eq!(check("write_file", "/code/project/src/main.rs"), PermissionDecision::Allow);
/// assert!(matches!(check("write_file", "/etc/hosts"), PermissionDecision::Ask(_)));
/// // Where that leads cannot be told: it might be what is denied.
/// assert!(matches!(check("write_file", "/code/project/../x"), PermissionDecision::Deny(_)));
/// assert_eq!(
///     check("read_file", "/code/project/.env"),
///     PermissionDecision::Deny("`read_file` is denied by the rule `deny *_file`: it holds the keys".into()),
/// );
/// # Ok::<(), neuron_types::PermissionRuleError>(())
/// ```
///
/// # Example: a configuration file
///
/// Unknown fields and invalid rules are errors.
///
/// ```
/// use neuron_runtime::PermissionRules;
/// # use neuron_types::{PermissionDecision, PermissionPolicy};
///
/// let rules: PermissionRules = serde_json::from_str(r#"{
///     "default": "deny",
///     "directory": "/code/project",
///     "rules": [
///         { "effect": "allow", "tools": ["read_file", "list_*"],
///           "when": [{ "argument": "path", "matches": { "path": "/code/project/**" } }] },
///         { "effect": "ask", "tools": ["bash"], "name": "git",
///           "when": [{ "argument": "command", "matches": { "command": "git **" } }] },
///         { "effect": "deny", "tools": ["github_*"], "annotations": { "destructive": true },
///           "reason": "nothing is destroyed there, nor by what does not say that it is harmless" }
///     ]
/// }"#)?;
/// # let decision = rules.check("nothing", &serde_json::json!({}));
/// # assert!(matches!(decision, PermissionDecision::Deny(_)));
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(try_from = "Form", into = "Form")]
pub struct PermissionRules {
    rules: Vec<CompiledRule>,
    default: PermissionEffect,
    /// Directory to which relative paths refer. `None` if it is not known.
    directory: Option<Directory>,
}

/// The serialised form of [`PermissionRules`].
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Form {
    #[serde(default)]
    default: PermissionEffect,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    directory: Option<String>,
    rules: Vec<PermissionRule>,
}

impl PermissionRules {
    /// Creates a policy from rules. A call that matches no rule requires an approval.
    ///
    /// # Errors
    ///
    /// [`PermissionRuleError::InvalidRule`] for the first invalid rule, for example a rule without a tool or with `..`
    /// in a path pattern.
    pub fn new(
        rules: impl IntoIterator<Item = PermissionRule>,
    ) -> Result<Self, PermissionRuleError> {
        let rules = rules.into_iter().map(CompiledRule::new).collect::<Result<_, _>>()?;
        Ok(Self { rules, default: PermissionEffect::Ask, directory: None })
    }

    /// Sets the effect on calls that match no rule. Default: [`PermissionEffect::Ask`].
    #[must_use]
    pub fn with_default(mut self, default: PermissionEffect) -> Self {
        self.default = default;
        self
    }

    /// Sets the directory to which relative paths of tools refer. It is needed to compare a relative path with an
    /// absolute pattern, and an absolute path with a relative pattern. Without a directory, such a comparison is
    /// undecidable if there is a directory with which the path would match.
    ///
    /// # Errors
    ///
    /// [`PermissionRuleError::InvalidDirectory`] if `directory` is not absolute or contains `..`.
    pub fn with_directory(
        mut self,
        directory: impl Into<String>,
    ) -> Result<Self, PermissionRuleError> {
        self.directory = Some(Directory::new(directory.into())?);
        Ok(self)
    }

    /// Decides on a call. `definition` is `None` if the tool's definition is not known.
    fn decide(
        &self,
        tool: &str,
        input: &Value,
        definition: Option<&ToolDefinition>,
    ) -> PermissionDecision {
        let mut sure: Option<&CompiledRule> = None;
        let mut unsure: Option<(&CompiledRule, String)> = None;
        for rule in &self.rules {
            match rule.check(tool, input, definition, self.directory.as_ref()) {
                // `<` keeps the first of several rules with the same effect.
                Finding::Yes if sure.is_none_or(|known| known.effect() < rule.effect()) => {
                    sure = Some(rule);
                }
                Finding::Unknown(why)
                    if unsure.as_ref().is_none_or(|(known, _)| known.effect() < rule.effect()) =>
                {
                    unsure = Some((rule, why));
                }
                _ => {}
            }
        }
        let decided = sure.map_or(self.default, CompiledRule::effect);
        // A rule that may match applies only if it is stricter than the certain result.
        if let Some((rule, why)) = unsure.filter(|(rule, _)| rule.effect() > decided) {
            return rule.decision(tool, Some(&why));
        }
        match sure {
            Some(rule) => rule.decision(tool, None),
            None => match self.default {
                PermissionEffect::Allow => PermissionDecision::Allow,
                PermissionEffect::Ask => {
                    PermissionDecision::Ask(format!("May `{tool}` be called? No rule says so"))
                }
                PermissionEffect::Deny => {
                    PermissionDecision::Deny(format!("`{tool}` is denied: no rule allows it"))
                }
            },
        }
    }
}

impl PermissionPolicy for PermissionRules {
    /// Decides on a call without the tool's definition, so conditions on annotations are undecidable.
    fn check(&self, tool_name: &str, input: &Value) -> PermissionDecision {
        self.decide(tool_name, input, None)
    }

    fn check_call(
        &self,
        call: &ToolCall,
        definition: Option<&ToolDefinition>,
    ) -> PermissionDecision {
        self.decide(&call.name, &call.input, definition)
    }
}

impl TryFrom<Form> for PermissionRules {
    type Error = PermissionRuleError;

    fn try_from(form: Form) -> Result<Self, PermissionRuleError> {
        let rules = Self::new(form.rules)?.with_default(form.default);
        match form.directory {
            Some(directory) => rules.with_directory(directory),
            None => Ok(rules),
        }
    }
}

impl From<PermissionRules> for Form {
    fn from(rules: PermissionRules) -> Self {
        Self {
            default: rules.default,
            directory: rules.directory.map(Directory::into_text),
            rules: rules.rules.into_iter().map(CompiledRule::into_rule).collect(),
        }
    }
}
