//! From a scripted reply to what goes over the wire, for every vendor.

use std::time::Duration;

use neuron_types::ProviderError;
use serde_json::Value;

use super::{Answer, Call, Vendor};
use crate::Wire;
use crate::loopback::{Plan, ServerReply, Source, Step};
use crate::script::{Asked, Cut, Outcome, Pace};

/// A call of a vendor, and what its answer follows from besides the reply.
pub(super) struct Asking<'a, V: Vendor> {
    pub(super) vendor: &'a V,
    pub(super) call: &'a Call<V::Detail>,
    pub(super) asked: Asked<'a>,
    pub(super) request_id: &'a str,
    /// For replies that set none.
    pub(super) wire: &'a Wire,
}

/// Plans the answer to a request that passed every check.
pub(super) fn plan_reply<V: Vendor>(reply: ServerReply, asking: &Asking<'_, V>) -> Plan {
    let wire = reply.wire.as_ref().unwrap_or(asking.wire);
    let sending = Sending { asking, wire, headers: reply.headers };
    match reply.source {
        Source::Raw { status, body } => {
            let body = vec![Step::Send(body.into())];
            Plan::respond(status, sending.headers, wire.apply(body))
        }
        Source::Embeddings(response) => match asking.vendor.embeddings(asking.call, &response) {
            Ok(body) => sending.whole(body.to_string().into_bytes()),
            Err(error) => sending.refusal(&error),
        },
        Source::Reply(reply) => {
            let (outcome, pace) = reply.resolve(asking.asked);
            let delay = pace.delay;
            let plan = match outcome {
                Outcome::Hang => Plan::hang(),
                Outcome::Error(error) => sending.error(&error),
                Outcome::Response(response) => {
                    let answer = Answer {
                        call: asking.call,
                        response: &response,
                        chunk_chars: pace.chunk_chars,
                        request_id: asking.request_id,
                        wire,
                    };
                    match asking.call.stream {
                        true => sending.streamed(&answer, &pace),
                        false => sending.complete(&answer, pace),
                    }
                }
            };
            plan.after(delay)
        }
    }
}

/// Plans the answer to a request that is refused.
pub(super) fn plan_refusal<V: Vendor>(
    vendor: &V,
    error: &V::Error,
    mut headers: Vec<(String, String)>,
    request_id: &str,
    wire: &Wire,
) -> Plan {
    let reply = vendor.error_reply(error, request_id);
    push_headers(&mut headers, JSON, vendor.headers(request_id));
    headers.extend(reply.headers);
    let body = Step::Send(reply.body.to_string().into());
    Plan::respond(reply.status, headers, wire.apply(vec![body]))
}

/// An answer on its way: the call, how bytes are written, and the script's own headers.
struct Sending<'a, V: Vendor> {
    asking: &'a Asking<'a, V>,
    wire: &'a Wire,
    headers: Vec<(String, String)>,
}

impl<V: Vendor> Sending<'_, V> {
    fn refusal(self, error: &V::Error) -> Plan {
        let Asking { vendor, request_id, .. } = self.asking;
        plan_refusal(*vendor, error, self.headers, request_id, self.wire)
    }

    /// Plans an error before the answer begins. No vendor has an answer for a broken network: the
    /// connection is closed.
    fn error(self, error: &ProviderError) -> Plan {
        match error {
            ProviderError::Network(_) => Plan::close(),
            error => {
                let error = self.asking.vendor.error(error);
                self.refusal(&error)
            }
        }
    }

    /// Plans an answer in one piece. It breaks if its stream would.
    fn complete(self, answer: &Answer<'_, V::Detail>, pace: Pace) -> Plan {
        let vendor = self.asking.vendor;
        let mut body = match vendor.body(answer) {
            Ok(body) => body_bytes(&body),
            Err(error) => return self.refusal(&error),
        };
        match pace.cut.filter(|(after, _)| *after < vendor.frames(answer).len()) {
            None => {}
            Some((_, Cut::Hang)) => return Plan::hang(),
            Some((_, Cut::Fail(error))) => return self.error(&error.into()),
            Some((_, Cut::End)) => body.truncate(body.len() / 2),
        }
        self.whole(body)
    }

    fn whole(self, body: Vec<u8>) -> Plan {
        let wire = self.wire;
        Plan::respond(200, self.headers_for(JSON), wire.apply(vec![Step::Send(body.into())]))
    }

    fn streamed(self, answer: &Answer<'_, V::Detail>, pace: &Pace) -> Plan {
        let vendor = self.asking.vendor;
        let mut frames = vendor.frames(answer);
        let mut last = None;
        if let Some((after, cut)) = &pace.cut {
            frames.truncate(*after);
            match cut {
                Cut::End => {}
                Cut::Hang => last = Some(Step::Hang),
                Cut::Fail(error) => match ProviderError::from(error.clone()) {
                    ProviderError::Network(_) => last = Some(Step::Abort),
                    error => {
                        let error = vendor.error(&error);
                        frames.extend(vendor.error_frames(answer, frames.len(), &error));
                    }
                },
            }
        }
        let mut steps = Vec::with_capacity(frames.len() + 1);
        for frame in frames {
            if pace.event_delay > Duration::ZERO && !steps.is_empty() {
                steps.push(Step::Wait(pace.event_delay));
            }
            steps.push(Step::Send(frame.into()));
        }
        steps.extend(last);
        let wire = self.wire;
        Plan::respond(200, self.headers_for(vendor.stream_type()), wire.apply(steps))
    }

    fn headers_for(mut self, content_type: &str) -> Vec<(String, String)> {
        let vendors = self.asking.vendor.headers(self.asking.request_id);
        push_headers(&mut self.headers, content_type, vendors);
        self.headers
    }
}

const JSON: &str = "application/json";

fn push_headers(
    headers: &mut Vec<(String, String)>,
    content_type: &str,
    vendors: Vec<(String, String)>,
) {
    headers.push(("content-type".into(), content_type.into()));
    headers.extend(vendors);
}

fn body_bytes(body: &Value) -> Vec<u8> {
    body.to_string().into_bytes()
}
