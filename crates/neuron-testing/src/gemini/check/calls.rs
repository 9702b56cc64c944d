//! Gemini's rules for the order of function calls and function responses.

use super::ApiError;
use super::contents::Content;
use super::wording::{Object, invalid, invalid_at};
use crate::gemini::route::Route;

/// Checks that the content after each content with function calls has exactly one function response for each call, in
/// the order of the calls, and no other parts.
pub(super) fn check_calls(contents: &[Content<'_>], route: &Route) -> Result<(), ApiError> {
    let mut open = Vec::new();
    let mut follows_user = false;
    for content in contents {
        let (calls, responses) =
            (content.having("functionCall"), content.having("functionResponse"));
        let is_call_turn = !calls.is_empty();
        if is_call_turn && !(content.is_model && follows_user) {
            return Err(invalid(CALL_TURN));
        }
        if !responses.is_empty() && (content.is_model || open.is_empty()) {
            return Err(invalid(RESPONSE_TURN));
        }
        if responses.len() != open.len() {
            return Err(invalid(NUMBER_OF_RESPONSES));
        }
        // Gemini accepts such a content, but takes its other parts for the words of the model.
        if !responses.is_empty() && content.parts.len() > responses.len() {
            return Err(invalid(MIXED_TURN));
        }
        open.iter()
            .zip(&responses)
            .try_for_each(|(call, response)| check_pair(call, response, route))?;
        open = calls;
        follows_user = !content.is_model;
    }
    match open.is_empty() {
        true => Ok(()),
        false => Err(invalid(NUMBER_OF_RESPONSES)),
    }
}

const CALL_TURN: &str = "Please ensure that function call turn comes immediately after a user turn \
                         or after a function response turn.";
const RESPONSE_TURN: &str =
    "Please ensure that function response turn comes immediately after a function call turn.";
const NUMBER_OF_RESPONSES: &str = "Please ensure that the number of function response parts is \
                                   equal to the number of function call parts of the function \
                                   call turn.";
const MIXED_TURN: &str =
    "Please ensure that function response turn has only function response parts.";

/// Checks that a function response has the name and the id of its call.
fn check_pair(call: &Object<'_>, response: &Object<'_>, route: &Route) -> Result<(), ApiError> {
    if call.str("name") != response.str("name") {
        let what = "function_response.name does not match function_call.name";
        return Err(invalid_at(&response.at("name"), what));
    }
    let (call_id, id) = (call.str("id"), response.str("id"));
    match route.has_signatures() && call_id != id {
        true => Err(invalid("functionResponse.id does not match functionCall.id")),
        false => Ok(()),
    }
}
