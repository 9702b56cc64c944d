//! The network addresses that a client may contact on behalf of a server.
//!
//! A server names its authorization server, which names further URLs. So a hostile server could make the client send
//! requests to machines in the client's private network. The SDK checks the host names in these URLs. This module
//! checks the addresses to which the names resolve.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use reqwest::Url;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};

/// The kind of network to which an address belongs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Network {
    Public,
    Private,
    Loopback,
    /// Link-local addresses, including the metadata services of clouds, and reserved addresses. Never allowed.
    Special,
}

/// The kinds of networks that a client may contact, in addition to public networks.
#[derive(Debug, Clone, Copy)]
pub(super) struct AllowedNetworks {
    loopback: bool,
    private: bool,
}

impl AllowedNetworks {
    /// Creates the allowed networks for the MCP server with this URL.
    ///
    /// - Public networks are always allowed.
    /// - Private networks are allowed if the host of `server` is a private address, or if `allow_private` is `true`.
    /// - Loopback addresses are allowed if the host of `server` is a loopback address or `localhost`, or ends with
    ///   `.localhost`.
    pub(super) fn new(server: &Url, allow_private: bool) -> Self {
        let host = server.host_str().unwrap_or_default();
        let own = literal(host).map(network);
        let named_localhost = host == "localhost" || host.ends_with(".localhost");
        Self {
            loopback: named_localhost || own == Some(Network::Loopback),
            private: allow_private || own == Some(Network::Private),
        }
    }

    /// Returns `false` if the host of the URL is an IP address that is not allowed. Returns `true` for a host name,
    /// because it is checked later when it is resolved.
    pub(super) fn allow_url(self, url: &Url) -> bool {
        literal(url.host_str().unwrap_or_default()).is_none_or(|address| self.allow(address))
    }

    /// Returns `true` if the address is in an allowed network.
    fn allow(self, address: IpAddr) -> bool {
        match network(address) {
            Network::Public => true,
            Network::Loopback => self.loopback,
            Network::Private => self.private,
            Network::Special => false,
        }
    }
}

/// Resolves names with the operating system, and keeps only the allowed addresses.
impl Resolve for AllowedNetworks {
    fn resolve(&self, name: Name) -> Resolving {
        let allowed = *self;
        Box::pin(async move {
            let found = tokio::net::lookup_host((name.as_str(), 0)).await?;
            let kept: Vec<SocketAddr> =
                found.filter(|address| allowed.allow(address.ip())).collect();
            if kept.is_empty() {
                return Err(format!(
                    "`{}` has no public address; `OAuthConfig::with_private_addresses` allows \
                     private ones",
                    name.as_str()
                )
                .into());
            }
            Ok(Box::new(kept.into_iter()) as Addrs)
        })
    }
}

/// Parses a URL's host as an IP address. Returns `None` for a host name.
fn literal(host: &str) -> Option<IpAddr> {
    host.trim_start_matches('[').trim_end_matches(']').parse().ok()
}

/// Returns the kind of network of an address. If an IPv6 address contains an IPv4 address, the IPv4 address decides.
fn network(address: IpAddr) -> Network {
    match address {
        IpAddr::V4(address) => network_v4(address),
        IpAddr::V6(address) => match embedded_v4(address) {
            Some(embedded) => network_v4(embedded),
            None => network_v6(address),
        },
    }
}

fn network_v4(address: Ipv4Addr) -> Network {
    let [first, second, ..] = address.octets();
    if address.is_loopback() {
        Network::Loopback
    } else if address.is_private() || (first == 100 && (64..128).contains(&second)) {
        Network::Private
    } else if first == 0
        || first >= 240
        || address.is_link_local()
        || address.is_multicast()
        || (first == 198 && matches!(second, 18 | 19))
    {
        Network::Special
    } else {
        Network::Public
    }
}

fn network_v6(address: Ipv6Addr) -> Network {
    let [first, second, third, ..] = address.segments();
    if address.is_loopback() {
        Network::Loopback
    } else if first & 0xfe00 == 0xfc00 {
        Network::Private
    } else if address.is_unspecified()
        || address.is_multicast()
        || first & 0xffc0 == 0xfe80
        // Teredo tunnels, and NAT64 with a local prefix.
        || (first, second) == (0x2001, 0)
        || (first, second, third) == (0x64, 0xff9b, 1)
    {
        Network::Special
    } else {
        Network::Public
    }
}

