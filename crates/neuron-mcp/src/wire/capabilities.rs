//! Conversion of a client's capabilities to the type of the SDK `rmcp`.

use rmcp::model::{
    ClientCapabilities, ElicitationCapability, FormElicitationCapability, JsonObject,
    RootsCapabilities, SamplingCapability, UrlElicitationCapability,
};

/// The capabilities of a client, which follow from the handlers that it has.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Abilities {
    pub(crate) sampling: bool,
    pub(crate) forms: bool,
    pub(crate) urls: bool,
    pub(crate) roots: bool,
    /// `true` if the client can follow a task that a server creates for a tool call.
    pub(crate) tasks: bool,
}

/// Converts a client's capabilities to the SDK's type, for the handshake.
pub(crate) fn to_sdk(abilities: Abilities) -> ClientCapabilities {
    let mut sent = match abilities.tasks {
        true => ClientCapabilities::builder().enable_tasks().build(),
        false => ClientCapabilities::default(),
    };
    if abilities.sampling {
        let mut sampling = SamplingCapability::default();
        sampling.tools = Some(JsonObject::new());
        sent.sampling = Some(sampling);
    }
    if abilities.forms || abilities.urls {
        let mut elicitation = ElicitationCapability::new();
        elicitation.form = abilities.forms.then(FormElicitationCapability::new);
        elicitation.url = abilities.urls.then(UrlElicitationCapability::new);
        sent.elicitation = Some(elicitation);
    }
    if abilities.roots {
        let mut roots = RootsCapabilities::default();
        roots.list_changed = Some(true);
        sent.roots = Some(roots);
    }
    sent
}
