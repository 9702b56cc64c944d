//! The items of a stream, and the assignment of events to items.
//!
//! An event of OpenAI contains the output index and the id of its item. The item of a tool call also has a `call_id`.
//! Compatible servers omit, repeat or change some of these values:
//!
//! - llama.cpp sends no output index. Its calls have no item id, and the events of a call contain the `call_id` instead
//!   (`tools/server/server-task.cpp`).
//! - Copilot sends a different item id in each event of the same item.
//! - Some proxies send the same output index for all items.

use serde_json::{Value, json};

use super::response::text_of;

/// The types of items that are streamed in fragments.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Message,
    Reasoning,
    Call,
}

/// Names of the tools that xAI runs on its own server for `x_search`. Their calls have the type `custom_tool_call`,
/// like calls of the caller's tools. They are not treated as calls of the caller's tools, because they have already
/// run.
///
/// <https://docs.x.ai/docs/guides/tools/search-tools>
const XAI_TOOLS: [&str; 5] =
    ["x_keyword_search", "x_semantic_search", "x_user_search", "x_thread_fetch", "view_x_video"];

impl Kind {
    /// Returns the type of an item, or `None` if the item is not streamed in fragments.
    pub(crate) fn of(item: &Value) -> Option<Self> {
        match text_of(item, "type") {
            "message" => Some(Self::Message),
            "reasoning" => Some(Self::Reasoning),
            "function_call" => Some(Self::Call),
            "custom_tool_call" if !XAI_TOOLS.contains(&text_of(item, "name")) => Some(Self::Call),
            _ => None,
        }
    }
}

/// The output index and the ids in an event. An id that the event does not contain is empty.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Key<'e> {
    pub(crate) output_index: Option<usize>,
    pub(crate) id: &'e str,
    pub(crate) call_id: &'e str,
}

impl<'e> Key<'e> {
    /// Returns the key of an event that contains a whole item.
    pub(crate) fn of(output_index: Option<usize>, item: &'e Value) -> Self {
        Self { output_index, id: text_of(item, "id"), call_id: text_of(item, "call_id") }
    }
}

/// An item whose fragments are still arriving, or whose last fragment has arrived.
#[derive(Debug)]
pub(crate) struct OpenItem {
    kind: Kind,
    output_index: Option<usize>,
    id: String,
    call_id: String,
    /// The text or the reasoning that was received so far.
    pub(crate) shown: String,
    /// Set if the item is a tool call whose start was emitted.
    pub(crate) call: Option<OpenCall>,
    /// Number of the item, in the order in which items began.
    pub(crate) number: usize,
    is_done: bool,
}

/// The sort key of an item within the message. It consists of the output index and the number of the item. The number
/// sorts items without an index or with equal indices, which some servers send.
pub(crate) type Order = (Option<usize>, usize);

/// A tool call whose start was emitted.
#[derive(Debug)]
pub(crate) struct OpenCall {
    /// The JSON of the item in its first event, whose arguments are incomplete.
    pub(crate) json: Value,
    pub(crate) id: String,
    pub(crate) name: String,
    /// The arguments that were received so far.
    pub(crate) arguments: String,
}

/// The strength of a match between an event and an item, from weak to strong.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Fit {
    /// The event may belong to the item. No index and no id is equal. The event or the item has no output index. If the
    /// item is a call, no ids differ.
    Unknown,
    /// The output indices of the event and the item are equal, and none of their ids.
    OutputIndex,
    /// An id of the event is equal to an id of the item. Their output indices may differ.
    Id,
    /// The output index and an id are equal.
    Both,
}

impl OpenCall {
    /// Returns the JSON of the item, completed with the arguments that were received so far.
    pub(crate) fn whole(&mut self) -> Value {
        let mut json = std::mem::take(&mut self.json);
        let is_custom = text_of(&json, "type") == "custom_tool_call";
        let key = if is_custom { "input" } else { "arguments" };
        if let Some(fields) = json.as_object_mut().filter(|_| !self.arguments.is_empty()) {
            fields.insert(key.to_owned(), Value::String(self.arguments.clone()));
        }
        json
    }
}

impl OpenItem {
    /// Returns `true` if the item has this type and has not ended.
    fn is_open(&self, kind: Kind) -> bool {
        !self.is_done && self.kind == kind
    }

