//! Runs that end with a typed value. The tests cover the request for the value, invalid values, and other calls in the
//! same response.

use std::pin::pin;
use std::sync::Arc;

use neuron_loop::{Conversation, EndStrategy, LoopError, OutputMode};
use neuron_testing::{Reply, ScriptedProvider};
use neuron_tool::ToolRegistry;
use neuron_types::{
    ActivityOptions, CompletionRequest, CompletionResponse, ContentBlock, DurableContext,
    DurableError, Message, ProviderError, ResponseFormat, Role, StopReason, SystemPrompt,
    TokenUsage, ToolCall, ToolChoice, ToolContext, ToolOutput, UsageLimits,
};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::support::*;
use crate::waiting::{SlowRecorder, SlowWindow, Strict, Waiting, poll_times};

/// A city
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
struct City {
    name: String,
    /// How many people live there
    people: u32,
    mayor: Option<String>,
}

const MODES: [OutputMode; 3] = [OutputMode::Tool, OutputMode::Native, OutputMode::Prompt];

fn oslo() -> City {
    City { name: "Oslo".into(), people: 700_000, mayor: None }
}

fn right() -> Value {
    json!({"name": "Oslo", "people": 700_000, "mayor": null})
}

fn wrong() -> Value {
    json!({"name": "Oslo", "people": "many"})
}

/// The error of the output that [`wrong`] returns.
const FAULT: &str = "`$.people`: invalid type: string \"many\", expected u32";

/// Returns a response with this output, as an output tool call or as text, depending on the mode.
fn gives(mode: OutputMode, output: Value) -> Reply {
    match mode {
        OutputMode::Tool => Reply::tool_call("out", "final_output", output),
        _ => Reply::text(output.to_string()),
    }
}

/// Returns a response that calls the output tool for each of `outputs` (ids `out0`, `out1`, …), and the tool `act` for
/// each of `acts` (ids `c0`, `c1`, …).
fn gives_beside(outputs: &[Value], acts: &[Value]) -> Reply {
    let outputs = outputs.iter().enumerate().map(|(i, v)| (format!("out{i}"), "final_output", v));
    let acts = acts.iter().enumerate().map(|(i, v)| (format!("c{i}"), "act", v));
    Reply::tool_calls(outputs.chain(acts).map(|(id, name, input)| (id, name, input.clone())))
}

/// Returns the request without its conversation.
fn settings(request: &CompletionRequest) -> CompletionRequest {
    CompletionRequest { messages: vec![], ..request.clone() }
}

async fn typed<T: serde::de::DeserializeOwned + JsonSchema>(
    agent: &mut Chat<'_>,
) -> Result<TypedResult<T>, LoopError> {
    agent.run_typed(Message::user("go"), &ToolContext::default()).await
}

#[track_caller]
fn check_invalid(error: LoopError, raw: &str, reason: &str, attempts: usize, stop: StopReason) {
    assert_eq!(error.kind(), "InvalidOutput");
    assert!(!error.is_retryable());
    assert_eq!(error.to_string(), format!("invalid output (attempt {attempts}): {reason}"));
    let LoopError::InvalidOutput { raw: is_raw, attempts: made, stop_reason, .. } = error else {
        panic!("{error:?}")
    };
    assert_eq!((is_raw.as_str(), made, stop_reason), (raw, attempts, stop));
}

