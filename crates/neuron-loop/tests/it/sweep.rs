//! Interrupts a run at every point where it waits. The run is dropped or cancelled, or a part of the agent misbehaves.
//! Hooks, tools and the provider return `Poll::Pending` first, so that the run waits there. The runs contain a
//! compaction, hints to the model, a paused response, and failing tool calls.

use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::pin::pin;
use std::sync::Arc;

use neuron_loop::LoopError;
use neuron_testing::Reply;
use neuron_tool::ToolRegistry;
use neuron_types::{
    Message, StreamEvent, ToolContext, ToolDefinition, ToolDyn, ToolError, ToolOutput,
    WasmBoxedFuture,
};
use serde_json::{Value, json};

use crate::support::*;
use crate::waiting::*;

/// The error of a run in which a tool fails as scripted, and no part of the agent misbehaves.
const FAILED: &str = "tool error: invalid input: no";

fn each_case(mut check: impl FnMut(&Case, Way, &str)) {
    for fails in [false, true] {
        for parallel in [false, true] {
            for durable in [false, true] {
                for way in WAYS {
                    let case = Case { fails, parallel, durable, ..Case::default() };
                    let at = format!(
                        "{way:?}, fails: {fails}, parallel: {parallel}, durable: {durable}"
                    );
                    check(&case, way, &at);
                }
            }
        }
    }
}

/// Runs the agent to the end of its run. Returns `None` after a planned panic of one of its parts.
#[track_caller]
fn run_to_the_end(built: &mut Built, way: Way, ctx: &ToolContext) -> Option<Result<(), String>> {
    let whole = || poll_times(pin!(run(way, &mut built.agent, ctx)), TO_THE_END);
    match catch_unwind(AssertUnwindSafe(whole)) {
        Ok(ended) => Some(ended.expect("the run ends").map(drop)),
        Err(panic) if panic.downcast_ref::<String>().is_some_and(|text| text == PLANNED) => None,
        Err(panic) => resume_unwind(panic),
    }
}

/// Asserts that every start event in the hook's log lines has exactly one end event.
#[track_caller]
fn check_all_pairs(lines: &[String]) {
    check_pairs(lines);
    let count = |event: &str| lines.iter().filter(|line| line.starts_with(event)).count();
    assert_eq!(count("RunStart"), count("RunEnd"), "{lines:#?}");
    assert_eq!(count("SessionStart"), count("SessionEnd"), "{lines:#?}");
}

/// Asserts that the history is valid, that no call began twice, and that the next run works.
#[track_caller]
fn check_after(built: &mut Built, way: Way, at: &str) {
    check_valid(built.agent.messages());
    let before = built.events.log.lines().len();
    match run_to_the_end(built, way, &ToolContext::default()) {
        Some(Ok(())) => {}
        // The failing batch had not been reached before.
        Some(Err(error)) => assert_eq!(error, FAILED, "{at}"),
        None => panic!("{at}: only the first run panics"),
    }
    check_valid(built.agent.messages());
    check_all_pairs(&built.events.log.lines()[before..]);
    let keys = built.keys.lines();
    let distinct: BTreeSet<_> = keys.iter().collect();
    assert_eq!(distinct.len(), keys.len(), "{at}: a call began twice: {keys:?}");
}

#[test]
fn uninterrupted_run_does_everything_that_the_sweeps_interrupt() {
    each_case(|case, way, at| {
        let mut built = build(case);
        let result = run_to_the_end(&mut built, way, &ToolContext::default()).unwrap();
        assert_eq!(result, if case.fails { Err(FAILED.to_owned()) } else { Ok(()) }, "{at}");
        let events = &built.events.log;
        check_all_pairs(&events.lines());
        if !case.fails {
            assert_eq!(built.keys.lines().len(), 6, "{at}");
            assert!(events.count("Compacted") > 0, "{at}");
        }
        check_after(&mut built, way, at);
    });
}

