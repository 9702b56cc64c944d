//! The rules for cache breakpoints: their form, their number, their order.

use serde_json::Value;

use super::ApiError;
use super::object::{Object, expected, invalid};

/// The most breakpoints that a request may have.
const MOST: usize = 4;

/// Checks the form of an object's breakpoint, if it has one.
pub(super) fn check_cache_control(object: &Object<'_>) -> Result<(), ApiError> {
    if object.get("cache_control").is_some_and(Value::is_null) {
        return Ok(());
    }
    let Some(cache) = object.object("cache_control")? else {
        return Ok(());
    };
    if cache.text("type")? != "ephemeral" {
        return Err(expected(&cache.path_of("type"), &["ephemeral"]));
    }
    let cache = cache.of_kind("ephemeral");
    cache.only(&[&["type", "ttl"]])?;
    match cache.get("ttl").map(Value::as_str) {
        None | Some(Some("5m" | "1h")) => Ok(()),
        Some(_) => Err(expected(&cache.path_of("ttl"), &["5m", "1h"])),
    }
}

/// Checks the number and the order of all breakpoints.
pub(super) fn check_breakpoints(body: &Object<'_>) -> Result<(), ApiError> {
    check_cache_control(body)?;
    let mut found = Vec::new();
    for part in ["tools", "system", "messages"] {
        if let Some(part) = body.get(part) {
            collect(part, &mut found);
        }
    }
    // At the top level it marks the last block.
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

/// Finds breakpoints on blocks, on blocks in their content, and on tools; never in arguments or
/// schemas.
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
