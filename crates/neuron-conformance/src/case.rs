//! Assertions that name the failing case.

use std::fmt::{self, Debug, Display};
use std::future::Future;
use std::time::Duration;

/// Time limit of a future in [`Case::soon`]. The limit only stops a test that hangs, so it is long.
const HANGING: Duration = Duration::from_secs(120);

/// Maximum length of a printed value in a panic message, in characters.
const SHOWN: usize = 1000;

/// A named case of a conformance suite. The methods are assertions that panic with a message that contains the name.
#[derive(Debug, Clone)]
pub struct Case {
    /// The implementation under test, such as `provider`.
    subject: &'static str,
    name: String,
}

impl Case {
    /// Creates a case of a suite. Panic messages contain all three arguments.
    ///
    /// - `subject` is the kind of implementation under test, such as `provider`.
    /// - `part` is the part of the suite.
    /// - `name` is the name of the case.
    pub fn new(subject: &'static str, part: &str, name: impl Display) -> Self {
        Self { subject, name: format!("{part}: {name}") }
    }

    /// Returns a case for one step of this case. Its name is the name of this case, followed by `name`.
    #[must_use]
    pub fn step(&self, name: impl Display) -> Self {
        Self { subject: self.subject, name: format!("{self}, {name}") }
    }

    /// Panics with the name of the case and `what`.
    #[track_caller]
    #[expect(clippy::panic, reason = "an assertion for tests")]
    pub fn fail(&self, what: impl Display) -> ! {
        panic!("the {} does not conform: {self}: {what}", self.subject)
    }

    /// Panics with the name of the case and `what` if `holds` is `false`.
    #[track_caller]
    pub fn holds(&self, holds: bool, what: impl Display) {
        if !holds {
            self.fail(what);
        }
    }

    /// Panics if the text of `value` does not contain the text `part`.
    #[track_caller]
    pub fn mentions(&self, value: impl Display, part: impl Display) {
        let (text, part) = (value.to_string(), part.to_string());
        self.holds(text.contains(&part), format_args!("the text `{text}` lacks {part}"));
    }

    /// Panics if `actual` and `expected` differ. `what` describes the values in the panic message.
    #[track_caller]
    pub fn equal<A: Debug + PartialEq<B>, B: Debug>(&self, what: &str, actual: A, expected: B) {
        if actual != expected {
            let (actual, expected) = (shown(&actual), shown(&expected));
            self.fail(format_args!("{what}\n  is      {actual}\n  must be {expected}"));
        }
    }

    /// Returns the value of `result`. Panics if `result` is an error.
    #[track_caller]
    pub fn ok<T, E: Debug + Display>(&self, result: Result<T, E>) -> T {
        match result {
            Ok(value) => value,
            Err(error) => self.fail(format_args!("failed: {error} ({error:?})")),
        }
    }

    /// Returns the content of `value`. Panics with `what` if `value` is `None`.
    #[track_caller]
    pub fn some<T>(&self, what: &str, value: Option<T>) -> T {
        match value {
            Some(value) => value,
            None => self.fail(what),
        }
    }

    /// Returns the error of `result`. Panics if `result` is `Ok`.
    #[track_caller]
    pub fn err<T: Debug, E>(&self, result: Result<T, E>) -> E {
        match result {
            Ok(value) => self.fail(format_args!("gave {} and must fail", shown(&value))),
            Err(error) => error,
        }
    }

    /// Waits until `work` completes, and returns its output. Panics after two minutes.
    pub async fn soon<T>(&self, work: impl Future<Output = T>) -> T {
        self.within(HANGING, work).await
    }

    /// Waits until `work` completes, and returns its output. Panics after `limit`.
    pub async fn within<T>(&self, limit: Duration, work: impl Future<Output = T>) -> T {
        match tokio::time::timeout(limit, work).await {
            Ok(value) => value,
            Err(_) => self.fail(format_args!("hangs for {limit:?}")),
        }
    }
}

/// Waits until `work` of a test completes, and returns its output. Panics after two minutes.
pub async fn soon<T>(work: impl Future<Output = T>) -> T {
    Case::new("test", "work", "soon").soon(work).await
}

impl Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

/// Formats a value for a panic message. A text of more than [`SHOWN`] characters is cut.
pub(crate) fn shown(value: &impl Debug) -> String {
    let text = format!("{value:?}");
    match text.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()),
        None => text,
    }
}
