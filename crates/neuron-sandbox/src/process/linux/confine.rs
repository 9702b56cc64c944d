//! Confines a thread and all processes that it starts, by dropping capabilities and by Landlock and seccomp rules.

use std::path::{Path, PathBuf};

use landlock::{
    ABI, Access, AccessFs, AccessNet, BitFlags, CompatLevel, Compatible, PathBeneath, PathFd,
    Ruleset, RulesetAttr, RulesetCreated, RulesetCreatedAttr, RulesetStatus, Scope,
};
use neuron_types::SandboxError;
use rustix::process::Pid;
use rustix::thread::{CapabilitySet, CapabilitySets};

use super::super::Confinement;
use super::filter::Filters;
use super::{Settings, setup_failed};

/// Landlock version that a full confinement requires. It is the first version that restricts signals.
pub(super) const FULL: ABI = ABI::V6;

/// Paths of programs and libraries, which programs can read and run by default.
const SYSTEM_EXECUTE: [&str; 7] = ["/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32"];
/// Paths that libraries read, which programs can read by default. None of these files is secret.
const SYSTEM_READ: [&str; 12] = [
    "/etc/alternatives",
    "/etc/ca-certificates",
    "/etc/hosts",
    "/etc/ld.so.cache",
    "/etc/ld.so.conf",
    "/etc/ld.so.conf.d",
    "/etc/localtime",
    "/etc/nsswitch.conf",
    "/etc/pki/tls/certs",
    "/etc/resolv.conf",
    "/etc/ssl/certs",
    "/etc/ssl/openssl.cnf",
];
/// Devices without stored data, which programs can read and write by default.
const DEVICES: [&str; 5] = ["/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom"];

/// Niceness of programs. Other processes, including this one, get scarce processors first.
const NICENESS: i32 = 10;

/// The rules of a sandbox, from which each program's [`ThreadRules`] are created.
pub(super) struct Rules {
    files: RulesetCreated,
    /// The strength with which the kernel enforces the rules.
    pub(super) confinement: Confinement,
    has_network: bool,
    may_change_attributes: bool,
}

impl Rules {
    /// Opens the allowed paths. `newest` is the newest Landlock version to use, which is [`FULL`] except in tests.
    pub(super) fn new(settings: &Settings, newest: ABI) -> Result<Self, SandboxError> {
        let full = files(settings, FULL, CompatLevel::HardRequirement);
        let (files, confinement) = match full {
            // A full confinement is used if the kernel supports it, even if older kernels are accepted.
            Ok(files) if newest == FULL => (files, Confinement::Full),
            Err(error) if !settings.accepts_older_kernel => return Err(error),
            _ => (files(settings, newest, CompatLevel::BestEffort)?, Confinement::OlderKernel),
        };
        Ok(Self {
            files,
            confinement,
            has_network: settings.has_network,
            may_change_attributes: settings.may_change_attributes,
        })
    }

    /// Creates the rules for a thread whose child processes belong to the process group `group`.
    pub(super) fn for_group(&self, group: Pid) -> Result<ThreadRules, SandboxError> {
        let files = self.files.try_clone();
        let filters =
            Filters::new(group, self.has_network, self.may_change_attributes, self.confinement);
        Ok(ThreadRules {
            files: files.map_err(|error| setup_failed("the Landlock ruleset", error))?,
            filters: filters.map_err(|error| setup_failed("the seccomp filter", error))?,
            confinement: self.confinement,
        })
    }
}

/// The rules for one thread and the processes that it starts.
pub(super) struct ThreadRules {
    files: RulesetCreated,
    filters: Filters,
    confinement: Confinement,
}

impl ThreadRules {
    /// Confines the calling thread, and all processes that it starts, until they end.
    pub(super) fn enforce(self) -> Result<(), SandboxError> {
        // The thread that checks the limits must get a processor even if the program uses all of them.
        rustix::process::nice(NICENESS)
            .map_err(|error| setup_failed("the priority cannot be lowered", error))?;
        rustix::thread::set_no_new_privs(true)
            .map_err(|error| setup_failed("set-user-id programs cannot be disarmed", error))?;
        // Root without capabilities has only the rights of an ordinary user. Because of `no_new_privs`, no program
        // regains capabilities.
        let none = CapabilitySet::empty();
        let sets = CapabilitySets { effective: none, permitted: none, inheritable: none };
        rustix::thread::set_capabilities(None, sets)
            .map_err(|error| setup_failed("capabilities cannot be dropped", error))?;
        let status = self.files.restrict_self();
        let status = status.map_err(|error| setup_failed("Landlock cannot be enforced", error))?;
        let is_enforced = match self.confinement {
            Confinement::Full => status.ruleset == RulesetStatus::FullyEnforced,
            Confinement::OlderKernel => status.ruleset != RulesetStatus::NotEnforced,
        };
        if !is_enforced || !status.no_new_privs {
            return Err(setup_failed("Landlock is not enforced", format!("{status:?}")));
        }
        self.filters.apply().map_err(|error| setup_failed("seccomp cannot be enforced", error))
    }
}

