//! Writes the valid inputs of every target into a folder, as the initial corpora for cargo-fuzz.
//!
//! Usage: `cargo run -p neuron-fuzz-properties -- fuzz/corpus`

use std::path::PathBuf;

use neuron_fuzz_properties::TARGETS;

fn main() -> std::io::Result<()> {
    let folder = std::env::args_os().nth(1).map_or_else(|| "fuzz/corpus".into(), PathBuf::from);
    for target in TARGETS {
        let folder = folder.join(target.name);
        std::fs::create_dir_all(&folder)?;
        for (number, input) in (target.seeds)().into_iter().enumerate() {
            std::fs::write(folder.join(format!("seed-{number}")), input)?;
        }
    }
    Ok(())
}
