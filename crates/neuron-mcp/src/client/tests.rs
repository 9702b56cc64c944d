//! Tests of lost and restored connections.

use std::fmt::Debug;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use neuron_types::{McpError, ToolContext};
use rmcp::service::RoleClient;
use rmcp::transport::async_rw::AsyncRwTransport;
use serde_json::{Value, json};
use tokio::io::{DuplexStream, ReadHalf, WriteHalf};
use tokio::sync::mpsc;

use self::script::{Script, said, text};
use super::McpClient;
use super::connection::{Connector, Opened};
use super::handlers::Handlers;
use super::settings::{Settings, Shared};
use crate::route::Route;
use crate::{LogLevel, McpCancelled, McpEvent, McpRoot};

#[path = "../../tests/it/script.rs"]
#[expect(dead_code, reason = "some functions are used only by the integration tests")]
mod script;

/// Maximum duration of a test step. Long enough for a slow machine.
const LIMIT: Duration = Duration::from_secs(60);

/// A connector that connects the client to a new scripted server each time. The test receives each server through the
/// channel `servers`.
struct Doors {
    servers: mpsc::UnboundedSender<Script>,
    state: Arc<State>,
}

#[derive(Default)]
struct State {
    /// Number of connection attempts.
    opened: AtomicUsize,
    /// Set to `true` by a test to make all further connection attempts fail.
    shut: AtomicBool,
}

impl Connector for Doors {
    type Transport = AsyncRwTransport<RoleClient, ReadHalf<DuplexStream>, WriteHalf<DuplexStream>>;

    fn name(&self) -> &str {
        "the door"
    }

    async fn open(&self) -> Result<Opened<Self::Transport>, McpError> {
        self.state.opened.fetch_add(1, Ordering::SeqCst);
        if self.state.shut.load(Ordering::SeqCst) {
            tokio::time::sleep(Duration::from_secs(1)).await;
            return Err(McpError::Connection("the door is shut".to_owned()));
        }
        let (server, reader, writer) = Script::new();
        self.servers.send(server).unwrap();
        let transport = AsyncRwTransport::new(reader, writer);
        Ok(Opened { transport, route: Route::default(), exit_report: None })
    }
}

/// The client under test, with the scripted server of its first connection and a channel with the servers of later
/// connections.
struct Street {
    client: McpClient,
    server: Script,
    /// Receives the scripted server of each connection after the first.
    servers: mpsc::UnboundedReceiver<Script>,
    state: Arc<State>,
}

/// Connects a client with these settings and one root to a scripted server of version 2025-11-25.
async fn street(settings: Settings) -> Street {
    let (sender, mut servers) = mpsc::unbounded_channel();
    let state = Arc::new(State::default());
    let doors = Doors { servers: sender, state: Arc::clone(&state) };
    let mut handlers = Handlers::default();
    handlers.declare_roots(vec![McpRoot::new("file:///work")]);
    let shared = Shared::new(settings, handlers, None);
    let serving = next(&mut servers);
    let (client, server) = tokio::join!(McpClient::connect(doors, shared), serving);
    Street { client: client.unwrap(), server, servers, state }
}

/// Waits for the server of the next connection, and completes its handshake with the client.
async fn next(servers: &mut mpsc::UnboundedReceiver<Script>) -> Script {
    let mut server = servers.recv().await.unwrap();
    server.shake_hands("2025-11-25", json!({ "tools": {}, "logging": {} })).await;
    server
}

/// Waits for a request of this method, and responds with `result`. Returns the request.
async fn answer(server: &mut Script, method: &str, result: Value) -> Value {
    let request = server.expect(method).await;
    server.reply(&request, result).await;
    request
}

/// Drops the server, and waits until the client notices the loss of the connection.
async fn lose(client: &McpClient, server: Script) {
    drop(server);
    client.current().watch.ended().await;
    assert!(client.is_closed());
}

