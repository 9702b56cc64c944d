//! Seccomp filters, which block system calls of a confined program ([`Filters`]).
//!
//! The filters block system calls that Landlock cannot restrict. They block sockets, leaving the process group, and
//! calls that ordinary programs do not need. System calls that are not known here fail with `ENOSYS`, so a newer kernel
//! cannot add a way out of the sandbox.

use std::collections::BTreeMap;

use libc::c_long;
use rustix::process::Pid;
use seccompiler::{
    BackendError, BpfProgram, Error, SeccompAction, SeccompCmpArgLen, SeccompCmpOp,
    SeccompCondition, SeccompFilter, SeccompRule, TargetArch, sock_filter,
};

use super::super::Confinement;

/// The first system call number that this file does not know. From 424 on, the numbers are equal on all architectures.
const FIRST_UNKNOWN: u32 = 470;
// The libc crate does not define these numbers on all architectures yet.
const FCHMODAT2: c_long = 452;
const STATMOUNT: c_long = 457;
const LISTMOUNT: c_long = 458;
const SETXATTRAT: c_long = 463;
const REMOVEXATTRAT: c_long = 466;
const OPEN_TREE_ATTR: c_long = 467;
const FILE_SETATTR: c_long = 469;

/// System calls that programs must not make. They fail with `EPERM`.
const REFUSED: &[c_long] = &[
    // A process that left the process group would not be killed with the group.
    libc::SYS_setsid,
    // Namespaces, mounts, and settings of the whole system.
    libc::SYS_unshare,
    libc::SYS_setns,
    libc::SYS_mount,
    libc::SYS_umount2,
    STATMOUNT,
    LISTMOUNT,
    libc::SYS_pivot_root,
    libc::SYS_chroot,
    libc::SYS_open_tree,
    OPEN_TREE_ATTR,
    libc::SYS_move_mount,
    libc::SYS_fsopen,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_fspick,
    libc::SYS_mount_setattr,
    libc::SYS_swapon,
    libc::SYS_swapoff,
    libc::SYS_reboot,
    libc::SYS_sethostname,
    libc::SYS_setdomainname,
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    libc::SYS_acct,
    libc::SYS_quotactl,
    libc::SYS_quotactl_fd,
    libc::SYS_settimeofday,
    libc::SYS_clock_settime,
    libc::SYS_clock_adjtime,
    libc::SYS_adjtimex,
    libc::SYS_syslog,
    libc::SYS_vhangup,
    // Access to other processes.
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_process_madvise,
    libc::SYS_process_mrelease,
    libc::SYS_pidfd_getfd,
    libc::SYS_kcmp,
    libc::SYS_move_pages,
    libc::SYS_migrate_pages,
    // Kernel objects that outlive a process or are shared with other processes. Calls that use an existing object are
    // blocked too, because a program can guess its number.
    libc::SYS_keyctl,
    libc::SYS_add_key,
    libc::SYS_request_key,
    libc::SYS_shmget,
    libc::SYS_shmat,
    libc::SYS_shmctl,
    libc::SYS_semget,
    libc::SYS_semctl,
    libc::SYS_semop,
    libc::SYS_semtimedop,
    libc::SYS_msgget,
    libc::SYS_msgctl,
    libc::SYS_msgsnd,
    libc::SYS_msgrcv,
    libc::SYS_mq_open,
    libc::SYS_mq_unlink,
    // Calls that report events of files elsewhere, or open files without a path.
    libc::SYS_inotify_add_watch,
    libc::SYS_fanotify_init,
    libc::SYS_fanotify_mark,
    libc::SYS_open_by_handle_at,
    // Interfaces that had many security faults.
    libc::SYS_bpf,
    libc::SYS_perf_event_open,
    libc::SYS_userfaultfd,
];

/// System calls that fail with `EPERM` and exist only on this architecture.
#[cfg(target_arch = "x86_64")]
const REFUSED_HERE: &[c_long] = &[
    libc::SYS_kexec_load,
    libc::SYS_kexec_file_load,
    libc::SYS_iopl,
    libc::SYS_ioperm,
    libc::SYS_modify_ldt,
    libc::SYS_uselib,
];
#[cfg(not(target_arch = "x86_64"))]
const REFUSED_HERE: &[c_long] = &[libc::SYS_kexec_load];

