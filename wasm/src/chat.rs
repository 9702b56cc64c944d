//! An agent in a web page.

use js_sys::Function;
use neuron::prelude::*;
use neuron::{anthropic::Anthropic, gemini::Gemini, ollama::Ollama, openai::OpenAi};
use wasm_bindgen::prelude::*;

/// Adds two numbers.
#[neuron_tool(effect = Pure)]
async fn add(
    /// The first number
    a: f64,
    /// The second number
    b: f64,
) -> Result<f64, ToolError> {
    Ok(a + b)
}

/// Stops a message of a [`Chat`], like JavaScript's `AbortController`. Each message needs its own.
#[wasm_bindgen]
#[derive(Debug, Default)]
pub struct Stop(ToolContext);

#[wasm_bindgen]
impl Stop {
    /// Creates an object that has not stopped anything.
    #[wasm_bindgen(constructor)]
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Cancels the run, which then ends with an error.
    pub fn stop(&self) {
        self.0.cancellation_token.cancel();
    }
}

/// A conversation with an agent, as an object of JavaScript.
#[wasm_bindgen]
#[derive(Debug)]
pub struct Chat {
    agent: Agent,
    conversation: Conversation,
}

#[wasm_bindgen]
impl Chat {
    /// Creates an agent for `vendor`, which is `anthropic`, `openai`, `ollama` or `gemini`. An empty `url` selects the
    /// server of the vendor, and an empty `model` its default model.
    ///
    /// # Errors
    ///
    /// An error if the vendor is unknown.
    #[wasm_bindgen(constructor)]
    pub fn new(vendor: &str, url: &str, key: &str, model: &str) -> Result<Chat, JsError> {
        let mut tools = ToolRegistry::new();
        tools.register(AddTool);
        let mut builder = match vendor {
            "anthropic" if url.is_empty() => Agent::builder(Anthropic::new(key)),
            "anthropic" => Agent::builder(Anthropic::new(key).base_url(url)),
            "openai" if url.is_empty() => Agent::builder(OpenAi::new(key)),
            "openai" => Agent::builder(OpenAi::new(key).base_url(url)),
            "ollama" if url.is_empty() => Agent::builder(Ollama::new()),
            "ollama" => Agent::builder(Ollama::new().base_url(url)),
            "gemini" if url.is_empty() => Agent::builder(Gemini::new(key)),
            "gemini" => Agent::builder(Gemini::new(key).base_url(url)),
            _ => return Err(JsError::new(&format!("unknown vendor `{vendor}`"))),
        };
        if !model.is_empty() {
            builder = builder.model(model);
        }
        let agent = builder.tools(tools).system_prompt("Answer briefly.").max_turns(8).build();
        Ok(Self { agent, conversation: Conversation::new() })
    }

    /// Sends a message, and returns the complete response. Calls `on_text` with each piece of the response as it
    /// arrives.
    ///
    /// # Errors
    ///
    /// The error of the run. The conversation remains valid, so another message can follow.
    pub async fn send(
        &mut self,
        message: String,
        stop: &Stop,
        on_text: Function,
    ) -> Result<String, JsError> {
        let run = self.agent.run(&mut self.conversation, message.as_str()).context(stop.0.clone());
        let mut events = run.stream();
        while let Some(event) = events.next().await {
            match event? {
                RunEvent::Event(StreamEvent::TextDelta(text)) => {
                    on_text.call1(&JsValue::NULL, &text.into()).map_err(|_| failed("on_text"))?;
                }
                RunEvent::Ended(result) => return Ok(result.response),
                _ => {}
            }
        }
        Err(JsError::new("the run has no end"))
    }
}

fn failed(name: &str) -> JsError {
    JsError::new(&format!("`{name}` threw an error"))
}
