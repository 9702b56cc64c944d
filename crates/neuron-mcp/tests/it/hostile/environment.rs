//! Tests of the environment variables that a server inherits, and of proxy variables.

use std::collections::BTreeMap;
use std::time::Duration;

use neuron_mcp::{HttpConfig, McpClient};

use crate::hostile::alone::alone;
use crate::hostile::server::{call, client, program};

/// Variables that are added to the environment of the client's process.
const OURS: &[(&str, &str)] = &[
    ("ANTHROPIC_API_KEY", "sk-ant-secret"),
    ("OPENAI_API_KEY", "sk-secret"),
    ("AWS_SECRET_ACCESS_KEY", "secret"),
    ("DATABASE_URL", "postgres://user:secret@host/"),
    ("MY_SETTING", "harmless but ours"),
    ("LC_TIME", "de_DE.UTF-8"),
    ("LANG", "C.UTF-8"),
];

/// Variables that a server may have without configuration. The shell that starts the server sets the last four.
const HARMLESS: &[&str] = &[
    "PATH", "HOME", "USER", "LOGNAME", "SHELL", "TERM", "LANG", "TZ", "TMPDIR", "PWD", "OLDPWD",
    "SHLVL", "_",
];

#[test]
fn server_sees_only_harmless_and_configured_variables() {
    alone(
        "hostile::environment::server_sees_only_harmless_and_configured_variables",
        OURS,
        async {
            let mut config = program("serves");
            config.env.push(("GIVEN".to_owned(), "1".to_owned()));
            config.env.push(("LANG".to_owned(), "given wins".to_owned()));
            let client = client().connect_stdio(config).await.unwrap();
            let seen = seen(&client).await;
            for name in seen.keys() {
                assert!(
                    HARMLESS.contains(&name.as_str())
                        || name.starts_with("LC_")
                        || ["GIVEN", "HOSTILE_SERVER"].contains(&name.as_str()),
                    "the server sees {name}"
                );
            }
            assert!(!seen.values().any(|value| value.contains("secret")), "{seen:?}");
            assert_eq!(seen["GIVEN"], "1");
            assert_eq!(seen["LANG"], "given wins");
            assert_eq!(seen["LC_TIME"], "de_DE.UTF-8");
            assert_eq!(seen["PATH"], std::env::var("PATH").unwrap());
        },
    );
}

#[test]
fn inherited_variable_reaches_the_server() {
    alone("hostile::environment::inherited_variable_reaches_the_server", OURS, async {
        let client = client()
            .inherit_env(["MY_SETTING", "NOT_SET"])
            .connect_stdio(program("serves"))
            .await
            .unwrap();
        let seen = seen(&client).await;
        assert_eq!(seen["MY_SETTING"], "harmless but ours");
        assert!(!seen.contains_key("NOT_SET") && !seen.contains_key("OPENAI_API_KEY"), "{seen:?}");
    });
}

/// Returns the environment of the server process.
async fn seen(client: &neuron_mcp::McpClient) -> BTreeMap<String, String> {
    serde_json::from_str(&call(client, "environment").await.unwrap()).unwrap()
}

#[test]
fn proxy_that_refuses_connections_is_named_without_credentials() {
    let test = "hostile::environment::proxy_that_refuses_connections_is_named_without_credentials";
    check_proxy_error(test, "127.0.0.1:9", "refused");
}

/// Checks that the error for a silent proxy names the proxy without its credentials. The operating system accepts
/// connections to the proxy's socket, but the test never responds.
#[test]
fn proxy_that_is_silent_is_named_without_credentials() {
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = silent.local_addr().unwrap().to_string();
    let test = "hostile::environment::proxy_that_is_silent_is_named_without_credentials";
    check_proxy_error(test, &address, "no answer");
}

fn check_proxy_error(test: &str, proxy: &str, cause: &str) {
    let url = format!("http://me:hunter2@{proxy}");
    let environment = [("http_proxy", &*url), ("https_proxy", &*url), ("PROXY_ADDRESS", proxy)];
    alone(test, &environment, async {
        // `alone` runs this block in a child process. The parent process passes its proxy's address in this variable.
        let proxy = std::env::var("PROXY_ADDRESS").unwrap();
        for url in ["http://mcp.invalid/mcp", "https://mcp.invalid/mcp"] {
            let config = HttpConfig { url: url.into(), auth_header: None, headers: Vec::new() };
            let builder = McpClient::builder().connect_timeout(Duration::from_secs(1));
            let error = builder.connect_http(config).await.unwrap_err().to_string();
            assert!(error.contains(&format!("{url}: ")), "{error}");
            assert!(!error.contains("hunter2"), "{error}");
            assert!(error.contains(&format!("through the proxy {proxy}")), "{error}");
            assert!(error.to_lowercase().contains(cause), "{error}");
        }
    });
}
