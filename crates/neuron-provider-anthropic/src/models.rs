//! Names of the vendor's current models, as listed by its official client in November 2026.
//!
//! <https://platform.claude.com/docs/en/about-claude/models/overview>
//!
//! Models are named by strings, so other names work too.

/// The newest Fable.
pub const CLAUDE_FABLE_5_2: &str = "claude-fable-5-2";
/// The newest Mythos.
pub const CLAUDE_MYTHOS_5_2: &str = "claude-mythos-5-2";
/// The newest Opus. Always thinks, and rejects sampling parameters.
pub const CLAUDE_OPUS_5_5: &str = "claude-opus-5-5";
/// The newest Sonnet. Thinks by default, and rejects sampling parameters and forced tools.
pub const CLAUDE_SONNET_5_5: &str = "claude-sonnet-5-5";
/// The newest Haiku.
pub const CLAUDE_HAIKU_5_5: &str = "claude-haiku-5-5";
/// Opus of the generation that supports every feature of the API.
pub const CLAUDE_OPUS_4_8: &str = "claude-opus-4-8";
/// Sonnet of the generation that supports every feature of the API.
pub const CLAUDE_SONNET_4_6: &str = "claude-sonnet-4-6";
/// Haiku of the generation that supports every feature of the API.
pub const CLAUDE_HAIKU_4_5: &str = "claude-haiku-4-5";
