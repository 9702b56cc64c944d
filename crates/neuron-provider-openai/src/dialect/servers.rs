//! The predefined dialects, each with a link to the vendor's documentation.

use neuron_model::ForcedCalls;

use super::{Dialect, KeyHeader, ReasoningBack, SystemRole, TokenLimit};

/// Name of Gemini and of Vertex AI. They share a name, because they accept each other's thought signatures.
pub(super) const GEMINI: &str = "gcp.gen_ai";

impl Dialect {
    /// Returns the dialect of OpenAI, which is the default.
    #[must_use]
    pub fn openai() -> Self {
        Self {
            documentation: "https://platform.openai.com/docs/api-reference/chat",
            key_variable: "OPENAI_API_KEY",
            system_role: SystemRole::Developer,
            // https://github.com/openclaw/openclaw/pull/875. The Responses API accepts 64 characters.
            longest_call_id: 40,
            max_stop_sequences: 4,
            // https://platform.openai.com/docs/guides/images-vision
            only_common_images: true,
            ..Self::new("https://api.openai.com/v1")
        }
    }

    /// Returns the dialect of OpenRouter. Model names have the form `vendor/model`.
    #[must_use]
    pub fn openrouter() -> Self {
        Self {
            name: "openrouter",
            documentation: "https://openrouter.ai/docs/api-reference/overview",
            key_variable: "OPENROUTER_API_KEY",
            token_limit: TokenLimit::MaxTokens,
            reasoning_field: "reasoning",
            ..Self::new("https://openrouter.ai/api/v1")
        }
    }

    /// Returns the dialect of Gemini, with an API key of Google AI Studio. Gemini rejects unknown request fields.
    #[must_use]
    pub fn gemini() -> Self {
        Self {
            name: GEMINI,
            documentation: "https://ai.google.dev/gemini-api/docs/openai",
            key_variable: "GEMINI_API_KEY",
            token_limit: TokenLimit::MaxTokens,
            ..Self::new("https://generativelanguage.googleapis.com/v1beta/openai")
        }
    }

    /// Returns the dialect of Mistral. Its streams always contain the usage, and it rejects the option that requests
    /// the usage.
    #[must_use]
    pub fn mistral() -> Self {
        Self {
            name: "mistral_ai",
            documentation: "https://docs.mistral.ai/api/",
            key_variable: "MISTRAL_API_KEY",
            token_limit: TokenLimit::MaxTokens,
            short_call_ids: true,
            left_out: &["stream_options"],
            ..Self::new("https://api.mistral.ai/v1")
        }
    }

    /// Returns the dialect of Groq.
    #[must_use]
    pub fn groq() -> Self {
        Self {
            name: "groq",
            documentation: "https://console.groq.com/docs/openai",
            key_variable: "GROQ_API_KEY",
            reasoning_field: "reasoning",
            ..Self::new("https://api.groq.com/openai/v1")
        }
    }

    /// Returns the dialect of DeepSeek. DeepSeek requires the reasoning of a tool call to be sent back with the result.
    /// It supports strict tools only at the base URL `https://api.deepseek.com/beta`. Set
    /// [`strict_tools`](Self::strict_tools) if you use that URL.
    #[must_use]
    pub fn deepseek() -> Self {
        Self {
            name: "deepseek",
            documentation: "https://api-docs.deepseek.com/",
            key_variable: "DEEPSEEK_API_KEY",
            token_limit: TokenLimit::MaxTokens,
            reasoning: ReasoningBack::WithCalls,
            strict_tools: false,
            // DeepSeek rejects a forced tool call while the model thinks. The listed models think by default.
            forced_calls: ForcedCalls::NotWhileThinking {
                thinking_models: &["deepseek-reasoner", "deepseek-v4"],
            },
            ..Self::new("https://api.deepseek.com")
        }
    }

    /// Returns the dialect of xAI.
    #[must_use]
    pub fn xai() -> Self {
        Self {
            name: "x_ai",
            documentation: "https://docs.x.ai/docs/api-reference",
            key_variable: "XAI_API_KEY",
            ..Self::new("https://api.x.ai/v1")
        }
    }

