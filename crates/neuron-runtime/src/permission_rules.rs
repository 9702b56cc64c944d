//! A policy made of rules about tools, arguments and annotations, [`PermissionRules`].

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
/// Of all rules that match a call the strongest decides: deny, then ask, then allow. Their order does
/// not matter (of two that say the same the first is named), and another deny rule never allows more. What no rule matches follows the default, which
/// is to ask. `AgentBuilder::permission_policy` takes it, and so does the middleware
/// [`PermissionChecker`](neuron_tool::builtin::PermissionChecker), where a question is a denial;
/// [`CombinedPolicy`](crate::CombinedPolicy) puts it together with others.
///
/// # When it cannot be told
///
/// A condition may not be decidable: the argument is missing or of another type, a path goes up by `..`,
/// a tool says nothing about itself. Then a rule that allows does not match, and one that denies or asks
/// does. Only where the tool's schema lists its arguments and that one is not among them, no rule about
/// it matches.
///
/// # What a pattern can promise
///
/// Rules see the name and the arguments that the model wrote, before the tool reads them.
///
/// - To allow is safer than to deny: what a deny rule does not foresee (another spelling, another tool
///   with the same effect) gets through. Allow what is known, and let the rest be asked about.
/// - A path is compared by its text. Symbolic links, other spellings of a letter (`é` in two forms) and
///   what a tool itself expands (`$HOME`, `%2e%2e`) are not seen through. Only a sandbox confines a tool.
/// - A shell command can do anything with other words: `sudo`, `env`, `xargs`, `git -c`, a script. See
///   [`ArgumentPattern::Command`].
/// - An annotation is what the tool says of itself. A tool of a foreign server may lie: let rules that
///   allow by annotation name tools of your own only.
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
/// Fields that are not known are errors, as is everything that makes no sense.
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
    /// The directory of relative paths.
    directory: Option<Directory>,
}

/// The serde form.
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
    /// Makes a policy of these rules. What none of them matches is asked about.
    ///
    /// # Errors
    ///
    /// [`PermissionRuleError::InvalidRule`] for the first rule that makes no sense: one without a tool,
    /// say, or with a path pattern that goes up.
    pub fn new(
        rules: impl IntoIterator<Item = PermissionRule>,
    ) -> Result<Self, PermissionRuleError> {
        let rules = rules.into_iter().map(CompiledRule::new).collect::<Result<_, _>>()?;
        Ok(Self { rules, default: PermissionEffect::Ask, directory: None })
    }

    /// Sets what happens with calls that no rule matches.
    #[must_use]
    pub fn with_default(mut self, default: PermissionEffect) -> Self {
        self.default = default;
        self
    }

    /// Says where the tools' relative paths start, so that they can be compared with absolute patterns,
    /// and relative patterns with absolute paths. Without it, that cannot be told if some directory would
    /// make them match.
    ///
    /// # Errors
    ///
    /// [`PermissionRuleError::InvalidDirectory`] if it is not absolute, or goes up by `..`.
    pub fn with_directory(
        mut self,
        directory: impl Into<String>,
    ) -> Result<Self, PermissionRuleError> {
        self.directory = Some(Directory::new(directory.into())?);
        Ok(self)
    }

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
        // What cannot be told only ever forbids more.
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
    /// Decides without the definition of the tool. Conditions on the definition are unclear.
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
