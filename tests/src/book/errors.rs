//! Tests the chapter of neuron's book on error handling. Covers the error enums, the method `is_retryable`, and
//! conversions with `From` and `?`.

use std::error::Error;
use std::time::Duration;

use neuron_types::{
    CompletionRequest, CompletionResponse, ContextError, DurableError, EmbeddingError, HookError,
    LoopError, McpError, Provider, ProviderError, SandboxError, StorageError, ToolError,
};

fn boxed(text: &str) -> Box<dyn Error + Send + Sync> {
    text.into()
}

#[track_caller]
fn check(error: impl Error + Send + Sync + 'static, text: &str, source: Option<&str>) {
    assert_eq!(error.to_string(), text);
    let found = error.source().map(ToString::to_string);
    assert_eq!(found.as_deref(), source, "the source of `{text}`");
}

#[test]
fn provider_errors() {
    use ProviderError as E;
    let wait = Duration::from_secs(2);
    check(E::Network(boxed("reset")), "network error: reset", Some("reset"));
    let retry_after = Some(wait);
    check(E::RateLimit { retry_after }, "rate limited, retry after 2s", None);
    check(E::RateLimit { retry_after: None }, "rate limited", None);
    check(E::ModelLoading("m".into()), "model loading: m", None);
    check(E::Timeout(wait), "timeout after 2s", None);
    check(E::ServiceUnavailable("503".into()), "service unavailable: 503", None);
    check(E::Authentication("key".into()), "authentication failed: key", None);
    check(E::InvalidRequest("bad".into()), "invalid request: bad", None);
    check(E::ModelNotFound("m".into()), "model not found: m", None);
    check(E::InsufficientResources("quota".into()), "insufficient resources: quota", None);
    check(E::StreamError("cut".into()), "stream error: cut", None);
    check(E::Other(boxed("else")), "else", None);
}

#[test]
fn embedding_errors() {
    use EmbeddingError as E;
    check(E::Authentication("key".into()), "authentication failed: key", None);
    check(E::RateLimit { retry_after: None }, "rate limited", None);
    check(E::InvalidRequest("empty".into()), "invalid request: empty", None);
    check(E::Network(boxed("reset")), "network error: reset", Some("reset"));
    check(E::Other(boxed("else")), "else", None);
}

#[test]
fn tool_errors() {
    use ToolError as E;
    check(E::NotFound("t".into()), "tool not found: t", None);
    check(E::InvalidInput("bad".into()), "invalid input: bad", None);
    check(E::ExecutionFailed(boxed("disk")), "execution failed: disk", Some("disk"));
    check(E::PermissionDenied("no".into()), "permission denied: no", None);
    check(E::Cancelled, "cancelled", None);
    check(E::ModelRetry("again".into()), "again", None);
}

#[test]
fn loop_errors() {
    use LoopError as E;
    let provider = || ProviderError::Authentication("key".into());
    check(
        E::Provider(provider()),
        "provider error: authentication failed: key",
        Some("authentication failed: key"),
    );
    check(
        E::Tool(ToolError::NotFound("t".into())),
        "tool error: tool not found: t",
        Some("tool not found: t"),
    );
    check(
        E::Context(ContextError::CompactionFailed("empty".into())),
        "context error: compaction failed: empty",
        Some("compaction failed: empty"),
    );
    check(E::MaxTurns(5), "max turns reached (5)", None);
    check(
        E::UsageLimitExceeded("output token limit exceeded: 50123 > 50000".into()),
        "usage limit exceeded: output token limit exceeded: 50123 > 50000",
        None,
    );
    check(E::HookTerminated("budget".into()), "terminated by hook: budget", None);
    check(E::Cancelled, "cancelled", None);
}

#[test]
fn other_errors() {
    let provider = ProviderError::ModelNotFound("m".into());
    check(ContextError::CompactionFailed("empty".into()), "compaction failed: empty", None);
    check(
        ContextError::Provider(provider),
        "provider error during summarization: model not found: m",
        Some("model not found: m"),
    );

    check(DurableError::ActivityFailed("3 times".into()), "activity failed: 3 times", None);
    check(DurableError::Cancelled, "workflow cancelled", None);
    check(DurableError::SignalTimeout, "signal timeout", None);
    check(DurableError::ContinueAsNew("{}".into()), "continue as new: {}", None);
    check(DurableError::Other(boxed("else")), "else", None);

    check(McpError::Connection("c".into()), "connection failed: c", None);
    check(McpError::Initialization("i".into()), "initialization failed: i", None);
    check(McpError::ToolCall("t".into()), "tool call failed: t", None);
    check(McpError::Transport("pipe".into()), "transport error: pipe", None);
    check(McpError::Other(boxed("else")), "else", None);

    check(HookError::Failed("f".into()), "hook failed: f", None);
    check(HookError::Other(boxed("else")), "else", None);

    check(StorageError::NotFound("s".into()), "session not found: s", None);
    check(StorageError::Serialization("s".into()), "serialization error: s", None);
    let io = || std::io::Error::other("full");
    check(StorageError::Io(io()), "I/O error: full", Some("full"));
    check(StorageError::Other(boxed("else")), "else", None);

    check(SandboxError::ExecutionFailed("e".into()), "execution failed in the sandbox: e", None);
    check(SandboxError::SetupFailed("s".into()), "sandbox setup failed: s", None);
    check(SandboxError::Other(boxed("else")), "else", None);
}

