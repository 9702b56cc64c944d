//! Tests of `#[neuron_tool]`. They check the definition, the arguments and the function itself.

use neuron_tool::{ToolRegistry, neuron_tool};
use neuron_types::{Tool, ToolContext, ToolDyn, ToolEffect, ToolError, ToolFailure, ToolOutput};
use serde_json::{Value, json};

async fn run(tool: impl Tool + 'static, input: Value) -> Result<ToolOutput, ToolError> {
    let name = ToolDyn::name(&tool).to_owned();
    let mut registry = ToolRegistry::new();
    registry.register(tool);
    let ctx = ToolContext { session_id: "s".into(), ..Default::default() };
    registry.execute(&name, input, &ctx).await
}

async fn text(tool: impl Tool + 'static, input: Value) -> String {
    run(tool, input).await.unwrap().content[0].to_string()
}

fn schema(tool: &dyn ToolDyn) -> Value {
    tool.definition().input_schema
}

/// Looks up
/// a value.
///
/// Keys are case-sensitive.
#[neuron_tool]
async fn lookup(
    /// The key,
    /// in two lines
    key: String,
    times: Option<u32>,
) -> Result<String, std::io::Error> {
    Ok(format!("{key} {times:?}"))
}

#[test]
fn definition_has_names_and_doc_comments() {
    let definition = Tool::definition(&LookupTool);
    assert_eq!((LookupTool::NAME, definition.name.as_str()), ("lookup", "lookup"));
    assert_eq!(definition.description, "Looks up\na value.\n\nKeys are case-sensitive.");
    assert_eq!(
        (definition.title, definition.output_schema, definition.annotations),
        (None, None, None)
    );
    assert_eq!(
        definition.input_schema,
        json!({
            "$schema": "https://json-schema.org/draft/2020-12/schema",
            "title": "LookupArgs",
            "type": "object",
            "properties": {
                "key": { "description": "The key,\nin two lines", "type": "string" },
                "times": { "type": ["integer", "null"], "format": "uint32", "minimum": 0 },
            },
            "required": ["key"],
        })
    );
}

#[tokio::test]
async fn arguments_are_passed_and_invalid_arguments_are_errors() {
    assert_eq!(text(LookupTool, json!({ "key": "k", "times": 2 })).await, "k Some(2)");
    assert_eq!(text(LookupTool, json!({ "key": "k" })).await, "k None");
    for input in [json!({}), json!({ "key": 1 }), json!(null)] {
        let error = run(LookupTool, input).await.unwrap_err();
        assert!(matches!(error, ToolError::InvalidInput(_)), "{error}");
    }
}

#[tokio::test]
async fn function_is_still_callable() {
    assert_eq!(lookup("k".into(), None).await.unwrap(), "k None");
    let args = LookupArgs { key: "k".into(), times: Some(1) };
    assert_eq!(LookupTool.call(args, &ToolContext::default()).await.unwrap(), "k Some(1)");
}

const DESCRIPTION: &str = "Options win";

/// A doc comment for programmers
#[neuron_tool(
    name = "with-options",
    title = concat!("With ", "options"),
    description = DESCRIPTION,
    effect = Idempotent
)]
async fn with_options() -> Result<(), std::io::Error> {
    Ok(())
}

#[tokio::test]
async fn options_override_defaults() {
    let definition = ToolDyn::definition(&WithOptionsTool);
    assert_eq!(definition.name, "with-options");
    assert_eq!(definition.title.as_deref(), Some("With options"));
    assert_eq!(definition.description, "Options win");
    // OpenAI requires `properties` even without arguments.
    assert_eq!(definition.input_schema["properties"], json!({}));
    assert_eq!(text(WithOptionsTool, json!({})).await, "null");
}

