//! From a scripted reply to the bytes on the wire, for every vendor.

use std::time::Duration;

use neuron_types::ProviderError;

use super::{Answer, Call, Vendor};
use crate::Wire;
use crate::loopback::{self, Plan, Source, Step};
use crate::script::{Asked, Cut, Outcome, Pace};

/// A response in the making.
pub(super) struct Responder<'a, V> {
    pub(super) vendor: &'a V,
    pub(super) request_id: &'a str,
    pub(super) wire: &'a Wire,
    /// The script's own headers.
    pub(super) headers: Vec<(String, String)>,
}

const JSON: &str = "application/json";

impl<V: Vendor> Responder<'_, V> {
    /// Plans the response to a request that passed every check.
    pub(super) fn reply(self, source: Source, call: &Call<V::Detail>, asked: Asked<'_>) -> Plan {
        match source {
            Source::Raw { status, body } => {
                let body = vec![Step::Send(body.into())];
                let body = self.wire.apply(body);
                loopback::Answer::Respond { status, headers: self.headers, body }.into()
            }
            Source::Embeddings(mut response) => {
                if response.model.is_empty() {
                    response.model.clone_from(&call.model);
                }
                match self.vendor.embeddings(call, &response) {
                    Ok(body) => self.whole(body.to_string().into_bytes()),
                    Err(error) => self.refusal(&error),
                }
            }
            Source::Reply(reply) => {
                let (outcome, pace) = reply.resolve(asked);
                let delay = pace.delay;
                let plan: Plan = match outcome {
                    Outcome::Hang => loopback::Answer::Hang.into(),
                    Outcome::Error(error) => self.error(&error),
                    Outcome::Response(response) => {
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
                plan.after(delay)
            }
        }
    }

    /// Plans the response to a request that is refused.
    pub(super) fn refusal(self, error: &V::Error) -> Plan {
        let reply = self.vendor.error_reply(error, self.request_id);
        let body = vec![Step::Send(reply.body.to_string().into())];
        self.respond(reply.status, JSON, reply.headers, body)
    }

    /// Plans an error before the response begins. A broken network has no response: the connection
    /// is closed.
    fn error(self, error: &ProviderError) -> Plan {
        match error {
            ProviderError::Network(_) => loopback::Answer::Close.into(),
            error => {
                let error = self.vendor.error(error);
                self.refusal(&error)
            }
        }
    }

    /// Plans a response in one piece. It breaks if its stream would.
    fn complete(self, answer: &Answer<'_, V::Detail>, pace: Pace) -> Plan {
        let mut body = match self.vendor.body(answer) {
            Ok(body) => body.to_string().into_bytes(),
            Err(error) => return self.refusal(&error),
        };
        match pace.cut.filter(|(after, _)| *after < self.vendor.frames(answer).len()) {
            None => {}
            Some((_, Cut::Hang)) => return loopback::Answer::Hang.into(),
            Some((_, Cut::Fail(error))) => return self.error(&error.into()),
            Some((_, Cut::End)) => body.truncate(body.len() / 2),
        }
        self.whole(body)
    }

    fn whole(self, body: Vec<u8>) -> Plan {
        self.respond(200, JSON, Vec::new(), vec![Step::Send(body.into())])
    }

    fn streamed(self, answer: &Answer<'_, V::Detail>, pace: Pace) -> Plan {
        let mut frames = self.vendor.frames(answer);
        let mut last = None;
        if let Some((after, cut)) = pace.cut {
            frames.truncate(after);
            match cut {
                Cut::End => {}
                Cut::Hang => last = Some(Step::Hang),
                Cut::Fail(error) => match ProviderError::from(error) {
                    ProviderError::Network(_) => last = Some(Step::Abort),
                    error => {
                        let error = self.vendor.error(&error);
                        frames.extend(self.vendor.error_frames(answer, frames.len(), &error));
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
        let content_type = self.vendor.stream_type();
        self.respond(200, content_type, Vec::new(), steps)
    }

    fn respond(
        self,
        status: u16,
        content_type: &str,
        others: Vec<(String, String)>,
        body: Vec<Step>,
    ) -> Plan {
        let mut headers = self.headers;
        headers.push(("content-type".into(), content_type.into()));
        headers.extend(self.vendor.headers(self.request_id));
        headers.extend(others);
        loopback::Answer::Respond { status, headers, body: self.wire.apply(body) }.into()
    }
}
