//! Definitions of the agent's service and of the register, with their handlers. The register is the Restate object that
//! lists the runs.
//!
//! The SDK's macros need a name at compile time. The name of an agent's service is known only at run time, so this
//! module builds the definitions itself.

use std::sync::Arc;
use std::time::Duration;

use neuron_types::Provider;
use restate_sdk::context::{Context, ObjectContext, SharedObjectContext};
use restate_sdk::discovery;
use restate_sdk::endpoint::{ContextInternal, Error, HandlerOptions, ServiceOptions};
use restate_sdk::service::macro_support::{ServiceBoxFuture, service_definition};
use restate_sdk::service::{Service, ServiceDefinition};

use crate::continuation;
use crate::host::Host;
use crate::lease::held;
use crate::payload::{Stored, Written};
use crate::{RestateOptions, batch, register};

/// Name of the handler that starts a run.
pub(crate) const RUN: &str = "run";
/// Name of the handler that sends a signal to a run.
pub(crate) const SIGNAL: &str = "signal";

/// Time for which Restate keeps the result of a tool call with an effect key for other calls of the run, 90 days. A run
/// that takes longer may repeat an effect that an agent inside another call has had before.
const EFFECT_RETENTION: Duration = Duration::from_secs(90 * 24 * 3600);

/// Returns the definition of the agent's service. Returns `None` if Restate does not accept the name.
pub(crate) fn service<P: Provider + 'static>(host: Arc<Host<P>>) -> Option<ServiceDefinition> {
    let described = discovery::Service {
        documentation: Some("An agent: runs it, its tools, and sends it signals.".into()),
        ..described(discovery::ServiceType::Service, &host.name)?
    };
    let handlers = [
        handler(RUN, Body::Json, Body::Json)?,
        handler(SIGNAL, Body::Json, Body::Nothing)?,
        handler(continuation::HANDLER, Body::Json, Body::Json)?,
        handler(batch::TOOL, Body::Json, Body::Json)?,
        handler(batch::AGENT, Body::Json, Body::Json)?,
    ];
    let described = discovery::Service { handlers: handlers.into(), ..described };
    let private = || HandlerOptions::new().ingress_private(true);
    let of_call = || private().idempotency_retention(EFFECT_RETENTION);
    let options = timeouts(&host.options)
        .handler(continuation::HANDLER, private())
        .handler(batch::TOOL, of_call())
        .handler(batch::AGENT, of_call());
    Some(service_definition(Agent(host), described).options(options))
}

/// Returns the definition of the register, the Restate object that lists the runs. Returns `None` if Restate does not
/// accept the name.
pub(crate) fn object<P>(host: &Host<P>) -> Option<ServiceDefinition> {
    let described = described(discovery::ServiceType::VirtualObject, &register::name(&host.name))?;
    let shared =
        |handler| discovery::Handler { ty: Some(discovery::HandlerType::Shared), ..handler };
    let handlers = vec![
        shared(handler(register::PENDING, Body::Nothing, Body::Json)?),
        shared(handler(register::REFUSAL, Body::Json, Body::Json)?),
        handler(register::SHOW, Body::Json, Body::Nothing)?,
        handler(register::HIDE, Body::Nothing, Body::Nothing)?,
        handler(register::PIN, Body::Json, Body::Nothing)?,
        handler(register::END, Body::Json, Body::Nothing)?,
        handler(register::FORGET, Body::Nothing, Body::Nothing)?,
    ];
    let described = discovery::Service {
        documentation: Some("What the runs of an agent wait for.".into()),
        handlers,
        ..described
    };
    let private = [
        register::REFUSAL,
        register::SHOW,
        register::HIDE,
        register::PIN,
        register::END,
        register::FORGET,
    ];
    let options = private.into_iter().fold(ServiceOptions::new(), |options, handler| {
        options.handler(handler, HandlerOptions::new().ingress_private(true))
    });
    Some(service_definition(RegisteredRuns, described).options(options))
}

/// Returns the service options with the inactivity timeout and the abort timeout.
///
/// After the inactivity timeout, Restate asks an invocation to suspend itself. An invocation that executes a step
/// cannot suspend itself, and is aborted after the abort timeout.
fn timeouts(options: &RestateOptions) -> ServiceOptions {
    let timeouts = ServiceOptions::new().abort_timeout(options.longest_step);
    match options.aside_after {
        Some(wait) => timeouts.inactivity_timeout(wait),
        None => timeouts,
    }
}

/// Dispatches requests to the handlers of an agent.
struct Agent<P>(Arc<Host<P>>);

