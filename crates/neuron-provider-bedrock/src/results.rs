//! Results of tools in a request. The families of models differ in the results that they accept.
//!
//! <https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_ToolResultBlock.html>

use neuron_model::{ContentItem, ModelContent};
use serde_json::Map;

use crate::block::Block;
use crate::media::{Files, Image, inline};
use crate::model::Family;

/// The content of a tool result, split by its place in the request.
#[derive(Debug, Default)]
pub(crate) struct ResultContent<'a> {
    /// The blocks within the result. Never empty.
    pub(crate) inside: Vec<Block<'a>>,
    /// The files that follow the result, because the model does not accept them within the result.
    pub(crate) following: Vec<Block<'a>>,
    /// Value of the field `status`.
    pub(crate) status: Option<&'static str>,
}

impl<'a> ResultContent<'a> {
    /// Converts the content of a result. A file that the API does not accept becomes a text, because an error would end
    /// every later turn.
    pub(crate) fn new(
        content: &'a [ContentItem],
        is_error: bool,
        family: Family,
        files: &mut Files,
    ) -> Self {
        let mut result = Self::default();
        for item in content {
            let file = match item.for_model() {
                ModelContent::Text(text) => {
                    result.inside.extend(Block::text(text));
                    continue;
                }
                // The result of a failed call has only texts, as Claude requires.
                _ if is_error => None,
                ModelContent::Image { media_type, data } => {
                    Image::new(media_type, data).map(Block::Image)
                }
                ModelContent::ImageUrl { url } => {
                    inline(url).and_then(|(kind, data)| Image::new(kind, data)).map(Block::Image)
                }
                ModelContent::Pdf { data } => Some(Block::Document(files.pdf(data))),
                _ => None,
            };
            match file.filter(|file| !files.leaves_out(file)) {
                Some(file) if is_inside(&file, family) => result.inside.push(file),
                Some(file) => {
                    result.following.push(file);
                    result.inside.push(Block::Text("[the file follows]".into()));
                }
                None => result.inside.extend(Block::text(item.to_string())),
            }
        }
        result.complete(is_error, family);
        result
    }

    /// Adds what the family of the model requires in every result.
    fn complete(&mut self, is_error: bool, family: Family) {
        if self.inside.is_empty() {
            let text = match is_error {
                true => "[the tool failed without a message]",
                false => "[the tool returned nothing]",
            };
            self.inside.push(Block::Text(text.into()));
        }
        match family {
            // Palmyra rejects the field `status`.
            Family::Palmyra if is_error => {
                self.inside.insert(0, Block::Text("[the tool failed]".into()));
            }
            Family::Palmyra => {}
            _ => self.status = is_error.then_some("error"),
        }
        if family == Family::Mistral {
            self.write_json(is_error);
        }
    }

    /// Replaces the texts by a JSON object, because Mistral's models accept no text in results.
    fn write_json(&mut self, is_error: bool) {
        let mut texts = Vec::new();
        self.inside.retain(|block| match block {
            Block::Text(text) => {
                texts.push(text.to_string());
                false
            }
            _ => true,
        });
        let key = if is_error { "error" } else { "output" };
        let json = Map::from_iter([(key.to_owned(), texts.join("\n").into())]);
        self.inside.insert(0, Block::Json(json));
    }
}

/// Returns `true` if the models accept a file within a tool result.
///
/// AWS names Claude and Nova for images
/// (<https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_ToolResultContentBlock.html>). Llama 4 accepts
/// them too, and all other models reject them (<https://github.com/anomalyco/opencode/issues/49443>).
fn is_inside(file: &Block<'_>, family: Family) -> bool {
    match (file, family) {
        (_, Family::Claude | Family::Llama4) => true,
        (Block::Document(_), family) => matches!(family, Family::Llama | Family::Mistral),
        (_, family) => matches!(family, Family::Nova | Family::Nova2),
    }
}

