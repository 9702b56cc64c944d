//! The identity of the peer, and the version of the protocol.

use std::fmt;

/// A program that speaks MCP.
///
/// Build it with `..Default::default()`: fields may be added.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct McpImplementation {
    /// Its name.
    pub name: String,
    /// Its name for people.
    pub title: Option<String>,
    /// Its version.
    pub version: String,
}

/// A version of the protocol, in order of time.
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
    /// `2026-07-28`, in which every request carries its context.
    V2026_07_28,
}

impl McpVersion {
    /// All that neuron speaks, oldest first.
    pub const ALL: [Self; 5] = [
        Self::V2024_11_05,
        Self::V2025_03_26,
        Self::V2025_06_18,
        Self::V2025_11_25,
        Self::V2026_07_28,
    ];

    /// As the protocol writes it.
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

    /// Returns `true` if a connection starts with a handshake (`initialize`).
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
