//! Traits and functions for guardrails, which check the input and the output of a model.

use std::any::type_name;
use std::fmt;
use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use futures_util::FutureExt;
use neuron_types::{WasmBoxedFuture, WasmCompatSend, WasmCompatSync};

/// The result of a guardrail's check of a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum GuardrailResult {
    /// The text is acceptable and is passed on.
    Pass,
    /// The text must not be passed on.
    Tripwire(
        /// The reason of the rejection. It may be shown to the user, so it should not quote the text.
        String,
    ),
    /// The text is passed on, and a warning is logged.
    Warn(
        /// The reason of the warning.
        String,
    ),
}

impl GuardrailResult {
    /// Returns `true` if the text is acceptable.
    #[must_use]
    pub fn is_pass(&self) -> bool {
        matches!(self, Self::Pass)
    }

    /// Returns `true` if the text must not be passed on.
    #[must_use]
    pub fn is_tripwire(&self) -> bool {
        matches!(self, Self::Tripwire(_))
    }

    /// Returns `true` if the text is passed on with a warning.
    #[must_use]
    pub fn is_warn(&self) -> bool {
        matches!(self, Self::Warn(_))
    }

    /// Returns the reason of a tripwire or a warning. Returns `None` if the text is acceptable.
    #[must_use]
    pub fn reason(&self) -> Option<&str> {
        match self {
            Self::Pass => None,
            Self::Tripwire(reason) | Self::Warn(reason) => Some(reason),
        }
    }
}

/// Checks the input of a model. Add the guardrail to a [`GuardrailHook`](crate::GuardrailHook), or run several
/// guardrails with [`run_input_guardrails`].
///
/// # Contract
///
/// - A guardrail accepts, rejects or warns. It cannot change the text.
/// - A check may take long, for example because it asks a model. The agent's model call waits for the check.
/// - A panic of a check counts as a tripwire.
///
/// # Example
///
/// ```
/// use std::future::Future;
/// use neuron_runtime::{GuardrailResult, InputGuardrail};
///
/// struct NoSecrets;
///
/// impl InputGuardrail for NoSecrets {
///     fn check(&self, input: &str) -> impl Future<Output = GuardrailResult> + Send {
///         async move {
///             match input.contains("sk-") {
///                 true => GuardrailResult::Tripwire("the input contains a secret".into()),
///                 false => GuardrailResult::Pass,
///             }
///         }
///     }
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// assert!(NoSecrets.check("Hello").await.is_pass());
/// assert!(NoSecrets.check("My key is sk-123").await.is_tripwire());
/// # }
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not an input guardrail",
    note = "implement `InputGuardrail`; a `dyn` guardrail is `Arc<dyn ErasedInputGuardrail>`"
)]
pub trait InputGuardrail: WasmCompatSend + WasmCompatSync {
    /// Checks the new input of a model before the model receives it.
    fn check(&self, input: &str) -> impl Future<Output = GuardrailResult> + WasmCompatSend;

    /// Returns the name of the guardrail for errors and logs. Default: the name of the type.
    fn name(&self) -> &str {
        short_name(type_name::<Self>())
    }
}

/// Checks the output of a model. The contract is the same as for [`InputGuardrail`].
///
/// # Example
///
/// ```
/// use std::future::Future;
/// use neuron_runtime::{GuardrailResult, OutputGuardrail};
///
/// struct ShortAnswers;
///
/// impl OutputGuardrail for ShortAnswers {
///     fn check(&self, output: &str) -> impl Future<Output = GuardrailResult> + Send {
///         let length = output.chars().count();
///         async move {
///             match length {
///                 0..2_000 => GuardrailResult::Pass,
///                 2_000..10_000 => GuardrailResult::Warn(format!("{length} characters")),
///                 _ => GuardrailResult::Tripwire("the answer is too long".into()),
///             }
///         }
///     }
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// assert_eq!(ShortAnswers.check("Yes.").await, GuardrailResult::Pass);
/// assert!(ShortAnswers.check(&"very ".repeat(500)).await.is_warn());
/// # }
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not an output guardrail",
    note = "implement `OutputGuardrail`; a `dyn` guardrail is `Arc<dyn ErasedOutputGuardrail>`"
)]
pub trait OutputGuardrail: WasmCompatSend + WasmCompatSync {
    /// Checks the text of a response before the agent uses the response.
    fn check(&self, output: &str) -> impl Future<Output = GuardrailResult> + WasmCompatSend;

