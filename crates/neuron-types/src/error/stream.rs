//! The error of a run as the end of its event stream.

use neuron_model::{HoldsRunError, RunError};

use crate::{ContextError, LoopError, ProviderError, StreamError};

impl RunError for LoopError {
    fn kind(&self) -> &'static str {
        self.kind()
    }

    fn is_retryable(&self) -> bool {
        self.is_retryable()
    }

    fn as_provider(&self) -> Option<&ProviderError> {
        match self {
            Self::Provider(error) | Self::Context(ContextError::Provider(error)) => Some(error),
            _ => None,
        }
    }

    fn into_provider(self: Box<Self>) -> Result<ProviderError, Box<dyn RunError>> {
        match *self {
            Self::Provider(error) | Self::Context(ContextError::Provider(error)) => Ok(error),
            error => Err(Box::new(error)),
        }
    }
}

impl HoldsRunError<LoopError> for StreamError {}

impl From<LoopError> for StreamError {
    fn from(error: LoopError) -> Self {
        Self::of_run(error)
    }
}
