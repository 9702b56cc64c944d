//! [`Peers`], which counts the connections of each IP address, so that one client cannot occupy all connections.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio_util::sync::CancellationToken;

/// The open connections of a server by IP address.
pub(super) struct Peers {
    /// Maximum number of connections of one address.
    max: usize,
    /// Open connections, oldest first, by the client's IP address. For IPv6 the key is the first 64 bits of the
    /// address.
    connections: Mutex<HashMap<IpAddr, Vec<Arc<Connection>>>>,
}

/// State of an open connection.
#[derive(Default)]
pub(super) struct Connection {
    /// Number of requests on the connection whose responses are not complete.
    uses: AtomicUsize,
    /// Cancelled when the connection must close in favour of a newer connection.
    gives_way: CancellationToken,
}

impl Peers {
    /// Creates a list without open connections. `max` is the maximum number of connections of one address.
    pub(super) fn new(max: usize) -> Arc<Self> {
        Arc::new(Self { max, connections: Mutex::default() })
    }

    /// Counts a new connection of an address until the returned guard is dropped.
    ///
    /// If the address has reached its limit, its oldest connection without a running request is closed. If there is no
    /// such connection, returns `None`, and the new connection is not counted.
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

    /// Locks the connections, even if the lock is poisoned.
    fn lock(&self) -> MutexGuard<'_, HashMap<IpAddr, Vec<Arc<Connection>>>> {
        self.connections.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Connection {
    /// Counts a running request on this connection until the returned guard is dropped. Newer connections do not
    /// replace a connection with a running request.
    pub(super) fn carry(self: &Arc<Self>) -> Carrying {
        self.uses.fetch_add(1, Ordering::Relaxed);
        Carrying(self.clone())
    }
}

/// Guard that counts a running request of a connection. Dropped when the response is complete.
pub(super) struct Carrying(Arc<Connection>);

impl Drop for Carrying {
    fn drop(&mut self) {
        self.0.uses.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Guard of an open connection. Dropping the guard removes the connection from the list [`Peers`].
pub(super) struct Entered {
    /// The list of all open connections, which contains this connection.
    peers: Arc<Peers>,
    /// Address under which the client's connections are counted (see [`network`]).
    address: IpAddr,
    /// State of the connection.
    connection: Arc<Connection>,
}

impl Entered {
    /// Returns the state of the connection.
    pub(super) fn connection(&self) -> &Arc<Connection> {
        &self.connection
    }

    /// Waits until the connection must close in favour of a newer connection of the same address.
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

/// Returns the address by which a client's connections are counted. An IPv6 address is truncated to its first 64 bits,
/// because a client usually has all addresses with this prefix.
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
    fn new_connection_at_the_limit_closes_the_oldest_idle_one_of_its_address() {
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
    fn ipv6_network_has_64_bits_and_ipv4_network_is_the_address() {
        assert_eq!(network(address("2001:db8::1:2:3:4")), address("2001:db8::"));
        assert_eq!(network(address("::ffff:10.0.0.1")), address("10.0.0.1"));
        assert_eq!(network(address("10.0.0.1")), address("10.0.0.1"));
    }
}
