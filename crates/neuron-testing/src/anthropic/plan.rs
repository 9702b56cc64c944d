//! From a scripted reply to what goes over the wire.

use std::time::Duration;

use bytes::Bytes;
use neuron_types::{CompletionResponse, ProviderError};
use serde_json::Value;

use super::error::ApiError;
use super::response::json_body;
use super::stream::{event_bytes, stream_events};
use crate::Wire;
use crate::loopback::{Plan, ServerReply, Source, Step};
use crate::script::{Asked, Cut, Outcome, Pace};

/// What an answer follows from, besides the reply.
pub(super) struct Call<'a> {
    pub(super) asked: Asked<'a>,
    pub(super) stream: bool,
    pub(super) request_id: &'a str,
    /// For replies that set none.
    pub(super) wire: &'a Wire,
}

/// Plans the answer to a request that passed every check.
pub(super) fn plan_reply(reply: ServerReply, call: &Call<'_>) -> Plan {
    let wire = reply.wire.as_ref().unwrap_or(call.wire);
    let mut headers = reply.headers;
    match reply.source {
        Source::Raw { status, body } => {
            Plan::respond(status, headers, wire.apply(vec![Step::Send(body.into())]))
        }
        Source::Reply(reply) => {
            let (outcome, pace) = reply.resolve(call.asked);
            let delay = pace.delay;
            let plan = match outcome {
                Outcome::Hang => Plan::hang(),
                Outcome::Error(error) => plan_error(&error, headers, call.request_id, wire),
                Outcome::Response(response) if call.stream => {
                    push_headers(&mut headers, EVENT_STREAM, call.request_id);
                    let body = streamed(&response, &pace, call.request_id, wire);
                    Plan::respond(200, headers, wire.apply(body))
                }
                Outcome::Response(response) => {
                    plan_whole(&response, pace, headers, call.request_id, wire)
                }
            };
            plan.after(delay)
        }
    }
}

/// Plans an error before the answer begins. The vendor has no answer for a broken network: the
/// connection is closed.
fn plan_error(
    error: &ProviderError,
    headers: Vec<(String, String)>,
    request_id: &str,
    wire: &Wire,
) -> Plan {
    match error {
        ProviderError::Network(_) => Plan::close(),
        error => plan_api_error(&ApiError::from(error), headers, request_id, wire),
    }
}

pub(super) fn plan_api_error(
    error: &ApiError,
    mut headers: Vec<(String, String)>,
    request_id: &str,
    wire: &Wire,
) -> Plan {
    push_headers(&mut headers, JSON, request_id);
    headers.extend(error.retry_after_header().map(|value| ("retry-after".to_owned(), value)));
    let body = json_step(&error.body(request_id));
    Plan::respond(error.status, headers, wire.apply(vec![body]))
}

/// Plans an answer in one piece. It breaks if its stream would.
fn plan_whole(
    response: &CompletionResponse,
    pace: Pace,
    mut headers: Vec<(String, String)>,
    request_id: &str,
    wire: &Wire,
) -> Plan {
    let cut =
        pace.cut.filter(|(after, _)| *after < stream_events(response, pace.chunk_chars).len());
    let mut body = json_body(response).to_string().into_bytes();
    match cut {
        None => {}
        Some((_, Cut::Hang)) => return Plan::hang(),
        Some((_, Cut::Fail(error))) => {
            return plan_error(&error.into(), headers, request_id, wire);
        }
        Some((_, Cut::End)) => body.truncate(body.len() / 2),
    }
    push_headers(&mut headers, JSON, request_id);
    Plan::respond(200, headers, wire.apply(vec![Step::Send(body.into())]))
}

fn streamed(
    response: &CompletionResponse,
    pace: &Pace,
    request_id: &str,
    wire: &Wire,
) -> Vec<Step> {
    let mut events = stream_events(response, pace.chunk_chars);
    let mut last = None;
    if let Some((after, cut)) = &pace.cut {
        events.truncate(*after);
        match cut {
            Cut::End => {}
            Cut::Hang => last = Some(Step::Hang),
            Cut::Fail(error) => match ProviderError::from(error.clone()) {
                ProviderError::Network(_) => last = Some(Step::Abort),
                error => events.push(ApiError::from(&error).body(request_id)),
            },
        }
    }
    let mut steps = Vec::with_capacity(events.len() + 1);
    for event in &events {
        if pace.event_delay > Duration::ZERO && !steps.is_empty() {
            steps.push(Step::Wait(pace.event_delay));
        }
        steps.push(Step::Send(event_bytes(event, wire).into()));
    }
    steps.extend(last);
    steps
}

const JSON: &str = "application/json";
const EVENT_STREAM: &str = "text/event-stream; charset=utf-8";

fn push_headers(headers: &mut Vec<(String, String)>, content_type: &str, request_id: &str) {
    headers.push(("content-type".into(), content_type.into()));
    headers.push(("request-id".into(), request_id.into()));
}

fn json_step(body: &Value) -> Step {
    Step::Send(Bytes::from(body.to_string()))
}
