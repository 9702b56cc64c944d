//! The faults: each a change of the engine that someone might make by mistake.
//!
//! What is looked for must occur exactly once in its file (a test sees to it), so that a change of the
//! engine there asks for a look at the fault too.

/// A mistake in a file of `crates/neuron-loop/src`.
pub(crate) struct Fault {
    pub(crate) name: &'static str,
    pub(crate) file: &'static str,
    pub(crate) find: &'static str,
    pub(crate) replace: &'static str,
}

const fn fault(
    name: &'static str,
    file: &'static str,
    find: &'static str,
    replace: &'static str,
) -> Fault {
    Fault { name, file, find, replace }
}

pub(crate) const FAULTS: &[Fault] = &[
    // Results.
    fault(
        "a forgotten result",
        "tool_results.rs",
        "let mut content: Vec<_> = content.collect();",
        "let mut content: Vec<_> = content.skip(1).collect();",
    ),
    fault(
        "results in another order",
        "tool_results.rs",
        "let mut content: Vec<_> = content.collect();",
        "let mut content: Vec<_> = content.rev().collect();",
    ),
    fault(
        "results in the assistant's message",
        "tool_results.rs",
        "Message { role: Role::User, content }",
        "Message { role: Role::Assistant, content }",
    ),
    fault(
        "a result for a call that never began says that it failed",
        "tool_results.rs",
        "error(format!(\"[not executed: {}]\", self.why))",
        "error(format!(\"[interrupted: {}]\", self.why))",
    ),
    fault(
        "a failure that is no error for the model",
        "tool_results.rs",
        "let error = |text: String| (vec![ContentItem::Text(text)], true);",
        "let error = |text: String| (vec![ContentItem::Text(text)], false);",
    ),
    fault(
        "a finished result is lost when the run is dropped",
        "tool_results.rs",
        "State::Finished { output, .. } => (output.content, output.is_error),",
        "State::Finished { .. } => error(format!(\"[not executed: {}]\", self.why)),",
    ),
    // Tools.
    fault(
        "a second execution",
        "tool_execution.rs",
        "let work = async { Ok(tools.execute_call(call, &ctx).await?) };",
        "let work = async { tools.execute_call(call, &ctx).await.ok(); \
         Ok(tools.execute_call(call, &ctx).await?) };",
    ),
    fault(
        "a skipped call runs",
        "tool_batch.rs",
        "(Some(output), _) => Some(output),",
        "(Some(_), _) => None,",
    ),
    fault(
        "a call begins beside one that failed",
        "tool_batch.rs",
        "let begins = !ctx.cancellation_token.is_cancelled();",
        "let begins = true;",
    ),
    fault(
        "a tool runs after a hook ended the run",
        "tool_batch.rs",
        "results.finish(index, output);\n                return self.tell_after(index, results).await;",
        "results.finish(index, output);\n                self.tell_after(index, results).await.ok();\n                return Ok(());",
    ),
    fault(
        "the tools beside a failed one are not told",
        "tool_batch.rs",
        "        cancellation.cancel();\n",
        "",
    ),
    fault(
        "no grace beside a failed call",
        "tool_batch.rs",
        "pin!(wait(self.config.tool_grace))",
        "pin!(wait(std::time::Duration::ZERO))",
    ),
    fault(
        "a hint for the model ends the run",
        "tool_execution.rs",
        "LoopError::Tool(ToolError::ModelRetry(hint)) => Ok(ToolOutput::error(hint)),",
        "",
    ),
    fault(
        "equal idempotency keys",
        "call_context.rs",
        "{run_id}/{run_number}/{turn}/{index}/{}\", call.id",
        "{run_id}/{run_number}/{turn}/{}\", call.name",
    ),
    fault(
        "a batch of an engine goes on after a failure",
        "tool_execution.rs",
        "first_error = first_error.or(recorded.err());",
        "first_error = first_error.and(recorded.err());",
    ),
    fault(
        "parallel although one after another was asked for",
        "tool_batch.rs",
        "        if self.config.parallel_tool_execution {",
        "        if true {",
    ),
    // Hooks, scopes and readers.
    fault(
        "a lost event after a tool",
        "tool_batch.rs",
        "self.hooks.in_call(&call.id).ask(event).await.map(drop)",
        "let _ = event;\n        Ok(())",
    ),
    fault(
        "a lost event of a failed tool",
        "tool_batch.rs",
        "        for index in run.into_iter().filter(|&index| results.is_open(index)) {",
        "        for index in run.into_iter().filter(|_| false) {",
    ),
    fault(
        "a scope that is not ended",
        "tool_execution.rs",
        "    scopes.end(outcome(&ran));\n    guard.disarm();",
        "    guard.disarm();",
    ),
    fault(
        "the run's scope is not ended",
        "engine.rs",
        "        scopes.end(run_outcome(result.as_ref()));\n        result",
        "        result",
    ),
    fault(
        "the end of a run is not told",
        "engine.rs",
        "            self.hooks().tell(HookEvent::RunEnd { result }).await;",
        "            let _ = result;",
    ),
    fault(
        "the first chunk is not told",
        "model_call.rs",
        "if std::mem::take(&mut first) {",
        "if false && std::mem::take(&mut first) {",
    ),
    fault(
        "an error of the model is not told",
        "model_call.rs",
        "            self.hooks().tell(HookEvent::LlmError { error }).await;\n",
        "            let _ = error;\n",
    ),
    fault(
        "the last hook's wish wins",
        "hooks.rs",
        "            wishes.terminate.get_or_insert(reason);\n",
        "            wishes.terminate = Some(reason);\n",
    ),
    fault(
        "a hook's failure ends the run",
        "hooks.rs",
        "                    tracing::warn!(parent: None, %error, \"a hook failed; the run goes on\");\n                    continue;\n",
        "                    error.to_string()\n",
    ),
    fault(
        "the reader of a stream misses results",
        "sink.rs",
        "    const DELTAS: bool = true;\n    const RESULTS: bool = true;",
        "    const DELTAS: bool = true;\n    const RESULTS: bool = false;",
    ),
    // Limits and usage.
    fault("a limit that is off by one", "limits.rs", "count > limit =>", "count >= limit =>"),
    fault("a turn too many", "limits.rs", "run.turns >= *max", "run.turns > *max"),
    fault(
        "tokens are not checked before tools",
        "limits.rs",
        "    tokens(limits, run)?;\n    at_most(\"tool call\"",
        "    at_most(\"tool call\"",
    ),
    fault(
        "usage that is not added",
        "model_call.rs",
        "                self.count_usage(&response);\n",
        "",
    ),
    fault(
        "a turn is counted before its answer is there",
        "model_call.rs",
        "                self.run.requests = self.run.requests.saturating_add(1);\n",
        "                self.run.requests += 1;\n                self.run.turns += 1;\n",
    ),
    fault(
        "the usage of a compaction is not added",
        "compaction.rs",
        "            self.add_usage(&usage);\n",
        "            let _ = usage;\n",
    ),
    // Answers and histories.
    fault(
        "two calls with one id are accepted",
        "model_call.rs",
        "check_answer(&response.message).map(|()| response)",
        "Ok(response)",
    ),
    fault(
        "calls of a refused answer run",
        "engine.rs",
        "        StopReason::Refusal => Some(\"the model refused to go on\"),\n",
        "",
    ),
    fault(
        "a paused turn is the end",
        "engine.rs",
        "self.run.pauses < MAX_PAUSES",
        "self.run.pauses < 1",
    ),
    fault(
        "pauses are counted over the whole run",
        "engine.rs",
        "        self.run.pauses = 0;\n",
        "",
    ),
    fault(
        "an empty message stays in the history",
        "engine.rs",
        "if !message.content.is_empty() {",
        "if true {",
    ),
    fault(
        "a compaction is not checked",
        "compaction.rs",
        "        messages = transcript::repair(messages);\n",
        "",
    ),
    fault(
        "a compaction may leave nothing to answer",
        "compaction.rs",
        "if messages.iter().all(|message| message.role == Role::System) {",
        "if false {",
    ),
    fault(
        "a compaction without effect is tried for ever",
        "context_budget.rs",
        "        self.futile = self.futile.saturating_add(1);\n",
        "",
    ),
    fault(
        "an earlier conversation is not repaired",
        "agent.rs",
        "            self.request.messages = transcript::repair(messages);\n",
        "            self.request.messages = messages;\n",
    ),
    fault(
        "reminders pile up",
        "reminders.rs",
        ".any(|other| *other == message)",
        ".any(|_| false)",
    ),
    // Cancellation.
    fault(
        "a cancellation waits for the work",
        "cancel.rs",
        "match select(pin!(work), pin!(ctx.cancellation_token.cancelled())).await {",
        "match select(pin!(work), std::future::pending::<()>()).await {",
    ),
    fault("cancellation is not looked at before work", "cancel.rs", "    check(ctx)?;\n", ""),
    fault(
        "a run that is cancelled before is announced",
        "engine.rs",
        "        cancel::check(ctx)?;\n        self.run.announced = true;",
        "        self.run.announced = true;",
    ),
    fault(
        "a step goes on with the turn before",
        "engine.rs",
        "                    self.run.turn_open = true;\n",
        "",
    ),
    // What is new with the settings of the loop.
    fault(
        "an answer without usage counts nothing",
        "usage.rs",
        "        self.add_usage(&usage);\n    }",
        "    }",
    ),
    fault(
        "the usage of an answer that a hook rejects is lost",
        "model_call.rs",
        "        broken.usage.clone_from(&response.usage);\n        self.hooks()",
        "        self.hooks()",
    ),
    fault(
        "more tools at once than may be",
        "tool_batch.rs",
        "waiting.by_ref().take(most - running.len())",
        "waiting.by_ref().take(most)",
    ),
    fault(
        "a tool that must run alone does not",
        "tool_batch.rs",
        "self.tools.get(&call.name).is_some_and(|tool| tool.runs_alone())",
        "false",
    ),
    fault(
        "failures that the model should see end the run",
        "tool_execution.rs",
        "ToolErrorPolicy::ReturnToModel => returned(error, tools),",
        "ToolErrorPolicy::ReturnToModel => Err(error.into()),",
    ),
    fault("a retry too many", "failing_turns.rs", "*turns > retries", "*turns > retries + 1"),
    fault(
        "a policy that panics lets the call run",
        "permits.rs",
        "PermissionDecision::Deny(\"the permission policy failed\".into())",
        "PermissionDecision::Allow",
    ),
    fault(
        "a call about which a person should be asked runs",
        "permits.rs",
        "PermissionDecision::Ask(reason) => denied(&reason),",
        "PermissionDecision::Ask(_) => Permit::Run,",
    ),
    fault(
        "a limit is landed on again and again",
        "finalize.rs",
        "self.run.limit = Some(limit);",
        "let _ = limit;",
    ),
    fault(
        "what the last call was told stays without an answer",
        "prepared_call.rs",
        "            self.agent.request.messages.truncate(index);\n",
        "            let _ = index;\n",
    ),
    fault(
        "a tool that is not offered runs",
        "prepared_call.rs",
        "                offered.remove(name);\n",
        "",
    ),
    fault(
        "a condition to stop is not asked",
        "stop_when.rs",
        "if is_met {",
        "if false && is_met {",
    ),
    fault(
        "a stream is tried once too often",
        "prepared_call.rs",
        "attempt > self.agent.config.stream_retries",
        "attempt > self.agent.config.stream_retries + 1",
    ),
    fault(
        "another attempt does not mind the limits",
        "model_call.rs",
        "if let Err(limit) = limits::before_call(&self.config, &self.run) {",
        "if let (true, Err(limit)) = (false, limits::before_call(&self.config, &self.run)) {",
    ),
    fault(
        "a run that should finish its turn does not",
        "cancel.rs",
        "let cancellation_token = CancellationToken::new();",
        "let cancellation_token = ctx.cancellation_token.clone();",
    ),
    fault(
        "room is made for a call again and again",
        "overflow.rs",
        "if std::mem::replace(&mut self.run.overflowed, true) {",
        "if false {",
    ),
    fault(
        "what calls it made is forgotten of an answer that the window cut off",
        "overflow.rs",
        "                && response.message.tool_uses().next().is_none()\n",
        "",
    ),
    // Approvals.
    fault(
        "a call that needs an approval runs without one",
        "permits.rs",
        "                Permit::Hold(PendingCall::new(call.clone(), reason))\n",
        "                let _ = reason;\n                Permit::Run\n",
    ),
    fault(
        "an approval is not needed to go on",
        "permits.rs",
        "(None, _) => Permit::Hold(pending.clone()),",
        "(None, _) => Permit::Run,",
    ),
    fault(
        "a call that a person denied runs",
        "permits.rs",
        "(Some(ApprovalDecision::Deny { reason }), _) => denied(reason),",
        "(Some(ApprovalDecision::Deny { .. }), _) => Permit::Run,",
    ),
    fault(
        "a call whose result a person supplied runs",
        "permits.rs",
        "(Some(ApprovalDecision::Supply { output }), _) => Permit::Answer(output.clone()),",
        "(Some(ApprovalDecision::Supply { .. }), _) => Permit::Run,",
    ),
    fault(
        "the policy is not asked about what a person approved",
        "permits.rs",
        "(Some(_), _) => allowed(Permit::Run),",
        "(Some(_), _) => Permit::Run,",
    ),
    fault(
        "a person is asked about what the tool refuses anyway",
        "permits.rs",
        "if self.pause && self.is_refused(call) =>",
        "if false && self.is_refused(call) =>",
    ),
    fault(
        "the arguments that a person changed are ignored",
        "approval.rs",
        "                call.input = input.clone();\n",
        "                let _ = (&call, input);\n",
    ),
    fault(
        "the model is not told of changed arguments",
        "approval.rs",
        "results.note(index, format!(\"[approved with other arguments: {input}]\"));",
        "let _ = (index, input);",
    ),
    fault(
        "changed arguments are not checked",
        "approval.rs",
        "        tool.check_input(input).map_err(",
        "        Ok::<(), neuron_types::ToolError>(drop((tool, input))).map_err(",
    ),
    fault(
        "a restored run has used nothing",
        "approval.rs",
        "        usage: pending.usage.clone(),\n",
        "",
    ),
    fault(
        "a restored run has called no tool",
        "approval.rs",
        "        requests: pending.requests,\n        tool_calls: pending.tool_calls,\n",
        "        requests: pending.requests,\n",
    ),
    fault(
        "a result is lost while the run waits, and its call runs again",
        "tool_results.rs",
        "results.set(index, State::Finished { output, ran: false });",
        "let _ = (index, output);",
    ),
    fault(
        "calls wait for an approval after the run has failed",
        "tool_results.rs",
        "                *state = State::NotStarted;\n",
        "                let _ = &state;\n",
    ),
    fault(
        "wrong decisions are carried out",
        "engine.rs",
        "approval::check(pending, &decisions, &self.tools)?;",
        "approval::check(pending, &decisions, &self.tools).ok();",
    ),
    fault(
        "what was carried out can be decided again",
        "tool_turn.rs",
        "let Some(PendingApproval { calls, .. }) = self.pending.take() else {",
        "let Some(PendingApproval { calls, .. }) = self.pending.clone() else {",
    ),
    fault(
        "decisions are lost with a run that is cancelled before",
        "engine.rs",
        "cancel::check(ctx)?;\n                    Box::pin(self.run_decided",
        "let waits = self.pending.take();\n                    cancel::check(ctx)?;\n                    \
         self.pending = waits;\n                    Box::pin(self.run_decided",
    ),
    fault(
        "another run leaves calls waiting",
        "engine.rs",
        "        self.pending = None;\n        self.refresh_request();\n",
        "        self.refresh_request();\n",
    ),
    fault(
        "a pause is an error for the reader of a stream",
        "stream.rs",
        "                Err(LoopError::ApprovalRequired(pending)) => StreamEvent::ApprovalRequired(pending),\n",
        "",
    ),
    fault(
        "a turn that pauses counts twice for the retries",
        "failing_turns.rs",
        "if !self.last.failed.insert(name.clone()) {",
        "if false {",
    ),
    // Early tools.
    fault(
        "a tool that changes something starts early",
        "early_tools.rs",
        "            && tool.effect() == ToolEffect::Pure\n",
        "",
    ),
    fault("an early call runs again", "early_tools.rs", "        early.taken = true;\n", ""),
    fault(
        "the end of an early call is not told",
        "early_tools.rs",
        "            if !*taken {",
        "            if false && !*taken {",
    ),
    fault(
        "an early call overtakes another",
        "early_tools.rs",
        "            early.closed = true;\n",
        "            early.begun = 0;\n",
    ),
    fault(
        "a call starts early that the policy forbids",
        "early_tools.rs",
        "            && matches!(rules.permit(call), Permit::Run)\n",
        "            && { let _ = (&rules, Permit::Run); true }\n",
    ),
    fault(
        "the result of an early call is lost",
        "early_tools.rs",
        "Outcomes::Ended(ran) => Some(Box::pin(std::future::ready(ran))),",
        "Outcomes::Ended(_) => None,",
    ),
    fault(
        "more early calls at once than may be",
        "early_tools.rs",
        "            && early.running() < most\n",
        "            && early.running() <= most\n",
    ),
    // Budgets.
    fault(
        "what is reserved of a budget is never given back",
        "budget.rs",
        "        balance.reserved = balance.reserved.minus(reserved);\n",
        "        let _ = reserved;\n",
    ),
    fault(
        "what is used is not counted in a budget",
        "budget.rs",
        "        balance.used = balance.used.plus(spent);\n",
        "        let _ = spent;\n",
    ),
    fault(
        "a call of the model needs no budget",
        "prepared_call.rs",
        "            self.reserve()?;\n",
        "            self.reserve().ok();\n",
    ),
    fault(
        "a batch of tools needs no budget",
        "tool_turn.rs",
        "self.run.reserve_tool_calls(open.len())",
        "self.run.reserve_tool_calls(open.len().min(0))",
    ),
    fault(
        "what a call took is not settled",
        "prepared_call.rs",
        "        reservation.close(match is_known {",
        "        let _ = &mut reservation;\n        let _ = (match is_known {",
    ),
    // What hooks reject.
    fault(
        "rejected input stays",
        "rejection.rs",
        "            self.take_back_input(are_results_gone);\n",
        "",
    ),
    fault(
        "rejected results stay",
        "rejection.rs",
        "                if are_results_gone {\n",
        "                if false && are_results_gone {\n",
    ),
    fault(
        "results go with rejected input",
        "rejection.rs",
        "message.content.retain(|block| block.as_tool_result_id().is_some());",
        "message.content.clear();",
    ),
    fault(
        "a reminder stays without what it stood behind",
        "rejection.rs",
        "} else if is_taken_back && self.reminders.said(&message) {",
        "} else if false && self.reminders.said(&message) {",
    ),
    fault(
        "what passed may be rejected again",
        "rejection.rs",
        "        self.passed_messages = self.request.messages.len();\n",
        "",
    ),
    fault(
        "what is rejected counts as passed",
        "rejection.rs",
        "        if wishes.is_rejection() {\n",
        "        self.passed_messages = self.request.messages.len();\n        if wishes.is_rejection() {\n",
    ),
    fault(
        "a rejected answer is told",
        "rejection.rs",
        "            if !wishes.is_termination() {\n",
        "            if !wishes.is_termination() || true {\n",
    ),
    fault(
        "parts of an answer are judged alone",
        "rejection.rs",
        "let said_before = if goes_on {",
        "let said_before = if false && goes_on {",
    ),
    fault(
        "an answer is told before it is judged",
        "hooks.rs",
        "hook.rejects_text() || hook.holds_back_text()",
        "hook.holds_back_text()",
    ),
    fault(
        "only the last hook rejects",
        "hooks.rs",
        "wishes.rejects_text |= rejects_text;",
        "wishes.rejects_text = rejects_text;",
    ),
    fault(
        "nothing is held back",
        "held_back.rs",
        "Some(deltas) if event.is_delta() =>",
        "Some(deltas) if false && event.is_delta() =>",
    ),
    fault(
        "what was held back is never shown",
        "held_back.rs",
        "            self.sink.emit(delta).await;\n",
        "            let _ = delta;\n",
    ),
    fault(
        "what broke is shown with the next attempt",
        "prepared_call.rs",
        "                    held.forget();\n",
        "",
    ),
    fault(
        "what was taken back counts as passed",
        "prepared_call.rs",
        "            self.agent.passed_messages = self.agent.passed_messages.min(index);\n",
        "",
    ),
    fault(
        "a compacted message counts as passed",
        "compaction.rs",
        "messages.strip_suffix(self.new_messages()).map_or(0, <[_]>::len)",
        "messages.len()",
    ),
    // What tools take.
    fault(
        "what tools took is not counted",
        "usage.rs",
        "            self.sums.iter_mut().for_each(|sum| **sum += &usage);\n",
        "            self.sums.iter_mut().skip(2).for_each(|sum| **sum += &usage);\n",
    ),
    fault(
        "what a tool took counts twice",
        "usage.rs",
        "            self.run.add(&usage);\n",
        "            self.run.add(&usage);\n            self.run.add(&usage);\n",
    ),
    fault(
        "what tools took is lost when calls are handed to an engine",
        "tool_execution.rs",
        "meters.push(ctx.usage.clone());",
        "meters.push(UsageMeter::default());",
    ),
    fault(
        "what early tools took for nothing is not counted",
        "early_tools.rs",
        "        self.count_tool_usage();\n",
        "",
    ),
    fault(
        "a restored run forgets what its tools took",
        "approval.rs",
        "        tool_usage: pending.tool_usage.clone(),\n",
        "",
    ),
    // New executions, and persons who decide by a signal.
    fault(
        "a new execution forgets the usage",
        "snapshot.rs",
        "            usage: snapshot.usage,\n",
        "",
    ),
    fault(
        "a new execution forgets the usage of all runs",
        "snapshot.rs",
        "            total_usage: Some(self.total_usage.clone()),\n",
        "            total_usage: Some(TokenUsage::default()),\n",
    ),
    fault(
        "a new execution has all its requests left",
        "snapshot.rs",
        "            requests: snapshot.requests,\n",
        "",
    ),
    fault(
        "a new execution has all its tool calls left",
        "snapshot.rs",
        "            tool_calls: snapshot.tool_calls,\n",
        "",
    ),
    fault(
        "a new execution has all its turns left",
        "snapshot.rs",
        "            turns: snapshot.turns,\n",
        "",
    ),
    fault(
        "a new execution forgets what its tools took",
        "snapshot.rs",
        "            tool_usage: snapshot.tool_usage,\n",
        "",
    ),
    fault(
        "a new execution reminds as if nothing had been said",
        "snapshot.rs",
        "self.reminders.restore(said, state.all_turns);",
        "self.reminders.restore(said, 0);",
    ),
    fault(
        "a new execution tries in vain to compact",
        "snapshot.rs",
        "self.context_budget = state.context_budget;",
        "self.context_budget = ContextBudget::default();",
    ),
    fault(
        "decisions that a signal brings are not checked",
        "approval_signal.rs",
        "match self.accept(decisions) {",
        "self.run.decisions = Some(decisions);\n            \
         match Ok::<(), neuron_types::ApprovalError>(()) {",
    ),
    fault(
        "wrong decisions that a signal brings end the run",
        "approval_signal.rs",
        "                    self.ask_anew();\n",
        "                    self.ask_anew();\n                    return Err(error.into());\n",
    ),
    fault(
        "a run goes on although nobody decided in time",
        "approval_signal.rs",
        "Signal::TooLate => return Err(LoopError::ApprovalRequired(Box::new(pending))),",
        "Signal::TooLate => {\n                    self.pending = None;\n                    \
         return Ok(());\n                }",
    ),
    fault(
        "a run with a signal ends where calls wait",
        "engine.rs",
        "if !(is_pause && self.awaits_signal()) {",
        "if !is_pause || self.awaits_signal() {",
    ),
    fault(
        "the engine does not hear how a run ended",
        "engine.rs",
        "durability.run_ended(result).await;",
        "let _ = durability;",
    ),
    fault(
        "the engine hears of the end of what was no run",
        "engine.rs",
        "        self.hooks().tell(HookEvent::SessionEnd { session_id: &ctx.session_id }).await;\n",
        "        self.hooks().tell(HookEvent::SessionEnd { session_id: &ctx.session_id }).await;\n        \
         if let Some(durability) = &self.durability {\n            \
         durability.run_ended(result).await;\n        }\n",
    ),
];
