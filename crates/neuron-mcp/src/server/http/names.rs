//! [`AllowedNames`], which checks the host and the origin of requests as a defence against DNS rebinding.
//!
//! DNS rebinding is an attack by a web page on a server on its visitor's machine. The page makes its own host name
//! resolve to the address of that machine, so that its requests reach the server. The `Host` and `Origin` headers of
//! these requests contain the host name of the page.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use http::header::{HOST, ORIGIN};
use http::uri::Authority;
use http::{HeaderMap, HeaderValue, Uri};

/// The hosts and origins that a request may contain.
#[derive(Clone, Debug)]
pub(super) struct AllowedNames {
    /// Allowed hosts. `None` allows every host.
    hosts: Option<Vec<AllowedHost>>,
    /// Allowed origins of web pages.
    origins: Vec<AllowedOrigin>,
}

/// Reason for refusing a request because of its host or origin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NameRefusal {
    /// The request contains no host, several `Host` headers, or an invalid host.
    Malformed,
    /// A host of the request is not allowed.
    Host,
    /// The origin of the request is not allowed.
    Origin,
}

impl AllowedNames {
    /// Parses the allowed hosts and origins. If `hosts` is `None`, loopback names are allowed. `bound` is the bind
    /// address, which is always allowed, unless it is unspecified such as `0.0.0.0`.
    ///
    /// # Errors
    ///
    /// Returns an error text if a host or an origin is invalid.
    pub(super) fn new(
        hosts: Option<&[String]>,
        origins: &[String],
        bound: Option<IpAddr>,
    ) -> Result<Self, String> {
        let mut all = false;
        let mut allowed = vec![];
        for host in hosts.unwrap_or_default() {
            match host.trim() {
                "*" => all = true,
                host => allowed.push(AllowedHost::parse(host)?),
            }
        }
        if hosts.is_none() {
            allowed.extend([
                AllowedHost::any_port(Host::Name("localhost".to_owned())),
                AllowedHost::any_port(Host::Address(IpAddr::V4(Ipv4Addr::LOCALHOST))),
                AllowedHost::any_port(Host::Address(IpAddr::V6(Ipv6Addr::LOCALHOST))),
            ]);
        }
        // An unspecified address such as `0.0.0.0` is not an address that clients connect to.
        if let Some(bound) = bound.filter(|bound| !bound.is_unspecified()) {
            allowed.push(AllowedHost::any_port(Host::Address(bound)));
        }
        let origins = origins.iter().map(|origin| AllowedOrigin::parse(origin.trim()));
        Ok(Self { hosts: (!all).then_some(allowed), origins: origins.collect::<Result<_, _>>()? })
    }

    /// Checks the host and the origin of a request. Returns an error in these cases:
    ///
    /// - The host is missing, malformed or not allowed.
    /// - The request has an origin that is not allowed.
    pub(super) fn check(&self, uri: &Uri, headers: &HeaderMap) -> Result<(), NameRefusal> {
        for named in named_hosts(uri, headers)? {
            let (host, port) = parse_authority(&named).ok_or(NameRefusal::Malformed)?;
            if let Some(hosts) = &self.hosts
                && !hosts.iter().any(|allowed| allowed.is(&host, port))
            {
                return Err(NameRefusal::Host);
            }
        }
        if headers.contains_key(ORIGIN) && self.origin(headers).is_none() {
            return Err(NameRefusal::Origin);
        }
        Ok(())
    }

    /// Returns the `Origin` header of a request. Returns `None` if there is not exactly one such header, or if the
    /// origin is not allowed.
    pub(super) fn origin<'a>(&self, headers: &'a HeaderMap) -> Option<&'a HeaderValue> {
        let value = only(headers.get_all(ORIGIN).iter())?;
        let (scheme, host, port) = parse_origin(value.to_str().ok()?)?;
        self.origins.iter().any(|allowed| allowed.is(&scheme, &host, port)).then_some(value)
    }
}

/// Returns the host of the `Host` header and the host in the request's target. Returns an error if there is no host, or
/// more than one `Host` header.
///
/// HTTP/1.1 requires exactly one `Host` header (RFC 9112, 3.2). A target contains a host in HTTP/2, and in HTTP/1.1 if
/// it is in absolute form.
fn named_hosts(uri: &Uri, headers: &HeaderMap) -> Result<Vec<String>, NameRefusal> {
    let mut named: Vec<String> = uri.authority().map(ToString::to_string).into_iter().collect();
    let mut hosts = headers.get_all(HOST).iter();
    // A request without a host or with several `Host` headers must be refused (RFC 9112, 3.2).
    match (hosts.next(), hosts.next()) {
        (Some(host), None) => {
            named.push(host.to_str().map_err(|_| NameRefusal::Malformed)?.to_owned());
        }
        (None, _) if !named.is_empty() => {}
        _ => return Err(NameRefusal::Malformed),
    }
    Ok(named)
}

/// Returns the only item of an iterator. Returns `None` if there are no items or several.
fn only<T>(mut items: impl Iterator<Item = T>) -> Option<T> {
    let item = items.next()?;
    items.next().is_none().then_some(item)
}

