//! Tests of boxed durable contexts and of the default methods of `DurableContext`.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use chrono::{DateTime, TimeZone, Utc};
use std::task::{Context, Poll};

use neuron_types::{
    ActivityOptions, CallScope, CompletionRequest, CompletionResponse, ContentBlock, DeltaSink,
    Durability, DurableContext, DurableError, HookAction, HookError, HookEvent, HookScope,
    KnownEffect, Message, ObservabilityHook, Operation, OperationKind, OperationScope, RequestRef,
    Role, Scopes, StopReason, StreamEvent, TokenUsage, ToolCall, ToolContext, ToolError,
    ToolInvocation, ToolOutput, WasmCompatSend,
};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

fn response() -> CompletionResponse {
    CompletionResponse {
        id: "1".into(),
        model: "m".into(),
        message: Message {
            role: Role::Assistant,
            content: vec![ContentBlock::Text("a".into()), ContentBlock::Text("b".into())],
        },
        usage: TokenUsage::default(),
        stop_reason: StopReason::EndTurn,
    }
}

fn options(seconds: u64) -> ActivityOptions {
    ActivityOptions { start_to_close_timeout: Duration::from_secs(seconds), ..Default::default() }
}

fn time() -> DateTime<Utc> {
    Utc.with_ymd_and_hms(2026, 1, 2, 3, 4, 5).unwrap()
}

fn invocation(id: &str) -> ToolInvocation {
    let call = ToolCall { id: id.into(), name: format!("tool-{id}"), input: json!({ "id": id }) };
    let ctx = ToolContext { call_id: id.into(), ..Default::default() };
    ToolInvocation::new(call, ctx)
}

#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<String>>>);

impl Log {
    fn push(&self, line: impl Into<String>) {
        self.0.lock().unwrap().push(line.into());
    }

    fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock().unwrap())
    }
}

impl DeltaSink for Log {
    fn poll_send(&self, _: &mut Context<'_>, event: &mut Option<StreamEvent>) -> Poll<()> {
        self.push(format!("{:?}", event.take().unwrap()));
        Poll::Ready(())
    }
}

/// A durable context that implements only the required methods.
#[derive(Default)]
struct Plain {
    log: Log,
    /// The JSON value of every signal, except for two names. Waiting for `late` times out, and waiting for `broken`
    /// fails.
    signal: Value,
    replaying: bool,
}

impl Plain {
    fn note(&self, line: impl Into<String>) {
        self.log.push(line);
    }
}

/// Implements the required methods of `DurableContext`. `$plain` is the [`Plain`] that logs the calls and contains the
/// value of signals.
macro_rules! required_methods {
    ($self:ident => $plain:expr) => {
        async fn execute_llm_call(
            &$self,
            request: CompletionRequest,
            options: ActivityOptions,
        ) -> Result<CompletionResponse, DurableError> {
            let seconds = options.start_to_close_timeout.as_secs();
            $plain.note(format!("llm {} {seconds}s", request.model));
            Ok(response())
        }

        async fn execute_tool(
            &$self,
            tool_name: &str,
            input: Value,
            ctx: &ToolContext,
            options: ActivityOptions,
        ) -> Result<ToolOutput, DurableError> {
            let seconds = options.start_to_close_timeout.as_secs();
            $plain.note(format!("{tool_name} {input} {} {seconds}s", ctx.call_id));
            match ctx.call_id.as_str() {
                "bad" => Err(DurableError::Tool(ToolError::ModelRetry("again".into()))),
                id => Ok(ToolOutput::text(id)),
            }
        }

        async fn wait_for_signal<T: DeserializeOwned + WasmCompatSend>(
            &$self,
            signal_name: &str,
            timeout: Duration,
        ) -> Result<Option<T>, DurableError> {
            $plain.note(format!("signal {signal_name} {timeout:?}"));
            match signal_name {
                "late" => Ok(None),
                "broken" => Err(DurableError::SignalTimeout),
                _ => {
                    let signal = serde_json::from_value($plain.signal.clone());
                    signal.map(Some).map_err(|error| DurableError::Other(Box::new(error)))
                }
            }
        }

        fn should_continue_as_new(&$self) -> bool {
            $plain.note("should_continue_as_new");
            true
        }

        async fn continue_as_new(&$self, state: Value) -> Result<(), DurableError> {
            Err(DurableError::ContinueAsNew(state.to_string()))
        }

        async fn sleep(&$self, duration: Duration) {
            $plain.note(format!("sleep {duration:?}"));
        }

        fn now(&$self) -> DateTime<Utc> {
            time()
        }
    };
}

impl DurableContext for Plain {
    required_methods!(self => self);

    fn is_replaying(&self) -> bool {
        self.replaying
    }
}

fn effect() -> KnownEffect {
    KnownEffect { tool: "pay".into(), key: "17".into(), output: None }
}

/// A durable context that also implements methods with a default, and logs their calls in its [`Plain`].
#[derive(Default)]
struct Full(Plain);

