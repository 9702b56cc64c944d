//! Tests of agents under faults such as crashes of the process and errors of the model.
//!
//! A [`FaultTest`] runs an agent with its tools a thousand times, each time with other faults. It compares each run with
//! a run without faults, and reports the [promises](BrokenPromise) that were broken. Every run has a seed that repeats
//! it.
//!
//! | fault | injected by |
//! |---|---|
//! | overload, rate limit, timeout, broken connection, malformed body | [`Trial::provider`] |
//! | a stream that breaks or is slow | [`Trial::provider`] |
//! | a crash before, inside or after a tool call | [`Trial::tool`], in a durable run |
//! | a crash before or after a step of the journal | [`Trial::context`], in a durable run |
//!
//! A crash drops the future of the run, and the run starts again. This is the loss of everything in memory. To test that
//! files survive a killed process or a power failure, use the suites of the storage or the engine.
//!
//! # Example
//!
//! A tool charges a credit card. It declares that a call may run again, so the payment service must get the idempotency
//! key of the call.
//!
//! ```
//! use std::collections::BTreeMap;
//! use std::sync::{Arc, Mutex};
//! use std::time::Duration;
//!
//! use neuron_durable_sqlite::SqliteDurableContext;
//! use neuron_loop::{Agent, Conversation};
//! use neuron_testing::faults::FaultTest;
//! use neuron_testing::{Reply, ScriptedProvider};
//! use neuron_tool::ToolRegistry;
//! use neuron_types::{
//!     BoxError, RetryPolicy, ToolContext, ToolDefinition, ToolDyn, ToolEffect, ToolError, ToolOutput, WasmBoxedFuture,
//! };
//! use serde_json::{Value, json};
//!
//! /// The charges of a fake payment service by their idempotency keys.
//! type Charges = Arc<Mutex<BTreeMap<String, String>>>;
//!
//! struct Charge(Charges);
//!
//! impl ToolDyn for Charge {
//! #    fn name(&self) -> &str { "charge" }
//! #    fn definition(&self) -> ToolDefinition {
//! #        ToolDefinition {
//! #            name: "charge".into(),
//! #            title: None,
//! #            description: "Charges the card of the customer".into(),
//! #            input_schema: json!({"type": "object"}),
//! #            output_schema: None,
//! #            annotations: None,
//! #            cache_control: None,
//! #        }
//! #    }
//!     // ...
//!     fn effect(&self) -> ToolEffect {
//!         ToolEffect::Idempotent
//!     }
//!
//!     fn call_dyn<'a>(
//!         &'a self,
//!         input: Value,
//!         ctx: &'a ToolContext,
//!     ) -> WasmBoxedFuture<'a, Result<ToolOutput, ToolError>> {
//!         Box::pin(async move {
//!             let mut charges = self.0.lock().map_err(|_| ToolError::ExecutionFailed("poisoned".into()))?;
//!             charges.insert(ctx.idempotency_key.clone(), format!("charge {}", input["cents"]));
//!             Ok(ToolOutput::text("charged"))
//!         })
//!     }
//! }
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), BoxError> {
//! let folder = tempfile::tempdir()?;
//! let path = folder.path().join("runs.db");
//! let report = FaultTest::new()
//! #   .runs(60)
//!     .run(async |trial| {
//!         // The world outlives a crash.
//!         let charges = Charges::default();
//!         let model = ScriptedProvider::new([
//!             Reply::tool_call("call_1", "charge", json!({"cents": 500})),
//!             Reply::text("Your card was charged."),
//!         ]);
//!         let seen = charges.clone();
//!         trial.effects(move || seen.lock().map(|all| all.values().cloned().collect()).unwrap_or_default());
//!         trial
//!             .execute(async || {
//!                 // This is the process, which begins again after a crash.
//!                 let provider = Arc::new(trial.provider(model.clone()));
//!                 let mut tools = ToolRegistry::new();
//!                 tools.register_dyn(trial.tool(Charge(charges.clone())));
//!                 let tools = Arc::new(tools);
//!                 let durable =
//!                     SqliteDurableContext::open(&path, &trial.run_id(), provider.clone(), tools.clone()).await?;
//!                 let start = durable.start("Charge 5 dollars").await?;
//!                 let retries = RetryPolicy {
//!                     initial_interval: Duration::from_millis(1),
//!                     backoff_coefficient: 2.0,
//!                     maximum_attempts: 3,
//!                     maximum_interval: Duration::from_secs(10),
//!                     non_retryable_errors: Vec::new(),
//!                 };
//!                 let agent = Agent::builder(provider)
//!                     .tools(ToolRegistry::clone(&tools))
//!                     .config(|config| config.llm_activity.retry_policy = Some(retries))
//!                     .build();
//!                 let run = agent.run(&mut Conversation::new(), start).durable(trial.context(durable)).await?;
//!                 Ok::<_, BoxError>(run.response)
//!             })
//!             .await;
//!     })
//!     .await;
//! report.assert_kept();
//! # assert!(report.crashes > 10, "{report}");
//! # Ok(())
//! # }
//! ```
//!
//! With `charges.push(…)` in place of the key, the test fails and names a seed:
//!
//! ```text
//! - effect_repeated in 214 runs: the effect "charge 500" happened 2 times and not 1
//!   repeat it with `.seed(9)`; faults: a crash at boundary 9, the end of the tool `charge`
//! ```
//!
//! # Limits
//!
//! - Faults are injected at the traits of neuron. To test the bytes of an HTTP response, use a
//!   [server](crate::vendor::VendorServer) with [`ServerReply`](crate::ServerReply).
//! - A crash cannot interrupt code between two waits, because a dropped future stops only where it waits.
//! - A tool of [`neuron_types::AgentTool`] runs an agent. Wrap the provider and the tools of that agent too.

mod context;
mod plan;
mod promise;
mod provider;
mod report;
mod runner;
mod tool;
mod trial;

pub use context::FaultyContext;
pub use promise::BrokenPromise;
pub use provider::FaultyProvider;
pub use report::{BrokenRun, Report};
pub use runner::FaultTest;
pub use trial::Trial;
