//! The scripted model of a scenario ([`ScenarioProvider`]). Its response depends only on the request.

use neuron_types::{
    CompletionRequest, CompletionResponse, ContentBlock, Message, Provider, ProviderError,
    ProviderInfo, RequestRef, StopReason, StreamHandle, TokenUsage,
};

use crate::agent::SUMMARY_INSTRUCTIONS;
use crate::boundary::boundary;
use crate::effects::{EffectKind, EffectLog};
use crate::scenario::Kind;
use crate::script::{self, marked, newest_response};
use crate::team::Member;

/// The provider of a [`Scenario`](crate::Scenario).
///
/// Each response depends only on the conversation in the request, so a crash loses no state of the provider. Each call
/// is logged in the [`EffectLog`].
#[derive(Debug, Clone)]
pub struct ScenarioProvider {
    pub(crate) kind: Kind,
    pub(crate) log: EffectLog,
}

impl ScenarioProvider {
    /// Logs the call, and returns the scripted response to the request.
    fn respond(&self, request: RequestRef<'_>) -> Result<CompletionResponse, ProviderError> {
        let blocks = request.messages.iter().flat_map(|message| &message.content);
        let newest = blocks.filter_map(|block| newest_response(block.as_text()?)).max();
        let next = newest.map_or(0, |newest| newest + 1);
        let is_summary = request.system == Some(&SUMMARY_INSTRUCTIONS.into());
        let agent = Member::ALL.iter().find(|agent| request.system == Some(&agent.prompt().into()));
        let step = match (is_summary, agent) {
            (true, _) => format!("summary before {next}"),
            (false, Some(agent)) => format!("answer {next} of {}", agent.name()),
            (false, None) => format!("answer {next}"),
        };
        boundary(&format!("model: {step} is asked for"));
        self.log.append(EffectKind::ModelCalled { step: step.clone() });
        boundary(&format!("model: {step} is given"));
        let (message, input_tokens) = match is_summary {
            true => {
                let mark = marked(newest.unwrap_or_default());
                (Message::assistant(format!("What was before was done. {mark}")), 40)
            }
            false => (self.message(agent, next, &step)?, script::input_tokens(self.kind, next)),
        };
        let stop_reason = match message.tool_uses().next() {
            Some(_) => StopReason::ToolUse,
            None => StopReason::EndTurn,
        };
        let usage = TokenUsage { input_tokens, output_tokens: 10, ..TokenUsage::default() };
        let model = "scenario".into();
        Ok(CompletionResponse { id: step, model, message, usage, stop_reason })
    }

    /// Returns the scripted response or the scripted error of a model call. `number` is the number of the response in
    /// the script. `agent` is the nested agent, or `None` for the outer agent.
    ///
    /// Fails if the script has no such response. `step` is the name of the call in the log. Earlier attempts with this
    /// name in the log are counted.
    fn message(
        &self,
        agent: Option<&Member>,
        number: usize,
        step: &str,
    ) -> Result<Message, ProviderError> {
        let called = EffectKind::ModelCalled { step: step.to_owned() };
        let attempt = self.log.count(|kind| *kind == called);
        if let Some(error) = script::failure(self.kind, number, attempt) {
            return Err(error);
        }
        let response = match agent {
            Some(agent) => agent.response(self.kind, number),
            None => script::response(self.kind, number),
        };
        let Some((text, calls)) = response else {
            let text = format!("the script has no {step}");
            return Err(ProviderError::InvalidRequest(text));
        };
        let mut message = Message::assistant(format!("{text} {}", marked(number)));
        for (index, (name, input)) in calls.into_iter().enumerate() {
            let id = format!("{}-{number}-{index}", agent.map_or("call", |agent| agent.name()));
            message.content.push(ContentBlock::ToolUse { id, name, input });
        }
        Ok(message)
    }
}

impl Provider for ScenarioProvider {
    async fn complete(
        &self,
        request: CompletionRequest,
    ) -> Result<CompletionResponse, ProviderError> {
        self.respond(request.view())
    }

    async fn complete_stream(
        &self,
        request: CompletionRequest,
    ) -> Result<StreamHandle, ProviderError> {
        Ok(self.respond(request.view())?.into())
    }

    fn info(&self) -> ProviderInfo<'_> {
        ProviderInfo::new("scenario", "scenario")
    }
}
