//! Property test of the messages that a summarization keeps unchanged. The tests of the summaries are in `tests/`.

use proptest::prelude::*;

use super::choose;
use crate::test_history::{history, letters};

proptest! {
    #[test]
    fn more_recent_messages_keep_the_same_messages(
        letters in letters(),
        recent in 0_usize..12,
    ) {
        let messages = history(&letters);
        let (fewer, more) = (choose(&messages, recent), choose(&messages, recent + 1));
        prop_assert!(fewer.iter().zip(more).all(|(fewer, more)| !fewer || more));
    }
}
