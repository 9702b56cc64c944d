//! Converts a scripted reply to the steps that the server runs on the wire, for every vendor.

use std::sync::Arc;

use bytes::Bytes;
use neuron_types::ProviderError;
use serde_json::Value;

use super::{Answer, Call, Rules, Vendor};
use crate::loopback::{Plan, Source, Step};
use crate::queue::Queue;
use crate::script::{Asked, Cut, Pace};
use crate::{RecordedRequest, Reply, ServerReply, Wire};

/// Checks each request of a server, and plans its response.
pub(super) struct Desk<V> {
    pub(super) vendor: Arc<V>,
    pub(super) script: Arc<Queue<ServerReply>>,
    pub(super) rules: Rules,
    pub(super) wire: Wire,
}

impl<V: Vendor> Desk<V> {
    /// Plans the response to `request`. A request that the vendor rejects gets an error, and takes no reply from the
    /// script.
    pub(super) fn plan(&self, request: &RecordedRequest, request_id: &str) -> Plan {
        let vendor = &*self.vendor;
        let mut responder =
            Responder { vendor, request_id, wire: &Wire::default(), headers: Vec::new() };
        // The check comes before `take`, so that a rejected request takes no reply from the script.
        let call = match vendor.check(request, &self.rules) {
            Ok(call) => call,
            Err(error) => return responder.refusal(&error),
        };
        let (number, reply) = match self.script.take() {
            Ok(taken) => taken,
            Err(exhausted) => {
                let message = format!("{exhausted}; {}", last_words(request));
                return responder.refusal(&vendor.error(&ProviderError::InvalidRequest(message)));
            }
        };
        responder.wire = reply.wire.as_ref().unwrap_or(&self.wire);
        responder.headers = reply.headers;
        match reply.source {
            Source::Raw { status, body } => responder.raw(status, vec![send(body)]),
            Source::Embeddings(mut response) => {
                if response.model.is_empty() {
                    response.model.clone_from(&call.model);
                }
                match vendor.embeddings(&call, &response) {
                    Ok(body) => responder.whole(body.to_string().into_bytes()),
                    Err(error) => responder.refusal(&error),
                }
            }
            Source::Reply(reply) => {
                let prompt_chars = request.body.len();
                let asked = Asked { call: number, model: &call.model, prompt_chars };
                responder.reply(*reply, &call, asked)
            }
        }
    }
}

/// Describes the last message of a request, for the error text if the script has no reply left.
fn last_words(request: &RecordedRequest) -> String {
    let body = request.json.as_ref();
    let field = |key: &str| body.and_then(|body| body.get(key));
    // The Responses API and embeddings have their input in `input`, and Gemini in `contents` or `requests`.
    let keys = ["messages", "input", "contents", "requests"];
    let asked = keys.into_iter().find_map(field);
    let last = match asked {
        Some(Value::Array(list)) => list.last(),
        other => other,
    };
    format!("its last message is {}", last.map(Value::to_string).unwrap_or_default())
}

/// Plans the response to one request.
struct Responder<'a, V> {
    vendor: &'a V,
    request_id: &'a str,
    wire: &'a Wire,
    /// The headers of the scripted reply.
    headers: Vec<(String, String)>,
}

const JSON: &str = "application/json";