#[tokio::test]
async fn reconnecting_restores_log_level_and_subscriptions() {
    let Street { client, mut server, mut servers, .. } = street(Settings::default()).await;
    let wishing = async {
        client.set_log_level(LogLevel::Error).await.unwrap();
        client.subscribe("file:///a").await.unwrap();
    };
    let serving = async {
        answer(&mut server, "logging/setLevel", json!({})).await;
        answer(&mut server, "resources/subscribe", json!({})).await;
    };
    tokio::join!(wishing, serving);
    let mut events = client.events();
    lose(&client, server).await;

    let serving = async {
        let mut server = next(&mut servers).await;
        let request = answer(&mut server, "logging/setLevel", json!({})).await;
        assert_eq!(request["params"]["level"], "error");
        let request = answer(&mut server, "resources/subscribe", json!({})).await;
        assert_eq!(request["params"]["uri"], "file:///a");
        answer(&mut server, "tools/call", said("hello again")).await;
        server.ask("q1", "roots/list", json!({})).await;
        let roots = server.next().await.unwrap();
        assert_eq!(roots["result"]["roots"][0]["uri"], "file:///work");
        server
    };
    let (output, server) = tokio::join!(client.call_tool_json("greet", Value::Null), serving);
    assert_eq!(text(&output.unwrap()), "hello again");
    assert!(!client.is_closed());
    assert_eq!(events.next().await, Some(McpEvent::Disconnected));
    assert_eq!(events.next().await, Some(McpEvent::Reconnected));
    assert_eq!(events.next().await, Some(McpEvent::ToolsChanged));
    drop(server);
}

#[tokio::test(start_paused = true)]
async fn restored_connection_is_usable_before_subscriptions_are_confirmed() {
    const MANY: usize = 20;
    let settings = Settings { connect_timeout: Duration::from_secs(3), ..Settings::default() };
    let Street { client, mut server, mut servers, .. } = street(settings).await;
    let uris: Vec<_> = (0..MANY).map(|n| format!("file:///{n:02}")).collect();
    let wishing = async {
        client.set_log_level(LogLevel::Error).await.unwrap();
        for uri in &uris {
            client.subscribe(uri).await.unwrap();
        }
    };
    let serving = async {
        answer(&mut server, "logging/setLevel", json!({})).await;
        for _ in 0..MANY {
            answer(&mut server, "resources/subscribe", json!({})).await;
        }
    };
    tokio::join!(wishing, serving);
    lose(&client, server).await;

    let serving = async {
        let mut server = next(&mut servers).await;
        let mut asked = Vec::new();
        let ping = loop {
            let message = server.next().await.unwrap();
            if message["method"] == "ping" {
                break message;
            }
            asked.push(message);
        };
        server.reply(&ping, json!({})).await;
        (server, asked)
    };
    let (alive, (mut server, mut asked)) = tokio::join!(client.ping(), serving);
    alive.unwrap();
    // The server responds late. Only then does the client send the remaining subscriptions.
    let mut told = Vec::new();
    while told.len() < MANY {
        let request = match asked.pop() {
            Some(request) => request,
            None => server.next().await.unwrap(),
        };
        server.reply(&request, json!({})).await;
        if request["method"] == "resources/subscribe" {
            told.push(request["params"]["uri"].as_str().unwrap().to_owned());
        }
    }
    told.sort_unstable();
    assert_eq!(told, uris);
}

#[tokio::test]
async fn subscription_refused_after_reconnect_can_be_requested_again() {
    let Street { client, mut server, mut servers, .. } = street(Settings::default()).await;
    let serving = answer(&mut server, "resources/subscribe", json!({}));
    let (done, _) = tokio::join!(client.subscribe("file:///a"), serving);
    done.unwrap();
    lose(&client, server).await;
    let serving = async {
        let mut server = next(&mut servers).await;
        let request = server.expect("resources/subscribe").await;
        server.refuse(&request, -32602, "not now").await;
        answer(&mut server, "resources/subscribe", json!({})).await;
        server
    };
    let (done, _server) = tokio::join!(client.subscribe("file:///a"), serving);
    done.unwrap();
    client.subscribe("file:///a").await.unwrap();
}

#[tokio::test]
async fn pending_call_is_not_retried_after_connection_loss() {
    let Street { client, mut server, mut servers, .. } = street(Settings::default()).await;
    let serving = async {
        server.expect("tools/call").await;
        drop(server);
    };
    let (output, ()) = tokio::join!(client.call_tool_json("pay", Value::Null), serving);
    assert!(matches!(output.unwrap_err(), McpError::Transport(_)));
    let serving = async {
        let mut server = next(&mut servers).await;
        answer(&mut server, "ping", json!({})).await;
    };
    let (alive, ()) = tokio::join!(client.ping(), serving);
    alive.unwrap();
}

#[tokio::test]
async fn concurrent_requests_share_one_reconnect() {
    let Street { client, server, mut servers, state } = street(Settings::default()).await;
    lose(&client, server).await;
    let asking = futures_util::future::join_all((0..10).map(|_| client.list_tools(None)));
    let serving = async {
        let mut server = next(&mut servers).await;
        for _ in 0..10 {
            answer(&mut server, "tools/list", json!({ "tools": [] })).await;
        }
        server
    };
    let (lists, _server) = tokio::join!(asking, serving);
    assert!(lists.into_iter().all(|list| list.is_ok()));
    assert_eq!(state.opened.load(Ordering::SeqCst), 2);
}