    /// Returns the dialect of Together AI.
    #[must_use]
    pub fn together() -> Self {
        Self {
            name: "together_ai",
            documentation: "https://docs.together.ai/docs/openai-api-compatibility",
            key_variable: "TOGETHER_API_KEY",
            token_limit: TokenLimit::MaxTokens,
            ..Self::new("https://api.together.xyz/v1")
        }
    }

    /// Returns the dialect of Fireworks AI. Model names have the form `accounts/fireworks/models/…`.
    #[must_use]
    pub fn fireworks() -> Self {
        Self {
            name: "fireworks_ai",
            documentation: "https://docs.fireworks.ai/tools-sdks/openai-compatibility",
            key_variable: "FIREWORKS_API_KEY",
            token_limit: TokenLimit::MaxTokens,
            reasoning: ReasoningBack::WithCalls,
            ..Self::new("https://api.fireworks.ai/inference/v1")
        }
    }

    /// Returns the dialect of Cerebras.
    #[must_use]
    pub fn cerebras() -> Self {
        Self {
            name: "cerebras",
            documentation: "https://inference-docs.cerebras.ai/resources/openai",
            key_variable: "CEREBRAS_API_KEY",
            reasoning_field: "reasoning",
            ..Self::new("https://api.cerebras.ai/v1")
        }
    }

    /// Returns the dialect of Perplexity. Perplexity accepts neither the caller's tools nor stop sequences. Its URL
    /// contains no version.
    #[must_use]
    pub fn perplexity() -> Self {
        Self {
            name: "perplexity",
            documentation: "https://docs.perplexity.ai/guides/chat-completions-guide",
            key_variable: "PERPLEXITY_API_KEY",
            token_limit: TokenLimit::MaxTokens,
            left_out: &["stop", "parallel_tool_calls", "stream_options"],
            ..Self::new("https://api.perplexity.ai")
        }
    }

    /// Returns the dialect of Cohere.
    #[must_use]
    pub fn cohere() -> Self {
        Self {
            name: "cohere",
            documentation: "https://docs.cohere.com/docs/compatibility-api",
            key_variable: "COHERE_API_KEY",
            token_limit: TokenLimit::MaxTokens,
            ..Self::new("https://api.cohere.ai/compatibility/v1")
        }
    }

    /// Returns the dialect of Z.ai, which serves GLM models.
    #[must_use]
    pub fn zai() -> Self {
        Self {
            name: "z_ai",
            documentation: "https://docs.z.ai/api-reference/llm/chat-completion",
            key_variable: "ZAI_API_KEY",
            token_limit: TokenLimit::MaxTokens,
            forced_calls: ForcedCalls::Refused,
            left_out: &["parallel_tool_calls"],
            ..Self::new("https://api.z.ai/api/paas/v4")
        }
    }

    /// Returns the dialect of Moonshot AI, which serves Kimi models. Moonshot requires the reasoning of a tool call to
    /// be sent back with the result.
    #[must_use]
    pub fn moonshot() -> Self {
        Self {
            name: "moonshot_ai",
            documentation: "https://platform.moonshot.ai/docs/api/chat",
            key_variable: "MOONSHOT_API_KEY",
            token_limit: TokenLimit::MaxTokens,
            reasoning: ReasoningBack::WithCalls,
            strict_tools: false,
            forced_calls: ForcedCalls::Refused,
            ..Self::new("https://api.moonshot.ai/v1")
        }
    }

    /// Returns the dialect of MiniMax.
    #[must_use]
    pub fn minimax() -> Self {
        Self {
            name: "minimax",
            documentation: "https://platform.minimax.io/docs/api-reference/text-openai-api",
            key_variable: "MINIMAX_API_KEY",
            ..Self::new("https://api.minimax.io/v1")
        }
    }

    /// Returns the dialect of Alibaba Cloud's Model Studio outside China, which serves Qwen models.
    #[must_use]
    pub fn dashscope() -> Self {
        Self {
            name: "alibaba_cloud.model_studio",
            documentation: "https://www.alibabacloud.com/help/en/model-studio/compatibility-of-openai-with-dashscope",
            key_variable: "DASHSCOPE_API_KEY",
            token_limit: TokenLimit::MaxTokens,
            ..Self::new("https://dashscope-intl.aliyuncs.com/compatible-mode/v1")
        }
    }