/// Returns the IPv4 address inside a mapped, compatible, NAT64 (`64:ff9b::/96`) or 6to4 (`2002::/16`) address. Returns
/// `None` for any other address.
fn embedded_v4(address: Ipv6Addr) -> Option<Ipv4Addr> {
    let [a, b, c, d, e, f, g, h] = address.segments();
    match [a, b, c, d, e, f] {
        [0, 0, 0, 0, 0, 0xffff] | [0x64, 0xff9b, 0, 0, 0, 0] => Some(v4(g, h)),
        [0, 0, 0, 0, 0, 0] if !address.is_loopback() && !address.is_unspecified() => Some(v4(g, h)),
        [0x2002, ..] => Some(v4(b, c)),
        _ => None,
    }
}

fn v4(high: u16, low: u16) -> Ipv4Addr {
    Ipv4Addr::from_bits(u32::from(high) << 16 | u32::from(low))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_classified_by_network() {
        for (address, expected) in [
            ("8.8.8.8", Network::Public),
            ("127.0.0.1", Network::Loopback),
            ("10.1.2.3", Network::Private),
            ("172.16.0.1", Network::Private),
            ("172.32.0.1", Network::Public),
            ("192.168.1.1", Network::Private),
            ("100.64.0.1", Network::Private),
            ("100.128.0.1", Network::Public),
            ("169.254.169.254", Network::Special),
            ("0.0.0.0", Network::Special),
            ("255.255.255.255", Network::Special),
            ("224.0.0.1", Network::Special),
            ("198.18.0.1", Network::Special),
            ("::1", Network::Loopback),
            ("::", Network::Special),
            ("2606:4700::1111", Network::Public),
            ("fd00::1", Network::Private),
            ("fe80::1", Network::Special),
            ("ff02::1", Network::Special),
            ("::ffff:127.0.0.1", Network::Loopback),
            ("::ffff:10.0.0.1", Network::Private),
            ("64:ff9b::a9fe:a9fe", Network::Special),
            ("2002:7f00:1::", Network::Loopback),
            ("2001::1", Network::Special),
        ] {
            assert_eq!(network(address.parse().unwrap()), expected, "{address}");
        }
    }

    #[test]
    fn public_networks_and_the_servers_own_kind_are_allowed() {
        #[track_caller]
        fn check(server: &str, allow_private: bool, url: &str, expected: bool) {
            let allowed = AllowedNetworks::new(&Url::parse(server).unwrap(), allow_private);
            assert_eq!(allowed.allow_url(&Url::parse(url).unwrap()), expected, "{server} -> {url}");
        }
        check("https://mcp.example", false, "https://8.8.8.8/", true);
        check("https://mcp.example", false, "https://127.0.0.1/", false);
        check("https://mcp.example", false, "https://[::1]/", false);
        check("https://mcp.example", false, "https://10.0.0.1/", false);
        check("https://mcp.example", true, "https://10.0.0.1/", true);
        check("https://mcp.example", true, "https://127.0.0.1/", false);
        check("https://mcp.example", true, "http://169.254.169.254/", false);
        check("http://127.0.0.1:1", false, "http://127.0.0.1:2/", true);
        check("http://localhost:1", false, "http://[::1]:2/", true);
        check("http://10.0.0.1", false, "http://10.0.0.2/", true);
        check("http://10.0.0.1", false, "http://127.0.0.1/", false);
    }

    #[tokio::test]
    async fn name_of_this_machine_is_refused_for_a_remote_server() {
        let foreign = AllowedNetworks::new(&Url::parse("https://mcp.example").unwrap(), false);
        let error = foreign.resolve("localhost".parse().unwrap()).await.err().unwrap().to_string();
        assert!(error.contains("with_private_addresses"), "{error}");

        let own = AllowedNetworks::new(&Url::parse("http://127.0.0.1").unwrap(), false);
        assert!(own.resolve("localhost".parse().unwrap()).await.is_ok());
    }
}