#[tokio::test(start_paused = true)]
async fn failed_reconnect_is_shared_and_the_next_request_retries() {
    let Street { client, server, mut servers, state } = street(Settings::default()).await;
    lose(&client, server).await;
    state.shut.store(true, Ordering::SeqCst);
    let before = state.opened.load(Ordering::SeqCst);
    let lists = futures_util::future::join_all((0..10).map(|_| client.list_tools(None))).await;
    for list in lists {
        let error = list.unwrap_err();
        assert!(matches!(&error, McpError::Connection(text) if text.contains("shut")), "{error}");
    }
    assert_eq!(state.opened.load(Ordering::SeqCst), before + 1);
    state.shut.store(false, Ordering::SeqCst);
    let serving = async {
        let mut server = next(&mut servers).await;
        answer(&mut server, "ping", json!({})).await;
    };
    let (alive, ()) = tokio::join!(client.ping(), serving);
    alive.unwrap();
}

#[tokio::test]
async fn lost_connection_is_not_restored_without_reconnecting() {
    let settings = Settings { reconnect: false, ..Settings::default() };
    let Street { client, server, state, .. } = street(settings).await;
    lose(&client, server).await;
    let before = state.opened.load(Ordering::SeqCst);
    assert!(matches!(client.ping().await.unwrap_err(), McpError::Transport(_)));
    assert_eq!(state.opened.load(Ordering::SeqCst), before);
}

#[tokio::test]
async fn disconnected_event_is_sent_once_and_without_a_request() {
    let settings = Settings { reconnect: false, ..Settings::default() };
    let Street { client, server, .. } = street(settings).await;
    let mut events = client.events();
    drop(server);
    assert_eq!(events.next().await, Some(McpEvent::Disconnected));
    client.ping().await.unwrap_err();
    client.close().await;
    assert_eq!(events.next().await, None);
}

#[tokio::test]
async fn close_and_drop_send_no_disconnected_event() {
    let Street { client, server, .. } = street(Settings::default()).await;
    let mut events = client.events();
    client.close().await;
    assert_eq!(events.next().await, None);
    drop((client, server));

    let Street { client, server, .. } = street(Settings::default()).await;
    let mut events = client.events();
    drop(client);
    assert_eq!(events.next().await, None);
    drop(server);
}

#[tokio::test]
async fn server_that_ends_on_discover_is_retried_with_a_handshake() {
    let (sender, mut servers) = mpsc::unbounded_channel();
    let doors = Doors { servers: sender, state: Arc::default() };
    let shared = Shared::new(Settings::default(), Handlers::default(), None);
    let serving = async {
        let mut first = servers.recv().await.unwrap();
        first.expect("server/discover").await;
        drop(first);
        let mut second = servers.recv().await.unwrap();
        let hello = second.expect("initialize").await;
        assert_eq!(hello["params"]["protocolVersion"], "2025-11-25");
        second.welcome(&hello, "2024-11-05", json!({})).await;
    };
    let (client, ()) = tokio::join!(McpClient::connect(doors, shared), serving);
    assert_eq!(client.unwrap().version(), crate::McpVersion::V2024_11_05);
}

#[tokio::test]
async fn server_with_only_older_versions_gets_a_handshake() {
    let (sender, mut servers) = mpsc::unbounded_channel();
    let doors = Doors { servers: sender, state: Arc::default() };
    let shared = Shared::new(Settings::default(), Handlers::default(), None);
    let serving = async {
        let mut first = servers.recv().await.unwrap();
        let request = first.expect("server/discover").await;
        let error = json!({
            "code": -32022,
            "message": "another version",
            "data": { "supported": ["2025-06-18"], "requested": "2026-07-28" },
        });
        first.send(json!({ "jsonrpc": "2.0", "id": request["id"], "error": error })).await;
        let mut second = servers.recv().await.unwrap();
        let hello = second.expect("initialize").await;
        second.welcome(&hello, "2025-06-18", json!({})).await;
    };
    let (client, ()) = tokio::join!(McpClient::connect(doors, shared), serving);
    assert_eq!(client.unwrap().version(), crate::McpVersion::V2025_06_18);
}

#[tokio::test]
async fn close_ends_a_running_reconnect() {
    let Street { client, server, mut servers, .. } = street(Settings::default()).await;
    lose(&client, server).await;
    let closing = async {
        // The attempt has started, and the server does not respond.
        let _server = servers.recv().await.unwrap();
        client.close().await;
    };
    let (alive, ()) = tokio::join!(client.ping(), closing);
    let error = alive.unwrap_err();
    assert!(matches!(&error, McpError::Transport(text) if text.contains("closed")), "{error}");
    assert!(client.is_closed());
}

