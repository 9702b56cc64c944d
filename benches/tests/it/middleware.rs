//! Checks that each layer of tool middleware allocates only its own future. The test counts allocations instead of
//! measuring time, so its result is the same on every machine.

use neuron_benches::middleware::{LAYERS, allocations, call, call_by_hand, call_through, registry};
use neuron_benches::turn::Echo;
use neuron_types::ToolContext;

/// Returns the minimum of 20 counts. The thread of the test runner may also allocate during a count.
fn least<T: Ord>(mut count: impl FnMut() -> T) -> T {
    (1..20).fold(count(), |least, _| least.min(count()))
}

#[test]
fn each_layer_allocates_only_its_future() {
    let _guard = crate::run_alone();
    let (call, ctx) = (call(), ToolContext::default());
    let by_hand = least(|| allocations(call_by_hand(&Echo, &call, &ctx, 100)).unwrap());
    let through = LAYERS.map(|layers| {
        let registry = registry(layers);
        least(|| allocations(call_through(&registry, &call, &ctx, 100)).unwrap())
    });
    println!("100 calls by hand {by_hand}, through {LAYERS:?} layers {through:?}");
    for (layers, count) in LAYERS.into_iter().zip(through) {
        // With the first layer, the call also allocates a future that catches a panic in the tool.
        let own = if layers == 0 { 0 } else { layers + 1 };
        assert_eq!(count, by_hand + 100 * own, "{layers} layers");
    }
}