#[test]
fn step_dropped_at_any_point_is_followed_by_the_others() {
    each_case(|case, way, at| {
        if way != Way::Step {
            return;
        }
        for polls in 0.. {
            let mut built = build(case);
            let ctx = ToolContext::default();
            let mut steps = built.agent.run_step(Message::user("go"), &ctx);
            let mut last = None;
            let dropped = {
                let turns = async {
                    while let Some(turn) = steps.next().await {
                        last = Some(turn);
                    }
                };
                poll_times(pin!(turns), polls).is_none()
            };
            check_valid(steps.messages());
            let rest = async {
                while let Some(turn) = steps.next().await {
                    last = Some(turn);
                }
            };
            poll_times(pin!(rest), TO_THE_END).expect("it ends");
            let at = format!("{at}, dropped after {polls} polls");
            match last {
                Some(Ok(Step::Ended(_))) => {}
                Some(Err(error)) => assert_eq!(error.to_string(), FAILED, "{at}"),
                other => panic!("{at}: {other:?}"),
            }
            assert!(steps.messages().len() > 1, "{at}");
            drop(steps);
            check_after(&mut built, way, &at);
            if !dropped {
                return;
            }
        }
    });
}

#[test]
fn reader_that_stops_after_every_poll_misses_no_event() {
    each_case(|case, way, at| {
        if way != Way::Stream {
            return;
        }
        let events = |polls| {
            let mut built = build(case);
            let ctx = ToolContext::default();
            let mut stream =
                poll_times(pin!(built.agent.run_stream(Message::user("go"), &ctx)), 1).unwrap();
            let mut events = Vec::new();
            for _ in 0..TO_THE_END {
                match poll_times(pin!(stream.recv()), polls) {
                    Some(Some(event)) => events.push(event),
                    Some(None) => break,
                    None => {}
                }
            }
            events
        };
        let patient = events(TO_THE_END);
        let impatient = events(1);
        assert!(
            matches!(patient.last(), Some(StreamEvent::RunComplete(_) | StreamEvent::Error(_))),
            "{at}"
        );
        assert_eq!(format!("{impatient:?}"), format!("{patient:?}"), "{at}");
    });
}

/// A tool that runs an agent.
struct Nested(tokio::sync::Mutex<Built>);

impl ToolDyn for Nested {
    fn name(&self) -> &str {
        "nested"
    }

    fn definition(&self) -> ToolDefinition {
        Act { name: "nested", log: Log::default() }.definition()
    }

    fn call_dyn<'a>(
        &'a self,
        _: Value,
        ctx: &'a ToolContext,
    ) -> WasmBoxedFuture<'a, Result<ToolOutput, ToolError>> {
        Box::pin(async move {
            match self.0.lock().await.agent.run_text("go", ctx).await {
                Ok(result) => Ok(ToolOutput::text(result.response)),
                Err(LoopError::Cancelled) => Err(ToolError::Cancelled),
                Err(error) => Err(ToolError::ExecutionFailed(Box::new(error))),
            }
        })
    }
}

#[test]
fn cancelled_at_any_point_nested_and_outer_agent_stay_usable() {
    for parallel in [false, true] {
        for polls in 0.. {
            let at = format!("parallel: {parallel}, cancelled after {polls} polls");
            let inner = build(&Case { parallel, ..Case::default() });
            let nested = Arc::new(Nested(tokio::sync::Mutex::new(inner)));
            let (tool, events) = (Waiting::default(), Recorder::default());
            let mut tools = ToolRegistry::new();
            tools.register_dyn(Arc::new(tool.clone()));
            tools.register_dyn(nested.clone());
            let script = vec![
                Reply::tool_calls([
                    ("n0", "nested", json!({})),
                    ("a0", "act", json!({"waits": 2})),
                ]),
                Reply::text("outer"),
                Reply::text("outer"),
            ];
            let agent = Chat::builder(Strict::new(script), SlowWindow::new())
                .tools(tools)
                .parallel_tool_execution(parallel)
                .hook(SlowRecorder(events.clone()))
                .build();
            let mut outer = Built { agent, keys: tool.keys, events };
            let ctx = ToolContext::default();
            let ended = {
                let mut run = pin!(outer.agent.run_text("go", &ctx));
                let ended = poll_times(run.as_mut(), polls);
                if ended.is_none() {
                    ctx.cancellation_token.cancel();
                    assert!(poll_times(run.as_mut(), 500).is_some(), "{at}: it ends soon");
                }
                ended.is_some()
            };
            check_all_pairs(&outer.events.log.lines());
            check_after(&mut outer, Way::Run, &at);
            let mut inner = nested.0.try_lock().expect("nobody holds it");
            check_after(&mut inner, Way::Run, &at);
            if ended {
                assert!(polls > 50, "there was something to cancel");
                break;
            }
        }
    }
}
