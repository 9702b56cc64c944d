//! Evaluations of agents, which are ordinary tests.
//!
//! An [`Eval`] runs an agent with each [`Case`] several times, and scores each run with the [`Check`]s of the case. Its
//! [`Report`] has pass rates with confidence intervals, and can be compared with the report of another agent. Run the
//! evaluations with `cargo test`.
//!
//! ```
//! use neuron_testing::evals::{Case, Check, Eval};
//! # use neuron_types::{AgentResult, BoxError, Message, StopReason, TokenUsage};
//! # async fn ask(question: &str) -> Result<AgentResult, BoxError> {
//! #     let (response, messages) = ("The capital is Bern.".to_owned(), vec![Message::user(question)]);
//! #     let (usage, stop_reason) = (TokenUsage::default(), StopReason::EndTurn);
//! #     Ok(AgentResult { response, messages, usage, turns: 1, stop_reason, limit_reached: None })
//! # }
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() {
//! let eval = Eval::new("capitals").repeat(10).case(
//!     Case::new("switzerland", "What is the capital of Switzerland?")
//!         .check(Check::response_contains("Bern"))
//!         .check(Check::max_turns(1)),
//! );
//! // `ask` runs the agent, and returns the `AgentResult` of `RunResult::with_messages`.
//! let report = eval.run(async |case| ask(case.input()).await).await;
//! report.assert_pass_rate(0.9);
//! # }
//! ```
//!
//! # Where to look
//!
//! | to | use |
//! |---|---|
//! | read cases from a file | [`Case::from_json`] |
//! | check the response, the tool calls, their order, tokens or cost | the functions of [`Check`] |
//! | check anything else | [`Check::new`], [`Check::new_async`] |
//! | let a model judge | [`Judge`] |
//! | show, store or publish the results | [`Report`], [`Report::to_json`], [`Report::to_junit`] |
//! | compare two agents or two prompts | [`Report::compare`] |

mod case;
mod check;
mod judge;
mod report;
mod runner;
mod statistics;

pub use case::Case;
pub use check::{Check, Score};
pub use judge::Judge;
pub use report::{CaseReport, CheckReport, Comparison, Report, RunReport};
pub use runner::{Eval, Run};
pub use statistics::PassRate;
