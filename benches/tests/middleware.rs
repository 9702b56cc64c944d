//! Checks the allocations of a layer of middleware. The tests count allocations and not time, so the result is the same
//! on every machine.

use neuron_benches::middleware::{LAYERS, allocations, call, call_by_hand, call_through, registry};
use neuron_benches::turn::Echo;
use neuron_types::ToolContext;

/// Returns the minimum of twenty counts, because the thread of the test runner may also allocate.
fn least<T: Ord>(mut count: impl FnMut() -> T) -> T {
    (1..20).fold(count(), |least, _| least.min(count()))
}

// There is only one test, because the counter is for the whole process.
#[test]
fn a_layer_allocates_its_own_future_and_a_call_without_layers_nothing_more_than_the_tool() {
    let (call, ctx) = (call(), ToolContext::default());
    let by_hand = least(|| allocations(call_by_hand(&Echo, &call, &ctx, 100)).unwrap());
    let through = LAYERS.map(|layers| {
        let registry = registry(layers);
        least(|| allocations(call_through(&registry, &call, &ctx, 100)).unwrap())
    });
    println!("100 calls by hand {by_hand}, through {LAYERS:?} layers {through:?}");
    for (layers, count) in LAYERS.into_iter().zip(through) {
        // The first layer also adds the handler for a panic in the tool.
        let own = if layers == 0 { 0 } else { layers + 1 };
        assert_eq!(count, by_hand + 100 * own, "{layers} layers");
    }
}