#[test]
fn runs_alone_is_forwarded_by_tool_dyn() {
    #[neuron_tool(description = "d", runs_alone)]
    async fn migrate() -> Result<String, ToolError> {
        Ok(String::new())
    }

    assert!(ToolDyn::runs_alone(&MigrateTool));
    assert!(!ToolDyn::runs_alone(&LookupTool));
}

#[test]
fn strict_tool_has_an_enforceable_schema() {
    #[neuron_tool(description = "d", strict)]
    async fn find(text: String, limit: Option<u32>) -> Result<String, ToolError> {
        let _ = (text, limit);
        Ok(String::new())
    }

    let definition = ToolDyn::definition(&FindTool);
    assert!(definition.is_strict());
    let schema = definition.strict_schema().unwrap();
    assert_eq!(schema["required"], json!(["text", "limit"]));
    assert_eq!(schema["additionalProperties"], json!(false));
    assert!(!ToolDyn::definition(&LookupTool).is_strict());
}

#[test]
fn effect_is_forwarded_by_tool_dyn() {
    #[neuron_tool(description = "d", effect = Pure)]
    async fn pure() -> Result<(), ToolError> {
        Ok(())
    }
    #[neuron_tool(description = "d", effect = neuron_types::ToolEffect::AtMostOnce)]
    async fn once() -> Result<(), ToolError> {
        Ok(())
    }
    assert_eq!(ToolDyn::effect(&PureTool), ToolEffect::Pure);
    assert_eq!(ToolDyn::effect(&WithOptionsTool), ToolEffect::Idempotent);
    assert_eq!(ToolDyn::effect(&OnceTool), ToolEffect::AtMostOnce);
    assert_eq!(ToolDyn::effect(&LookupTool), ToolEffect::AtMostOnce);
}

/**
 * A block.
 */
#[neuron_tool]
async fn described_by_a_block() -> Result<(), ToolError> {
    Ok(())
}

#[test]
fn description_is_trimmed() {
    assert_eq!(Tool::definition(&DescribedByABlockTool).description, "* A block.");
}

#[doc = include_str!("description.md")]
///
/// And a line of its own.
#[neuron_tool]
async fn described_by_a_file() -> Result<(), ToolError> {
    Ok(())
}

#[test]
fn description_can_be_included_from_a_file() {
    let description = Tool::definition(&DescribedByAFileTool).description;
    assert_eq!(description, "A description in a file.\n\n\nAnd a line of its own.");
}

mod context {
    use super::*;

    /// First
    #[neuron_tool]
    async fn first(ctx: &ToolContext, word: String) -> Result<String, ToolError> {
        Ok(format!("{}{word}", ctx.session_id))
    }

    /// Middle
    #[neuron_tool]
    async fn middle(
        a: std::borrow::Cow<'static, str>,
        /// A comment that nobody sees
        #[expect(unused_variables, reason = "a lint may stand here")]
        anything: &neuron_types::ToolContext,
        b: String,
    ) -> Result<String, ToolError> {
        Ok(a.into_owned() + &b)
    }

    /// Last
    #[neuron_tool]
    async fn last(word: String, _: &'_ ToolContext) -> Result<String, ToolError> {
        Ok(word)
    }

    /// An argument takes the name that the context often has
    #[neuron_tool]
    async fn named(
        ctx: String,
        args: String,
        input: &ToolContext,
        this: u8,
    ) -> Result<String, ToolError> {
        Ok(format!("{ctx}{args}{}{this}", input.session_id))
    }

    #[tokio::test]
    async fn context_may_be_at_any_position() {
        assert_eq!(text(FirstTool, json!({ "word": "w" })).await, "sw");
        assert_eq!(text(MiddleTool, json!({ "a": "x", "b": "y" })).await, "xy");
        assert_eq!(text(LastTool, json!({ "word": "w" })).await, "w");
        let input = json!({ "ctx": "c", "args": "a", "this": 1 });
        assert_eq!(text(NamedTool, input).await, "cas1");
        assert_eq!(schema(&LastTool)["properties"], json!({ "word": { "type": "string" } }));
    }
}

