//! The scopes of a detector around runs and model calls.

use std::sync::Arc;
use std::time::Duration;

use neuron_types::{
    CompletionResponse, ContentBlock, HookScope, Operation, OperationKind, OperationScope, Outcome,
    RequestRef,
};

use super::clock::Instant;
use super::conversations::{Call, Facts, RunKey};
use super::prefix::{Followed, Prefix, blocks, messages_json};
use super::report::{CacheMiss, CachedModel};
use super::vendor::{self, Removal};
use super::{CacheMissDetector, Shared, miss};

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
            let messages = messages.unwrap_or_default();
            detector.shared.lock().begin(key.clone(), session, &messages);
            let (shared, max_bytes) = (Arc::clone(&detector.shared), detector.max_idle_bytes);
            Some(Box::new(RunScope { shared, max_bytes, key }))
        }
        // The response of a replayed call comes from the journal, so its time is unknown and its miss was reported.
        OperationKind::ModelCall { .. } if scope.replaying => {
            detector.shared.lock().take(&key);
            None
        }
        OperationKind::ModelCall { request, .. } => {
            Some(Box::new(CallScope::open(detector, scope, key, *request)?))
        }
        _ => None,
    }
}

/// The scope of a run. Its conversation is kept for the next run.
struct RunScope {
    shared: Arc<Shared>,
    max_bytes: usize,
    key: RunKey,
}

impl OperationScope for RunScope {
    fn around(&mut self, poll: &mut dyn FnMut()) {
        poll();
    }
}

impl Drop for RunScope {
    fn drop(&mut self) {
        self.shared.lock().end(&self.key, self.max_bytes);
    }
}

/// The scope of a model call.
struct CallScope {
    detector: CacheMissDetector,
    key: RunKey,
    info: CallInfo,
    started: Instant,
    /// `None` after the scope has ended.
    open: Option<OpenCall>,
}

/// The place of a call in its run, and the model that was asked.
struct CallInfo {
    run_id: String,
    turn: usize,
    agent: String,
    provider: String,
    model: String,
    cache_lifetime: Duration,
    breakpoints: usize,
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
    previous: Facts,
    is_compacted: bool,
    /// Number of content blocks behind the messages of the previous call.
    new_blocks: usize,
    /// A part of the conversation that the vendor may remove.
    removal: Option<Removal>,
}

impl CallScope {
    /// Takes the previous call of the run. Returns `None` if the request cannot be serialised.
    fn open(
        detector: &CacheMissDetector,
        scope: &HookScope<'_>,
        key: RunKey,
        request: RequestRef<'_>,
    ) -> Option<Self> {
        let tools = vendor::tools_in_prompt(scope.provider, request);
        let request = RequestRef { tools: &tools, ..request };
        let (previous, is_compacted) = detector.shared.lock().take(&key);
        let open = match previous {
            None => OpenCall::First(Prefix::of(request).ok()?),
            Some(Call { prefix, facts }) => {
                let new = request.messages.get(prefix.messages()..).unwrap_or_default();
                let new_blocks = blocks(new);
                let removal = Removal::of(request, prefix.messages());
                let followed = prefix.follow(request).ok()?;
                let previous = facts;
                OpenCall::Next(Box::new(NextCall {
                    followed,
                    previous,
                    is_compacted,
                    new_blocks,
                    removal,
                }))
            }
        };
        let model = request.model_or(scope.model);
        let info = CallInfo {
            run_id: scope.run_id.to_owned(),
            turn: scope.turn,
            agent: scope.agent.to_owned(),
            provider: scope.provider.to_owned(),
            model: model.to_owned(),
            cache_lifetime: detector.lifetime.unwrap_or_else(|| vendor::lifetime(request.cache)),
            breakpoints: vendor::breakpoints(request),
        };
        let (detector, started) = (detector.clone(), Instant::now());
        Some(Self { detector, key, info, started, open: Some(open) })
    }

    /// Compares the tokens of the response with the previous call, and makes this call the previous one.
    fn answered(&mut self, open: OpenCall, response: &CompletionResponse) {
        let model = self.model(response);
        let minimum =
            self.detector.minimum_tokens.unwrap_or_else(|| vendor::minimum(&model.provider));
        let (first, last) = vendor::passes(&response.usage);
        let (mut reports_reads, mut found) = (first.read().is_some(), None);
        let prefix = match open {
            OpenCall::First(prefix) => prefix,
            OpenCall::Next(next) => {
                let NextCall { followed, previous, is_compacted, new_blocks, removal } = *next;
                // Gemini leaves out a number that is zero.
                reports_reads |= previous.reports_reads;
                let expected = previous.cached_tokens.min(first.input());
                let read = first.read().unwrap_or_default();
                if reports_reads && first.input() >= minimum && read < expected {
                    let next = miss::Next {
                        model: &model,
                        started: self.started,
                        is_compacted,
                        new_blocks,
                        is_edited: removal.is_some_and(|removal| {
                            removal.is_made_by(&model.provider, &model.model)
                        }),
                        breakpoints: self.info.breakpoints,
                        excerpt_bytes: self.detector.excerpt_bytes,
                    };
                    found = Some(CacheMiss {
                        run_id: self.info.run_id.clone(),
                        turn: self.info.turn,
                        agent: self.info.agent.clone(),
                        model: model.clone(),
                        expected_tokens: expected,
                        read_tokens: read,
                        cause: miss::cause(&previous, &followed, &next),
                    });
                }
                followed.into_prefix()
            }
        };
        let facts = Facts {
            cached_tokens: last.cached(&model.provider, minimum),
            model,
            reports_reads,
            started: self.started,
            lifetime: self.info.cache_lifetime,
            breakpoints: self.info.breakpoints,
        };
        // The vendor sends only what follows its summary to the model.
        let is_summary = |block: &ContentBlock| matches!(block, ContentBlock::Compaction { .. });
        let is_compacted = response.message.content.iter().any(is_summary);
        self.detector.shared.lock().set(&self.key, Call { prefix, facts }, is_compacted);
        // Reported last and without the lock, because the callback may take long or panic.
        if let Some(found) = found {
            self.detector.report(&found);
        }
    }

    /// Returns the model that answered.
    fn model(&self, response: &CompletionResponse) -> CachedModel {
        let route = response.message.metadata().and_then(|metadata| metadata.route);
        let route = route.unwrap_or_default();
        let or = |text: &str, other: &str| match text {
            "" => other.to_owned(),
            text => text.to_owned(),
        };
        CachedModel {
            provider: or(&route.provider, &self.info.provider),
            model: or(&response.model, &self.info.model),
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
            let NextCall { followed, previous, is_compacted, .. } = *next;
            let call = Call { prefix: followed.into_previous(), facts: previous };
            self.detector.shared.lock().set(&self.key, call, is_compacted);
        }
    }
}
