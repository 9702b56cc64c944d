//! A sandbox of the Linux kernel for programs that are children of this process ([`ProcessSandbox`]).

use std::ffi::OsString;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use neuron_types::{Sandbox, SandboxError, ToolContext, ToolDyn, ToolOutput};
use serde_json::Value;

// On systems whose kernel cannot confine programs, the file `elsewhere.rs` is used instead of `linux.rs`. It is also
// used on architectures whose system call numbers the filters do not know.
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

/// Runs the programs of tools as child processes that the Linux kernel confines.
///
/// Tools that only run a program are confined, for example [`Confined`](super::Confined). The code of other tools runs
/// in this process and cannot be confined. Examples are functions, tools of an MCP server, and other agents. By default
/// such tools run without confinement. [`programs_only`](ProcessSandboxBuilder::programs_only) rejects them.
///
/// # What a program cannot do
///
/// - **Access files** other than the allowed ones. Programs can read the system's files (see
///   [`without_system_paths`](ProcessSandboxBuilder::without_system_paths)) and the files that the builder allows. They
///   can write, create, rename and remove files only where [`write`](ProcessSandboxBuilder::write) allows it. They can
///   run the system's programs and programs where [`execute`](ProcessSandboxBuilder::execute) allows it. Symbolic links
///   do not circumvent these rules.
/// - **Change modes, owners, times or attributes** of any file, including their own, unless
///   [`allow_attribute_changes`](ProcessSandboxBuilder::allow_attribute_changes) is set.
/// - **Open sockets** of any kind. With [`allow_network`](ProcessSandboxBuilder::allow_network) they can open IPv4 and
///   IPv6 sockets.
/// - **Signal, trace or read other processes**, or change their limits or priorities. Keys, namespaces, mounts, shared
///   memory of other processes, and kernel interfaces that ordinary programs do not need are also blocked. Programs
///   have no capabilities, even if this process is root, and set-user-id programs give no rights.
/// - **Outlive the call.** All processes of a program are killed when its first process ends, at a limit, at a
///   cancellation, when the future is dropped, and when this process dies. No process can leave the group.
/// - **See** the environment or the open files of this process.
///
/// # Limits
///
/// Every limit has a default. If a limit is exceeded, the call ends with [`SandboxError::LimitExceeded`].
///
/// - The time limit is exact.
/// - Processor time, memory and the number of processes are limited for all processes of a program together.
/// - These values and the [disk reserve](ProcessSandboxBuilder::disk_reserve) are checked every 10 milliseconds. On a
///   machine with many processes the interval is up to 50 milliseconds. Between two checks the values may exceed their
///   limits.
/// - Usually the kernel also limits the number of processes, see [`ProcessCounting`]. In a cgroup this limit is exact,
///   and the kernel also limits the memory.
/// - The processor time of short processes that no parent waits for is estimated.
/// - The kernel limits each single process to the processor time limit and to twice the memory limit.
/// - Programs run with a niceness of 10, so other processes get scarce processors first.
/// - A program may write more output than the limit. The excess is discarded and counted.
///
/// # What is not confined
///
/// - A program can find out from a file's path whether the file exists, its size, owner and times, and the type and
///   size of its file system. A shell that runs before the program may set `SHLVL` in the environment.
/// - The total amount of data that a program writes to the disk is not limited. The size of each file is limited, and a
///   [reserve](ProcessSandboxBuilder::disk_reserve) of the disk stays free. Many small files may use up the inodes.
/// - Without a cgroup, memory that the kernel attributes to no process is not counted. Examples are files in a memory
///   file system, data in pipes and sockets, and pages of shared memory that no process maps.
/// - A program that can read a script can run it with one of the system's interpreters. The script is confined like any
///   program.
/// - There is no folder for temporary files. Allow a folder with [`write`](ProcessSandboxBuilder::write), and set
///   `TMPDIR` to its path. `/proc` is not accessible either.
/// - Programs with job control cannot create sessions or process groups (`setsid`, `setpgid`), and continue without
///   them.
/// - The sandbox is not a virtual machine. A program can use a fault of the kernel to escape.
///
/// # Requirements
///
/// - Linux 6.12 or newer with Landlock (ABI 6). Kernels from Linux 5.13 on confine less, and must be
///   [accepted](ProcessSandboxBuilder::accept_older_kernel) explicitly. Other systems are rejected, so use a container
///   there.
/// - x86-64, AArch64 or RISC-V 64, `/bin/sh`, and a `/proc` that hides no process (`hidepid`).
/// - For [`process_limit`](ProcessSandboxBuilder::process_limit): a cgroup with the controller `pids` in which this
///   process may create groups, or a user that is not root.
/// - This process must not ignore `SIGCHLD`, and must not wait for all of its children.
///
/// [`build`](ProcessSandboxBuilder::build) returns an error if a requirement is not met. No restriction is skipped
/// silently. No privileges are needed.
///
/// # Cost
///
/// Each call takes some additional milliseconds. While its program runs, the call uses two threads and a small second
/// process. The second process kills the program when this process dies.
///
/// # Example
///
/// ```
/// # #[cfg(target_os = "linux")]
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use std::time::Duration;
/// use neuron_sandbox::ProcessSandbox;
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
    /// Creates a builder for a sandbox whose programs run in `directory`. Programs can read the directory.
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

    /// Returns the strength with which the kernel confines programs.
    #[must_use]
    pub fn confinement(&self) -> Confinement {
        self.0.confinement()
    }

    /// Returns the mechanism that enforces [`process_limit`](ProcessSandboxBuilder::process_limit).
    #[must_use]
    pub fn process_counting(&self) -> ProcessCounting {
        self.0.process_counting()
    }
}

