//! Measures the encoding of a request with 1,000 and 10,000 messages of 1 KiB, compared with hand-written structs.

use neuron_benches::comparison::{Comparison, Options};
use neuron_benches::request::{APIS, history};

use crate::Failure;

const ROUNDS: usize = 51;

pub(crate) fn run() -> Result<(), Failure> {
    let options = Options::from_args(ROUNDS);
    println!("| API, messages | by hand | provider | provider / by hand |");
    println!("|---|---:|---:|---:|");
    for messages in [1_000, 10_000] {
        let request = history(messages);
        for api in APIS {
            let name = format!("{}, {messages}", api.name);
            if !options.includes(&name) {
                continue;
            }
            let comparison = Comparison::of(
                options.rounds(),
                || (api.library)(request.view()).expect("the request can be written"),
                || (api.floor)(request.view()),
            );
            println!(
                "| {name} | {:.2} ms | {:.2} ms | {:.2} |",
                comparison.floor.as_secs_f64() * 1e3,
                comparison.library.as_secs_f64() * 1e3,
                comparison.ratio
            );
        }
    }
    Ok(())
}
