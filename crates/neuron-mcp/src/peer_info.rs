//! The identity of the peer, and the version of the protocol.

use std::fmt;

/// Name and version of an MCP client or server.
///
/// Build it with `..Default::default()`, because fields may be added.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct McpImplementation {
    /// Name that programs use to identify the client or server, such as `weather-server`.
    pub name: String,
    /// Display name.
    pub title: Option<String>,
    /// Version of the program.
    pub version: String,
}

/// A version of the Model Context Protocol. In comparisons, a later version is greater.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum McpVersion {
    /// `2024-11-05`
    V2024_11_05,
    /// `2025-03-26`
    V2025_03_26,
    /// `2025-06-18`
    V2025_06_18,
    /// `2025-11-25`, the last version with a handshake.
    V2025_11_25,
    /// `2026-07-28`, which has no handshake. Every request carries the version and the client's capabilities.
    V2026_07_28,
}

impl McpVersion {
    /// All supported versions, oldest first.
    pub const ALL: [Self; 5] = [
        Self::V2024_11_05,
        Self::V2025_03_26,
        Self::V2025_06_18,
        Self::V2025_11_25,
        Self::V2026_07_28,
    ];

    /// Returns the version as the protocol writes it, for example `2025-11-25`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::V2024_11_05 => "2024-11-05",
            Self::V2025_03_26 => "2025-03-26",
            Self::V2025_06_18 => "2025-06-18",
            Self::V2025_11_25 => "2025-11-25",
            Self::V2026_07_28 => "2026-07-28",
        }
    }

    /// Returns `true` if a connection of this version starts with a handshake (`initialize`).
    #[must_use]
    pub fn has_handshake(self) -> bool {
        self <= Self::V2025_11_25
    }
}

impl fmt::Display for McpVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
