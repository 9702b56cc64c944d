//! Tests the benchmark `many_agents` with few agents. All clients must send the same requests, and no process may be
//! left.
#![cfg(target_os = "linux")]

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

use neuron_benches::agents::{Case, Client, Clients, Run, script};
use neuron_testing::AnthropicServer;
use tokio::runtime::{Builder, Runtime};
use tokio::task::JoinSet;

const AGENTS: usize = 20;

fn program() -> &'static Path {
    Path::new(env!("CARGO_BIN_EXE_many_agents_part"))
}

fn runtime() -> Runtime {
    Builder::new_current_thread().enable_all().build().unwrap()
}

/// Returns `true` if the process exists. A zombie also exists.
fn is_there(id: u32) -> bool {
    Path::new(&format!("/proc/{id}")).exists()
}

#[test]
fn every_case_is_measured_and_leaves_no_process() {
    for case in Case::ALL {
        let (ids, measured) = runtime().block_on(async {
            let run = Run::start(program(), case, AGENTS).unwrap();
            (run.ids(), run.finish().await.unwrap())
        });
        println!("{}: {measured:?}", case.name());
        assert_eq!(ids.map(is_there), [false, false], "{}", case.name());
        assert!(measured.runs_a_second > 0.0);
        assert!(measured.cpu_ms >= 0.0);
        assert!(measured.peak_bytes > 0.0);
        // A waiting client has at least the buffer of its connection on the heap.
        assert!(measured.heap_bytes > 8.0 * 1024.0);
        assert!(measured.allocations > 20.0);
    }
}

#[test]
fn cancelled_measurement_leaves_no_process() {
    runtime().block_on(async {
        let run = Run::start(program(), Case::ALL[0], AGENTS).unwrap();
        let ids = run.ids();
        assert_eq!(ids.map(is_there), [true, true]);
        drop(run);
        assert_eq!(ids.map(is_there), [false, false]);

        let run = Run::start(program(), Case::ALL[0], AGENTS).unwrap();
        let ids = run.ids();
        let finish = tokio::spawn(run.finish());
        tokio::task::yield_now().await;
        finish.abort();
        assert!(finish.await.unwrap_err().is_cancelled());
        assert_eq!(ids.map(is_there), [false, false]);
    });
}

#[test]
fn server_ends_if_its_input_is_closed() {
    let mut server = Command::new(program())
        .args(["serve", "1"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    let mut told = BufReader::new(server.stdout.take().unwrap());
    told.read_line(&mut line).unwrap();
    assert!(line.starts_with("http://127.0.0.1:"), "{line}");
    // The input is also closed if the parent process exits for any reason.
    drop(server.stdin.take());
    assert!(server.wait().unwrap().success());
}

#[test]
fn client_without_a_server_fails() {
    let ended = Command::new(program())
        .args(["ask", "agent, whole", "1"])
        .stdin(Stdio::null())
        .output()
        .unwrap();
    assert!(!ended.status.success());
    assert!(String::from_utf8_lossy(&ended.stderr).contains("there is no server"));
}

/// Checks that all clients send the same requests, so that their costs are comparable.
#[test]
fn all_clients_send_the_same_requests() {
    let asked = |case: Case| {
        runtime().block_on(async {
            let server = AnthropicServer::start(script(1, 0)).await.unwrap();
            let mut running = JoinSet::new();
            Clients::new(case, &server.url()).unwrap().start(&mut running);
            running.join_next().await.unwrap().unwrap().unwrap();
            server.assert_complete();
            server.requests().into_iter().map(|request| request.body).collect::<Vec<_>>()
        })
    };
    for streamed in [false, true] {
        let cases = Case::ALL.into_iter().filter(|case| case.streamed == streamed);
        let bodies: Vec<_> = cases.map(|case| (case, asked(case))).collect();
        assert_eq!(bodies.len(), 3);
        assert_eq!(bodies[0].0.client, Client::Bare);
        for (case, body) in &bodies {
            assert_eq!(body.len(), 2);
            assert_eq!(body, &bodies[0].1, "{}", case.name());
        }
    }
}
