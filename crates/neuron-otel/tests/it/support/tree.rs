//! Trees of spans, with children in the order in which they began.

use std::collections::HashSet;
use std::fmt;

use opentelemetry_proto::tonic::trace::v1::Span;
use opentelemetry_proto::tonic::trace::v1::span::{Event, SpanKind};
use opentelemetry_proto::tonic::trace::v1::status::StatusCode;

use super::attributes::Attributes;

/// The trees that a list of spans forms. A span whose parent is not in the list is a root.
#[derive(Clone)]
pub(crate) struct Forest(pub(crate) Vec<Tree>);

/// A span and its children.
#[derive(Clone)]
pub(crate) struct Tree {
    pub(crate) name: String,
    pub(crate) kind: SpanKind,
    pub(crate) status: StatusCode,
    /// Description of the status. Empty if there is none.
    pub(crate) description: String,
    pub(crate) attributes: Attributes,
    pub(crate) events: Vec<Event>,
    pub(crate) span: Span,
    pub(crate) children: Vec<Tree>,
}

impl Forest {
    pub(crate) fn new(spans: &[Span]) -> Self {
        let ids: HashSet<&[u8]> = spans.iter().map(|span| span.span_id.as_slice()).collect();
        assert_eq!(ids.len(), spans.len(), "each span is recorded once");
        let roots = spans.iter().filter(|span| !ids.contains(span.parent_span_id.as_slice()));
        Self(sorted(roots.map(|root| Tree::new(root, spans))))
    }

    /// Returns the only tree. Panics if there are several.
    #[track_caller]
    pub(crate) fn root(&self) -> &Tree {
        assert_eq!(self.0.len(), 1, "one tree is due:\n{self:?}");
        &self.0[0]
    }

    /// Returns one line for each span, indented by its depth. A line contains the name, the kind, the error type and
    /// the status.
    pub(crate) fn outline(&self) -> String {
        let mut text = String::new();
        for tree in &self.0 {
            tree.write_outline(&mut text, 0);
        }
        text
    }

    /// Asserts that the [`outline`](Self::outline) of the span trees equals `expected`. Indentation that all lines of
    /// `expected` have in common is ignored.
    #[track_caller]
    pub(crate) fn assert_outline(&self, expected: &str) {
        let lines: Vec<&str> = expected.lines().filter(|line| !line.trim().is_empty()).collect();
        let margin =
            lines.iter().map(|line| line.len() - line.trim_start().len()).min().unwrap_or(0);
        let expected: String =
            lines.iter().map(|line| format!("{}\n", line[margin..].trim_end())).collect();
        assert_eq!(self.outline(), expected, "the spans are:\n{self:?}");
    }

    /// Returns all spans with this name, parents before their children.
    pub(crate) fn all(&self, name: &str) -> Vec<&Tree> {
        let mut found = Vec::new();
        for tree in &self.0 {
            tree.collect(name, &mut found);
        }
        found
    }

    /// Returns the only span with this name. Panics if there are none or several.
    #[track_caller]
    pub(crate) fn one(&self, name: &str) -> &Tree {
        let found = self.all(name);
        assert_eq!(found.len(), 1, "one span `{name}` is due:\n{self:?}");
        found[0]
    }
}

impl Tree {
    fn new(span: &Span, spans: &[Span]) -> Self {
        let below = spans.iter().filter(|other| other.parent_span_id == span.span_id);
        let status = span.status.clone().unwrap_or_default();
        Self {
            name: span.name.clone(),
            kind: span.kind(),
            status: status.code(),
            description: status.message,
            attributes: Attributes::new(&span.attributes),
            events: span.events.clone(),
            span: span.clone(),
            children: sorted(below.map(|child| Self::new(child, spans))),
        }
    }

    fn write_outline(&self, text: &mut String, depth: usize) {
        let kind = self.kind.as_str_name().trim_start_matches("SPAN_KIND_");
        let status = self.status.as_str_name().trim_start_matches("STATUS_CODE_");
        let status = if status == "UNSET" { String::new() } else { format!(" {status}") };
        let error = self.attributes.text("error.type").map(|error| format!(" {error}"));
        let indent = "  ".repeat(depth);
        let error = error.unwrap_or_default();
        text.push_str(&format!("{indent}{} {kind}{status}{error}\n", self.name));
        for child in &self.children {
            child.write_outline(text, depth + 1);
        }
    }

    fn collect<'a>(&'a self, name: &str, found: &mut Vec<&'a Self>) {
        if self.name == name {
            found.push(self);
        }
        for child in &self.children {
            child.collect(name, found);
        }
    }

    fn write(&self, f: &mut fmt::Formatter<'_>, depth: usize) -> fmt::Result {
        let indent = "  ".repeat(depth);
        let kind = self.kind.as_str_name().trim_start_matches("SPAN_KIND_");
        let status = self.status.as_str_name().trim_start_matches("STATUS_CODE_");
        writeln!(f, "{indent}{} {kind} {status} {:?}", self.name, self.description)?;
        writeln!(f, "{indent}    {:?}", self.attributes)?;
        for event in &self.events {
            writeln!(f, "{indent}    * {} {:?}", event.name, Attributes::new(&event.attributes))?;
        }
        self.children.iter().try_for_each(|child| child.write(f, depth + 1))
    }
}

fn sorted(trees: impl Iterator<Item = Tree>) -> Vec<Tree> {
    let mut trees: Vec<Tree> = trees.collect();
    trees.sort_by(|a, b| {
        let key = |tree: &Tree| (tree.span.start_time_unix_nano, tree.name.clone());
        key(a).cmp(&key(b))
    });
    trees
}

/// Formats each span with its status, its attributes and its events.
impl fmt::Debug for Forest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|tree| tree.write(f, 0))
    }
}

impl fmt::Debug for Tree {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.write(f, 0)
    }
}
