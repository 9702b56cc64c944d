//! Anthropic's rules for the number and the order of cache breakpoints.

use serde_json::Value;

use super::ApiError;
use super::wording::{Object, invalid};

/// Maximum number of cache breakpoints in a request.
const MOST: usize = 4;

/// Checks that a request has at most [`MOST`] cache breakpoints. Breakpoints with a lifetime of 1 hour must come before
/// breakpoints with a lifetime of 5 minutes.
pub(super) fn check_breakpoints(body: &Object<'_>) -> Result<(), ApiError> {
    let mut found = Vec::new();
    for part in ["tools", "system", "messages"] {
        if let Some(part) = body.get(part) {
            collect(part, &mut found);
        }
    }
    // `cache_control` at the top level is a breakpoint at the last block, so it comes last.
    found.extend(body.get("cache_control").filter(|cache| !cache.is_null()));
    if found.len() > MOST {
        return Err(invalid(format!(
            "A maximum of {MOST} blocks with cache_control may be provided. Found {}.",
            found.len()
        )));
    }
    let is_long = |cache: &&Value| cache.get("ttl").is_some_and(|ttl| ttl == "1h");
    if found.iter().skip_while(|cache| is_long(cache)).any(is_long) {
        return Err(invalid(
            "a ttl='1h' cache_control block must not come after a ttl='5m' cache_control block. \
             Note that blocks are processed in the following order: `tools`, `system`, `messages`.",
        ));
    }
    Ok(())
}

/// Adds the cache breakpoints in `value` to `found`, in their order. A breakpoint is a `cache_control` field of an
/// object. Only lists and the `content` of objects are searched, because tool arguments and schemas may have an
/// unrelated field of this name.
fn collect<'a>(value: &'a Value, found: &mut Vec<&'a Value>) {
    match value {
        Value::Array(items) => items.iter().for_each(|item| collect(item, found)),
        Value::Object(fields) => {
            if let Some(content) = fields.get("content") {
                collect(content, found);
            }
            found.extend(fields.get("cache_control").filter(|cache| !cache.is_null()));
        }
        _ => {}
    }
}
