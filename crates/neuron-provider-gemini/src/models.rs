//! Names of current models, from Google's official client of November 2026.
//!
//! <https://ai.google.dev/gemini-api/docs/models>
//!
//! Every function that takes a model takes a string, so names of other models work too.

/// Name of the newest Flash model. Its thinking cannot be switched off.
pub const GEMINI_3_8_FLASH: &str = "gemini-3.8-flash";
/// Name of the Flash model of the previous generation.
pub const GEMINI_3_7_FLASH: &str = "gemini-3.7-flash";
/// Name of a fast and cheap model.
pub const GEMINI_3_5_FLASH_LITE: &str = "gemini-3.5-flash-lite";
/// Name of the Pro model. Vertex AI has the model only at the location `global`.
pub const GEMINI_3_1_PRO: &str = "gemini-3.1-pro-preview";
/// Name of the first model with [long decode](crate#long-responses). Vertex AI has the model at the locations `global`,
/// `us` and `eu`.
pub const GEMINI_4_ARGON: &str = "gemini-4-argon";

/// Name of the newest embedding model. Its vectors have 3,072 elements.
pub const GEMINI_EMBEDDING_2: &str = "gemini-embedding-2";
/// Name of the first embedding model. It has a field `taskType`. Its vectors have 3,072 elements.
pub const GEMINI_EMBEDDING_001: &str = "gemini-embedding-001";
