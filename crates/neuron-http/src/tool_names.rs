//! The names of tools in a request.

use std::borrow::Cow;
use std::collections::HashMap;

use neuron_types::ToolDefinition;

use crate::UniqueTexts;

/// The mapping from names of tools to names in a request, for a vendor that rejects some names. Different tools have
/// different names in the request.
///
/// # Example
///
/// ```
/// use neuron_http::{RenamedTools, ToolNames, called_name};
/// use neuron_types::ToolDefinition;
///
/// let tool: ToolDefinition =
///     serde_json::from_str(r#"{"name": "fs.read", "description": "", "input_schema": {}}"#)?;
/// let tools = [tool];
///
/// let mut names = ToolNames::new(&tools, |name| called_name(name, &[], 64), 64);
/// assert_eq!(names.send("fs.read"), "fs_read");
/// // This tool was called in an earlier message, and is not a tool of the request.
/// assert_eq!(names.send("fs/read"), "fs_read_2");
///
/// let renamed = RenamedTools::new(&tools, |name| called_name(name, &[], 64), 64);
/// assert_eq!(renamed.original("fs_read"), "fs.read");
/// # Ok::<_, serde_json::Error>(())
/// ```
#[derive(Debug)]
pub struct ToolNames<'a> {
    fit: fn(&str) -> Cow<'_, str>,
    sent: HashMap<&'a str, Cow<'a, str>>,
    taken: UniqueTexts<'a>,
}

impl<'a> ToolNames<'a> {
    /// Creates the mapping for the tools of a request.
    ///
    /// `fit` replaces what the vendor rejects in a name, and returns a valid name unchanged. The valid names of tools
    /// are not replaced. A name with a number has at most `most` characters.
    pub fn new(tools: &'a [ToolDefinition], fit: fn(&str) -> Cow<'_, str>, most: usize) -> Self {
        let mut names = Self { fit, sent: HashMap::new(), taken: UniqueTexts::new(most) };
        let (valid, others): (Vec<_>, Vec<_>) =
            tools.iter().map(|tool| tool.name.as_str()).partition(|name| fit(name) == *name);
        for name in valid.into_iter().chain(others) {
            names.send(name);
        }
        names
    }

    /// Returns the name that the request contains instead of `name`. A name of an earlier message that is not a tool of
    /// the request is added to the mapping.
    pub fn send(&mut self, name: &'a str) -> Cow<'a, str> {
        if let Some(sent) = self.sent.get(name) {
            return sent.clone();
        }
        let sent = self.taken.give((self.fit)(name));
        self.sent.insert(name, sent.clone());
        sent
    }
}

/// The tools whose names are replaced in a request, by the names that the model knows.
#[derive(Debug, Clone, Default)]
pub struct RenamedTools(HashMap<String, String>);

impl RenamedTools {
    /// Creates the mapping from the arguments of [`ToolNames::new`].
    pub fn new(tools: &[ToolDefinition], fit: fn(&str) -> Cow<'_, str>, most: usize) -> Self {
        if tools.iter().all(|tool| fit(&tool.name) == tool.name) {
            return Self::default();
        }
        let sent = ToolNames::new(tools, fit, most).sent.into_iter();
        let replaced = sent.filter(|(name, sent)| name != sent);
        Self(replaced.map(|(name, sent)| (sent.into_owned(), name.to_owned())).collect())
    }

    /// Returns the name of the tool that the model called.
    #[must_use]
    pub fn original<'n>(&'n self, called: &'n str) -> &'n str {
        self.0.get(called).map_or(called, String::as_str)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::called_name;

    #[test]
    fn names_are_replaced_there_and_back() {
        let tool = |name: &str| {
            let tool = json!({"name": name, "description": "", "input_schema": {}});
            serde_json::from_value::<ToolDefinition>(tool).unwrap()
        };
        let tools = ["fs.read", "fs/read", "fs_read", "look"].map(tool);
        let mut names = ToolNames::new(&tools, |name| called_name(name, &[], 64), 64);
        let sent: Vec<_> = tools.iter().map(|tool| names.send(&tool.name).into_owned()).collect();
        assert_eq!(sent, ["fs_read_2", "fs_read_3", "fs_read", "look"]);
        assert_eq!(names.send("fs?read"), "fs_read_4");
        let renamed = RenamedTools::new(&tools, |name| called_name(name, &[], 64), 64);
        for (tool, sent) in tools.iter().zip(&sent) {
            assert_eq!(renamed.original(sent), tool.name);
        }
        assert_eq!(renamed.original("unknown"), "unknown");
    }
}