impl DurableContext for Full {
    required_methods!(self => self.0);

    fn known_effects(&self) -> Vec<KnownEffect> {
        vec![effect()]
    }

    async fn execute_llm_call_ref(
        &self,
        request: RequestRef<'_>,
        options: ActivityOptions,
    ) -> Result<CompletionResponse, DurableError> {
        let (at, seconds) = (request.messages.as_ptr().addr(), options.start_to_close_timeout);
        self.0.note(format!("llm_ref {at} {seconds:?}"));
        Ok(response())
    }

    async fn execute_llm_stream(
        &self,
        request: RequestRef<'_>,
        options: ActivityOptions,
        sink: &dyn DeltaSink,
    ) -> Result<CompletionResponse, DurableError> {
        let (at, seconds) = (request.messages.as_ptr().addr(), options.start_to_close_timeout);
        self.0.note(format!("llm_stream {at} {seconds:?}"));
        sink.send(StreamEvent::TextDelta("live".into())).await;
        Ok(response())
    }

    async fn execute_tools(
        &self,
        batch: Vec<ToolInvocation>,
        options: ActivityOptions,
    ) -> Vec<Result<ToolOutput, DurableError>> {
        self.0.note(format!("tools {} {:?}", batch.len(), options.start_to_close_timeout));
        vec![Err(DurableError::Cancelled)]
    }

    fn is_replaying(&self) -> bool {
        true
    }

    fn run_id(&self) -> Option<&str> {
        Some("run-1")
    }
}

