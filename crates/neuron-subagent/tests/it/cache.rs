//! Tests of the cache breakpoint in the conversations of sub-agents.

use std::sync::{Arc, Mutex};

use neuron_loop::LoopConfig;
use neuron_subagent::{SubAgentConfig, SubAgentManager};
use neuron_testing::{Reply, ScriptedProvider};
use neuron_types::{
    CacheControl, CacheTtl, CompletionResponse, Provider, ProviderError, RequestRef,
    RequestSettings, StreamHandle, ToolContext,
};

use crate::support::*;

/// A provider that records the cache breakpoint of each request.
#[derive(Clone)]
struct Breakpoints(ScriptedProvider, Arc<Mutex<Vec<Option<CacheControl>>>>);

impl Provider for Breakpoints {
    async fn complete_ref(
        &self,
        request: RequestRef<'_>,
    ) -> Result<CompletionResponse, ProviderError> {
        self.1.lock().unwrap().push(request.cache);
        self.0.complete_ref(request).await
    }

    async fn complete_stream_ref(
        &self,
        request: RequestRef<'_>,
    ) -> Result<StreamHandle, ProviderError> {
        self.1.lock().unwrap().push(request.cache);
        self.0.complete_stream_ref(request).await
    }
}

/// Runs an agent with this configuration, and returns the cache breakpoint of its request.
async fn cache(config: SubAgentConfig) -> Option<CacheControl> {
    let seen = Arc::default();
    let provider = Breakpoints(ScriptedProvider::new([Reply::text("done")]), Arc::clone(&seen));
    let mut manager = SubAgentManager::new();
    manager.register("a", config);
    let mut tools = acting(&Log::default());
    manager.add_to(&mut tools, provider).unwrap();
    let scripts = Scripts::new([("main", vec![asks(&["a"]), text("done")])]);
    let mut agent = Chat::new(main_agent(&scripts, tools));
    run(Way::Run, &mut agent, &ToolContext::default()).await.unwrap();
    let seen = seen.lock().unwrap();
    let [cache] = seen[..] else { panic!("{seen:?}") };
    cache
}

/// Before the field `cache` existed, the conversations of sub-agents had no cache breakpoint.
#[tokio::test]
async fn conversations_have_a_cache_breakpoint_unless_disabled() {
    assert_eq!(cache(SubAgentConfig::default()).await, Some(CacheControl::default()));
    let hour = Some(CacheControl { ttl: Some(CacheTtl::OneHour) });
    let request = RequestSettings { cache: hour, ..Default::default() };
    let settings = LoopConfig { request, ..LoopConfig::default() };
    assert_eq!(cache(SubAgentConfig { settings, ..Default::default() }).await, hour);
    assert_eq!(cache(SubAgentConfig { cache: None, ..Default::default() }).await, None);
}
