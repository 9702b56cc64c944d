//! Results of tools, as function responses.
//!
//! <https://ai.google.dev/gemini-api/docs/function-calling#multimodal>

use std::fmt;

use neuron_model::{ContentItem, ModelContent};
use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};

use crate::media::{self, Media};
use crate::model::Generation;

/// The result of a call.
#[derive(Serialize)]
pub(crate) struct FunctionResponse<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<&'a str>,
    name: &'a str,
    response: Outcome<'a>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    parts: Vec<Media<'a>>,
}

impl<'a> FunctionResponse<'a> {
    /// Creates the result of a call of the tool `name`. `id` is the id that the server gave to the call.
    pub(crate) fn new(name: &'a str, id: Option<&'a str>, content: ResultContent<'a>) -> Self {
        let ResultContent { items, is_error, inside, .. } = content;
        Self { id, name, response: Outcome { items, is_error }, parts: inside }
    }
}

/// The content of a tool result, split into its text and its media.
pub(crate) struct ResultContent<'a> {
    /// The items of the result. Media are replaced by a text about them.
    items: Vec<Item<'a>>,
    is_error: bool,
    /// The media within the function response.
    inside: Vec<Media<'a>>,
    /// The media that follow in a content of their own.
    pub(crate) following: Vec<Media<'a>>,
}

enum Item<'a> {
    Text(&'a str),
    /// An item for which the API has no form, shown as text.
    Shown(&'a ContentItem),
    /// A file that follows in a content of its own.
    Follows,
}

impl<'a> ResultContent<'a> {
    /// Splits the content of a result. Models before Gemini 3 accept no media in function responses. A file that the
    /// platform `vendor` does not accept becomes a text, because an error would end every later turn.
    pub(crate) fn new(
        content: &'a [ContentItem],
        is_error: bool,
        vendor: &str,
        generation: Generation,
    ) -> Self {
        let mut split =
            Self { items: Vec::new(), is_error, inside: Vec::new(), following: Vec::new() };
        for item in content {
            let file = match item.for_model() {
                ModelContent::Text(text) => {
                    split.items.push(Item::Text(text));
                    continue;
                }
                ModelContent::Image { media_type, data } => {
                    Media::InlineData { mime_type: media_type, data }
                }
                ModelContent::ImageUrl { url } => media::at(url),
                ModelContent::Pdf { data } => Media::InlineData { mime_type: media::PDF, data },
                _ => {
                    split.items.push(Item::Shown(item));
                    continue;
                }
            };
            if !file.is_accepted(vendor) {
                split.items.push(Item::Shown(item));
            } else if file.fits_response() && generation == Generation::Three {
                split.inside.push(file);
            } else {
                split.items.push(Item::Follows);
                split.following.push(file);
            }
        }
        split
    }
}

/// The text of a result, serialised as an object with the field `output` or, for a failed call, `error`.
///
/// The text is never parsed as JSON, because the API takes a key `$ref` in an object for a reference to a file.
struct Outcome<'a> {
    items: Vec<Item<'a>>,
    is_error: bool,
}

impl Serialize for Outcome<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let key = if self.is_error { "error" } else { "output" };
        let mut response = serializer.serialize_map(Some(1))?;
        response.serialize_entry(key, &format_args!("{self}"))?;
        response.end()
    }
}

impl fmt::Display for Outcome<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let is_blank = |item: &Item<'_>| matches!(item, Item::Text(text) if text.trim().is_empty());
        // The model must see that the call failed, even if the tool returned no text.
        if self.is_error && self.items.iter().all(is_blank) {
            return f.write_str("the tool failed without a message");
        }
        for (position, item) in self.items.iter().enumerate() {
            if position > 0 {
                f.write_str("\n")?;
            }
            match item {
                Item::Text(text) => f.write_str(text)?,
                Item::Shown(item) => item.fmt(f)?,
                Item::Follows => f.write_str("[the file follows]")?,
            }
        }
        Ok(())
    }
}
