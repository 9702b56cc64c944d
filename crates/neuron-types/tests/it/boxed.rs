//! Tests of boxed strategies and embedding providers.

use neuron_types::{
    BoxedEmbeddingProvider, BoxedStrategy, CompletionRequest, ContextError, ContextStrategy,
    EmbeddingError, EmbeddingProvider, EmbeddingRequest, EmbeddingResponse, Message, ProviderInfo,
    RequestRef, TokenUsage,
};

/// A context strategy whose compaction keeps only as many messages as the field states. The compaction reports token
/// usage.
struct Keep(usize);

fn one_token() -> TokenUsage {
    TokenUsage { output_tokens: 1, ..Default::default() }
}

impl ContextStrategy for Keep {
    fn should_compact(&self, messages: &[Message], token_count: usize) -> bool {
        messages.len() > self.0 && token_count > 10
    }

    async fn compact(&self, mut messages: Vec<Message>) -> Result<Vec<Message>, ContextError> {
        if messages.is_empty() {
            return Err(ContextError::CompactionFailed("nothing to keep".into()));
        }
        messages.truncate(self.0);
        Ok(messages)
    }

    fn token_estimate(&self, messages: &[Message]) -> usize {
        messages.len() * 10
    }

    fn estimate_request(&self, request: RequestRef<'_>) -> usize {
        5 + self.token_estimate(request.messages)
    }

    fn should_compact_request(&self, request: RequestRef<'_>, token_count: usize) -> bool {
        token_count > 20 && self.should_compact(request.messages, token_count)
    }

    fn counts_tokens(&self) -> bool {
        true
    }

    async fn compact_request(
        &self,
        request: RequestRef<'_>,
        token_count: usize,
    ) -> Result<(Vec<Message>, TokenUsage), ContextError> {
        let usage = TokenUsage { input_tokens: token_count, ..Default::default() };
        Ok((self.compact(request.messages.to_vec()).await?, usage))
    }

    async fn compact_with_usage(
        &self,
        messages: Vec<Message>,
    ) -> Result<(Vec<Message>, TokenUsage), ContextError> {
        Ok((self.compact(messages).await?, one_token()))
    }
}

#[tokio::test]
async fn boxed_strategy_forwards_every_method() {
    let boxed = BoxedStrategy::new(Keep(1));
    let messages = || vec![Message::user("1"), Message::assistant("2")];
    for strategy in [boxed.clone(), BoxedStrategy::new(boxed)] {
        assert!(strategy.should_compact(&messages(), 11));
        assert!(!strategy.should_compact(&messages(), 10));
        assert!(!strategy.should_compact(&messages()[..1], 11));
        assert_eq!(strategy.token_estimate(&messages()), 20);
        let kept = [Message::user("1")];
        assert_eq!(strategy.compact(messages()).await.unwrap(), kept);
        let (compacted, usage) = strategy.compact_with_usage(messages()).await.unwrap();
        assert_eq!((&compacted[..], usage), (&kept[..], one_token()));
        let request = CompletionRequest { messages: messages(), ..Default::default() };
        assert_eq!(
            (strategy.estimate_request(request.view()), strategy.counts_tokens()),
            (25, true)
        );
        assert!(strategy.should_compact_request(request.view(), 21));
        assert!(!strategy.should_compact_request(request.view(), 20));
        let (compacted, usage) = strategy.compact_request(request.view(), 7).await.unwrap();
        assert_eq!((&compacted[..], usage.input_tokens), (&kept[..], 7));
        let error = strategy.compact(vec![]).await.unwrap_err();
        assert_eq!(error.to_string(), "compaction failed: nothing to keep");
        assert_eq!(format!("{strategy:?}"), "BoxedStrategy { .. }");
    }
}

#[tokio::test]
async fn strategy_without_usage_reports_zero_tokens() {
    struct All;
    impl ContextStrategy for All {
        fn should_compact(&self, _messages: &[Message], _token_count: usize) -> bool {
            true
        }
        async fn compact(&self, messages: Vec<Message>) -> Result<Vec<Message>, ContextError> {
            Ok(messages)
        }
        fn token_estimate(&self, _messages: &[Message]) -> usize {
            0
        }
    }
    let strategy = BoxedStrategy::new(All);
    let (messages, usage) = strategy.compact_with_usage(vec![Message::user("1")]).await.unwrap();
    assert_eq!((messages.len(), usage), (1, TokenUsage::default()));
}

#[tokio::test]
async fn boxed_embedding_provider_forwards_every_method() {
    struct Length;
    impl EmbeddingProvider for Length {
        async fn embed(
            &self,
            request: EmbeddingRequest,
        ) -> Result<EmbeddingResponse, EmbeddingError> {
            if request.input.is_empty() {
                return Err(EmbeddingError::InvalidRequest("no input".into()));
            }
            Ok(EmbeddingResponse {
                embeddings: request.input.iter().map(|text| vec![text.len() as f32]).collect(),
                model: request.model,
                ..Default::default()
            })
        }

        fn embedding_info(&self) -> ProviderInfo<'_> {
            ProviderInfo::new("length", "m").at_server("length.example", Some(443))
        }
    }
    let boxed = BoxedEmbeddingProvider::new(Length);
    for provider in [boxed.clone(), BoxedEmbeddingProvider::new(boxed)] {
        assert_eq!(provider.embedding_info(), Length.embedding_info());
        let request = EmbeddingRequest {
            model: "m".into(),
            input: vec!["four".into(), "two".into()],
            ..Default::default()
        };
        let response = provider.embed(request).await.unwrap();
        assert_eq!(response.embeddings, [[4.0], [3.0]]);
        assert_eq!(response.model, "m");
        let error = provider.embed(EmbeddingRequest::default()).await.unwrap_err();
        assert_eq!(error.to_string(), "invalid request: no input");
        assert_eq!(format!("{provider:?}"), "BoxedEmbeddingProvider { .. }");
    }
}
