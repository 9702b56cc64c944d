//! Names of OpenAI's current models, from OpenAI's official client of November 2026.
//!
//! <https://platform.openai.com/docs/models>
//!
//! Every function that takes a model takes a string, so names of other models work too.

/// Name of the newest model for the hardest tasks.
pub const GPT_6_2_ASTRA: &str = "gpt-6.2-astra";
/// Name of the newest large model.
pub const GPT_6_2_SOL: &str = "gpt-6.2-sol";
/// Name of the newest medium model.
pub const GPT_6_1_TERRA: &str = "gpt-6.1-terra";
/// Name of the newest small model.
pub const GPT_6_LUNA: &str = "gpt-6-luna";
/// Name of the latest model of the fifth generation.
pub const GPT_5_5: &str = "gpt-5.5";
/// Name of an earlier model of the fifth generation.
pub const GPT_5_4: &str = "gpt-5.4";
/// Name of a small model of the fifth generation.
pub const GPT_5_4_MINI: &str = "gpt-5.4-mini";

/// Name of the small embedding model. Its vectors have at most 1,536 dimensions.
pub const TEXT_EMBEDDING_3_SMALL: &str = "text-embedding-3-small";
/// Name of the large embedding model. Its vectors have at most 3,072 dimensions.
pub const TEXT_EMBEDDING_3_LARGE: &str = "text-embedding-3-large";
