//! Bedrock's rules for images, documents and other media.

use std::collections::HashSet;

use serde_json::Value;

use super::ApiError;
use super::wording::{Object, invalid, of_the_model, unmatched};
use crate::base64;
use crate::bedrock::route::Family;
use crate::shape::Problem;

/// Maximum number of images in a request.
const MAX_IMAGES: usize = 20;

/// Maximum size of an image, in bytes.
const MAX_IMAGE: usize = 3_932_160;

/// Maximum number of documents in a request.
const MAX_DOCUMENTS: usize = 5;

/// Maximum size of a document, in bytes.
const MAX_DOCUMENT: usize = 4_718_592;

/// Maximum length of the name of a document, in characters.
const MAX_NAME: usize = 200;

/// Checks all media in the messages of a request, including media in tool results. Images and documents of tool results
/// count too.
pub(super) fn check_media(body: &Object<'_>, family: Family) -> Result<(), ApiError> {
    let (mut images, mut documents) = (Vec::new(), Vec::new());
    for message in body.objects("messages") {
        let blocks = message.objects("content");
        let results = blocks.iter().filter_map(|block| block.object("toolResult"));
        let inner: Vec<Object<'_>> = results.flat_map(|result| result.objects("content")).collect();
        let own: Vec<Object<'_>> =
            blocks.iter().filter_map(|block| block.object("document")).collect();
        if !own.is_empty() && !blocks.iter().any(|block| block.has("text")) {
            return Err(invalid("A text block must be included when using documents."));
        }
        let all = || blocks.iter().chain(&inner);
        images.extend(all().filter_map(|block| block.object("image")));
        documents.extend(own);
        documents.extend(inner.iter().filter_map(|block| block.object("document")));
        let others = |key: &'static str| all().filter_map(move |block| block.object(key));
        others("video").chain(others("audio")).try_for_each(|media| decoded(&media).map(drop))?;
    }
    check_images(&images)?;
    check_documents(&documents)?;
    let (images, documents) = (images.len(), documents.len());
    match family == Family::Claude && images + documents > MAX_IMAGES {
        true => Err(of_the_model(&format!(
            "messages: too many images and documents: {images} + {documents} > {MAX_IMAGES}"
        ))),
        false => Ok(()),
    }
}

/// Checks the number, the sizes and the formats of images.
fn check_images(images: &[Object<'_>]) -> Result<(), ApiError> {
    if images.len() > MAX_IMAGES {
        let what = format!("You can't include more than {MAX_IMAGES} images in a request.");
        return Err(invalid(what));
    }
    for image in images {
        let Some(bytes) = decoded(image)? else { continue };
        if bytes.len() > MAX_IMAGE {
            let found = bytes.len();
            return Err(of_the_model(&format!(
                "{}.source.base64: image exceeds 3.75 MB maximum: {found} bytes > {MAX_IMAGE} bytes",
                image.path
            )));
        }
        let format = image.str("format").unwrap_or_default();
        if let Some(other) = format_of(&bytes).filter(|found| *found != format) {
            return Err(of_the_model(&format!(
                "{}.source.base64: The image was specified using the image/{format} media type, \
                 but the image appears to be a image/{other} image",
                image.path
            )));
        }
    }
    Ok(())
}

/// Returns the format of an image by its first bytes. Returns `None` if they belong to no format that Bedrock has.
fn format_of(bytes: &[u8]) -> Option<&'static str> {
    match bytes {
        [0x89, b'P', b'N', b'G', ..] => Some("png"),
        [0xff, 0xd8, 0xff, ..] => Some("jpeg"),
        [b'G', b'I', b'F', b'8', ..] => Some("gif"),
        [b'R', b'I', b'F', b'F', _, _, _, _, b'W', b'E', b'B', b'P', ..] => Some("webp"),
        _ => None,
    }
}

/// Checks the number, the sizes and the names of documents.
fn check_documents(documents: &[Object<'_>]) -> Result<(), ApiError> {
    if documents.len() > MAX_DOCUMENTS {
        let what = format!("You can't include more than {MAX_DOCUMENTS} documents in a request.");
        return Err(invalid(what));
    }
    let mut names = HashSet::new();
    for document in documents {
        let name = document.str("name").unwrap_or_default();
        check_name(name, document)?;
        if !names.insert(name) {
            return Err(invalid(
                "Messages can't contain duplicate document names. Rename the document and retry \
                 your request.",
            ));
        }
        let size = decoded(document)?.map(|bytes| bytes.len()).unwrap_or_default();
        if size > MAX_DOCUMENT {
            return Err(invalid(format!(
                "The document file at {} exceeds the maximum size of 4.5 MB.",
                document.path
            )));
        }
        let source = document.object("source");
        let is_text = source.is_some_and(|source| source.has("text") || source.has("content"));
        if !is_text && !document.has("format") {
            return Err(document.error("format", Problem::Missing));
        }
    }
    Ok(())
}

/// Checks the length and the characters of the name of a document.
fn check_name(name: &str, document: &Object<'_>) -> Result<(), ApiError> {
    let found = name.chars().count();
    if found == 0 {
        return Err(document.error("name", Problem::Empty { is_list: false }));
    }
    if found > MAX_NAME {
        let problem = Problem::Length { is_list: false, most: MAX_NAME, found };
        return Err(document.error("name", problem));
    }
    let is_allowed = |c: char| c.is_ascii_alphanumeric() || " \t\n-()[]".contains(c);
    let mut pairs = name.chars().zip(name.chars().skip(1));
    let has_double_space = pairs.any(|(a, b)| a.is_whitespace() && b.is_whitespace());
    match name.chars().all(is_allowed) && !has_double_space {
        true => Ok(()),
        false => Err(invalid(
            "The document file name can only contain alphanumeric characters, whitespace \
             characters, hyphens, parentheses, and square brackets. The name can't contain more \
             than one consecutive whitespace character.",
        )),
    }
}

/// Returns the decoded bytes of a source. Returns `None` if the source has no bytes, and an error if the bytes are
/// empty or not base64.
fn decoded(media: &Object<'_>) -> Result<Option<Vec<u8>>, ApiError> {
    let Some(source) = media.object("source") else { return Ok(None) };
    if let Some(place) = source.object("s3Location")
        && !place.str("uri").is_some_and(|uri| uri.starts_with("s3://"))
    {
        let pattern = "s3://[a-z0-9][\\.\\-a-z0-9]{1,61}[a-z0-9](/.*)?";
        return Err(unmatched(&place.at("uri"), pattern));
    }
    let Some(text) = source.get("bytes").and_then(Value::as_str) else { return Ok(None) };
    if text.is_empty() {
        return Err(source.error("bytes", Problem::Empty { is_list: false }));
    }
    match base64::first_error(text).is_none() {
        true => Ok(base64::decode_lenient(text)),
        false => Err(ApiError::new(
            400,
            "SerializationException",
            "Unable to deserialize the base64 encoded value.",
        )),
    }
}
