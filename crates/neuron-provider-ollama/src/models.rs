//! Names of common models in Ollama's library.
//!
//! <https://ollama.com/library>
//!
//! Every function that takes a model takes a string, so names of other models work too. A name may have a tag, as in
//! `qwen3:32b`. The default tag is `latest`. Pull a model before its first use, for example with
//! `ollama pull llama3.2`.

/// Name of Llama 3.2, a small model that supports tools.
pub const LLAMA_3_2: &str = "llama3.2";
/// Name of Llama 3.2 Vision, a model that accepts images.
pub const LLAMA_3_2_VISION: &str = "llama3.2-vision";
/// Name of Llama 3.3, a large model that supports tools.
pub const LLAMA_3_3: &str = "llama3.3";
/// Name of Qwen 3, a model that supports tools and thinking.
pub const QWEN_3: &str = "qwen3";
/// Name of Qwen 3 Coder, a model for code that supports tools.
pub const QWEN_3_CODER: &str = "qwen3-coder";
/// Name of OpenAI's open model, which supports tools and thinking.
/// [`reasoning_effort`](neuron_model::CompletionRequest::reasoning_effort) controls the thinking.
pub const GPT_OSS: &str = "gpt-oss";
/// Name of DeepSeek R1, a model that supports thinking.
pub const DEEPSEEK_R1: &str = "deepseek-r1";
/// Name of Gemma 3, a model that accepts images.
pub const GEMMA_3: &str = "gemma3";
/// Name of Mistral 7B, a model that supports tools.
pub const MISTRAL: &str = "mistral";

/// Name of Nomic's embedding model. Its vectors have 768 dimensions.
pub const NOMIC_EMBED_TEXT: &str = "nomic-embed-text";
/// Name of Gemma's embedding model. Its vectors have at most 768 dimensions.
pub const EMBEDDING_GEMMA: &str = "embeddinggemma";
/// Name of Mixedbread's embedding model. Its vectors have 1024 dimensions.
pub const MXBAI_EMBED_LARGE: &str = "mxbai-embed-large";
/// Name of a small and fast embedding model. Its vectors have 384 dimensions.
pub const ALL_MINILM: &str = "all-minilm";
