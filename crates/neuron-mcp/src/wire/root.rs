//! Conversion of roots between the types of this crate and the types of the SDK `rmcp`.
#![expect(deprecated, reason = "roots are left to older versions of the protocol")]

use rmcp::model::{ListRootsResult, Root};

use crate::McpRoot;

/// Converts the roots that a client sent.
pub(crate) fn from_sdk(result: ListRootsResult) -> Vec<McpRoot> {
    result.roots.into_iter().map(|root| McpRoot { uri: root.uri, name: root.name }).collect()
}

/// Converts the roots for the server.
pub(crate) fn to_sdk(roots: &[McpRoot]) -> ListRootsResult {
    let roots = roots.iter().map(|root| {
        let mut sent = Root::new(&root.uri);
        sent.name.clone_from(&root.name);
        sent
    });
    ListRootsResult::new(roots.collect())
}
