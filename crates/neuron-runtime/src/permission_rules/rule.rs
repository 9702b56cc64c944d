//! A permission rule with its conditions and its effect.

use neuron_types::{PermissionDecision, PermissionRuleError, ToolAnnotations, ToolDefinition};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::argument::{ArgumentCondition, ArgumentPattern, CompiledCondition};
use super::finding::Finding;
use super::glob::Glob;
use super::path_pattern::Directory;

/// The effect of a rule on the calls that it matches. If several rules match a call, the strongest effect decides.
/// `Deny` is stronger than `Ask`, and `Ask` is stronger than `Allow`.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(rename_all = "snake_case")]
pub enum PermissionEffect {
    /// The call runs without an approval.
    Allow,
    /// The call requires an approval by a person.
    #[default]
    Ask,
    /// The call does not run.
    Deny,
}

/// A rule of [`PermissionRules`](super::PermissionRules), which applies an effect to matching calls. A call matches if
/// its tool matches one of the rule's names and all conditions of the rule hold.
///
/// # Example
///
/// ```
/// use neuron_runtime::{AnnotationCondition, ArgumentPattern, PermissionRule};
///
/// // Two tools, as long as they stay within a directory.
/// PermissionRule::allow("read_file")
///     .or_tool("list_*")
///     .when("path", ArgumentPattern::path("/code/**"));
///
/// // Tools that say that they only read; names of one's own tools, because others may lie.
/// PermissionRule::allow("my_*")
///     .annotated(AnnotationCondition { read_only: Some(true), ..Default::default() });
///
/// // Named, with a reason that the model sees.
/// PermissionRule::deny("bash").named("no shell").because("use the other tools");
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct PermissionRule {
    /// Effect of the rule on the calls that it matches.
    pub effect: PermissionEffect,
    /// Names of the tools, in which `*` matches any characters.
    pub tools: Vec<String>,
    /// Conditions on the arguments, all of which must hold.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub when: Vec<ArgumentCondition>,
    /// Annotations that the tool must have.
    #[serde(default, skip_serializing_if = "AnnotationCondition::is_empty")]
    pub annotations: AnnotationCondition,
    /// Name of the rule in reasons and questions. Default: its effect and its tools.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Reason for the effect. It follows the rule's name in decisions, which the model or the approver reads.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// A condition on the [`ToolAnnotations`] of a tool. `None` accepts any value.
///
/// If a tool does not have an annotation that the condition requires, the condition is undecidable. There is one
/// exception. A tool with `read_only_hint` counts as idempotent and as not destructive, unless its other annotations
/// say otherwise.
///
/// Annotations are claims of the tool's author. A tool of a foreign server may lie.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct AnnotationCondition {
    /// Required value of [`ToolAnnotations::read_only_hint`]. `None` accepts any value.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub read_only: Option<bool>,
    /// Required value of [`ToolAnnotations::destructive_hint`]. `None` accepts any value.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub destructive: Option<bool>,
    /// Required value of [`ToolAnnotations::idempotent_hint`]. `None` accepts any value.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub idempotent: Option<bool>,
    /// Required value of [`ToolAnnotations::open_world_hint`]. `None` accepts any value.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub open_world: Option<bool>,
}

impl PermissionRule {
    /// Creates a rule that allows the calls of a tool. In the tool's name `*` matches any characters.
    pub fn allow(tool: impl Into<String>) -> Self {
        Self::new(PermissionEffect::Allow, tool)
    }

    /// Creates a rule that requires an approval for the calls of a tool. In the tool's name `*` matches any characters.
    pub fn ask(tool: impl Into<String>) -> Self {
        Self::new(PermissionEffect::Ask, tool)
    }

    /// Creates a rule that denies the calls of a tool. In the tool's name `*` matches any characters.
    pub fn deny(tool: impl Into<String>) -> Self {
        Self::new(PermissionEffect::Deny, tool)
    }

    fn new(effect: PermissionEffect, tool: impl Into<String>) -> Self {
        Self {
            effect,
            tools: vec![tool.into()],
            when: Vec::new(),
            annotations: AnnotationCondition::default(),
            name: None,
            reason: None,
        }
    }

    /// Adds another tool name to the rule. In the name `*` matches any characters.
    #[must_use]
    pub fn or_tool(mut self, tool: impl Into<String>) -> Self {
        self.tools.push(tool.into());
        self
    }

    /// Adds the condition that an argument matches a pattern. `argument` is the argument's name. If it starts with a
    /// slash, it is a JSON pointer.
    #[must_use]
    pub fn when(mut self, argument: impl Into<String>, matches: ArgumentPattern) -> Self {
        self.when.push(ArgumentCondition { argument: argument.into(), matches });
        self
    }

