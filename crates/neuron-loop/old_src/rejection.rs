//! What hooks reject: how they are asked around a call of the model, and how rejected input leaves the
//! conversation.

use neuron_types::{
    CompletionResponse, ContentBlock, ContentItem, ContextStrategy, DurableContext, HookEvent,
    HookScope, LoopError, Message, Provider, Role, StreamEvent,
};

use crate::AgentLoop;
use crate::engine::answer_text;
use crate::held_back::HeldBack;
use crate::hooks::Wishes;
use crate::sink::Sink;

/// What takes the place of a tool's result that a hook rejected.
const REJECTED_RESULT: &str = "[removed: a guarding hook rejected the result]";

impl<P: Provider, C: ContextStrategy, D: DurableContext> AgentLoop<P, C, D> {
    /// Asks the hooks whether the model may be called. Input that one of them rejects is gone before
    /// anything else happens.
    pub(crate) async fn ask_before_call(&mut self) -> Result<(), LoopError> {
        let request = self.request.view();
        let event = HookEvent::PreLlmCall { request: &request };
        let wishes = self.hooks().before_call(self.passed_messages).wishes(event).await;
        if wishes.is_rejection() {
            let are_results_gone = wishes.rejects_tool_results;
            self.take_back_input(are_results_gone);
            return Err(self.rejected(wishes, are_results_gone));
        }
        wishes.into_result()?;
        self.passed_messages = self.request.messages.len();
        Ok(())
    }

    /// Tells the reader and the hooks of an answer; the hooks first if one of them may keep it from
    /// the reader.
    pub(crate) async fn tell_of_answer<S: Sink>(
        &self,
        response: &CompletionResponse,
        held: &HeldBack<'_, S>,
    ) -> Result<(), LoopError> {
        let messages = &self.request.messages;
        let goes_on = messages.last().is_some_and(|last| last.role == Role::Assistant);
        let said_before = if goes_on { answer_text(messages) } else { String::new() };
        let output_tool = self.run.output.as_ref().and_then(|output| output.tool_name());
        let hooks = self.hooks().of_answer(&said_before, output_tool);
        let complete = || StreamEvent::MessageComplete(response.message.clone());
        let usage = || StreamEvent::Usage(response.usage.clone());
        let hooks_come_first = hooks.keep_text_from_readers();
        if S::DELTAS && !hooks_come_first {
            held.emit(complete()).await;
            held.emit(usage()).await;
        }
        let wishes = hooks.wishes(HookEvent::PostLlmCall { response }).await;
        if S::DELTAS && hooks_come_first {
            if !wishes.is_termination() {
                held.release().await;
                held.emit(complete()).await;
            }
            // Paid for, whatever the hooks say.
            held.emit(usage()).await;
        }
        match wishes.is_rejection() {
            true => Err(self.rejected(wishes, false)),
            false => wishes.into_result().map(drop),
        }
    }

    /// The error of a rejection: it says what the run did before.
    fn rejected(&self, wishes: Wishes, are_results_gone: bool) -> LoopError {
        let mut reason = wishes.into_reason();
        let results = match are_results_gone {
            true => "the latest results are removed from the conversation",
            false => "their results stay in the conversation",
        };
        match self.run.tool_calls {
            0 => {}
            1 => reason += &format!(" (before that, 1 tool call ran; {results})"),
            calls => reason += &format!(" (before that, {calls} tool calls ran; {results})"),
        }
        LoopError::HookTerminated(reason)
    }
}

impl<P, C, D> AgentLoop<P, C, D> {
    /// What of the conversation the model has not answered and the hooks have not let pass.
    pub(crate) fn new_messages(&self) -> &[Message] {
        let scope = HookScope::default().with_passed_messages(self.passed_messages);
        scope.new_messages(&self.request.messages)
    }

    /// Takes the user's new messages off the conversation, with the reminders behind them. Results of
    /// tools stay, or a notice takes their place, so that each call has one.
    fn take_back_input(&mut self, are_results_gone: bool) {
        let start = self.request.messages.len() - self.new_messages().len();
        let messages = &mut self.request.messages;
        let mut is_taken_back = false;
        for mut message in messages.split_off(start) {
            if message.role == Role::User {
                message.content.retain(|block| block.as_tool_result_id().is_some());
                if are_results_gone {
                    message.content.iter_mut().for_each(remove_result);
                }
                if message.content.is_empty() {
                    is_taken_back = true;
                    continue;
                }
            } else if is_taken_back && self.reminders.said(&message) {
                continue;
            }
            messages.push(message);
        }
        // What is known of the size may be of a conversation that had them.
        self.size = self.size.filter(|size| size.messages() <= start);
    }
}

/// Puts the notice in the place of a result.
fn remove_result(block: &mut ContentBlock) {
    if let Some(id) = block.as_tool_result_id() {
        let tool_use_id = id.to_owned();
        let content = vec![ContentItem::Text(REJECTED_RESULT.into())];
        *block = ContentBlock::ToolResult { tool_use_id, content, is_error: true };
    }
}