#[tokio::test]
async fn durability_forwards_every_method() {
    let full = Full(Plain { signal: json!(5), ..Default::default() });
    let log = full.0.log.clone();
    let handle = Durability::new(full);
    let request = CompletionRequest { model: "m".into(), ..Default::default() };
    let at = request.messages.as_ptr().addr();

    assert_eq!(handle.execute_llm_call(request.clone(), options(1)).await.unwrap(), response());
    handle.execute_llm_call_ref(request.view(), options(2)).await.unwrap();
    handle.execute_llm_stream(request.view(), options(3), &log).await.unwrap();
    let ctx = invocation("c1").ctx;
    let output = handle.execute_tool("t", json!(1), &ctx, options(4)).await;
    assert_eq!(output.unwrap(), ToolOutput::text("c1"));
    let batch = vec![invocation("c1"), invocation("c2")];
    let results = handle.execute_tools(batch, options(5)).await;
    assert!(matches!(results[..], [Err(DurableError::Cancelled)]));
    let wait = Duration::from_secs(6);
    assert_eq!(handle.wait_for_signal::<u8>("go", wait).await.unwrap(), Some(5));
    assert!(handle.should_continue_as_new());
    assert_eq!(handle.known_effects(), [effect()]);
    assert_eq!(Durability::new(Plain::default()).known_effects(), []);
    let next = handle.continue_as_new(json!({ "turn": 3 })).await.unwrap_err();
    assert_eq!(next.to_string(), r#"continue as new: {"turn":3}"#);
    handle.sleep(wait).await;
    assert_eq!(handle.now(), time());
    assert_eq!((handle.is_replaying(), handle.run_id()), (true, Some("run-1")));
    assert_eq!(
        log.take(),
        [
            "llm m 1s".to_owned(),
            format!("llm_ref {at} 2s"),
            format!("llm_stream {at} 3s"),
            r#"TextDelta("live")"#.into(),
            "t 1 c1 4s".into(),
            "tools 2 5s".into(),
            "signal go 6s".into(),
            "should_continue_as_new".into(),
            "sleep 6s".into(),
        ]
    );
    assert_eq!(format!("{handle:?}"), r#"Durability { run_id: Some("run-1"), .. }"#);
}

#[tokio::test]
async fn default_batch_runs_in_call_order_and_continues_after_an_error() {
    let plain = Plain::default();
    let log = plain.log.clone();
    for context in [
        Durability::new(plain),
        Durability::new(Durability::new(Plain { log: log.clone(), ..Default::default() })),
    ] {
        let batch = ["c1", "bad", "c3"].map(invocation).to_vec();
        let results = context.execute_tools(batch, options(9)).await;
        assert_eq!(
            log.take(),
            [
                r#"tool-c1 {"id":"c1"} c1 9s"#,
                r#"tool-bad {"id":"bad"} bad 9s"#,
                r#"tool-c3 {"id":"c3"} c3 9s"#,
            ]
        );
        let [Ok(first), Err(DurableError::Tool(ToolError::ModelRetry(hint))), Ok(last)] =
            &results[..]
        else {
            panic!("{results:?}")
        };
        assert_eq!(
            (first, hint.as_str(), last),
            (&ToolOutput::text("c1"), "again", &ToolOutput::text("c3"))
        );
    }
}

/// A scope that logs each poll of a tool call. The fields are the id of the call and the log.
struct LoggingScope(String, Log);

impl OperationScope for LoggingScope {
    fn around(&mut self, poll: &mut dyn FnMut()) {
        self.1.push(format!("in {}", self.0));
        poll();
        self.1.push(format!("out of {}", self.0));
    }
}

impl ObservabilityHook for Log {
    async fn on_event(&self, _: HookEvent<'_>) -> Result<HookAction, HookError> {
        Ok(HookAction::Continue)
    }

    fn scope(&self, operation: &Operation<'_>) -> Option<Box<dyn OperationScope>> {
        let call = operation.scope.call_id?.to_owned();
        Some(Box::new(LoggingScope(call, self.clone())))
    }
}

#[tokio::test]
async fn tool_runs_in_the_scope_of_its_call_unless_replayed() {
    let in_scope = |id: &str, log: &Log| {
        let invocation = invocation(id);
        let kind = OperationKind::ToolCall { call: &invocation.call, offered: &[] };
        let operation = Operation::new(HookScope::default().in_call(id), kind);
        let scopes = Scopes::open(std::slice::from_ref(log), &operation);
        invocation.with_scope(CallScope::new(scopes))
    };
    for replaying in [false, true] {
        let plain = Plain { replaying, ..Default::default() };
        let log = plain.log.clone();
        let batch = ["c1", "bad"].map(|id| in_scope(id, &log)).to_vec();
        plain.execute_tools(batch, options(9)).await;
        let calls = [r#"tool-c1 {"id":"c1"} c1 9s"#, r#"tool-bad {"id":"bad"} bad 9s"#];
        match replaying {
            true => assert_eq!(log.take(), calls),
            false => assert_eq!(
                log.take(),
                ["in c1", calls[0], "out of c1", "in bad", calls[1], "out of bad"]
            ),
        }
    }
}

#[tokio::test]
async fn default_stream_sends_one_delta_per_block() {
    let plain = Plain::default();
    let log = plain.log.clone();
    let request = CompletionRequest::default();
    let answer = Durability::new(plain).execute_llm_stream(request.view(), options(1), &log).await;
    assert_eq!(answer.unwrap(), response());
    assert_eq!(log.take(), ["llm  1s", r#"TextDelta("a")"#, r#"TextDelta("b")"#]);
}

#[tokio::test]
async fn replayed_stream_sends_no_deltas() {
    let plain = Plain { replaying: true, ..Default::default() };
    let request = CompletionRequest::default();
    plain.execute_llm_stream(request.view(), options(1), &plain.log).await.unwrap();
    assert_eq!(plain.log.take(), ["llm  1s"]);
}

#[tokio::test]
async fn default_call_by_reference_copies_the_request() {
    let plain = Plain::default();
    let request = CompletionRequest { model: "m".into(), ..Default::default() };
    let answer = plain.execute_llm_call_ref(request.view(), options(2)).await;
    assert_eq!(answer.unwrap(), response());
    assert_eq!(plain.log.take(), ["llm m 2s"]);
    assert_eq!(plain.run_id(), None);
}

#[tokio::test]
async fn signal_of_another_type_is_an_error() {
    let context =
        Durability::new(Plain { signal: json!({ "approved": true }), ..Default::default() });
    let wait = Duration::ZERO;
    let signal = context.wait_for_signal::<Value>("go", wait).await;
    assert_eq!(signal.unwrap(), Some(json!({ "approved": true })));
    let error = context.wait_for_signal::<u8>("go", wait).await.unwrap_err();
    assert_eq!(error.kind(), "Other");
    assert!(error.to_string().starts_with("invalid type: map, expected u8"), "{error}");
    assert_eq!(context.wait_for_signal::<u8>("late", wait).await.unwrap(), None);
    let error = context.wait_for_signal::<u8>("broken", wait).await.unwrap_err();
    assert!(matches!(error, DurableError::SignalTimeout));
}

/// `Durability` must accept a context that borrows data, because an engine's context may exist only for one invocation.
#[tokio::test]
async fn durability_may_borrow_an_engine() {
    struct Borrowing<'e>(&'e Plain, &'e mut u32);
    impl DurableContext for Borrowing<'_> {
        required_methods!(self => self.0);
    }
    let engine = Plain::default();
    let mut invocations = 0;
    {
        let borrowed = Borrowing(&engine, &mut invocations);
        *borrowed.1 += 1;
        let handle = Durability::new(borrowed);
        let clone = handle.clone();
        clone.sleep(Duration::from_secs(1)).await;
        assert!(!handle.is_replaying());
    }
    assert_eq!((engine.log.take(), invocations), (vec!["sleep 1s".into()], 1));
}

#[test]
fn calls_through_durability_are_send() {
    fn is_send<T: Send>(_: T) {}
    let (handle, request) = (Durability::new(Plain::default()), CompletionRequest::default());
    let log = Log::default();
    is_send(handle.execute_llm_call_ref(request.view(), options(1)));
    is_send(handle.execute_llm_stream(request.view(), options(1), &log));
    is_send(handle.execute_tools(vec![], options(1)));
    is_send(handle.wait_for_signal::<u8>("go", Duration::ZERO));
}
