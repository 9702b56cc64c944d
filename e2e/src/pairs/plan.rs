//! [`Plan`], the description of a conversation, and its parts. A plan has no JSON of any vendor.
//!
//! Every part of a plan stays valid when another part is removed, so that a failing conversation can be made smaller.

use std::fmt;

use neuron_types::{
    ContentItem, DocumentSource, EmbeddedResource, ImageSource, ResourceLink, StopReason, ToolCall,
};
use serde_json::{Value, json};

/// A text that no other part of the conversation contains, such as `q17z`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Mark(pub(crate) u64);

impl fmt::Display for Mark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "q{}z", self.0)
    }
}

impl Mark {
    /// Returns the base64 form of bytes that no other part of the conversation has.
    pub(crate) fn base64(self) -> String {
        // Each byte of the number becomes four characters without padding.
        self.0.to_be_bytes().iter().map(|byte| format!("AA{byte:02x}")).collect()
    }
}

/// Returns all marks in a text, in order.
pub(crate) fn marks(text: &str) -> impl Iterator<Item = &str> {
    text.match_indices('q').filter_map(|(start, _)| {
        let rest = text.get(start..)?;
        let end = rest.find('z')?;
        let digits = rest.get(1..end)?;
        let is_mark = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
        is_mark.then(|| rest.get(..=end))?
    })
}

/// A conversation.
#[derive(Debug, Clone)]
pub(crate) struct Plan {
    pub(crate) system: Option<Mark>,
    /// Set if the requests ask for thinking, with a budget.
    pub(crate) thinks: bool,
    pub(crate) turns: Vec<Turn>,
}

/// A step of a conversation.
#[derive(Debug, Clone)]
pub(crate) enum Turn {
    User(Vec<Said>),
    /// A message with instructions in the middle of the conversation.
    System(Mark),
    /// A summary replaces all messages so far.
    Cut(Mark),
    Answer(Answer),
}

/// A part of a user's message.
#[derive(Debug, Clone)]
pub(crate) enum Said {
    Text(Text),
    Image(ImageSource),
    Document(DocumentSource),
}

/// A response of a model, and the results of its tool calls.
#[derive(Debug, Clone)]
pub(crate) struct Answer {
    /// Index of the wire that sends the response.
    pub(crate) wire: usize,
    /// Selects one of the models of the wire.
    pub(crate) model: usize,
    pub(crate) is_streamed: bool,
    pub(crate) parts: Vec<Part>,
    pub(crate) stop: Option<StopReason>,
    /// The results of the calls, in order. A call without a planned result gets a short text.
    pub(crate) results: Vec<Outcome>,
    pub(crate) timing: Timing,
}

/// A part of a response.
#[derive(Debug, Clone)]
pub(crate) enum Part {
    Text(Text),
    Thinking(Mark),
    Call {
        mark: Mark,
        id: CallId,
        name: &'static str,
        args: Args,
    },
    /// Content that only this vendor's servers send.
    Own {
        mark: Mark,
        kind: usize,
    },
    /// Content after which the server pauses its response.
    Pause(Mark),
}

/// A text with a mark.
#[derive(Debug, Clone)]
pub(crate) enum Text {
    Plain(Mark),
    Unicode(Mark),
    Escaped(Mark),
    Long(Mark),
    /// White space without a mark.
    Blank,
    Empty,
}

impl fmt::Display for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Plain(mark) => write!(f, "words {mark}"),
            Self::Unicode(mark) => writeln!(f, "  ünï 🦀 {mark} ﷽\u{200d}"),
            Self::Escaped(mark) => write!(f, "\"\\{mark}\t\u{1}</a>$ref{{\r\n"),
            Self::Long(mark) => write!(f, "{mark} {}", "lorem ipsum ".repeat(300)),
            Self::Blank => f.write_str(" \n"),
            Self::Empty => Ok(()),
        }
    }
}

/// The id of a tool call.
#[derive(Debug, Clone, Copy)]
pub(crate) enum CallId {
    /// An id that no other call has.
    Unique,
    /// An id that begins anew in every response.
    Numbered,
    /// An id with characters that only some vendors accept.
    Dotted,
    /// An id that is longer than some vendors accept.
    Long,
    /// No id. The provider creates one.
    Missing,
}

impl CallId {
    /// Returns the id of the call with this mark, which is the call with the number `index` of its response.
    pub(crate) fn text(self, mark: Mark, index: usize) -> String {
        match self {
            Self::Unique => format!("call_{}", mark.0),
            Self::Numbered => format!("functions_{index}"),
            Self::Dotted => format!("functions.look:{index}"),
            Self::Long => format!("call_{}{index}", "0123456789".repeat(8)),
            Self::Missing => String::new(),
        }
    }
}

/// The arguments of a tool call.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Args {
    Empty,
    Flat,
    Nested,
    Unicode,
    /// Arguments that were cut off.
    Broken,
}

