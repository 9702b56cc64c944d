//! Runs one target of `neuron_fuzz_properties` under libFuzzer. The environment variable `TARGET` selects the target.

#![no_main]

use std::sync::LazyLock;

use neuron_fuzz_properties::{TARGETS, Target};

static TARGET: LazyLock<Target> = LazyLock::new(|| {
    let name = std::env::var("TARGET").unwrap_or_default();
    let names = TARGETS.map(|target| target.name).join(", ");
    let found = TARGETS.into_iter().find(|target| target.name == name);
    found.unwrap_or_else(|| panic!("set TARGET to one of {names}"))
});

libfuzzer_sys::fuzz_target!(|input: &[u8]| (TARGET.check)(input));
