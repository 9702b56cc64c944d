//! Tests of attacks on the network, and on other programs through sockets.

use std::net::TcpListener;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram, UnixListener};

use neuron_sandbox::ProcessSandbox;

use crate::support::{Folder, assert_refused, attempt, build, builder};

/// Asserts that a program in the sandbox can open no sockets except IP sockets. It must not reach servers with Unix
/// sockets.
async fn assert_no_local_socket(sandbox: &ProcessSandbox, folder: &Folder) {
    let path = folder.path().join("stream");
    let _stream = UnixListener::bind(&path).unwrap();
    assert_refused("unix", &attempt(sandbox, "unix", &[path.to_str().unwrap()]).await);

    let path = folder.path().join("datagram");
    let _datagram = UnixDatagram::bind(&path).unwrap();
    assert_refused("pair", &attempt(sandbox, "datagram_pair", &[path.to_str().unwrap()]).await);

    let name = format!("sandbox-{}", folder.path().display());
    let address = SocketAddr::from_abstract_name(&name).unwrap();
    let _abstract = UnixListener::bind_addr(&address).unwrap();
    assert_refused("abstract", &attempt(sandbox, "abstract", &[&name]).await);

    for family in ["unix", "netlink", "packet", "vsock", "alg"] {
        for kind in ["stream", "datagram", "raw"] {
            assert_refused(family, &attempt(sandbox, "socket", &[family, kind]).await);
        }
    }
}

#[tokio::test]
async fn sockets_are_blocked_without_a_network() {
    let folder = Folder::new();
    let Some(sandbox) = build(builder(&folder).write(folder.path())) else { return };
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = server.local_addr().unwrap().to_string();
    for what in ["connect", "listen", "udp"] {
        assert_refused(what, &attempt(&sandbox, what, &[&address]).await);
    }
    for family in ["inet", "inet6"] {
        for kind in ["stream", "datagram", "raw"] {
            assert_refused(family, &attempt(&sandbox, "socket", &[family, kind]).await);
        }
    }
    assert_no_local_socket(&sandbox, &folder).await;
}

/// With `allow_network`, programs must be able to open IP sockets, but no Unix sockets. Servers with Unix sockets may
/// have more rights, such as a container engine or an SSH agent.
#[tokio::test]
async fn allow_network_permits_only_ip_sockets() {
    let folder = Folder::new();
    let builder = builder(&folder).write(folder.path()).allow_network();
    let Some(sandbox) = build(builder) else { return };
    assert_eq!(attempt(&sandbox, "socket", &["inet", "stream"]).await, "did it");
    assert_refused("raw", &attempt(&sandbox, "socket", &["inet", "raw"]).await);
    assert_no_local_socket(&sandbox, &folder).await;
}
