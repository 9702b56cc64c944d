//! The calls that a run makes to its durable context. A replay must repeat them in the same order, however the run is
//! split into executions.

use std::time::Duration;

use neuron_context::{SlidingWindowStrategy, SummarizationStrategy};
use neuron_loop::{AgentResult, Budget, ToolErrorPolicy};
use neuron_testing::{Reply, ScriptedProvider};
use neuron_types::{
    BoxedStrategy, DurableProvider, InjectionPoint, Injector, Message, ProviderError, RunSnapshot,
    Start, StopReason, StreamEvent, TokenUsage, ToolContext, UsageLimits,
};
use proptest::collection::vec;
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::approval::ByArguments;
use crate::journal::{Journal, Journaled, World};
use crate::money::Fee;
use crate::support::*;

type Agent = Chat<'static>;

/// A test case with the model's responses and the settings of the agent.
#[derive(Debug, Clone)]
struct Case {
    answers: Vec<Answer>,
    parallel: bool,
    strategy: Strategy_,
    tool_retry_limit: Option<usize>,
    limits: UsageLimits,
    max_turns: Option<usize>,
    reminds: bool,
}

#[derive(Debug, Clone)]
enum Answer {
    Tools(Vec<Value>),
    /// Calls a tool, and reports this number of input tokens, which may differ from the strategy's estimate.
    Counted(usize),
    /// Calls tools, and reports no usage.
    Uncounted,
    /// Calls a tool that does not exist.
    Unknown,
    Paused,
    Refused,
    CutOff,
    DoesNotFit,
    Final,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Strategy_ {
    Window(usize, usize),
    /// Summarises old messages with a model call through the durable context. The fields are the number of recent
    /// messages to keep and the token budget.
    Summary(usize, usize),
}

struct Reminds;

impl Injector for Reminds {
    fn injections(&self, point: &InjectionPoint<'_>) -> Vec<String> {
        let mut said = Vec::new();
        if point.turn % 2 == 1 {
            said.push("keep it short".into());
        }
        if point.turn % 3 == 2 {
            let spent = point.state.token_usage.total_tokens();
            said.push(format!("{} calls, {spent} tokens", point.state.event_count));
        }
        said
    }
}

impl Case {
    fn replies(&self) -> Vec<Reply> {
        let usage = |tokens| TokenUsage { input_tokens: tokens, ..TokenUsage::default() };
        let one = || calls([json!({"text": "counted"})]);
        let reply = |answer: &Answer| match answer {
            Answer::Tools(inputs) => calls(inputs.clone()),
            Answer::Counted(tokens) => one().usage(usage(*tokens)),
            Answer::Uncounted => one().usage(TokenUsage::default()),
            Answer::Unknown => Reply::tool_call("c0", "nothing", json!({})),
            Answer::Paused => Reply::text("thinking on").stop_reason(StopReason::PauseTurn),
            Answer::Refused => Reply::text("no").stop_reason(StopReason::Refusal),
            Answer::CutOff => Reply::text("so then").stop_reason(StopReason::ContextWindowExceeded),
            Answer::DoesNotFit => {
                Reply::error(ProviderError::ContextWindowExceeded("too long".into()))
            }
            Answer::Final => Reply::text("done"),
        };
        self.answers.iter().map(reply).chain([Reply::text("the end")]).collect()
    }

    fn world(&self, log: &Log) -> World {
        World { approves: true, ..World::new(self.replies(), registry(log), []) }
    }

