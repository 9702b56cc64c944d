//! Vendor-specific options of a tool definition.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::{Map, Value};

use crate::ToolDefinition;
use crate::request::output_schema::enforceable;

/// The keyword of the input schema under which a tool's vendor-specific options are stored.
///
/// Because the options are in the schema, they are kept when a tool definition is copied or serialised. Providers
/// remove the keyword before they send the schema.
const KEYWORD: &str = "x-neuron-options";

/// Name of the option that stores the schema for the vendor's strict mode.
const STRICT: &str = "strict";

/// Name of the option that stores the definitions of other tools.
const DEFERRED: &str = "deferred_tools";

impl ToolDefinition {
    /// Requests that the vendor enforces the input schema. The model then cannot omit an argument, invent an argument
    /// or use a wrong type.
    ///
    /// OpenAI and Anthropic enforce the schema that [`strict_schema`](Self::strict_schema) returns. Other providers
    /// ignore this option. A schema with maps, tuples, flattened enums or arbitrary values cannot be enforced. For such
    /// a schema, this method changes nothing.
    ///
    /// Validators in this process still use the original input schema.
    ///
    /// Sources: [OpenAI](https://platform.openai.com/docs/guides/function-calling#strict-mode),
    /// [Anthropic](https://platform.claude.com/docs/en/agents-and-tools/tool-use/strict-tool-use).
    ///
    /// # Example
    ///
    /// ```
    /// use neuron_model::ToolDefinition;
    /// # let definition: ToolDefinition = serde_json::from_value(serde_json::json!({
    /// #     "name": "weather", "description": "", "input_schema": {
    /// #         "type": "object", "properties": { "city": { "type": "string" } } } })).unwrap();
    ///
    /// let definition = definition.strict();
    /// assert!(definition.is_strict());
    /// assert_eq!(definition.strict_schema().unwrap()["additionalProperties"], false);
    /// ```
    #[must_use]
    pub fn strict(mut self) -> Self {
        // Store the enforceable form next to the original schema, because local validators need the original.
        if let Some(strict) = enforceable(&self.plain_schema())
            && let Value::Object(schema) = &mut self.input_schema
            && let Value::Object(options) =
                schema.entry(KEYWORD).or_insert_with(|| Map::new().into())
        {
            options.insert(STRICT.to_owned(), strict);
        }
        self
    }

    /// Returns the schema that vendors enforce. Returns `None` if the tool is not [strict](Self::strict).
    ///
    /// In this schema, objects require all their properties and allow no other properties. The model writes `null` for
    /// an absent `Option` argument. Vendors do not enforce bounds, formats and defaults, so these are stated in the
    /// descriptions instead.
    #[must_use]
    pub fn strict_schema(&self) -> Option<&Value> {
        self.options()?.get(STRICT).filter(|schema| schema.is_object())
    }

    /// Returns `true` if the vendor enforces the input schema.
    #[must_use]
    pub fn is_strict(&self) -> bool {
        self.strict_schema().is_some()
    }

    /// Adds a vendor-specific field to the JSON of the tool, as documented by the vendor.
    ///
    /// Only one provider sends the field. `provider` is its name in [`ProviderInfo`](crate::ProviderInfo), for example
    /// `anthropic`, `openai` or `ollama`. The field is added to the JSON object that contains the tool's name. For Chat
    /// Completions and Ollama, this is the object `function`.
    ///
    /// A field that neuron writes itself is not replaced. If the input schema is not a JSON object, this method changes
    /// nothing.
    ///
    /// # Example
    ///
    /// ```
    /// use neuron_model::ToolDefinition;
    /// use serde_json::json;
    /// # let definition: ToolDefinition = serde_json::from_value(
    /// #     json!({ "name": "weather", "description": "", "input_schema": { "type": "object" } })).unwrap();
    ///
    /// let definition = definition
    ///     .with_vendor_field("anthropic", "defer_loading", true)
    ///     .with_vendor_field("anthropic", "input_examples", json!([{ "city": "Paris" }]));
    /// assert_eq!(definition.vendor_fields("anthropic", &[]).count(), 2);
    /// assert_eq!(definition.vendor_fields("openai", &[]).count(), 0);
    /// ```
    #[must_use]
    pub fn with_vendor_field(
        mut self,
        provider: &str,
        name: impl Into<String>,
        value: impl Into<Value>,
    ) -> Self {
        if let Value::Object(schema) = &mut self.input_schema
            && let Value::Object(options) =
                schema.entry(KEYWORD).or_insert_with(|| Map::new().into())
            && let Value::Object(fields) =
                options.entry(provider).or_insert_with(|| Map::new().into())
        {
            fields.insert(name.into(), value.into());
        }
        self
    }