    /// Returns the dialect of Volcengine Ark, which serves Doubao models. The model of a request is an endpoint id or a
    /// model name.
    #[must_use]
    pub fn ark() -> Self {
        Self {
            name: "volcengine.ark",
            documentation: "https://www.volcengine.com/docs/82379/1494384",
            key_variable: "ARK_API_KEY",
            token_limit: TokenLimit::MaxTokens,
            ..Self::new("https://ark.cn-beijing.volces.com/api/v3")
        }
    }

    /// Returns the dialect of Hugging Face's router. A model name may select an inference provider, as in
    /// `model:provider`.
    #[must_use]
    pub fn hugging_face() -> Self {
        Self {
            name: "hugging_face",
            documentation: "https://huggingface.co/docs/inference-providers",
            key_variable: "HF_TOKEN",
            token_limit: TokenLimit::MaxTokens,
            ..Self::new("https://router.huggingface.co/v1")
        }
    }

    /// Returns the dialect of vLLM on the local machine, at port 8000.
    #[must_use]
    pub fn vllm() -> Self {
        Self {
            name: "vllm",
            documentation: "https://docs.vllm.ai/en/latest/serving/openai_compatible_server.html",
            reasoning_field: "reasoning",
            ..Self::new("http://localhost:8000/v1")
        }
    }

    /// Returns the dialect of SGLang on the local machine, at port 30000.
    #[must_use]
    pub fn sglang() -> Self {
        Self {
            name: "sglang",
            documentation: "https://docs.sglang.ai/basic_usage/openai_api.html",
            ..Self::new("http://localhost:30000/v1")
        }
    }

    /// Returns the dialect of LM Studio on the local machine, at port 1234.
    #[must_use]
    pub fn lm_studio() -> Self {
        Self {
            name: "lm_studio",
            documentation: "https://lmstudio.ai/docs/developer/openai-compat",
            token_limit: TokenLimit::MaxTokens,
            ..Self::new("http://localhost:1234/v1")
        }
    }

    /// Returns the dialect of mistral.rs on the local machine, at port 1234.
    #[must_use]
    pub fn mistral_rs() -> Self {
        Self {
            name: "mistral_rs",
            documentation: "https://ericlbuehler.github.io/mistral.rs/HTTP.html",
            token_limit: TokenLimit::MaxTokens,
            ..Self::new("http://localhost:1234/v1")
        }
    }

    /// Returns the dialect of llama.cpp's server on the local machine, at port 8080.
    #[must_use]
    pub fn llama_cpp() -> Self {
        Self {
            name: "llama_cpp",
            documentation: "https://github.com/ggml-org/llama.cpp/blob/master/tools/server/README.md",
            token_limit: TokenLimit::MaxTokens,
            ..Self::new("http://localhost:8080/v1")
        }
    }

    /// Returns the dialect of Ollama's OpenAI-compatible endpoint on the local machine, at port 11434. The crate
    /// `neuron-provider-ollama` uses Ollama's own API, which has more features.
    #[must_use]
    pub fn ollama() -> Self {
        Self {
            name: "ollama.compatible",
            documentation: "https://github.com/ollama/ollama/blob/main/docs/openai.md",
            token_limit: TokenLimit::MaxTokens,
            strict_tools: false,
            forced_calls: ForcedCalls::Refused,
            reasoning_field: "reasoning",
            ..Self::new("http://localhost:11434/v1")
        }
    }

    /// Returns the dialect of LocalAI on the local machine, at port 8080.
    #[must_use]
    pub fn local_ai() -> Self {
        Self {
            name: "local_ai",
            documentation: "https://localai.io/features/text-generation/",
            token_limit: TokenLimit::MaxTokens,
            ..Self::new("http://localhost:8080/v1")
        }
    }

