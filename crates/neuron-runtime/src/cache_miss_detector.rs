//! A hook that reports model calls that should have been read from the vendor's prompt cache
//! ([`CacheMissDetector`]).

mod conversations;
mod prefix;
mod report;
mod scopes;
#[cfg(test)]
mod tests;
mod vendor;

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use neuron_types::{
    HookAction, HookAttachment, HookError, HookEvent, HookScope, ObservabilityHook, Operation,
    OperationScope, WasmCompatSend, WasmCompatSync,
};

use conversations::{Conversations, RunKey};
pub use report::{CacheMiss, CacheMissCause, CachedModel, PrefixChange, PrefixPart};

/// Reports model calls that should have been read from the vendor's prompt cache, with the first byte that differs from
/// the previous request. Add it to the agent as a hook.
///
/// Each miss is logged with `tracing`, and passed to the callback of [`on_miss`](Self::on_miss). Misses that are
/// [usual](CacheMissCause::is_usual) are logged at level `DEBUG`, all others at level `WARN`. The log names the part of
/// the request and the byte, and quotes neither prompts nor messages. No call is changed, delayed or repeated.
///
/// # Expected tokens
///
/// The detector compares each call with the previous call of its conversation. A call that read fewer tokens from the
/// cache than the following minimum is a miss.
///
/// | vendor | minimum |
/// |---|---|
/// | Anthropic and Bedrock, which cache what a breakpoint marks | the tokens that the previous call read and wrote |
/// | OpenAI, Azure, Gemini, DeepSeek, xAI and Ollama | half of the prompt of the previous call |
/// | all others | the same, but only if the previous call read or wrote cached tokens |
///
/// Vendors that cache without breakpoints cache blocks of tokens and route calls by load. Therefore half of the prompt
/// suffices.
///
/// - A call cannot read more than its own prompt. A prompt of less than 1,024 tokens (Gemini: 4,096) is never a miss.
/// - After an hour, if the request's [cache breakpoint](neuron_types::RequestRef::cache) has this lifetime, otherwise
///   after five minutes, a miss has the cause [`Expired`](CacheMissCause::Expired). The time counts from the start of
///   the previous call.
/// - A response without [`cache_read_tokens`](neuron_types::TokenUsage::cache_read_tokens) is only judged if an earlier
///   response of the conversation reported them. Gemini leaves out the number if it is zero.
/// - Failed and cancelled calls are ignored. The next call is compared with the call before them.
/// - The first call of a conversation is never a miss, even if another conversation has the same system prompt.
/// - Anthropic may remove tool results and thinking on its server. A miss after such an
///   [edit](CacheMissCause::EditedByVendor) is usual.
///
/// # Comparison
///
/// The requests are compared as the model receives them, behind all layers of the agent. The canonical JSON of a
/// request is `{"tools":[…],"system":[…],"settings":{…},"messages":[…`, in this order for all vendors.
///
/// | field | content |
/// |---|---|
/// | `tools` | `name`, `description` and `input_schema` of each tool |
/// | `system` | the texts of the system prompt |
/// | `settings` | `response_format`, `tool_choice`, `thinking`, `reasoning_effort`, `context_management`, `extra` |
/// | `messages` | `role` and `content` of each message, as in a stored conversation |
///
/// Left out are cache breakpoints, other settings, and marker blocks such as the metadata of a response, because they
/// do not change what vendors cache. Tools that a vendor [searches](neuron_types::RequestRef::deferred_tools) are left
/// out too, except their names and descriptions for OpenAI. The order of the fields in a JSON value counts.
///
/// A changed request is only reported if the call also read too few tokens. The cause is then the first change, even if
/// the vendor ignores it.
///
/// # Conversations
///
/// - The calls of one run belong to one conversation.
/// - A run with a session id continues the conversation of the last run with this session and agent.
/// - A run without a session id continues a conversation of the same agent if it starts with all messages of that
///   conversation's last request, and has further messages. If the application changed earlier messages between two runs,
///   the run is a new conversation. Set a session id ([`ToolContext::session_id`](neuron_types::ToolContext::session_id))
///   to detect such changes.
/// - [Sub-agents](neuron_types::AgentTool) inherit the detector with the other hooks. Each has its own conversation.
/// - Any number of agents and runs can share the detector. Clones share the conversations and the callback.
///
/// The calls that a durable engine replays are neither judged nor compared, because the time of the recorded call is
/// unknown. The second call after a replay is judged again.
///
/// # Cost
///
/// For each conversation of a run, the detector holds the JSON of the last request. It also holds at most 64 MiB for the
/// conversations between two runs, and at most 10,000 of them. It keeps those that were used last. The bytes are needed
/// to find the first byte that differs. Hashes would only find the part that differs.
///
/// A call serialises the tools, the system prompt and the messages that are new since the previous call, so the cost of a
/// call does not depend on the length of the conversation. All messages are serialised and compared in the first call of
/// a run, after a change before the messages, and if a [layer](neuron_types::ModelLayer) replaced the messages.
///
/// # Example
///
/// ```
/// use neuron_loop::{Agent, Conversation};
/// use neuron_runtime::{CacheMissCause, CacheMissDetector, PrefixPart};
/// # use neuron_testing::{Reply, ScriptedProvider};
/// # use neuron_types::TokenUsage;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), neuron_loop::LoopError> {
/// # let usage = |read| TokenUsage { input_tokens: 5_000, cache_read_tokens: Some(read), ..Default::default() };
/// # let reply = |text: &str, read| Reply::text(text).usage(usage(read));
/// # let provider = ScriptedProvider::new([reply("Hi.", 4_000), reply("It is 10:05.", 0)]);
/// let (sender, misses) = std::sync::mpsc::channel();
/// let detector = CacheMissDetector::new().on_miss(move |miss| {
///     let _ = sender.send(miss.clone());
/// });
///
/// // The system prompt contains the time, so it differs in each run.
/// let mut conversation = Conversation::new();
/// for (time, question) in [("10:04", "Hello"), ("10:05", "What time is it?")] {
///     let agent = Agent::builder(provider.clone())
///         .system_prompt(format!("Be brief. It is {time}."))
///         .hook(detector.clone())
///         .build();
///     agent.run(&mut conversation, question).await?;
/// }
///
/// let miss = misses.try_recv().unwrap();
/// let CacheMissCause::Changed(change) = miss.cause else { panic!("{miss:?}") };
/// assert_eq!(change.part, PrefixPart::System);
/// assert_eq!((&*change.path, change.offset_in_value), ("system[0]", "Be brief. It is 10:0".len()));
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct CacheMissDetector {
    on_miss: Option<Arc<dyn OnMiss>>,
    shared: Arc<Shared>,
    attachment: HookAttachment,
}

