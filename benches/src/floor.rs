//! A minimal hand-written loop, with which the agent loop is compared. It uses the same model and tool as the agent
//! loop, but has no hooks, limits, cancellation or error handling.

use neuron_types::{ContentBlock, ContentItem, Message, Role};
use serde::Deserialize;

use crate::turn::{Clock, Cost, Forecast, Place, ToolCaller};

/// Runs `turns` turns in the hand-written loop, and returns the cost of each turn.
#[must_use]
pub fn run_by_hand(turns: usize) -> Vec<Cost> {
    let clock = Clock::with_capacity(turns + 1);
    let (model, tool) = (ToolCaller { turns, clock: &clock, waits: false }, Forecast);
    let mut messages = vec![Message::user("go")];
    loop {
        let answer = model.answer(&messages).message;
        let results: Vec<_> = answer
            .tool_uses()
            .filter_map(|call| {
                let place = Place::deserialize(call.input).ok()?;
                Some(ContentBlock::ToolResult {
                    tool_use_id: call.id.to_owned(),
                    content: vec![ContentItem::Text(tool.run(place))],
                    is_error: false,
                })
            })
            .collect();
        messages.push(answer);
        if results.is_empty() {
            return clock.costs();
        }
        messages.push(Message { role: Role::User, content: results });
    }
}
