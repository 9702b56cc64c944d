//! Checks that the allocations of a turn do not grow with the history. The tests count allocations and not time, so the
//! result is the same on every machine.

use neuron_benches::floor::run_by_hand;
use neuron_benches::turn::{Cost, Unlimited, run_agent};

/// An agent may allocate this many times as often as the floor.
const AT_MOST_TIMES_THE_FLOOR: usize = 2;

/// Returns the median, which is the same for all turns between two growths of a vector.
fn allocations(costs: &[Cost], after: usize) -> usize {
    let mut counts: Vec<_> = costs[after..after + 10].iter().map(|cost| cost.allocations).collect();
    counts.sort_unstable();
    counts[counts.len() / 2]
}

// There is only one test, because the counter is for the whole process.
#[test]
fn a_turn_allocates_the_same_whatever_the_history() {
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