    /// Returns the vendor-specific fields that [`with_vendor_field`](Self::with_vendor_field) added for `provider`.
    ///
    /// `written` contains the names of the fields that the provider writes itself. Fields with these names are omitted.
    pub fn vendor_fields<'a>(
        &'a self,
        provider: &str,
        written: &'a [&str],
    ) -> impl Iterator<Item = (&'a String, &'a Value)> {
        let fields = self.options().and_then(|options| options.get(provider)?.as_object());
        let fields = fields.into_iter().flatten();
        fields.filter(move |(name, _)| !written.contains(&name.as_str()))
    }

    /// Stores the definitions of `tools` in the definition of [`SEARCH_TOOLS`](crate::SEARCH_TOOLS). A provider that
    /// searches tools itself reads them with [`RequestRef::deferred_tools`](crate::RequestRef::deferred_tools), and any
    /// other provider ignores them. Replaces the tools of an earlier call.
    ///
    /// Like all options, the definitions are kept when a request is copied or serialised, and are not part of
    /// [`plain_schema`](Self::plain_schema). If the input schema is not a JSON object, this method changes nothing.
    #[must_use]
    pub fn with_deferred_tools(mut self, tools: &[Self]) -> Self {
        if let Value::Object(schema) = &mut self.input_schema
            && let Value::Object(options) =
                schema.entry(KEYWORD).or_insert_with(|| Map::new().into())
        {
            let tools = tools.iter().filter_map(|tool| serde_json::to_value(tool).ok());
            options.insert(DEFERRED.to_owned(), tools.collect());
        }
        self
    }

    /// Returns the definitions that [`with_deferred_tools`](Self::with_deferred_tools) stored.
    #[must_use]
    pub fn deferred_tools(&self) -> Vec<Self> {
        let tools = self.options().and_then(|options| options.get(DEFERRED)?.as_array());
        tools.into_iter().flatten().filter_map(|tool| Self::deserialize(tool).ok()).collect()
    }

    /// Returns the names of the [`deferred_tools`](Self::deferred_tools).
    pub fn deferred_names(&self) -> impl Iterator<Item = &str> {
        let tools = self.options().and_then(|options| options.get(DEFERRED)?.as_array());
        tools.into_iter().flatten().filter_map(|tool| tool.get("name")?.as_str())
    }

    /// Returns `true` if [`with_deferred_tools`](Self::with_deferred_tools) stored definitions.
    pub(crate) fn has_deferred_tools(&self) -> bool {
        self.options().is_some_and(|options| options.contains_key(DEFERRED))
    }

    /// Returns a copy without the definitions that [`with_deferred_tools`](Self::with_deferred_tools) stored.
    pub(crate) fn without_deferred_tools(&self) -> Self {
        let Some(options) = self.options().filter(|options| options.contains_key(DEFERRED)) else {
            return self.clone();
        };
        let others = options.iter().filter(|(name, _)| *name != DEFERRED);
        let others: Map<_, _> = others.map(|(name, value)| (name.clone(), value.clone())).collect();
        let mut input_schema = self.plain_schema().into_owned();
        if let Value::Object(schema) = &mut input_schema
            && !others.is_empty()
        {
            schema.insert(KEYWORD.to_owned(), others.into());
        }
        // The stored definitions may be large, so they are not cloned first.
        Self {
            name: self.name.clone(),
            title: self.title.clone(),
            description: self.description.clone(),
            input_schema,
            output_schema: self.output_schema.clone(),
            annotations: self.annotations,
            cache_control: self.cache_control,
        }
    }

    /// Returns the input schema without the vendor-specific options that are stored in it. Providers send this schema.
    #[must_use]
    pub fn plain_schema(&self) -> Cow<'_, Value> {
        match &self.input_schema {
            Value::Object(schema) if schema.contains_key(KEYWORD) => {
                let fields = schema.iter().filter(|(key, _)| *key != KEYWORD);
                Cow::Owned(fields.map(|(key, value)| (key.clone(), value.clone())).collect())
            }
            schema => Cow::Borrowed(schema),
        }
    }

    fn options(&self) -> Option<&Map<String, Value>> {
        self.input_schema.get(KEYWORD)?.as_object()
    }
}

