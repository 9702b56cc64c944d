//! The rules for the cache points of Claude, in Anthropic's API and in Bedrock's.

use serde_json::Value;

use super::{Checked, Checker, text};

/// Maximum number of cache points in a request.
const MOST: usize = 4;

impl Checker<'_> {
    /// Checks the number of cache points, and that those with a lifetime of 1 hour come first. `points` are in the
    /// order of the prompt: tools, system prompt, messages.
    pub(crate) fn check_cache(self, points: &[(String, &Value)]) -> Checked {
        let is_long = |(_, point): &&(String, &Value)| text(point, "ttl") == "1h";
        if points.len() > MOST {
            return self.refuse("many cache points", "", &[("found", &points.len().to_string())]);
        }
        match points.iter().skip_while(is_long).any(|point| is_long(&point)) {
            true => self.refuse("late cache point", "", &[]),
            false => Ok(()),
        }
    }
}