    /// Sets the annotations that the tool must have.
    #[must_use]
    pub fn annotated(mut self, annotations: AnnotationCondition) -> Self {
        self.annotations = annotations;
        self
    }

    /// Sets the name of the rule in reasons and questions. Default: its effect and its tools.
    #[must_use]
    pub fn named(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// Sets the reason of the effect. It follows the rule's name in decisions.
    #[must_use]
    pub fn because(mut self, reason: impl Into<String>) -> Self {
        self.reason = Some(reason.into());
        self
    }

    /// Returns the name of the rule, or its effect and tools if it has no name.
    fn title(&self) -> String {
        let effect = match self.effect {
            PermissionEffect::Allow => "allow",
            PermissionEffect::Ask => "ask",
            PermissionEffect::Deny => "deny",
        };
        self.name.clone().unwrap_or_else(|| format!("{effect} {}", self.tools.join(", ")))
    }
}

impl AnnotationCondition {
    fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Compares the annotations of a tool with the condition. Missing annotations are undecidable.
    fn check(&self, definition: Option<&ToolDefinition>) -> Finding {
        let says = definition.and_then(|tool| tool.annotations).unwrap_or_default();
        let ToolAnnotations { read_only_hint, destructive_hint, idempotent_hint, open_world_hint } =
            says;
        // A read-only tool destroys nothing and can be repeated.
        let is_safe = read_only_hint == Some(true);
        let destructive = destructive_hint.or(is_safe.then_some(false));
        let idempotent = idempotent_hint.or(is_safe.then_some(true));
        let check = |name: &str, wanted: Option<bool>, said: Option<bool>| match (wanted, said) {
            (None, _) => Finding::Yes,
            (Some(wanted), Some(said)) => Finding::of(wanted == said),
            (Some(_), None) => Finding::Unknown(format!("the tool does not say if it is {name}")),
        };
        check("read-only", self.read_only, read_only_hint)
            .and(|| check("destructive", self.destructive, destructive))
            .and(|| check("idempotent", self.idempotent, idempotent))
            .and(|| check("open-world", self.open_world, open_world_hint))
    }
}

/// A rule with its parsed patterns.
#[derive(Debug, Clone)]
pub(super) struct CompiledRule {
    rule: PermissionRule,
    tools: Vec<Glob>,
    when: Vec<CompiledCondition>,
}

impl CompiledRule {
    pub(super) fn new(rule: PermissionRule) -> Result<Self, PermissionRuleError> {
        let invalid =
            |reason: String| PermissionRuleError::InvalidRule { rule: rule.title(), reason };
        // Such a rule would never match, which its author cannot have intended.
        if rule.tools.is_empty() || rule.tools.iter().any(String::is_empty) {
            return Err(invalid("it must name its tools; `*` is every tool".into()));
        }
        let when = rule.when.iter().map(CompiledCondition::new).collect::<Result<_, _>>();
        let when = when.map_err(invalid)?;
        let tools = rule.tools.iter().map(|tool| Glob::new(tool)).collect();
        Ok(Self { rule, tools, when })
    }

    pub(super) fn into_rule(self) -> PermissionRule {
        self.rule
    }

    pub(super) fn effect(&self) -> PermissionEffect {
        self.rule.effect
    }

    /// Compares a call with the tool names and all conditions of the rule.
    pub(super) fn check(
        &self,
        tool: &str,
        input: &Value,
        definition: Option<&ToolDefinition>,
        directory: Option<&Directory>,
    ) -> Finding {
        let is_named = Finding::of(self.tools.iter().any(|glob| glob.matches(tool)));
        let named = is_named.and(|| self.rule.annotations.check(definition));
        self.when.iter().fold(named, |finding, condition| {
            finding.and(|| condition.check(self.rule.effect, input, definition, directory))
        })
    }

    /// Returns the decision on a call of `tool` to which this rule applies. If the match was undecidable, `unsure` is
    /// the reason, which the decision's text then contains.
    pub(super) fn decision(&self, tool: &str, unsure: Option<&str>) -> PermissionDecision {
        let title = self.rule.title();
        let reason = self.rule.reason.iter().map(|reason| format!(": {reason}"));
        let unsure =
            unsure.iter().map(|why| format!(" (it is not certain that the rule matches: {why})"));
        let reason: String = reason.chain(unsure).collect();
        match self.rule.effect {
            PermissionEffect::Allow => PermissionDecision::Allow,
            PermissionEffect::Ask => PermissionDecision::Ask(format!(
                "May `{tool}` be called? The rule `{title}` asks{reason}"
            )),
            PermissionEffect::Deny => PermissionDecision::Deny(format!(
                "`{tool}` is denied by the rule `{title}`{reason}"
            )),
        }
    }
}
