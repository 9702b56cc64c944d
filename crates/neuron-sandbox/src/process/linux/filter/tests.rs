//! Tests of the seccomp filters. The tests interpret the filter instructions themselves. They can therefore test
//! kernels and system calls that this machine does not have.

use super::*;

const ALLOWED: u32 = libc::SECCOMP_RET_ALLOW;
const NOT_PERMITTED: u32 = libc::SECCOMP_RET_ERRNO | libc::EPERM as u32;
const NOT_THERE: u32 = libc::SECCOMP_RET_ERRNO | libc::ENOSYS as u32;

/// Returns the result of a filter as the kernel would compute it. Supports only the instructions that the filters use.
/// `memory` is a `seccomp_data`.
fn verdict(program: &[sock_filter], memory: &[u32; 16]) -> u32 {
    let (mut at, mut value) = (0_usize, 0_u32);
    loop {
        let sock_filter { code, jt, jf, k } = program[at].clone();
        at += 1;
        let mut jump = |is_taken: bool| at += usize::from(if is_taken { jt } else { jf });
        match u32::from(code) {
            // In order: load, and, return, jump, jump if equal, jump if greater, jump if greater or equal.
            0x20 => value = memory[k as usize / 4],
            0x54 => value &= k,
            0x06 => return k,
            0x05 => at += k as usize,
            0x15 => jump(value == k),
            0x25 => jump(value > k),
            0x35 => jump(value >= k),
            other => panic!("instruction {other:#x}"),
        }
    }
}

/// Asserts that `filters` return `expected` for a system call of this architecture. There are two filters, and the
/// stricter result applies, as in the kernel.
#[track_caller]
fn check(filters: &Filters, number: c_long, args: &[u64], expected: u32) {
    let mut memory = [0; 16];
    memory[0] = u32::try_from(number).unwrap();
    memory[1] = match std::env::consts::ARCH {
        "x86_64" => 0xc000_003e,
        "aarch64" => 0xc000_00b7,
        "riscv64" => 0xc000_00f3,
        other => panic!("architecture {other}"),
    };
    for (at, arg) in args.iter().enumerate() {
        memory[4 + 2 * at] = *arg as u32;
        memory[5 + 2 * at] = (*arg >> 32) as u32;
    }
    let verdicts = [&filters.absent, &filters.refused].map(|filter| verdict(filter, &memory));
    let [absent, refused] = verdicts;
    // An error is stricter than permission. If both filters return an error, the filter that was installed first
    // decides.
    let stricter = if absent == ALLOWED { refused } else { absent };
    assert_eq!(stricter, expected, "call {number} with {args:?}");
}

fn filters(has_network: bool, may_change_attributes: bool) -> Filters {
    let group = Pid::from_raw(4711).unwrap();
    Filters::new(group, has_network, may_change_attributes, Confinement::Full).unwrap()
}

#[test]
fn unknown_calls_fail_with_enosys() {
    let filters = filters(true, true);
    check(&filters, i64::from(FIRST_UNKNOWN) - 2, &[], ALLOWED);
    for number in [FIRST_UNKNOWN, FIRST_UNKNOWN + 1, 1000, 0x4000_0000, 0x4000_0029, u32::MAX] {
        check(&filters, number.into(), &[], NOT_THERE);
    }
    for call in ABSENT {
        check(&filters, *call, &[], NOT_THERE);
    }
}

