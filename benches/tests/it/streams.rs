//! Checks that the hand-written decoders return the same result as the providers, so that their times are comparable.

use neuron_benches::stream::{Chunks, PIECES, vendors};

#[test]
fn providers_and_floors_decode_the_same() {
    let _guard = crate::run_alone();
    for vendor in vendors() {
        for size in [1, 7, 16 * 1024] {
            let heard = (vendor.library)(Chunks::new(vendor.bytes, size));
            assert_eq!(heard.pieces, PIECES, "{}", vendor.name);
            let by_hand = (vendor.floor)(Chunks::new(vendor.bytes, size));
            assert_eq!(heard, by_hand, "{} in chunks of {size}", vendor.name);
        }
    }
}
