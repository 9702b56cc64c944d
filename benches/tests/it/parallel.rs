//! Checks the number of allocations in a turn with concurrent tool calls. The test counts allocations instead of
//! measuring time, so its result is the same on every machine.

use neuron_benches::parallel::{TOOLS, run_agent, run_by_hand};
use neuron_benches::turn::Cost;

/// Maximum ratio of the agent's allocations to the allocations of the floor, the hand-written loop.
const AT_MOST_TIMES_THE_FLOOR: usize = 5;

fn median(costs: &[Cost]) -> usize {
    let mut counts: Vec<_> = costs.iter().map(|cost| cost.allocations).collect();
    counts.sort_unstable();
    counts[counts.len() / 2]
}

#[test]
fn concurrent_tools_allocate_at_most_five_times_the_floor() {
    let _guard = crate::run_alone();
    for tools in TOOLS {
        let (floor, expected) = run_by_hand(100, tools).unwrap();
        let (agent, messages) = run_agent(100, tools).unwrap();
        // The hand-written loop is comparable only if it does the same work.
        assert_eq!(messages, expected);
        assert_eq!(messages.len(), 202);
        assert_eq!(messages[2].content.len(), tools);

        let (floor, agent) = (median(&floor), median(&agent));
        println!("{tools} tools: by hand {floor}, agent {agent}");
        assert!(floor >= 3 * tools, "nothing was counted: {floor}");
        assert!(agent <= AT_MOST_TIMES_THE_FLOOR * floor, "{agent} against {floor}");
    }
}
