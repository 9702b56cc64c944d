//! Tests of the names of scenarios.

use neuron_conformance_durable::Scenario;

#[test]
fn named_returns_the_scenario_with_that_name() {
    let names = "crash errors tool-fails parallel model-fails retries denied not-decided max-turns tool-limit \
        token-limit huge-result huge-answer continues continues-to-limit to-limit streams signals clock records \
        cancelled effect-keys team team-asks team-settles long-17";
    for name in names.split_whitespace() {
        let scenario = Scenario::named(name).unwrap();
        assert_eq!(scenario.name(), name);
        let changed = scenario.with_changed_code();
        assert_eq!(Scenario::named(&changed.name()), Some(changed));
    }
    for other in ["", "crashes", "long", "long-", "long-x", "-changed", "crash-changed-changed"] {
        assert_eq!(Scenario::named(other), None, "{other}");
    }
}
