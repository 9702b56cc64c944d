//! The last model call without tools that `OnLimit::Finalize` makes after a limit.

use std::pin::pin;
use std::time::Duration;

use neuron_loop::OnLimit;
use neuron_testing::{Reply, ScriptedProvider};
use neuron_types::{
    ContentBlock, HookAction, Message, ProviderError, Role, StopReason, TokenUsage, ToolChoice,
    ToolContext, UsageLimits,
};
use serde_json::json;

use crate::support::*;
use crate::waiting::{SlowRecorder, SlowWindow, Strict, TO_THE_END, poll_times};

fn used(reply: Reply) -> Reply {
    reply.usage(TokenUsage { input_tokens: 100, output_tokens: 10, ..Default::default() })
}

/// Returns two responses with two tool calls each, then `last`, then a response for another run.
fn replies(last: Reply) -> Vec<Reply> {
    let turn = || used(calls([json!({"text": "a"}), json!({"text": "b"})]));
    vec![turn(), turn(), used(last), used(Reply::text("later"))]
}

type Limit = fn(ChatBuilder<'static>) -> ChatBuilder<'static>;

/// Returns all limits that a run reaches within two turns. Each limit has the text of its error and the number of tools
/// that run before the limit is reached.
fn limits() -> [(Limit, &'static str, usize); 6] {
    fn limit() -> UsageLimits {
        UsageLimits::default()
    }
    [
        (|builder| builder.max_turns(2), "max turns reached (2)", 4),
        (
            |builder| builder.usage_limits(limit().with_request_limit(2)),
            "usage limit exceeded: request limit exceeded: 3 > 2",
            4,
        ),
        (
            |builder| builder.usage_limits(limit().with_tool_calls_limit(3)),
            "usage limit exceeded: tool call limit exceeded: 4 > 3",
            2,
        ),
        (
            |builder| builder.usage_limits(limit().with_input_tokens_limit(150)),
            "usage limit exceeded: input token limit exceeded: 200 > 150",
            2,
        ),
        (
            |builder| builder.usage_limits(limit().with_output_tokens_limit(15)),
            "usage limit exceeded: output token limit exceeded: 20 > 15",
            2,
        ),
        (
            |builder| builder.usage_limits(limit().with_total_tokens_limit(219)),
            "usage limit exceeded: total token limit exceeded: 220 > 219",
            2,
        ),
    ]
}

fn is_notice(message: &Message) -> bool {
    message.role == Role::System && message.text().contains("reached a limit")
}

#[tokio::test]
async fn every_limit_is_followed_by_one_last_call() {
    for way in WAYS {
        for (limit, error, ran) in limits() {
            let setup = setup(replies(Reply::text("This is what I know.")));
            let hook = Recorder::default();
            let mut agent =
                limit(setup.builder).on_limit(OnLimit::Finalize).hook(hook.clone()).build();
            let result = run(way, &mut agent, &ToolContext::default()).await.unwrap();
            assert_eq!(result.response, "This is what I know.", "{way:?}, {error}");
            assert_eq!(result.limit_reached.as_deref(), Some(error));
            assert_eq!((result.turns, result.usage.input_tokens), (3, 300));
            assert_eq!((result.stop_reason, setup.provider.calls()), (StopReason::EndTurn, 3));
            assert_eq!(setup.log.count("start"), ran, "{error}");
            check_valid(agent.messages());
            check_pairs(&hook.log.lines());
            assert_eq!(hook.log.count("Turn 2"), 1);

            // The last request begins with the messages of the previous request, and ends with the notice.
            let requests = setup.provider.requests();
            let (before, last) = (&requests[1], &requests[2]);
            assert_eq!(last.messages[..before.messages.len()], before.messages);
            assert_eq!(last.messages.len(), 6);
            let notice = last.messages.last().unwrap();
            assert!(is_notice(notice) && notice.text().contains(error), "{notice:?}");
            check_valid(&last.messages);
            assert_eq!((&last.tools, &last.tool_choice), (&before.tools, &Some(ToolChoice::None)));
            assert_eq!(before.tool_choice, None);

            // The next run is a normal run that continues the conversation.
            agent.config_mut().usage_limits = None;
            let next = run(way, &mut agent, &ToolContext::default()).await.unwrap();
            assert_eq!((next.response.as_str(), next.limit_reached), ("later", None));
            let request = &setup.provider.requests()[3];
            assert_eq!(request.tool_choice, None);
            assert_eq!(request.messages[..6], last.messages[..]);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn failed_or_interrupted_last_call_removes_its_notice() {
    let fails: fn() -> Reply = || Reply::error(ProviderError::ServiceUnavailable("529".into()));
    let hangs: fn() -> Reply = Reply::hang;
    for (reply, cancels) in [(fails, false), (hangs, false), (hangs, true)] {
        for way in WAYS {
            for (limit, _, _) in limits() {
                let setup = setup(replies(reply()));
                let mut agent = limit(setup.builder).on_limit(OnLimit::Finalize).build();
                let ctx = ToolContext::default();
                let second = Duration::from_secs(1);
                let token = ctx.cancellation_token.clone();
                let whole = tokio::time::timeout(second * 2, run(way, &mut agent, &ctx));
                let (ended, ()) = tokio::join!(whole, async {
                    tokio::time::sleep(second).await;
                    if cancels {
                        token.cancel();
                    }
                });
                assert!(!matches!(ended, Ok(Ok(_))));
                assert_eq!(setup.provider.calls(), 3);
                assert_eq!(agent.messages().len(), 5, "{:#?}", agent.messages());
                assert!(!agent.messages().iter().any(is_notice));
                check_valid(agent.messages());
                agent.config_mut().usage_limits = None;
                let next = run(way, &mut agent, &ToolContext::default()).await.unwrap();
                assert_eq!(next.response, "later");
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn step_dropped_in_the_last_call_makes_it_in_the_next_step() {
    let setup = setup(replies(Reply::hang()));
    let mut agent = setup.builder.max_turns(2).on_limit(OnLimit::Finalize).build();
    let ctx = ToolContext::default();
    let mut steps = agent.run_step(Message::user("go"), &ctx);
    steps.next().await.unwrap().unwrap();
    steps.next().await.unwrap().unwrap();
    let second = Duration::from_secs(1);
    assert!(tokio::time::timeout(second, steps.next()).await.is_err(), "it hangs");
    let ended = steps.next().await;
    let Some(Ok(Step::Ended(result))) = ended else { panic!("{ended:?}") };
    assert_eq!(result.limit_reached.as_deref(), Some("max turns reached (2)"));
    assert_eq!(setup.provider.calls(), 4);
    let notices = result.messages.iter().filter(|message| message.role == Role::System);
    assert_eq!(notices.count(), 1, "the notice of the call that was dropped is not there");
}

#[tokio::test]
async fn hook_that_ends_the_run_at_the_last_call_leaves_no_notice() {
    for (event, calls) in [("Turn 2", 2), ("PreLlm 6", 2), ("PostLlm EndTurn", 3)] {
        for way in WAYS {
            let setup = setup(replies(Reply::text("never seen")));
            let terminate = HookAction::Terminate { reason: "no".into() };
            let hook = Recorder::answering(event, terminate);
            let mut agent =
                setup.builder.max_turns(2).on_limit(OnLimit::Finalize).hook(hook.clone()).build();
            let error = run(way, &mut agent, &ToolContext::default()).await.unwrap_err();
            assert_eq!((error.as_str(), setup.provider.calls()), ("terminated by hook: no", calls));
            assert_eq!(agent.messages().len(), 5);
            check_pairs(&hook.log.lines());
        }
    }
}

#[tokio::test]
async fn paused_last_call_gets_no_notice_and_ends_at_a_pause() {
    let paused = |text: &str| Reply::text(text).stop_reason(StopReason::PauseTurn);
    for way in WAYS {
        let setup = setup([paused("The first half, "), paused("the second"), Reply::text("never")]);
        let mut agent = setup.builder.max_turns(1).on_limit(OnLimit::Finalize).build();
        let result = run(way, &mut agent, &ToolContext::default()).await.unwrap();
        assert_eq!(result.response, "The first half, the second");
        assert_eq!((result.stop_reason, setup.provider.calls()), (StopReason::PauseTurn, 2));
        let last = &setup.provider.requests()[1];
        assert_eq!(last.messages.len(), 2);
        assert_eq!(last.tool_choice, Some(ToolChoice::None));
        check_valid(agent.messages());
    }
}

#[tokio::test]
async fn last_call_without_tools_sends_no_tool_choice() {
    let reply = || Reply::text("…").stop_reason(StopReason::PauseTurn);
    let provider = ScriptedProvider::new([reply(), reply()]);
    let mut agent = Chat::builder(provider.clone(), window())
        .tool_choice(ToolChoice::Auto)
        .max_turns(1)
        .on_limit(OnLimit::Finalize)
        .prepare_turn(|turn| {
            turn.settings.model = format!("model-{}", turn.run.turns);
            turn.settings.tool_choice = Some(ToolChoice::Required);
        })
        .build();
    agent.run_text("go", &ToolContext::default()).await.unwrap();
    let sent: Vec<_> = provider.requests().into_iter().map(|r| (r.model, r.tool_choice)).collect();
    let expected =
        [("model-0".to_owned(), Some(ToolChoice::Required)), ("model-1".to_owned(), None)];
    assert_eq!(sent, expected);
}

/// Interrupts a run at every point where it waits. The run reaches a limit and makes one last model call with a notice
/// about the limit. The history must stay valid, and must not end with the notice.
#[test]
fn interrupted_last_call_leaves_a_valid_history_without_notice() {
    let script = || {
        let act = || json!({"waits": 1});
        vec![
            calls([act(), act()]),
            calls([act(), act()]),
            Reply::text("landed"),
            Reply::text("later"),
            Reply::text("later"),
            Reply::text("later"),
        ]
    };
    for way in WAYS {
        for (limit, _, _) in limits() {
            for cancels in [false, true] {
                for polls in 0.. {
                    let (events, log) = (Recorder::default(), Log::default());
                    let builder = Chat::builder(Strict::new(script()), SlowWindow::new());
                    let mut agent = limit(builder)
                        .tools(registry(&log))
                        .on_limit(OnLimit::Finalize)
                        .hook(SlowRecorder(events.clone()))
                        .build();
                    let ctx = ToolContext::default();
                    let ended = {
                        let mut run = pin!(run(way, &mut agent, &ctx));
                        let ended = poll_times(run.as_mut(), polls).is_some();
                        if !ended && cancels {
                            ctx.cancellation_token.cancel();
                            assert!(poll_times(run, 500).is_some(), "it ends soon");
                        }
                        ended
                    };
                    let messages = agent.messages();
                    check_valid(messages);
                    let lone = messages.last().is_some_and(is_notice);
                    assert!(!lone, "{way:?}, left after {polls} polls: {messages:#?}");
                    if ended || cancels {
                        check_pairs(&events.log.lines());
                    }
                    agent.config_mut().usage_limits = None;
                    agent.config_mut().max_turns = None;
                    let again = ToolContext::default();
                    let whole = poll_times(pin!(run(way, &mut agent, &again)), TO_THE_END);
                    whole.expect("it ends").unwrap();
                    check_valid(agent.messages());
                    if ended {
                        assert!(polls > 20, "there was something to leave");
                        break;
                    }
                }
            }
        }
    }
}

#[tokio::test]
async fn notices_do_not_accumulate_over_many_runs() {
    let turn = || [calls([json!({})]), Reply::text("landed")];
    let provider = ScriptedProvider::new((0..20).flat_map(|_| turn()));
    let strategy = neuron_context::SlidingWindowStrategy::new(6, 30);
    let mut agent = Chat::builder(provider, strategy)
        .tools(registry(&Log::default()))
        .max_turns(1)
        .on_limit(OnLimit::Finalize)
        .build();
    for _ in 0..20 {
        let result = agent.run_text("go", &ToolContext::default()).await.unwrap();
        assert_eq!(result.response, "landed");
        check_valid(agent.messages());
    }
    let notices = agent.messages().iter().filter(|message| is_notice(message)).count();
    assert!(notices <= 2, "{notices}");
    let is_call = |block: &ContentBlock| block.as_tool_use().is_some();
    assert!(agent.messages().iter().any(|message| message.content.iter().any(is_call)));
}