/// Creates a Landlock ruleset with the allowed paths. `level` decides whether a missing feature of the kernel is an
/// error.
fn files(
    settings: &Settings,
    newest: ABI,
    level: CompatLevel,
) -> Result<RulesetCreated, SandboxError> {
    let failed = |error: landlock::RulesetError| {
        setup_failed(
            "this kernel cannot confine programs, which needs Linux 6.12 or newer with Landlock \
             turned on (ABI 6). Linux from 5.13 on can confine them less: see `accept_older_kernel`",
            error,
        )
    };
    let mut ruleset = Ruleset::default()
        .set_compatibility(level)
        .handle_access(AccessFs::from_all(newest))
        .map_err(failed)?;
    // Older versions cannot restrict signals, and an empty ruleset is an error.
    if newest >= ABI::V6 {
        ruleset = ruleset.scope(Scope::from_all(newest)).map_err(failed)?;
    }
    if !settings.has_network && newest >= ABI::V4 {
        ruleset = ruleset.handle_access(AccessNet::from_all(newest)).map_err(failed)?;
    }
    let mut ruleset = ruleset.create().map_err(failed)?;
    let mut allow = |path: &Path, access: BitFlags<AccessFs>, is_required: bool| {
        let is_directory = match std::fs::metadata(path) {
            Ok(metadata) => metadata.is_dir(),
            // Not every system has all default paths.
            Err(_) if !is_required => return Ok(()),
            Err(error) => return Err(setup_failed(path.display(), error)),
        };
        let access = match is_directory {
            true => access & AccessFs::from_all(newest),
            // The kernel rejects rights of directories for a file.
            false => access & AccessFs::from_file(newest),
        };
        let opened = PathFd::new(path).map_err(|error| setup_failed(path.display(), error))?;
        (&mut ruleset)
            .add_rule(PathBeneath::new(opened, access))
            .map(drop)
            .map_err(|error| setup_failed(path.display(), error))
    };

    if settings.has_system_paths {
        for path in SYSTEM_EXECUTE {
            allow(path.as_ref(), execute(), false)?;
        }
        for path in SYSTEM_READ {
            allow(path.as_ref(), read(), false)?;
        }
        for path in DEVICES {
            allow(path.as_ref(), AccessFs::ReadFile | AccessFs::WriteFile, false)?;
        }
    }
    allow(&settings.directory, read(), true)?;
    for (paths, access) in
        [(&settings.read, read()), (&settings.write, write()), (&settings.execute, execute())]
    {
        for path in paths {
            allow(path, access, true)?;
        }
    }
    Ok(ruleset)
}

fn read() -> BitFlags<AccessFs> {
    AccessFs::ReadFile | AccessFs::ReadDir
}

fn execute() -> BitFlags<AccessFs> {
    read() | AccessFs::Execute
}

/// Returns all Landlock access rights except running files, creating devices and sockets, and controlling devices.
fn write() -> BitFlags<AccessFs> {
    read()
        | AccessFs::WriteFile
        | AccessFs::Truncate
        | AccessFs::RemoveDir
        | AccessFs::RemoveFile
        | AccessFs::MakeDir
        | AccessFs::MakeReg
        | AccessFs::MakeSym
        | AccessFs::MakeFifo
        | AccessFs::Refer
}

/// Returns the paths from which programs may run, without symbolic links. Paths that do not exist are left out.
pub(super) fn executable_paths(settings: &Settings) -> Vec<PathBuf> {
    let system = SYSTEM_EXECUTE.iter().filter(|_| settings.has_system_paths).map(PathBuf::from);
    let paths = system.chain(settings.execute.iter().cloned());
    paths.filter_map(|path| path.canonicalize().ok()).collect()
}
