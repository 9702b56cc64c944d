//! Hook scopes. Every poll of an operation runs inside its scopes, and each scope receives the outcome.

use std::cell::RefCell;

use neuron_loop::ToolErrorPolicy;
use neuron_testing::Reply;
use neuron_types::{
    HookAction, HookError, HookEvent, ObservabilityHook, Operation, OperationKind, OperationScope,
    Outcome, ToolContext,
};
use serde_json::json;

use crate::journal::{Journal, Journaled, World};
use crate::support::*;

thread_local! {
    /// The names of the scopes that are entered now on this thread, the outermost first.
    static ENTERED: RefCell<Vec<String>> = const { RefCell::new(Vec::new()) };
}

fn entered() -> String {
    ENTERED.with_borrow(|entered| entered.join(">"))
}

#[derive(Clone, Default)]
struct Scoping(Log);

struct Scope {
    log: Log,
    name: String,
    ended: bool,
}

impl OperationScope for Scope {
    fn around(&mut self, poll: &mut dyn FnMut()) {
        ENTERED.with_borrow_mut(|entered| entered.push(self.name.clone()));
        poll();
        ENTERED.with_borrow_mut(|entered| entered.pop());
    }

    fn end(mut self: Box<Self>, outcome: Outcome<'_>) {
        self.ended = true;
        let outcome = match outcome {
            Outcome::Run(result) => format!("run of {}", result.turns),
            Outcome::Response(response) => format!("{:?}", response.stop_reason),
            Outcome::ToolOutput(output) => output.content[0].to_string(),
            Outcome::Compacted { .. } => "compacted".into(),
            Outcome::Error(error) => format!("error {error}"),
            _ => unreachable!("a new outcome"),
        };
        self.log.push(format!("{} ended: {outcome}", self.name));
    }
}

impl Drop for Scope {
    fn drop(&mut self) {
        if !self.ended {
            self.log.push(format!("{} dropped", self.name));
        }
    }
}

impl ObservabilityHook for Scoping {
    async fn on_event(&self, _: HookEvent<'_>) -> Result<HookAction, HookError> {
        Ok(HookAction::Continue)
    }

    fn scope(&self, operation: &Operation<'_>) -> Option<Box<dyn OperationScope>> {
        let name = match operation.kind {
            OperationKind::Run { .. } => "run".to_owned(),
            OperationKind::ModelCall { .. } => format!("chat {}", operation.scope.turn),
            OperationKind::ToolCall { call, .. } => {
                assert_eq!(operation.scope.call_id, Some(call.id.as_str()));
                format!("tool {}", call.id)
            }
            _ => return None,
        };
        Some(Box::new(Scope { log: self.0.clone(), name, ended: false }))
    }
}

#[tokio::test(start_paused = true)]
async fn every_poll_runs_inside_the_scopes_of_its_operation() {
    for way in WAYS {
        let setup = setup([
            calls([json!({"delay": 20, "text": "a"}), json!({"delay": 10, "text": "b"})]),
            Reply::text("done"),
        ]);
        let mut tools = registry(&setup.log);
        let log = setup.log.clone();
        tools.add_middleware(neuron_tool::tool_middleware_fn(move |call, ctx, next| {
            let log = log.clone();
            Box::pin(async move {
                log.push(format!("in {} before {}", entered(), call.id));
                let result = next.run(call, ctx).await;
                log.push(format!("in {} after {}", entered(), call.id));
                result
            })
        }));
        let hook = Scoping(setup.log.clone());
        let mut agent = setup.builder.tools(tools).parallel_tool_execution(true).hook(hook).build();
        run(way, &mut agent, &ToolContext::default()).await.unwrap();
        assert_eq!(entered(), "");
        for (id, text) in [("c0", "a"), ("c1", "b")] {
            for when in ["before", "after"] {
                assert_eq!(setup.log.count(&format!("in run>tool {id} {when} {id}")), 1, "{way:?}");
            }
            assert_eq!(setup.log.count(&format!("tool {id} ended: {text}")), 1);
        }
        assert_eq!(setup.log.count("chat 0 ended: ToolUse"), 1);
        assert_eq!(setup.log.count("chat 1 ended: EndTurn"), 1);
        assert_eq!(setup.log.lines().last().unwrap(), "run ended: run of 2");
        assert_eq!(setup.log.count("ended"), 5);
    }
}

