//! Assembly of tool calls from the fragments in a stream.

use std::collections::VecDeque;

use neuron_http::UniqueTexts;
use neuron_model::{ContentBlock, StreamEvent};
use serde::de::IgnoredAny;

use crate::call::{CallFields, generate_id};
use crate::message_fields::keep_unnamed_call;
use crate::response::Parts;

/// The tool calls of a streamed response, in the order of their first fragments.
#[derive(Debug, Default)]
pub(super) struct OpenCalls {
    calls: Vec<OpenCall>,
    /// Ids of all calls.
    ids: UniqueTexts<'static>,
}

impl OpenCalls {
    pub(super) fn is_empty(&self) -> bool {
        self.calls.is_empty()
    }

    /// Adds a fragment of a call, and emits its events.
    ///
    /// - `index` is the server's index of the call.
    /// - `is_later` is `true` if the same delta contains an earlier fragment of any call.
    /// - `seed` identifies the response. It becomes part of the generated id if the call has no id.
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
        if let Some(call) = position.and_then(|position| self.calls.get(position)) {
            // Some servers repeat the name in every fragment. Two named fragments in one delta without an index are two
            // calls.
            let may_repeat = index.is_some() || !is_later;
            match call.relation(&fragment, may_repeat) {
                Relation::Continues => {}
                Relation::IsAnother => position = None,
                Relation::Repeats => fragment.arguments.clear(),
            }
        }
        let position = position.unwrap_or_else(|| {
            self.calls.push(OpenCall { index, ..OpenCall::default() });
            self.calls.len() - 1
        });
        let begun = self.calls.iter().filter(|call| call.begun.is_some()).count();
        let Some(call) = self.calls.get_mut(position) else { return };
        if call.fields.id.is_empty() && !fragment.id.is_empty() {
            call.server_id = Some(fragment.id.clone());
            fragment.id = self.ids.give_id(&fragment.id, String::new);
        }
        call.extend(fragment, events);
        // The event `ToolUseStart` contains the name, so it is emitted when the name has arrived.
        if call.begun.is_some() || call.fields.name.is_empty() {
            return;
        }
        if call.fields.id.is_empty() {
            call.fields.id = self.ids.give_id("", || generate_id(seed));
            call.is_generated = true;
        }
        call.begin(begun, events);
    }

    /// Returns the position of the call to which a fragment with this index and id belongs. Returns `None` if the
    /// fragment begins a new call.
    ///
    /// The index alone is not sufficient, because some servers send no index or the same index for several calls. A
    /// different id then begins another call.
    fn position_of(&self, index: Option<usize>, id: &str) -> Option<usize> {
        let last = self.calls.len().checked_sub(1);
        let at_index = |call: &OpenCall| index.is_none() || call.index == index;
        if id.is_empty() {
            let position = self.calls.iter().rposition(at_index);
            // The index may be missing in the first fragments of a call.
            return position.or(
                last.filter(|last| self.calls.get(*last).is_some_and(|call| call.index.is_none()))
            );
        }
        let is_same = |call: &OpenCall| at_index(call) && call.server_id.as_deref() == Some(id);
        let has_no_id =
            |call: &OpenCall| at_index(call) && (call.fields.id.is_empty() || call.is_generated);
        let calls = &self.calls;
        calls.iter().rposition(is_same).or_else(|| {
            // The id may arrive in a later fragment than the name.
            let position = calls.iter().rposition(at_index)?;
            calls.get(position).is_some_and(has_no_id).then_some(position)
        })
    }

    /// Ends all calls and adds them to `parts`. A call without a name is not a tool call, and is kept as an unknown
    /// field of the message.
    pub(super) fn finish(mut self, parts: &mut Parts, events: &mut VecDeque<StreamEvent>) {
        // The message contains the calls in the order in which their starts were emitted.
        self.calls.sort_by_key(|call| call.begun.unwrap_or(usize::MAX));
        for call in self.calls {
            if call.begun.is_some() {
                parts.calls.push(call.finish(events));
            } else {
                keep_unnamed_call(&mut parts.more, call.fields);
            }
        }
    }
}

/// A tool call whose fragments are still arriving.
#[derive(Debug, Default)]
struct OpenCall {
    index: Option<usize>,
    fields: CallFields,
    /// Id that the server sent. Another call of the response may have it too.
    server_id: Option<String>,
    /// Set if the server sent no id and this crate generated one.
    is_generated: bool,
    /// Number of calls that were started before this call. `None` until `ToolUseStart` is emitted, which requires a
    /// name.
    begun: Option<usize>,
}

/// The relation of a new fragment to the call that its index or its id selects.
enum Relation {
    /// The fragment continues the call.
    Continues,
    /// The fragment begins another call. Servers that send neither index nor id send each call complete.
    IsAnother,
    /// The fragment repeats the complete call, as some servers do at the end of a stream.
    Repeats,
}

impl OpenCall {
    /// Returns the relation of a fragment to this call. `may_repeat` is `true` if a fragment that repeats the call's
    /// name may still continue the call.
    fn relation(&self, fragment: &CallFields, may_repeat: bool) -> Relation {
        let call = &self.fields;
        // A fragment without a name never begins a call.
        if fragment.name.is_empty() || call.name.is_empty() {
            return Relation::Continues;
        }
        let has_id = self.server_id.as_ref().is_some_and(|id| *id == fragment.id);
        // A call is complete if its arguments are a complete JSON object. Shorter arguments may still grow.
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

    /// Adds a fragment. Emits its arguments if the start was emitted.
    fn extend(&mut self, fragment: CallFields, events: &mut VecDeque<StreamEvent>) {
        if self.begun.is_some() && !fragment.arguments.is_empty() {
            let (id, delta) = (self.fields.id.clone(), fragment.arguments.clone());
            events.push_back(StreamEvent::ToolUseInputDelta { id, delta });
        }
        self.fields.extend(fragment);
    }

    /// Emits the start of the call and the arguments received so far. `number` is the number of calls that were started
    /// before this call.
    fn begin(&mut self, number: usize, events: &mut VecDeque<StreamEvent>) {
        self.begun = Some(number);
        let CallFields { id, name, arguments, .. } = &self.fields;
        events.push_back(StreamEvent::ToolUseStart { id: id.clone(), name: name.clone() });
        if !arguments.is_empty() {
            let (id, delta) = (id.clone(), arguments.clone());
            events.push_back(StreamEvent::ToolUseInputDelta { id, delta });
        }
    }

    /// Emits the end of the call, and the whole call if its arguments are valid JSON. Returns its content block.
    fn finish(self, events: &mut VecDeque<StreamEvent>) -> ContentBlock {
        events.push_back(StreamEvent::ToolUseEnd { id: self.fields.id.clone() });
        let block = self.fields.into_block();
        events.extend(block.as_tool_use().and_then(StreamEvent::tool_use));
        block
    }
}