/// System calls that change attributes of files. They fail with `EPERM` if attribute changes are not allowed.
const ATTRIBUTES: &[c_long] = &[
    libc::SYS_fchmod,
    libc::SYS_fchmodat,
    FCHMODAT2,
    libc::SYS_fchown,
    libc::SYS_fchownat,
    libc::SYS_utimensat,
    libc::SYS_setxattr,
    libc::SYS_lsetxattr,
    libc::SYS_fsetxattr,
    SETXATTRAT,
    libc::SYS_removexattr,
    libc::SYS_lremovexattr,
    libc::SYS_fremovexattr,
    REMOVEXATTRAT,
    FILE_SETATTR,
];

/// System calls that change attributes of files and exist only on this architecture.
#[cfg(target_arch = "x86_64")]
const ATTRIBUTES_HERE: &[c_long] = &[
    libc::SYS_chmod,
    libc::SYS_chown,
    libc::SYS_lchown,
    libc::SYS_utime,
    libc::SYS_utimes,
    libc::SYS_futimesat,
];
#[cfg(not(target_arch = "x86_64"))]
const ATTRIBUTES_HERE: &[c_long] = &[];

/// System calls that fail with `ENOSYS`, as if the kernel did not know them. Libraries then use an older call instead.
const ABSENT: &[c_long] = &[
    // The flags of `clone3` are behind a pointer, which a filter cannot read.
    libc::SYS_clone3,
    // `io_uring` performs operations without a system call that the filter could block.
    libc::SYS_io_uring_setup,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
    // This memory belongs to no process, so the memory limit would not count it.
    libc::SYS_memfd_create,
    libc::SYS_memfd_secret,
];

/// Additional system calls that must fail with `ENOSYS` on older kernels, whose Landlock does not restrict truncation.
/// `openat2` can truncate a file. A filter cannot read its flags, because they are behind a pointer.
const ABSENT_ON_OLDER: &[c_long] = &[libc::SYS_openat2];

