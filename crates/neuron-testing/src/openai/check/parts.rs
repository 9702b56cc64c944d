//! The rules for the parts of a message: texts, images, files and sounds, in both APIs.

use serde_json::Value;

use super::ApiError;
use super::object::{Object, invalid, missing};

/// Checks a part's fields. Which kinds may stand where is for the caller.
pub(super) fn check_part(part: &Object<'_>, kind: &str) -> Result<(), ApiError> {
    match kind {
        "text" | "input_text" => {
            part.only(&[&["type", "text", "prompt_cache_breakpoint"]])?;
            part.text("text").map(drop)
        }
        "output_text" => {
            part.only(&[&["type", "text", "annotations", "logprobs"]])?;
            part.text("text").map(drop)
        }
        "refusal" => {
            part.only(&[&["type", "refusal"]])?;
            part.text("refusal").map(drop)
        }
        "summary_text" | "reasoning_text" => part.text("text").map(drop),
        "image_url" => {
            part.only(&[&["type", "image_url", "prompt_cache_breakpoint"]])?;
            let Some(image) = part.object("image_url")? else {
                return Err(missing(&part.path_of("image_url")));
            };
            image.only(&[&["url", "detail"]])?;
            check_detail(&image)?;
            check_image(&image.path_of("url"), image.text("url")?)
        }
        "input_image" => {
            part.only(&[&["type", "image_url", "file_id", "detail", "prompt_cache_breakpoint"]])?;
            check_detail(part)?;
            match (part.optional_text("image_url")?, part.optional_text("file_id")?) {
                (Some(url), _) => check_image(&part.path_of("image_url"), url),
                (None, Some(_)) => Ok(()),
                (None, None) => Err(missing(&part.path_of("image_url"))),
            }
        }
        "input_audio" => match part.object("input_audio")? {
            Some(audio) => {
                audio.text("data")?;
                audio.text("format")?;
                audio.one_of("format", &["wav", "mp3"]).map(drop)
            }
            None => Err(missing(&part.path_of("input_audio"))),
        },
        "file" => match part.object("file")? {
            Some(file) => {
                file.only(&[&["file_data", "file_id", "filename"]])?;
                check_file(&file, &["file_data", "file_id"])
            }
            None => Err(missing(&part.path_of("file"))),
        },
        "input_file" => check_file(part, &["file_data", "file_id", "file_url"]),
        _ => Ok(()),
    }
}

fn check_detail(image: &Object<'_>) -> Result<(), ApiError> {
    image.one_of("detail", &["auto", "low", "high", "original"]).map(drop)
}

fn check_file(file: &Object<'_>, sources: &[&str]) -> Result<(), ApiError> {
    let Some(key) = sources.iter().find(|key| file.get(key).is_some()) else {
        return Err(missing(&file.path_of(sources.last().copied().unwrap_or_default())));
    };
    let text = file.text(key)?;
    if *key != "file_data" {
        return Ok(());
    }
    if file.get("filename").is_none() {
        return Err(missing(&file.path_of("filename")));
    }
    match text.starts_with("data:") && text.contains(";base64,") {
        true => Ok(()),
        false => Err(invalid(
            &file.path_of("file_data"),
            "Expected a base64-encoded data URL with an application/pdf MIME type (e.g. \
             'data:application/pdf;base64,aW1nIGJ5dGVzIGhlcmU='), but got a value without the \
             'data:' prefix.",
            "invalid_value",
        )),
    }
}

fn check_image(path: &str, url: &str) -> Result<(), ApiError> {
    if url.starts_with("https://") || url.starts_with("http://") {
        return Ok(());
    }
    let expected = "Expected a base64-encoded data URL with an image MIME type (e.g. \
                    'data:image/png;base64,aW1nIGJ5dGVzIGhlcmU=')";
    let Some((media_type, _)) =
        url.strip_prefix("data:").and_then(|rest| rest.split_once(";base64,"))
    else {
        let what = format!("{expected}, but got a value without the 'data:' prefix.");
        return Err(invalid(path, &what, "invalid_value"));
    };
    match media_type {
        "image/png" | "image/jpeg" | "image/jpg" | "image/gif" | "image/webp" => Ok(()),
        other => {
            let what = format!("{expected}, but got unsupported MIME type '{other}'.");
            Err(invalid(path, &what, "invalid_value"))
        }
    }
}

/// The kind of a part.
pub(super) fn kind_of_part<'a>(part: &Object<'a>) -> Result<&'a str, ApiError> {
    part.text("type")
}

/// Whether a list of parts has nothing in it.
pub(super) fn is_empty_list(value: &Value) -> bool {
    value.as_array().is_some_and(Vec::is_empty)
}
