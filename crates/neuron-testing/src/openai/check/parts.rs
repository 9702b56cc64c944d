//! OpenAI's rules for texts, images, files and audio in a message, for both APIs.

use super::ApiError;
use super::wording::{Object, invalid};
use crate::shape::Problem;

/// Checks the fields of a content part. The caller checks if the kind of the part is allowed.
pub(super) fn check_part(part: &Object<'_>) -> Result<(), ApiError> {
    part.tagged("part", "type")?;
    match part.str("type") {
        Some("image_url") => {
            part.object("image_url").map_or(Ok(()), |url| check_image(&url, "url"))
        }
        Some("input_image") if part.get("image_url").is_some() => check_image(part, "image_url"),
        Some("input_image") if part.get("file_id").is_none() => {
            Err(part.error("image_url", Problem::Missing))
        }
        Some("file") => part.object("file").map_or(Ok(()), |file| check_file(&file, "file_id")),
        Some("input_file") => check_file(part, "file_url"),
        _ => Ok(()),
    }
}

/// Checks a file, which must have `file_data`, a `file_id`, or the field `reference`.
fn check_file(file: &Object<'_>, reference: &str) -> Result<(), ApiError> {
    let Some(data) = file.str("file_data") else {
        return file.get("file_id").map_or_else(|| file.required(reference).map(drop), |_| Ok(()));
    };
    file.required("filename")?;
    match data.starts_with("data:") && data.contains(";base64,") {
        true => Ok(()),
        false => Err(invalid(
            &file.at("file_data"),
            "Expected a base64-encoded data URL with an application/pdf MIME type (e.g. \
             'data:application/pdf;base64,aW1nIGJ5dGVzIGhlcmU='), but got a value without the \
             'data:' prefix.",
            "invalid_value",
        )),
    }
}

/// Checks the image URL in the field `key`. The URL must be an HTTP URL, or a data URL of a supported image type.
fn check_image(image: &Object<'_>, key: &str) -> Result<(), ApiError> {
    let url = image.str(key).unwrap_or_default();
    if url.starts_with("https://") || url.starts_with("http://") {
        return Ok(());
    }
    let data = url.strip_prefix("data:").and_then(|rest| rest.split_once(";base64,"));
    let found = match data {
        Some(("image/png" | "image/jpeg" | "image/jpg" | "image/gif" | "image/webp", _)) => {
            return Ok(());
        }
        Some((other, _)) => format!("unsupported MIME type '{other}'"),
        None => "a value without the 'data:' prefix".to_owned(),
    };
    let what = format!(
        "Expected a base64-encoded data URL with an image MIME type (e.g. \
         'data:image/png;base64,aW1nIGJ5dGVzIGhlcmU='), but got {found}."
    );
    Err(invalid(&image.at(key), &what, "invalid_value"))
}
