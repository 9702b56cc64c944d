//! The models of `data/models.json`.

use std::collections::HashMap;
use std::sync::LazyLock;

use serde::Deserialize;

use crate::{Model, names};

/// The models of one vendor by the forms of their names.
#[derive(Debug, Default)]
pub(crate) struct Models {
    list: Vec<Model>,
    /// Positions in `list` by lower-case names.
    by_name: HashMap<String, usize>,
}

/// The file.
#[derive(Deserialize)]
struct File {
    vendors: HashMap<String, Vec<Model>>,
}

/// The models of all vendors. Read on first use, which takes some milliseconds.
pub(crate) static BUNDLE: LazyLock<HashMap<String, Models>> = LazyLock::new(|| {
    // The text is a part of the program, and a test reads it.
    let file: Option<File> = serde_json::from_str(include_str!("../data/models.json")).ok();
    let vendors = file.map(|file| file.vendors).unwrap_or_default().into_iter();
    vendors.map(|(vendor, list)| (vendor.clone(), Models::new(&vendor, list))).collect()
});

impl Models {
    fn new(vendor: &str, list: Vec<Model>) -> Self {
        let mut by_name = HashMap::new();
        for (index, model) in list.iter().enumerate() {
            for name in model.names() {
                by_name.entry(name.to_ascii_lowercase()).or_insert(index);
            }
        }
        // The listed names have versions too. Shorter forms must not replace the names of other models.
        for (index, model) in list.iter().enumerate() {
            for form in model.names().flat_map(|name| names::forms(vendor, name)) {
                by_name.entry(form).or_insert(index);
            }
        }
        Self { list, by_name }
    }

    /// Returns the model with this form of its name.
    pub(crate) fn get(&self, form: &str) -> Option<&Model> {
        self.list.get(*self.by_name.get(form)?)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Model> {
        self.list.iter()
    }
}