    fn agent(&self, context: &Journaled, budget: &Budget, hook: &Recorder) -> Agent {
        let strategy = match self.strategy {
            Strategy_::Window(messages, tokens) => {
                BoxedStrategy::new(SlidingWindowStrategy::new(messages, tokens))
            }
            Strategy_::Summary(keep, tokens) => {
                let provider = DurableProvider::new(context.clone());
                BoxedStrategy::new(SummarizationStrategy::new(provider, keep, tokens))
            }
        };
        let mut builder = Chat::builder(ScriptedProvider::new([""; 0]), strategy)
            .tools(context.world.tools.clone())
            .system_prompt("You are careful. ".repeat(5))
            .parallel_tool_execution(self.parallel)
            .permission_policy(ByArguments)
            .approval_signal("decided", Duration::from_secs(60))
            .tool_errors(ToolErrorPolicy::ReturnToModel)
            .usage_limits(self.limits.clone())
            .budget(budget.clone())
            .hook(hook.clone());
        if self.reminds {
            builder = builder.injector(Reminds);
        }
        let mut agent = builder.durability(context.clone()).build();
        agent.config_mut().tool_retry_limit = self.tool_retry_limit;
        agent.config_mut().max_turns = self.max_turns;
        agent
    }

    /// Runs to the end, in as many executions as the context requests. Then replays each execution from its journal,
    /// and checks that the replay makes the same calls.
    async fn outcome(&self, way: Way, continue_at: impl IntoIterator<Item = usize>) -> Outcome {
        let (log, hook) = (Log::default(), Recorder::default());
        let world = self.world(&log);
        let budget = Budget::priced(Fee);
        let mut context = Journaled::new(&world, &Journal::default()).continuing_at(continue_at);
        let mut start = Start::from("go");
        let mut executions = 0;
        loop {
            executions += 1;
            let mut agent = self.agent(&context, &budget, &hook);
            let asked_before = context.asked_so_far();
            let calls_before = context.calls.lines().len();
            let ended = run_from(way, &mut agent, start.clone()).await;

            let model_calls = world.provider.calls();
            let again = context.replay(asked_before);
            let mut replayed = self.agent(&again, &Budget::priced(Fee), &Recorder::default());
            let ended_again = run_from(way, &mut replayed, start.clone()).await;
            same(&again.calls.lines(), &context.calls.lines()[calls_before..]);
            assert_eq!(format!("{ended_again:?}"), format!("{ended:?}"));
            assert_eq!(world.provider.calls(), model_calls, "a replay calls no model");

            let ends = context.calls.lines()[calls_before..]
                .iter()
                .filter(|line| line.starts_with("ended"))
                .count();
            assert_eq!(ends, 1, "each execution is told once how the run ended");
            let Some(state) = context.state.lock().unwrap().take() else {
                let is_of_execution = |line: &String| {
                    ["Session", "RunStart", "RunEnd"].iter().any(|start| line.starts_with(start))
                };
                let events = hook.log.lines().into_iter().filter(|line| !is_of_execution(line));
                let steps = context.calls.lines().into_iter();
                let is_step = |line: &String| {
                    ["llm", "tools", "signal", "approval"].iter().any(|kind| line.starts_with(kind))
                };
                return Outcome {
                    ended: format!("{ended:?}"),
                    messages: agent.messages().to_vec(),
                    usage: [
                        agent.usage(),
                        agent.total_usage(),
                        agent.estimated_usage(),
                        agent.tool_usage(),
                    ]
                    .map(Clone::clone),
                    turns: agent.turns(),
                    charged: (budget.usage(), budget.requests(), budget.tool_calls()),
                    events: events.collect(),
                    steps: steps.filter(is_step).collect(),
                    tools: log.lines(),
                    executions,
                };
            };
            let stored = serde_json::to_string(&state).unwrap();
            start = serde_json::from_str::<RunSnapshot>(&stored).unwrap().into();
            context = context.next_execution();
        }
    }
}

async fn run_from(way: Way, agent: &mut Agent, start: Start) -> Result<AgentResult, String> {
    let ctx = ToolContext::default();
    match way {
        Way::Run => agent.run_from(start, &ctx).await.map_err(|error| error.to_string()),
        Way::Stream => {
            let mut events = agent.run_from_stream(start, &ctx).await;
            let result = loop {
                match events.recv().await.expect("an end") {
                    StreamEvent::RunComplete(result) => break *result,
                    StreamEvent::Error(error) => return Err(error.to_string()),
                    _ => {}
                }
            };
            drop(events);
            Ok(AgentResult { messages: agent.messages().to_vec(), ..result })
        }
        Way::Step => {
            let mut steps = agent.run_from_step(start, &ctx);
            loop {
                match steps.next().await.expect("an end") {
                    Ok(Step::Ended(result)) => return Ok(result),
                    Err(error) => return Err(error.to_string()),
                    _ => {}
                }
            }
        }
    }
}

#[derive(Debug, Clone, PartialEq)]
struct Outcome {
    ended: String,
    messages: Vec<Message>,
    usage: [TokenUsage; 4],
    turns: usize,
    charged: (TokenUsage, usize, usize),
    events: Vec<String>,
    steps: Vec<String>,
    tools: Vec<String>,
    executions: usize,
}

fn input() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(json!({"text": "short"})),
        Just(json!({"text": "long ".repeat(60)})),
        Just(json!({"retry": "try another"})),
        Just(json!({"fail": "broken"})),
        Just(json!({"ask": "sure?", "text": "asked"})),
        Just(json!({"deny": "never"})),
    ]
}

