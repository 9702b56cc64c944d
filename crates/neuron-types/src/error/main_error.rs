//! The error of a function `main` ([`MainError`]).

use std::error::Error;
use std::fmt;

/// Any error, for the return type of `main`.
///
/// Rust prints the error of `main` with its `Debug` format, which for most errors shows the variant and the fields. The
/// formats `Debug` and `Display` of this type are the text of the error, followed by the texts of its causes. A cause
/// whose text is part of the text before it is left out.
///
/// The operator `?` converts each type that it converts into `Box<dyn Error>`.
///
/// # Example
///
/// ```
/// use neuron_types::MainError;
///
/// fn main() -> Result<(), MainError> {
///     let port: u16 = "8080".parse()?;
///     println!("{port}");
///     Ok(())
/// }
/// ```
// The type does not implement `Error`. Otherwise the conversion from each error would include itself.
pub struct MainError(Box<dyn Error>);

impl<E: Into<Box<dyn Error>>> From<E> for MainError {
    fn from(error: E) -> Self {
        Self(error.into())
    }
}

impl fmt::Display for MainError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = self.0.to_string();
        let mut source = self.0.source();
        while let Some(cause) = source {
            let words = cause.to_string();
            if !text.contains(&words) {
                text = format!("{text}: {words}");
            }
            source = cause.source();
        }
        f.write_str(&text)
    }
}

impl fmt::Debug for MainError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
