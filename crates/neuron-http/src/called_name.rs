//! The name of a tool in a call of an earlier response.

use std::borrow::Cow;

use neuron_types::ToolDefinition;

/// Returns the name to send for a called tool. The name of one of the `tools` is unchanged.
///
/// Models sometimes call tools that do not exist, with invalid names such as `functions.look`. A vendor would then
/// reject every later request of the conversation. In such a name, each character except ASCII letters, digits, `_` and
/// `-` is replaced with `_`. A name with more than `most` characters is truncated, and an empty name becomes `unnamed`.
///
/// # Example
///
/// ```
/// use neuron_http::called_name;
///
/// assert_eq!(called_name("look_up", &[], 64), "look_up");
/// assert_eq!(called_name("functions.look", &[], 64), "functions_look");
/// assert_eq!(called_name("functions.look", &[], 9), "functions");
/// assert_eq!(called_name("", &[], 64), "unnamed");
/// ```
#[must_use]
pub fn called_name<'a>(name: &'a str, tools: &[ToolDefinition], most: usize) -> Cow<'a, str> {
    let is_allowed = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    let is_name = !name.is_empty() && name.len() <= most && name.chars().all(is_allowed);
    // Compatible servers may accept other names, so the names of existing tools are kept.
    if is_name || tools.iter().any(|tool| tool.name == name) {
        return name.into();
    }
    let allowed = name.chars().map(|c| if is_allowed(c) { c } else { '_' }).take(most);
    let name: String = allowed.collect();
    if name.is_empty() { "unnamed".into() } else { name.into() }
}