impl<V: Vendor> Responder<'_, V> {
    /// Plans the response for a [`Reply`] of the script.
    fn reply(self, reply: Reply, call: &Call<V::Detail>, asked: Asked<'_>) -> Plan {
        let (response, pace) = reply.resolve(asked);
        let delay = pace.delay;
        let mut plan = match response {
            Err(cut) => self.broken(cut),
            Ok(response) => {
                let answer = Answer {
                    call,
                    response: &response,
                    chunk_chars: pace.chunk_chars,
                    request_id: self.request_id,
                    wire: self.wire,
                };
                match call.stream {
                    true => self.streamed(&answer, pace),
                    false => self.complete(&answer, pace),
                }
            }
        };
        if !delay.is_zero() {
            plan.before.insert(0, Step::Wait(delay));
        }
        plan
    }

    /// Plans the error response to a request.
    fn refusal(self, error: &V::Error) -> Plan {
        let reply = self.vendor.error_reply(error, self.request_id);
        self.respond(reply.status, JSON, reply.headers, vec![send(reply.body.to_string())])
    }

    /// Plans a response that fails or hangs before its first byte of content.
    fn broken(self, cut: Cut) -> Plan {
        match cut {
            Cut::Hang => Plan::no_response(Step::Hang),
            Cut::End => Plan::no_response(Step::Abort),
            Cut::Fail(error) => match ProviderError::from(error) {
                // A network error has no response, so the connection is closed.
                ProviderError::Network(_) => Plan::no_response(Step::Abort),
                error => {
                    let error = self.vendor.error(&error);
                    self.refusal(&error)
                }
            },
        }
    }

    /// Plans a response that is not streamed. The response breaks if a stream of the same reply would break.
    fn complete(self, answer: &Answer<'_, V::Detail>, pace: Pace) -> Plan {
        let mut body = match self.vendor.body(answer) {
            Ok(body) => body.to_string().into_bytes(),
            Err(error) => return self.refusal(&error),
        };
        match pace.cut.filter(|(after, _)| *after < self.vendor.frames(answer).len()) {
            None => {}
            // A body has no events to count, so half of it is sent.
            Some((_, Cut::End)) => body.truncate(body.len() / 2),
            Some((_, cut)) => return self.broken(cut),
        }
        self.whole(body)
    }

    /// Plans a complete JSON response with status 200.
    fn whole(self, body: Vec<u8>) -> Plan {
        self.respond(200, JSON, Vec::new(), vec![send(body)])
    }

    /// Plans a streamed response, with a wait between its events if the reply has an event delay.
    fn streamed(self, answer: &Answer<'_, V::Detail>, pace: Pace) -> Plan {
        let mut frames = self.vendor.frames(answer);
        let mut last = None;
        if let Some((after, cut)) = pace.cut {
            frames.truncate(after);
            match cut {
                Cut::End => {}
                Cut::Hang => last = Some(Step::Hang),
                Cut::Fail(error) => match ProviderError::from(error) {
                    // No vendor has an event for a network error, so the connection is closed.
                    ProviderError::Network(_) => last = Some(Step::Abort),
                    error => {
                        let error = self.vendor.error(&error);
                        frames.extend(self.vendor.error_frames(answer, frames.len(), &error));
                    }
                },
            }
        }
        let wait = Some(pace.event_delay).filter(|delay| !delay.is_zero()).map(Step::Wait);
        let frames = frames.into_iter().enumerate();
        let steps = frames.flat_map(|(index, frame)| {
            wait.clone().filter(|_| index > 0).into_iter().chain([send(frame)])
        });
        let steps = steps.chain(last).collect();
        let content_type = self.vendor.stream_type();
        self.respond(200, content_type, Vec::new(), steps)
    }

    /// Plans a response with the headers of the scripted reply, the content type, the vendor's headers and `others`.
    fn respond(
        mut self,
        status: u16,
        content_type: &str,
        others: Vec<(String, String)>,
        body: Vec<Step>,
    ) -> Plan {
        self.headers.push(("content-type".into(), content_type.into()));
        self.headers.extend(self.vendor.headers(self.request_id));
        self.headers.extend(others);
        self.raw(status, body)
    }

    /// Plans a response with this status, this body and the headers in `self.headers`. Adds no headers of the vendor.
    fn raw(self, status: u16, body: Vec<Step>) -> Plan {
        Plan { before: Vec::new(), status, headers: self.headers, body: self.wire.apply(body) }
    }
}

fn send(bytes: impl Into<Bytes>) -> Step {
    Step::Send(bytes.into())
}
