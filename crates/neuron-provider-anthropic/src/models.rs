//! The names of the vendor's current models, as its official client lists them in November 2026.
//! <https://platform.claude.com/docs/en/about-claude/models/overview>
//!
//! Names are texts: any other works as well.

/// Fable, the newest.
pub const CLAUDE_FABLE_5_2: &str = "claude-fable-5-2";
/// Mythos, the newest.
pub const CLAUDE_MYTHOS_5_2: &str = "claude-mythos-5-2";
/// Opus, the newest. Thinks always; takes no sampling parameters.
pub const CLAUDE_OPUS_5_5: &str = "claude-opus-5-5";
/// Sonnet, the newest. Thinks unless it is told otherwise; takes neither sampling parameters nor
/// forced tools.
pub const CLAUDE_SONNET_5_5: &str = "claude-sonnet-5-5";
/// Haiku, the newest.
pub const CLAUDE_HAIKU_5_5: &str = "claude-haiku-5-5";
/// Opus of the generation that takes every feature of the API.
pub const CLAUDE_OPUS_4_8: &str = "claude-opus-4-8";
/// Sonnet of the generation that takes every feature of the API.
pub const CLAUDE_SONNET_4_6: &str = "claude-sonnet-4-6";
/// Haiku of the generation that takes every feature of the API.
pub const CLAUDE_HAIKU_4_5: &str = "claude-haiku-4-5";
