//! Tests of activities whose worker cannot confirm with the server that it still holds them.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use neuron_tool::ToolRegistry;
use neuron_types::{ToolEffect, ToolOutput};
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};

use crate::host::{Agent, Does, Model, TestContext, call, done, options, text};

/// Starts a proxy between a worker and the server, and returns its address. While `held` is `true`, the proxy holds
/// back the server's responses.
async fn proxy(server: String, held: watch::Receiver<bool>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    tokio::spawn(async move {
        while let Ok((client, _)) = listener.accept().await {
            let server = TcpStream::connect(&server).await.unwrap();
            tokio::spawn(forward(client, server, held.clone()));
        }
    });
    address
}

async fn forward(
    client: TcpStream,
    server: TcpStream,
    mut held: watch::Receiver<bool>,
) -> std::io::Result<()> {
    let (mut from_client, mut to_client) = client.into_split();
    let (mut from_server, mut to_server) = server.into_split();
    let requests = async { tokio::io::copy(&mut from_client, &mut to_server).await.map(|_| ()) };
    let responses = async {
        let mut buffer = vec![0; 1 << 16];
        loop {
            let length = from_server.read(&mut buffer).await?;
            if length == 0 || held.wait_for(|held| !held).await.is_err() {
                return to_client.shutdown().await;
            }
            to_client.write_all(&buffer[..length]).await?;
        }
    };
    tokio::try_join!(requests, responses).map(|_| ())
}

static BEGUN: [AtomicUsize; 2] = [AtomicUsize::new(0), AtomicUsize::new(0)];
static BEGINS: LazyLock<Semaphore> = LazyLock::new(|| Semaphore::new(0));
static DROPPED: LazyLock<Semaphore> = LazyLock::new(|| Semaphore::new(0));

struct Dropped;

impl Drop for Dropped {
    fn drop(&mut self) {
        DROPPED.add_permits(1);
    }
}

/// Returns the tools `settle`, which may run twice, and `wire`, which must not. The first call of each tool never ends.
fn tools() -> ToolRegistry {
    let mut tools = ToolRegistry::new();
    for (number, (name, effect)) in
        [("settle", ToolEffect::Idempotent), ("wire", ToolEffect::AtMostOnce)]
            .into_iter()
            .enumerate()
    {
        tools.register_dyn(Does::new(name, effect, move |_, _| async move {
            if BEGUN[number].fetch_add(1, Ordering::SeqCst) == 0 {
                let _dropped = Dropped;
                BEGINS.add_permits(1);
                std::future::pending::<()>().await;
            }
            Ok(ToolOutput::text("settled"))
        }));
    }
    tools
}

#[tokio::test(flavor = "multi_thread")]
async fn activity_without_a_proven_lease_runs_again_or_is_unknown() {
    let options = options();
    let Some(mut bench) = TestContext::new("unproven", &options).await else { return };
    let (hold, held) = watch::channel(false);
    bench.address = proxy(bench.address.clone(), held).await;
    let model = Model::script(vec![
        vec![call("s", "settle", json!({})), call("w", "wire", json!({}))],
        vec![text("done")],
    ]);
    let _worker = bench.serve_with(model, Arc::new(tools()), Agent::new(tools), &options);
    let run = bench.runs.start(&bench.queue, "go").await.unwrap();
    let within = |semaphore: &'static Semaphore| {
        tokio::time::timeout(Duration::from_secs(30), semaphore.acquire_many(2))
    };
    within(&BEGINS).await.unwrap().unwrap().forget();
    hold.send(true).unwrap();
    within(&DROPPED).await.expect("the calls end").unwrap().forget();
    hold.send(false).unwrap();
    let result = done(&run).await;
    assert_eq!(result.response, "done");
    let told = serde_json::to_string(&result.messages).unwrap();
    assert!(told.contains("settled") && told.contains("is unknown"), "{told}");
    assert_eq!(BEGUN.each_ref().map(|begun| begun.load(Ordering::SeqCst)), [2, 1]);
}