/// The strength with which the kernel confines programs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Confinement {
    /// All restrictions in the documentation of [`ProcessSandbox`] are enforced.
    Full,
    /// The kernel is older than Linux 6.12, so some restrictions are missing. Only possible with
    /// [`accept_older_kernel`](ProcessSandboxBuilder::accept_older_kernel).
    ///
    /// - Programs can send signals to all processes of this user, including this process.
    /// - Before Linux 6.10, programs can control the devices that the builder allows.
    /// - Before Linux 5.19, programs cannot move files between directories.
    OlderKernel,
}

/// The mechanism that counts the processes and threads of a program for
/// [`process_limit`](ProcessSandboxBuilder::process_limit).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ProcessCounting {
    /// The kernel counts the processes in a control group for each program. A program cannot exceed the limit. The
    /// kernel also limits the memory of the group, including files in memory and pipes.
    Cgroup,
    /// The kernel counts all processes of the user (`RLIMIT_NPROC`). It prevents a program from exceeding twice the
    /// limit. The process that uses the sandbox checks the exact number periodically.
    UserLimit,
    /// The kernel does not count. The process that uses the sandbox counts the processes of each program, every 10 to
    /// 50 milliseconds. A program that forks faster can use up all processes of the machine for seconds. The thread
    /// that counts and that transfers input and output has a high priority (its nice value is lowered by 20), if the
    /// process has the capability `CAP_SYS_NICE`.
    ///
    /// Only possible with [`watched_process_limit`](ProcessSandboxBuilder::watched_process_limit).
    Watched,
}

