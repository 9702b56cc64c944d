//! The scopes of a detector around runs and model calls.

use std::sync::Arc;
use std::time::Duration;

use neuron_types::{
    CompletionResponse, ContentBlock, Operation, OperationKind, OperationScope, Outcome, RequestRef,
};
#[cfg(not(target_family = "wasm"))]
use tokio::time::Instant;
#[cfg(target_family = "wasm")]
use web_time::Instant;

use super::conversations::{Call, RunKey};
use super::prefix::{Followed, Prefix, blocks, messages_json};
use super::report::{CacheMiss, CacheMissCause, CachedModel};
use super::vendor::{self, Removal};
use super::{CacheMissDetector, Shared};

/// Opens the scope of an operation. Returns `None` for an operation that is not watched.
pub(super) fn open(
    detector: &CacheMissDetector,
    operation: &Operation<'_>,
) -> Option<Box<dyn OperationScope>> {
    let (scope, key) = (&operation.scope, RunKey::of(&operation.scope));
    match operation.kind {
        OperationKind::Run { session_id, request } => {
            // An agent inside a tool call has the session of the parent run, but a conversation of its own.
            let session = if scope.within.is_some() { "" } else { session_id };
            let is_compared = session.is_empty() && detector.shared.lock().waits_for(scope.agent);
            let messages = is_compared.then(|| messages_json(request.messages).ok()).flatten();
            detector.shared.lock().begin(key.clone(), session, &messages.unwrap_or_default());
            Some(Box::new(RunScope { shared: Arc::clone(&detector.shared), key }))
        }
        // The response of a replayed call comes from the journal, so its time is unknown and its miss was reported.
        OperationKind::ModelCall { .. } if scope.replaying => {
            detector.shared.lock().take(&key);
            None
        }
        OperationKind::ModelCall { request, .. } => {
            let tools = vendor::tools_in_prompt(scope.provider, *request);
            let request = RequestRef { tools: &tools, ..*request };
            let previous = detector.shared.lock().take(&key);
            let open = match previous {
                None => OpenCall::First(Prefix::of(request).ok()?),
                Some(call) => OpenCall::Next(Box::new(NextCall::of(call, request)?)),
            };
            Some(Box::new(CallScope {
                detector: detector.clone(),
                key,
                turn: scope.turn,
                provider: scope.provider.to_owned(),
                model: request.model_or(scope.model).to_owned(),
                lifetime: vendor::lifetime(request.cache),
                breakpoints: vendor::breakpoints(request),
                started: Instant::now(),
                open: Some(open),
            }))
        }
        _ => None,
    }
}

/// The scope of a run. Its conversation is kept for the next run.
struct RunScope {
    shared: Arc<Shared>,
    key: RunKey,
}

impl OperationScope for RunScope {
    fn around(&mut self, poll: &mut dyn FnMut()) {
        poll();
    }
}

impl Drop for RunScope {
    fn drop(&mut self) {
        self.shared.lock().end(&self.key);
    }
}

/// The scope of a model call.
struct CallScope {
    detector: CacheMissDetector,
    key: RunKey,
    turn: usize,
    provider: String,
    model: String,
    lifetime: Duration,
    breakpoints: usize,
    started: Instant,
    /// `None` after the scope has ended.
    open: Option<OpenCall>,
}

/// The prefix of an open call, and the previous call.
enum OpenCall {
    /// There is no previous call.
    First(Prefix),
    Next(Box<NextCall>),
}

/// The prefix of an open call, compared with the previous call.
struct NextCall {
    followed: Followed,
    previous: Call,
    /// Number of content blocks behind the messages of the previous call.
    new_blocks: usize,
    /// A part of the conversation that the vendor may remove.
    removal: Option<Removal>,
}

impl NextCall {
    /// Returns `None` if the request cannot be serialised.
    fn of(previous: Call, request: RequestRef<'_>) -> Option<Self> {
        let known = previous.prefix.messages;
        let new_blocks = blocks(request.messages.get(known..).unwrap_or_default());
        let followed = previous.prefix.follow(request).ok()?;
        Some(Self { followed, previous, new_blocks, removal: Removal::of(request, known) })
    }

