//! A sandbox of the Linux kernel for programs that are children of this process ([`ProcessSandbox`]).

use std::ffi::OsString;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use neuron_types::{Sandbox, SandboxError, ToolContext, ToolDyn, ToolOutput};
use serde_json::Value;

// The other file stands in for the module where the kernel cannot confine, or the filters do not know the
// numbers of its calls.
#[cfg_attr(
    not(all(
        target_os = "linux",
        any(target_arch = "aarch64", target_arch = "riscv64", target_arch = "x86_64"),
        target_pointer_width = "64"
    )),
    path = "process/elsewhere.rs"
)]
mod linux;

use linux::Ready;

/// Runs the programs of tools as children of this process that the Linux kernel confines.
///
/// It confines the programs of tools that only run one, such as [`Confined`](super::Confined). A tool whose own
/// code runs in this process, such as a function, a tool of an MCP server or another agent, cannot be confined. It
/// runs as it does without a sandbox, unless [`programs_only`](ProcessSandboxBuilder::programs_only) refuses it.
///
/// # What a program cannot do
///
/// - **Read or list** files but those that the builder allows and the system's (see
///   [`without_system_paths`](ProcessSandboxBuilder::without_system_paths)); **write, create, rename,
///   remove** but where [`write`](ProcessSandboxBuilder::write) allows it; **run** programs but the
///   system's and where [`execute`](ProcessSandboxBuilder::execute) allows it. Links do not help it.
/// - **Change modes, owners, times or attributes** of files, its own included, unless
///   [`allow_attribute_changes`](ProcessSandboxBuilder::allow_attribute_changes).
/// - **Open sockets** of any kind, unless [`allow_network`](ProcessSandboxBuilder::allow_network),
///   which allows IPv4 and IPv6 and still no other.
/// - **Signal, trace or read** processes that are not its own, change their limits or priorities,
///   use keys, namespaces, mounts, shared memory of other processes or kernel interfaces that an
///   ordinary program does not need; gain rights by a set-user-id program. It has no capability, also
///   if this process is root.
/// - **Outlive** the call: with the end of its first process, at a limit, at a cancellation, when the
///   future is dropped, and when this process dies, all its processes are killed. None can leave.
/// - **See** this process's environment or open files.
///
/// # Limits
///
/// Each has a default, and one that is exceeded ends the call with
/// [`SandboxError::LimitExceeded`]. Time is exact. Processor time, memory and the number of processes
/// are those of all processes together. The kernel holds the number of processes, in a cgroup exactly:
/// see [`ProcessCounting`]. In a cgroup it holds the memory too. The rest is looked at every 10 milliseconds
/// (up to 50 on a machine with many processes, where looking takes long) and may be exceeded until then.
/// The time of processes that nobody waits for and that live shorter than that is estimated. Besides, the
/// kernel holds each process to the time, and to twice the memory, which it gets no more of. Programs give
/// way to others when processors are scarce (their niceness is 10). A program that writes more output than
/// the limit goes on, and the rest is counted.
///
/// # What it does not do
///
/// - Names: whether a file exists, its size, owner and times can be found out by its path, and the kind
///   and size of the file system that holds it. `SHLVL` may be set in the environment, by a shell before
///   the program.
/// - The sum of what a program writes to the disk is not limited. The size of each file is, and a
///   [reserve](ProcessSandboxBuilder::disk_reserve) of the disk stays free. Many small files use up inodes.
/// - Without a cgroup, memory that the kernel shows for no process is not counted: files in a memory file
///   system, what waits in pipes and sockets, and shared memory of which a program keeps a part and gives
///   the pages back.
/// - An interpreter or the loader among the system's programs runs what it can read. That is confined as
///   any program is.
/// - There is no folder for temporary files: allow one with
///   [`write`](ProcessSandboxBuilder::write) and name it in `TMPDIR`. `/proc` is not there either.
/// - Programs with job control (`setsid`, a new process group) are refused that, and go on without.
/// - It is no virtual machine: a fault in the kernel is a way out.
///
/// # What it needs
///
/// Linux 6.12 or newer with Landlock (ABI 6), x86-64, AArch64 or RISC-V 64, `/bin/sh`, and a `/proc` that
/// hides no process (`hidepid`). Linux from 5.13 on confines less, and has to be
/// [asked for](ProcessSandboxBuilder::accept_older_kernel). Other systems are refused: use a container there. So that the kernel counts processes, it needs a cgroup with the controller
/// `pids` in which this process may make groups, or a user that is not root. This process must not ignore
/// `SIGCHLD`, nor wait for all its children.
/// What is missing is an error of [`build`](ProcessSandboxBuilder::build); nothing is left out
/// quietly. No privileges are needed.
///
/// # Cost
///
/// Two threads while a program runs, a second small process that kills the others when this process
/// dies, and some milliseconds.
///
/// # Example
///
/// ```
/// # #[cfg(target_os = "linux")]
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use std::time::Duration;
/// use neuron_runtime::ProcessSandbox;
/// use neuron_tool::ToolRegistry;
/// # let project = std::env::temp_dir();
///
/// // Reads the project, writes nowhere, has no network.
/// let sandbox = ProcessSandbox::builder(project)
///     .time_limit(Duration::from_secs(20))
///     .memory_limit(512 << 20)
///     .build();
/// # let Ok(sandbox) = sandbox else { return Ok(()) };
///
/// let mut registry = ToolRegistry::new();
/// registry.set_sandbox(sandbox);
/// # Ok(())
/// # }
/// # #[cfg(not(target_os = "linux"))]
/// # fn main() {}
/// ```
#[derive(Clone)]
pub struct ProcessSandbox(Ready);

