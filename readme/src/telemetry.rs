//! The example "Telemetry". Prints the names of the exported spans.

use std::error::Error;

use neuron::prelude::*;
use opentelemetry::trace::TracerProvider as _;
use opentelemetry_sdk::trace::{InMemorySpanExporter, SdkTracerProvider};
use tracing_subscriber::layer::SubscriberExt as _;

/// Prompt of the run. The exported spans must not contain it.
const QUESTION: &str = "Where is my parcel?";

#[tokio::main(flavor = "current_thread")]
pub(crate) async fn run() -> Result<(), Box<dyn Error>> {
    include!(concat!(env!("OUT_DIR"), "/telemetry.rs"));
    Ok(())
}

/// Runs the agent and prints the names of the exported spans. Panics if a span contains the prompt or the response.
/// Called by an addition of `build.rs`.
pub(crate) async fn ask(agent: &Agent) -> Result<(), Box<dyn Error>> {
    let exporter = InMemorySpanExporter::default();
    let tracers = SdkTracerProvider::builder().with_simple_exporter(exporter.clone()).build();
    let layer = tracing_opentelemetry::layer().with_tracer(tracers.tracer("readme"));
    let _guard = tracing::subscriber::set_default(tracing_subscriber::registry().with(layer));
    let result = agent.run(&mut Conversation::new(), QUESTION).await?;
    for span in exporter.get_finished_spans()? {
        println!("{}", span.name);
        let exported = format!("{span:?}");
        assert!(exported.contains("gen_ai.usage.input_tokens"), "{exported}");
        for text in [QUESTION, &result.response] {
            assert!(!exported.contains(text), "{exported}");
        }
    }
    Ok(())
}