/// Returns a definition for tests.
#[cfg(test)]
pub(crate) fn definition(name: &str, input_schema: Value) -> ToolDefinition {
    ToolDefinition {
        name: name.into(),
        title: None,
        description: String::new(),
        input_schema,
        output_schema: None,
        annotations: None,
        cache_control: None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn definition(input_schema: Value) -> ToolDefinition {
        super::definition("act", input_schema)
    }

    #[test]
    fn deferred_tools_are_kept_with_their_options_and_are_not_in_the_schema() {
        let schema = json!({ "type": "object", "b": 1, "a": 2 });
        let other = definition(json!({ "type": "object" })).strict().with_vendor_field(
            "anthropic",
            "eager_input_streaming",
            true,
        );
        let search =
            definition(schema.clone()).with_deferred_tools(&[other.clone(), other.clone()]);
        assert_eq!(search.deferred_tools(), [other.clone(), other.clone()]);
        assert!(search.deferred_names().eq([&*other.name; 2]));
        assert_eq!(search.plain_schema().to_string(), schema.to_string());
        let stored = serde_json::to_string(&search).unwrap();
        assert_eq!(serde_json::from_str::<ToolDefinition>(&stored).unwrap(), search);
        assert_eq!(search.without_deferred_tools(), definition(schema));
        assert_eq!(other.without_deferred_tools(), other);
        let strict = other.clone().with_deferred_tools(std::slice::from_ref(&other));
        assert_eq!(strict.without_deferred_tools(), other);
        assert_eq!(search.with_deferred_tools(&[]).deferred_tools(), []);
        assert_eq!(other.deferred_tools(), []);
        assert_eq!(definition(json!(true)).with_deferred_tools(&[other]).deferred_tools(), []);
    }

    #[test]
    fn strict_schema_is_closed_and_requires_all_properties() {
        let schema = json!({
            "type": "object",
            "properties": { "a": { "type": "string" }, "b": { "type": ["integer", "null"] } },
            "required": ["a"],
        });
        let strict = definition(schema.clone())
            .with_vendor_field("anthropic", "defer_loading", true)
            .strict();
        assert_eq!(strict.clone().strict(), strict);
        assert_eq!(*strict.plain_schema(), schema, "for validators on this side");
        assert!(strict.is_strict());
        assert_eq!(strict.vendor_fields("anthropic", &[]).count(), 1);
        assert_eq!(
            strict.strict_schema(),
            Some(&json!({
                "type": "object",
                "properties": { "a": { "type": "string" }, "b": { "type": ["integer", "null"] } },
                "required": ["a", "b"],
                "additionalProperties": false,
            }))
        );
        let stored = serde_json::to_string(&strict).unwrap();
        assert_eq!(serde_json::from_str::<ToolDefinition>(&stored).unwrap(), strict);
    }

    #[test]
    fn schema_without_a_strict_form_is_unchanged() {
        let map = json!({ "type": "object", "additionalProperties": { "type": "string" } });
        for schema in [map, json!(true), json!({})] {
            let plain = definition(schema);
            assert_eq!(plain.clone().strict(), plain);
            assert!(!plain.is_strict() && plain.strict_schema().is_none());
        }
    }

    #[test]
    fn vendor_fields_are_only_for_their_provider() {
        let plain = definition(json!({ "type": "object" }));
        let tool = plain
            .clone()
            .with_vendor_field("anthropic", "eager_input_streaming", true)
            .with_vendor_field("anthropic", "name", "other")
            .with_vendor_field("openai", "defer_loading", true);
        let fields: Vec<_> = tool.vendor_fields("anthropic", &["name"]).collect();
        assert_eq!(fields, [(&"eager_input_streaming".to_owned(), &json!(true))]);
        assert_eq!(tool.vendor_fields("ollama", &[]).count(), 0);
        assert_eq!(*tool.plain_schema(), plain.input_schema);
        let no_object = definition(json!(true));
        assert_eq!(no_object.clone().with_vendor_field("openai", "a", 1), no_object);
    }

    #[test]
    fn invalid_options_are_ignored() {
        for options in [
            json!(1),
            json!({ "strict": "yes", "openai": [1], "deferred_tools": 1 }),
            json!({ "deferred_tools": [1] }),
        ] {
            let tool = definition(json!({ "type": "object", KEYWORD: options }));
            assert!(!tool.is_strict() && tool.deferred_tools().is_empty());
            assert_eq!(tool.vendor_fields("openai", &[]).count(), 0);
            assert_eq!(*tool.plain_schema(), json!({ "type": "object" }));
        }
    }
}