    /// Returns the name of the guardrail for errors and logs. Default: the name of the type.
    fn name(&self) -> &str {
        short_name(type_name::<Self>())
    }
}

/// Object-safe form of [`InputGuardrail`]. Every input guardrail implements it. Its methods have other names, so that
/// `check` and `name` are not ambiguous if both traits are in scope.
pub trait ErasedInputGuardrail: WasmCompatSend + WasmCompatSync {
    /// Calls [`InputGuardrail::check`] and boxes its future.
    fn check_input_dyn<'a>(&'a self, input: &'a str) -> WasmBoxedFuture<'a, GuardrailResult>;

    /// Calls [`InputGuardrail::name`].
    fn input_name_dyn(&self) -> &str;
}

impl<G: InputGuardrail> ErasedInputGuardrail for G {
    fn check_input_dyn<'a>(&'a self, input: &'a str) -> WasmBoxedFuture<'a, GuardrailResult> {
        Box::pin(self.check(input))
    }

    fn input_name_dyn(&self) -> &str {
        self.name()
    }
}

impl InputGuardrail for Arc<dyn ErasedInputGuardrail> {
    async fn check(&self, input: &str) -> GuardrailResult {
        (**self).check_input_dyn(input).await
    }

    fn name(&self) -> &str {
        (**self).input_name_dyn()
    }
}

impl fmt::Debug for dyn ErasedInputGuardrail {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.input_name_dyn())
    }
}

/// Object-safe form of [`OutputGuardrail`]. Every output guardrail implements it. Its methods have other names, so that
/// `check` and `name` are not ambiguous if both traits are in scope.
pub trait ErasedOutputGuardrail: WasmCompatSend + WasmCompatSync {
    /// Calls [`OutputGuardrail::check`] and boxes its future.
    fn check_output_dyn<'a>(&'a self, output: &'a str) -> WasmBoxedFuture<'a, GuardrailResult>;

    /// Calls [`OutputGuardrail::name`].
    fn output_name_dyn(&self) -> &str;
}

impl<G: OutputGuardrail> ErasedOutputGuardrail for G {
    fn check_output_dyn<'a>(&'a self, output: &'a str) -> WasmBoxedFuture<'a, GuardrailResult> {
        Box::pin(self.check(output))
    }

    fn output_name_dyn(&self) -> &str {
        self.name()
    }
}

impl OutputGuardrail for Arc<dyn ErasedOutputGuardrail> {
    async fn check(&self, output: &str) -> GuardrailResult {
        (**self).check_output_dyn(output).await
    }

    fn name(&self) -> &str {
        (**self).output_name_dyn()
    }
}

impl fmt::Debug for dyn ErasedOutputGuardrail {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.output_name_dyn())
    }
}

/// Runs all guardrails on an input, one after another, even after a tripwire. Returns the first tripwire. If there is
/// none, returns the first warning. Otherwise returns [`GuardrailResult::Pass`].
///
/// # Cancel safety
///
/// Dropping the future drops the running check. The later guardrails do not run.
///
/// # Example
///
/// ```
/// use neuron_runtime::{ErasedInputGuardrail, GuardrailResult, InputGuardrail, run_input_guardrails};
///
/// struct Short;
/// impl InputGuardrail for Short {
///     async fn check(&self, input: &str) -> GuardrailResult {
///         match input.len() {
///             0..100 => GuardrailResult::Pass,
///             _ => GuardrailResult::Warn("long".into()),
///         }
///     }
/// }
///
/// struct Polite;
/// impl InputGuardrail for Polite {
///     async fn check(&self, input: &str) -> GuardrailResult {
///         match input.contains("please") {
///             true => GuardrailResult::Pass,
///             false => GuardrailResult::Tripwire("say please".into()),
///         }
///     }
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// let guardrails: Vec<&dyn ErasedInputGuardrail> = vec![&Short, &Polite];
/// let result = run_input_guardrails(&guardrails, &"more ".repeat(30)).await;
/// assert_eq!(result, GuardrailResult::Tripwire("say please".into()));
/// # }
/// ```
pub fn run_input_guardrails(
    guardrails: &[&dyn ErasedInputGuardrail],
    input: &str,
) -> impl Future<Output = GuardrailResult> + WasmCompatSend {
    async move {
        let mut findings = Findings::default();
        for guardrail in guardrails {
            findings.add_input(*guardrail, input).await;
        }
        findings.strongest()
    }
}

