//! The tool calls and results in the body of a request, and the rule that each call has its result.

use serde_json::Value;

/// A part of a conversation that matters for the pairing of calls and results.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Exchange<'b> {
    Call {
        id: Option<&'b str>,
        name: Option<&'b str>,
    },
    /// A result. The wire may identify it by the id or by the name of its call.
    Result {
        id: Option<&'b str>,
        name: Option<&'b str>,
    },
    /// Other content of the user.
    User,
}

/// Checks that each call has exactly one result, that the results of a response come directly after it, and that they
/// are the results of its calls.
pub(crate) fn check(exchanges: &[Exchange<'_>]) -> Result<(), String> {
    let mut open: Vec<(Option<&str>, Option<&str>)> = Vec::new();
    let mut has_results = false;
    for exchange in exchanges {
        match *exchange {
            Exchange::Call { id, name } => {
                if has_results && !open.is_empty() {
                    return Err(format!("a call before the results of {open:?}"));
                }
                if id.is_some() && open.iter().any(|(known, _)| *known == id) {
                    return Err(format!("two calls have the id {id:?}"));
                }
                has_results = false;
                open.push((id, name));
            }
            Exchange::Result { id, name } => {
                has_results = true;
                let is_its = |(known, known_name): &(Option<&str>, Option<&str>)| {
                    *known == id && (name.is_none() || *known_name == name)
                };
                match open.iter().position(is_its) {
                    Some(place) => drop(open.remove(place)),
                    None => return Err(format!("the result {id:?} {name:?} has no call")),
                }
            }
            Exchange::User if !open.is_empty() => {
                return Err(format!("a user's message before the results of {open:?}"));
            }
            Exchange::User => {}
        }
    }
    if open.is_empty() { Ok(()) } else { Err(format!("calls without results: {open:?}")) }
}

fn text<'b>(value: &'b Value, key: &str) -> Option<&'b str> {
    value.get(key).and_then(Value::as_str)
}

fn list<'b>(value: &'b Value, key: &str) -> &'b [Value] {
    value.get(key).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

/// Returns the exchanges of Anthropic's messages.
pub(crate) fn of_blocks(messages: &[Value]) -> Vec<Exchange<'_>> {
    let mut exchanges = Vec::new();
    for message in messages {
        let is_user = text(message, "role") != Some("assistant");
        for block in list(message, "content") {
            match text(block, "type") {
                Some("tool_use") => exchanges
                    .push(Exchange::Call { id: text(block, "id"), name: text(block, "name") }),
                Some("tool_result") => {
                    exchanges.push(Exchange::Result { id: text(block, "tool_use_id"), name: None })
                }
                _ if is_user => exchanges.push(Exchange::User),
                _ => {}
            }
        }
    }
    exchanges
}

/// Returns the exchanges of items of the Responses API.
pub(crate) fn of_items(items: &[Value]) -> Vec<Exchange<'_>> {
    let exchange = |item| {
        let id = text(item, "call_id");
        match text(item, "type") {
            Some("function_call" | "custom_tool_call") => {
                Some(Exchange::Call { id, name: text(item, "name") })
            }
            Some("function_call_output" | "custom_tool_call_output") => {
                Some(Exchange::Result { id, name: None })
            }
            _ if matches!(text(item, "role"), Some("user" | "system" | "developer")) => {
                Some(Exchange::User)
            }
            _ => None,
        }
    };
    items.iter().filter_map(exchange).collect()
}

/// Returns the exchanges of messages of Chat Completions or Ollama.
pub(crate) fn of_chat(messages: &[Value]) -> Vec<Exchange<'_>> {
    let mut exchanges = Vec::new();
    for message in messages {
        let calls = list(message, "tool_calls").iter().map(|call| {
            let called = call.get("function").or_else(|| call.get("custom"));
            Exchange::Call {
                id: text(call, "id"),
                name: called.and_then(|called| text(called, "name")),
            }
        });
        exchanges.extend(calls);
        match text(message, "role") {
            Some("tool") => exchanges.push(Exchange::Result {
                id: text(message, "tool_call_id"),
                name: text(message, "tool_name"),
            }),
            Some("assistant") => {}
            _ => exchanges.push(Exchange::User),
        }
    }
    exchanges
}

/// Returns the exchanges of Gemini's contents.
pub(crate) fn of_contents(contents: &[Value]) -> Vec<Exchange<'_>> {
    let mut exchanges = Vec::new();
    for content in contents {
        let is_user = text(content, "role") == Some("user");
        for part in list(content, "parts") {
            let of = |key: &str| part.get(key).map(|it| (text(it, "id"), text(it, "name")));
            match (of("functionCall"), of("functionResponse")) {
                (Some((id, name)), _) => exchanges.push(Exchange::Call { id, name }),
                (_, Some((id, name))) => exchanges.push(Exchange::Result { id, name }),
                _ if is_user => exchanges.push(Exchange::User),
                _ => {}
            }
        }
    }
    exchanges
}

/// Returns the exchanges of Bedrock's messages.
pub(crate) fn of_turns(messages: &[Value]) -> Vec<Exchange<'_>> {
    let mut exchanges = Vec::new();
    for message in messages {
        let is_user = text(message, "role") != Some("assistant");
        for block in list(message, "content") {
            // The vendor's own calls and results have a type.
            let of = |key: &str| block.get(key).filter(|it| it.get("type").is_none());
            match (of("toolUse"), of("toolResult")) {
                (Some(call), _) => exchanges
                    .push(Exchange::Call { id: text(call, "toolUseId"), name: text(call, "name") }),
                (_, Some(result)) => {
                    exchanges.push(Exchange::Result { id: text(result, "toolUseId"), name: None })
                }
                _ if is_user => exchanges.push(Exchange::User),
                _ => {}
            }
        }
    }
    exchanges
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(id: &str) -> Exchange<'_> {
        Exchange::Call { id: Some(id), name: Some("look") }
    }

    fn result(id: &str) -> Exchange<'_> {
        Exchange::Result { id: Some(id), name: None }
    }

    #[test]
    fn each_broken_pair_is_found() {
        for valid in [
            vec![],
            vec![Exchange::User, call("a"), call("b"), result("b"), result("a"), Exchange::User],
            vec![call("a"), result("a"), call("a"), result("a")],
        ] {
            assert_eq!(check(&valid), Ok(()), "{valid:?}");
        }
        let other_name = Exchange::Result { id: Some("a"), name: Some("find") };
        for broken in [
            vec![call("a")],
            vec![result("a")],
            vec![call("a"), result("b")],
            vec![call("a"), other_name],
            vec![call("a"), call("a"), result("a"), result("a")],
            vec![call("a"), result("a"), result("a")],
            vec![call("a"), Exchange::User, result("a")],
            vec![call("a"), call("b"), result("a"), call("c"), result("b"), result("c")],
        ] {
            assert!(check(&broken).is_err(), "{broken:?}");
        }
    }
}
