//! The connector for streams that the user has already opened.

use std::sync::{Mutex, PoisonError};

use neuron_types::McpError;
use tokio::io::{AsyncRead, AsyncWrite};

use super::connection::{Connector, Opened};
use super::line_transport::LineTransport;
use crate::route::Route;

/// A connector for two streams that the user has opened. The connector can open only one connection.
pub(super) struct StreamConnector<R, W> {
    streams: Mutex<Option<(R, W)>>,
    max_message_bytes: usize,
}

impl<R, W> StreamConnector<R, W> {
    pub(super) fn new(reader: R, writer: W, max_message_bytes: usize) -> Self {
        Self { streams: Mutex::new(Some((reader, writer))), max_message_bytes }
    }
}

impl<R, W> Connector for StreamConnector<R, W>
where
    R: AsyncRead + Send + Unpin + 'static,
    W: AsyncWrite + Send + Unpin + 'static,
{
    type Transport = LineTransport<R>;

    fn name(&self) -> &str {
        "the streams"
    }

    async fn open(&self) -> Result<Opened<Self::Transport>, McpError> {
        let streams = self.streams.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some((reader, writer)) = streams else {
            return Err(McpError::Connection("the streams were closed".to_owned()));
        };
        let transport = LineTransport::new(reader, writer, self.max_message_bytes);
        Ok(Opened { transport, route: Route::default(), exit_report: None })
    }
}
