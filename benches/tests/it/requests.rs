//! Checks that the number of allocations for encoding a request does not grow with the number of messages, except for
//! growing the buffer.
//!
//! The buffer of the body doubles its size when it is full, so its reallocations grow with the logarithm of the body's
//! size. The test counts allocations instead of measuring time, so its result is the same on every machine.

use neuron_benches::ALLOCATOR;
use neuron_benches::request::{APIS, history};
use stats_alloc::Region;

#[test]
fn request_encoding_does_not_copy_the_messages() {
    let _guard = crate::run_alone();
    for messages in [1, 100, 1_000, 10_000] {
        let request = history(messages);
        let most = 40 + messages.ilog2() as usize;
        for api in APIS {
            let region = Region::new(ALLOCATOR);
            let body = (api.library)(request.view()).unwrap();
            let used = region.change();
            let allocations = used.allocations + used.reallocations;
            println!("{}, {messages} messages: {allocations} allocations", api.name);
            assert!(allocations <= most, "{}: {allocations} for {messages} messages", api.name);
            assert!(allocations >= 1, "nothing was counted");
            drop(body);

            // The hand-written encoder is comparable only if it encodes the same body.
            let (body, by_hand) =
                ((api.library)(request.view()).unwrap(), (api.floor)(request.view()));
            let json = |bytes: &[u8]| serde_json::from_slice::<serde_json::Value>(bytes).unwrap();
            assert_eq!(json(&body), json(&by_hand), "{}", api.name);
        }
    }
}
