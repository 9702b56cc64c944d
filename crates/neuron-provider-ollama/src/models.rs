//! Names of common models in Ollama's library.
//!
//! <https://ollama.com/library>
//!
//! Models are named by strings, so other names work too, with a tag (`qwen3:32b`) or with the default tag `latest`.
//! Pull a model before use, for example with `ollama pull llama3.2`.

/// Llama 3.2, a small model with tools.
pub const LLAMA_3_2: &str = "llama3.2";
/// Llama 3.2 with image input.
pub const LLAMA_3_2_VISION: &str = "llama3.2-vision";
/// Llama 3.3, a large model with tools.
pub const LLAMA_3_3: &str = "llama3.3";
/// Qwen 3, with tools and thinking.
pub const QWEN_3: &str = "qwen3";
/// Qwen 3 for code, with tools.
pub const QWEN_3_CODER: &str = "qwen3-coder";
/// OpenAI's open model, with tools and thinking.
/// [`reasoning_effort`](neuron_types::CompletionRequest::reasoning_effort) controls the thinking.
pub const GPT_OSS: &str = "gpt-oss";
/// DeepSeek R1, with thinking.
pub const DEEPSEEK_R1: &str = "deepseek-r1";
/// Gemma 3, with image input.
pub const GEMMA_3: &str = "gemma3";
/// Mistral 7B, with tools.
pub const MISTRAL: &str = "mistral";

/// Nomic's embeddings, with 768 dimensions.
pub const NOMIC_EMBED_TEXT: &str = "nomic-embed-text";
/// Gemma's embeddings, with at most 768 dimensions.
pub const EMBEDDING_GEMMA: &str = "embeddinggemma";
/// Mixedbread's embeddings, with 1024 dimensions.
pub const MXBAI_EMBED_LARGE: &str = "mxbai-embed-large";
/// Small and fast embeddings, with 384 dimensions.
pub const ALL_MINILM: &str = "all-minilm";