#[tokio::test]
async fn every_mode_ends_with_the_value_and_restores_the_settings() {
    for mode in MODES {
        let act = || calls([json!({"text": "a"})]).with_text("Let me look.");
        let setup = setup([act(), gives(mode, right()), Reply::text("plain")]);
        let hook = Recorder::default();
        let builder = setup.builder.output_mode(mode).system_prompt("Be brief.");
        let mut agent = builder.hook(hook.clone()).build();
        let TypedResult { value, result, .. } = typed::<City>(&mut agent).await.unwrap();
        assert_eq!(value, oslo());
        assert_eq!((result.turns, setup.log.count("start")), (2, 1));
        assert_eq!(result.messages, agent.messages());
        check_valid(agent.messages());
        check_pairs(&hook.log.lines());
        assert_eq!(hook.log.count("final_output"), 0, "the output is no tool call for hooks");
        assert_eq!(hook.log.count("RunEnd ok 2"), 1);
        if mode == OutputMode::Tool {
            assert_eq!(last_results(agent.messages()), ["out: The output is accepted."]);
            assert_eq!(result.stop_reason, StopReason::ToolUse);
        } else {
            assert_eq!(result.response, right().to_string());
        }
        let requests = setup.provider.requests();
        assert_eq!(settings(&requests[0]), settings(&requests[1]));
        agent.run_text("go on", &ToolContext::default()).await.unwrap();
        let plain = setup.provider.requests().remove(2);
        assert_eq!(plain.system, Some(SystemPrompt::Text("Be brief.".into())));
        assert_eq!(
            (plain.tools.len(), &plain.response_format, &plain.tool_choice),
            (1, &None, &None)
        );
        let mut asked = settings(&requests[0]);
        match mode {
            OutputMode::Tool => {
                let tool = asked.tools.pop().unwrap();
                assert_eq!(tool.name, "final_output");
                assert_eq!(tool.input_schema["properties"]["people"]["type"], "integer");
                assert_eq!(tool.input_schema["required"], json!(["name", "people"]));
                assert!(tool.description.starts_with("A city\n\nGives the final output."));
            }
            OutputMode::Native => {
                let Some(ResponseFormat::JsonSchema { name, schema, strict }) =
                    asked.response_format.take()
                else {
                    panic!("{asked:?}")
                };
                assert_eq!((name.as_str(), strict), ("City", true));
                assert_eq!(schema["required"], json!(["name", "people", "mayor"]));
                assert_eq!(schema["additionalProperties"], false);
                assert_eq!(schema["properties"]["mayor"]["type"], json!(["string", "null"]));
            }
            _ => {
                let Some(SystemPrompt::Text(text)) = asked.system.take() else { panic!() };
                let schema = text.strip_prefix("Be brief.\n\nGive your final answer as one JSON");
                let (_, schema) = schema.unwrap().split_once('\n').unwrap();
                let schema: Value = serde_json::from_str(schema).unwrap();
                assert_eq!(schema, Value::from(schemars::schema_for!(City)));
                asked.system = Some("Be brief.".into());
            }
        }
        assert_eq!(asked, settings(&plain), "nothing else differs");
    }
}

#[tokio::test]
async fn values_other_than_objects_are_wrapped() {
    for mode in MODES {
        let list = json!(["a", "b"]);
        let answer = match mode {
            OutputMode::Prompt => list,
            _ => json!({ "value": list }),
        };
        let setup = setup([gives(mode, json!({"value": ["a", 7]})), gives(mode, answer)]);
        let mut agent = setup.builder.output_mode(mode).build();
        assert_eq!(typed::<Vec<String>>(&mut agent).await.unwrap().value, ["a", "b"]);
        let complaint = format!("{:?}", setup.provider.requests()[1].messages.last());
        let place = if mode == OutputMode::Prompt { "expected a sequence" } else { "`$.value[1]`" };
        assert!(complaint.contains(place), "{complaint}");
    }
}

