//! Calls the model through all layers (middleware for model calls), and reports the outcome to the reader and the
//! conversation.

mod link;

use std::sync::{Mutex, PoisonError};

use neuron_types::{
    CompletionResponse, LoopError, Message, ModelCall, ModelNext, RequestRef, RunView, StreamEvent,
    ToolChoice, transcript,
};

use self::link::{Attempts, Link};
use crate::ledger::{Ledger, OutputRules};
use crate::lock::lock;
use crate::parts::{CallableTools, Derived, Env};
use crate::tools::Prefetch;

/// Calls the model through all layers (middleware for model calls). Returns the response, and the tools that the
/// request offered.
///
/// If the call fails, the conversation stays unchanged. If a layer rejected the input, the rejected messages are
/// removed.
pub(crate) async fn call_model<'a>(
    env: &'a Env<'a>,
    ledger: &mut Ledger,
    prefetch: &mut Prefetch<'a>,
) -> (Result<CompletionResponse, LoopError>, CallableTools<'a>) {
    let (limit, output_tool) =
        (ledger.landing_limit(), env.output.and_then(OutputRules::tool_name));
    // A provider may pause its response and expect another call to continue it. It continues only if the paused
    // response is the last message, so no notice is added after it.
    let notice = limit
        .as_ref()
        // FAULT a paused turn is told of the limit: `!ledger.is_paused()` -> `true`
        .filter(|_| !ledger.is_paused())
        .map(|limit| Message::system(limit.notice(output_tool)));
    // The history is copied only for the last call of a run, so the cost of the copy is acceptable.
    let noticed = notice
        .as_ref()
        .map(|notice| ledger.messages().iter().chain([notice]).cloned().collect::<Vec<Message>>());
    // FAULT parts of an answer are judged alone: `ledger.said_before()` -> `String::new()`
    let said_before = ledger.said_before();
    let new_messages = ledger.messages().len() - ledger.new_messages().len();
    let (turn, size) = (env.turn(ledger), ledger.size());
    // FAULT a layer sees the turns of all runs: `run.turns` -> `turns`
    let (turns, tool_calls) = (ledger.tally().run.turns, ledger.tally().run.tool_calls);
    let usage = ledger.tally().run.usage.total.clone();
    let (messages, counters) = ledger.counters();
    let request = env.request(noticed.as_deref().unwrap_or(messages));
    // FAULT a last call has the key of other messages: without `.filter(|_| noticed.is_none())`
    let key = messages.key().filter(|_| noticed.is_none());
    let request = key.map_or(request, |key| request.with_history(key));
    let choice = limit.as_ref().and_then(|_| last_choice(env, output_tool, request));
    let request = match &limit {
        Some(_) => RequestRef { tool_choice: choice.as_ref(), ..request },
        None => request,
    };
    let run = RunView::new(turns, tool_calls, &usage, messages).with_tools(env.run_tools());
    let mut call = ModelCall::new(request, run, env.token);
    // FAULT every message is new for a layer: `new_messages..` -> `..`
    call.new_messages = messages.get(new_messages..).unwrap_or_default();
    call.said_before = &said_before;
    call.output_tool = output_tool;
    // FAULT the last call is made again: without the line
    call.is_last = limit.is_some();
    // FAULT a call of an engine is made again: without the line
    call.is_durable = env.parts.durability.is_some();
    let link = Link {
        turn,
        // FAULT what was taken back counts as passed: `messages.len()` -> `call.request.messages.len()`
        messages: messages.len(),
        size,
        tally: Mutex::new(counters),
        state: Mutex::default(),
    };
    let Derived { layers, has_own_layers, .. } = env.parts.definition.derived();
    let answer = ModelNext::new(layers, &link, env.reader.deltas()).run(call).await;
    // FAULT a call that failed counts as a turn: add `if answer.is_err() { lock(&link.tally).count_answer(); }`
    // What the outermost layer returns is a turn, also if the model did not respond with it.
    let answer = answer.and_then(|mut response| {
        // The innermost link has done the same with what the model returned.
        if *has_own_layers {
            // FAULT the arguments of a layer's call are not corrected: without the line
            //     (arguments::call_of_a_layer_is_corrected)
            env.correct(&mut response.message);
            // FAULT a layer may return what breaks the history: without the line
            //     (layer_answers::malformed_response_of_a_layer_is_an_error)
            transcript::check_answer(&response.message)?;
        }
        // FAULT a layer's response is no turn: without the line
        lock(&link.tally).count_answer();
        Ok(response)
    });
    if let Err(error) = &answer {
        link.give_up_prefetch(Some(error)).await;
    }
    let Attempts { prefetch: begun, excluded, usage, rejected, .. } =
        link.state.into_inner().unwrap_or_else(PoisonError::into_inner);
    *prefetch = begun;
    if let Ok(response) = &answer {
        // FAULT the reader does not get the whole message: without the line
        env.reader.send(|| StreamEvent::MessageComplete(response.message.clone())).await;
    }
    // FAULT the reader does not hear what a rejected answer took: `Some(usage) = usage` -> `(Some(usage), Ok(_)) =
    //     (usage, &answer)`
    if let Some(usage) = usage {
        // The provider charges for these tokens even if a layer or a hook rejected the response.
        env.reader.send(|| StreamEvent::Usage(usage)).await;
    }
    env.count_tool_usage(ledger);
    match (&answer, notice, rejected) {
        // FAULT what the last call was told stays without an answer: `Ok(_)` -> `_`
        (Ok(_), Some(notice), _) => {
            ledger.add_notice(notice);
        }
        // FAULT rejected input stays: `ledger.take_back(rejected)` -> `{}`
        (Err(_), _, Some(rejected)) => ledger.take_back(rejected),
        _ => {}
    }
    (answer, env.callable(excluded))
}

/// Returns the tool choice for the last model call of a run that reached a limit. It forces the output tool or forbids
/// all tools. Returns `None` if the provider cannot force the output tool, or if the request has no tools.
fn last_choice(
    env: &Env<'_>,
    output_tool: Option<&str>,
    request: RequestRef<'_>,
) -> Option<ToolChoice> {
    match output_tool {
        Some(name) => {
            let can_force = env.parts.model.info_dyn().can_force_call(request);
            // FAULT a provider is forced that cannot be: `can_force.then` -> `(can_force || true).then`
            //     (regressions::last_call_forces_the_output_tool_only_if_possible)
            can_force.then(|| ToolChoice::Specific { name: name.to_owned() })
        }
        // Some vendors reject a tool choice in a request without tools.
        // FAULT a request without tools forbids them: `(!request.tools.is_empty()).then_some(ToolChoice::None)` ->
        //     `Some(ToolChoice::None)` (finalize::last_call_without_tools_sends_no_tool_choice)
        None => (!request.tools.is_empty()).then_some(ToolChoice::None),
    }
}