impl Args {
    pub(crate) fn json(self, mark: Mark) -> Value {
        let text = mark.to_string();
        match self {
            Self::Empty => json!({}),
            Self::Flat => json!({"a": text}),
            Self::Nested => json!({
                "list": [{"deep": [[{"er": text}], null]}, true, -2.5, 1e300],
                "none": {}, "most": u64::MAX, "least": i64::MIN, "$ref": "#/a", "type": "raw",
            }),
            Self::Unicode => json!({"ключ 🦀": format!("\"ü\\\n{text}\u{1}"), "": ""}),
            Self::Broken => ToolCall::invalid_json_input(format!("{{\"a\": \"{text}")),
        }
    }
}

/// The result of a tool call.
#[derive(Debug, Clone)]
pub(crate) struct Outcome {
    pub(crate) content: Vec<ContentItem>,
    pub(crate) is_error: bool,
}

/// The time at which the results of the calls enter the conversation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Timing {
    /// Immediately, in a message of their own.
    Now,
    /// Immediately, in one message with a text of the user.
    WithText(Mark),
    /// After a message of the user, as after a pause for an approval. The history is repaired.
    Late(Mark),
    /// Never. The history is repaired.
    Never,
}

/// Returns an image in base64.
pub(crate) fn image(mark: Mark, kind: &str) -> ImageSource {
    ImageSource::Base64 { media_type: kind.into(), data: mark.base64() }
}

/// Returns an image at a URL.
pub(crate) fn image_url(mark: Mark) -> ImageSource {
    ImageSource::Url { url: format!("https://example.com/{mark}.png") }
}

/// The kinds of items in tool results. [`item`] creates one.
pub(crate) const ITEMS: u64 = 12;

/// Returns an item of a tool result.
pub(crate) fn item(mark: Mark, kind: u64) -> ContentItem {
    let blob = |kind: &str| ContentItem::Resource {
        resource: EmbeddedResource::blob(format!("file:///{mark}"), mark.base64())
            .with_mime_type(kind),
    };
    match kind {
        0 => ContentItem::Text(Text::Unicode(mark).to_string()),
        1 => ContentItem::Text(Text::Escaped(mark).to_string()),
        2 => ContentItem::Text(json!({"$ref": "#/x", "found": mark.to_string()}).to_string()),
        3 => ContentItem::Text(Text::Blank.to_string()),
        4 => ContentItem::Image { source: image(mark, "image/png") },
        5 => ContentItem::Image { source: image(mark, "image/gif") },
        6 => ContentItem::Image { source: image_url(mark) },
        7 => ContentItem::Image { source: image(mark, "image/tiff") },
        8 => blob("application/pdf"),
        9 => ContentItem::Audio { media_type: "audio/wav".into(), data: "UklGRg==".into() },
        10 => ContentItem::ResourceLink {
            resource: ResourceLink::new(format!("file:///{mark}"), "a file"),
        },
        _ => ContentItem::Resource {
            resource: EmbeddedResource::text("file:///a.md", format!("# {mark}")),
        },
    }
}

/// Returns the plans that have one part less than `plan`, or a simpler part. The plans with the fewest parts come first.
pub(crate) fn smaller(plan: &Plan) -> Vec<Plan> {
    let mut plans = Vec::new();
    let mut add = |change: &dyn Fn(&mut Plan)| {
        let mut changed = plan.clone();
        change(&mut changed);
        plans.push(changed);
    };
    for index in 0..plan.turns.len() {
        add(&|plan| drop(plan.turns.remove(index)));
    }
    if plan.system.is_some() {
        add(&|plan| plan.system = None);
    }
    if plan.thinks {
        add(&|plan| plan.thinks = false);
    }
    for (index, turn) in plan.turns.iter().enumerate() {
        match turn {
            Turn::User(said) => {
                for part in 0..said.len() {
                    add(&|plan| {
                        if let Some(Turn::User(said)) = plan.turns.get_mut(index) {
                            said.remove(part);
                        }
                    });
                }
            }
            Turn::Answer(answer) => {
                let mut add = |change: &dyn Fn(&mut Answer)| {
                    add(&|plan| {
                        if let Some(Turn::Answer(answer)) = plan.turns.get_mut(index) {
                            change(answer);
                        }
                    });
                };
                for part in 0..answer.parts.len() {
                    add(&|answer| {
                        answer.parts.remove(part);
                    });
                }
                for result in 0..answer.results.len() {
                    add(&|answer| drop(answer.results.remove(result)));
                }
                if answer.timing != Timing::Now {
                    add(&|answer| answer.timing = Timing::Now);
                }
                if answer.is_streamed {
                    add(&|answer| answer.is_streamed = false);
                }
                if answer.stop.is_some() {
                    add(&|answer| answer.stop = None);
                }
                if answer.model > 0 {
                    add(&|answer| answer.model = 0);
                }
            }
            Turn::System(_) | Turn::Cut(_) => {}
        }
    }
    plans
}
