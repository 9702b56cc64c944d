//! Conversion of a peer's name, version and protocol version between this crate's types and the SDK's types.

use rmcp::model::{Implementation, ProtocolVersion};

use crate::text::cleaned_name;
use crate::{McpImplementation, McpVersion};

/// Converts the name and version that the peer sent. Removes hidden characters.
pub(crate) fn implementation_from_sdk(implementation: &Implementation) -> McpImplementation {
    McpImplementation {
        name: cleaned_name(implementation.name.clone()),
        title: implementation.title.clone().map(cleaned_name),
        version: cleaned_name(implementation.version.clone()),
    }
}

/// Converts the name and version of this client or server for the peer.
pub(crate) fn implementation_to_sdk(implementation: &McpImplementation) -> Implementation {
    let mut sent = Implementation::new(&implementation.name, &implementation.version);
    sent.title.clone_from(&implementation.title);
    sent
}

/// Converts a protocol version that the peer sent. Returns `None` if this crate does not support the version.
pub(crate) fn version_from_sdk(version: &ProtocolVersion) -> Option<McpVersion> {
    McpVersion::ALL.into_iter().find(|known| known.as_str() == version.as_str())
}

/// Converts a protocol version for the peer.
pub(crate) fn version_to_sdk(version: McpVersion) -> ProtocolVersion {
    match version {
        McpVersion::V2024_11_05 => ProtocolVersion::V_2024_11_05,
        McpVersion::V2025_03_26 => ProtocolVersion::V_2025_03_26,
        McpVersion::V2025_06_18 => ProtocolVersion::V_2025_06_18,
        McpVersion::V2025_11_25 => ProtocolVersion::V_2025_11_25,
        McpVersion::V2026_07_28 => ProtocolVersion::V_2026_07_28,
    }
}
