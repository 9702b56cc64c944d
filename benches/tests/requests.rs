//! Checks that the allocations of encoding a request do not grow with its messages.
//!
//! Only the body itself doubles its size. The tests count allocations and not time, so the result is the same on every
//! machine.

use neuron_benches::ALLOCATOR;
use neuron_benches::request::{APIS, history};
use stats_alloc::Region;

// There is only one test, because the counter is for the whole process.
#[test]
fn a_request_is_written_from_the_borrow() {
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

            // The floor must write the same body to be comparable.
            let (body, by_hand) =
                ((api.library)(request.view()).unwrap(), (api.floor)(request.view()));
            let json = |bytes: &[u8]| serde_json::from_slice::<serde_json::Value>(bytes).unwrap();
            assert_eq!(json(&body), json(&by_hand), "{}", api.name);
        }
    }
}
