//! Tests of the transport, with shell scripts as servers.

use futures_util::FutureExt as _;
use rmcp::model::{ClientRequest, JsonRpcMessage, PingRequest, RequestId};
use serde_json::{Value, json};

use super::*;

/// Maximum duration of a test step.
const LIMIT: Duration = Duration::from_secs(60);

/// Starts a shell script as a server, with a maximum message size of 1000 bytes.
fn server(script: &str) -> StdioTransport {
    server_with(script, 1000)
}

/// Starts a shell script as a server.
fn server_with(script: &str, max_message_bytes: usize) -> StdioTransport {
    let config = StdioConfig {
        command: "sh".to_owned(),
        args: vec!["-c".to_owned(), script.to_owned()],
        env: vec![],
    };
    let options = StdioOptions { inherit: vec![], cwd: None, max_message_bytes };
    StdioTransport::spawn(&config, &options).unwrap()
}

fn ping(id: i64) -> TxJsonRpcMessage<RoleClient> {
    JsonRpcMessage::request(
        ClientRequest::PingRequest(PingRequest::default()),
        RequestId::Number(id),
    )
}

/// Waits for the next message and returns it as JSON. Returns `null` at the end of the output.
async fn next(server: &mut StdioTransport) -> Value {
    let message = tokio::time::timeout(LIMIT, server.receive()).await.unwrap();
    serde_json::to_value(message).unwrap()
}

/// Returns `true` if a process is running. Returns `false` for a zombie, which has ended but is not yet reaped.
fn runs(id: &str) -> bool {
    std::fs::read_to_string(format!("/proc/{id}/stat")).is_ok_and(|stat| {
        !stat.rsplit(')').next().is_some_and(|state| state.trim().starts_with('Z'))
    })
}

/// Returns `true` if a process is running or is a zombie, which has ended but is not yet reaped.
fn exists(id: &str) -> bool {
    std::path::Path::new(&format!("/proc/{id}")).exists()
}

/// Waits until the process has been reaped.
async fn gone(server: &StdioTransport) -> Life {
    let mut life = server.process.life();
    tokio::time::timeout(LIMIT, life.wait_for(Life::is_gone)).await.unwrap().unwrap().clone()
}