#[test]
fn calls_of_another_architecture_kill_the_program() {
    let filters = filters(true, true);
    // On 32-bit x86, number 39 is `mkdir`.
    let memory = [39, 0x4000_0003, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    for filter in [&filters.absent, &filters.refused] {
        assert_eq!(verdict(filter, &memory), libc::SECCOMP_RET_KILL_PROCESS);
    }
}

#[test]
fn listed_calls_are_blocked_and_attribute_calls_unless_allowed() {
    for may_change in [false, true] {
        let filters = filters(true, may_change);
        for call in REFUSED.iter().chain(REFUSED_HERE) {
            check(&filters, *call, &[], NOT_PERMITTED);
        }
        let expected = if may_change { ALLOWED } else { NOT_PERMITTED };
        for call in ATTRIBUTES.iter().chain(ATTRIBUTES_HERE) {
            check(&filters, *call, &[], expected);
        }
        // Requests that set flags (64 and 32 bits), a version, extended attributes, an encryption policy, a seal, and
        // FAT attributes.
        for request in [
            0x4008_6602,
            0x4004_6602,
            0x4008_7602,
            0x401c_5820,
            0x400c_6613,
            0x4080_6685,
            0x4004_7211,
        ] {
            check(&filters, libc::SYS_ioctl, &[0, request], expected);
            check(&filters, libc::SYS_ioctl, &[0, request | 1 << 32], expected);
        }
        // Requests that read attributes, get a terminal's size or the number of readable bytes, set non-blocking mode,
        // or create a reflink.
        for request in [0x8008_6601, 0x801c_581f, 0xc020_660b, 0x5413, 0x541b, 0x5421, 0x4004_9409]
        {
            check(&filters, libc::SYS_ioctl, &[0, request], ALLOWED);
        }
        // Requests that create or remove a subvolume of btrfs, or create one of bcachefs.
        for request in [0x5000_940e, 0x5000_9418, 0x5000_940f, 0x4020_bc10] {
            check(&filters, libc::SYS_ioctl, &[0, request], NOT_PERMITTED);
        }
        for call in [libc::SYS_read, libc::SYS_openat, libc::SYS_execve, libc::SYS_futex] {
            check(&filters, call, &[], ALLOWED);
        }
    }
}

#[test]
fn older_kernels_truncate_only_files_opened_for_writing() {
    let group = Pid::from_raw(4711).unwrap();
    let full = filters(true, true);
    let older = Filters::new(group, true, true, Confinement::OlderKernel).unwrap();
    let flags = |flags: i32| u64::from(flags.unsigned_abs());
    let (cut, cloexec) = (libc::O_TRUNC, libc::O_CLOEXEC);
    for (mode, expected) in [
        (libc::O_RDONLY, ALLOWED),
        (libc::O_WRONLY | cut | libc::O_CREAT, ALLOWED),
        (libc::O_RDWR | cut, ALLOWED),
        (libc::O_RDONLY | cut, NOT_PERMITTED),
        (libc::O_RDONLY | cut | cloexec, NOT_PERMITTED),
        (libc::O_ACCMODE | cut, NOT_PERMITTED),
        (libc::O_ACCMODE, ALLOWED),
    ] {
        for high in [0, 1 << 32] {
            check(&older, libc::SYS_openat, &[0, 0, flags(mode) | high], expected);
            check(&full, libc::SYS_openat, &[0, 0, flags(mode) | high], ALLOWED);
            #[cfg(target_arch = "x86_64")]
            check(&older, libc::SYS_open, &[0, flags(mode) | high], expected);
        }
    }
    check(&older, libc::SYS_truncate, &[], NOT_PERMITTED);
    check(&older, libc::SYS_openat2, &[], NOT_THERE);
    check(&older, libc::SYS_ftruncate, &[], ALLOWED);
    check(&full, libc::SYS_truncate, &[], ALLOWED);
    check(&full, libc::SYS_openat2, &[], ALLOWED);
    for call in REFUSED {
        check(&older, *call, &[], NOT_PERMITTED);
    }
}

/// The upper 32 bits of an argument must not change a filter's result if the system call reads only the lower 32 bits.
#[test]
fn filters_ignore_the_upper_bits_of_arguments() {
    let high = 1 << 32;
    let with_network = filters(true, false);
    for family in [libc::AF_INET, libc::AF_INET6] {
        check(&with_network, libc::SYS_socket, &[family as u64, 1], ALLOWED);
        check(&filters(false, false), libc::SYS_socket, &[family as u64, 1], NOT_PERMITTED);
    }
    for family in [0, libc::AF_UNIX, libc::AF_NETLINK, libc::AF_PACKET, libc::AF_VSOCK] {
        for family in [family as u64, family as u64 | high] {
            check(&with_network, libc::SYS_socket, &[family, 1], NOT_PERMITTED);
        }
    }
    let filters = filters(false, false);
    for (kind, expected) in [(1, ALLOWED), (5, ALLOWED), (2, NOT_PERMITTED), (3, NOT_PERMITTED)] {
        let flags = libc::SOCK_CLOEXEC as u64;
        for kind in [kind, kind | flags, kind | high] {
            check(&filters, libc::SYS_socketpair, &[1, kind], expected);
        }
    }
    for request in TERMINAL_REQUESTS {
        check(&filters, libc::SYS_ioctl, &[0, request | high], NOT_PERMITTED);
    }
    for flag in CLONE_FLAGS {
        check(&filters, libc::SYS_clone, &[flag | high | 17], NOT_PERMITTED);
    }
    // The flags for a thread, and for a process.
    check(&filters, libc::SYS_clone, &[0x003d_0f00], ALLOWED);
    check(&filters, libc::SYS_clone, &[0x0120_0011], ALLOWED);
    check(&filters, libc::SYS_setpgid, &[0, 4711], ALLOWED);
    for group in [0, 1, 4712, high] {
        check(&filters, libc::SYS_setpgid, &[0, group], NOT_PERMITTED);
    }
    check(&filters, libc::SYS_prlimit64, &[0, 7], ALLOWED);
    check(&filters, libc::SYS_prlimit64, &[1, 7], NOT_PERMITTED);
    check(&filters, libc::SYS_setpriority, &[0, 0, 19], ALLOWED);
    check(&filters, libc::SYS_setpriority, &[1, 0, 19], NOT_PERMITTED);
    check(&filters, libc::SYS_setpriority, &[0, 1, 19], NOT_PERMITTED);
}
