//! Runs of a correct agent under faults, and of agents and tools that each break one promise.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use neuron_durable_sqlite::SqliteRuns;
use neuron_loop::{Agent, Conversation, RunEvent};
use neuron_testing::faults::{FaultTest, Report, Trial};
use neuron_testing::{Reply, ScriptedProvider};
use neuron_tool::ToolRegistry;
use neuron_types::{
    BoxError, HookAction, HookError, HookEvent, ObservabilityHook, RetryPolicy, ToolContext,
    ToolDefinition, ToolDyn, ToolEffect, ToolError, ToolOutput, WasmBoxedFuture,
};
use serde_json::{Value, json};

/// A mistake in an agent or in one of its tools.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mistake {
    /// The idempotent tool does not pass the idempotency key to the service.
    IgnoresKey,
    /// The idempotent tool stores that the call is done before it has its effect.
    DoneBeforeEffect,
    /// The idempotent tool fails if its effect has already happened.
    SecondCallFails,
    /// The idempotent tool leaves a lock behind when it is interrupted, and then waits for the lock.
    StaleLock,
    /// The tool that is declared as pure has an effect.
    PureHasEffect,
    /// The effect of a tool happens in a hook, before the journal has the intent of the call.
    EffectInHook,
    /// The effect of a tool happens in a task that outlives the call.
    DetachedTask,
    /// The system prompt has the current time.
    ReadsClock,
    /// The system prompt has a list in the order of a hash map.
    RandomOrder,
    /// The agent does not retry model calls.
    NoRetries,
    /// A tool numbers its effects by a counter in memory.
    CounterInMemory,
    /// The agent panics if it has been started before.
    PanicsOnRestart,
}

/// The fake services that the tools call. They outlive a crash.
#[derive(Debug, Clone, Default)]
struct World(Arc<Mutex<Services>>);

#[derive(Debug, Default)]
struct Services {
    effects: Vec<String>,
    keys: BTreeMap<String, usize>,
    starts: usize,
}

impl World {
    fn add(&self, effect: &str) {
        self.0.lock().unwrap().effects.push(effect.to_owned());
    }

    /// Counts a call with an idempotency key. Returns the number of calls with this key, including this one.
    fn count(&self, key: &str) -> usize {
        let mut services = self.0.lock().unwrap();
        let count = services.keys.entry(key.to_owned()).or_default();
        *count += 1;
        *count
    }

    fn effects(&self) -> Vec<String> {
        self.0.lock().unwrap().effects.clone()
    }
}

/// The tools of the agent. `look` is pure, `charge` is idempotent, and `mail` must not run twice.
#[derive(Clone)]
struct ShopTool {
    name: &'static str,
    effect: ToolEffect,
    world: World,
    mistake: Option<Mistake>,
    /// Number of calls in this execution.
    calls: Arc<AtomicUsize>,
}

impl ShopTool {
    async fn charge(&self, key: &str) -> Result<ToolOutput, ToolError> {
        let wait = tokio::task::yield_now;
        wait().await;
        match self.mistake {
            Some(Mistake::IgnoresKey) => self.world.add("charge"),
            Some(Mistake::DoneBeforeEffect) => {
                if self.world.count(key) == 1 {
                    wait().await;
                    self.world.add("charge");
                }
            }
            Some(Mistake::SecondCallFails) => match self.world.count(key) {
                1 => self.world.add("charge"),
                _ => return Err(ToolError::ExecutionFailed("already charged".into())),
            },
            Some(Mistake::StaleLock) => {
                if self.world.count("lock") > 1 {
                    std::future::pending::<()>().await;
                }
                wait().await;
                self.world.add("charge");
                self.world.0.lock().unwrap().keys.remove("lock");
            }
            _ => {
                if self.world.count(key) == 1 {
                    self.world.add("charge");
                }
            }
        }
        wait().await;
        Ok(ToolOutput::text("charged"))
    }

    async fn mail(&self) -> Result<ToolOutput, ToolError> {
        tokio::task::yield_now().await;
        let number = self.calls.fetch_add(1, Ordering::SeqCst) + 1;
        match self.mistake {
            Some(Mistake::CounterInMemory) => self.world.add(&format!("mail {number}")),
            Some(Mistake::EffectInHook) => {}
            Some(Mistake::DetachedTask) => {
                let world = self.world.clone();
                tokio::spawn(async move {
                    tokio::task::yield_now().await;
                    world.add("mail");
                });
            }
            _ => self.world.add("mail"),
        }
        Ok(ToolOutput::text("sent"))
    }
}

impl ToolDyn for ShopTool {
    fn name(&self) -> &str {
        self.name
    }

