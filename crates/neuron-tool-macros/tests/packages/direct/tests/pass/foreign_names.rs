//! Generated code in a scope where names of neuron and of the standard library have another meaning.

use ::neuron_tool::neuron_tool;

pub struct Tool;
pub struct ToolEffect;
pub struct Box;
pub struct Vec;
#[derive(::serde::Deserialize, ::schemars::JsonSchema)]
pub struct String {
    length: usize,
}
pub enum Option {}
pub trait Clone {}
pub trait Default {}
pub mod serde_json {}
pub mod core {}

pub type Result = ::std::result::Result<usize, ::std::io::Error>;

#[allow(non_upper_case_globals)]
pub const args: u8 = 0;

/// Measures a text
#[neuron_tool(title = "Measure", effect = Pure)]
pub async fn measure(text: String, ctx: &::neuron_types::ToolContext, call: usize) -> Result {
    let _ = ctx;
    Result::Ok(text.length + call)
}

mod deep {
    /// A tool where nothing is imported
    #[neuron_tool::neuron_tool]
    pub async fn bare(self_: u8) -> ::std::result::Result<u8, ::std::io::Error> {
        ::std::result::Result::Ok(self_)
    }

    /// The same of a struct
    #[derive(neuron_tool::Tool, ::schemars::JsonSchema)]
    pub struct Plain {
        pub number: u8,
    }

    impl ::neuron_tool::RunTool for Plain {
        type Output = u8;
        type Error = ::std::io::Error;

        async fn run(
            self,
            _: &::neuron_types::ToolContext,
        ) -> ::std::result::Result<u8, ::std::io::Error> {
            ::std::result::Result::Ok(self.number)
        }
    }
}

fn main() {
    let mut registry = ::neuron_tool::ToolRegistry::new();
    registry.register(MeasureTool);
    registry.register(deep::BareTool);
    registry.register(deep::PlainTool);
    ::std::assert_eq!(registry.len(), 3);
}