impl ProcessSandbox {
    /// Starts to describe a sandbox whose programs run in a directory, which they can read.
    pub fn builder(directory: impl Into<PathBuf>) -> ProcessSandboxBuilder {
        ProcessSandboxBuilder(Settings {
            directory: directory.into(),
            read: Vec::new(),
            write: Vec::new(),
            execute: Vec::new(),
            has_system_paths: true,
            has_network: false,
            may_change_attributes: false,
            env: Vec::new(),
            inherited_env: Vec::new(),
            accepts_watching: false,
            accepts_older_kernel: false,
            is_strict: false,
            limits: Limits::default(),
        })
    }

    /// Returns how firmly the kernel confines programs.
    #[must_use]
    pub fn confinement(&self) -> Confinement {
        self.0.confinement()
    }

    /// Returns who counts the processes of programs.
    #[must_use]
    pub fn process_counting(&self) -> ProcessCounting {
        self.0.process_counting()
    }
}

/// The strength with which the kernel confines programs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Confinement {
    /// Programs can do nothing of what [`ProcessSandbox`] says that they cannot.
    Full,
    /// The kernel is older than Linux 6.12. Programs can send signals to all processes of this user, so they can end this
    /// process too. Before Linux 6.10 they can control the devices that the builder allows. Before Linux 5.19 they cannot
    /// move files between directories. Only with [`accept_older_kernel`](ProcessSandboxBuilder::accept_older_kernel).
    OlderKernel,
}

/// The mechanism that counts the processes and threads of a program for
/// [`process_limit`](ProcessSandboxBuilder::process_limit).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ProcessCounting {
    /// The kernel, in a control group of the program's own. It lets no process begin above the limit. It counts memory
    /// there too, that of files in memory and of pipes included.
    Cgroup,
    /// The kernel, by the user's own limit (`RLIMIT_NPROC`). It lets no process begin above twice the limit, and this
    /// process watches the exact number.
    UserLimit,
    /// This process alone, every 10 to 50 milliseconds. A program that forks faster than that starves the whole machine
    /// of processes for seconds. Only with [`watched_process_limit`](ProcessSandboxBuilder::watched_process_limit).
    Watched,
}

impl Sandbox for ProcessSandbox {
    /// Runs the tool's program, or the tool itself if it runs none.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future kills all processes of the program, within moments. When the context's
    /// token is cancelled, none is left once the future ends, with
    /// [`ToolError::Cancelled`](neuron_types::ToolError::Cancelled).
    async fn execute_tool(
        &self,
        tool: &dyn ToolDyn,
        input: Value,
        ctx: &ToolContext,
    ) -> Result<ToolOutput, SandboxError> {
        let Some(command) = tool.command_dyn(&input, ctx) else {
            self.check_tool(tool)?;
            return Ok(tool.call_dyn(input, ctx).await?);
        };
        let output = self.0.run(command?, ctx).await?;
        Ok(tool.command_output(output)?)
    }