mod serde_attributes {
    use super::*;

    #[derive(serde::Deserialize, schemars::JsonSchema)]
    struct Page {
        page: u32,
    }

    fn ten() -> u32 {
        10
    }

    /// Finds
    #[neuron_tool]
    #[serde(rename_all = "camelCase", deny_unknown_fields)]
    async fn find(
        #[serde(alias = "q")] search_query: String,
        #[serde(rename = "max")]
        #[schemars(range(min = 1, max = 50))]
        limit: u32,
        #[serde(default = "ten")] per_page: u32,
        #[serde(skip)] hidden: u8,
        r#type: Option<String>,
    ) -> Result<String, ToolError> {
        Ok(format!("{search_query} {limit} {per_page} {hidden} {type:?}", type = r#type))
    }

    /// Flat
    #[neuron_tool]
    async fn flat(word: String, #[serde(flatten)] page: Page) -> Result<String, ToolError> {
        Ok(format!("{word} {}", page.page))
    }

    #[tokio::test]
    async fn serde_attributes_apply_to_fields() {
        let schema = schema(&FindTool);
        let mut names: Vec<_> = schema["properties"].as_object().unwrap().keys().collect();
        names.sort();
        assert_eq!(names, ["max", "perPage", "searchQuery", "type"]);
        assert_eq!(schema["properties"]["max"]["maximum"], json!(50));
        assert_eq!(schema["properties"]["perPage"]["default"], json!(10));
        assert_eq!(schema["required"], json!(["searchQuery", "max"]));
        assert_eq!(schema["additionalProperties"], json!(false));

        assert_eq!(text(FindTool, json!({ "q": "x", "max": 2 })).await, "x 2 10 0 None");
        let input = json!({ "searchQuery": "x", "max": 2, "perPage": 3, "type": "t" });
        assert_eq!(text(FindTool, input).await, "x 2 3 0 Some(\"t\")");
        let extra = json!({ "searchQuery": "x", "max": 2, "hidden": 3 });
        assert!(matches!(run(FindTool, extra).await, Err(ToolError::InvalidInput(_))));
    }

    #[tokio::test]
    async fn flattened_argument_is_part_of_the_input() {
        assert_eq!(schema(&FlatTool)["properties"]["page"]["type"], json!("integer"));
        assert_eq!(text(FlatTool, json!({ "word": "w", "page": 4 })).await, "w 4");
    }
}

mod results {
    use super::*;

    #[derive(Debug)]
    struct Broken;

    impl std::fmt::Display for Broken {
        fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str("broken")
        }
    }

    impl std::error::Error for Broken {}

    type Fallible<T> = Result<T, Broken>;
    type Swapped<E, T> = Result<T, E>;
    type Fixed = Fallible<u8>;

    /// Alias
    #[neuron_tool]
    async fn alias(mut number: u8) -> Fallible<u8> {
        number = number.checked_sub(1).ok_or(Broken)?;
        Ok(number)
    }

    /// Swapped
    #[neuron_tool]
    async fn swapped() -> Swapped<Broken, Vec<String>> {
        Ok(vec!["a".to_owned()])
    }

    /// Fixed
    #[neuron_tool]
    async fn fixed() -> Fixed {
        Err(Broken)
    }

    /// Qualified
    #[neuron_tool]
    async fn qualified() -> std::result::Result<&'static str, neuron_types::ToolError> {
        Err(ToolError::ModelRetry("again".into()))
    }

    /// Io
    #[neuron_tool]
    async fn io() -> std::io::Result<()> {
        Ok(())
    }

