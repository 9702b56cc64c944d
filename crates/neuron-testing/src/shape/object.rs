//! A JSON object in a request, with methods that check and read its fields.

use serde_json::{Map, Value};

use super::kind::check;
use super::{Null, Problem, Wording, words};

/// A JSON object in a request, with its path for error texts.
///
/// [`text`](Self::text), [`required`](Self::required) and the methods that check return the vendor's errors. The other
/// methods expect an object whose structure has been checked already. They treat a value of a wrong type as missing.
#[derive(Debug, Clone)]
pub(crate) struct Object<'a, W> {
    pub(crate) vendor: W,
    pub(crate) path: String,
    pub(crate) fields: &'a Map<String, Value>,
}

impl<'a, W: Wording> Object<'a, W> {
    /// Creates an object from `value`. Returns the vendor's type error if `value` is not an object.
    pub(crate) fn new(
        vendor: W,
        path: impl Into<String>,
        value: &'a Value,
    ) -> Result<Self, W::Error> {
        let path = path.into();
        match value.as_object() {
            Some(fields) => Ok(Self { vendor, path, fields }),
            None => Err(vendor.error(&path, Problem::Type { expected: "object", found: value })),
        }
    }

    /// Returns the path of the field `key`.
    pub(crate) fn at(&self, key: &str) -> String {
        match self.path.as_str() {
            "" => key.to_owned(),
            path => format!("{path}.{key}"),
        }
    }

    /// Returns the value of a field, or `None` if the field is missing. A null counts as a value with [`Null::Value`],
    /// and as a missing field otherwise.
    pub(crate) fn get(&self, key: &str) -> Option<&'a Value> {
        self.fields.get(key).filter(|value| W::NULL == Null::Value || !value.is_null())
    }

    pub(crate) fn has(&self, key: &str) -> bool {
        self.get(key).is_some()
    }

    pub(crate) fn str(&self, key: &str) -> Option<&'a str> {
        self.get(key)?.as_str()
    }

    pub(crate) fn is_true(&self, key: &str) -> bool {
        self.get(key).is_some_and(|value| *value == true)
    }

    pub(crate) fn object(&self, key: &str) -> Option<Self> {
        Self::new(self.vendor, self.at(key), self.get(key)?).ok()
    }

    /// Returns the objects in the list in the field `key`. Items of another type are skipped.
    pub(crate) fn objects(&self, key: &str) -> Vec<Self> {
        let path = self.at(key);
        let items = self.get(key).and_then(Value::as_array).into_iter().flatten().enumerate();
        let item = |(index, value)| Self::new(self.vendor, self.vendor.item(&path, index), value);
        items.filter_map(|item_at| item(item_at).ok()).collect()
    }

    /// Returns the value of a field. Returns the vendor's error if the field is missing.
    pub(crate) fn required(&self, key: &str) -> Result<&'a Value, W::Error> {
        self.get(key).ok_or_else(|| self.error(key, Problem::Missing))
    }

    /// Returns the string in the field `key`. Returns the vendor's error if the field is missing or not a string.
    pub(crate) fn text(&self, key: &str) -> Result<&'a str, W::Error> {
        self.required(key)?;
        self.check(key, "text")?;
        Ok(self.str(key).unwrap_or_default())
    }

    /// Returns the vendor's error for a problem with the field `key`.
    pub(crate) fn error(&self, key: &str, problem: Problem<'_>) -> W::Error {
        self.vendor.error(&self.at(key), problem)
    }

    /// Checks that the field `key` has a kind of the vendor's table of shapes, such as `text`. A missing field passes.
    pub(crate) fn check(&self, key: &str, kind: &str) -> Result<(), W::Error> {
        self.check_field(key, &kind.into())
    }

    /// Checks the object against the shape with the name `shape`.
    pub(crate) fn fits(&self, shape: &str) -> Result<(), W::Error> {
        self.fits_shape(self.vendor.shape(shape), &[])
    }

    /// Checks the object against a shape in the table `table`. The field `key` of the object contains the tag, which
    /// selects the shape.
    ///
    /// Returns the object, with the path that the vendor prints for errors in the object's fields.
    pub(crate) fn tagged(&self, table: &str, key: &str) -> Result<Self, W::Error> {
        self.with_tag(table, key, self.text(key)?)
    }

    /// Checks the object like [`tagged`](Self::tagged), but with `tag` instead of the value of the field `key`.
    pub(crate) fn with_tag(&self, table: &str, key: &str, tag: &str) -> Result<Self, W::Error> {
        let table = self.vendor.shape(table);
        let tagged = Self { path: self.vendor.tagged(&self.path, tag), ..self.clone() };
        let tags = || {
            let shapes = table.as_object().into_iter().flatten().map(|(tag, _)| &**tag);
            shapes.filter(|tag| *tag != "unchecked").chain(words(table, "unchecked"))
        };
        if !tags().any(|known| known == tag) {
            let problem = Problem::Tag { key, tags: &tags().collect::<Vec<_>>(), found: tag };
            return Err(self.vendor.error(&self.path, problem));
        }
        match table.get(tag) {
            Some(Value::String(name)) => tagged.fits_shape(self.vendor.shape(name), &[key])?,
            Some(shape) => tagged.fits_shape(shape, &[key])?,
            None => {}
        }
        Ok(tagged)
    }

    /// Checks the object for missing fields, then for unknown fields, then checks the value of each field. Fields named
    /// in `others` are allowed in addition to the fields of the shape.
    pub(crate) fn fits_shape(&self, shape: &Value, others: &[&str]) -> Result<(), W::Error> {
        let kinds = || {
            let fields = shape.as_object().into_iter().flatten();
            fields.filter(|(key, _)| *key != "unchecked").map(|(key, kind)| {
                let name = key.strip_suffix('!');
                (name.unwrap_or(key), kind, name.is_some())
            })
        };
        for (key, kind, _) in kinds().filter(|(.., is_required)| *is_required) {
            // `get` hides nulls of some vendors, so a required field that may be null is looked up directly.
            let is_nullable = kind.as_str().is_some_and(|kind| kind.ends_with(" or null"));
            if !(is_nullable && self.fields.contains_key(key)) {
                self.required(key)?;
            }
        }
        let is_known = |key: &str| {
            kinds().any(|(known, ..)| known == key)
                || others.contains(&key)
                || words(shape, "unchecked").any(|known| known == key || known == "*")
        };
        if !self.vendor.is_lenient()
            && let Some(key) = self.fields.keys().find(|key| !is_known(key))
        {
            return Err(self.error(key, Problem::Unknown));
        }
        kinds().try_for_each(|(key, kind, _)| self.check_field(key, kind))
    }

    fn check_field(&self, key: &str, kind: &Value) -> Result<(), W::Error> {
        self.get(key).map_or(Ok(()), |value| check(self.vendor, &self.at(key), value, kind))
    }
}