fn answer() -> impl Strategy<Value = Answer> {
    prop_oneof![
        6 => vec(input(), 1..4).prop_map(Answer::Tools),
        2 => (1_usize..400).prop_map(Answer::Counted),
        1 => Just(Answer::Uncounted),
        1 => Just(Answer::Unknown),
        1 => Just(Answer::Paused),
        1 => Just(Answer::CutOff),
        1 => Just(Answer::DoesNotFit),
    ]
}

fn last() -> impl Strategy<Value = Answer> {
    prop_oneof![4 => Just(Answer::Final), 1 => Just(Answer::Refused)]
}

fn limits() -> impl Strategy<Value = UsageLimits> {
    let limit = |most: usize| prop_oneof![3 => Just(None), 1 => (1..most).prop_map(Some)];
    (limit(8), limit(12), limit(3_000)).prop_map(|(requests, tool_calls, tokens)| UsageLimits {
        request_limit: requests,
        tool_calls_limit: tool_calls,
        total_tokens_limit: tokens,
        ..UsageLimits::default()
    })
}

fn strategy() -> impl Strategy<Value = Strategy_> {
    prop_oneof![
        (3_usize..9, 60_usize..600)
            .prop_map(|(messages, tokens)| Strategy_::Window(messages, tokens)),
        (1_usize..5, 60_usize..600).prop_map(|(keep, tokens)| Strategy_::Summary(keep, tokens)),
    ]
}

fn case() -> impl Strategy<Value = Case> {
    let limit = |most: usize| prop_oneof![2 => Just(None), 1 => (0..most).prop_map(Some)];
    let answers = (vec(answer(), 0..7), last()).prop_map(|(mut answers, last)| {
        answers.push(last);
        answers
    });
    (answers, any::<bool>(), strategy(), limit(3), limits(), limit(8), any::<bool>()).prop_map(
        |(answers, parallel, strategy, tool_retry_limit, limits, max_turns, reminds)| Case {
            answers,
            parallel,
            strategy,
            tool_retry_limit,
            limits,
            max_turns,
            reminds,
        },
    )
}

/// Asserts that two lists of lines are equal. The failure shows only the first difference.
#[track_caller]
fn same(list: &[String], expected: &[String]) {
    for (index, (line, expected)) in list.iter().zip(expected).enumerate() {
        assert_eq!(line, expected, "line {index}");
    }
    assert_eq!(list.len(), expected.len());
}

