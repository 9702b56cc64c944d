//! A system prompt that is assembled from sections.

use neuron_types::SystemPrompt;

/// A section of a [`PersistentContext`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ContextSection {
    /// Heading of the section.
    pub label: String,
    /// Text of the section.
    pub content: String,
    /// Sort key of the section. Sections with lower values come first.
    pub priority: usize,
}

/// A system prompt that is assembled from sections. Compactions do not change the system prompt of a conversation.
///
/// # Example
///
/// ```
/// use neuron_context::{ContextSection, PersistentContext};
///
/// let mut context = PersistentContext::new();
/// context.add_section(ContextSection {
///     label: "Rules".into(),
///     content: "Always include code examples.".into(),
///     priority: 10,
/// });
/// context.add_section(ContextSection {
///     label: "Role".into(),
///     content: "You are a senior Rust engineer.".into(),
///     priority: 0,
/// });
/// assert_eq!(
///     context.render(),
///     "## Role\nYou are a senior Rust engineer.\n\n## Rules\nAlways include code examples."
/// );
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PersistentContext {
    /// The sections in the order in which they were added.
    sections: Vec<ContextSection>,
}

impl PersistentContext {
    /// Creates a context without sections.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a section. It comes after earlier sections with the same priority.
    pub fn add_section(&mut self, section: ContextSection) {
        self.sections.push(section);
    }

    /// Renders the sections as one text, sorted by priority. Each section has a Markdown heading. An empty line
    /// separates two sections.
    #[must_use]
    pub fn render(&self) -> String {
        let mut sections: Vec<_> = self.sections.iter().collect();
        // The sort is stable, so sections with the same priority keep their order.
        sections.sort_by_key(|section| section.priority);
        let rendered: Vec<_> = sections
            .into_iter()
            .map(|section| format!("## {}\n{}", section.label, section.content))
            .collect();
        rendered.join("\n\n")
    }
}

impl From<PersistentContext> for SystemPrompt {
    fn from(context: PersistentContext) -> Self {
        Self::Text(context.render())
    }
}

impl From<&PersistentContext> for SystemPrompt {
    fn from(context: &PersistentContext) -> Self {
        Self::Text(context.render())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(sections: &[(&str, &str, usize)], expected: &str) {
        let mut context = PersistentContext::new();
        for (label, content, priority) in sections {
            let (label, content) = ((*label).into(), (*content).into());
            context.add_section(ContextSection { label, content, priority: *priority });
        }
        assert_eq!(context.render(), expected);
        assert_eq!(SystemPrompt::from(&context), SystemPrompt::from(expected));
        assert_eq!(SystemPrompt::from(context), SystemPrompt::from(expected));
    }

    #[test]
    fn sections_are_rendered_by_priority_and_then_in_order() {
        check(&[], "");
        check(&[("A", "a", 5)], "## A\na");
        check(&[("A", "a", 5), ("B", "b", 1)], "## B\nb\n\n## A\na");
        check(&[("A", "a", 1), ("B", "b", 1), ("C", "c", 0)], "## C\nc\n\n## A\na\n\n## B\nb");
        check(&[("A", "1\n2\n", 0), ("B", "", 0)], "## A\n1\n2\n\n\n## B\n");
    }
}
