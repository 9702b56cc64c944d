//! Measures a tool call through 0, 1, 5 and 10 layers of middleware, compared with a direct call of the tool.

use neuron_benches::comparison::{Comparison, Options};
use neuron_benches::middleware::{LAYERS, allocations, call, call_by_hand, call_through, registry};
use neuron_benches::turn::Echo;
use neuron_types::ToolContext;

use crate::Failure;

const ROUNDS: usize = 101;

/// Number of calls in a round. A round is one measured repetition.
const CALLS: usize = 10_000;

pub(crate) fn run() -> Result<(), Failure> {
    let options = Options::from_args(ROUNDS);
    let runtime = tokio::runtime::Builder::new_current_thread().build()?;
    let (call, ctx) = (call(), ToolContext::default());
    let without = registry(0);
    println!("| layers | a call | per layer | allocations |");
    println!("|---|---:|---:|---:|");
    let compare = |work: &dyn Fn()| {
        Comparison::of(options.rounds(), work, || {
            runtime.block_on(call_through(&without, &call, &ctx, CALLS)).ok();
        })
    };
    let nanos = |time: std::time::Duration| time.as_secs_f64() * 1e9 / CALLS as f64;
    let by_hand = compare(&|| {
        runtime.block_on(call_by_hand(&Echo, &call, &ctx, CALLS)).ok();
    });
    println!(
        "| by hand | {:.0} ns | | {} |",
        nanos(by_hand.library),
        allocations(call_by_hand(&Echo, &call, &ctx, 1))?
    );
    for layers in LAYERS {
        if !options.includes(&layers.to_string()) {
            continue;
        }
        let registry = registry(layers);
        let compared = compare(&|| {
            runtime.block_on(call_through(&registry, &call, &ctx, CALLS)).ok();
        });
        let (whole, floor) = (nanos(compared.library), nanos(compared.floor));
        let each = match layers {
            0 => String::new(),
            layers => format!("{:.0} ns", (whole - floor) / layers as f64),
        };
        let count = allocations(call_through(&registry, &call, &ctx, 1))?;
        println!("| {layers} | {whole:.0} ns | {each} | {count} |");
    }
    Ok(())
}