/// Waits until killed processes have ended, which the operating system does with a delay.
async fn all_end(ids: &[String]) {
    let end = async {
        while ids.iter().any(|id| runs(id)) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    assert!(tokio::time::timeout(LIMIT, end).await.is_ok(), "{ids:?}");
}

/// Returns the process ids that the server sends in a progress notification.
async fn ids(server: &mut StdioTransport) -> Vec<String> {
    let message = next(server).await;
    let text = message["params"]["message"].as_str().unwrap();
    text.split_whitespace().map(str::to_owned).collect()
}

/// Returns a shell command that writes `text` as a progress notification.
fn say(text: &str) -> String {
    format!(
        r#"echo "{{\"jsonrpc\":\"2.0\",\"method\":\"notifications/progress\",\"params\":{{\"progressToken\":1,\"progress\":1,\"message\":\"{text}\"}}}}""#
    )
}

#[tokio::test]
async fn messages_are_sent_and_received() {
    let mut server = server(
        r#"read -r line; case $line in *'"ping"'*) echo '{"jsonrpc":"2.0","id":7,"result":{}}';; esac; read -r line; exit 0"#,
    );
    server.send(ping(7)).await.unwrap();
    assert_eq!(next(&mut server).await, json!({"jsonrpc": "2.0", "id": 7, "result": {}}));
    server.close_within(LIMIT, LIMIT).await;
    assert_eq!(
        gone(&server).await,
        Life::Gone(process::Ending::ByItself("exit status 0".to_owned()))
    );
}

#[tokio::test]
async fn exited_server_closes_the_connection_and_is_reported() {
    let mut server = server("echo 'no database' >&2; echo 'I give up' >&2; exit 3");
    assert_eq!(next(&mut server).await, Value::Null);
    let report = server.exit_report();
    let expected =
        "the server ended with exit status 3; last lines of its stderr: no database\nI give up";
    assert_eq!(report.describe_within(LIMIT).await.as_deref(), Some(expected));
    server.close().await.unwrap();
    drop(server);
    assert_eq!(report.describe_within(LIMIT).await.as_deref(), Some(expected));
}

#[tokio::test]
async fn exit_status_is_reported_if_output_closes_before_exit() {
    let mut server = server("exec >&-; exit 3");
    assert_eq!(next(&mut server).await, Value::Null);
    let report = server.exit_report();
    drop(server);
    assert_eq!(
        report.describe_within(LIMIT).await.as_deref(),
        Some("the server ended with exit status 3")
    );
}

#[tokio::test]
async fn running_server_with_closed_output_ends_the_connection() {
    let mut server = server("exec >&-; sleep 1000");
    assert_eq!(next(&mut server).await, Value::Null);
    // Closed explicitly. After a drop, the server could outlive the process of this test for a moment.
    server.close().await.unwrap();
}

#[tokio::test]
async fn server_killed_by_the_client_has_no_exit_report() {
    let server = server("sleep 1000");
    let report = server.exit_report();
    drop(server);
    assert_eq!(report.describe().await, None);
}

#[tokio::test]
async fn missing_program_error_names_the_program() {
    let options = StdioOptions { inherit: vec![], cwd: None, max_message_bytes: 1000 };
    let config =
        |command: &str| StdioConfig { command: command.to_owned(), ..StdioConfig::default() };
    let error = StdioTransport::spawn(&config("no-such-server"), &options).unwrap_err().to_string();
    assert_eq!(error, "connection failed: the server \"no-such-server\" is not found in PATH");
    let error =
        StdioTransport::spawn(&config("/no/such/server"), &options).unwrap_err().to_string();
    assert!(error.contains("\"/no/such/server\" does not exist"), "{error}");
    let error = StdioTransport::spawn(&config("/etc/passwd"), &options).unwrap_err().to_string();
    assert!(error.contains("may not be executed"), "{error}");
}

#[tokio::test]
async fn close_kills_processes_that_ignore_the_signal() {
    let script = format!(
        "trap '' TERM; (trap '' TERM; while :; do sleep 1; done) & {}; while :; do sleep 1; done",
        say("$$ $!")
    );
    let mut server = server(&script);
    let ids = ids(&mut server).await;
    assert!(ids.iter().all(|id| runs(id)), "{ids:?}");
    server.close().await.unwrap();
    assert!(!exists(&ids[0]), "the leader is not reaped");
    all_end(&ids).await;
}

#[tokio::test]
async fn drop_kills_the_group_and_reaps_the_leader() {
    let script = format!("trap '' TERM; sleep 1000 & {}; wait", say("$$ $!"));
    let mut server = server(&script);
    let ids = ids(&mut server).await;
    let mut life = server.process.life();
    drop(server);
    tokio::time::timeout(LIMIT, life.wait_for(Life::is_gone)).await.unwrap().unwrap();
    assert!(!exists(&ids[0]), "the leader is not reaped");
    all_end(&ids).await;
}

#[test]
fn drop_outside_of_a_runtime_kills_the_server() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let (server, mut life) = runtime.block_on(async {
        let server = server("sleep 1000");
        let life = server.process.life();
        (server, life)
    });
    drop(runtime);
    drop(server);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        tokio::time::timeout(LIMIT, life.wait_for(Life::is_gone)).await.unwrap().unwrap();
    });
}

#[tokio::test]
async fn close_waits_for_the_cleanup_of_the_server() {
    let dir = tempfile::tempdir().unwrap();
    let marker = dir.path().join("cleaned");
    // The signal ends the wrapper. The actual server holds the output open and exits later.
    let script = format!(
        "(trap 'sleep 0.3; touch {}; exit' TERM; {}; while :; do sleep 0.05; done) ; true",
        marker.display(),
        say("$$")
    );
    let mut server = server(&script);
    ids(&mut server).await;
    server.close_within(Duration::from_millis(500), LIMIT).await;
    assert!(marker.exists());
}

#[tokio::test]
async fn exit_is_noticed_if_another_process_holds_the_output() {
    // The remaining process holds the output open, so the end of the output is never read.
    let mut server = server("sleep 1000 & exit 3");
    assert_eq!(next(&mut server).await, Value::Null);
    server.close().await.unwrap();
    gone(&server).await;
}