    /// Returns the dialect of Azure with the `v1` API, for the Azure resource of this name. The model of a request is
    /// the name of a deployment. To authenticate with a token of Entra ID instead of a key, set
    /// [`key_header`](Self::key_header) to [`KeyHeader::Bearer`] and pass a [key source](crate::OpenAi::key_source) to
    /// the client.
    #[must_use]
    pub fn azure(resource: &str) -> Self {
        Self {
            name: "azure.ai.openai",
            documentation: "https://learn.microsoft.com/en-us/azure/ai-foundry/openai/api-version-lifecycle",
            key_variable: "AZURE_OPENAI_API_KEY",
            key_header: KeyHeader::Named("api-key"),
            base_url: format!("https://{resource}.openai.azure.com/openai/v1").into(),
            ..Self::openai()
        }
    }

    /// Returns the dialect of Azure with one URL for each deployment. `api_version` is a date, for example
    /// `2024-10-21`.
    #[must_use]
    pub fn azure_deployment(resource: &str, deployment: &str, api_version: &str) -> Self {
        Self::azure(resource).at(format!(
            "https://{resource}.openai.azure.com/openai/deployments/{deployment}?api-version={api_version}"
        ))
    }

    /// Returns the dialect of Gemini on Google Cloud's Vertex AI. Model names have the form `google/…`. The API key is
    /// an access token of a service account, which expires after an hour, so pass a [key
    /// source](crate::OpenAi::key_source) to the client.
    #[must_use]
    pub fn vertex(project: &str, location: &str) -> Self {
        let host = match location {
            "global" => "aiplatform.googleapis.com".to_owned(),
            location => format!("{location}-aiplatform.googleapis.com"),
        };
        Self {
            documentation: "https://cloud.google.com/vertex-ai/generative-ai/docs/migrate/openai/overview",
            key_variable: "",
            ..Self::gemini()
        }
        .at(format!("https://{host}/v1/projects/{project}/locations/{location}/endpoints/openapi"))
    }

    /// Returns the dialect of Cloudflare Workers AI. Model names have the form `@cf/…`.
    #[must_use]
    pub fn cloudflare(account: &str) -> Self {
        Self {
            name: "cloudflare",
            documentation: "https://developers.cloudflare.com/workers-ai/configuration/open-ai-compatibility/",
            key_variable: "CLOUDFLARE_API_TOKEN",
            token_limit: TokenLimit::MaxTokens,
            ..Self::new("")
        }
        .at(format!("https://api.cloudflare.com/client/v4/accounts/{account}/ai/v1"))
    }

    /// Returns the dialect of Databricks. The model of a request is the name of a serving endpoint. `workspace` is a
    /// host, for example `adb-1234.5.azuredatabricks.net`.
    #[must_use]
    pub fn databricks(workspace: &str) -> Self {
        Self {
            name: "databricks",
            documentation: "https://docs.databricks.com/aws/en/machine-learning/model-serving/query-chat-models",
            key_variable: "DATABRICKS_TOKEN",
            token_limit: TokenLimit::MaxTokens,
            ..Self::new("")
        }
        .at(format!("https://{workspace}/serving-endpoints"))
    }

    /// Returns the dialect of Snowflake Cortex. The API key is a personal access token, an OAuth token or a JWT.
    #[must_use]
    pub fn snowflake(account: &str) -> Self {
        Self {
            name: "snowflake",
            documentation: "https://docs.snowflake.com/en/user-guide/snowflake-cortex/cortex-rest-api",
            key_variable: "SNOWFLAKE_TOKEN",
            strict_tools: false,
            ..Self::new("")
        }
        .at(format!("https://{account}.snowflakecomputing.com/api/v2/cortex/v1"))
    }

    /// Returns the dialect of Amazon Bedrock, with a Bedrock API key.
    #[must_use]
    pub fn bedrock(region: &str) -> Self {
        Self {
            name: "aws.bedrock",
            documentation: "https://docs.aws.amazon.com/bedrock/latest/userguide/inference-chat-completions.html",
            key_variable: "AWS_BEARER_TOKEN_BEDROCK",
            ..Self::new("")
        }
        .at(format!("https://bedrock-runtime.{region}.amazonaws.com/openai/v1"))
    }
}
