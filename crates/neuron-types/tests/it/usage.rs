//! Tests of the addition of `TokenUsage`.

use neuron_types::{TokenUsage, UsageIteration};

fn sum<const N: usize>(calls: [TokenUsage; N]) -> TokenUsage {
    let mut sum = TokenUsage::default();
    for call in &calls {
        sum += call;
    }
    sum
}

#[test]
fn counters_are_added_and_saturate() {
    let call = |tokens, cached| TokenUsage {
        input_tokens: tokens,
        output_tokens: tokens,
        cache_read_tokens: Some(cached),
        cache_creation_tokens: Some(cached),
        reasoning_tokens: Some(cached),
        iterations: None,
    };
    assert_eq!(sum([call(1, 2), call(3, 4)]), call(4, 6));
    assert_eq!(sum([call(usize::MAX, usize::MAX), call(1, 1)]), call(usize::MAX, usize::MAX));
    assert_eq!(call(usize::MAX, 0).total_tokens(), usize::MAX);
    assert_eq!(call(3, 2).total_tokens(), 6);
}

#[test]
fn optional_counter_of_one_summand_is_kept() {
    let known = TokenUsage { cache_read_tokens: Some(5), ..Default::default() };
    let unknown = TokenUsage::default();
    assert_eq!(sum([known.clone(), unknown.clone()]), known);
    assert_eq!(sum([unknown, known.clone()]), known);
}

#[test]
fn iterations_are_concatenated() {
    let call = TokenUsage {
        input_tokens: 1,
        iterations: Some(vec![UsageIteration::default()]),
        ..Default::default()
    };
    let total = sum([call.clone(), call]);
    assert_eq!((total.input_tokens, total.iterations.unwrap().len()), (2, 2));
}
