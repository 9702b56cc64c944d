//! Tests the benchmark `many_agents` with few agents. All clients must send the same requests, and no process may be
//! left.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use neuron_benches::agents::{
    Case, Client, Clients, Measured, Run, check_open_files, script, usage,
};
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
    let _guard = crate::run_alone();
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
    let _guard = crate::run_alone();
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
    let _guard = crate::run_alone();
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
    let _guard = crate::run_alone();
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
    let _guard = crate::run_alone();
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

#[test]
fn what_is_written_is_read() {
    let _guard = crate::run_alone();
    let measured = Measured {
        runs_a_second: 1.5,
        cpu_ms: 0.25,
        peak_bytes: 3.0,
        heap_bytes: -4.0,
        allocations: 5e9,
    };
    assert_eq!(Measured::read(&measured.write()), Some(measured));
    assert_eq!(Measured::read("1 2 3 4"), None);
}

#[test]
fn a_limit_that_is_too_low_is_told_with_what_to_raise() {
    let _guard = crate::run_alone();
    assert!(check_open_files(1).is_ok());
    let most = usage::most_open_files().unwrap();
    if most < usize::MAX - 100 {
        let error = check_open_files(most).unwrap_err().to_string();
        assert!(error.contains(&format!("nofile={}", most + 100)), "{error}");
    }
}

#[test]
fn reads_what_the_kernel_writes() {
    let _guard = crate::run_alone();
    let mut memory = vec![0_u8; 64 << 20];
    memory.fill(1);
    let begin = Instant::now();
    while usage::cpu_time().unwrap() < Duration::from_millis(20) {
        assert!(begin.elapsed() < Duration::from_secs(60), "no time passes");
        std::hint::black_box(&mut memory).sort_unstable();
    }
    assert!(usage::peak_memory().unwrap() > memory.len());
    assert!(usage::most_open_files().unwrap() > 0);
}
