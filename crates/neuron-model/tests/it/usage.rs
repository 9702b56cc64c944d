//! Tests of the addition of `TokenUsage`.

use neuron_model::{Cost, Money, TokenUsage, UsageIteration};
use proptest::prelude::*;

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
        cost: None,
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

fn priced(tokens: usize, dollars: u64) -> TokenUsage {
    let cost = Some(Money::from_dollars(dollars).into());
    TokenUsage { input_tokens: tokens, cost, ..Default::default() }
}

#[test]
fn costs_are_added() {
    let total = sum([priced(1, 2), priced(3, 4)]);
    assert_eq!(total, priced(4, 6));
    assert_eq!(total.cost.unwrap().to_string(), "$6.00");
    // A usage without tokens costs nothing.
    assert_eq!(sum([TokenUsage::default(), priced(1, 2), TokenUsage::default()]), priced(1, 2));
    assert_eq!(sum([TokenUsage::default()]).cost, None);
}

#[test]
fn tokens_without_a_cost_make_the_cost_incomplete() {
    let unpriced = TokenUsage { output_tokens: 1, ..Default::default() };
    let incomplete = Some(Cost { amount: Money::from_dollars(2), is_complete: false });
    assert_eq!(sum([unpriced.clone(), priced(1, 2)]).cost, incomplete);
    assert_eq!(sum([priced(1, 2), unpriced.clone()]).cost, incomplete);
    assert_eq!(sum([unpriced.clone(), unpriced.clone()]).cost, None);
    let total = sum([priced(1, 1), unpriced, priced(1, 1)]);
    assert_eq!(total.cost, incomplete, "a known cost does not complete it");
    assert_eq!(total.cost.unwrap().to_string(), "$2.00 (incomplete)");
}

#[test]
fn unknown_cost_without_tokens_makes_the_cost_incomplete() {
    let broken = TokenUsage { cost: Some(Cost::UNKNOWN), ..Default::default() };
    let total = sum([priced(1, 2), broken.clone()]);
    assert_eq!(total.cost, Some(Cost { amount: Money::from_dollars(2), is_complete: false }));
    assert_eq!(sum([broken.clone()]), broken);
}

#[test]
fn cost_saturates() {
    let all = TokenUsage { cost: Some(Money::MAX.into()), ..Default::default() };
    assert_eq!(sum([all.clone(), priced(0, 1)]), all);
}

fn usages() -> impl Strategy<Value = TokenUsage> {
    let cost = proptest::option::of((0..9_u64, any::<bool>()));
    (0..3_usize, cost).prop_map(|(output_tokens, cost)| {
        let cost = cost.map(|(dollars, is_complete)| Cost {
            amount: Money::from_dollars(dollars),
            is_complete,
        });
        TokenUsage { output_tokens, cost, ..Default::default() }
    })
}

proptest! {
    /// The cost of parallel tools must not depend on the order in which they end.
    #[test]
    fn order_of_additions_does_not_matter(a in usages(), b in usages(), c in usages()) {
        let left = sum([sum([a.clone(), b.clone()]), c.clone()]);
        let right = sum([a.clone(), sum([b.clone(), c.clone()])]);
        prop_assert_eq!(&left, &right);
        prop_assert_eq!(&left, &sum([c, b, a]));
    }
}
