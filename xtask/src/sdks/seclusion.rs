//! What a developer has set and the scripts must not see.

use std::ffi::OsStr;
use std::process::Command;

/// Keeps what a developer has set from a script: keys, addresses and settings of the clients,
/// proxies (the servers are on this machine), and modules of other Pythons.
pub(super) fn seclude(command: &mut Command) {
    for (key, _) in std::env::vars_os() {
        if is_a_setting(&key) {
            command.env_remove(&key);
        }
    }
    // The sources' folder stays as it is.
    command.env("PYTHONDONTWRITEBYTECODE", "1").env("PYTHONUTF8", "1");
}

fn is_a_setting(key: &OsStr) -> bool {
    let key = key.to_string_lossy().to_uppercase();
    let starts = ["ANTHROPIC_", "OPENAI_", "OLLAMA_", "PYTHON"];
    key.ends_with("_PROXY") || starts.iter().any(|start| key.starts_with(start))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_of_the_clients_are_recognised() {
        for key in
            ["ANTHROPIC_API_KEY", "OPENAI_BASE_URL", "OLLAMA_HOST", "https_proxy", "PYTHONPATH"]
        {
            assert!(is_a_setting(OsStr::new(key)), "{key}");
        }
        for key in ["PATH", "HOME", "NEURON_ANTHROPIC_"] {
            assert!(!is_a_setting(OsStr::new(key)), "{key}");
        }
    }
}