/// A type of `ioctl` requests, and the requests of this type that are allowed. Bits 8 to 15 of a request number are its
/// type.
type Requests = (u64, &'static [u64]);
/// The `ioctl` types of btrfs and bcachefs, each with its allowed request numbers. All other requests of these types
/// are denied. Some of them create, move or remove directories, and Landlock does not restrict `ioctl`.
///
/// The allowed numbers are `FICLONE`, `FICLONERANGE` and `FIDEDUPERANGE`, which all file systems have.
const TREE_REQUESTS: [Requests; 2] =
    [(0x94, &[0x4004_9409, 0x4020_940d, 0xc018_9436]), (0xbc, &[])];
/// The `ioctl` types of file attributes, each with its allowed request numbers. All other requests of these types are
/// denied. Some of them change, encrypt or seal a file that is open only for reading.
///
/// The allowed numbers are `FS_IOC_GETFLAGS` in 64 and 32 bits, `FS_IOC_FIEMAP`, `FS_IOC_GETVERSION` in 64 and 32 bits,
/// and `FS_IOC_FSGETXATTR`.
const ATTRIBUTE_REQUESTS: [Requests; 3] = [
    (0x66, &[0x8008_6601, 0x8004_6601, 0xc020_660b]),
    (0x76, &[0x8008_7601, 0x8004_7601]),
    (0x58, &[0x801c_581f]),
];
/// `FAT_IOCTL_SET_ATTRIBUTES`. Programs need other requests of its type, so only this request is blocked.
const FAT_ATTRIBUTES: u64 = 0x4004_7211;
/// The blocked `ioctl` numbers that simulate input of a terminal's user, `TIOCSTI` and `TIOCLINUX`.
const TERMINAL_REQUESTS: [u64; 2] = [0x5412, 0x541c];
/// Blocked flags of `clone`. They create namespaces, or make the new process a child of this process (`CLONE_PARENT`).
const CLONE_FLAGS: [u64; 9] = [
    0x0000_0080,
    0x0000_8000,
    0x0002_0000,
    0x0200_0000,
    0x0400_0000,
    0x0800_0000,
    0x1000_0000,
    0x2000_0000,
    0x4000_0000,
];

/// Two compiled seccomp filters, one with the result `EPERM` and one with `ENOSYS`. The kernel applies the stricter
/// result of both.
pub(super) struct Filters {
    refused: BpfProgram,
    absent: BpfProgram,
}

impl Filters {
    /// Compiles the filters for a program whose processes must stay in the process group `group`.
    pub(super) fn new(
        group: Pid,
        has_network: bool,
        may_change_attributes: bool,
        confinement: Confinement,
    ) -> Result<Self, BackendError> {
        let is_older = confinement == Confinement::OlderKernel;
        let mut rules = BTreeMap::new();
        for call in REFUSED.iter().chain(REFUSED_HERE) {
            rules.insert(*call, Vec::new());
        }
        if !may_change_attributes {
            for call in ATTRIBUTES.iter().chain(ATTRIBUTES_HERE) {
                rules.insert(*call, Vec::new());
            }
        }
        let mut conditional = conditional(group, has_network, may_change_attributes)?;
        if is_older {
            conditional.extend(cutting()?);
        }
        for (call, conditions) in conditional {
            let new = conditions.into_iter().map(SeccompRule::new);
            let rules: &mut Vec<_> = rules.entry(call).or_default();
            rules.extend(new.collect::<Result<Vec<_>, _>>()?);
        }
        let older = ABSENT_ON_OLDER.iter().filter(|_| is_older);
        let absent = ABSENT.iter().chain(older).map(|call| (*call, Vec::new())).collect();
        Ok(Self {
            refused: compile(rules, libc::EPERM)?,
            absent: without_unknown(compile(absent, libc::ENOSYS)?),
        })
    }

    /// Installs the filters for the calling thread and all processes that it starts.
    pub(super) fn apply(&self) -> Result<(), Error> {
        seccompiler::apply_filter(&self.absent)?;
        seccompiler::apply_filter(&self.refused)
    }
}

/// System calls that are blocked for some arguments. Each inner list is a set of conditions. A call is blocked if all
/// conditions of one inner list hold. It is always blocked if there is no inner list.
type Conditional = Vec<(c_long, Vec<Vec<SeccompCondition>>)>;

/// Returns the system calls that are blocked depending on their arguments, on every kernel.
fn conditional(
    group: Pid,
    has_network: bool,
    may_change_attributes: bool,
) -> Result<Conditional, BackendError> {
    let unix = libc::AF_UNIX as u64;
    let is_other_than_ip = vec![ne(0, libc::AF_INET as u64)?, ne(0, libc::AF_INET6 as u64)?];
    let each = |argument: u8, values: &[u64]| {
        values.iter().map(|value| Ok(vec![eq(argument, *value)?])).collect::<Result<Vec<_>, _>>()
    };
    let mut requests = each(1, &TERMINAL_REQUESTS)?;
    for kind in TREE_REQUESTS {
        requests.push(all_but(kind)?);
    }
    if !may_change_attributes {
        requests.extend(each(1, &[FAT_ATTRIBUTES])?);
        for kind in ATTRIBUTE_REQUESTS {
            requests.push(all_but(kind)?);
        }
    }
    let clone_flags = CLONE_FLAGS.iter().map(|flag| Ok(vec![masked(0, *flag, *flag)?]));
    // These calls use 0 for the calling process.
    let other_process = || Ok::<_, BackendError>(vec![vec![ne(0, 0)?]]);
    let group = u64::from(group.as_raw_nonzero().get().unsigned_abs());
    Ok(vec![
        (libc::SYS_setpgid, vec![vec![ne(1, group)?]]),
        (libc::SYS_socket, if has_network { vec![is_other_than_ip] } else { Vec::new() }),
        // A socket pair of the stream type stays connected to itself. A datagram socket can send to any socket name in
        // the file system, so it is blocked.
        (
            libc::SYS_socketpair,
            vec![
                vec![ne(0, unix)?],
                vec![masked(1, 0xf, libc::SOCK_DGRAM as u64)?],
                vec![masked(1, 0xf, libc::SOCK_RAW as u64)?],
            ],
        ),
        (libc::SYS_clone, clone_flags.collect::<Result<_, BackendError>>()?),
        (libc::SYS_ioctl, requests),
        (libc::SYS_prlimit64, other_process()?),
        (libc::SYS_sched_setaffinity, other_process()?),
        (libc::SYS_sched_setattr, other_process()?),
        (libc::SYS_sched_setparam, other_process()?),
        (libc::SYS_sched_setscheduler, other_process()?),
        (libc::SYS_setpriority, vec![vec![ne(0, 0)?], vec![ne(1, 0)?]]),
        // 1 is `IOPRIO_WHO_PROCESS`.
        (libc::SYS_ioprio_set, vec![vec![ne(0, 1)?], vec![ne(1, 0)?]]),
    ])
}

/// Returns the rules that block `truncate`, and `open` calls with `O_TRUNC` but without write access. Older kernels
/// need these rules, because Landlock restricts truncation only from version 3 on.
fn cutting() -> Result<Conditional, BackendError> {
    // With both bits of `O_ACCMODE`, a file is opened neither for reading nor for writing.
    let mask = (libc::O_ACCMODE | libc::O_TRUNC).unsigned_abs().into();
    let flags = [libc::O_TRUNC, libc::O_ACCMODE | libc::O_TRUNC];
    let without_writing = |argument| {
        let value = |flags: i32| Ok(vec![masked(argument, mask, flags.unsigned_abs().into())?]);
        flags.into_iter().map(value).collect::<Result<Vec<_>, BackendError>>()
    };
    let mut calls = vec![(libc::SYS_truncate, Vec::new()), (libc::SYS_openat, without_writing(2)?)];
    #[cfg(target_arch = "x86_64")]
    calls.push((libc::SYS_open, without_writing(1)?));
    Ok(calls)
}

/// Returns conditions that match all `ioctl` requests of a type except the allowed requests.
fn all_but((kind, allowed): Requests) -> Result<Vec<SeccompCondition>, BackendError> {
    let mut conditions = vec![masked(1, 0xff00, kind << 8)?];
    for request in allowed {
        conditions.push(ne(1, *request)?);
    }
    Ok(conditions)
}

// The kernel uses only the lower 32 bits of these arguments, so a filter must ignore the upper bits.

fn eq(argument: u8, value: u64) -> Result<SeccompCondition, BackendError> {
    SeccompCondition::new(argument, SeccompCmpArgLen::Dword, SeccompCmpOp::Eq, value)
}

fn ne(argument: u8, value: u64) -> Result<SeccompCondition, BackendError> {
    SeccompCondition::new(argument, SeccompCmpArgLen::Dword, SeccompCmpOp::Ne, value)
}

fn masked(argument: u8, mask: u64, value: u64) -> Result<SeccompCondition, BackendError> {
    SeccompCondition::new(argument, SeccompCmpArgLen::Dword, SeccompCmpOp::MaskedEq(mask), value)
}

/// Compiles a filter that makes the given system calls fail with `errno`. The filter kills a program that makes a
/// system call of another architecture, such as 32-bit x86.
fn compile(
    rules: BTreeMap<c_long, Vec<SeccompRule>>,
    errno: i32,
) -> Result<BpfProgram, BackendError> {
    let refuse = SeccompAction::Errno(errno.unsigned_abs());
    let arch = TargetArch::try_from(std::env::consts::ARCH)?;
    SeccompFilter::new(rules, SeccompAction::Allow, refuse, arch)?.try_into()
}

/// Extends a filter so that unknown system calls fail with `ENOSYS`. All numbers from [`FIRST_UNKNOWN`] on are unknown.
/// They belong to newer system calls and to x32, an ABI of x86-64 with larger numbers.
fn without_unknown(filter: BpfProgram) -> BpfProgram {
    let statement =
        |code: u32, k: u32, jt: u8, jf: u8| sock_filter { code: code as u16, jt, jf, k };
    let errno = libc::SECCOMP_RET_ERRNO | libc::ENOSYS.unsigned_abs();
    let mut program = vec![
        // Loads the system call number, which is the first field of `seccomp_data`.
        statement(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, 0),
        statement(libc::BPF_JMP | libc::BPF_JGE | libc::BPF_K, FIRST_UNKNOWN, 0, 1),
        statement(libc::BPF_RET | libc::BPF_K, errno, 0, 0),
    ];
    program.extend(filter);
    program
}

#[cfg(test)]
mod tests;