/// Returns `true` if a message with tool results may also have this block.
pub(crate) fn may_be_beside_results(block: &Block<'_>, family: Family) -> bool {
    match family {
        Family::Llama | Family::Llama4 | Family::Mistral | Family::Palmyra => false,
        Family::Claude => !block.is(&["document", "video"]),
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use neuron_model::{EmbeddedResource, ImageSource};
    use serde_json::{Value, json};

    use super::*;

    fn png() -> ContentItem {
        let source = ImageSource::Base64 { media_type: "image/png".into(), data: "aGk=".into() };
        ContentItem::Image { source }
    }

    fn pdf() -> ContentItem {
        let resource = EmbeddedResource::blob("a:b", "aGk=").with_mime_type("application/pdf");
        ContentItem::Resource { resource }
    }

    #[track_caller]
    fn check(
        family: Family,
        content: &[ContentItem],
        is_error: bool,
        inside: Value,
        following: Value,
    ) {
        let result = ResultContent::new(content, is_error, family, &mut Files::default());
        assert_eq!(serde_json::to_value(&result.inside).unwrap(), inside, "{family:?}");
        assert_eq!(serde_json::to_value(&result.following).unwrap(), following, "{family:?}");
        let status = (is_error && family != Family::Palmyra).then_some("error");
        assert_eq!(result.status, status, "{family:?}");
    }

    #[test]
    fn files_are_where_the_model_accepts_them() {
        let image = json!({"image": {"format": "png", "source": {"bytes": "aGk="}}});
        let document = json!({"document": {"format": "pdf", "name": "Document 1", "source": {"bytes": "aGk="}}});
        let note = json!({"text": "[the file follows]"});
        let files = [png(), pdf()];
        for (family, inside, following) in [
            (Family::Claude, json!([image, document]), json!([])),
            (Family::Llama4, json!([image, document]), json!([])),
            (Family::Llama, json!([note, document]), json!([image])),
            (Family::Nova, json!([image, note]), json!([document])),
            (Family::Nova2, json!([image, note]), json!([document])),
            (Family::Gpt, json!([note, note]), json!([image, document])),
            (Family::Grok, json!([note, note]), json!([image, document])),
            (Family::Other, json!([note, note]), json!([image, document])),
            (Family::Unknown, json!([note, note]), json!([image, document])),
            (
                Family::Mistral,
                json!([{"json": {"output": "[the file follows]"}}, document]),
                json!([image]),
            ),
        ] {
            check(family, &files, false, inside, following);
        }
        let url = |url: &str| ContentItem::Image { source: ImageSource::Url { url: url.into() } };
        check(
            Family::Claude,
            &[url("data:image/png;base64,aGk=")],
            false,
            json!([image]),
            json!([]),
        );
        check(
            Family::Claude,
            &[url("https://a/b.png")],
            false,
            json!([{"text": "[image]"}]),
            json!([]),
        );
    }

    #[test]
    fn failed_result_has_only_texts() {
        let texts = json!([{"text": "[image]"}, {"text": "no"}]);
        let content = [png(), ContentItem::Text("no".into()), ContentItem::Text(" ".into())];
        check(Family::Claude, &content, true, texts, json!([]));
        let content = [ContentItem::Text("no".into())];
        let texts = json!([{"text": "[the tool failed]"}, {"text": "no"}]);
        check(Family::Palmyra, &content, true, texts, json!([]));
        check(Family::Mistral, &content, true, json!([{"json": {"error": "no"}}]), json!([]));
    }

    #[test]
    fn result_is_never_empty() {
        for content in [&[][..], &[ContentItem::Text("\n".into())]] {
            let nothing = json!([{"text": "[the tool returned nothing]"}]);
            check(Family::Nova, content, false, nothing, json!([]));
            let failed = json!([{"text": "[the tool failed without a message]"}]);
            check(Family::Nova, content, true, failed, json!([]));
        }
    }
}
