//! The code of the two child processes of a measurement, the server process and the client process.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::pin::pin;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use futures_util::future::{Either, select};
use neuron_testing::AnthropicServer;
use stats_alloc::Stats;
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::clients::{Case, Clients, Failure, script};
use super::run::Measured;
use super::usage;
use crate::ALLOCATOR;

/// Maximum number of started clients whose first request the server has not received yet. More connections would
/// overflow the kernel's accept queue and be delayed for seconds.
const AHEAD: usize = 1_000;

/// Number of requests between two reports. The server process reports how many requests it has received.
const STEP: usize = 250;

/// Runs the server process or the client process, as the program's arguments say.
#[must_use]
pub fn play() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let played = runtime.map_err(Failure::from).and_then(|runtime| match args[..] {
        ["serve", agents] => runtime.block_on(serve(agents.parse()?)),
        ["ask", case, agents] => runtime.block_on(ask(case.parse()?, agents.parse()?)),
        _ => Err("a part of the benchmark `many_agents`, which starts it".into()),
    });
    match played {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{}: {error}", args.join(" "));
            ExitCode::FAILURE
        }
    }
}

/// Runs a server for `agents` agents until standard input ends. Writes the URL to standard output, and later the number
/// of requests received so far.
async fn serve(agents: usize) -> Result<(), Failure> {
    std::thread::spawn(|| {
        // The input ends when the parent process exits, or when the parent wants this process to end.
        io::stdin().read_to_end(&mut Vec::new()).ok();
        std::process::exit(0);
    });
    // The server holds all responses until `agents + 1` requests have arrived. The client process sends the last of
    // them when all agents wait.
    let server = AnthropicServer::builder().gather(agents + 1).start(script(agents, 1)).await?;
    tell(&server.url())?;
    for count in (1..=agents).filter(|count| count % STEP == 0 || *count == agents) {
        server.wait_for_requests(count).await;
        tell(&count.to_string())?;
    }
    std::future::pending().await
}

fn tell(line: &str) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    writeln!(stdout, "{line}")?;
    stdout.flush()
}

/// Runs clients of one kind concurrently, and writes their speed and memory use ([`Measured`]) to standard output.
/// `agents` is the number of clients.
async fn ask(case: Case, agents: usize) -> Result<(), Failure> {
    let mut lines = BufReader::new(io::stdin()).lines();
    let url = lines.next().ok_or("there is no server")??;
    let (sender, mut arrived) = watch::channel(0);
    std::thread::spawn(move || {
        for count in lines.map_while(Result::ok).filter_map(|line| line.parse().ok()) {
            sender.send_replace(count);
        }
    });
    let clients = Clients::new(case, &url)?;
    let mut running = JoinSet::new();

    let before = Used::now()?;
    for number in 0..agents {
        wait_for(&mut arrived, (number + 1).saturating_sub(AHEAD), &mut running).await?;
        clients.start(&mut running);
    }
    wait_for(&mut arrived, agents, &mut running).await?;
    let waiting = ALLOCATOR.stats();
    clients.ask_once().await?;
    while let Some(ended) = running.join_next().await {
        ended??;
    }
    let after = Used::now()?;

    let each = |whole: f64| whole / agents as f64;
    let measured = Measured {
        runs_a_second: agents as f64 / (after.at - before.at).as_secs_f64(),
        cpu_ms: each((after.cpu - before.cpu).as_secs_f64() * 1e3),
        peak_bytes: each((after.peak - before.peak) as f64),
        heap_bytes: each(live(&waiting) - live(&before.heap)),
        allocations: each((after.heap.allocations - before.heap.allocations) as f64),
    };
    Ok(tell(&measured.write())?)
}

/// Waits until the server process has reported `count` received requests. Returns an error if a client ends earlier.
async fn wait_for(
    arrived: &mut watch::Receiver<usize>,
    count: usize,
    running: &mut JoinSet<Result<(), Failure>>,
) -> Result<(), Failure> {
    if *arrived.borrow() >= count {
        return Ok(());
    }
    let enough = arrived.wait_for(|arrived| *arrived >= count);
    match select(pin!(enough), pin!(running.join_next())).await {
        Either::Left((Ok(_), _)) => Ok(()),
        Either::Left((Err(_), _)) => Err("the server has ended".into()),
        Either::Right((Some(ended), _)) => {
            ended??;
            Err("one was answered before all have asked".into())
        }
        Either::Right((None, _)) => Err("nobody asks".into()),
    }
}

/// The resources that this process has used since its start.
struct Used {
    at: Instant,
    cpu: Duration,
    peak: usize,
    heap: Stats,
}

impl Used {
    fn now() -> io::Result<Self> {
        let (cpu, peak) = (usage::cpu_time()?, usage::peak_memory()?);
        Ok(Self { at: Instant::now(), cpu, peak, heap: ALLOCATOR.stats() })
    }
}

/// Returns the number of bytes that are currently allocated on the heap.
fn live(heap: &Stats) -> f64 {
    heap.bytes_allocated as f64 - heap.bytes_deallocated as f64
}
