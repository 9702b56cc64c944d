//! Measures a call of a tool on an MCP server through neuron's bridge, compared with the bare SDK.

use neuron_benches::bridge::{Bridge, Sdk};
use neuron_benches::comparison::{Comparison, Options};

const ROUNDS: usize = 101;
/// Number of calls in a round. A round is one measured repetition.
const CALLS: u32 = 200;

pub(crate) fn run() -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    let options = Options::from_args(ROUNDS);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let (bridge, sdk) =
        runtime.block_on(async { tokio::try_join!(Bridge::connect(), Sdk::connect()) })?;
    let through_bridge = || {
        runtime.block_on(async {
            for _ in 0..CALLS {
                bridge.call().await.expect("the tool is called");
            }
        });
    };
    let through_sdk = || {
        runtime.block_on(async {
            for _ in 0..CALLS {
                sdk.call().await.expect("the tool is called");
            }
        });
    };
    let compared = Comparison::of(options.rounds(), through_bridge, through_sdk);
    let micros = |time: std::time::Duration| (time / CALLS).as_secs_f64() * 1e6;
    println!("| | bare SDK | bridge | bridge / SDK |");
    println!("|---|---:|---:|---:|");
    println!(
        "| call of a tool | {:.1} µs | {:.1} µs | {:.2} |",
        micros(compared.floor),
        micros(compared.library),
        compared.ratio
    );
    Ok(())
}
