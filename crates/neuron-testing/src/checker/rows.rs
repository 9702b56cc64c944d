//! Checks the conditions under which a vendor rejects a request.
//!
//! A section is a map from conditions, joined with ` & `, to the vendor's error for a request that meets all of them.
//! In the error, `{path}` and `{found}` are the path and the value that the last condition found.
//!
//! | condition | meaning |
//! |---|---|
//! | `a.b` | the body has a value at this place |
//! | `a.b = x y`, `a.b != x y` | a value that is one of these words, or none; `@c.d` stands for the values there |
//! | `a.b ^ x y`, `a.b has x y` | a text that begins with one of these words, or contains one |
//! | `a.b < 5`, `a.b > c.d` | a number that is less or greater than this number, or than the number at this place |
//! | `a.b blank` | a text without other characters than white space |
//! | `a.*.b twice` | a value that is at two of these places |
//! | `a.b ^ x and != xyz` | a value that passes both tests |
//! | `!` and a condition | the body has no such value |
//!
//! A step of a place is the name of a field, or `*` for all items of a list or all fields of an object. A filter may
//! follow: `*[type=text,!id]` selects those whose `type` is `text` and that have no `id`, and `a[*]` selects `a`
//! unless it is empty. `|` separates places, each of which counts. A place that begins with `$` is one of the facts
//! that the vendor's code knows beside the body, such as the path of the request. A null counts as missing.

use serde_json::Value;

use super::{Checked, Checker, join};

impl Checker<'_> {
    /// Checks a body and the facts about its request against the conditions of a section.
    ///
    /// # Errors
    ///
    /// Returns the vendor's error for the first row whose conditions are met.
    pub(crate) fn check_rows(self, section: &str, body: &Value, facts: &Value) -> Checked {
        let rows = self.table.json.get(section).and_then(Value::as_object);
        for (conditions, words) in rows.into_iter().flatten() {
            let mut last = (String::new(), &Value::Null);
            if conditions.split(" & ").all(|condition| holds(condition, body, facts, &mut last)) {
                let (path, found) = last;
                let found = shown(found);
                return Err(self.write(words, &path, &[("found", &found)]));
            }
        }
        Ok(())
    }
}

/// Returns `true` if a condition is met. If a value meets it, `last` is set to this value and its path.
fn holds<'a>(
    condition: &str,
    body: &'a Value,
    facts: &'a Value,
    last: &mut (String, &'a Value),
) -> bool {
    let positive = condition.strip_prefix('!');
    let (places, tests) = positive.unwrap_or(condition).split_once(' ').unzip();
    let places = places.unwrap_or(positive.unwrap_or(condition));
    let at = |places: &str| match places.strip_prefix('$') {
        Some(fact) => values_at(facts, fact),
        None => values_at(body, places),
    };
    let meets = |value: &Value, test: &str| {
        let mut words = test.split(' ');
        let test = words.next().unwrap_or_default();
        let words: Vec<&str> = words.collect();
        let is = |value: &Value, word: &str| match word.strip_prefix('@') {
            Some(places) => at(places).iter().any(|(_, other)| *other == value),
            None => shown(value) == word,
        };
        let number = || {
            let place = words.first().copied().unwrap_or_default();
            let at_place = || at(place).first().and_then(|(_, value)| value.as_f64());
            value.as_f64().zip(place.parse().ok().or_else(at_place))
        };
        match test {
            "=" => words.iter().any(|word| is(value, word)),
            "!=" => !words.iter().any(|word| is(value, word)),
            "^" => words.iter().any(|word| shown(value).starts_with(word)),
            "has" => words.iter().any(|word| shown(value).contains(word)),
            "<" => number().is_some_and(|(value, other)| value < other),
            ">" => number().is_some_and(|(value, other)| value > other),
            "blank" => value.as_str().is_some_and(|text| text.trim().is_empty()),
            "twice" => at(places).iter().filter(|(_, other)| *other == value).count() > 1,
            _ => false,
        }
    };
    let meets_all = |value: &Value| {
        tests.is_none_or(|tests| tests.split(" and ").all(|test| meets(value, test)))
    };
    let hit = at(places).into_iter().find(|(_, value)| meets_all(value));
    let is_met = hit.is_some() == positive.is_none();
    if let Some(hit) = hit {
        *last = hit;
    }
    is_met
}

/// Returns the values at places that are not null, each with its path.
pub(crate) fn values_at<'a>(root: &'a Value, places: &str) -> Vec<(String, &'a Value)> {
    let found = places.split('|').flat_map(|place| {
        place.split('.').fold(vec![(String::new(), root)], |found, step| {
            found.iter().flat_map(|(path, value)| children(path, value, step)).collect()
        })
    });
    found.filter(|(_, value)| !value.is_null()).collect()
}

fn children<'a>(path: &str, value: &'a Value, step: &str) -> Vec<(String, &'a Value)> {
    let (name, filter) = step.strip_suffix(']').and_then(|step| step.split_once('[')).unzip();
    let (name, filter) = (name.unwrap_or(step), filter.unwrap_or_default());
    let is_wanted = |key: &str, child: &Value| {
        let mut tests = filter.split(',').filter(|test| !test.is_empty());
        (name == "*" || name == key) && tests.all(|test| passes(child, test))
    };
    let items = value.as_array().into_iter().flatten().enumerate();
    let items = items.map(|(index, item)| (index.to_string(), item));
    let fields = value.as_object().into_iter().flatten().map(|(key, field)| (key.clone(), field));
    let wanted = items.chain(fields).filter(|(key, child)| is_wanted(key, child));
    wanted.map(|(key, child)| (join(path, key), child)).collect()
}

/// Returns `true` if a value passes one test of a filter: `key`, `key=value` or `*`, or one of them after `!`.
fn passes(value: &Value, test: &str) -> bool {
    let positive = test.strip_prefix('!');
    let (key, wanted) = match positive.unwrap_or(test).split_once('=') {
        Some((key, wanted)) => (key, Some(wanted)),
        None => (positive.unwrap_or(test), None),
    };
    let found = match key {
        "*" => value.as_object().and_then(|fields| fields.values().next()),
        key => value.get(key).filter(|found| !found.is_null()),
    };
    let is_met = found.is_some_and(|found| wanted.is_none_or(|wanted| shown(found) == wanted));
    is_met == positive.is_none()
}

/// Returns a text as it is, and another value as JSON.
fn shown(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}
