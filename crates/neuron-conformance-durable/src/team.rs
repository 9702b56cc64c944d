//! The nested agents of the team scenarios.

use neuron_subagent::{SubAgentConfig, SubAgentManager};
use neuron_tool::ToolRegistry;
use neuron_types::ToolEffect;
use serde_json::Value;

use crate::effects::EffectLog;
use crate::model::ScenarioProvider;
use crate::scenario::Kind;
use crate::script::parse;

/// A nested agent, which runs inside a tool call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Member {
    /// The agent that the outer agent calls. It calls the clerk as a tool.
    Planner,
    /// The agent that the planner calls as a tool. In one scenario, the outer agent calls this agent too.
    Clerk,
}

impl Member {
    pub(crate) const ALL: [Self; 2] = [Self::Planner, Self::Clerk];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Planner => "planner",
            Self::Clerk => "clerk",
        }
    }

    /// Returns the system prompt of the agent. The model recognises the agent by this prompt.
    pub(crate) fn prompt(self) -> String {
        format!("You are the {}.", self.name())
    }

    /// Returns the text and the tool calls of a response of this agent. Returns `None` after the last response.
    pub(crate) fn response(
        self,
        kind: Kind,
        number: usize,
    ) -> Option<(String, Vec<(String, Value)>)> {
        let line = match (kind, self, number) {
            (Kind::TeamSettles, Self::Planner, 0) => "I ask the clerk. | clerk prompt=Settle",
            (Kind::TeamSettles, Self::Clerk, 0) => "I settle it. | settle invoice=17",
            (Kind::TeamAsks, Self::Planner, 0) => "I look. | look place=Rome",
            (Kind::TeamAsks, Self::Clerk, 0) => {
                "I look and wire. | look place=Rome | wire amount=9000"
            }
            (Kind::TeamAsks | Kind::TeamSettles, _, 1) | (Kind::Team, _, 11) => "It is done.",
            (Kind::Team, Self::Planner, 5) => "I ask the clerk. | clerk prompt=Pay",
            (Kind::Team, Self::Planner, 0..11) => "I book. | book room=7",
            (Kind::Team, Self::Clerk, 2 | 7) => "I pay. | pay amount=120",
            (Kind::Team, Self::Clerk, 4) => {
                "I order and look. | order quantity=1 | look place=Rome"
            }
            (Kind::Team, Self::Clerk, 6) => "I steal. | steal what=horse",
            (Kind::Team, Self::Clerk, 0..11) => "I order. | order quantity=1",
            _ => return None,
        };
        parse(line)
    }

    /// Returns the configuration of the agent and its tools.
    fn config(self, kind: Kind) -> SubAgentConfig {
        let tools: &[&str] = match self {
            Self::Planner => &["look", "book", "clerk"],
            Self::Clerk if kind == Kind::TeamSettles => &["settle"],
            Self::Clerk => &["look", "order", "pay", "steal", "wire"],
        };
        SubAgentConfig {
            description: format!("The {} of a scenario", self.name()),
            system_prompt: self.prompt().into(),
            tools: tools.iter().map(ToString::to_string).collect(),
            max_depth: 2,
            effect: ToolEffect::Idempotent,
            ..SubAgentConfig::default()
        }
    }
}

/// Adds the nested agents to the tools.
#[expect(clippy::expect_used, reason = "for tests")]
pub(crate) fn add_to(tools: &mut ToolRegistry, kind: Kind, log: &EffectLog) {
    let mut agents = SubAgentManager::new();
    for member in Member::ALL {
        agents.register(member.name(), member.config(kind));
    }
    let provider = ScenarioProvider { kind, log: log.clone() };
    agents.add_to(tools, provider).expect("the agents have known tools");
}
