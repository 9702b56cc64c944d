//! Ids of current models, as global inference profiles.
//!
//! <https://docs.aws.amazon.com/bedrock/latest/userguide/inference-profiles-support.html>
//!
//! A global profile processes requests in any commercial region. A profile such as `us.anthropic.claude-opus-5-5` or
//! `eu.anthropic.claude-opus-5-5` stays in a part of the world. The regions of `us-gov`, `eusc` and the isolated
//! partitions have no global profiles. Every function that takes a model takes a string, so ids of other models work
//! too.

/// Id of Claude Sonnet 4.6, the newest model that supports every feature of this crate.
pub const CLAUDE_SONNET_4_6: &str = "global.anthropic.claude-sonnet-4-6";
/// Id of Claude Opus 5.5. The model rejects a temperature.
pub const CLAUDE_OPUS_5_5: &str = "global.anthropic.claude-opus-5-5";
/// Id of Claude Sonnet 5.5. The model rejects a temperature.
pub const CLAUDE_SONNET_5_5: &str = "global.anthropic.claude-sonnet-5-5";
/// Id of Claude Haiku 5.5. The model rejects a temperature.
pub const CLAUDE_HAIKU_5_5: &str = "global.anthropic.claude-haiku-5-5";
/// Id of Amazon's Nova 2 Lite.
pub const NOVA_2_LITE: &str = "global.amazon.nova-2-lite-v1:0";
