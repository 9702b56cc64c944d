//! The command `pairs`, which moves random conversations between all wires.
//!
//! Each turn of a conversation is answered by a wire that the seed chooses, through the real provider and the vendor's
//! loopback server. At last the conversation moves to every wire. The server must accept each request, the request must
//! keep the invariants of [`judge`](judge::judge) and the vendor's [patterns](crate::patterns), and the vendors' clients
//! check the bodies that this command writes.
//!
//! - [`plan`]: a conversation as data
//! - [`generator`]: the random conversation of a seed
//! - [`wires`]: the table of all wires
//! - [`own`]: content that only one vendor sends
//! - [`play`](mod@play): carries out a plan
//! - [`judge`], [`exchange`] and [`restored`]: the invariants of a request

mod exchange;
mod generator;
mod judge;
mod own;
mod plan;
mod play;
mod restored;
mod wires;

use std::collections::BTreeMap;
use std::error::Error;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use serde_json::json;

use self::plan::{Plan, smaller};
use self::play::{Played, play};
use self::wires::{WIRES, vendors};

/// Plays `count` conversations, beginning with the seed `first`. Writes the requests at their ends to one file for each
/// vendor in `folder`.
///
/// # Errors
///
/// Returns an error if a request is invalid. The error has the smallest conversation with the failure that was found.
/// Also returns an error if a pair of wires has too few conversations.
pub(crate) fn run(folder: &Path, first: u64, count: u64) -> Result<(), Box<dyn Error>> {
    std::fs::create_dir_all(folder)?;
    let mut files = BTreeMap::new();
    for vendor in vendors() {
        let file = File::create(folder.join(format!("{vendor}-pairs.jsonl")))?;
        files.insert(vendor, Mutex::new(BufWriter::new(file)));
    }
    let pairs = play_all(first, count, |seed, played| write(&files, seed, played))?;
    for file in files.values() {
        file.lock().unwrap_or_else(PoisonError::into_inner).flush()?;
    }
    let least = pairs.values().min().copied().unwrap_or_default();
    println!("{count} conversations, {} pairs of wires, at least {least} of each", pairs.len());
    Ok(())
}

/// The number of requests for each pair of wires. A pair has the index of the wire that answered last, and of the wire
/// that received the conversation.
type Pairs = BTreeMap<(usize, usize), u64>;

/// Plays conversations on all processors until one fails. Returns the number of requests for each pair of wires.
fn play_all(
    first: u64,
    count: u64,
    write: impl Fn(u64, &Played) -> io::Result<()> + Sync,
) -> Result<Pairs, String> {
    let next = AtomicU64::new(first);
    let failed: Mutex<Option<(u64, String)>> = Mutex::new(None);
    let failure = || failed.lock().unwrap_or_else(PoisonError::into_inner);
    let work = || {
        let mut pairs = Pairs::new();
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= first + count || failure().is_some() {
                return pairs;
            }
            let played = try_plan(&generator::plan(seed)).and_then(|played| {
                write(seed, &played).map(|()| played).map_err(|it| it.to_string())
            });
            match played {
                Ok(played) => {
                    let to = played.requests.iter().map(|sent| sent.to);
                    for pair in played
                        .from
                        .into_iter()
                        .flat_map(|from| to.clone().map(move |to| (from, to)))
                    {
                        *pairs.entry(pair).or_default() += 1;
                    }
                }
                Err(fault) => drop(failure().get_or_insert((seed, fault))),
            }
        }
    };
    let mut pairs = Pairs::new();
    std::thread::scope(|scope| {
        let workers = std::thread::available_parallelism().map_or(1, usize::from);
        let workers: Vec<_> = (0..workers).map(|_| scope.spawn(work)).collect();
        for found in workers.into_iter().filter_map(|worker| worker.join().ok()) {
            for (pair, count) in found {
                *pairs.entry(pair).or_default() += count;
            }
        }
    });
    if let Some((seed, fault)) = failure().take() {
        return Err(report(seed, &fault));
    }
    check_coverage(&pairs, count)?;
    Ok(pairs)
}

