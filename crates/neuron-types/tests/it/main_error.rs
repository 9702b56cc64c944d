//! Tests of the error of a function `main`.

use std::error::Error;
use std::fmt;
use std::io;

use neuron_types::{MainError, ProviderError};

/// An error whose text does not contain the text of its cause.
#[derive(Debug)]
struct Outer(io::Error);

impl fmt::Display for Outer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the settings cannot be read")
    }
}

impl Error for Outer {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        Some(&self.0)
    }
}

/// Checks the text that Rust prints if `main` returns the error.
#[track_caller]
fn check(error: impl Into<MainError>, expected: &str) {
    let error: MainError = error.into();
    assert_eq!(format!("{error:?}"), expected);
    assert_eq!(error.to_string(), expected);
}

#[test]
fn error_of_main_is_printed_as_text() {
    let missing = || "KEY is not set: export it".to_owned();
    check(
        ProviderError::Authentication(missing()),
        "authentication failed: KEY is not set: export it",
    );
    check(missing(), &missing());
    let boxed: Box<dyn Error> = "boxed".into();
    check(boxed, "boxed");
}

#[test]
fn causes_follow_unless_the_text_contains_them() {
    let gone = || io::Error::other("the disk is gone");
    check(Outer(gone()), "the settings cannot be read: the disk is gone");
    check(ProviderError::Network(Box::new(gone())), "network error: the disk is gone");
}

#[test]
fn operator_converts_errors_and_texts() {
    fn parse(text: &str) -> Result<u16, MainError> {
        if text.is_empty() {
            return Err("the port is missing".into());
        }
        Ok(text.parse()?)
    }
    assert_eq!(parse("80").unwrap(), 80);
    assert_eq!(parse("x").unwrap_err().to_string(), "invalid digit found in string");
    assert_eq!(parse("").unwrap_err().to_string(), "the port is missing");
}
