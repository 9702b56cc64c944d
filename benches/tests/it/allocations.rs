//! Checks that the number of allocations in a turn does not grow with the history. The test counts allocations instead
//! of measuring time, so its result is the same on every machine.

use neuron_benches::floor::run_by_hand;
use neuron_benches::turn::{Cost, Unlimited, run_agent};

/// Maximum ratio of the agent's allocations to the allocations of the floor, the hand-written loop.
const AT_MOST_TIMES_THE_FLOOR: usize = 2;

/// Returns the median number of allocations of the turns after the turn `after`. The few turns that also grow a vector
/// do not change the median.
fn allocations(costs: &[Cost], after: usize) -> usize {
    let mut counts: Vec<_> = costs[after..after + 10].iter().map(|cost| cost.allocations).collect();
    counts.sort_unstable();
    counts[counts.len() / 2]
}

#[test]
fn turn_allocations_do_not_depend_on_the_history() {
    let _guard = crate::run_alone();
    let floor = run_by_hand(1020);
    let agent = run_agent(1020, Unlimited).unwrap();
    let at = |costs: &[Cost]| [10, 100, 1000].map(|after| allocations(costs, after));
    let (floor, agent) = (at(&floor), at(&agent));
    println!("by hand {floor:?}, agent {agent:?}");
    assert_eq!(agent[0], agent[1]);
    assert_eq!(agent[1], agent[2]);
    assert_eq!(floor[0], floor[2]);
    assert!(agent[0] <= AT_MOST_TIMES_THE_FLOOR * floor[0], "{agent:?} against {floor:?}");
}
