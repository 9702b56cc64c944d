//! Tests of `#[derive(Tool)]`. They check the definition, the arguments and the run.

use neuron_tool::{RunTool, Tool, ToolRegistry};
use neuron_types::{ToolContext, ToolDyn, ToolEffect, ToolError, ToolOutput};
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

fn one() -> u32 {
    1
}

/// Reads a page.
#[derive(Tool, schemars::JsonSchema)]
#[tool(title = "Page reader")]
#[tool(effect = Pure, runs_alone)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct ReadPage {
    /// Path of the page
    page_url: String,
    #[serde(default = "one", alias = "times")]
    count: u32,
    #[serde(skip)]
    hidden: u8,
    r#type: Option<String>,
}

impl RunTool for ReadPage {
    type Output = String;
    type Error = ToolError;

    async fn run(self, ctx: &ToolContext) -> Result<String, ToolError> {
        if self.count == 0 {
            return Err(ToolError::ModelRetry("at least 1".into()));
        }
        let Self { page_url, count, hidden, r#type } = self;
        Ok(format!("{} {page_url} {count} {hidden} {type:?}", ctx.session_id, type = r#type))
    }
}

#[test]
fn definition_has_schema_and_documentation_of_the_struct() {
    let definition = Tool::definition(&ReadPageTool);
    assert_eq!((ReadPageTool::NAME, definition.name.as_str()), ("read_page", "read_page"));
    assert_eq!(definition.title.as_deref(), Some("Page reader"));
    assert_eq!(definition.description, "Reads a page.");
    assert_eq!(definition.input_schema, Value::from(schemars::schema_for!(ReadPage)));
    assert_eq!(
        definition.input_schema["properties"]["pageUrl"],
        json!({ "description": "Path of the page", "type": "string" })
    );
    assert_eq!(ToolDyn::effect(&ReadPageTool), ToolEffect::Pure);
}

#[tokio::test]
async fn arguments_are_deserialised_with_serde_attributes() {
    let input = json!({ "pageUrl": "u", "type": "t" });
    assert_eq!(text(ReadPageTool, input).await, "s u 1 0 Some(\"t\")");
    assert_eq!(text(ReadPageTool, json!({ "pageUrl": "u", "times": 3 })).await, "s u 3 0 None");
    for input in [
        json!({ "page_url": "u" }),
        json!({ "pageUrl": "u", "hidden": 1 }),
        json!({ "pageUrl": 1 }),
    ] {
        let error = run(ReadPageTool, input).await.unwrap_err();
        assert!(matches!(error, ToolError::InvalidInput(_)), "{error}");
    }
    let error = run(ReadPageTool, json!({ "pageUrl": "u", "count": 0 })).await.unwrap_err();
    assert!(matches!(error, ToolError::ModelRetry(hint) if hint == "at least 1"));
}

#[tokio::test]
async fn struct_of_arguments_is_the_same_tool() {
    let instance = || ReadPage { page_url: "instance".into(), count: 9, hidden: 9, r#type: None };
    assert_eq!(ReadPage::NAME, "read_page");
    assert_eq!(Tool::definition(&instance()), Tool::definition(&ReadPageTool));
    assert_eq!(ToolDyn::effect(&instance()), ToolEffect::Pure);
    assert!(ToolDyn::runs_alone(&instance()) && ToolDyn::runs_alone(&ReadPageTool));
    // A call uses its arguments, not the field values of the registered instance.
    assert_eq!(text(instance(), json!({ "pageUrl": "u" })).await, "s u 1 0 None");
    // A typed call takes the struct directly, without JSON.
    let output = ReadPageTool.call(instance().into(), &ToolContext::default()).await;
    assert_eq!(output.unwrap(), " instance 9 9 None");
}

/// Pays an invoice.
#[derive(Tool, schemars::JsonSchema)]
struct Pay {
    invoice: u32,
}

impl RunTool for Pay {
    type Output = String;
    type Error = ToolError;

    fn effect_key(&self) -> Option<String> {
        Some(format!("invoice {}", self.invoice)).filter(|_| self.invoice > 0)
    }

    async fn run(self, ctx: &ToolContext) -> Result<String, ToolError> {
        Ok(format!("paid as {:?}", ctx.idempotency_key))
    }
}

#[tokio::test]
async fn effect_key_of_a_struct_is_the_idempotency_key() {
    let key = |invoice: Value| ToolDyn::effect_key(&PayTool, &json!({ "invoice": invoice }));
    assert_eq!(key(json!(17)).as_deref(), Some("invoice 17"));
    assert_eq!(ToolDyn::effect_key(&Pay { invoice: 1 }, &json!({ "invoice": 17 })), key(json!(17)));
    // A call with invalid arguments has no effect key.
    assert_eq!((key(json!(0)), key(json!("x"))), (None, None));
    assert_eq!(text(PayTool, json!({ "invoice": 17 })).await, "paid as \"invoice 17\"");
    assert_eq!(text(PayTool, json!({ "invoice": 0 })).await, "paid as \"\"");
}

mod both {
    use super::*;
    use serde::Deserialize;

    /// Derives Deserialize too, with defaults of the struct
    #[derive(Debug, PartialEq, Deserialize, Tool, schemars::JsonSchema)]
    #[serde(default, crate = "serde")]
    #[tool(name = "both", description = "Both")]
    pub(super) struct Both {
        pub(super) a: u8,
        b: u8,
    }

    impl Default for Both {
        fn default() -> Self {
            Self { a: 1, b: 2 }
        }
    }

    impl RunTool for Both {
        type Output = (u8, u8);
        type Error = std::io::Error;

        async fn run(self, _: &ToolContext) -> Result<(u8, u8), std::io::Error> {
            Ok((self.a, self.b))
        }
    }
}

#[tokio::test]
async fn deserialize_may_be_derived_too() {
    let both: both::Both = serde_json::from_value(json!({ "b": 5 })).unwrap();
    assert_eq!(both.a, 1);
    assert_eq!(text(both::BothTool, json!({ "b": 5 })).await, "[1,5]");
    assert_eq!(Tool::definition(&both::BothTool).description, "Both");
}

/// Returns the time
#[derive(Tool, schemars::JsonSchema)]
struct Now {}

impl RunTool for Now {
    type Output = u8;
    type Error = ToolError;

    async fn run(self, _: &ToolContext) -> Result<u8, ToolError> {
        Ok(12)
    }
}

#[tokio::test]
async fn empty_struct_is_a_tool() {
    assert_eq!(Tool::definition(&NowTool).input_schema["properties"], json!({}));
    assert_eq!(text(NowTool, json!({})).await, "12");
}
