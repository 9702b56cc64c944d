//! Must not compile, because these types cannot be the arguments of a tool.

#![allow(unused)]

use neuron_tool::Tool;

/// A tuple
#[derive(Tool, schemars::JsonSchema)]
struct Tuple(u8, u8);

/// A unit
#[derive(Tool, schemars::JsonSchema)]
struct Unit;

/// An enum
#[derive(Tool, schemars::JsonSchema)]
enum Choice {
    One,
}

/// Generics
#[derive(Tool, schemars::JsonSchema)]
struct Generic<'a, T>
where
    T: Copy,
{
    value: &'a T,
}

#[derive(Tool, schemars::JsonSchema)]
struct Undescribed {}

/// Borrowed
#[derive(Tool, schemars::JsonSchema)]
struct Borrowed {
    word: &'static str,
    maybe: Option<&'static str>,
    #[serde(skip)]
    fine: &'static str,
    fine_too: std::borrow::Cow<'static, str>,
}

fn main() {}
