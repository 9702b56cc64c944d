//! A TCP proxy in front of two processes, like a load balancer.

use std::net::Ipv4Addr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, Ordering::SeqCst};

use tokio::io::copy;
use tokio::net::{TcpListener, TcpStream};

/// A proxy that forwards connections from Restate to the port of one process. If Restate closes a connection, the proxy
/// keeps its connection to the process open. The process therefore does not notice that Restate has closed the
/// connection.
pub(crate) struct Proxy {
    pub(crate) port: u16,
    target: Arc<AtomicU16>,
}

impl Proxy {
    pub(crate) async fn start(target: u16) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let target = Arc::new(AtomicU16::new(target));
        let current = target.clone();
        tokio::spawn(async move {
            while let Ok((near, _)) = listener.accept().await {
                if let Ok(far) =
                    TcpStream::connect((Ipv4Addr::LOCALHOST, current.load(SeqCst))).await
                {
                    tokio::spawn(pass(near, far));
                }
            }
        });
        Self { port, target }
    }

    /// Forwards new connections to another port from now on.
    pub(crate) fn switch(&self, target: u16) {
        self.target.store(target, SeqCst);
    }
}

async fn pass(mut near: TcpStream, mut far: TcpStream) {
    {
        let ((mut near_reads, mut near_writes), (mut far_reads, mut far_writes)) =
            (near.split(), far.split());
        tokio::select! {
            _ = copy(&mut near_reads, &mut far_writes) => {}
            _ = copy(&mut far_reads, &mut near_writes) => {}
        }
    }
    drop(near);
    std::future::pending::<()>().await;
    drop(far);
}