#[tokio::test]
async fn unenforceable_schema_is_not_sent_as_strict() {
    type Map = std::collections::BTreeMap<String, u8>;
    let setup = setup([Reply::text(r#"{"a": 1}"#)]);
    let mut agent = setup.builder.output_mode(OutputMode::Native).build();
    assert_eq!(typed::<Map>(&mut agent).await.unwrap().value, Map::from([("a".into(), 1)]));
    let request = setup.provider.requests().remove(0);
    let Some(ResponseFormat::JsonSchema { schema, strict: false, .. }) = request.response_format
    else {
        panic!("{request:?}")
    };
    assert_eq!(schema["additionalProperties"]["type"], "integer");
}

#[tokio::test]
async fn invalid_output_is_returned_with_place_and_reason() {
    for mode in MODES {
        let setup = setup([gives(mode, wrong()), gives(mode, right())]);
        let mut agent = setup.builder.output_mode(mode).output_retries(1).build();
        let TypedResult { value, result, .. } = typed::<City>(&mut agent).await.unwrap();
        assert_eq!((value, result.turns), (oslo(), 2));
        check_valid(&result.messages);
        let [user, answer, complaint] = &setup.provider.requests()[1].messages[..] else {
            panic!("one message: {:?}", setup.provider.requests()[1].messages)
        };
        assert_eq!((user, answer.role), (&Message::user("go"), Role::Assistant));
        match mode {
            OutputMode::Tool => assert_eq!(
                last_results(std::slice::from_ref(complaint)),
                [format!("out: !{FAULT}; call `final_output` again with the whole output")]
            ),
            _ => assert_eq!(
                *complaint,
                Message::user(format!(
                    "That is not the output that is wanted: {FAULT}. Answer again with the whole \
                     JSON and nothing else."
                ))
            ),
        }
    }
}

#[tokio::test]
async fn last_retry_ends_with_the_last_raw_output() {
    for mode in MODES {
        for retries in [0, 2] {
            let other = json!({"people": "few"});
            let last = if retries == 0 { wrong() } else { other.clone() };
            let fault = match retries {
                0 => FAULT.to_owned(),
                _ => FAULT.replace("many", "few"),
            };
            let script = [wrong(), json!(7), other].map(|output| gives(mode, output));
            let setup = setup(
                script
                    .into_iter()
                    .take(retries)
                    .chain([gives(mode, last.clone()), Reply::text("later")]),
            );
            let hook = Recorder::default();
            let builder = setup.builder.output_mode(mode).output_retries(retries);
            let mut agent = builder.hook(hook.clone()).build();
            let error = typed::<City>(&mut agent).await.unwrap_err();
            let stop =
                if mode == OutputMode::Tool { StopReason::ToolUse } else { StopReason::EndTurn };
            check_invalid(error, &last.to_string(), &fault, retries + 1, stop);
            check_valid(agent.messages());
            check_pairs(&hook.log.lines());
            assert_eq!(hook.log.count("RunEnd invalid output"), 1);
            assert_eq!(agent.turns(), retries + 1);
            let ctx = ToolContext::default();
            assert_eq!(agent.run_text("go on", &ctx).await.unwrap().response, "later");
        }
    }
}

#[tokio::test]
async fn fenced_json_is_accepted_as_text() {
    for mode in [OutputMode::Native, OutputMode::Prompt] {
        let setup = setup([Reply::text(format!("Here:\n```json\n{}\n```", right()))]);
        let mut agent = setup.builder.output_mode(mode).build();
        assert_eq!(typed::<City>(&mut agent).await.unwrap().value, oslo());
    }
}

#[tokio::test]
async fn text_instead_of_the_output_tool_is_rejected_and_counts() {
    let say = || Reply::text("It is Oslo.");
    let setup = setup([
        say(),
        gives(OutputMode::Tool, right()),
        // The last response counts, not the earlier call.
        gives(OutputMode::Tool, wrong()),
        say(),
    ]);
    let mut agent = setup.builder.output_retries(1).build();
    assert_eq!(typed::<City>(&mut agent).await.unwrap().value, oslo());
    let complaint = "give the output by calling the tool `final_output`";
    assert_eq!(
        setup.provider.requests()[1].messages.last(),
        Some(&Message::user(format!("The task is not done: {complaint}.")))
    );
    let error = typed::<City>(&mut agent).await.unwrap_err();
    check_invalid(error, "It is Oslo.", complaint, 2, StopReason::EndTurn);
}

#[tokio::test]
async fn arguments_that_are_not_json_are_an_invalid_output() {
    let broken = || gives(OutputMode::Tool, ToolCall::invalid_json_input(r#"{"name": "#));
    let setup = setup([broken(), gives(OutputMode::Tool, right()), broken()]);
    let mut agent = setup.builder.output_retries(1).build();
    assert_eq!(typed::<City>(&mut agent).await.unwrap().value, oslo());
    agent.config_mut().output_retries = 0;
    let error = typed::<City>(&mut agent).await.unwrap_err();
    let reason = "the arguments are not JSON: EOF while parsing a value at line 1 column 9";
    check_invalid(error, r#"{"name": "#, reason, 1, StopReason::ToolUse);
    check_valid(agent.messages());
}

/// The output type has only optional fields, so the loop could read invalid JSON as an empty output. It must not.
#[tokio::test]
async fn broken_arguments_are_not_read_as_an_empty_output() {
    #[derive(Debug, PartialEq, Deserialize, JsonSchema)]
    struct Loose {
        name: Option<String>,
    }
    #[derive(Debug, PartialEq, Deserialize, JsonSchema)]
    struct Odd {
        invalid_json: String,
    }
    let broken = || gives(OutputMode::Tool, ToolCall::invalid_json_input("{"));
    let setup = setup([broken(), broken()]);
    let mut agent = setup.builder.output_retries(0).build();
    typed::<Loose>(&mut agent).await.unwrap_err();
    assert_eq!(typed::<Odd>(&mut agent).await.unwrap().value, Odd { invalid_json: "{".into() });
}

#[tokio::test]
async fn refused_or_cut_off_response_ends_the_run_without_retry() {
    let cut = |mode| match mode {
        OutputMode::Tool => gives(mode, ToolCall::invalid_json_input(r#"{"name": "Os"#)),
        _ => Reply::text(r#"{"name": "Os"#),
    };
    for mode in MODES {
        for (stop, reason) in [
            (StopReason::Refusal, "the model refused to answer"),
            (StopReason::MaxTokens, "the answer was cut off: "),
            (StopReason::ContentFilter, "the answer was cut off: "),
            (StopReason::ContextWindowExceeded, "the answer was cut off: "),
        ] {
            let setup = setup([cut(mode).stop_reason(stop.clone()), Reply::text("later")]);
            let hook = Recorder::default();
            let mut agent = setup.builder.output_mode(mode).hook(hook.clone()).build();
            let error = typed::<City>(&mut agent).await.unwrap_err();
            assert!(error.to_string().contains(reason), "{error}");
            let LoopError::InvalidOutput { raw, attempts: 1, stop_reason, .. } = error else {
                panic!("{error:?}")
            };
            assert_eq!((raw.as_str(), stop_reason), (r#"{"name": "Os"#, stop));
            assert_eq!(hook.log.count("RunEnd invalid output"), 1);
            check_valid(agent.messages());
            agent.run_text("go on", &ToolContext::default()).await.unwrap();
        }
        let refused = gives(mode, right()).stop_reason(StopReason::Refusal);
        let whole = gives(mode, right()).stop_reason(StopReason::MaxTokens);
        let setup = setup([refused, whole]);
        let mut agent = setup.builder.output_mode(mode).build();
        typed::<City>(&mut agent).await.unwrap_err();
        check_valid(agent.messages());
        assert_eq!(typed::<City>(&mut agent).await.unwrap().value, oslo(), "it is whole");
    }
}

#[tokio::test]
async fn end_strategy_decides_on_calls_beside_an_output() {
    let not_run = "!not executed: the run ended with the output of the same answer";
    let suppressed = "!not used: another tool call of the same answer failed; give the output again \
                      once that is settled";
    for parallel in [false, true] {
        for (end, act, expected) in [
            (EndStrategy::Early, json!({"text": "a"}), Ok(not_run)),
            (EndStrategy::Early, json!({"retry": "again"}), Ok(not_run)),
            (EndStrategy::Early, ToolCall::invalid_json_input("{"), Ok(not_run)),
            (EndStrategy::Graceful, json!({"text": "a"}), Ok("a")),
            (EndStrategy::Graceful, json!({"retry": "again"}), Err(suppressed)),
            (EndStrategy::Exhaustive, json!({"text": "a"}), Ok("a")),
            (EndStrategy::Exhaustive, json!({"retry": "again"}), Ok("!again")),
        ] {
            let setup = setup([
                gives_beside(&[right()], &[act.clone(), act.clone()]),
                gives(OutputMode::Tool, json!({"name": "Rome", "people": 1})),
            ]);
            let builder = setup.builder.end_strategy(end).output_retries(0);
            let mut agent = builder.parallel_tool_execution(parallel).build();
            let TypedResult { value, result, .. } = typed::<City>(&mut agent).await.unwrap();
            check_valid(&result.messages);
            let ran = if end == EndStrategy::Early { 0 } else { 2 };
            assert_eq!(setup.log.count("start"), ran, "{end:?} {act}");
            match expected {
                Ok(text) => {
                    let text = match text.strip_prefix("!not") {
                        Some(rest) => format!("![not{rest}]"),
                        None => text.to_owned(),
                    };
                    assert_eq!((value, result.turns), (oslo(), 1));
                    assert_eq!(
                        last_results(&result.messages),
                        [
                            "out0: The output is accepted.".to_owned(),
                            format!("c0: {text}"),
                            format!("c1: {text}")
                        ]
                    );
                }
                Err(text) => {
                    assert_eq!((value.name.as_str(), result.turns), ("Rome", 2));
                    assert_eq!(
                        last_results(&result.messages[..3]),
                        [format!("out0: {text}"), "c0: !again".into(), "c1: !again".into()]
                    );
                }
            }
        }
    }
}

#[tokio::test]
async fn calls_beside_an_invalid_output_run() {
    for end in [EndStrategy::Early, EndStrategy::Graceful, EndStrategy::Exhaustive] {
        let setup = setup([
            gives_beside(&[wrong()], &[json!({"text": "a"})]),
            gives(OutputMode::Tool, right()),
        ]);
        let mut agent = setup.builder.end_strategy(end).build();
        let result = typed::<City>(&mut agent).await.unwrap().result;
        assert_eq!(setup.log.count("start"), 1);
        assert_eq!(
            last_results(&result.messages[..3]),
            [
                format!("out0: !{FAULT}; call `final_output` again with the whole output"),
                "c0: a".into()
            ]
        );
    }
    let setup = setup([gives_beside(&[wrong()], &[json!({"text": "a"})])]);
    let mut agent = setup.builder.output_retries(0).build();
    typed::<City>(&mut agent).await.unwrap_err();
    assert_eq!(setup.log.count("start"), 0, "nothing runs for a run that has failed");
    let reason = format!("c0: ![not executed: invalid output (attempt 1): {FAULT}]");
    assert_eq!(last_results(agent.messages())[1], reason);
    check_valid(agent.messages());
}

#[tokio::test]
async fn calls_beside_an_output_that_is_not_json_run() {
    let broken = ToolCall::invalid_json_input("{");
    let setup =
        setup([gives_beside(&[broken], &[json!({"text": "a"})]), gives(OutputMode::Tool, right())]);
    let mut agent = setup.builder.build();
    let result = typed::<City>(&mut agent).await.unwrap().result;
    let results = last_results(&result.messages[..3]);
    assert!(results[0].starts_with("out0: !the arguments are not JSON: EOF"), "{results:?}");
    assert_eq!((results[1].as_str(), setup.log.count("start")), ("c0: a", 1));
}

#[tokio::test]
async fn only_invalid_outputs_use_up_the_retries() {
    let act = |act| gives_beside(&[], &[act]);
    let setup = setup([
        act(json!({"text": "a"})),
        act(json!({"retry": "again"})),
        gives_beside(&[right()], &[json!({"retry": "again"})]),
        gives_beside(&[wrong()], &[json!({"retry": "again"})]),
        gives(OutputMode::Tool, right()),
    ]);
    let mut agent = setup.builder.output_retries(1).build();
    assert_eq!(typed::<City>(&mut agent).await.unwrap().result.turns, 5);
}

#[tokio::test]
async fn first_valid_output_of_several_counts() {
    let rome = json!({"name": "Rome", "people": 1});
    for (end, third) in [
        (EndStrategy::Early, "Not used: another call gave the output."),
        (EndStrategy::Graceful, "Not used: another call gave the output."),
        (
            EndStrategy::Exhaustive,
            "!missing field `name`; call `final_output` again with the whole output",
        ),
    ] {
        let setup = setup([gives_beside(&[wrong(), right(), json!({}), rome.clone()], &[])]);
        let mut agent = setup.builder.end_strategy(end).output_retries(0).build();
        let TypedResult { value, result, .. } = typed::<City>(&mut agent).await.unwrap();
        assert_eq!(value, oslo());
        let results = last_results(&result.messages);
        assert!(results[0].starts_with("out0: !`$.people`"), "{results:?}");
        assert_eq!(
            results[1..],
            [
                "out1: The output is accepted.".to_owned(),
                format!("out2: {third}"),
                "out3: Not used: another call gave the output.".to_owned()
            ]
        );
    }
}

#[tokio::test]
async fn failed_call_ends_the_run_and_the_output_is_not_used() {
    for end in [EndStrategy::Graceful, EndStrategy::Exhaustive] {
        for parallel in [false, true] {
            let setup = setup([gives_beside(&[right()], &[json!({"fail": "boom"}), json!({})])]);
            let builder = setup.builder.end_strategy(end).parallel_tool_execution(parallel);
            let mut agent = builder.build();
            let error = typed::<City>(&mut agent).await.unwrap_err();
            assert_eq!(error.to_string(), "tool error: execution failed: boom");
            let results = last_results(agent.messages());
            assert_eq!(results[0], "out0: ![not used: the run ended before the other calls did]");
            check_valid(agent.messages());
        }
    }
}

#[tokio::test]
async fn limits_apply_between_attempts_and_outputs_are_no_tool_calls() {
    for mode in MODES {
        let spent = |reply: Reply| {
            reply.usage(TokenUsage { input_tokens: 100, output_tokens: 1, ..Default::default() })
        };
        let script = || [spent(gives(mode, wrong())), spent(gives(mode, right()))];
        let build = |limits| {
            let setup = setup(script());
            (setup.builder.output_mode(mode).usage_limits(limits).build(), setup.provider)
        };
        let (mut agent, provider) = build(UsageLimits::default().with_request_limit(1));
        let error = typed::<City>(&mut agent).await.unwrap_err();
        assert_eq!(error.to_string(), "usage limit exceeded: request limit exceeded: 2 > 1");
        assert_eq!(provider.calls(), 1);
        check_valid(agent.messages());
        // The last response exceeds the limit and is returned.
        let limits = UsageLimits::default().with_tool_calls_limit(0).with_input_tokens_limit(199);
        let (mut agent, _) = build(limits);
        assert_eq!(typed::<City>(&mut agent).await.unwrap().value, oslo());
        let (mut agent, provider) = build(UsageLimits::default().with_input_tokens_limit(99));
        typed::<City>(&mut agent).await.unwrap_err();
        assert_eq!(provider.calls(), 1);
    }
    let setup = setup([gives_beside(&[right()], &[json!({}), json!({})])]);
    let limits = UsageLimits::default().with_tool_calls_limit(1);
    let mut agent = setup.builder.usage_limits(limits).build();
    let error = typed::<City>(&mut agent).await.unwrap_err();
    assert_eq!(error.to_string(), "usage limit exceeded: tool call limit exceeded: 2 > 1");
    check_valid(agent.messages());
}

#[tokio::test]
async fn provider_error_is_returned_and_the_settings_restored() {
    for mode in MODES {
        let setup = setup([
            gives(mode, wrong()),
            Reply::error(ProviderError::ServiceUnavailable("busy".into())),
            Reply::text("later"),
        ]);
        let mut agent = setup.builder.output_mode(mode).build();
        let error = typed::<City>(&mut agent).await.unwrap_err();
        assert!(matches!(error, LoopError::Provider(_)) && error.is_retryable());
        agent.run_text("go on", &ToolContext::default()).await.unwrap();
        let plain = settings(&setup.provider.requests()[2]);
        assert_eq!((plain.tools.len(), plain.response_format, plain.system), (1, None, None));
        check_valid(agent.messages());
    }
}

#[tokio::test]
async fn output_tool_has_a_unique_name() {
    let mut tools = ToolRegistry::new();
    for name in ["final_output", "final_output_2"] {
        tools.register_dyn(Arc::new(Act { name, log: Log::default() }));
    }
    let provider = ScriptedProvider::new([
        Reply::tool_call("a", "final_output", right()),
        Reply::tool_call("b", "final_output_3", right()),
    ]);
    let mut agent = Chat::builder(provider.clone(), window()).tools(tools).build();
    let result = typed::<City>(&mut agent).await.unwrap();
    assert_eq!((result.value, result.result.turns), (oslo(), 2));
    let names: Vec<_> = provider.requests()[0].tools.iter().map(|tool| tool.name.clone()).collect();
    assert_eq!(names, ["final_output", "final_output_2", "final_output_3"]);
}

#[tokio::test]
async fn durable_engine_receives_only_the_other_calls() {
    struct Engine(ScriptedProvider, Log);
    impl DurableContext for Engine {
        async fn execute_llm_call(
            &self,
            request: CompletionRequest,
            _: ActivityOptions,
        ) -> Result<CompletionResponse, DurableError> {
            neuron_types::Provider::complete(&self.0, request).await.map_err(DurableError::Provider)
        }
        async fn execute_tool(
            &self,
            tool_name: &str,
            _: Value,
            ctx: &ToolContext,
            _: ActivityOptions,
        ) -> Result<ToolOutput, DurableError> {
            self.1.push(format!("{tool_name} {}", ctx.call_id));
            Ok(ToolOutput::text("ok"))
        }
        no_signals_or_timers!();
    }
    for parallel in [false, true] {
        let provider = ScriptedProvider::new([
            gives_beside(&[wrong()], &[json!({}), json!({})]),
            gives_beside(&[right()], &[json!({})]),
        ]);
        let log = Log::default();
        let mut agent = setup([""; 0]).builder.parallel_tool_execution(parallel).build();
        agent.set_durability(Engine(provider, log.clone()));
        assert_eq!(typed::<City>(&mut agent).await.unwrap().value, oslo());
        assert_eq!(log.lines(), ["act c0", "act c1", "act c0"]);
    }
}

/// Returns an agent for a typed run, its hook, and its provider. Every part returns `Poll::Pending` before it answers.
/// The responses of the provider contain tool calls, an invalid output and a valid output.
fn waiting(mode: OutputMode, parallel: bool) -> (Chat<'static>, Recorder, ScriptedProvider) {
    let act = |id: &str, waits: u64| (id.to_owned(), "act", json!({ "waits": waits }));
    let batch = match mode {
        OutputMode::Tool => {
            let output = |output| ("out".to_owned(), "final_output", output);
            vec![
                Reply::tool_calls([output(wrong()), act("a", 2)]),
                Reply::tool_calls([act("b", 2), output(right()), act("c", 1)]),
            ]
        }
        _ => vec![
            Reply::tool_calls([act("a", 2), act("b", 1)]),
            gives(mode, wrong()),
            gives(mode, right()),
        ],
    };
    let script = batch.into_iter().chain((0..4).map(|_| Reply::text("plain")));
    let (provider, requests) = Strict::recording(script.collect());
    let mut tools = ToolRegistry::new();
    tools.register_dyn(Arc::new(Waiting::default()));
    let events = Recorder::default();
    let agent = Chat::builder(provider, SlowWindow::new())
        .tools(tools)
        .output_mode(mode)
        .parallel_tool_execution(parallel)
        .hook(SlowRecorder(events.clone()))
        .build();
    (agent, events, requests)
}

#[test]
fn interrupted_at_any_point_history_is_valid_and_settings_restored() {
    for mode in MODES {
        for (parallel, cancels) in [(false, false), (false, true), (true, false), (true, true)] {
            for polls in 0.. {
                let at = format!("{mode:?}, parallel: {parallel}, {cancels}, after {polls} polls");
                let (mut agent, events, requests) = waiting(mode, parallel);
                let ctx = ToolContext::default();
                let ended = {
                    let mut run = pin!(agent.run_typed::<City>(Message::user("go"), &ctx));
                    let ended = poll_times(run.as_mut(), polls);
                    if cancels && ended.is_none() {
                        ctx.cancellation_token.cancel();
                        let ended = poll_times(run.as_mut(), 500).expect("it ends soon");
                        assert!(matches!(ended, Ok(_) | Err(LoopError::Cancelled)), "{at}");
                    }
                    ended
                };
                check_valid(agent.messages());
                if cancels || ended.is_some() {
                    check_pairs(&events.log.lines());
                }
                let ctx = ToolContext::default();
                let next = poll_times(pin!(agent.run_text("go on", &ctx)), 1_000).unwrap();
                // A response that is left in the script may be an output, whose tool does not exist in this run.
                drop(next);
                check_valid(agent.messages());
                let last = settings(requests.requests().last().unwrap());
                assert_eq!((last.tools.len(), last.system, last.response_format), (1, None, None));
                if let Some(result) = ended {
                    assert_eq!(result.unwrap().value, oslo());
                    assert!(polls > 20, "{at}: there was something to interrupt");
                    break;
                }
            }
        }
    }
}

/// Regression test. A typed run that was never polled must not change the requests of later runs. Before the fix, it
/// changed the agent's settings and did not restore them.
#[tokio::test]
async fn typed_run_that_was_never_polled_changes_nothing() {
    for mode in MODES {
        let setup = setup([Reply::text("plain")]);
        let mut agent = setup.builder.output_mode(mode).build();
        let ctx = ToolContext::default();
        drop(agent.run_typed::<City>(Message::user("go"), &ctx));
        assert_eq!(agent.messages(), []);
        agent.run_text("on", &ctx).await.unwrap();
        let plain = settings(&setup.provider.requests()[0]);
        assert_eq!((plain.tools.len(), plain.response_format, plain.system), (1, None, None));
    }
}

#[tokio::test]
async fn reasoning_and_paused_turns_do_not_affect_the_output() {
    let (start, end) = (r#"{"name": "Oslo", "#, r#""people": 700000}"#);
    let setup = setup([
        Reply::text(start).thinking("hm", "sig").stop_reason(StopReason::PauseTurn),
        Reply::message(vec![ContentBlock::Text(end.into())]).thinking("so", "sig"),
    ]);
    let mut agent = setup.builder.output_mode(OutputMode::Native).output_retries(0).build();
    assert_eq!(typed::<City>(&mut agent).await.unwrap().value, oslo());
}

#[tokio::test]
async fn prepare_turn_keeps_the_output_settings() {
    for mode in MODES {
        let setup = setup([gives(mode, right())]);
        let builder = setup.builder.output_mode(mode).system_prompt("Be brief.");
        let mut agent = builder.prepare_turn(|turn| turn.settings.temperature = Some(0.5)).build();
        assert_eq!(typed::<City>(&mut agent).await.unwrap().value, oslo());
        let request = setup.provider.requests().remove(0);
        assert_eq!(request.temperature, Some(0.5));
        let system = format!("{:?}", request.system);
        assert_eq!(system.contains("JSON Schema"), mode == OutputMode::Prompt);
        assert_eq!(request.response_format.is_some(), mode == OutputMode::Native);
        let asks = request.tools.iter().any(|tool| tool.name == "final_output");
        assert_eq!(asks, mode == OutputMode::Tool);
    }
}

/// The agent's own tools stay forbidden.
#[tokio::test]
async fn output_tool_may_be_called_although_the_agent_forbids_tools() {
    let setup = setup([Reply::tool_call("o", "final_output", right())]);
    let agent = setup.builder.tool_choice(ToolChoice::None).build().agent;
    let result = agent.run(&mut Conversation::new(), "go").typed::<City>().await.unwrap();
    assert_eq!(result.output, oslo());
    let choice = setup.provider.requests()[0].tool_choice.clone();
    assert_eq!(choice, Some(ToolChoice::Specific { name: "final_output".into() }));
}

#[tokio::test]
async fn last_call_at_a_limit_may_give_the_output() {
    for mode in MODES {
        let setup = setup([calls([json!({})]), gives(mode, right())]);
        let builder = setup.builder.output_mode(mode).max_turns(1);
        let mut agent = builder.on_limit(neuron_loop::OnLimit::Finalize).build();
        let typed = typed::<City>(&mut agent).await.unwrap();
        assert_eq!((typed.value, typed.result.turns), (oslo(), 2));
        let choice = setup.provider.requests()[1].tool_choice.clone();
        let forced = ToolChoice::Specific { name: "final_output".into() };
        match mode {
            OutputMode::Tool => assert_eq!(choice, Some(forced)),
            _ => assert_eq!(choice, Some(ToolChoice::None)),
        }
        check_valid(agent.messages());
    }
}

#[tokio::test]
async fn typed_run_that_waits_for_an_approval_continues_as_one() {
    struct AskOnce;

    impl neuron_types::PermissionPolicy for AskOnce {
        fn check(&self, name: &str, _: &Value) -> neuron_types::PermissionDecision {
            assert_eq!(name, "act", "nobody is asked about the output");
            neuron_types::PermissionDecision::Ask("sure?".into())
        }
    }

    let setup = setup([gives_beside(&[right()], &[json!({"text": "a"})]), Reply::text("plain")]);
    let builder = setup.builder.permission_policy(AskOnce).pause_for_approval(true);
    let mut agent = builder.build();
    let error = typed::<City>(&mut agent).await.unwrap_err();
    let LoopError::ApprovalRequired(pending) = error else { panic!("{error:?}") };
    assert_eq!(pending.calls.len(), 1);
    check_valid(agent.messages());
    let decisions = neuron_types::ApprovalDecisions::approve_all(&pending);
    let ctx = ToolContext::default();
    let wrong = neuron_types::ApprovalDecisions::new();
    agent.resume_typed::<City>(wrong, &ctx).await.unwrap_err();
    assert_eq!(agent.resume_typed::<City>(decisions, &ctx).await.unwrap().value, oslo());
    let results = last_results(&agent.messages()[..3]);
    assert_eq!(results, ["out0: The output is accepted.", "c0: a"]);
    check_valid(agent.messages());
    assert_eq!(agent.run_text("go on", &ctx).await.unwrap().response, "plain");
    let plain = setup.provider.requests().remove(1);
    assert!(plain.tools.iter().all(|tool| tool.name != "final_output"));
}
