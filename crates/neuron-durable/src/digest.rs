//! Digests of requests and tool calls, by which a replay detects a changed agent.

use std::io;

use neuron_types::{DurableError, ToolCall, ToolInvocation};
use serde::Serialize;
use sha2::{Digest, Sha256};

/// Returns the digest of a tool call. It covers the tool's name and the arguments.
///
/// # Errors
///
/// [`DurableError::Other`] if the arguments cannot be serialised as JSON.
pub fn tool_digest(call: &ToolCall) -> Result<String, DurableError> {
    of(&(&call.name, &call.input))
}

/// Maximum length in bytes of an effect key that is recorded unchanged. A longer key is replaced by its digest.
const LONGEST_KEY: usize = 100;

/// Separator between the digest and the effect key in the text that [`recorded_digest`] returns.
const EFFECT_KEY: &str = "/effect_key=";

/// Returns the text that durable engines record for a tool call, to compare it in a replay. It is the
/// [digest](tool_digest) of the call. If the call has an [effect key](neuron_types::Tool::effect_key), the key follows.
///
/// # Errors
///
/// [`DurableError::Other`] if the arguments cannot be serialised as JSON.
pub fn recorded_digest(invocation: &ToolInvocation) -> Result<String, DurableError> {
    let digest = tool_digest(&invocation.call)?;
    Ok(match recorded_key(invocation)? {
        None => digest,
        Some(key) => format!("{digest}{EFFECT_KEY}{key}"),
    })
}

/// Returns the effect key of a call in the form that is stored in the journal. A key of more than [`LONGEST_KEY`] bytes
/// is replaced by its digest. Returns `None` if the call has no key.
pub(crate) fn recorded_key(invocation: &ToolInvocation) -> Result<Option<String>, DurableError> {
    match &invocation.effect_key {
        Some(key) if key.len() > LONGEST_KEY => of(key).map(Some),
        key => Ok(key.clone()),
    }
}

/// Formats the effect key of a call to `tool` for an error text.
pub(crate) fn named_key(tool: &str, key: Option<&str>) -> String {
    match key {
        Some(key) => format!("effect_key of `{tool}`: `{key}`"),
        None => format!("effect_key of `{tool}`: none"),
    }
}

/// Compares a tool call with the tool name and the [digest](recorded_digest) in its journal entry. `key` is the name of
/// the journal entry in errors.
///
/// # Errors
///
/// - [`DurableError::NonDeterminism`] if the calls differ. The error names the changed part, which is the tool name,
///   the arguments or the effect key.
/// - [`DurableError::Other`] if the arguments cannot be serialised as JSON.
pub fn check_tool_call(
    key: &str,
    (name, recorded): (&str, &str),
    invocation: &ToolInvocation,
) -> Result<(), DurableError> {
    let now = recorded_digest(invocation)?;
    if (name, recorded) == (&*invocation.call.name, &*now) {
        return Ok(());
    }
    let parts = |text: &str| match text.split_once(EFFECT_KEY) {
        Some((digest, key)) => (digest.to_owned(), Some(key.to_owned())),
        None => (text.to_owned(), None),
    };
    let (before, after) = (parts(recorded), parts(&now));
    let (expected, got) = if name != invocation.call.name {
        (format!("tool name: `{name}`"), format!("tool name: `{}`", invocation.call.name))
    } else if before.0 != after.0 {
        let arguments = |digest| format!("arguments of `{name}`: digest {digest}");
        (arguments(before.0), arguments(after.0))
    } else {
        (named_key(name, before.1.as_deref()), named_key(name, after.1.as_deref()))
    };
    Err(DurableError::NonDeterminism { expected: format!("{key} with {expected}"), got })
}

/// An [`io::Write`] that adds all written bytes to a SHA-256 hash.
pub(crate) struct Hasher(pub(crate) Sha256);

impl io::Write for Hasher {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.update(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Returns the digest of a value's JSON.
pub(crate) fn of(value: &impl Serialize) -> Result<String, DurableError> {
    let mut hasher = Hasher(Sha256::new());
    write(&mut hasher, value)?;
    Ok(text(hasher.0))
}

/// Adds the JSON of a value to a hash.
pub(crate) fn write(hasher: &mut Hasher, value: &impl Serialize) -> Result<(), DurableError> {
    let mut buffered = io::BufWriter::new(hasher);
    serde_json::to_writer(&mut buffered, value)
        .map_err(io::Error::from)
        .and_then(|()| io::Write::flush(&mut buffered))
        .map_err(|error| DurableError::Other(error.into()))
}

/// Returns bytes as lower case hexadecimal digits. `neuron-runtime` writes the signatures of approvals with it.
#[must_use]
pub fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Finishes a hash and returns its first 128 bits as hexadecimal digits.
pub(crate) fn text(hash: Sha256) -> String {
    let mut digest = hexadecimal(&hash.finalize());
    digest.truncate(32);
    digest
}

#[cfg(test)]
mod tests {
    use neuron_types::ToolContext;
    use serde_json::json;

    use super::*;

    fn call(name: &str, amount: u8, key: Option<&str>) -> ToolInvocation {
        let call = ToolCall { id: "c".into(), name: name.into(), input: json!(amount) };
        let mut invocation = ToolInvocation::new(call, ToolContext::default());
        invocation.effect_key = key.map(str::to_owned);
        invocation
    }

    #[test]
    fn error_of_a_changed_call_names_what_changed() {
        let before = call("pay", 1, Some("invoice 17"));
        let recorded = recorded_digest(&before).unwrap();
        let check = |now: &ToolInvocation| check_tool_call("tools/1/0", ("pay", &recorded), now);
        check(&before).unwrap();
        let error = |now| check(&now).unwrap_err().to_string();
        for (now, names) in [
            (call("wire", 1, Some("invoice 17")), ["tool name: `pay`", "tool name: `wire`"]),
            (
                call("pay", 2, Some("invoice 17")),
                ["arguments of `pay`: digest", "arguments of `pay`"],
            ),
            (
                call("pay", 1, None),
                ["effect_key of `pay`: `invoice 17`", "effect_key of `pay`: none"],
            ),
            (call("pay", 1, Some("a/b")), ["effect_key of `pay`: `invoice 17`", "`a/b`"]),
        ] {
            let error = error(now);
            assert!(names.iter().all(|name| error.contains(name)), "{error}");
        }
    }

    #[test]
    fn long_effect_key_is_recorded_by_its_digest() {
        let long = "x".repeat(LONGEST_KEY + 1);
        let recorded = recorded_digest(&call("pay", 1, Some(&long))).unwrap();
        assert!(recorded.len() < LONGEST_KEY && recorded.contains(EFFECT_KEY), "{recorded}");
        assert_ne!(recorded, recorded_digest(&call("pay", 1, Some(&long[1..]))).unwrap());
    }
}
