//! The names of the vendor's current models, as its official client lists them in November 2026.
//! <https://platform.openai.com/docs/models>
//!
//! Names are texts: any other works as well.

/// The newest, for the hardest tasks.
pub const GPT_6_2_ASTRA: &str = "gpt-6.2-astra";
/// The newest of the large size.
pub const GPT_6_2_SOL: &str = "gpt-6.2-sol";
/// The newest of the middle size.
pub const GPT_6_1_TERRA: &str = "gpt-6.1-terra";
/// The newest of the small size.
pub const GPT_6_LUNA: &str = "gpt-6-luna";
/// The fifth generation.
pub const GPT_5_5: &str = "gpt-5.5";
/// The fifth generation, an earlier release.
pub const GPT_5_4: &str = "gpt-5.4";
/// The fifth generation, small.
pub const GPT_5_4_MINI: &str = "gpt-5.4-mini";

/// Embeddings of 1,536 numbers, or fewer.
pub const TEXT_EMBEDDING_3_SMALL: &str = "text-embedding-3-small";
/// Embeddings of 3,072 numbers, or fewer.
pub const TEXT_EMBEDDING_3_LARGE: &str = "text-embedding-3-large";
