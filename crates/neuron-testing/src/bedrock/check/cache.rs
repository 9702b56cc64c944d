//! Bedrock's rules for the number, the places and the order of cache points.

use super::ApiError;
use super::wording::{Object, of_the_model};
use crate::bedrock::route::Family;
use crate::shape::Problem;

/// Maximum number of cache points in a request.
const MOST: usize = 4;

/// Checks that the model has a cache, and that a request has at most [`MOST`] cache points. Points with a lifetime of 1
/// hour must come before points with a lifetime of 5 minutes, in the order of tools, system prompt and messages. A point
/// of Nova must follow a text.
pub(super) fn check_cache_points(body: &Object<'_>, family: Family) -> Result<(), ApiError> {
    let tools = body.object("toolConfig").map(|config| config.objects("tools")).unwrap_or_default();
    let messages = body.objects("messages");
    let lists = [tools, body.objects("system")].into_iter();
    let lists: Vec<Vec<Object<'_>>> =
        lists.chain(messages.iter().map(|message| message.objects("content"))).collect();
    if let Some(list) = lists.iter().find(|list| list.first().is_some_and(is_point)) {
        let place = list.first().map(|point| point.path.as_str()).unwrap_or_default();
        return Err(of_the_model(&format!(
            "{place}: a cachePoint block must follow the blocks that are cached"
        )));
    }
    let points: Vec<Object<'_>> =
        lists.iter().flatten().filter_map(|block| block.object("cachePoint")).collect();
    if points.is_empty() {
        return Ok(());
    }
    let is_long = |point: &&Object<'_>| point.str("ttl") == Some("1h");
    if !family.has_cache() || family == Family::Nova && points.iter().any(|it| is_long(&it)) {
        return Err(ApiError::new(
            403,
            "AccessDeniedException",
            "You invoked an unsupported model or your request did not allow prompt caching. See \
             the documentation for more information.",
        ));
    }
    if family == Family::Nova {
        // https://github.com/zeroclaw-labs/zeroclaw/issues/8720, https://github.com/danny-avila/LibreChat/issues/13838
        let pairs = lists.iter().flat_map(|list| list.iter().zip(list.iter().skip(1)));
        let mut misplaced = pairs.filter(|(block, next)| is_point(next) && !block.has("text"));
        if let Some((_, point)) = misplaced.next() {
            return Err(of_the_model(&point.error("cachePoint", Problem::Unknown).message));
        }
    }
    if points.len() > MOST {
        return Err(of_the_model(&format!(
            "A maximum of {MOST} blocks with cache_control may be provided. Found {}.",
            points.len()
        )));
    }
    match points.iter().skip_while(is_long).any(|point| is_long(&point)) {
        true => Err(of_the_model(
            "a ttl='1h' cache_control block must not come after a ttl='5m' cache_control block. \
             Note that blocks are processed in the following order: `tools`, `system`, `messages`.",
        )),
        false => Ok(()),
    }
}

fn is_point(block: &Object<'_>) -> bool {
    block.has("cachePoint")
}
