//! An nginx server that offers HTTP/2 over TLS, and forwards requests to a server of the test over HTTP/1.1.
//!
//! ```no_run
//! use neuron_testkit::nginx::NginxServer;
//!
//! # fn main() {
//! let Some(server) = NginxServer::or_skip() else {
//!     return; // This machine has no nginx. A line on standard error reports that.
//! };
//! println!("{}", server.url());
//! # }
//! ```
//!
//! Set the environment variable `NEURON_NGINX` to the path of your own program, or to `none` to make it unavailable.
//! Without the variable, an installed nginx is used, or else nginx is [fetched](crate::fetch).

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::{fs, io};

use crate::fetch::{NGINX, Program};
use crate::http::listens;
use crate::server::{Recipe, Server, Service, free_ports};

/// An nginx server with fresh data.
pub type NginxServer = Server<Nginx>;

/// The certificate of the server, with its key. It is valid for 127.0.0.1.
const CERTIFICATE: &str =
    concat!(env!("CARGO_MANIFEST_DIR"), "/../crates/neuron-http/tests/it/tls/server.pem");

/// The ports of an nginx server, and the path of its log of requests.
#[derive(Debug)]
pub struct Nginx {
    port: u16,
    upstream: u16,
    requests: PathBuf,
}

impl Server<Nginx> {
    /// Returns the URL of the server, such as `https://127.0.0.1:8443`. The URL has no trailing slash.
    #[must_use]
    pub fn url(&self) -> String {
        format!("https://127.0.0.1:{}", self.service.port)
    }

    /// Returns the port of 127.0.0.1 to which the server forwards requests.
    #[must_use]
    pub fn upstream_port(&self) -> u16 {
        self.service.upstream
    }

    /// Returns the number of connections of completed requests, with the protocol of each, such as `HTTP/2.0`.
    ///
    /// # Errors
    ///
    /// Returns the error of reading the log.
    pub fn connections(&self) -> io::Result<Vec<String>> {
        let log = fs::read_to_string(&self.service.requests)?;
        let connections: BTreeSet<&str> = log.lines().collect();
        let protocol = |line: &str| line.split(' ').nth(1).unwrap_or_default().to_owned();
        Ok(connections.into_iter().map(protocol).collect())
    }
}

/// Returns the path of an installed nginx.
pub(crate) fn installed() -> Option<PathBuf> {
    ["/usr/sbin/nginx", "/usr/local/sbin/nginx", "/usr/local/bin/nginx", "/opt/homebrew/bin/nginx"]
        .into_iter()
        .map(PathBuf::from)
        .find(|path| path.is_file())
}

impl Service for Nginx {
    const PROGRAM: &'static Program = &NGINX;

    fn prepare(program: &Path, folder: &Path, data: &Path) -> io::Result<(Self, Recipe)> {
        let [port, upstream] = free_ports()?;
        fs::create_dir_all(data)?;
        let requests = data.join("requests");
        let configuration = data.join("nginx.conf");
        let (data, log) = (data.display(), requests.display());
        let text = format!(
            r#"
            daemon off;
            # One process, which keeps its user.
            master_process off;
            pid "{data}/pid";
            error_log stderr notice;
            events {{ worker_connections 2048; }}
            http {{
                log_format connections "$connection $server_protocol";
                access_log "{log}" connections;
                client_body_temp_path "{data}/body";
                proxy_temp_path "{data}/proxy";
                fastcgi_temp_path "{data}/fastcgi";
                scgi_temp_path "{data}/scgi";
                uwsgi_temp_path "{data}/uwsgi";
                server {{
                    listen 127.0.0.1:{port} ssl http2;
                    ssl_certificate "{CERTIFICATE}";
                    ssl_certificate_key "{CERTIFICATE}";
                    location / {{
                        proxy_pass http://127.0.0.1:{upstream};
                        proxy_http_version 1.1;
                        proxy_buffering off;
                    }}
                }}
            }}
            "#
        );
        fs::write(&configuration, text)?;
        let args = ["-p".to_owned(), folder.display().to_string(), "-e".to_owned()];
        let rest = ["stderr".to_owned(), "-c".to_owned(), configuration.display().to_string()];
        let recipe = Recipe {
            program: program.to_owned(),
            args: args.into_iter().chain(rest).collect(),
            ..Recipe::default()
        };
        Ok((Self { port, upstream, requests }, recipe))
    }

    fn is_ready(&self, _log: &str) -> bool {
        listens(self.port)
    }
}
