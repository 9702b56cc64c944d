//! Measures the decoding of streamed responses with 10,000 deltas, compared with hand-written decoders. The bytes
//! arrive in chunks of 16 KiB or of 1 byte.

use neuron_benches::comparison::{Comparison, Options};
use neuron_benches::stream::{Chunks, PIECES, vendors};

use crate::Failure;

const ROUNDS: usize = 101;

/// The measured chunk sizes, which are a typical read of a connection and the minimum.
const CHUNKS: [(&str, usize); 2] = [("16 KiB", 16 * 1024), ("1 byte", 1)];

pub(crate) fn run() -> Result<(), Failure> {
    let options = Options::from_args(ROUNDS);
    println!("| API, chunks | by hand | provider | provider / by hand |");
    println!("|---|---:|---:|---:|");
    for (chunk, size) in CHUNKS {
        for vendor in vendors() {
            let name = format!("{}, {chunk}", vendor.name);
            if !options.includes(&name) {
                continue;
            }
            let chunks = || Chunks::new(vendor.bytes, size);
            let comparison = Comparison::of(
                options.rounds(),
                || (vendor.library)(chunks()),
                || (vendor.floor)(chunks()),
            );
            let per_event = |time: std::time::Duration| time.as_nanos() / PIECES as u128;
            println!(
                "| {name} | {} ns | {} ns | {:.2} |",
                per_event(comparison.floor),
                per_event(comparison.library),
                comparison.ratio
            );
        }
    }
    Ok(())
}