/// Checks that each pair of wires has at least one of a hundred conversations.
fn check_coverage(pairs: &Pairs, count: u64) -> Result<(), String> {
    let places = || 0..WIRES.len();
    for pair in places().flat_map(|from| places().map(move |to| (from, to))) {
        let found = pairs.get(&pair).copied().unwrap_or_default();
        if found < count / 100 {
            let (from, to) = (WIRES[pair.0].name, WIRES[pair.1].name);
            return Err(format!("only {found} of {count} conversations moved from {from} to {to}"));
        }
    }
    Ok(())
}

/// Plays a conversation in a runtime of its own. A panic is a failure.
fn try_plan(plan: &Plan) -> Result<Played, String> {
    let whole = || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        runtime.map_err(|error| error.to_string())?.block_on(play(plan))
    };
    catch_unwind(AssertUnwindSafe(whole)).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        let text = text.or(panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
        Err(format!("a panic: {}", text.unwrap_or_default()))
    })
}

/// Describes a failure, with a conversation that is as small as possible.
fn report(seed: u64, fault: &str) -> String {
    let mut plan = generator::plan(seed);
    let mut fault = fault.to_owned();
    while let Some((smaller, its_fault)) = smaller(&plan)
        .into_iter()
        .find_map(|smaller| try_plan(&smaller).err().map(|fault| (smaller, fault)))
    {
        (plan, fault) = (smaller, its_fault);
    }
    format!(
        "conversation {seed}, made smaller: {fault}\n\nthe plan: {plan:#?}\n\nto see it again:\n    \
         cargo run -p neuron-e2e -- pairs target/pairs {seed} 1\n"
    )
}

/// Writes the requests at the end of a conversation, one line of JSON each.
fn write(
    files: &BTreeMap<&str, Mutex<BufWriter<File>>>,
    seed: u64,
    played: &Played,
) -> io::Result<()> {
    for sent in &played.requests {
        let wire = &WIRES[sent.to];
        let from = played.from.map_or("no wire", |from| WIRES[from].name);
        let headers = match &sent.beta {
            Some(beta) => json!({"anthropic-beta": beta}),
            None => json!({}),
        };
        let line = json!({
            "request": format!("conversation {seed}, from {from} to {}", wire.name),
            "path": sent.path,
            "headers": headers,
            "body": sent.body,
        });
        if let Some(file) = files.get(wire.vendor) {
            writeln!(file.lock().unwrap_or_else(PoisonError::into_inner), "{line}")?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use neuron_conformance::random::from_env;

    use super::plan::{Answer, Mark, Part, Timing, Turn};
    use super::*;

    /// `PAIRS_FIRST` sets the first seed, and `PAIRS_COUNT` the number of conversations.
    #[test]
    fn conversation_moves_from_each_wire_to_each_other() {
        let (first, count) = (from_env("PAIRS_FIRST"), from_env("PAIRS_COUNT"));
        if let Err(fault) = play_all(first.unwrap_or(0), count.unwrap_or(500), |_, _| Ok(())) {
            panic!("{fault}");
        }
    }

    #[test]
    fn system_message_ends_a_pause() {
        let answer = |parts| {
            let (results, timing) = (Vec::new(), Timing::Now);
            let is_streamed = false;
            Turn::Answer(Answer {
                wire: 0,
                model: 0,
                is_streamed,
                parts,
                stop: None,
                results,
                timing,
            })
        };
        let paused = answer(vec![Part::Pause(Mark(1))]);
        let turns = vec![paused, Turn::System(Mark(2)), answer(Vec::new())];
        try_plan(&Plan { system: None, thinks: false, turns }).unwrap();
    }

    #[test]
    fn missing_pair_is_found() {
        let fault = check_coverage(&Pairs::new(), 100).unwrap_err();
        assert_eq!(fault, "only 0 of 100 conversations moved from anthropic to anthropic");
    }
}