#[tokio::test]
async fn output_before_exit_is_read_completely() {
    let many = 500;
    let line = r#"{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}"#;
    let mut server =
        server(&format!("i=0; while [ $i -lt {many} ]; do echo '{line}'; i=$((i+1)); done"));
    gone_or_ended(&server).await;
    for _ in 0..many {
        assert!(next(&mut server).await.is_object());
    }
    assert_eq!(next(&mut server).await, Value::Null);
}

/// Waits until the process has ended.
async fn gone_or_ended(server: &StdioTransport) {
    let mut life = server.process.life();
    tokio::time::timeout(LIMIT, life.wait_for(Life::has_ended)).await.unwrap().unwrap();
}

#[tokio::test]
async fn message_of_a_dropped_send_is_written_completely() {
    // The server reads nothing until the file `go` exists, so that the pipe is full in the middle of a line.
    let dir = tempfile::tempdir().unwrap();
    let go = dir.path().join("go");
    let script = format!("while ! [ -e {} ]; do sleep 0.05; done; cat", go.display());
    let mut server = server_with(&script, 1_000_000);
    let long: String = "x".repeat(300_000);
    let message = json!({"jsonrpc": "2.0", "method": "notifications/progress", "params": {"progressToken": long, "progress": 1}});
    let message: TxJsonRpcMessage<RoleClient> = serde_json::from_value(message).unwrap();
    assert!(tokio::time::timeout(Duration::from_millis(50), server.send(message)).await.is_err());
    std::fs::write(go, "").unwrap();
    let sent = server.send(ping(7));
    assert!(next(&mut server).await["params"]["progressToken"] == long, "the line is torn");
    assert_eq!(next(&mut server).await["method"], "ping");
    sent.await.unwrap();
}

#[tokio::test]
async fn queue_to_a_server_that_does_not_read_is_bounded() {
    let mut server = server("sleep 1000");
    let long = "x".repeat(8 * 1024 * 1024);
    let message = json!({"jsonrpc": "2.0", "method": "notifications/progress", "params": {"progressToken": long, "progress": 1}});
    let message: TxJsonRpcMessage<RoleClient> = serde_json::from_value(message).unwrap();
    let mut waiting = Vec::new();
    for _ in 0..7 {
        waiting.push(server.send(message.clone()));
    }
    let error = server.send(message.clone()).await.unwrap_err().to_string();
    assert!(error.starts_with("the server does not read its input: 587"), "{error}");
    let ended = Instant::now();
    server.close().await.unwrap();
    assert!(ended.elapsed() < Duration::from_secs(30));
    for send in waiting {
        assert!(send.await.is_err());
    }
    assert!(server.send(ping(1)).await.is_err());
}

#[tokio::test]
async fn queue_of_many_small_messages_is_bounded() {
    let mut server = server("sleep 1000");
    // Each message is queued before its future is dropped.
    let waiting = (0..100_000).take_while(|id| server.send(ping(*id)).now_or_never().is_none());
    let waiting = waiting.count();
    assert!((1_000..20_000).contains(&waiting), "{waiting}");
}

#[tokio::test]
async fn send_fails_if_the_server_closed_its_input() {
    let mut server = server(&format!("exec <&-; {}; sleep 1000", say("closed")));
    ids(&mut server).await;
    let error = server.send(ping(1)).await.unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::BrokenPipe);
}

#[tokio::test]
async fn standard_error_is_read_and_its_last_lines_are_kept() {
    // Without reading, the pipe would be full after 64 KiB.
    let script = "i=0; while [ $i -lt 3000 ]; do echo \"line $i of many, long enough to fill the pipe\" >&2; i=$((i+1)); done; \
                  head -c 10000 /dev/zero | tr '\\0' x >&2; exit 1";
    let mut server = server(script);
    assert_eq!(next(&mut server).await, Value::Null);
    let report = server.exit_report().describe_within(LIMIT).await.unwrap();
    assert!(
        report.starts_with(
            "the server ended with exit status 1; last lines of its stderr: line 2981 of many"
        ),
        "{report}"
    );
    assert!(report.len() < 6000 && report.ends_with("xxx…"), "{}", report.len());
    assert_eq!(server.exit_report().stderr_tail().lines().count(), 20);
}
