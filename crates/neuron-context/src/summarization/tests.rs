//! What stays word for word, by property. What is summarised is tested from outside.

use proptest::prelude::*;

use super::choose;
use crate::test_history::{history, letters};

proptest! {
    #[test]
    fn what_stays_with_few_recent_messages_stays_with_more(
        letters in letters(),
        recent in 0_usize..12,
    ) {
        let messages = history(&letters);
        let (fewer, more) = (choose(&messages, recent), choose(&messages, recent + 1));
        prop_assert!(fewer.iter().zip(more).all(|(fewer, more)| !fewer || more));
    }
}
