//! Tests every property on its valid inputs and on a thousand broken inputs, which are the same in every run.
//!
//! The environment variable `FUZZ_INPUTS` sets the number of broken inputs. `FUZZ_SEQUENCE` sets the seed of the
//! generator. `FUZZ_CORPUS` is a folder, into which the valid inputs are written as the initial corpora for cargo-fuzz.

use std::fs;
use std::panic::catch_unwind;
use std::path::Path;

use neuron_fuzz_properties::TARGETS;
use proptest::test_runner::{Config, RngAlgorithm, TestError, TestRng, TestRunner};

use crate::mutation;

/// Maximum number of attempts to find a smaller input if a property does not hold. Each attempt may print a panic.
const SHRINKS: u32 = 500;

/// Returns the number in an environment variable, or a default if the variable is not set.
fn number(variable: &str, default: u32) -> u32 {
    std::env::var(variable).map_or(default, |text| text.parse().expect("a number"))
}

#[test]
fn properties_hold_of_valid_inputs() {
    for target in &TARGETS {
        let seeds = (target.seeds)();
        assert!(!seeds.is_empty(), "{}", target.name);
        for seed in &seeds {
            let outcome = catch_unwind(|| (target.check)(seed));
            assert!(outcome.is_ok(), "{}: {:?}", target.name, String::from_utf8_lossy(seed));
        }
        if let Some(corpus) = std::env::var_os("FUZZ_CORPUS") {
            write(&Path::new(&corpus).join(target.name), &seeds).unwrap();
        }
    }
}

/// Writes each input into a file of the folder.
fn write(folder: &Path, inputs: &[Vec<u8>]) -> std::io::Result<()> {
    fs::create_dir_all(folder)?;
    let mut inputs = inputs.iter().enumerate();
    inputs.try_for_each(|(number, input)| fs::write(folder.join(format!("seed-{number}")), input))
}

#[test]
fn properties_hold_of_broken_inputs() {
    let config = Config {
        cases: number("FUZZ_INPUTS", 1_000),
        failure_persistence: None,
        max_shrink_iters: SHRINKS,
        ..Config::default()
    };
    let mut sequence = [0; 32];
    sequence[..4].copy_from_slice(&number("FUZZ_SEQUENCE", 1).to_le_bytes());
    for target in &TARGETS {
        let random = TestRng::from_seed(RngAlgorithm::ChaCha, &sequence);
        let mut runner = TestRunner::new_with_rng(config.clone(), random);
        let outcome = runner.run(&mutation::inputs((target.seeds)()), |input| {
            (target.check)(&input);
            Ok(())
        });
        match outcome {
            Ok(()) => {}
            Err(TestError::Fail(reason, input)) => {
                panic!("{}: {reason}: {:?}", target.name, String::from_utf8_lossy(&input))
            }
            Err(TestError::Abort(reason)) => panic!("{}: {reason}", target.name),
        }
    }
}