/// Polls a call until the call has started to restore the connection. Returns the server of the new connection.
async fn begin<T: Debug>(
    mut call: Pin<&mut impl Future<Output = T>>,
    servers: &mut mpsc::UnboundedReceiver<Script>,
) -> Script {
    tokio::select! {
        biased;
        done = &mut call => panic!("{done:?}"),
        server = servers.recv() => server.unwrap(),
    }
}

#[tokio::test]
async fn close_does_not_wait_for_an_unpolled_call() {
    let Street { client, server, mut servers, .. } = street(Settings::default()).await;
    lose(&client, server).await;
    let mut call = pin!(client.call_tool_json("greet", Value::Null));
    let _server = begin(call.as_mut(), &mut servers).await;
    tokio::time::timeout(LIMIT, client.close()).await.expect("close hangs");
    assert!(matches!(call.await.unwrap_err(), McpError::Transport(_)));
}

#[tokio::test]
async fn other_requests_do_not_wait_for_an_unpolled_call() {
    let Street { client, server, mut servers, .. } = street(Settings::default()).await;
    lose(&client, server).await;
    let mut call = pin!(client.call_tool_json("greet", Value::Null));
    let mut server = begin(call.as_mut(), &mut servers).await;
    let serving = async {
        server.shake_hands("2025-11-25", json!({ "tools": {} })).await;
        answer(&mut server, "ping", json!({})).await;
    };
    let (alive, ()) = tokio::time::timeout(LIMIT, async { tokio::join!(client.ping(), serving) })
        .await
        .expect("the request hangs");
    alive.unwrap();
    let serving = answer(&mut server, "tools/call", said("hello"));
    let (output, _) = tokio::join!(call, serving);
    assert_eq!(text(&output.unwrap()), "hello");
}

#[tokio::test]
async fn dropping_the_client_ends_a_running_reconnect() {
    let Street { client, server, mut servers, .. } = street(Settings::default()).await;
    lose(&client, server).await;
    let mut server = {
        let mut call = pin!(client.call_tool_json("greet", Value::Null));
        begin(call.as_mut(), &mut servers).await
    };
    drop(client);
    // The client may have sent messages before the drop. The connection must then end.
    while server.next().await.is_some() {}
}

// The cancellation was sent over the connection on which the task was created.
#[tokio::test]
async fn task_is_cancelled_over_a_new_connection() {
    let (sender, mut servers) = mpsc::unbounded_channel();
    let doors = Doors { servers: sender, state: Arc::default() };
    let shared = Shared::new(Settings::default(), Handlers::default(), None);
    let capabilities =
        json!({ "tools": {}, "extensions": { "io.modelcontextprotocol/tasks": {} } });
    let connecting = McpClient::connect(doors, shared);
    let serving = async {
        let mut server = servers.recv().await.unwrap();
        server.tell_versions(capabilities.clone()).await;
        server
    };
    let (client, mut server) = tokio::join!(connecting, serving);
    let client = client.unwrap();
    {
        let mut call = pin!(client.call_tool_json("work", Value::Null));
        let created = json!({
            "resultType": "task", "taskId": "t1", "status": "working", "ttlMs": null,
            "createdAt": "2026-07-28T10:00:00Z", "lastUpdatedAt": "2026-07-28T10:00:00Z",
            "pollIntervalMs": 100,
        });
        let serving = async {
            answer(&mut server, "tools/call", created).await;
            server.expect("tasks/get").await;
        };
        tokio::select! {
            _ = &mut call => panic!("the task has not ended"),
            () = serving => {}
        }
        lose(&client, server).await;
    }
    let connected = tokio::time::timeout(Duration::from_secs(10), servers.recv()).await;
    let mut server = connected.expect("a new connection").unwrap();
    server.tell_versions(capabilities).await;
    let cancel = answer(&mut server, "tasks/cancel", json!({})).await;
    assert_eq!(cancel["params"]["taskId"], "t1");
}

#[tokio::test]
async fn call_is_cancelled_during_a_reconnect() {
    let Street { client, server, mut servers, .. } = street(Settings::default()).await;
    lose(&client, server).await;
    let ctx = ToolContext::default();
    let cancelling = async {
        let _server = servers.recv().await.unwrap();
        ctx.cancellation_token.cancel();
    };
    let (output, ()) = tokio::join!(client.call_tool_in("greet", Value::Null, &ctx), cancelling);
    let McpError::Other(error) = output.unwrap_err() else { panic!("another error") };
    assert!(error.is::<McpCancelled>());
}