    fn definition(&self) -> ToolDefinition {
        ToolDefinition {
            name: self.name.into(),
            title: None,
            description: "A tool of a shop".into(),
            input_schema: json!({"type": "object"}),
            output_schema: None,
            annotations: None,
            cache_control: None,
        }
    }

    fn effect(&self) -> ToolEffect {
        self.effect
    }

    fn call_dyn<'a>(
        &'a self,
        _: Value,
        ctx: &'a ToolContext,
    ) -> WasmBoxedFuture<'a, Result<ToolOutput, ToolError>> {
        Box::pin(async move {
            match self.name {
                "charge" => self.charge(&ctx.idempotency_key).await,
                "mail" => self.mail().await,
                _ => {
                    tokio::task::yield_now().await;
                    if self.mistake == Some(Mistake::PureHasEffect) {
                        self.world.add("view");
                    }
                    Ok(ToolOutput::text("two books"))
                }
            }
        })
    }
}

/// A hook that sends the mail before the tool runs.
struct SendsMail(World);

impl ObservabilityHook for SendsMail {
    async fn on_event(&self, event: HookEvent<'_>) -> Result<HookAction, HookError> {
        if matches!(event, HookEvent::PreToolExecution { tool_name: "mail", .. }) {
            self.0.add("mail");
        }
        Ok(HookAction::Continue)
    }
}

fn model() -> ScriptedProvider {
    ScriptedProvider::new([
        Reply::tool_calls([("call_1", "look", json!({})), ("call_2", "charge", json!({}))]),
        Reply::tool_call("call_3", "mail", json!({})),
        Reply::tool_call("call_4", "mail", json!({})),
        Reply::text("Your books are on their way."),
    ])
}

fn system_prompt(mistake: Option<Mistake>) -> String {
    match mistake {
        Some(Mistake::ReadsClock) => {
            let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
            format!("The time is {} ns.", now.unwrap().as_nanos())
        }
        Some(Mistake::RandomOrder) => {
            let books: HashMap<usize, ()> = (0..20).map(|number| (number, ())).collect();
            format!("The books are {:?}.", books.into_keys().collect::<Vec<_>>())
        }
        _ => "You sell books.".to_owned(),
    }
}

/// Runs the agent until its end, as a process of the shop does after each start.
async fn process(
    trial: &Trial,
    runs: &SqliteRuns,
    (model, world): (&ScriptedProvider, &World),
    mistake: Option<Mistake>,
    is_streamed: bool,
) -> Result<String, BoxError> {
    {
        let mut services = world.0.lock().unwrap();
        services.starts += 1;
        let starts = services.starts;
        drop(services);
        assert!(mistake != Some(Mistake::PanicsOnRestart) || starts == 1, "a file exists already");
    }
    let provider = Arc::new(trial.provider(model.clone()));
    let mut tools = ToolRegistry::new();
    let kinds = [
        ("look", ToolEffect::Pure),
        ("charge", ToolEffect::Idempotent),
        ("mail", ToolEffect::AtMostOnce),
    ];
    for (name, effect) in kinds {
        let (world, calls) = (world.clone(), Arc::default());
        tools.register_dyn(trial.tool(ShopTool { name, effect, world, mistake, calls }));
    }
    let tools = Arc::new(tools);
    let context = runs.run(&trial.run_id()).open(provider.clone(), tools.clone()).await?;
    let start = context.start("Sell me two books").await?;
    let retries = RetryPolicy {
        initial_interval: Duration::from_millis(1),
        backoff_coefficient: 1.0,
        maximum_attempts: 3,
        maximum_interval: Duration::from_secs(10),
        non_retryable_errors: Vec::new(),
    };
    let mut agent = Agent::builder(provider)
        .tools(ToolRegistry::clone(&tools))
        .system_prompt(system_prompt(mistake))
        .config(|config| config.parallel_tool_execution = true);
    if mistake != Some(Mistake::NoRetries) {
        agent = agent.config(|config| config.llm_activity.retry_policy = Some(retries));
    }
    if mistake == Some(Mistake::EffectInHook) {
        agent = agent.hook(SendsMail(world.clone()));
    }
    let agent = agent.build();
    let mut conversation = Conversation::new();
    let run = agent.run(&mut conversation, start).durable(trial.context(context));
    if !is_streamed {
        return Ok(run.await?.response);
    }
    let mut events = run.stream();
    while let Some(event) = events.next().await {
        if let RunEvent::Ended(result) = event? {
            return Ok(result.response);
        }
    }
    Err("the stream has no end".into())
}