#[test]
fn question_mark_converts_errors() {
    fn example() -> Result<(), LoopError> {
        let provider_result: Result<(), ProviderError> =
            Err(ProviderError::Authentication("invalid key".into()));
        provider_result?; // Automatically converted to LoopError::Provider
        Ok(())
    }
    fn tool() -> Result<(), LoopError> {
        Err(ToolError::Cancelled)?
    }
    fn context() -> Result<(), LoopError> {
        fn summarise() -> Result<(), ContextError> {
            Err(ProviderError::StreamError("cut".into()))?
        }
        summarise()?;
        Ok(())
    }
    fn storage() -> Result<(), StorageError> {
        Err(std::io::Error::other("full"))?
    }
    let error = example().unwrap_err();
    assert!(
        matches!(error, LoopError::Provider(ProviderError::Authentication(key)) if key == "invalid key")
    );
    assert!(matches!(tool(), Err(LoopError::Tool(ToolError::Cancelled))));
    assert!(matches!(
        context(),
        Err(LoopError::Context(ContextError::Provider(ProviderError::StreamError(_))))
    ));
    assert!(matches!(storage(), Err(StorageError::Io(_))));
}

/// Repeats a failed call, with a longer wait after each attempt. This is the code of the section "is_retryable()" of
/// neuron's book.
async fn with_retries<P: Provider>(
    provider: P,
    request: CompletionRequest,
) -> Result<CompletionResponse, ProviderError> {
    let mut attempts = 0;
    let response = loop {
        match provider.complete(request.clone()).await {
            Ok(resp) => break resp,
            Err(e) if e.is_retryable() && attempts < 3 => {
                attempts += 1;
                tokio::time::sleep(Duration::from_secs(1 << attempts)).await;
            }
            Err(e) => return Err(e),
        }
    };
    Ok(response)
}

#[tokio::test(start_paused = true)]
async fn retry_loop_repeats_only_retryable_errors() {
    use neuron_testing::{Reply, ScriptedProvider};

    let busy = || Reply::error(ProviderError::ServiceUnavailable("529".into()));
    let provider = ScriptedProvider::new([busy(), busy(), busy(), Reply::text("hi")]);
    let start = tokio::time::Instant::now();
    let answered = with_retries(provider.clone(), CompletionRequest::default()).await;
    assert_eq!(answered.unwrap().message.text(), "hi");
    assert_eq!(start.elapsed().as_secs(), 2 + 4 + 8);

    let key = || Reply::error(ProviderError::Authentication("key".into()));
    let provider = ScriptedProvider::new([key(), Reply::text("hi")]);
    let refused = with_retries(provider.clone(), CompletionRequest::default()).await;
    assert!(matches!(refused, Err(ProviderError::Authentication(_))));
    assert_eq!(provider.calls(), 1);
}

#[test]
fn helper_returns_a_model_retry() {
    // Inside a tool implementation:
    fn validate_date(input: &str) -> Result<(), ToolError> {
        if !input.contains('-') {
            return Err(ToolError::ModelRetry(
                "Date must be in YYYY-MM-DD format, e.g. 2025-01-15".into(),
            ));
        }
        Ok(())
    }
    assert!(validate_date("2025-01-15").is_ok());
    assert!(matches!(validate_date("today"), Err(ToolError::ModelRetry(_))));
}

/// Contains the code of the section "Handling LoopError" of neuron's book.
fn handle<T>(loop_result: Result<T, LoopError>) -> &'static str {
    match loop_result {
        Ok(response) => {
            /* success */
            drop(response);
            "success"
        }
        Err(LoopError::Provider(e)) if e.is_retryable() => {
            // Transient provider failure -- retry the whole loop or
            // let a durable engine handle it.
            "transient"
        }
        Err(LoopError::Provider(e)) => {
            // Terminal provider failure -- fix config and retry.
            eprintln!("Provider error: {e}");
            "terminal"
        }
        Err(LoopError::MaxTurns(limit)) => {
            // The agent ran for too many turns without completing.
            eprintln!("Hit {limit} turn limit");
            "turns"
        }
        Err(LoopError::UsageLimitExceeded(msg)) => {
            // A token, request, or tool call budget was exceeded.
            eprintln!("Usage limit: {msg}");
            "usage"
        }
        Err(LoopError::HookTerminated(reason)) => {
            // A guardrail or hook stopped the loop.
            eprintln!("Terminated: {reason}");
            "hook"
        }
        Err(LoopError::Cancelled) => {
            // Graceful shutdown via cancellation token.
            "cancelled"
        }
        Err(e) => {
            eprintln!("Loop error: {e}");
            "other"
        }
    }
}

#[test]
fn handler_distinguishes_loop_errors() {
    let provider = |error| handle::<()>(Err(LoopError::Provider(error)));
    assert_eq!(handle(Ok(())), "success");
    assert_eq!(provider(ProviderError::ModelLoading("m".into())), "transient");
    assert_eq!(provider(ProviderError::ModelNotFound("m".into())), "terminal");
    for (error, name) in [
        (LoopError::MaxTurns(3), "turns"),
        (LoopError::UsageLimitExceeded("x".into()), "usage"),
        (LoopError::HookTerminated("x".into()), "hook"),
        (LoopError::Cancelled, "cancelled"),
        (LoopError::Tool(ToolError::Cancelled), "other"),
    ] {
        assert_eq!(handle::<()>(Err(error)), name);
    }
}
