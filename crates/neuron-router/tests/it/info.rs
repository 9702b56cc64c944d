//! Tests of the metadata of a router and of its types.

use neuron_model::{
    BoxedProvider, CompletionRequest, ForcedCalls, Provider, ProviderInfo, RouteModel, ToolChoice,
};
use neuron_router::{Route, Router};
use neuron_testing::ScriptedProvider;

use crate::support::request;

/// Returns a provider with this support for forced tool calls.
fn forcing(forced_calls: ForcedCalls) -> ScriptedProvider {
    let info = ProviderInfo::new("forcing", "plain-1").with_forced_calls(forced_calls);
    ScriptedProvider::default().with_info(info)
}

#[test]
fn info_names_the_first_route_and_its_model() {
    let router = Router::builder()
        .route(Route::new("a", forcing(ForcedCalls::Accepted)).model("own"))
        .route(Route::new("b", ScriptedProvider::default()))
        .build()
        .unwrap();
    assert_eq!((router.info().name, router.info().default_model), ("forcing", "own"));
    let routes = [("forcing", "own"), ("scripted", "scripted-model")];
    let routes = routes.map(|(provider, model)| RouteModel::new(provider, model));
    assert_eq!(router.info().routes, routes);
    let outer = Router::builder()
        .route(Route::new("c", ScriptedProvider::default()).model("small"))
        .route(Route::new("inner", router.clone()))
        .build()
        .unwrap();
    let [one, two] = routes;
    assert_eq!(outer.info().routes, [RouteModel::new("scripted", "small"), one, two]);
    assert_eq!(router.routes()[1].name(), "b");
}

#[test]
fn tool_is_forced_only_if_all_routes_support_it() {
    use ForcedCalls::{Accepted, NotWhileThinking, Refused};
    let thinking = NotWhileThinking { thinking_models: &["deep"] };
    let check = |routes: &[(ForcedCalls, &str)], expected: bool| {
        let builder = routes.iter().enumerate().fold(Router::builder(), |builder, (at, route)| {
            builder.route(Route::new(at.to_string(), forcing(route.0)).model(route.1))
        });
        let router = builder.build().unwrap();
        let request = CompletionRequest {
            tool_choice: Some(ToolChoice::Specific { name: "t".into() }),
            ..request()
        };
        assert_eq!(router.info().can_force_call(request.view()), expected, "{routes:?}");
    };
    check(&[(Accepted, "m"), (Accepted, "m")], true);
    check(&[(Accepted, "m"), (Refused, "m")], false);
    check(&[(Accepted, "m"), (thinking, "plain")], true);
    check(&[(Accepted, "m"), (thinking, "deep-2")], false);
    check(&[(thinking, "plain"), (thinking, "plain")], true);
    let other = NotWhileThinking { thinking_models: &["else"] };
    check(&[(thinking, "plain"), (other, "plain")], false);
}

#[test]
fn router_is_shareable_between_threads() {
    fn shareable<T: Send + Sync + Clone + std::fmt::Debug + 'static>(_: &T) {}
    let route = Route::new("a", ScriptedProvider::default());
    let router = Router::builder().route(route.clone()).build().unwrap();
    shareable(&router);
    shareable(&route);
    let text = format!("{router:?} {:?}", BoxedProvider::new(router.clone()));
    assert!(text.contains("\"a\""), "{text}");
}