async fn run(test: FaultTest, mistake: Option<Mistake>, is_streamed: bool) -> Report {
    let folder = tempfile::tempdir().unwrap();
    let runs = SqliteRuns::open(folder.path().join("runs.db")).await.unwrap();
    test.run(async |trial| {
        let (world, model) = (World::default(), model());
        let seen = world.clone();
        trial.effects(move || seen.effects());
        let process = async || process(trial, &runs, (&model, &world), mistake, is_streamed).await;
        trial.execute(process).await;
    })
    .await
}

/// Runs an agent that makes this mistake, and checks that the report contains a broken promise of this `kind`. Also
/// checks that a run with the reported seed breaks the promise again.
async fn find(mistake: Mistake, kind: &str) {
    let test = FaultTest::new()
        .runs(60)
        .timeout(Duration::from_secs(if mistake == Mistake::StaleLock { 2 } else { 60 }));
    let report = run(test.clone(), Some(mistake), false).await;
    let has = |report: &Report| {
        let found = report.broken.iter();
        found.filter(|run| run.broken.iter().any(|it| it.kind() == kind)).map(|run| run.seed).next()
    };
    let seed = has(&report).unwrap_or_else(|| panic!("{mistake:?} was not found: {report}"));
    assert!(report.to_string().contains(kind), "{report}");
    if seed > 0 {
        let again = run(test.seed(seed).runs(1), Some(mistake), false).await;
        assert_eq!((again.runs, has(&again)), (1, Some(seed)), "{again}");
    }
}

#[tokio::test]
async fn correct_agent_keeps_all_promises() {
    for is_streamed in [false, true] {
        let report = run(FaultTest::new().runs(200), None, is_streamed).await;
        report.assert_kept();
        assert_eq!(report.runs, 200);
        // A run has four model calls and four tool calls, with boundaries around and inside them.
        assert!(report.boundaries > 30, "{report}");
        assert!(report.crashes > report.boundaries && report.faults > report.crashes, "{report}");
    }
}

#[tokio::test]
async fn idempotent_tool_without_key_is_found() {
    find(Mistake::IgnoresKey, "effect_repeated").await;
}

#[tokio::test]
async fn tool_that_is_done_before_its_effect_is_found() {
    find(Mistake::DoneBeforeEffect, "effect_missing").await;
}

#[tokio::test]
async fn idempotent_tool_with_another_second_result_is_found() {
    find(Mistake::SecondCallFails, "result_changed").await;
}

#[tokio::test]
async fn tool_that_waits_for_a_lock_of_a_crashed_call_is_found() {
    find(Mistake::StaleLock, "did_not_end").await;
}

#[tokio::test]
async fn pure_tool_with_an_effect_is_found() {
    find(Mistake::PureHasEffect, "pure_tool_had_effect").await;
}

#[tokio::test]
async fn effect_before_its_intent_is_found() {
    find(Mistake::EffectInHook, "effect_outside_tool").await;
}

#[tokio::test]
async fn effect_in_a_detached_task_is_found() {
    find(Mistake::DetachedTask, "effect_outside_tool").await;
}

#[tokio::test]
async fn agent_that_reads_the_clock_is_found() {
    find(Mistake::ReadsClock, "request_changed").await;
}

#[tokio::test]
async fn agent_that_depends_on_a_random_order_is_found() {
    find(Mistake::RandomOrder, "request_changed").await;
}

#[tokio::test]
async fn agent_without_retries_is_found() {
    find(Mistake::NoRetries, "run_failed").await;
}

#[tokio::test]
async fn tool_with_state_in_memory_is_found() {
    find(Mistake::CounterInMemory, "effect_repeated").await;
}

#[tokio::test]
async fn agent_that_panics_after_a_restart_is_found() {
    find(Mistake::PanicsOnRestart, "panicked").await;
}

#[tokio::test]
#[should_panic(expected = "did not call `Trial::execute`")]
async fn test_without_a_run_panics() {
    FaultTest::new().runs(1).run(async |_| {}).await;
}

#[tokio::test]
#[should_panic(expected = "the run without faults failed: no model")]
async fn run_that_fails_without_faults_panics() {
    let test = FaultTest::new().runs(1);
    test.run(async |trial| trial.execute(async || Err::<String, _>("no model")).await).await;
}

/// Without a durable context, a run has model faults and no crashes.
#[tokio::test]
async fn run_without_a_durable_context_does_not_crash() {
    let report = FaultTest::new()
        .runs(100)
        .run(async |trial| {
            let model = ScriptedProvider::new(["hello"]);
            let agent = async || {
                let agent = Agent::builder(trial.provider(model.clone()))
                    .config(|config| config.retries = 2)
                    .build();
                agent.run(&mut Conversation::new(), "hi").await.map(|result| result.response)
            };
            trial.execute(agent).await;
        })
        .await;
    report.assert_kept();
    assert_eq!((report.crashes, report.boundaries), (0, 0));
    assert!(report.faults > 10, "{report}");
}
