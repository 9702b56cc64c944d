//! Every property, tried on its valid inputs and on a thousand broken ones: the same in every run.
//! `FUZZ_INPUTS` sets another number, `FUZZ_SEQUENCE` another sequence.

use std::panic::{AssertUnwindSafe, catch_unwind};

use neuron_fuzz_properties::mutation::Mutator;
use neuron_fuzz_properties::{TARGETS, Target};

fn number(variable: &str, default: u64) -> u64 {
    std::env::var(variable).map_or(default, |text| text.parse().expect("a number"))
}

#[track_caller]
fn check(target: &Target, input: &[u8]) {
    let outcome = catch_unwind(AssertUnwindSafe(|| (target.check)(input)));
    assert!(outcome.is_ok(), "{}: {:?}", target.name, String::from_utf8_lossy(input));
}

#[test]
fn properties_hold_of_valid_inputs() {
    for target in &TARGETS {
        let seeds = (target.seeds)();
        assert!(!seeds.is_empty(), "{}", target.name);
        for seed in seeds {
            check(target, &seed);
        }
    }
}

#[test]
fn properties_hold_of_broken_inputs() {
    for target in &TARGETS {
        let mut mutator = Mutator::new((target.seeds)(), number("FUZZ_SEQUENCE", 1));
        for _ in 0..number("FUZZ_INPUTS", 1_000) {
            check(target, &mutator.input());
        }
    }
}
