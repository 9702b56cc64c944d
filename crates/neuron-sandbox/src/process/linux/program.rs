//! Resolves the program file, the directory and the environment of a command in a sandbox ([`Program`]).

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use indexmap::IndexMap;
use neuron_types::{SandboxError, ToolCommand, ToolContext};

use super::Settings;

/// Default value of the variable `PATH`.
const PATH: &str = "/usr/local/bin:/usr/bin:/bin";

/// Names of variables that a shell sets or uses itself. A program's environment must not contain them. The launcher's
/// shell would change them, or would not start the program.
const OWN_NAMES: [&str; 19] = [
    "_",
    "BASHOPTS",
    "BASHPID",
    "BASH_ARGV0",
    "BASH_SUBSHELL",
    "BASH_VERSINFO",
    "DIRSTACK",
    "EPOCHREALTIME",
    "EPOCHSECONDS",
    "EUID",
    "GROUPS",
    "HISTCMD",
    "LINENO",
    "OPTIND",
    "PPID",
    "RANDOM",
    "SHELLOPTS",
    "SRANDOM",
    "UID",
];

/// A command with its resolved program file, directory and environment.
pub(super) struct Program {
    pub(super) path: PathBuf,
    pub(super) args: Vec<OsString>,
    pub(super) env: IndexMap<OsString, OsString>,
    pub(super) directory: PathBuf,
    pub(super) stdin: Vec<u8>,
}

impl Program {
    /// Resolves a command. `executable` contains the paths from which programs may run. Returns an error if the
    /// program, the directory or a variable of the command does not exist or is not allowed.
    pub(super) fn find(
        command: ToolCommand,
        settings: &Settings,
        executable: &[PathBuf],
        ctx: &ToolContext,
    ) -> Result<Self, SandboxError> {
        let refused = |reason: String| Err(SandboxError::SetupFailed(reason));
        let env = environment(&command, settings, ctx);
        for (name, value) in &env {
            // The launcher's shell passes the variables on, and it accepts only names of this form.
            if !is_name(name)
                || OWN_NAMES.iter().any(|own| name == own)
                || value.as_bytes().contains(&0)
            {
                return refused(format!("{name:?} cannot be set in the environment"));
            }
        }
        let directory = match &command.current_dir {
            Some(path) => settings.directory.join(path),
            None => settings.directory.clone(),
        };
        if !directory.is_dir() {
            return refused(format!("there is no directory {}", directory.display()));
        }
        let name = &command.program;
        let found = candidates(name, &directory, env.get(OsStr::new("PATH")));
        let Some(path) = found.into_iter().find(|path| is_program(path)) else {
            return refused(format!("there is no program {}", name.display()));
        };
        // A symbolic link could lead out of the allowed paths.
        let target = path.canonicalize().unwrap_or_else(|_| path.clone());
        if !executable.iter().any(|allowed| target.starts_with(allowed)) {
            return refused(format!(
                "{} is not where programs may run; allow it with `execute`",
                target.display()
            ));
        }
        Ok(Self { path, args: command.args, env, directory, stdin: command.stdin })
    }
}

/// Builds the environment of a program. Variables of the command override inherited variables. Inherited variables
/// override variables that the sandbox sets.
fn environment(
    command: &ToolCommand,
    settings: &Settings,
    ctx: &ToolContext,
) -> IndexMap<OsString, OsString> {
    let mut env = IndexMap::from([("PATH".into(), PATH.into())]);
    env.extend(settings.env.iter().cloned());
    for name in &settings.inherited_env {
        let value = ctx.environment.get(name).map(OsString::from);
        env.extend(value.or_else(|| std::env::var_os(name)).map(|value| (name.into(), value)));
    }
    env.extend(command.env.iter().cloned());
    env
}

/// Returns `true` if a text is a valid name of a shell variable.
fn is_name(name: &OsStr) -> bool {
    let is_letter = |byte: &u8| byte.is_ascii_alphabetic() || *byte == b'_';
    match name.as_bytes() {
        [first, rest @ ..] => {
            is_letter(first) && rest.iter().all(|byte| is_letter(byte) || byte.is_ascii_digit())
        }
        [] => false,
    }
}

/// Returns the possible paths of a program, in the order of the search. A name with a slash is relative to `directory`.
/// Any other name is searched in the folders of `path`.
fn candidates(name: &Path, directory: &Path, path: Option<&OsString>) -> Vec<PathBuf> {
    if name.as_os_str().as_bytes().contains(&b'/') {
        return vec![directory.join(name)];
    }
    let folders = path.map(std::env::split_paths).into_iter().flatten();
    folders.map(|folder| directory.join(folder).join(name)).collect()
}

/// Returns `true` if a path is a file that some user may execute.
fn is_program(path: &Path) -> bool {
    path.metadata()
        .is_ok_and(|metadata| metadata.is_file() && metadata.permissions().mode() & 0o111 != 0)
}
