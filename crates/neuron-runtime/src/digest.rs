//! Digests of what a step was given.

use std::io;

use neuron_types::{DurableError, RequestRef, ToolCall};
use serde::Serialize;
use sha2::{Digest, Sha256};

/// The digest of a call of the model: what replay compares with the journal. It is the same for all
/// releases of Rust, and follows from the request alone.
///
/// # Errors
///
/// [`DurableError::Other`] when the request cannot be JSON.
pub fn llm_digest(request: RequestRef<'_>) -> Result<String, DurableError> {
    of(&request)
}

/// The digest of a tool call: of its name and arguments.
///
/// # Errors
///
/// [`DurableError::Other`] when the arguments cannot be JSON.
pub fn tool_digest(call: &ToolCall) -> Result<String, DurableError> {
    of(&(&call.name, &call.input))
}

/// Compares a tool call with the one that the journal has in its place: a name, and the [digest](tool_digest) of the call.
///
/// # Errors
///
/// [`DurableError::NonDeterminism`] if they differ. [`DurableError::Other`] if the arguments cannot be JSON.
pub fn check_tool_call(
    key: &str,
    (name, digest): (&str, &str),
    call: &ToolCall,
) -> Result<(), DurableError> {
    let now = tool_digest(call)?;
    let differs = |expected: String, got: String| DurableError::NonDeterminism {
        expected: format!("{key} with {expected}"),
        got,
    };
    if name != call.name {
        return Err(differs(format!("tool name: `{name}`"), format!("tool name: `{}`", call.name)));
    }
    match digest == now {
        true => Ok(()),
        false => Err(differs(
            format!("arguments of `{name}`: digest {digest}"),
            format!("arguments of `{name}`: digest {now}"),
        )),
    }
}

/// SHA-256 as a writer.
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

/// The digest of a value's JSON.
pub(crate) fn of(value: &impl Serialize) -> Result<String, DurableError> {
    let mut hasher = Hasher(Sha256::new());
    write(&mut hasher, value)?;
    Ok(text(hasher.0))
}

/// Adds a value's JSON.
pub(crate) fn write(hasher: &mut Hasher, value: &impl Serialize) -> Result<(), DurableError> {
    let mut buffered = io::BufWriter::new(hasher);
    serde_json::to_writer(&mut buffered, value)
        .map_err(io::Error::from)
        .and_then(|()| io::Write::flush(&mut buffered))
        .map_err(|error| DurableError::Other(error.into()))
}

/// The first 128 bits in hexadecimal digits.
pub(crate) fn text(hash: Sha256) -> String {
    hash.finalize().iter().take(16).map(|byte| format!("{byte:02x}")).collect()
}
