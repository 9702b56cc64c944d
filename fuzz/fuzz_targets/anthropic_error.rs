//! `rejection::anthropic`, driven by libFuzzer.

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| neuron_fuzz_properties::rejection::anthropic(input));
