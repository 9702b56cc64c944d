//! Configuration of the connection to a server.

use std::fmt;

/// Configuration of a server that is started as a child process. Messages are sent over standard input and output.
///
/// The child process does not inherit the whole environment of this process. It gets the following variables:
///
/// - Harmless variables of this process, such as `PATH` and `HOME`.
/// - The variables of this process that [`McpClientBuilder::inherit_env`](crate::McpClientBuilder::inherit_env) names.
/// - The variables in [`env`](Self::env).
#[derive(Clone, Default, PartialEq, Eq)]
pub struct StdioConfig {
    /// The program to start, as a path or as a name that is searched in `PATH`.
    pub command: String,
    /// Arguments of the program.
    pub args: Vec<String>,
    /// Environment variables to set in the child process, as pairs of name and value.
    pub env: Vec<(String, String)>,
}

/// Shows the names of the environment variables, but not their values.
impl fmt::Debug for StdioConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = self.env.iter().map(|(name, _)| name.as_str()).collect();
        f.debug_struct("StdioConfig")
            .field("command", &self.command)
            .field("args", &self.args)
            .field("env", &names)
            .finish()
    }
}

/// Configuration of a server that is reached over Streamable HTTP.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct HttpConfig {
    /// URL of the server's MCP endpoint.
    pub url: String,
    /// The value of the `Authorization` header, for example `Bearer …`. A value without a space is sent as a bearer
    /// token.
    pub auth_header: Option<String>,
    /// Additional headers of every request, as pairs of name and value.
    pub headers: Vec<(String, String)>,
}

/// Shows the names of the headers, but not their values.
impl fmt::Debug for HttpConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = self.headers.iter().map(|(name, _)| name.as_str()).collect();
        f.debug_struct("HttpConfig")
            .field("url", &self.url)
            .field("auth_header", &self.auth_header.as_ref().map(|_| "…"))
            .field("headers", &names)
            .finish()
    }
}