    #[tokio::test]
    async fn result_aliases_are_supported() {
        assert_eq!(text(AliasTool, json!({ "number": 3 })).await, "2");
        assert_eq!(text(SwappedTool, json!({})).await, r#"["a"]"#);
        assert_eq!(text(IoTool, json!({})).await, "null");
    }

    #[tokio::test]
    async fn errors_keep_class_and_source() {
        for error in [
            run(AliasTool, json!({ "number": 0 })).await.unwrap_err(),
            run(FixedTool, json!({})).await.unwrap_err(),
        ] {
            let ToolError::ExecutionFailed(source) = error else { panic!("{error}") };
            let failure = source.downcast::<ToolFailure>().unwrap();
            assert!(failure.downcast::<Broken>().is_some());
        }
        let error = run(QualifiedTool, json!({})).await.unwrap_err();
        assert!(matches!(error, ToolError::ModelRetry(hint) if hint == "again"));
    }
}

mod attributes {
    #![deny(warnings)]

    use super::*;

    /// Gone
    #[neuron_tool]
    #[cfg(any())]
    async fn gone(argument: ATypeThatIsNot) -> Result<(), ToolError> {
        Ok(())
    }

    #[cfg(any())]
    #[neuron_tool]
    async fn gone_before() -> Nothing {}

    /// Old
    #[neuron_tool]
    #[deprecated]
    #[doc(hidden)]
    async fn old() -> Result<(), ToolError> {
        Ok(())
    }

    /// Lints
    #[neuron_tool]
    #[must_use = "it is what it is"]
    #[expect(non_snake_case, unused_variables, unused_mut, reason = "they are what is tested")]
    #[inline]
    async fn Lints(mut one: u8, otherCase: u8) -> Result<u8, ToolError> {
        Ok(1)
    }

    #[tokio::test]
    async fn attributes_apply_to_the_right_items() {
        #[expect(deprecated, reason = "the mark is on the tool too")]
        let old = OldTool;
        assert_eq!(text(old, json!({})).await, "null");
        assert_eq!(text(LintsTool, json!({ "one": 1, "otherCase": 2 })).await, "1");
    }
}

mod visibility {
    pub(super) mod inner {
        use super::super::*;

        /// Seen
        #[neuron_tool]
        pub(in super::super) async fn seen(number: u8) -> Result<u8, ToolError> {
            Ok(number)
        }
    }
}

#[tokio::test]
async fn generated_items_have_the_visibility_of_the_function() {
    use visibility::inner::{SeenArgs, SeenTool, seen};
    let args = SeenArgs { number: 1 };
    assert_eq!(args.number, 1);
    assert_eq!(SeenTool.call(args, &ToolContext::default()).await.unwrap(), 1);
    assert_eq!(seen(2).await.unwrap(), 2);
}

#[tokio::test]
async fn tool_can_be_defined_inside_a_function() {
    #[derive(serde::Deserialize, schemars::JsonSchema)]
    struct Local {
        number: u8,
    }

    /// Local
    #[neuron_tool]
    async fn local(argument: Local) -> Result<u8, ToolError> {
        Ok(argument.number)
    }
    assert_eq!(text(LocalTool, json!({ "argument": { "number": 5 } })).await, "5");
}

macro_rules! tool {
    ($name:ident, $context:ty, $argument:ty) => {
        /// From a macro
        #[neuron_tool]
        async fn $name(ctx: $context, value: $argument) -> Result<String, ToolError> {
            Ok(format!("{}{value}", ctx.session_id))
        }
    };
}

tool!(from_macro, &ToolContext, u8);

#[tokio::test]
async fn tool_can_be_generated_by_a_macro() {
    assert_eq!(text(FromMacroTool, json!({ "value": 1 })).await, "s1");
}

mod found {
    pub(crate) use neuron_tool as tools;
}

/// Somewhere else
#[neuron_tool(crate = crate::function::found::tools)]
async fn elsewhere(number: u8) -> Result<u8, ToolError> {
    Ok(number)
}

#[tokio::test]
async fn crate_path_can_be_set() {
    assert_eq!(text(ElsewhereTool, json!({ "number": 1 })).await, "1");
}