/// Regression test. Tools that a durable engine runs in parallel must run inside the scopes of their hooks. Before the
/// fix, they ran outside, because the loop could not assign them to their calls.
#[tokio::test(start_paused = true)]
async fn parallel_durable_tools_run_in_their_scopes_and_replayed_ones_do_not_run() {
    for way in WAYS {
        for parallel in [false, true] {
            let Setup { log, builder, .. } = setup(Vec::<Reply>::new());
            let mut tools = registry(&log);
            let seen = log.clone();
            tools.add_middleware(neuron_tool::tool_middleware_fn(move |call, ctx, next| {
                let log = seen.clone();
                Box::pin(async move {
                    log.push(format!("in {} before {}", entered(), call.id));
                    let result = next.run(call, ctx).await;
                    log.push(format!("in {} after {}", entered(), call.id));
                    result
                })
            }));
            let replies = [
                calls([
                    json!({"delay": 20, "text": "a"}),
                    json!({"delay": 10, "text": "b"}),
                    json!({"fail": true}),
                ]),
                Reply::text("done"),
            ];
            let world = World::new(replies, tools.clone(), []);
            let live = Journaled::new(&world, &Journal::default());
            let mut agent = builder
                .tools(tools.clone())
                .parallel_tool_execution(parallel)
                .tool_errors(ToolErrorPolicy::ReturnToModel)
                .hook(Scoping(log.clone()))
                .durability(live.clone())
                .build();
            let result = run(way, &mut agent, &ToolContext::default()).await.unwrap();
            assert_eq!(entered(), "");
            for call in ["c0", "c1", "c2"] {
                for when in ["before", "after"] {
                    let line = format!("in run>tool {call} {when} {call}");
                    assert_eq!(log.count(&line), 1, "{way:?} {:?}", log.lines());
                }
            }
            assert_eq!(log.count("tool c0 ended: a"), 1);
            assert_eq!(log.count("tool c1 ended: b"), 1);
            assert_eq!(log.count("tool c2 ended"), 1);
            assert_eq!(log.count("in run>tool"), 6);

            let Setup { log: replayed, builder, .. } = setup(Vec::<Reply>::new());
            let mut agent = builder
                .tools(tools)
                .parallel_tool_execution(parallel)
                .tool_errors(ToolErrorPolicy::ReturnToModel)
                .hook(Scoping(replayed.clone()))
                .durability(live.replay(0))
                .build();
            let again = run(way, &mut agent, &ToolContext::default()).await.unwrap();
            assert_eq!(again.response, result.response);
            assert_eq!(log.count("in run>tool"), 6, "no tool runs again");
            assert_eq!(replayed.count("tool c1 ended: b"), 1);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn cancelled_operation_ends_its_scope_and_dropped_one_drops_it() {
    let second = std::time::Duration::from_secs(1);
    let setup = setup([calls([json!({"hang": true})]), calls([json!({"hang": true})])]);
    let hook = Scoping(setup.log.clone());
    let mut agent = setup.builder.hook(hook).build();
    let ctx = ToolContext::default();
    let token = ctx.cancellation_token.clone();
    let (result, ()) = tokio::join!(agent.run_text("go", &ctx), async {
        tokio::time::sleep(second).await;
        token.cancel();
    });
    result.unwrap_err();
    assert_eq!(setup.log.count("tool c0 ended: error cancelled"), 1);
    assert_eq!(setup.log.count("run ended: error cancelled"), 1);

    let ctx = ToolContext::default();
    tokio::time::timeout(second, agent.run_text("go", &ctx)).await.unwrap_err();
    assert_eq!(setup.log.count("tool c0 dropped"), 1);
    assert_eq!(setup.log.count("run dropped"), 1);
}
