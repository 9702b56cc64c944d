//! Names of Anthropic's current models, from Anthropic's official client of November 2026.
//!
//! <https://platform.claude.com/docs/en/about-claude/models/overview>
//!
//! Every function that takes a model takes a string, so names of other models work too.

/// Name of the newest Fable model.
pub const CLAUDE_FABLE_5_2: &str = "claude-fable-5-2";
/// Name of the newest Mythos model.
pub const CLAUDE_MYTHOS_5_2: &str = "claude-mythos-5-2";
/// Name of the newest Opus model. The model always thinks, and rejects sampling parameters.
pub const CLAUDE_OPUS_5_5: &str = "claude-opus-5-5";
/// Name of the newest Sonnet model. The model thinks by default, and rejects sampling parameters and forced tool calls.
pub const CLAUDE_SONNET_5_5: &str = "claude-sonnet-5-5";
/// Name of the newest Haiku model.
pub const CLAUDE_HAIKU_5_5: &str = "claude-haiku-5-5";
/// Name of the Opus model of the generation that supports every feature of the API.
pub const CLAUDE_OPUS_4_8: &str = "claude-opus-4-8";
/// Name of the Sonnet model of the generation that supports every feature of the API.
pub const CLAUDE_SONNET_4_6: &str = "claude-sonnet-4-6";
/// Name of the Haiku model of the generation that supports every feature of the API.
pub const CLAUDE_HAIKU_4_5: &str = "claude-haiku-4-5";
