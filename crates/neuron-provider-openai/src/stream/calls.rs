//! The open tool calls of a stream.

use std::collections::VecDeque;

use neuron_types::{ContentBlock, StreamEvent, ToolCall};
use serde::de::IgnoredAny;

use crate::call::{CallFields, generate_id};
use crate::message_fields::keep_unnamed_call;
use crate::response::Parts;

/// The calls of a response, in the order in which they began to arrive.
#[derive(Debug, Default)]
pub(super) struct OpenCalls(Vec<OpenCall>);

impl OpenCalls {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Adds a fragment. `is_later` is set if an earlier fragment came in the same delta.
    pub(super) fn extend(
        &mut self,
        index: Option<usize>,
        mut fragment: CallFields,
        is_later: bool,
        seed: &str,
        events: &mut VecDeque<StreamEvent>,
    ) {
        if fragment.is_blank() {
            return;
        }
        let mut position = self.position_of(index, &fragment.id);
        if let Some(call) = position.and_then(|position| self.0.get(position)) {
            // Some servers repeat the name in every fragment.
            let may_repeat = index.is_some() || !is_later;
            match call.relation(&fragment, may_repeat) {
                Relation::Continues => {}
                Relation::IsAnother => position = None,
                Relation::Repeats => fragment.arguments.clear(),
            }
        }
        let position = position.unwrap_or_else(|| {
            self.0.push(OpenCall { index, ..OpenCall::default() });
            self.0.len() - 1
        });
        let begun = self.0.iter().filter(|call| call.begun.is_some()).count();
        let Some(call) = self.0.get_mut(position) else { return };
        call.extend(fragment, events);
        // The start is emitted when the name is known.
        if call.begun.is_some() || call.fields.name.is_empty() {
            return;
        }
        let lacks_id = call.fields.id.is_empty();
        let is_taken = |id: &str| self.0.iter().any(|call| call.fields.id == id);
        let made = lacks_id.then(|| generate_id(position, seed, is_taken));
        if let Some(call) = self.0.get_mut(position) {
            if let Some(id) = made {
                (call.fields.id, call.is_generated) = (id, true);
            }
            call.begin(begun, events);
        }
    }

    /// Returns the position of the call to which a fragment belongs. `None` for a new call.
    ///
    /// Some servers send no index, or the same index for several calls. Then a different id begins another call.
    fn position_of(&self, index: Option<usize>, id: &str) -> Option<usize> {
        let last = self.0.len().checked_sub(1);
        let at_index = |call: &OpenCall| index.is_none() || call.index == index;
        if id.is_empty() {
            let position = self.0.iter().rposition(at_index);
            // Some fragments may lack the index.
            return position.or(
                last.filter(|last| self.0.get(*last).is_some_and(|call| call.index.is_none()))
            );
        }
        let is_same = |call: &OpenCall| at_index(call) && call.fields.id == id;
        let has_no_id =
            |call: &OpenCall| at_index(call) && (call.fields.id.is_empty() || call.is_generated);
        let calls = &self.0;
        calls.iter().rposition(is_same).or_else(|| {
            // The id may follow after the name.
            let position = calls.iter().rposition(at_index)?;
            calls.get(position).is_some_and(has_no_id).then_some(position)
        })
    }

    /// Ends the calls and adds them to the parts of the response.
    pub(super) fn finish(mut self, parts: &mut Parts, events: &mut VecDeque<StreamEvent>) {
        // In the order in which their starts were emitted.
        self.0.sort_by_key(|call| call.begun.unwrap_or(usize::MAX));
        for call in self.0 {
            if call.begun.is_some() {
                parts.calls.push(call.finish(events));
            } else {
                keep_unnamed_call(&mut parts.more, call.fields);
            }
        }
    }
}

/// A call that has not ended.
#[derive(Debug, Default)]
struct OpenCall {
    index: Option<usize>,
    fields: CallFields,
    /// Set if the id was generated here.
    is_generated: bool,
    /// Position among the emitted starts. A call without a name is never emitted.
    begun: Option<usize>,
}

/// The relation of a fragment to a call.
enum Relation {
    Continues,
    /// Servers that send neither index nor id send complete calls.
    IsAnother,
    /// Some servers repeat a call at the end.
    Repeats,
}

impl OpenCall {
    /// Classifies a fragment that has the position of this call.
    fn relation(&self, fragment: &CallFields, may_repeat: bool) -> Relation {
        let call = &self.fields;
        // Only the beginning of a call has a name.
        if fragment.name.is_empty() || call.name.is_empty() {
            return Relation::Continues;
        }
        let has_id = !fragment.id.is_empty() && fragment.id == call.id;
        // Only arguments that are a complete object show that the call is complete.
        let is_whole = fragment.arguments.starts_with('{')
            && call.arguments.starts_with('{')
            && serde_json::from_str::<IgnoredAny>(&call.arguments).is_ok();
        match is_whole {
            true if has_id && fragment.arguments == call.arguments => Relation::Repeats,
            true => Relation::IsAnother,
            false if has_id || (may_repeat && fragment.name == call.name) => Relation::Continues,
            false => Relation::IsAnother,
        }
    }

    fn extend(&mut self, fragment: CallFields, events: &mut VecDeque<StreamEvent>) {
        if self.begun.is_some() && !fragment.arguments.is_empty() {
            let (id, delta) = (self.fields.id.clone(), fragment.arguments.clone());
            events.push_back(StreamEvent::ToolUseInputDelta { id, delta });
        }
        self.fields.extend(fragment);
    }

    fn begin(&mut self, number: usize, events: &mut VecDeque<StreamEvent>) {
        self.begun = Some(number);
        let CallFields { id, name, arguments, .. } = &self.fields;
        events.push_back(StreamEvent::ToolUseStart { id: id.clone(), name: name.clone() });
        if !arguments.is_empty() {
            let (id, delta) = (id.clone(), arguments.clone());
            events.push_back(StreamEvent::ToolUseInputDelta { id, delta });
        }
    }

    fn finish(self, events: &mut VecDeque<StreamEvent>) -> ContentBlock {
        events.push_back(StreamEvent::ToolUseEnd { id: self.fields.id.clone() });
        let block = self.fields.into_block();
        // A call with truncated arguments must not run.
        if let Some(call) = block.as_tool_use()
            && ToolCall::invalid_json(call.input).is_none()
        {
            events.push_back(StreamEvent::ToolUse {
                id: call.id.to_owned(),
                name: call.name.to_owned(),
                input: call.input.clone(),
            });
        }
        block
    }
}
