//! Checks the allocations of a turn with several tools. The tests count allocations and not time, so the result is the
//! same on every machine.

use neuron_benches::parallel::{TOOLS, run_agent, run_by_hand};
use neuron_benches::turn::Cost;

/// The goal is five times the floor, as for a turn with one tool.
const AT_MOST_TIMES_THE_FLOOR: usize = 5;

fn median(costs: &[Cost]) -> usize {
    let mut counts: Vec<_> = costs.iter().map(|cost| cost.allocations).collect();
    counts.sort_unstable();
    counts[counts.len() / 2]
}

// There is only one test, because the counter is for the whole process.
#[test]
fn tools_that_run_together_allocate_a_few_times_what_they_do_by_hand() {
    for tools in TOOLS {
        let (floor, expected) = run_by_hand(100, tools).unwrap();
        let (agent, messages) = run_agent(100, tools).unwrap();
        // The floor must do the same work to be comparable.
        assert_eq!(messages, expected);
        assert_eq!(messages.len(), 202);
        assert_eq!(messages[2].content.len(), tools);

        let (floor, agent) = (median(&floor), median(&agent));
        println!("{tools} tools: by hand {floor}, agent {agent}");
        assert!(floor >= 3 * tools, "nothing was counted: {floor}");
        assert!(agent <= AT_MOST_TIMES_THE_FLOOR * floor, "{agent} against {floor}");
    }
}