    /// Returns the cause of a miss. The first cause that applies is returned, because the others made no difference.
    fn cause(&self, call: &CallScope, model: &CachedModel) -> CacheMissCause {
        let Self { followed, previous, new_blocks: blocks, removal } = self;
        let after = call.started.saturating_duration_since(previous.started);
        let needs_breakpoints = vendor::needs_breakpoints(&model.provider);
        if after > previous.lifetime {
            CacheMissCause::Expired { after }
        } else if previous.model != *model {
            CacheMissCause::OtherModel { previous: previous.model.clone() }
        } else if previous.is_compacted {
            CacheMissCause::Compacted
        } else if let Followed::Different(prefix) = followed {
            CacheMissCause::Changed(previous.prefix.change(prefix))
        } else if needs_breakpoints && call.breakpoints < previous.breakpoints {
            CacheMissCause::FewerBreakpoints
        } else if needs_breakpoints && *blocks >= vendor::LOOKBACK {
            CacheMissCause::ManyNewBlocks { blocks: *blocks }
        } else if removal.is_some_and(|part| part.is_made_by(&model.provider, &model.model)) {
            CacheMissCause::EditedByVendor
        } else {
            CacheMissCause::Evicted
        }
    }
}

impl CallScope {
    /// Compares the tokens of the response with the previous call, and makes this call the previous one.
    fn answered(&self, open: OpenCall, response: &CompletionResponse) {
        let model = self.answered_by(response);
        let minimum = vendor::minimum(&model.provider);
        let (first, last) = vendor::passes(&response.usage);
        let (mut reports_reads, mut found) = (first.read.is_some(), None);
        let prefix = match open {
            OpenCall::First(prefix) => prefix,
            OpenCall::Next(next) => {
                // Gemini leaves out a number that is zero.
                reports_reads |= next.previous.reports_reads;
                let expected_tokens = next.previous.cached_tokens.min(first.input);
                let read_tokens = first.read.unwrap_or_default();
                if reports_reads && first.input >= minimum && read_tokens < expected_tokens {
                    let RunKey { run_id, agent } = self.key.clone();
                    let (turn, cause) = (self.turn, next.cause(self, &model));
                    let model = model.clone();
                    found = Some(CacheMiss {
                        run_id,
                        turn,
                        agent,
                        model,
                        expected_tokens,
                        read_tokens,
                        cause,
                    });
                }
                next.previous.prefix.followed_by(next.followed)
            }
        };
        // The vendor sends only what follows its summary to the model.
        let is_summary = |block: &ContentBlock| matches!(block, ContentBlock::Compaction { .. });
        let call = Call {
            prefix,
            cached_tokens: last.cached(&model.provider, minimum),
            model,
            reports_reads,
            started: self.started,
            lifetime: self.lifetime,
            breakpoints: self.breakpoints,
            is_compacted: response.message.content.iter().any(is_summary),
        };
        self.detector.shared.lock().set(&self.key, call);
        // Reported last and without the lock, because the callback may take long or panic.
        if let Some(found) = found {
            self.detector.report(&found);
        }
    }

    fn answered_by(&self, response: &CompletionResponse) -> CachedModel {
        let route = response.message.metadata().and_then(|metadata| metadata.route);
        let route = route.unwrap_or_default();
        let or = |text: &str, other: &str| if text.is_empty() { other } else { text }.to_owned();
        CachedModel {
            provider: or(&route.provider, &self.provider),
            model: or(&response.model, &self.model),
            route: route.name,
        }
    }
}

impl OperationScope for CallScope {
    fn around(&mut self, poll: &mut dyn FnMut()) {
        poll();
    }

    fn end(mut self: Box<Self>, outcome: Outcome<'_>) {
        if let Outcome::Response(response) = outcome
            && let Some(open) = self.open.take()
        {
            self.answered(open, response);
        }
    }
}

/// After a failed or cancelled call, the call before it is the previous call again.
impl Drop for CallScope {
    fn drop(&mut self) {
        if let Some(OpenCall::Next(next)) = self.open.take() {
            self.detector.shared.lock().set(&self.key, next.previous);
        }
    }
}
