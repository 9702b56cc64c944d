//! The model of a scenario: its answer follows from the request alone.

use std::pin::Pin;
use std::task::{Context, Poll};

use futures_util::Stream;
use neuron_types::{
    CompletionRequest, CompletionResponse, ContentBlock, Message, Provider, ProviderError,
    ProviderInfo, StopReason, StreamEvent, StreamHandle, StreamReceiver, TokenUsage,
    message_events,
};

use crate::agent::SUMMARY_INSTRUCTIONS;
use crate::boundary::boundary;
use crate::effects::{EffectKind, EffectLog};
use crate::script::{Answer, Fails, marked, newest_answer};

/// The provider of a [`Scenario`](crate::Scenario). Its answer follows from the conversation: it has no
/// memory that a crash could take. Each call of it is in the [`EffectLog`].
#[derive(Debug, Clone)]
pub struct ScenarioProvider {
    answers: Vec<Answer>,
    log: EffectLog,
}

impl ScenarioProvider {
    pub(crate) fn new(answers: Vec<Answer>, log: EffectLog) -> Self {
        Self { answers, log }
    }

    fn answer(&self, request: &CompletionRequest) -> Result<CompletionResponse, ProviderError> {
        let texts = request.messages.iter().flat_map(|message| &message.content);
        let newest = texts.filter_map(|block| newest_answer(block.as_text()?)).max();
        let is_summary = request.system == Some(SUMMARY_INSTRUCTIONS.into());
        let next = newest.map_or(0, |newest| newest + 1);
        let step = match is_summary {
            true => format!("summary before {next}"),
            false => format!("answer {next}"),
        };
        boundary(&format!("model: {step} is asked for"));
        self.log.append(EffectKind::ModelCalled { step: step.clone() });
        boundary(&format!("model: {step} is given"));
        if is_summary {
            let text = format!("What was before was done. {}", marked(newest.unwrap_or_default()));
            return Ok(response(&step, Message::assistant(text), 40, StopReason::EndTurn));
        }
        let Some(answer) = self.answers.get(next) else {
            return Err(ProviderError::InvalidRequest(format!("the script has no {step}")));
        };
        if let Some((error, fails)) = &answer.fails
            && (*fails == Fails::Always || self.log.calls_for(&step) == 1)
        {
            return Err(error.clone().into_provider_error());
        }
        let mut message = Message::assistant(format!("{} {}", answer.text, marked(next)));
        let calls = answer.calls.iter().enumerate();
        message.content.extend(calls.map(|(index, (name, input))| ContentBlock::ToolUse {
            id: format!("call-{next}-{index}"),
            name: (*name).to_owned(),
            input: input.clone(),
        }));
        let stop_reason = match answer.calls.is_empty() {
            true => StopReason::EndTurn,
            false => StopReason::ToolUse,
        };
        Ok(response(&step, message, answer.input_tokens, stop_reason))
    }
}

fn response(
    id: &str,
    message: Message,
    input_tokens: usize,
    stop_reason: StopReason,
) -> CompletionResponse {
    CompletionResponse {
        id: id.to_owned(),
        model: "scenario".into(),
        message,
        usage: TokenUsage { input_tokens, output_tokens: 10, ..TokenUsage::default() },
        stop_reason,
    }
}

impl Provider for ScenarioProvider {
    async fn complete(
        &self,
        request: CompletionRequest,
    ) -> Result<CompletionResponse, ProviderError> {
        self.answer(&request)
    }

    async fn complete_stream(
        &self,
        request: CompletionRequest,
    ) -> Result<StreamHandle, ProviderError> {
        self.complete_stream_ref(&request).await
    }

    async fn complete_ref(
        &self,
        request: &CompletionRequest,
    ) -> Result<CompletionResponse, ProviderError> {
        self.answer(request)
    }

    async fn complete_stream_ref(
        &self,
        request: &CompletionRequest,
    ) -> Result<StreamHandle, ProviderError> {
        let response = self.answer(request)?;
        let mut events: Vec<_> = message_events(&response.message).collect();
        events.push(StreamEvent::Usage(response.usage.clone()));
        events.push(StreamEvent::MessageComplete(response.message.clone()));
        events.push(StreamEvent::ResponseComplete(Box::new(response)));
        Ok(StreamHandle { receiver: StreamReceiver::new(Events(events.into_iter())) })
    }

    fn info(&self) -> ProviderInfo<'_> {
        ProviderInfo::new("scenario", "scenario")
    }
}

struct Events(std::vec::IntoIter<StreamEvent>);

impl Stream for Events {
    type Item = StreamEvent;

    fn poll_next(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<StreamEvent>> {
        Poll::Ready(self.0.next())
    }
}
