//! `embeddings::ollama`, driven by libFuzzer.

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| neuron_fuzz_properties::embeddings::ollama(input));