/// Runs all guardrails on an output, one after another, even after a tripwire. Returns the first tripwire. If there is
/// none, returns the first warning. Otherwise returns [`GuardrailResult::Pass`].
///
/// # Cancel safety
///
/// Dropping the future drops the running check. The later guardrails do not run.
pub fn run_output_guardrails(
    guardrails: &[&dyn ErasedOutputGuardrail],
    output: &str,
) -> impl Future<Output = GuardrailResult> + WasmCompatSend {
    async move {
        let mut findings = Findings::default();
        for guardrail in guardrails {
            findings.add_output(*guardrail, output).await;
        }
        findings.strongest()
    }
}

/// The results of several guardrails for one text, with the names of the guardrails, in the order of the checks.
#[derive(Debug, Default)]
pub(crate) struct Findings(Vec<(String, GuardrailResult)>);

impl Findings {
    pub(crate) async fn add_input(&mut self, guardrail: &dyn ErasedInputGuardrail, input: &str) {
        let name = guardrail.input_name_dyn();
        // The async block also catches a panic before the guardrail returns its future.
        let result = caught(name, async { guardrail.check_input_dyn(input).await }).await;
        self.0.push((name.to_owned(), result));
    }

    pub(crate) async fn add_output(&mut self, guardrail: &dyn ErasedOutputGuardrail, output: &str) {
        let name = guardrail.output_name_dyn();
        let result = caught(name, async { guardrail.check_output_dyn(output).await }).await;
        self.0.push((name.to_owned(), result));
    }

    /// Returns the name and the reason of the first guardrail that tripped. Returns `None` if there is no tripwire.
    pub(crate) fn tripwire(&self) -> Option<(&str, &str)> {
        self.0.iter().find_map(|(name, result)| match result {
            GuardrailResult::Tripwire(reason) => Some((&**name, &**reason)),
            _ => None,
        })
    }

    /// Returns the names and the reasons of all guardrails that warned.
    pub(crate) fn warnings(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().filter_map(|(name, result)| match result {
            GuardrailResult::Warn(reason) => Some((&**name, &**reason)),
            _ => None,
        })
    }

    /// Returns the first tripwire, else the first warning, else a pass.
    fn strongest(&self) -> GuardrailResult {
        if let Some((_, reason)) = self.tripwire() {
            return GuardrailResult::Tripwire(reason.to_owned());
        }
        match self.warnings().next() {
            Some((_, reason)) => GuardrailResult::Warn(reason.to_owned()),
            None => GuardrailResult::Pass,
        }
    }
}

/// Runs a check of the guardrail `name`. A panic is converted to a tripwire, because an unchecked text must not pass.
async fn caught(name: &str, check: impl Future<Output = GuardrailResult>) -> GuardrailResult {
    // Unwind safe, because the future is dropped after a panic and never polled again.
    AssertUnwindSafe(check).catch_unwind().await.unwrap_or_else(|_| {
        tracing::error!(guardrail = name, "a guardrail panicked");
        GuardrailResult::Tripwire("the guardrail panicked".into())
    })
}

/// Returns a type's name without its module path and its type parameters.
fn short_name(name: &str) -> &str {
    let path = name.split('<').next().unwrap_or(name);
    let start = path.rfind("::").map_or(0, |index| index + 2);
    name.get(start..).unwrap_or(name)
}