    pub(crate) fn order(&self) -> Order {
        (self.output_index, self.number)
    }

    /// Returns the received text as a message item without an id. Returns `None` if there is no text. Also returns
    /// `None` for reasoning, because the API would reject reasoning without its signature.
    pub(crate) fn message(&self) -> Option<Value> {
        let content = json!([{ "type": "output_text", "text": self.shown, "annotations": [] }]);
        let message = json!({ "type": "message", "role": "assistant", "content": content });
        (self.kind == Kind::Message && !self.shown.is_empty()).then_some(message)
    }

    /// Returns how well an event matches the item, or `None` if the event belongs to another item.
    fn fit(&self, key: Key<'_>) -> Option<Fit> {
        let same = |known: &str, id: &str| !id.is_empty() && known == id;
        let has_id = same(&self.id, key.id)
            // llama.cpp puts the `call_id` into the field for the item's id.
            || same(&self.call_id, key.id)
            || same(&self.call_id, key.call_id);
        let is_other_call = differ(&self.call_id, key.call_id);
        match (self.output_index, key.output_index) {
            (Some(known), Some(output_index)) if known == output_index && has_id => Some(Fit::Both),
            // An equal id outweighs a different index, because some proxies send wrong indices.
            _ if has_id => Some(Fit::Id),
            _ if is_other_call => None,
            (Some(known), Some(output_index)) => {
                (known == output_index).then_some(Fit::OutputIndex)
            }
            _ => {
                // Copilot changes the ids of other items in every event, so only the ids of calls are compared.
                let is_other = self.kind == Kind::Call && differ(&self.id, key.id);
                (!is_other).then_some(Fit::Unknown)
            }
        }
    }
}

/// Returns `true` if both ids are known and differ.
fn differ(known: &str, id: &str) -> bool {
    !known.is_empty() && !id.is_empty() && known != id
}

/// The items of a stream, in the order of their first events.
#[derive(Debug, Default)]
pub(crate) struct OpenItems {
    items: Vec<OpenItem>,
    begun: usize,
}

impl OpenItems {
    pub(crate) fn get_mut(&mut self, index: usize) -> Option<&mut OpenItem> {
        self.items.get_mut(index)
    }

    /// Begins an item and returns its position in `items`. If the event repeats the begin of an open item, no item is
    /// added and the position of the open item is returned.
    pub(crate) fn begin(&mut self, kind: Kind, key: Key<'_>) -> usize {
        if let Some(index) = self.known(kind, key) {
            return index;
        }
        let number = self.number();
        self.items.push(OpenItem {
            kind,
            output_index: key.output_index,
            id: key.id.to_owned(),
            call_id: key.call_id.to_owned(),
            shown: String::new(),
            call: None,
            number,
            is_done: false,
        });
        self.items.len() - 1
    }

    /// Returns the number of the next item, beginning with 1.
    pub(crate) fn number(&mut self) -> usize {
        self.begun += 1;
        self.begun
    }

    /// Returns the position of the open item to which a fragment belongs, or `None` if no item matches.
    ///
    /// The item is found by its id, or else by its output index. If neither is known, it is found by its type, provided
    /// that a single open item has this type. If several items match equally well, returns the newest.
    pub(crate) fn find(&self, kind: Kind, key: Key<'_>) -> Option<usize> {
        // Most fragments belong to the newest item, so it is tried first.
        let newest = self.items.last().filter(|item| item.is_open(kind));
        match newest.and_then(|item| item.fit(key)) {
            Some(Fit::Both) => self.items.len().checked_sub(1),
            _ => self.fitting(kind, key).last(),
        }
    }

    /// Ends the open item that matches a complete item, and returns it. If several items match equally well, the oldest
    /// ends. Returns `None` if no item matches.
    pub(crate) fn end(&mut self, kind: Kind, key: Key<'_>) -> Option<&mut OpenItem> {
        let index = self.fitting(kind, key).next()?;
        let item = self.items.get_mut(index)?;
        item.is_done = true;
        Some(item)
    }

