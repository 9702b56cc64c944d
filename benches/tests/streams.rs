//! Checks that the hand-written decoders return the same as the providers, because they would not be comparable
//! otherwise.

use neuron_benches::stream::{Chunks, PIECES, vendors};

#[test]
fn provider_and_hand_hear_the_same() {
    for vendor in vendors() {
        for size in [1, 7, 16 * 1024] {
            let heard = (vendor.library)(Chunks::new(vendor.bytes, size));
            assert_eq!(heard.pieces, PIECES, "{}", vendor.name);
            let by_hand = (vendor.floor)(Chunks::new(vendor.bytes, size));
            assert_eq!(heard, by_hand, "{} in chunks of {size}", vendor.name);
        }
    }
}
