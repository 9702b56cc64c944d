//! The encoding and the chunk boundaries of a response. A client must accept every variant.

use bytes::{Bytes, BytesMut};

use super::Step;

/// The encoding and the chunk boundaries of a response.
///
/// By default a streamed body has one chunk for each event, and a body that is not streamed has one chunk.
///
/// # Example: every way to split a stream in two
///
/// ```
/// use neuron_testing::anthropic::sse_bytes;
/// use neuron_testing::{Reply, Wire};
/// # use neuron_types::*;
/// # let response = CompletionResponse {
/// #     id: "msg_1".into(), model: "m".into(), message: Message::assistant("hi"),
/// #     usage: TokenUsage::default(), stop_reason: StopReason::EndTurn,
/// # };
/// let length = sse_bytes(&response, 16, &Wire::default()).len();
/// let replies = (1..length).map(|at| Reply::from(response.clone()).over(Wire::default().split_at(at)));
/// assert_eq!(replies.count(), length - 1);
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[must_use]
pub struct Wire {
    split: Option<Split>,
    cut: Option<(usize, CutKind)>,
    pub(super) crlf: bool,
    pub(super) no_space: bool,
    pub(crate) comments: bool,
    pub(crate) padded: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Split {
    Every(usize),
    At(usize),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CutKind {
    Abort,
    End,
}

impl Wire {
    /// Sends the body in chunks of `bytes` bytes. Zero means 1.
    pub fn split_every(self, bytes: usize) -> Self {
        Self { split: Some(Split::Every(bytes.max(1))), ..self }
    }

    /// Sends the body in two chunks. The first chunk has `bytes` bytes.
    pub fn split_at(self, bytes: usize) -> Self {
        Self { split: Some(Split::At(bytes)), ..self }
    }

    /// Sends the first `bytes` bytes of the body, then closes the connection. The client gets an error.
    ///
    /// Has no effect if the body has `bytes` bytes or fewer.
    pub fn cut_at(self, bytes: usize) -> Self {
        Self { cut: Some((bytes, CutKind::Abort)), ..self }
    }

    /// Sends only the first `bytes` bytes of the body, and ends the body normally. The client gets no error.
    pub fn end_at(self, bytes: usize) -> Self {
        Self { cut: Some((bytes, CutKind::End)), ..self }
    }

    /// Ends the lines of an event stream with CR LF.
    pub fn crlf(self) -> Self {
        Self { crlf: true, ..self }
    }

    /// Writes `data:` and `event:` without the space after the colon.
    pub fn no_space(self) -> Self {
        Self { no_space: true, ..self }
    }

    /// Writes a comment line before every event of a stream.
    pub fn comments(self) -> Self {
        Self { comments: true, ..self }
    }

    /// Inserts spaces before the last brace of the JSON of every event. Vendors pad their JSON to hide the lengths of
    /// tokens.
    pub fn padded(self) -> Self {
        Self { padded: true, ..self }
    }

    /// Applies the settings to a body, which is first cut and then split into chunks. `steps` and the result are the
    /// steps that send the body.
    ///
    /// A [`Step::Wait`] keeps its position. Bytes before a wait and bytes after it are never joined in one chunk.
    pub(crate) fn apply(&self, steps: Vec<Step>) -> Vec<Step> {
        // The position of a cut refers to the whole body, so the cut is applied before the split.
        let steps = match self.cut {
            Some((bytes, kind)) => cut(steps, bytes, kind),
            None => steps,
        };
        match self.split {
            Some(split) => split_steps(steps, split),
            None => steps,
        }
    }
}

/// Keeps the first `bytes` bytes of a body and removes the rest. If anything was removed, `kind` determines whether the
/// body then ends normally or the connection is closed.
fn cut(steps: Vec<Step>, bytes: usize, kind: CutKind) -> Vec<Step> {
    let mut left = bytes;
    let mut kept = Vec::with_capacity(steps.len());
    for step in steps {
        match step {
            Step::Send(mut chunk) if chunk.len() > left => {
                chunk.truncate(left);
                kept.extend((!chunk.is_empty()).then_some(Step::Send(chunk)));
                kept.extend((kind == CutKind::Abort).then_some(Step::Abort));
                return kept;
            }
            Step::Send(chunk) => {
                left -= chunk.len();
                kept.push(Step::Send(chunk));
            }
            other => kept.push(other),
        }
    }
    kept
}

/// Joins consecutive chunks, then splits them at the boundaries that `split` sets.
fn split_steps(steps: Vec<Step>, split: Split) -> Vec<Step> {
    let mut result = Vec::new();
    let mut sent = 0;
    let mut joined = BytesMut::new();
    let mut flush = |joined: &mut BytesMut, result: &mut Vec<Step>| {
        let mut rest: Bytes = joined.split().freeze();
        while !rest.is_empty() {
            let room = match split {
                Split::Every(bytes) => bytes - sent % bytes,
                Split::At(bytes) if sent < bytes => bytes - sent,
                Split::At(_) => rest.len(),
            };
            let chunk = rest.split_to(room.min(rest.len()));
            sent += chunk.len();
            result.push(Step::Send(chunk));
        }
    };
    for step in steps {
        match step {
            Step::Send(chunk) => joined.extend_from_slice(&chunk),
            other => {
                flush(&mut joined, &mut result);
                result.push(other);
            }
        }
    }
    flush(&mut joined, &mut result);
    result
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn send(text: &'static str) -> Step {
        Step::Send(Bytes::from_static(text.as_bytes()))
    }

    #[track_caller]
    fn check(wire: &Wire, steps: &[Step], expected: &[Step]) {
        assert_eq!(wire.apply(steps.to_vec()), expected);
    }

    #[test]
    fn apply_splits_and_cuts_at_byte_offsets() {
        let wait = || Step::Wait(Duration::from_secs(1));
        let steps = [send("abc"), send("de"), wait(), send("f")];
        let wire = Wire::default;
        check(&wire(), &steps, &steps);
        check(
            &wire().split_every(2),
            &steps,
            &[send("ab"), send("cd"), send("e"), wait(), send("f")],
        );
        check(&wire().split_at(4), &steps, &[send("abcd"), send("e"), wait(), send("f")]);
        check(&wire().cut_at(4), &steps, &[send("abc"), send("d"), Step::Abort]);
        check(&wire().end_at(3), &steps, &[send("abc")]);
        check(&wire().cut_at(0), &steps, &[Step::Abort]);
        check(&wire().cut_at(6), &steps, &steps);
        check(&wire().cut_at(4).split_every(3), &steps, &[send("abc"), send("d"), Step::Abort]);
    }

    #[test]
    fn apply_keeps_all_bytes_for_every_split() {
        let text = "event: a\r\ndata: é\r\n\r\n";
        for bytes in 0..=text.len() + 1 {
            for wire in [Wire::default().split_every(bytes), Wire::default().split_at(bytes)] {
                let steps = wire.apply(vec![send("event: a\r\n"), send("data: é\r\n\r\n")]);
                let joined: Vec<u8> = steps
                    .iter()
                    .flat_map(|step| match step {
                        Step::Send(chunk) => chunk.to_vec(),
                        other => panic!("{other:?}"),
                    })
                    .collect();
                assert_eq!(joined, text.as_bytes());
            }
        }
    }
}