/// A host in normalised form.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Host {
    /// An IP address. Stored as a value, because an address such as `[::1]` can be written in several ways.
    Address(IpAddr),
    /// A host name in lower case.
    Name(String),
}

impl Host {
    /// Parses a host without a port. Returns `None` if the host contains characters that are not allowed.
    fn parse(host: &str) -> Option<Self> {
        if let Some(address) = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')) {
            return address.parse().ok().map(|address| Self::Address(IpAddr::V6(address)));
        }
        if let Ok(address) = host.parse() {
            return Some(Self::Address(IpAddr::V4(address)));
        }
        let known = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '.' | '_');
        (!host.is_empty() && host.chars().all(known)).then(|| Self::Name(host.to_ascii_lowercase()))
    }
}

/// Parses a host with an optional port. Returns `None` if the text contains anything else, such as user information.
fn parse_authority(authority: &str) -> Option<(Host, Option<u16>)> {
    let parsed = Authority::try_from(authority).ok()?;
    let host = Host::parse(parsed.host())?;
    // `Authority` also accepts user information and invalid ports. The comparison below rejects them.
    let written = match parsed.port() {
        Some(port) => format!("{}:{port}", parsed.host()),
        None => parsed.host().to_owned(),
    };
    (written == authority).then_some((host, parsed.port_u16()))
}

/// An allowed host, with one port or with every port.
#[derive(Clone, Debug)]
struct AllowedHost {
    /// The host name or IP address.
    host: Host,
    /// The allowed port. `None` allows every port.
    port: Option<u16>,
}

impl AllowedHost {
    fn parse(text: &str) -> Result<Self, String> {
        // An IPv6 address in the list may omit its brackets.
        if let Ok(address) = text.parse::<Ipv6Addr>() {
            return Ok(Self::any_port(Host::Address(IpAddr::V6(address))));
        }
        let (host, port) = parse_authority(text).ok_or_else(|| {
            format!(
                "`{text}` is not a valid host: use a form like `example.com`, `example.com:8080` \
                 or `[::1]`"
            )
        })?;
        Ok(Self { host, port })
    }

    /// Allows a host with every port.
    fn any_port(host: Host) -> Self {
        Self { host, port: None }
    }

    /// Returns `true` if the host and the port of a request are allowed.
    fn is(&self, host: &Host, port: Option<u16>) -> bool {
        self.host == *host && (self.port.is_none() || self.port == port)
    }
}

/// Parses an origin into scheme, host and port. If the port is missing, returns the default port of the scheme. Returns
/// `None` for any other text, such as `null`, which a browser sends for a page without an origin.
pub(super) fn parse_origin(text: &str) -> Option<(String, Host, u16)> {
    let (scheme, authority) = text.split_once("://")?;
    let scheme = scheme.to_ascii_lowercase();
    let (host, port) = parse_authority(authority)?;
    let port = match (port, scheme.as_str()) {
        (Some(port), _) => port,
        (None, "http") => 80,
        (None, "https") => 443,
        (None, _) => 0,
    };
    Some((scheme, host, port))
}

/// An allowed origin, with one port or with every port.
#[derive(Clone, Debug)]
struct AllowedOrigin {
    /// Scheme in lower case.
    scheme: String,
    /// Host and port.
    host: AllowedHost,
}

impl AllowedOrigin {
    fn parse(text: &str) -> Result<Self, String> {
        let origin = text.strip_suffix(":*");
        let (scheme, host, port) = parse_origin(origin.unwrap_or(text)).ok_or_else(|| {
            format!(
                "`{text}` is not a valid origin: use a form like `https://example.com` or \
                 `http://localhost:*`"
            )
        })?;
        let port = origin.is_none().then_some(port);
        Ok(Self { scheme, host: AllowedHost { host, port } })
    }

    fn is(&self, scheme: &str, host: &Host, port: u16) -> bool {
        self.scheme == scheme && self.host.is(host, Some(port))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(hosts: &[&str], origins: &[&str]) -> AllowedNames {
        let hosts: Vec<String> = hosts.iter().map(|host| (*host).to_owned()).collect();
        let origins: Vec<String> = origins.iter().map(|origin| (*origin).to_owned()).collect();
        let hosts = (!hosts.is_empty()).then_some(hosts);
        AllowedNames::new(hosts.as_deref(), &origins, None).unwrap()
    }

    #[track_caller]
    fn check(
        names: &AllowedNames,
        uri: &str,
        headers: &[(&str, &str)],
        expected: Result<(), NameRefusal>,
    ) {
        let uri: Uri = uri.parse().unwrap();
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.append(
                http::HeaderName::from_bytes(name.as_bytes()).unwrap(),
                HeaderValue::from_bytes(value.as_bytes()).unwrap(),
            );
        }
        assert_eq!(names.check(&uri, &map), expected, "{uri} {headers:?}");
    }