/// The conversations that all clones of a detector share.
struct Shared(Mutex<Conversations>);

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Conversations> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl CacheMissDetector {
    /// Creates a detector that logs misses.
    #[must_use]
    pub fn new() -> Self {
        Self {
            on_miss: None,
            shared: Arc::new(Shared(Mutex::new(Conversations::new()))),
            attachment: HookAttachment::default(),
        }
    }

    /// Sets a callback that receives each miss. It runs between the model call and the rest of the turn, so it must not
    /// block. Default: none.
    #[must_use]
    pub fn on_miss(
        self,
        callback: impl Fn(&CacheMiss) + WasmCompatSend + WasmCompatSync + 'static,
    ) -> Self {
        Self { on_miss: Some(Arc::new(callback)), ..self }
    }

    /// Logs a miss and passes it to the callback.
    fn report(&self, miss: &CacheMiss) {
        let CacheMiss { run_id, turn, agent, model, expected_tokens, read_tokens, cause } = miss;
        let CachedModel { route, provider, model } = model;
        // The events have no parent span, because span exporters export all events within a span.
        macro_rules! log {
            ($level:ident) => {
                tracing::$level!(
                    parent: None,
                    run_id,
                    turn,
                    agent,
                    route,
                    provider,
                    model,
                    expected_tokens,
                    read_tokens,
                    %cause,
                    "a model call missed the vendor's prompt cache"
                )
            };
        }
        match cause.is_usual() {
            true => log!(debug),
            false => log!(warn),
        }
        if let Some(on_miss) = &self.on_miss {
            on_miss.call(miss);
        }
    }
}

impl Default for CacheMissDetector {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for CacheMissDetector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CacheMissDetector")
            .field("on_miss", &self.on_miss.is_some())
            .finish_non_exhaustive()
    }
}

/// Watches runs and model calls with scopes, and compactions with an event.
impl ObservabilityHook for CacheMissDetector {
    async fn on_event(&self, event: HookEvent<'_>) -> Result<HookAction, HookError> {
        self.on_event_in(event, &HookScope::default()).await
    }

    async fn on_event_in(
        &self,
        event: HookEvent<'_>,
        scope: &HookScope<'_>,
    ) -> Result<HookAction, HookError> {
        self.attachment.warn(&event, "CacheMissDetector", "on_event_in and scope");
        if let HookEvent::ContextCompaction { .. } = event {
            self.shared.lock().compacted(&RunKey::of(scope));
        }
        Ok(HookAction::Continue)
    }

    fn scope(&self, operation: &Operation<'_>) -> Option<Box<dyn OperationScope>> {
        self.attachment.attach();
        scopes::open(self, operation)
    }
}

/// A callback for misses. The trait exists because closures need no `Send` on wasm.
trait OnMiss: WasmCompatSend + WasmCompatSync {
    fn call(&self, miss: &CacheMiss);
}

impl<F: Fn(&CacheMiss) + WasmCompatSend + WasmCompatSync> OnMiss for F {
    fn call(&self, miss: &CacheMiss) {
        self(miss);
    }
}