impl Sandbox for ProcessSandbox {
    /// Runs the tool's program. A tool without a program runs in this process, unless the sandbox rejects such tools.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, all processes of the program are killed shortly afterwards. If the context's token is
    /// cancelled, the future returns [`ToolError::Cancelled`](neuron_types::ToolError::Cancelled) after all processes
    /// have ended.
    async fn execute_tool(
        &self,
        tool: &dyn ToolDyn,
        input: Value,
        ctx: &ToolContext,
    ) -> Result<ToolOutput, SandboxError> {
        let Some(command) = tool.command_dyn(&input, ctx) else {
            // The tool runs no program, so its code runs in this process.
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

/// Builder of a [`ProcessSandbox`].
///
/// A path in the builder's methods may be a file, or a directory with everything in it. [`build`](Self::build) opens
/// all paths. If another file later replaces a path, programs cannot access the new file.
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
    /// If programs may also write below the path, they can run files that they wrote. Such files run with the same
    /// confinement as the program.
    pub fn execute(mut self, path: impl Into<PathBuf>) -> Self {
        self.0.execute.push(path.into());
        self
    }

    /// Removes the default access of programs to the system's files. By default programs can read and run files below
    /// `/usr`, `/bin`, `/sbin` and `/lib*`. They can also read a few files below `/etc` for loading libraries, time
    /// zones, host names and certificates.
    ///
    /// The sandbox itself needs `/bin/sh` and the libraries that it loads. Allow them with [`execute`](Self::execute).
    pub fn without_system_paths(mut self) -> Self {
        self.0.has_system_paths = false;
        self
    }

    /// Lets programs use IPv4 and IPv6, on every port and in both directions.
    ///
    /// Programs can reach every address that this machine can reach, including servers on the loopback address and
    /// cloud metadata services.
    pub fn allow_network(mut self) -> Self {
        self.0.has_network = true;
        self
    }

    /// Lets programs change modes, owners, times and attributes of files. Git, tar and compilers need this.
    ///
    /// The kernel cannot limit these changes to writable paths. Programs can change the attributes of **every** file
    /// that belongs to this process's user and whose path they know.
    pub fn allow_attribute_changes(mut self) -> Self {
        self.0.may_change_attributes = true;
        self
    }

    /// Rejects tools whose own code runs in this process. Their calls return [`SandboxError::SetupFailed`]. For an
    /// agent with such a tool, `try_build` of the agent's builder returns an error.
    pub fn programs_only(mut self) -> Self {
        self.0.is_strict = true;
        self
    }

    /// Sets an environment variable for all programs. By default only `PATH` is set, to `/usr/local/bin:/usr/bin:/bin`.
    pub fn env(mut self, name: impl Into<OsString>, value: impl Into<OsString>) -> Self {
        self.0.env.push((name.into(), value.into()));
        self
    }

    /// Passes an environment variable to programs. The value is taken from
    /// [`ToolContext::environment`](neuron_types::ToolContext::environment). If it is not set there, it is taken from
    /// the environment of this process. If it is not set there either, the variable is left out.
    pub fn inherit_env(mut self, name: impl Into<String>) -> Self {
        self.0.inherited_env.push(name.into());
        self
    }

    /// Limits the elapsed time of a call. Default: 60 seconds.
    pub fn time_limit(mut self, limit: Duration) -> Self {
        self.0.limits.time = limit;
        self
    }

    /// Limits the processor time of all processes of a program together. Default: 60 seconds.
    pub fn cpu_time_limit(mut self, limit: Duration) -> Self {
        self.0.limits.cpu_time = limit;
        self
    }

    /// Limits the memory of all processes of a program together, in bytes. A page that several processes share counts
    /// once for each process. Pages of mapped files do not count. Default: 1 GiB.
    pub fn memory_limit(mut self, bytes: u64) -> Self {
        self.0.limits.memory = bytes;
        self
    }

    /// Limits the number of processes and threads of a program that exist at the same time. Default: 256.
    ///
    /// [`process_counting`](ProcessSandbox::process_counting) returns how strictly the limit is enforced.
    pub fn process_limit(mut self, count: u64) -> Self {
        self.0.limits.processes = count;
        self
    }

    /// Accepts a process limit that only this process [enforces](ProcessCounting::Watched), if the kernel cannot
    /// enforce it. For example, the kernel cannot limit root without a cgroup. By default [`build`](Self::build)
    /// returns an error in this case.
    pub fn watched_process_limit(mut self) -> Self {
        self.0.accepts_watching = true;
        self
    }

    /// Accepts kernels from Linux 5.13 on, which [confine programs less](Confinement::OlderKernel). Such a kernel must
    /// have Landlock enabled too. By default kernels before Linux 6.12 are rejected.
    pub fn accept_older_kernel(mut self) -> Self {
        self.0.accepts_older_kernel = true;
        self
    }

    /// Sets the number of bytes that must stay free on each file system with a writable path. If less is free, a
    /// program is killed, even if another program wrote the data. 0 disables the reserve. Default: 5 % of the file
    /// system, and at most 256 MiB.
    pub fn disk_reserve(mut self, bytes: u64) -> Self {
        self.0.limits.disk_reserve = Some(bytes);
        self
    }

    /// Limits the size of each file that a program writes, in bytes. Default: 256 MiB.
    pub fn file_size_limit(mut self, bytes: u64) -> Self {
        self.0.limits.file_size = bytes;
        self
    }

    /// Limits the captured output in bytes, separately for standard output and standard error. A program may write
    /// more. The excess is discarded. Default: 1 MiB.
    pub fn output_limit(mut self, bytes: usize) -> Self {
        self.0.limits.output = bytes;
        self
    }

    /// Opens the paths and creates the sandbox. Tests that the kernel supports it by confining a thread.
    ///
    /// # Errors
    ///
    /// [`SandboxError::SetupFailed`] if a path cannot be opened, or if the system cannot enforce a restriction.
    /// Possible causes are a system other than Linux, an old kernel, or a kernel in which Landlock or seccomp is
    /// disabled.
    pub fn build(self) -> Result<ProcessSandbox, SandboxError> {
        Ready::new(self.0).map(ProcessSandbox)
    }
}

/// The settings that a [`ProcessSandboxBuilder`] collects.
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

/// Prints the names of environment variables without their values, which may be secret.
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

/// The limits of one call. Sizes are in bytes.
#[derive(Debug, Clone, Copy)]
struct Limits {
    time: Duration,
    cpu_time: Duration,
    memory: u64,
    processes: u64,
    file_size: u64,
    /// Number of bytes that must stay free on each writable file system. `None` for the default, a share of the file
    /// system's size.
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