    fn check_tool(&self, tool: &dyn ToolDyn) -> Result<(), SandboxError> {
        match self.0.is_strict() && !tool.runs_program() {
            false => Ok(()),
            true => Err(SandboxError::SetupFailed(format!(
                "`{}` runs in this process and cannot be confined, and this sandbox takes only tools that run a program \
                 (`programs_only`)",
                tool.name()
            ))),
        }
    }
}

impl fmt::Debug for ProcessSandbox {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ProcessSandbox").finish_non_exhaustive()
    }
}

/// Describes a [`ProcessSandbox`].
///
/// Paths may be files or directories, which count with all that is in them. They are opened once, by
/// [`build`](Self::build): what is put in their place later is not allowed.
#[derive(Debug, Clone)]
#[must_use = "nothing is confined before `build`"]
pub struct ProcessSandboxBuilder(Settings);

impl ProcessSandboxBuilder {
    /// Lets programs read files and list directories under a path.
    pub fn read(mut self, path: impl Into<PathBuf>) -> Self {
        self.0.read.push(path.into());
        self
    }

    /// Lets programs read, write, create, rename and remove files and directories under a path.
    pub fn write(mut self, path: impl Into<PathBuf>) -> Self {
        self.0.write.push(path.into());
        self
    }

    /// Lets programs read and run files below a path.
    ///
    /// Where they may write as well, they can run what they wrote; it is confined as they are.
    pub fn execute(mut self, path: impl Into<PathBuf>) -> Self {
        self.0.execute.push(path.into());
        self
    }

    /// Removes the default access of programs. This is reading and running files below `/usr`, `/bin`, `/sbin`
    /// and `/lib*`, and reading a few files below `/etc` for loading libraries, time zones, host names and
    /// certificates.
    ///
    /// `/bin/sh` and what it loads must then be allowed by [`execute`](Self::execute).
    pub fn without_system_paths(mut self) -> Self {
        self.0.has_system_paths = false;
        self
    }

    /// Lets programs use IPv4 and IPv6, on every port and in both directions.
    ///
    /// They reach what this machine reaches, servers on the loopback address and cloud metadata
    /// services included.
    pub fn allow_network(mut self) -> Self {
        self.0.has_network = true;
        self
    }

    /// Lets programs change modes, owners, times and attributes of files, as git, tar and compilers
    /// do.
    ///
    /// The kernel cannot hold that to the paths that may be written: it then concerns **every** file
    /// that belongs to the user of this process and whose path the program knows.
    pub fn allow_attribute_changes(mut self) -> Self {
        self.0.may_change_attributes = true;
        self
    }

    /// Refuses tools whose own code runs in this process, with [`SandboxError::SetupFailed`]. An agent with such a tool is
    /// an error of its builder's `try_build`.
    pub fn programs_only(mut self) -> Self {
        self.0.is_strict = true;
        self
    }

    /// Sets an environment variable for all programs. Default: `PATH`, with the usual directories.
    pub fn env(mut self, name: impl Into<OsString>, value: impl Into<OsString>) -> Self {
        self.0.env.push((name.into(), value.into()));
        self
    }

    /// Passes on an environment variable if it is set in
    /// [`ToolContext::environment`](neuron_types::ToolContext::environment) or, if not there, in this process.
    pub fn inherit_env(mut self, name: impl Into<String>) -> Self {
        self.0.inherited_env.push(name.into());
        self
    }

    /// Limits the time that passes. Default: 60 seconds.
    pub fn time_limit(mut self, limit: Duration) -> Self {
        self.0.limits.time = limit;
        self
    }

    /// Limits the time that processors are kept busy, by all processes together. Default: 60 seconds.
    pub fn cpu_time_limit(mut self, limit: Duration) -> Self {
        self.0.limits.cpu_time = limit;
        self
    }