impl<P: Provider + 'static> Service for Agent<P> {
    type Future = ServiceBoxFuture;

    fn handle(&self, ctx: ContextInternal) -> Self::Future {
        let host = self.0.clone();
        let lease = host.options.lease();
        Box::pin(async move {
            match ctx.handler_name() {
                RUN => {
                    let (Stored(asked), metadata) = ctx.input().await;
                    let context = Context::from((&ctx, metadata));
                    ctx.handle_handler_result(held(lease, host.run(context, asked)).await);
                }
                SIGNAL => {
                    let (Stored(addressed), metadata) = ctx.input().await;
                    let context = Context::from((&ctx, metadata));
                    ctx.handle_handler_result(host.signal(&context, addressed).await);
                }
                continuation::HANDLER => {
                    let (Stored(resume), metadata) = ctx.input().await;
                    let context = Context::from((&ctx, metadata));
                    ctx.handle_handler_result(held(lease, host.resume(context, resume)).await);
                }
                batch::TOOL => {
                    let (Stored(request), metadata) = ctx.input().await;
                    let context = Context::from((&ctx, metadata));
                    ctx.handle_handler_result(held(lease, host.tool(context, request)).await);
                }
                batch::AGENT => {
                    let (Stored(request), metadata) = ctx.input().await;
                    let context = Context::from((&ctx, metadata));
                    ctx.handle_handler_result(held(lease, host.sub_agent(context, request)).await);
                }
                other => return Err(Error::unknown_handler(ctx.service_name(), other)),
            }
            ctx.end();
            Ok(())
        })
    }
}

/// Dispatches requests to the handlers of the register, the Restate object that lists the runs.
struct RegisteredRuns;

impl Service for RegisteredRuns {
    type Future = ServiceBoxFuture;

    fn handle(&self, ctx: ContextInternal) -> Self::Future {
        Box::pin(async move {
            match ctx.handler_name() {
                register::PENDING => {
                    let ((), metadata) = ctx.input().await;
                    let context = SharedObjectContext::from((&ctx, metadata));
                    ctx.handle_handler_result(register::handle_pending(context).await);
                }
                register::REFUSAL => {
                    let (signal, metadata) = ctx.input().await;
                    let context = SharedObjectContext::from((&ctx, metadata));
                    ctx.handle_handler_result(register::handle_refusal(context, signal).await);
                }
                handler @ (register::SHOW | register::PIN | register::END) => {
                    let (written, metadata): (Written, _) = ctx.input().await;
                    let context = ObjectContext::from((&ctx, metadata));
                    match handler {
                        register::SHOW => register::handle_set(&context, register::WAIT, written),
                        register::PIN => register::handle_set(&context, register::VERSION, written),
                        _ => register::handle_end(&context, written, ctx.service_name()),
                    }
                    ctx.handle_handler_result(Ok(()));
                }
                handler @ (register::HIDE | register::FORGET) => {
                    let ((), metadata) = ctx.input().await;
                    let context = ObjectContext::from((&ctx, metadata));
                    match handler {
                        register::HIDE => register::handle_hide(&context),
                        _ => register::handle_forget(&context),
                    }
                    ctx.handle_handler_result(Ok(()));
                }
                other => return Err(Error::unknown_handler(ctx.service_name(), other)),
            }
            ctx.end();
            Ok(())
        })
    }
}

/// Returns the discovery description of a service or virtual object, with an empty list of handlers. Returns `None` if
/// the name is invalid.
fn described(ty: discovery::ServiceType, name: &str) -> Option<discovery::Service> {
    Some(discovery::Service {
        ty,
        name: discovery::ServiceName::try_from(name).ok()?,
        handlers: Vec::new(),
        documentation: None,
        metadata: Default::default(),
        abort_timeout: None,
        inactivity_timeout: None,
        journal_retention: None,
        idempotency_retention: None,
        enable_lazy_state: None,
        ingress_private: None,
        retry_policy_initial_interval: None,
        retry_policy_max_interval: None,
        retry_policy_max_attempts: None,
        retry_policy_exponentiation_factor: None,
        retry_policy_on_max_attempts: None,
    })
}

/// Content of a handler's input or output.
#[derive(Clone, Copy, PartialEq)]
enum Body {
    Json,
    Nothing,
}

/// Returns the description of a handler with this input and output. Returns `None` if the name is invalid.
fn handler(name: &str, takes: Body, gives: Body) -> Option<discovery::Handler> {
    let input = match takes {
        Body::Json => discovery::InputPayload::from_metadata::<Stored<()>>(),
        Body::Nothing => discovery::InputPayload::empty(),
    };
    let output = match gives {
        Body::Json => discovery::OutputPayload::from_metadata::<Stored<()>>(),
        Body::Nothing => discovery::OutputPayload::empty(),
    };
    Some(discovery::Handler {
        name: discovery::HandlerName::try_from(name).ok()?,
        input: Some(input),
        output: Some(output),
        ty: None,
        documentation: None,
        metadata: Default::default(),
        abort_timeout: None,
        inactivity_timeout: None,
        journal_retention: None,
        idempotency_retention: None,
        workflow_completion_retention: None,
        enable_lazy_state: None,
        ingress_private: None,
        retry_policy_initial_interval: None,
        retry_policy_max_interval: None,
        retry_policy_max_attempts: None,
        retry_policy_exponentiation_factor: None,
        retry_policy_on_max_attempts: None,
    })
}
