//! Names of tools. The API accepts fewer characters in a name than other vendors.

use std::borrow::Cow;
use std::collections::HashMap;

use neuron_http::UniqueTexts;
use neuron_types::ToolDefinition;

use crate::allowed::{self, MAX_CHARS};

/// The mapping from names of tools to names in the request. Different tools have different names there.
pub(crate) struct Names<'a> {
    sent: HashMap<&'a str, Cow<'a, str>>,
    taken: UniqueTexts<'a>,
}

impl<'a> Names<'a> {
    /// Creates the mapping for the tools of a request. Valid names are not replaced.
    pub(crate) fn new(tools: &'a [ToolDefinition]) -> Self {
        let taken = UniqueTexts::new(MAX_CHARS);
        let mut names = Self { sent: HashMap::new(), taken };
        let (valid, others): (Vec<_>, Vec<_>) =
            tools.iter().map(|tool| tool.name.as_str()).partition(|name| allowed::is_name(name));
        for name in valid.into_iter().chain(others) {
            names.send(name);
        }
        names
    }

    /// Returns the name that the request contains instead of `name`. A name of an earlier message that is not a tool of
    /// the request is added to the mapping.
    pub(crate) fn send(&mut self, name: &'a str) -> Cow<'a, str> {
        if let Some(sent) = self.sent.get(name) {
            return sent.clone();
        }
        let sent = self.taken.give(allowed::name(name));
        self.sent.insert(name, sent.clone());
        sent
    }
}

/// The tools whose names are replaced in a request, by the names that the model knows.
#[derive(Debug, Clone, Default)]
pub(crate) struct Renamed(HashMap<String, String>);

impl Renamed {
    pub(crate) fn new(tools: &[ToolDefinition]) -> Self {
        if tools.iter().all(|tool| allowed::is_name(&tool.name)) {
            return Self::default();
        }
        let sent = Names::new(tools).sent.into_iter();
        let replaced = sent.filter(|(name, sent)| name != sent);
        Self(replaced.map(|(name, sent)| (sent.into_owned(), name.to_owned())).collect())
    }

    /// Returns the name of the tool that the model called.
    pub(crate) fn original(&self, called: &str) -> String {
        self.0.get(called).map_or(called, String::as_str).to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::tests::tool;

    #[test]
    fn names_are_replaced_there_and_back() {
        let tools = ["fs.read", "fs/read", "fs_read", "look"].map(tool);
        let mut names = Names::new(&tools);
        let sent: Vec<_> = tools.iter().map(|tool| names.send(&tool.name).into_owned()).collect();
        assert_eq!(sent, ["fs_read_2", "fs_read_3", "fs_read", "look"]);
        assert_eq!(names.send("fs?read"), "fs_read_4");
        let renamed = Renamed::new(&tools);
        for (tool, sent) in tools.iter().zip(&sent) {
            assert_eq!(renamed.original(sent), tool.name);
        }
        assert_eq!(renamed.original("unknown"), "unknown");
    }
}
