//! Checks one value against its kind.

use serde_json::Value;

use super::{Null, Object, Problem, Wording};

/// Checks that `value` matches `kind`. `path` is the value's path for error texts. The [module](super) documents the
/// kinds.
///
/// # Errors
///
/// Returns the vendor's error for the first mismatch.
pub(crate) fn check<W: Wording>(
    vendor: W,
    path: &str,
    value: &Value,
    kind: &Value,
) -> Result<(), W::Error> {
    let Some(whole) = kind.as_str() else {
        return Object::new(vendor, path, value)?.fits_shape(kind, &[]);
    };
    if whole.ends_with(" or null") && value.is_null()
        || whole.starts_with("text or ") && value.is_string()
    {
        return Ok(());
    }
    let kind = whole.trim_end_matches(" or null").trim_start_matches("text or ");
    let words: Vec<&str> = kind.split(' ').collect();
    let problem = match (words.as_slice(), value) {
        // Go's JSON decoder accepts null for every type.
        (_, Value::Null) if W::NULL == Null::Fits => None,
        (["any"], _) | (["boolean"], Value::Bool(_)) | (["object" | "map"], Value::Object(_)) => {
            None
        }
        (["text", bounds @ ..], Value::String(text)) => {
            too_long(bounds, text.chars().count(), false)
        }
        (["name", bounds @ ..], Value::String(name)) => bad_name(bounds, name),
        (["one", "of", allowed @ ..], Value::String(found)) => {
            (!allowed.contains(&found.as_str())).then_some(Problem::Choice { allowed, found })
        }
        (["integer", bounds @ ..], Value::Number(n)) if n.is_i64() => out_of_range(bounds, n, true),
        (["count", bounds @ ..], Value::Number(n)) if n.is_u64() => out_of_range(bounds, n, true),
        (["number", bounds @ ..], Value::Number(n)) => out_of_range(bounds, n, false),
        (["nonempty", ..], Value::Array(items)) if items.is_empty() => {
            Some(Problem::Empty { is_list: true })
        }
        (["nonempty", "list", rest @ ..] | ["list", rest @ ..], Value::Array(items)) => {
            return check_list(vendor, path, items, rest);
        }
        (["union", shape], Value::Object(_)) => {
            let object = Object::new(vendor, path, value)?;
            object.fits(shape)?;
            let mut set = object.fields.keys().filter(|key| object.has(key));
            match (set.next(), set.next()) {
                (None, _) => Some(Problem::Missing),
                (Some(_), Some(second)) => return Err(object.error(second, Problem::Unknown)),
                (Some(_), None) => None,
            }
        }
        (["tagged", table], Value::Object(_)) => {
            return Object::new(vendor, path, value)?.tagged(table, "type").map(drop);
        }
        ([name], Value::Object(_)) if vendor.shape(name).is_object() => {
            return Object::new(vendor, path, value)?.fits(name);
        }
        _ => Some(Problem::Type { expected: whole, found: value }),
    };
    problem.map_or(Ok(()), |problem| Err(vendor.error(path, problem)))
}

/// Checks the length and the items of a list. `rest` is the part of the kind after the word `list`, for example `up to
/// 4 of text` (at most 4 texts).
fn check_list<W: Wording>(
    vendor: W,
    path: &str,
    items: &[Value],
    rest: &[&str],
) -> Result<(), W::Error> {
    if let Some(problem) = too_long(rest, items.len(), true) {
        return Err(vendor.error(path, problem));
    }
    let Some(of) = rest.iter().position(|word| *word == "of") else { return Ok(()) };
    let kind = Value::from(rest.get(of + 1..).unwrap_or_default().join(" "));
    let mut items = items.iter().enumerate();
    items.try_for_each(|(index, item)| check(vendor, &vendor.item(path, index), item, &kind))
}

/// Returns the problem with a name, or `None` if the name is valid. `bounds` is the part of the kind after the word
/// `name`, for example `up to 64` (characters).
fn bad_name(bounds: &[&str], name: &str) -> Option<Problem<'static>> {
    let allowed = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    match name.is_empty() {
        true => Some(Problem::Empty { is_list: false }),
        false if !name.chars().all(allowed) => Some(Problem::Pattern),
        false => too_long(bounds, name.len(), false),
    }
}

/// Returns a problem if the length `found` exceeds the bound in `bounds`, which is written `up to N`. Without a bound,
/// any length is valid.
fn too_long(bounds: &[&str], found: usize, is_list: bool) -> Option<Problem<'static>> {
    let ["up", "to", most, ..] = bounds else { return None };
    let most = most.parse().unwrap_or(usize::MAX);
    (found > most).then_some(Problem::Length { is_list, most, found })
}

/// Returns a problem if a number is outside of the bounds in `bounds`, which are written `from N` and `to N`. Both
/// bounds are optional.
fn out_of_range(
    bounds: &[&str],
    number: &serde_json::Number,
    is_integer: bool,
) -> Option<Problem<'static>> {
    let bound = |word: &str| {
        let at = bounds.iter().position(|known| *known == word)?;
        bounds.get(at + 1)?.parse::<f64>().ok()
    };
    let (least, most) = (bound("from").unwrap_or(f64::MIN), bound("to").unwrap_or(f64::MAX));
    let found = number.as_f64()?;
    let fits = (least..=most).contains(&found);
    (!fits).then_some(Problem::Range { is_integer, least, most, found })
}
