//! Helpers for tests that use the programs of other projects.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use neuron_mcp::{McpClient, McpClientBuilder};
use neuron_testkit::mcp::python_or_skip;
use neuron_types::ToolOutput;

/// Returns a builder of a client with a long time limit for connecting.
pub(crate) fn builder() -> McpClientBuilder {
    // Node.js and Python start slowly on a loaded machine.
    McpClient::builder().connect_timeout(Duration::from_secs(120))
}

/// Returns the items of a tool result as one text.
pub(crate) fn text(output: &ToolOutput) -> String {
    output.content.iter().map(ToString::to_string).collect()
}

/// A server over HTTP that a Python script runs. The process is killed on drop.
pub(crate) struct PythonServer {
    url: String,
    process: Child,
}

impl PythonServer {
    /// Starts the Python program `script`, a server that prints its URL as the first line. Returns `None` if no Python
    /// with the required packages is available, so that the test is skipped.
    pub(crate) fn or_skip(script: &str, args: &[&str]) -> Option<Self> {
        let mut command = Command::new(python_or_skip()?);
        command.args(["-P", "-B", script]).args(args);
        let mut process = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut url = String::new();
        BufReader::new(process.stdout.take().unwrap()).read_line(&mut url).unwrap();
        assert!(url.starts_with("http://127.0.0.1:"), "{url}");
        Some(Self { url: url.trim().to_owned(), process })
    }

    pub(crate) fn url(&self) -> String {
        self.url.clone()
    }

    pub(crate) fn kill(&mut self) {
        self.process.kill().unwrap();
    }
}

impl Drop for PythonServer {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
