//! One thing that has to hold, and how it is reported when it does not.

use std::fmt::{self, Debug, Display};
use std::future::Future;
use std::time::Duration;

/// How long one call may take before it counts as hanging. Nothing waits for it to pass.
const HANGING: Duration = Duration::from_secs(60);

/// How much of a value a report shows, in characters.
const SHOWN: usize = 1000;

/// One thing that has to hold. Its name is the part's and its own.
#[derive(Debug, Clone)]
pub(in crate::conformance) struct Case {
    /// What is tried: `provider`, say.
    subject: &'static str,
    name: String,
}

impl Case {
    pub(in crate::conformance) fn new(
        subject: &'static str,
        part: &str,
        name: impl Display,
    ) -> Self {
        Self { subject, name: format!("{part}: {name}") }
    }

    /// A step of this case.
    pub(in crate::conformance) fn step(&self, name: impl Display) -> Self {
        Self { subject: self.subject, name: format!("{self}, {name}") }
    }

    #[track_caller]
    #[expect(clippy::panic, reason = "an assertion for tests")]
    pub(in crate::conformance) fn fail(&self, what: impl Display) -> ! {
        panic!("the {} does not conform: {self}: {what}", self.subject)
    }

    #[track_caller]
    pub(in crate::conformance) fn holds(&self, holds: bool, what: impl Display) {
        if !holds {
            self.fail(what);
        }
    }

    #[track_caller]
    pub(in crate::conformance) fn equal<A: Debug + PartialEq<B>, B: Debug>(
        &self,
        what: &str,
        actual: A,
        expected: B,
    ) {
        if actual != expected {
            let (actual, expected) = (shown(&actual), shown(&expected));
            self.fail(format_args!("{what}\n  is      {actual}\n  must be {expected}"));
        }
    }

    #[track_caller]
    pub(in crate::conformance) fn ok<T, E: Debug + Display>(&self, result: Result<T, E>) -> T {
        match result {
            Ok(value) => value,
            Err(error) => self.fail(format_args!("failed: {error} ({error:?})")),
        }
    }

    #[track_caller]
    pub(in crate::conformance) fn some<T>(&self, what: &str, value: Option<T>) -> T {
        match value {
            Some(value) => value,
            None => self.fail(what),
        }
    }

    #[track_caller]
    pub(in crate::conformance) fn err<T: Debug, E>(&self, result: Result<T, E>) -> E {
        match result {
            Ok(value) => self.fail(format_args!("gave {} and must fail", shown(&value))),
            Err(error) => error,
        }
    }

    /// Waits for what must not hang.
    pub(in crate::conformance) async fn soon<T>(&self, work: impl Future<Output = T>) -> T {
        match tokio::time::timeout(HANGING, work).await {
            Ok(value) => value,
            Err(_) => self.fail(format_args!("hangs for {HANGING:?}")),
        }
    }
}

impl Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

/// A value as text, of which a megabyte helps nobody.
pub(in crate::conformance) fn shown(value: &impl Debug) -> String {
    let text = format!("{value:?}");
    match text.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()),
        None => text,
    }
}