    #[test]
    fn loopback_names_are_allowed_by_default() {
        let names = names(&[], &[]);
        for host in ["localhost", "LOCALHOST:80", "127.0.0.1:8080", "[::1]", "[0:0:0:0:0:0:0:1]:9"]
        {
            check(&names, "/mcp", &[("host", host)], Ok(()));
        }
        for host in ["example.com", "localhost.example.com", "127.0.0.2", "[::2]", "localhost."] {
            check(&names, "/mcp", &[("host", host)], Err(NameRefusal::Host));
        }
    }

    #[test]
    fn request_without_exactly_one_valid_host_is_malformed() {
        let names = names(&[], &[]);
        let malformed = Err(NameRefusal::Malformed);
        check(&names, "/mcp", &[], malformed);
        check(&names, "/mcp", &[("host", "localhost"), ("host", "localhost")], malformed);
        check(&names, "/mcp", &[("host", "localhost"), ("host", "evil.example")], malformed);
        for host in
            ["", "evil.example@localhost", "localhost:x", "localhost/x", "::1", "a b", "[::1"]
        {
            check(&names, "/mcp", &[("host", host)], malformed);
        }
        check(&names, "/mcp", &[("host", "localh\u{f6}st")], malformed);
    }

    #[test]
    fn host_of_an_absolute_target_is_checked() {
        let names = names(&[], &[]);
        let host = ("host", "localhost");
        check(&names, "http://localhost:1/mcp", &[host], Ok(()));
        check(&names, "http://localhost:1/mcp", &[], Ok(()));
        check(&names, "http://evil.example/mcp", &[host], Err(NameRefusal::Host));
        let evil = ("host", "evil.example");
        check(&names, "http://localhost/mcp", &[evil], Err(NameRefusal::Host));
    }

    #[test]
    fn named_hosts_replace_the_default_and_may_have_a_port() {
        let names = names(&["Tools.Example.com:8443", "10.0.0.1", "fe80::1"], &[]);
        for host in ["tools.example.com:8443", "10.0.0.1", "10.0.0.1:1", "[fe80::1]:2"] {
            check(&names, "/", &[("host", host)], Ok(()));
        }
        for host in ["tools.example.com", "tools.example.com:443", "localhost"] {
            check(&names, "/", &[("host", host)], Err(NameRefusal::Host));
        }
    }

    #[test]
    fn asterisk_allows_every_host() {
        let names = names(&["*"], &[]);
        check(&names, "/", &[("host", "whatever.example:1")], Ok(()));
        check(&names, "/", &[], Err(NameRefusal::Malformed));
    }

    #[test]
    fn bind_address_is_allowed_in_addition_to_the_names() {
        let bound = "192.0.2.7".parse().unwrap();
        let names = AllowedNames::new(Some(&["a.example".to_owned()]), &[], Some(bound)).unwrap();
        check(&names, "/", &[("host", "192.0.2.7:80")], Ok(()));
        check(&names, "/", &[("host", "a.example")], Ok(()));
        check(&names, "/", &[("host", "localhost")], Err(NameRefusal::Host));
    }

    #[test]
    fn no_origin_is_allowed_by_default() {
        let names = names(&[], &[]);
        for origin in ["http://localhost", "http://localhost:80", "null", "", "https://a.example"] {
            let headers = [("host", "localhost"), ("origin", origin)];
            check(&names, "/", &headers, Err(NameRefusal::Origin));
        }
    }

    #[test]
    fn origin_must_match_in_scheme_host_and_port() {
        let names =
            names(&[], &["https://app.example", "http://localhost:*", "http://b.example:81"]);
        let allowed = [
            "https://app.example",
            "https://APP.example:443",
            "http://localhost",
            "http://localhost:5173",
            "http://b.example:81",
        ];
        for origin in allowed {
            check(&names, "/", &[("host", "localhost"), ("origin", origin)], Ok(()));
        }
        let refused = [
            "http://app.example",
            "https://app.example:444",
            "https://app.example.evil",
            "https://app.example@evil.example",
            "https://localhost",
            "http://b.example",
            "null",
            "file://",
        ];
        for origin in refused {
            let headers = [("host", "localhost"), ("origin", origin)];
            check(&names, "/", &headers, Err(NameRefusal::Origin));
        }
        let origin = ("origin", "https://app.example");
        check(&names, "/", &[("host", "localhost"), origin, origin], Err(NameRefusal::Origin));
    }

    #[test]
    fn invalid_host_or_origin_is_an_error() {
        let bad = |hosts: &[&str], origins: &[&str]| {
            let hosts: Vec<String> = hosts.iter().map(|host| (*host).to_owned()).collect();
            let origins: Vec<String> = origins.iter().map(|origin| (*origin).to_owned()).collect();
            AllowedNames::new(Some(&hosts), &origins, None).unwrap_err()
        };
        assert!(
            bad(&["http://example.com"], &[]).contains("`http://example.com` is not a valid host")
        );
        assert!(bad(&[""], &[]).contains("is not a valid host"));
        assert!(bad(&["a.example:*"], &[]).contains("is not a valid host"));
        assert!(bad(&[], &["example.com"]).contains("`example.com` is not a valid origin"));
        assert!(bad(&[], &["null"]).contains("is not a valid origin"));
        assert!(bad(&[], &["https://example.com/"]).contains("is not a valid origin"));
    }
}