    /// Returns the positions of the open items that match the event best. All of them match equally well.
    fn fitting(&self, kind: Kind, key: Key<'_>) -> impl Iterator<Item = usize> {
        let fits = move || {
            let items = self.items.iter().enumerate();
            let open = items.filter(move |(_, item)| item.is_open(kind));
            open.filter_map(move |(index, item)| Some((item.fit(key)?, index)))
        };
        let best = fits().map(|(fit, _)| fit).max();
        // Without an equal id or index, the event is assigned only if a single item is possible.
        let is_known = best != Some(Fit::Unknown) || fits().count() == 1;
        let best = best.filter(|_| is_known);
        fits().filter(move |(fit, _)| Some(*fit) == best).map(|(_, index)| index)
    }

    /// Returns the position of the open item whose begin this event repeats. Some proxies repeat the event with more
    /// fields. Returns `None` if the event begins a new item.
    fn known(&self, kind: Kind, key: Key<'_>) -> Option<usize> {
        self.items.iter().position(|item| {
            item.is_open(kind)
                && match item.fit(key) {
                    Some(Fit::Both) => true,
                    // Once a call has arguments, an event with the same id and without an index begins another call.
                    Some(Fit::Id) => {
                        let is_new = |call: &OpenCall| call.arguments.is_empty();
                        key.output_index.is_none() && item.call.as_ref().is_none_or(is_new)
                    }
                    _ => false,
                }
        })
    }

    /// Removes all items and returns the items that have not ended.
    pub(crate) fn take_open(&mut self) -> impl Iterator<Item = OpenItem> + use<> {
        std::mem::take(&mut self.items).into_iter().filter(|item| !item.is_done)
    }
}

/// An item of a streamed response whose complete JSON has arrived.
#[derive(Debug)]
pub(crate) struct DoneItem {
    pub(crate) order: Order,
    id: String,
    call_id: String,
    pub(crate) json: Value,
}

impl DoneItem {
    pub(crate) fn new(order: Order, key: Key<'_>, json: Value) -> Self {
        Self { order, id: key.id.to_owned(), call_id: key.call_id.to_owned(), json }
    }

    /// Returns the output index, or `None` if the server sent none.
    pub(crate) fn output_index(&self) -> Option<usize> {
        self.order.0
    }

    /// Returns `true` if `item` repeats this item. An item without an id and without an output index never counts as a
    /// repetition.
    ///
    /// Both items must have equal ids, output indices and content. The content is compared without `call_id`, which
    /// this crate may have generated, and without `status`, which may change.
    pub(crate) fn repeats(&self, output_index: Option<usize>, item: &Value) -> bool {
        let content = |item: &Value| {
            let mut item = item.clone();
            if let Some(fields) = item.as_object_mut() {
                fields.retain(|key, _| key != "call_id" && key != "status");
            }
            item
        };
        let Key { id, call_id, .. } = Key::of(None, item);
        let is_known = output_index.is_some() || !id.is_empty() || !call_id.is_empty();
        let has_its_ids = self.id == id && self.call_id == call_id;
        is_known
            && self.output_index() == output_index
            && has_its_ids
            && content(&self.json) == content(item)
    }

    /// Returns `true` if `item` has the same `id` or the same `call_id` as this item.
    fn has_id_of(&self, item: &Value) -> bool {
        let Key { id, call_id, .. } = Key::of(None, item);
        (!id.is_empty() && self.id == id) || (!call_id.is_empty() && self.call_id == call_id)
    }
}

/// Returns the items that `output` contains and `done` does not, each with its index in `output`. `output` is the
/// complete list of items in the last event of a stream.
pub(crate) fn missing(done: &[DoneItem], output: Vec<Value>) -> Vec<(usize, Value)> {
    let mut known: Vec<_> = done.iter().collect();
    let mut take = |fits: &dyn Fn(&DoneItem) -> bool| {
        let position = known.iter().position(|done| fits(done));
        position.map(|position| known.remove(position)).is_some()
    };
    let mut items: Vec<_> = output.into_iter().enumerate().collect();
    // Items are matched by id first, and the remaining items by index or by equal content.
    items.retain(|(_, item)| !take(&|done| done.has_id_of(item)));
    items.retain(|(output_index, item)| {
        !take(&|done| done.output_index() == Some(*output_index) || done.json == *item)
    });
    items
}
