//! The attacker, a program that attacks the sandbox from inside. The tests run their own test binary again as this
//! program.

use std::io::{self, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::{AsFd as _, OwnedFd};
use std::path::Path;
use std::time::{Duration, Instant};
use std::{env, fs, process, thread};

use rustix::fs::{AtFlags, CWD, Gid, MemfdFlags, Mode, Timespec, Timestamps, Uid, XattrFlags};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
use rustix::process::{Pid, Resource, Rlimit, Signal};

/// Runs the attack that the environment variable `ATTACK` names, and prints its outcome. Other tests start this test in
/// a sandbox. Without the variable it does nothing.
#[test]
fn attacker() {
    let Ok(order) = env::var("ATTACK") else {
        return;
    };
    let words: Vec<&str> = order.split('\n').collect();
    let said = match attack(words[0], &words[1..]) {
        Ok(what) => format!("did {what}"),
        Err(error) => format!("refused {error}"),
    };
    // Written on a separate line, and not captured by the test harness.
    let _ = writeln!(io::stdout(), "\nATTACK: {said}");
    process::exit(0);
}

fn attack(what: &str, args: &[&str]) -> io::Result<String> {
    let done = |_| "it".to_owned();
    let path = |at: usize| Path::new(args[at]);
    match what {
        "read" => fs::read_to_string(path(0)),
        "list" => fs::read_dir(path(0)).map(|all| all.count().to_string()),
        "write" => fs::write(path(0), "changed").map(done),
        "append" => {
            fs::OpenOptions::new().append(true).open(path(0))?.write_all(b"changed").map(done)
        }
        "truncate" => rustix::fs::open(
            path(0),
            rustix::fs::OFlags::RDONLY | rustix::fs::OFlags::TRUNC,
            Mode::empty(),
        )
        .map(|_| "it".to_owned())
        .map_err(Into::into),
        "remove" => fs::remove_file(path(0)).map(done),
        "remove_dir" => fs::remove_dir(path(0)).map(done),
        "make_dir" => fs::create_dir(path(0)).map(done),
        "rename" => fs::rename(path(0), path(1)).map(done),
        "link" => fs::hard_link(path(0), path(1)).map(done),
        "symlink" => std::os::unix::fs::symlink(path(0), path(1)).map(done),
        "make_socket_file" => {
            Ok(rustix::fs::mknodat(CWD, path(0), rustix::fs::FileType::Socket, Mode::RUSR, 0)
                .map(done)?)
        }
        "exec" => process::Command::new(path(0)).status().map(|status| status.to_string()),
        "chmod" => Ok(rustix::fs::chmod(path(0), Mode::RWXU).map(done)?),
        "fchmod" => Ok(rustix::fs::fchmod(fs::File::open(path(0))?, Mode::RWXU).map(done)?),
        "chown" => {
            let (uid, gid) = (Uid::from_raw(args[1].parse().unwrap()), Gid::from_raw(0));
            let flags = AtFlags::empty();
            Ok(rustix::fs::chownat(CWD, path(0), Some(uid), Some(gid), flags).map(done)?)
        }
        "times" => {
            let time = Timespec { tv_sec: 1, tv_nsec: 0 };
            let times = Timestamps { last_access: time, last_modification: time };
            Ok(rustix::fs::utimensat(CWD, path(0), &times, AtFlags::empty()).map(done)?)
        }
        "xattr" => {
            let flags = XattrFlags::empty();
            Ok(rustix::fs::setxattr(path(0), "user.note", b"changed", flags).map(done)?)
        }
        "socket" => socket(args[0], args[1]).map(|_| "it".to_owned()),
        "datagram_pair" => {
            // One end of a connected socket pair then tries to send to another socket.
            let (one, _other) = rustix::net::socketpair(
                AddressFamily::UNIX,
                SocketType::DGRAM,
                SocketFlags::empty(),
                None,
            )?;
            let address = SocketAddrUnix::new(path(0))?;
            Ok(rustix::net::connect(one, &address).map(done)?)
        }
        "connect" => {
            TcpStream::connect(args[0].parse::<SocketAddr>().unwrap()).map(|_| "it".into())
        }
        "listen" => TcpListener::bind("127.0.0.1:0").map(|_| "it".into()),
        "udp" => UdpSocket::bind("127.0.0.1:0")?.send_to(b"out", args[0]).map(|_| "it".into()),
        "unix" => std::os::unix::net::UnixStream::connect(path(0)).map(|_| "it".into()),
        "abstract" => {
            let socket = socket("unix", "stream")?;
            let address = SocketAddrUnix::new_abstract_name(args[0].as_bytes())?;
            Ok(rustix::net::connect(socket, &address).map(done)?)
        }
        "session" => Ok(rustix::process::setsid().map(|_| "it".into())?),
        "own_group" => Ok(rustix::process::setpgid(None, None).map(done)?),
        "other_group" => Ok(rustix::process::setpgid(None, Some(pid(args[0]))).map(done)?),
        "kill" => Ok(rustix::process::kill_process(pid(args[0]), Signal::KILL).map(done)?),
        "exists" => Ok(rustix::process::test_kill_process(pid(args[0])).map(done)?),
        "kill_leader" => {
            let leader = rustix::process::getpgrp();
            Ok(rustix::process::kill_process(leader, Signal::KILL).map(done)?)
        }
        "limit_other" => {
            let limit = Rlimit { current: Some(1), maximum: Some(1) };
            let result = rustix::process::prlimit(Some(pid(args[0])), Resource::Core, limit);
            Ok(result.map(|_| "it".to_owned())?)
        }
        "raise" => {
            for resource in [Resource::Cpu, Resource::Data, Resource::Fsize, Resource::Nofile] {
                let limit = Rlimit { current: None, maximum: None };
                if rustix::process::setrlimit(resource, limit).is_ok() {
                    return Ok(format!("{resource:?}"));
                }
            }
            Err(io::Error::other("all"))
        }
        "memfd" => {
            Ok(rustix::fs::memfd_create("hidden", MemfdFlags::empty()).map(|_| "it".into())?)
        }
        "capabilities" => {
            let sets = rustix::thread::capabilities(None)?;
            match sets.effective.is_empty() && sets.permitted.is_empty() {
                true => Err(io::Error::other("none")),
                false => Ok(format!("{:?}", sets.effective)),
            }
        }
        "regain" => {
            let mut sets = rustix::thread::capabilities(None)?;
            sets.permitted = rustix::thread::CapabilitySet::SYS_ADMIN;
            sets.effective = sets.permitted;
            Ok(rustix::thread::set_capabilities(None, sets).map(done)?)
        }
        "open_files" => {
            let own = (0..1024).filter(|fd| fs::metadata(format!("/proc/self/fd/{fd}")).is_ok());
            Ok(own.count().to_string())
        }
        "environment" => Ok(env::vars().map(|(name, _)| name).collect::<Vec<_>>().join(",")),
        "touch_memory" => {
            let held = Duration::from_secs(args[1].parse().unwrap());
            touch_memory(args[0].parse().unwrap(), held)
        }
        "reserve_memory" => {
            let mut memory: Vec<u8> = Vec::new();
            memory.try_reserve_exact(args[0].parse().unwrap()).map_err(io::Error::other)?;
            Ok("it".into())
        }
        "threads" => {
            let count: usize = args[0].parse().unwrap();
            for _ in 0..count {
                thread::Builder::new().stack_size(16 * 1024).spawn(|| {
                    thread::park();
                })?;
            }
            thread::sleep(Duration::from_secs(10));
            Ok("it".into())
        }
        "burn" => {
            let start = Instant::now();
            while start.elapsed() < Duration::from_secs(30) {
                std::hint::spin_loop();
            }
            Ok("it".into())
        }
        "large_file" => {
            let mut file = fs::File::create(path(0))?;
            let bytes = vec![0; 64 * 1024];
            for _ in 0..args[1].parse::<u64>().unwrap() / 65536 {
                file.write_all(&bytes)?;
            }
            Ok("it".into())
        }
        other => panic!("no attack {other}"),
    }
}

fn pid(text: &str) -> Pid {
    Pid::from_raw(text.parse().unwrap()).unwrap()
}

fn socket(family: &str, kind: &str) -> io::Result<OwnedFd> {
    let family = match family {
        "inet" => AddressFamily::INET,
        "inet6" => AddressFamily::INET6,
        "unix" => AddressFamily::UNIX,
        "netlink" => AddressFamily::NETLINK,
        "packet" => AddressFamily::PACKET,
        "vsock" => AddressFamily::from_raw(40),
        "alg" => AddressFamily::from_raw(38),
        other => panic!("no family {other}"),
    };
    let kind = match kind {
        "stream" => SocketType::STREAM,
        "datagram" => SocketType::DGRAM,
        "raw" => SocketType::RAW,
        other => panic!("no kind {other}"),
    };
    let socket = rustix::net::socket(family, kind, None)?;
    rustix::io::fcntl_getfd(socket.as_fd())?;
    Ok(socket)
}

/// Allocates `bytes` bytes of memory, writes to every page, and keeps the memory for the duration `held`.
fn touch_memory(bytes: usize, held: Duration) -> io::Result<String> {
    let mut all = Vec::new();
    for _ in 0..bytes / 65536 {
        let mut block = Vec::new();
        block.try_reserve_exact(65536).map_err(io::Error::other)?;
        block.resize(65536, 1_u8);
        all.push(block);
    }
    thread::sleep(held);
    Ok(all.len().to_string())
}
