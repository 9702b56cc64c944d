//! Tests of connections that are lost and restored.

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
#[expect(dead_code, reason = "what only the other tests need")]
mod script;

/// Maximum duration of a test step on a busy machine.
const LIMIT: Duration = Duration::from_secs(60);

/// A connector that opens a connection to a new scripted server each time, and sends the server to the test.
struct Doors {
    servers: mpsc::UnboundedSender<Script>,
    state: Arc<State>,
}

#[derive(Default)]
struct State {
    opened: AtomicUsize,
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

struct Street {
    client: McpClient,
    server: Script,
    servers: mpsc::UnboundedReceiver<Script>,
    state: Arc<State>,
}

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

/// Returns the next server after its handshake with the client.
async fn next(servers: &mut mpsc::UnboundedReceiver<Script>) -> Script {
    let mut server = servers.recv().await.unwrap();
    server.shake_hands("2025-11-25", json!({ "tools": {}, "logging": {} })).await;
    server
}

async fn answer(server: &mut Script, method: &str, result: Value) -> Value {
    let request = server.expect(method).await;
    server.reply(&request, result).await;
    request
}

/// Closes the connection, and waits until the client notices it.
async fn lose(client: &McpClient, server: Script) {
    drop(server);
    client.current().watch.ended().await;
    assert!(client.is_closed());
}

#[tokio::test]
async fn the_next_request_makes_the_connection_anew_with_all_that_was_wished() {
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
async fn a_new_server_that_does_not_confirm_wishes_can_be_used() {
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
    // The server responds late, and then gets the remaining subscriptions.
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
async fn a_subscription_that_a_new_server_refused_is_asked_for_again() {
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
async fn a_call_on_its_way_is_not_repeated() {
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
async fn requests_share_an_attempt() {
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
async fn requests_share_an_attempt_that_fails_and_later_ones_try_again() {
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
async fn without_reconnecting_a_lost_connection_stays_lost() {
    let settings = Settings { reconnect: false, ..Settings::default() };
    let Street { client, server, state, .. } = street(settings).await;
    lose(&client, server).await;
    let before = state.opened.load(Ordering::SeqCst);
    assert!(matches!(client.ping().await.unwrap_err(), McpError::Transport(_)));
    assert_eq!(state.opened.load(Ordering::SeqCst), before);
}

#[tokio::test]
async fn a_loss_is_told_once_and_without_a_request() {
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
async fn what_ends_on_purpose_is_not_lost() {
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
async fn a_server_that_dies_of_a_question_it_does_not_know_is_started_anew() {
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
async fn a_server_that_discovers_only_older_versions_gets_a_handshake() {
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
async fn closing_ends_an_attempt() {
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

/// Starts a call that restores the connection, and stops polling it once the new server is reached.
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
async fn closing_does_not_wait_for_a_call_that_nobody_polls() {
    let Street { client, server, mut servers, .. } = street(Settings::default()).await;
    lose(&client, server).await;
    let mut call = pin!(client.call_tool_json("greet", Value::Null));
    let _server = begin(call.as_mut(), &mut servers).await;
    tokio::time::timeout(LIMIT, client.close()).await.expect("it closes");
    assert!(matches!(call.await.unwrap_err(), McpError::Transport(_)));
}

#[tokio::test]
async fn other_requests_do_not_wait_for_a_call_that_nobody_polls() {
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
        .expect("a request goes on");
    alive.unwrap();
    let serving = answer(&mut server, "tools/call", said("hello"));
    let (output, _) = tokio::join!(call, serving);
    assert_eq!(text(&output.unwrap()), "hello");
}

#[tokio::test]
async fn a_client_that_is_dropped_ends_an_attempt() {
    let Street { client, server, mut servers, .. } = street(Settings::default()).await;
    lose(&client, server).await;
    let mut server = {
        let mut call = pin!(client.call_tool_json("greet", Value::Null));
        begin(call.as_mut(), &mut servers).await
    };
    drop(client);
    // The client may have sent messages before it was dropped.
    while server.next().await.is_some() {}
}

#[tokio::test]
async fn a_call_is_cancelled_while_the_connection_is_made_anew() {
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
