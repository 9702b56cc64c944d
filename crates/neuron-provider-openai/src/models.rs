//! Names of the vendor's current models, as listed by its official client in November 2026.
//!
//! <https://platform.openai.com/docs/models>
//!
//! Models are named by strings, so other names work too.

/// The newest model, for the hardest tasks.
pub const GPT_6_2_ASTRA: &str = "gpt-6.2-astra";
/// The newest large model.
pub const GPT_6_2_SOL: &str = "gpt-6.2-sol";
/// The newest medium model.
pub const GPT_6_1_TERRA: &str = "gpt-6.1-terra";
/// The newest small model.
pub const GPT_6_LUNA: &str = "gpt-6-luna";
/// The fifth generation.
pub const GPT_5_5: &str = "gpt-5.5";
/// The fifth generation, an earlier release.
pub const GPT_5_4: &str = "gpt-5.4";
/// The fifth generation, small.
pub const GPT_5_4_MINI: &str = "gpt-5.4-mini";

/// Embeddings with at most 1,536 dimensions.
pub const TEXT_EMBEDDING_3_SMALL: &str = "text-embedding-3-small";
/// Embeddings with at most 3,072 dimensions.
pub const TEXT_EMBEDDING_3_LARGE: &str = "text-embedding-3-large";