    /// Limits the memory of all processes together, in bytes. Pages that processes share count for
    /// each, those of files for none. Default: 1 GiB.
    pub fn memory_limit(mut self, bytes: u64) -> Self {
        self.0.limits.memory = bytes;
        self
    }

    /// Limits how many processes and threads there are at a time. Default: 256.
    ///
    /// [`process_counting`](ProcessSandbox::process_counting) tells how firmly the limit holds.
    pub fn process_limit(mut self, count: u64) -> Self {
        self.0.limits.processes = count;
        self
    }

    /// Accepts a process limit that is only [watched](ProcessCounting::Watched), on machines whose kernel
    /// cannot count, as for root without a cgroup. By default such machines are refused.
    pub fn watched_process_limit(mut self) -> Self {
        self.0.accepts_watching = true;
        self
    }

    /// Accepts kernels from Linux 5.13 on, which [confine programs less](Confinement::OlderKernel). Without this such kernels
    /// are refused. Landlock must be turned on there too.
    pub fn accept_older_kernel(mut self) -> Self {
        self.0.accepts_older_kernel = true;
        self
    }

    /// Sets how many bytes must stay free on each file system with a path that may be written. A program is ended when
    /// there are fewer, whoever wrote. Default: 5 % of the file system, and at most 256 MiB. 0 means no reserve.
    pub fn disk_reserve(mut self, bytes: u64) -> Self {
        self.0.limits.disk_reserve = Some(bytes);
        self
    }

    /// Limits the size of each file that is written, in bytes. Default: 256 MiB.
    pub fn file_size_limit(mut self, bytes: u64) -> Self {
        self.0.limits.file_size = bytes;
        self
    }

    /// Limits how much of standard output, and how much of standard error, is kept, in bytes. The
    /// program can write on. Default: 1 MiB.
    pub fn output_limit(mut self, bytes: usize) -> Self {
        self.0.limits.output = bytes;
        self
    }

    /// Opens the paths, and confines a thread to see that this kernel can.
    ///
    /// # Errors
    ///
    /// [`SandboxError::SetupFailed`] when a path cannot be opened, or the system cannot enforce
    /// something: it is not Linux, too old, or has Landlock or seccomp turned off.
    pub fn build(self) -> Result<ProcessSandbox, SandboxError> {
        Ready::new(self.0).map(ProcessSandbox)
    }
}

/// The settings of a builder.
#[derive(Clone)]
struct Settings {
    directory: PathBuf,
    read: Vec<PathBuf>,
    write: Vec<PathBuf>,
    execute: Vec<PathBuf>,
    has_system_paths: bool,
    has_network: bool,
    may_change_attributes: bool,
    env: Vec<(OsString, OsString)>,
    inherited_env: Vec<String>,
    accepts_watching: bool,
    accepts_older_kernel: bool,
    is_strict: bool,
    limits: Limits,
}

/// Without the values of the environment.
impl fmt::Debug for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Settings")
            .field("directory", &self.directory)
            .field("read", &self.read)
            .field("write", &self.write)
            .field("execute", &self.execute)
            .field("has_system_paths", &self.has_system_paths)
            .field("has_network", &self.has_network)
            .field("may_change_attributes", &self.may_change_attributes)
            .field("env", &self.env.iter().map(|(name, _)| name).collect::<Vec<_>>())
            .field("inherited_env", &self.inherited_env)
            .field("accepts_watching", &self.accepts_watching)
            .field("accepts_older_kernel", &self.accepts_older_kernel)
            .field("is_strict", &self.is_strict)
            .field("limits", &self.limits)
            .finish()
    }
}

/// The limits of a call.
#[derive(Debug, Clone, Copy)]
struct Limits {
    time: Duration,
    cpu_time: Duration,
    memory: u64,
    processes: u64,
    file_size: u64,
    /// `None` for a part of the file system.
    disk_reserve: Option<u64>,
    output: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            time: Duration::from_secs(60),
            cpu_time: Duration::from_secs(60),
            memory: 1 << 30,
            processes: 256,
            file_size: 256 << 20,
            disk_reserve: None,
            output: 1 << 20,
        }
    }
}
