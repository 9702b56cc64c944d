//! The location of a server.

use std::fmt;

/// A server that is a program on this machine, spoken to over its standard input and output.
///
/// It does not inherit our environment: it sees a short list of harmless variables (`PATH`, `HOME` and the
/// like) and [`env`](Self::env).
#[derive(Clone, Default, PartialEq, Eq)]
pub struct StdioConfig {
    /// The program, as a path or as a name that is looked up in `PATH`.
    pub command: String,
    /// Its arguments.
    pub args: Vec<String>,
    /// Environment variables that the server is to see, as name and value.
    pub env: Vec<(String, String)>,
}

/// Shows the names of the environment variables, not their values.
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

/// A server that is spoken to over Streamable HTTP.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct HttpConfig {
    /// The address of its MCP endpoint.
    pub url: String,
    /// The value of the `Authorization` header, for example `Bearer …`.
    pub auth_header: Option<String>,
    /// Further headers of every request, as name and value.
    pub headers: Vec<(String, String)>,
}

/// Shows the names of the headers, not their values.
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
