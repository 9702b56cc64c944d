//! [`Peers`], which counts connections by address so that one client cannot occupy all of them.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio_util::sync::CancellationToken;

/// The open connections of a server by address.
pub(super) struct Peers {
    max: usize,
    connections: Mutex<HashMap<IpAddr, Vec<Arc<Connection>>>>,
}

/// An open connection.
#[derive(Default)]
pub(super) struct Connection {
    /// Number of requests that were read and whose responses have not ended.
    uses: AtomicUsize,
    gives_way: CancellationToken,
}

impl Peers {
    pub(super) fn new(max: usize) -> Arc<Self> {
        Arc::new(Self { max, connections: Mutex::default() })
    }

    /// Counts a connection. If its address has reached the limit, the oldest connection without a request is closed.
    /// Returns `None` if all connections carry a request.
    pub(super) fn enter(self: &Arc<Self>, address: IpAddr) -> Option<Entered> {
        let (address, mut all) = (network(address), self.lock());
        let others = all.entry(address).or_default();
        if others.len() >= self.max {
            let idle = |other: &Arc<Connection>| other.uses.load(Ordering::Relaxed) == 0;
            let place = others.iter().position(idle)?;
            others.remove(place).gives_way.cancel();
        }
        let connection = Arc::<Connection>::default();
        others.push(connection.clone());
        Some(Entered { peers: self.clone(), address, connection })
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<IpAddr, Vec<Arc<Connection>>>> {
        self.connections.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Connection {
    /// Marks the connection as carrying a request.
    pub(super) fn carry(self: &Arc<Self>) -> Carrying {
        self.uses.fetch_add(1, Ordering::Relaxed);
        Carrying(self.clone())
    }
}

/// A request whose response has not ended.
pub(super) struct Carrying(Arc<Connection>);

impl Drop for Carrying {
    fn drop(&mut self) {
        self.0.uses.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A counted connection.
pub(super) struct Entered {
    peers: Arc<Peers>,
    address: IpAddr,
    connection: Arc<Connection>,
}

impl Entered {
    pub(super) fn connection(&self) -> &Arc<Connection> {
        &self.connection
    }

    /// Waits until the connection must close in favour of another.
    pub(super) async fn gives_way(&self) {
        self.connection.gives_way.cancelled().await;
    }
}

impl Drop for Entered {
    fn drop(&mut self) {
        let mut all = self.peers.lock();
        if let Some(others) = all.get_mut(&self.address) {
            others.retain(|other| !Arc::ptr_eq(other, &self.connection));
            if others.is_empty() {
                all.remove(&self.address);
            }
        }
    }
}

/// Returns the network of a client. For IPv6 this is the first 64 bits of the address.
pub(super) fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() >> 64 << 64).into(),
        address @ IpAddr::V4(_) => address,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn oldest_connection_without_a_request_gives_way_to_one_of_the_same_address() {
        let peers = Peers::new(2);
        let enter = |text| peers.enter(address(text));
        let (first, second) = (enter("10.0.0.1").unwrap(), enter("10.0.0.1").unwrap());
        let other = enter("10.0.0.2").unwrap();
        let carrying = first.connection().carry();
        let third = enter("10.0.0.1").unwrap();
        let is_over = |entered: &Entered| entered.connection.gives_way.is_cancelled();
        assert_eq!([&first, &second, &third, &other].map(is_over), [false, true, false, false]);

        let also = third.connection().carry();
        assert!(enter("10.0.0.1").is_none());
        drop((carrying, also));
        assert!(enter("10.0.0.1").is_some());
        drop((first, second, third, other));
        assert!(peers.lock().is_empty());
    }

    #[test]
    fn network_of_an_address_is_what_one_client_has() {
        assert_eq!(network(address("2001:db8::1:2:3:4")), address("2001:db8::"));
        assert_eq!(network(address("::ffff:10.0.0.1")), address("10.0.0.1"));
        assert_eq!(network(address("10.0.0.1")), address("10.0.0.1"));
    }
}
