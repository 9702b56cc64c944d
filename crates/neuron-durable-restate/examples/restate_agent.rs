//! Kills a service that hosts an agent on Restate during a run. The run continues after a restart.
//!
//! The program starts a real Restate server, and a child process that hosts the agent as a service. The program then
//! calls the agent, kills the service with SIGKILL while tools run, and starts the service again. A line that begins
//! with a process id reports an effect that this process has really executed, and not a replayed step. The program ends
//! by itself after a few seconds.
//!
//! ```text
//! cargo run -p neuron-durable-restate --example restate_agent
//! ```

mod travel;

use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use neuron_durable_restate::restate_sdk::context::RequestTarget;
use neuron_durable_restate::restate_sdk::ingress::Client;
use neuron_durable_restate::restate_sdk::serde::Json;
use neuron_durable_restate::{AgentService, PlainHttp, RunOutcome};
use neuron_testkit::engines::RestateServer;
use neuron_types::MainError;
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use travel::{Begun, Hosted, Model, agent, end_with_the_watcher, tools};

type Result<T, E = Box<dyn Error>> = std::result::Result<T, E>;

/// Environment variable with the port of the service. If the variable is set, this program runs as the service.
const SERVICE: &str = "RESTATE_AGENT_PORT";

#[tokio::main]
async fn main() -> Result<(), MainError> {
    match std::env::var(SERVICE) {
        Ok(port) => serve(port.parse()?).await?,
        Err(_) => watch().await?,
    }
    Ok(())
}

// ------------------------------------------------------------------ the service, as in a real program

async fn serve(port: u16) -> Result<()> {
    end_with_the_watcher();
    let listener = loop {
        match TcpListener::bind(("127.0.0.1", port)).await {
            Ok(listener) => break listener,
            // The previous process has not released the port yet.
            Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
        }
    };
    let service = AgentService::new("travel", Arc::new(Model), Arc::new(tools()), agent);
    service.serve(listener, tokio::signal::ctrl_c()).await?;
    Ok(())
}

// ------------------------------------------------------------------ the parent process

async fn watch() -> Result<()> {
    let Some(server) = RestateServer::or_skip() else { return Ok(()) };
    println!("Restate runs, and keeps a journal of each run.");
    let port = TcpListener::bind("127.0.0.1:0").await?.local_addr()?.port();
    let (lines, mut seen) = mpsc::unbounded_channel();
    let hosted = port.to_string();
    let mut service = Hosted::start((SERVICE, &hosted), lines.clone())?;
    while server.register(&format!("http://127.0.0.1:{port}")).await.is_err() {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }

    let client = Client::new(server.ingress_url().parse()?, PlainHttp)?;
    let target = RequestTarget::service("travel", "run");
    let question = Json("Book me a train to Lyon.".to_owned());
    let run = client.request::<_, Json<RunOutcome>>(target, question).send().await?;
    let run = run.invocation_handle();
    println!("The run has begun: {:?}\n", run.invocation_id());

    let mut begun = Begun::default();
    let mut is_killed = false;
    let answer = run.attach();
    let mut answer = std::pin::pin!(answer);
    let outcome = loop {
        let line = tokio::select! {
            answer = &mut answer => break answer?.into_body().into_inner(),
            line = seen.recv() => line.unwrap_or_default(),
        };
        println!("  {line}");
        let what = begun.count(&line);
        // `pay` has ended, and `reserve_seat` is still running.
        if what == "pay ends" && !is_killed {
            is_killed = true;
            tokio::time::sleep(Duration::from_millis(300)).await;
            println!("\nThe service is killed with SIGKILL, and started again.\n");
            service.kill()?;
            service = Hosted::start((SERVICE, &hosted), lines.clone())?;
        }
    };
    let result = outcome.into_result()?;
    println!("\nThe answer: {}", result.response);
    println!(
        "{} calls of the model, {} tokens.\n",
        result.turns,
        result.usage.input_tokens + result.usage.output_tokens
    );
    begun.print();
    service.kill()?;
    Ok(())
}
