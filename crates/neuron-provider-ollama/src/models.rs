//! The names of common models in Ollama's library. <https://ollama.com/library>
//!
//! Names are texts: any other works as well, with a tag (`qwen3:32b`) or without, which means
//! `latest`. A model must have been pulled before it is used: `ollama pull llama3.2`.

/// Llama 3.2, small; calls tools.
pub const LLAMA_3_2: &str = "llama3.2";
/// Llama 3.2 that takes images.
pub const LLAMA_3_2_VISION: &str = "llama3.2-vision";
/// Llama 3.3, large; calls tools.
pub const LLAMA_3_3: &str = "llama3.3";
/// Qwen 3; calls tools and thinks.
pub const QWEN_3: &str = "qwen3";
/// Qwen 3 for code; calls tools.
pub const QWEN_3_CODER: &str = "qwen3-coder";
/// OpenAI's open model; calls tools and thinks, as hard as
/// [`reasoning_effort`](neuron_types::CompletionRequest::reasoning_effort) says.
pub const GPT_OSS: &str = "gpt-oss";
/// DeepSeek R1; thinks.
pub const DEEPSEEK_R1: &str = "deepseek-r1";
/// Gemma 3; takes images.
pub const GEMMA_3: &str = "gemma3";
/// Mistral 7B; calls tools.
pub const MISTRAL: &str = "mistral";

/// Nomic's embeddings, of 768 numbers.
pub const NOMIC_EMBED_TEXT: &str = "nomic-embed-text";
/// Gemma's embeddings, of 768 numbers or fewer.
pub const EMBEDDING_GEMMA: &str = "embeddinggemma";
/// Mixedbread's embeddings, of 1024 numbers.
pub const MXBAI_EMBED_LARGE: &str = "mxbai-embed-large";
/// Small and quick embeddings, of 384 numbers.
pub const ALL_MINILM: &str = "all-minilm";