fn block_on<T>(work: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(work)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..Default::default() })]

    /// The outcome must be equal whether the run is awaited, streamed or stepped. It must not depend on how the run is
    /// split into executions.
    #[test]
    fn run_is_the_same_in_every_division_into_executions(
        case in case(),
        turns in vec(any::<bool>(), 0..24),
        way in prop_oneof![Just(Way::Run), Just(Way::Stream), Just(Way::Step)],
    ) {
        block_on(async {
            let whole = case.outcome(Way::Run, []).await;
            let chosen = turns.iter().enumerate().filter(|(_, chosen)| **chosen);
            let split = case.outcome(way, chosen.map(|(at, _)| at)).await;
            same(&split.events, &whole.events);
            same(&split.steps, &whole.steps);
            assert_eq!(Outcome { executions: 1, ..split }, whole);
        });
    }
}

/// Returns a case whose run uses everything that a journal records.
fn everything() -> Case {
    let ask = json!({"ask": "sure?", "text": "asked"});
    let long = json!({"text": "long ".repeat(60)});
    Case {
        answers: vec![
            Answer::Tools(vec![json!({"text": "a"}), json!({"retry": "again"}), long.clone()]),
            Answer::Tools(vec![ask, long.clone(), json!({"fail": "broken"})]),
            // The response of the summary.
            Answer::Final,
            Answer::Tools(vec![long]),
            Answer::Final,
            Answer::Final,
        ],
        parallel: true,
        strategy: Strategy_::Summary(2, 200),
        tool_retry_limit: Some(3),
        limits: UsageLimits::default(),
        max_turns: None,
        reminds: true,
    }
}

#[tokio::test]
async fn complete_run_is_the_same_in_every_way_and_division() {
    let case = everything();
    let whole = case.outcome(Way::Run, []).await;
    let count = |part: &str| whole.events.iter().filter(|line| line.contains(part)).count();
    assert!(whole.ended.starts_with("Ok"), "{}", whole.ended);
    let seen = [
        count("Compacted"),
        count("PostTool act c1 error again"),
        count("PostTool act c0 ok asked"),
    ];
    assert_eq!(seen, [2, 1, 1], "{:#?}", whole.events);
    assert!(whole.turns >= 4 && whole.steps.iter().any(|step| step.starts_with("signal")));
    for way in WAYS {
        for subset in 0..64_usize {
            // Divided after each turn alone, and after several turns. A new execution asks once more.
            let chosen = (0..6).filter(|turn| subset >> turn & 1 == 1);
            let chosen = chosen.enumerate().map(|(before, turn)| turn + before);
            let split = case.outcome(way, chosen).await;
            same(&split.events, &whole.events);
            same(&split.steps, &whole.steps);
            assert_eq!(split.executions == 1, subset & 0b1111 == 0, "{subset:b}");
            assert_eq!(Outcome { executions: 1, ..split }, whole);
        }
    }
}

/// The process of a run may end after any step of its journal. A new process that continues from the journal must have
/// the same outcome.
#[tokio::test]
async fn run_continues_from_every_step_of_its_journal() {
    let case = everything();
    let (log, budget) = (Log::default(), || Budget::new(UsageLimits::default()));
    let world = case.world(&log);
    let context = Journaled::new(&world, &Journal::default());
    let mut agent = case.agent(&context, &budget(), &Recorder::default());
    let whole = run_from(Way::Run, &mut agent, "go".into()).await.unwrap();
    let steps = context.journal.len();
    assert!(steps > 8, "{steps}");
    for cut in 0..=steps {
        let journal = context.journal.cut(cut);
        let replies = case.replies().into_iter().skip(journal.count("llm"));
        let world = World { approves: true, ..World::new(replies, registry(&log), []) };
        let again = Journaled::new(&world, &journal);
        let mut agent = case.agent(&again, &budget(), &Recorder::default());
        let result = run_from(Way::Run, &mut agent, "go".into()).await.unwrap();
        assert_eq!(result, whole, "cut after {cut} steps");
        same(&again.calls.lines(), &context.calls.lines());
        assert_eq!(
            world.provider.calls(),
            context.journal.count("llm") - context.journal.cut(cut).count("llm")
        );
    }
}
