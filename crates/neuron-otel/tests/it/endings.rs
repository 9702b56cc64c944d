//! Tests of runs over HTTP that fail, are cancelled, are dropped, or whose stream breaks.

use std::sync::Arc;

use futures_util::StreamExt;
use neuron_testing::Reply;
use neuron_types::ProviderError;
use tokio::sync::Notify;

use crate::over_http::{assert_outline, look};
use crate::support::conventions::Version;
use crate::support::look::Behavior;
use crate::support::setup::{Setup, cases, context};

#[tokio::test]
async fn failed_provider_fails_call_and_run() {
    for case in cases() {
        let error = ProviderError::RateLimit { retry_after: None };
        let setup = case.start([Reply::error(error)]).await;
        setup.agent(Behavior::Echo).run("What is it like?", &context()).await.unwrap_err();
        let exported = setup.finish();
        let forest = exported.forest();
        assert_outline(
            case,
            &forest,
            "
            invoke_agent planner INTERNAL ERROR RateLimit
              chat MODEL CLIENT ERROR RateLimit
            ",
        );
        let chat = &forest.root().children[0];
        assert!(!chat.description.is_empty());
        assert!(!chat.attributes.has("gen_ai.response.finish_reasons"));
    }
}

#[tokio::test]
async fn fatal_tool_error_fails_call_and_run() {
    for case in cases() {
        let setup = case.start([look()]).await;
        setup.agent(Behavior::Fail).run("What is it like?", &context()).await.unwrap_err();
        let exported = setup.finish();
        assert_outline(
            case,
            &exported.forest(),
            "
            invoke_agent planner INTERNAL ERROR ExecutionFailed
              chat MODEL CLIENT
              execute_tool look INTERNAL ERROR ExecutionFailed
                inside INTERNAL
            ",
        );
    }
}

#[tokio::test]
async fn failed_tool_result_fails_only_the_call() {
    for case in cases() {
        let setup = case.start([look(), Reply::text("Dark.")]).await;
        let mut agent = setup.agent(Behavior::ErrorResult);
        agent.run("What is it like?", &context()).await.unwrap();
        let exported = setup.finish();
        assert_outline(
            case,
            &exported.forest(),
            "
            invoke_agent planner INTERNAL
              chat MODEL CLIENT
              execute_tool look INTERNAL ERROR tool_error
                inside INTERNAL
              chat MODEL CLIENT
            ",
        );
    }
}

#[tokio::test]
async fn run_cancelled_in_model_call_is_recorded_as_cancelled() {
    for case in cases() {
        let setup = case.start([Reply::hang()]).await;
        let ctx = context();
        let mut agent = setup.agent(Behavior::Echo);
        let cancel = async {
            setup.server.wait_for_requests(1).await;
            ctx.cancellation_token.cancel();
        };
        let (result, ()) = tokio::join!(agent.run("What is it like?", &ctx), cancel);
        result.unwrap_err();
        assert_cancelled_in_the_model(setup);
    }
}

#[tokio::test]
async fn run_dropped_in_model_call_is_recorded_as_cancelled() {
    for case in cases() {
        let setup = case.start([Reply::hang()]).await;
        let mut agent = setup.agent(Behavior::Echo);
        let ctx = context();
        tokio::select! {
            result = agent.run("What is it like?", &ctx) => panic!("{result:?}"),
            () = setup.server.wait_for_requests(1) => {}
        }
        assert_cancelled_in_the_model(setup);
    }
}

#[tokio::test]
async fn stream_dropped_in_its_middle_is_recorded_as_cancelled() {
    for case in cases() {
        let reply = Reply::text("Blue, and wide, and deep.").chunk_chars(4).hang_after(6);
        let setup = case.start([reply]).await;
        let mut agent = setup.agent(Behavior::Echo);
        let ctx = context();
        let mut stream = agent.run("What is it like?", &ctx).stream();
        stream.next().await.unwrap().unwrap();
        drop(stream);
        assert_cancelled_in_the_model(setup);
    }
}

#[track_caller]
fn assert_cancelled_in_the_model(setup: Setup) {
    let case = setup.case;
    let exported = setup.finish();
    assert_outline(
        case,
        &exported.forest(),
        "
        invoke_agent planner INTERNAL ERROR Cancelled
          chat MODEL CLIENT ERROR Cancelled
        ",
    );
}

#[tokio::test]
async fn run_cancelled_in_tool_is_recorded_as_cancelled() {
    for case in cases() {
        let setup = case.start([look()]).await;
        let ctx = context();
        let began = Arc::new(Notify::new());
        let mut agent = setup.agent(Behavior::Hang(Arc::clone(&began)));
        let cancel = async {
            began.notified().await;
            ctx.cancellation_token.cancel();
        };
        let (result, ()) = tokio::join!(agent.run("What is it like?", &ctx), cancel);
        result.unwrap_err();
        assert_cancelled_in_the_tool(setup);
    }
}

#[tokio::test]
async fn run_dropped_in_tool_is_recorded_as_cancelled() {
    for case in cases() {
        let setup = case.start([look()]).await;
        let began = Arc::new(Notify::new());
        let mut agent = setup.agent(Behavior::Hang(Arc::clone(&began)));
        let ctx = context();
        tokio::select! {
            result = agent.run("What is it like?", &ctx) => panic!("{result:?}"),
            () = began.notified() => {}
        }
        assert_cancelled_in_the_tool(setup);
    }
}

#[track_caller]
fn assert_cancelled_in_the_tool(setup: Setup) {
    let case = setup.case;
    let exported = setup.finish();
    assert_outline(
        case,
        &exported.forest(),
        "
        invoke_agent planner INTERNAL ERROR Cancelled
          chat MODEL CLIENT
          execute_tool look INTERNAL ERROR Cancelled
            inside INTERNAL
        ",
    );
}

#[tokio::test]
async fn broken_stream_is_recorded_as_error() {
    for case in cases() {
        let reply = Reply::text("Blue, and wide, and deep.").chunk_chars(4).end_early_after(6);
        let setup = case.start([reply]).await;
        let mut agent = setup.agent(Behavior::Echo);
        let ctx = context();
        let events: Vec<_> = agent.run("What is it like?", &ctx).stream().collect().await;
        assert!(!events.is_empty());
        let exported = setup.finish();
        let forest = exported.forest();
        assert_outline(
            case,
            &forest,
            "
            invoke_agent planner INTERNAL ERROR StreamError
              chat MODEL CLIENT ERROR StreamError
            ",
        );
        let chat = &forest.root().children[0].attributes;
        assert!(chat.has("gen_ai.response.time_to_first_chunk"));
        let reasons = (case.version == Version::Latest).then(|| vec!["error"]);
        assert_eq!(chat.list("gen_ai.response.finish_reasons"), reasons);
    }
}
