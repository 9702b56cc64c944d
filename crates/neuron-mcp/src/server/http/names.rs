//! Checks of host names and origins, as a defence against DNS rebinding.
//!
//! A web page can make its own name resolve to an address of its visitor's machine. Its requests then reach a server
//! there, but they contain the page's host and origin.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use http::header::{HOST, ORIGIN};
use http::uri::Authority;
use http::{HeaderMap, HeaderValue, Uri};

/// The allowed hosts and origins.
#[derive(Clone, Debug)]
pub(super) struct AllowedNames {
    /// `None` allows all hosts.
    hosts: Option<Vec<AllowedHost>>,
    origins: Vec<AllowedOrigin>,
}

/// Reason for refusing a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NameRefusal {
    /// The host is missing or ambiguous.
    Malformed,
    /// The host is not allowed.
    Host,
    /// The origin is not allowed.
    Origin,
}

impl AllowedNames {
    /// # Errors
    ///
    /// Returns an error with the invalid name.
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
        if let Some(bound) = bound.filter(|bound| !bound.is_unspecified()) {
            allowed.push(AllowedHost::any_port(Host::Address(bound)));
        }
        let origins = origins.iter().map(|origin| AllowedOrigin::parse(origin.trim()));
        Ok(Self { hosts: (!all).then_some(allowed), origins: origins.collect::<Result<_, _>>()? })
    }

    /// Refuses a request with another host or origin.
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

    /// Returns the origin of a request, if it is allowed.
    pub(super) fn origin<'a>(&self, headers: &'a HeaderMap) -> Option<&'a HeaderValue> {
        let value = only(headers.get_all(ORIGIN).iter())?;
        let (scheme, host, port) = parse_origin(value.to_str().ok()?)?;
        self.origins.iter().any(|allowed| allowed.is(&scheme, &host, port)).then_some(value)
    }
}

/// Returns the hosts in a request: the `Host` header and the host in its target. HTTP/1.1 requires exactly one `Host`
/// (RFC 9112, 3.2). A target in absolute form and HTTP/2 contain the host too.
fn named_hosts(uri: &Uri, headers: &HeaderMap) -> Result<Vec<String>, NameRefusal> {
    let mut named: Vec<String> = uri.authority().map(ToString::to_string).into_iter().collect();
    let mut hosts = headers.get_all(HOST).iter();
    match (hosts.next(), hosts.next()) {
        (Some(host), None) => {
            named.push(host.to_str().map_err(|_| NameRefusal::Malformed)?.to_owned());
        }
        (None, _) if !named.is_empty() => {}
        _ => return Err(NameRefusal::Malformed),
    }
    Ok(named)
}

/// Returns the item if there is exactly one.
fn only<T>(mut items: impl Iterator<Item = T>) -> Option<T> {
    let item = items.next()?;
    items.next().is_none().then_some(item)
}

/// A host in normalised form. Addresses are compared by value, because `[::1]` has several spellings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Host {
    Address(IpAddr),
    Name(String),
}

impl Host {
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

/// Parses a host with an optional port. Rejects everything else.
fn parse_authority(authority: &str) -> Option<(Host, Option<u16>)> {
    let parsed = Authority::try_from(authority).ok()?;
    let host = Host::parse(parsed.host())?;
    // `Authority` accepts user information and invalid ports, which are rejected here.
    let written = match parsed.port() {
        Some(port) => format!("{}:{port}", parsed.host()),
        None => parsed.host().to_owned(),
    };
    (written == authority).then_some((host, parsed.port_u16()))
}

/// A host in the user's list.
#[derive(Clone, Debug)]
struct AllowedHost {
    host: Host,
    /// `None` allows every port.
    port: Option<u16>,
}

impl AllowedHost {
    fn parse(text: &str) -> Result<Self, String> {
        // An IPv6 address in the list may omit its brackets.
        if let Ok(address) = text.parse::<Ipv6Addr>() {
            return Ok(Self::any_port(Host::Address(IpAddr::V6(address))));
        }
        let (host, port) = parse_authority(text).ok_or_else(|| {
            format!("`{text}` is no host: name it as `example.com`, `example.com:8080` or `[::1]`")
        })?;
        Ok(Self { host, port })
    }

    fn any_port(host: Host) -> Self {
        Self { host, port: None }
    }

    fn is(&self, host: &Host, port: Option<u16>) -> bool {
        self.host == *host && (self.port.is_none() || self.port == port)
    }
}

/// Parses the scheme, host and port of an origin. Returns `None` for `null`, which stands for opaque origins.
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

/// An allowed origin, with its port or with every port.
#[derive(Clone, Debug)]
struct AllowedOrigin {
    scheme: String,
    host: AllowedHost,
}

impl AllowedOrigin {
    fn parse(text: &str) -> Result<Self, String> {
        let origin = text.strip_suffix(":*");
        let (scheme, host, port) = parse_origin(origin.unwrap_or(text)).ok_or_else(|| {
            format!(
                "`{text}` is no origin: name it as `https://example.com` or `http://localhost:*`"
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
    fn a_request_must_say_once_whom_it_is_for() {
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
    fn a_target_in_absolute_form_counts_too() {
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
    fn every_host_can_be_allowed() {
        let names = names(&["*"], &[]);
        check(&names, "/", &[("host", "whatever.example:1")], Ok(()));
        check(&names, "/", &[], Err(NameRefusal::Malformed));
    }

    #[test]
    fn a_specific_address_is_allowed_beside_the_names() {
        let bound = "192.0.2.7".parse().unwrap();
        let names = AllowedNames::new(Some(&["a.example".to_owned()]), &[], Some(bound)).unwrap();
        check(&names, "/", &[("host", "192.0.2.7:80")], Ok(()));
        check(&names, "/", &[("host", "a.example")], Ok(()));
        check(&names, "/", &[("host", "localhost")], Err(NameRefusal::Host));
    }

    #[test]
    fn no_page_is_allowed_by_default() {
        let names = names(&[], &[]);
        for origin in ["http://localhost", "http://localhost:80", "null", "", "https://a.example"] {
            let headers = [("host", "localhost"), ("origin", origin)];
            check(&names, "/", &headers, Err(NameRefusal::Origin));
        }
    }

    #[test]
    fn an_origin_is_scheme_host_and_port() {
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
    fn what_is_no_name_is_an_error() {
        let bad = |hosts: &[&str], origins: &[&str]| {
            let hosts: Vec<String> = hosts.iter().map(|host| (*host).to_owned()).collect();
            let origins: Vec<String> = origins.iter().map(|origin| (*origin).to_owned()).collect();
            AllowedNames::new(Some(&hosts), &origins, None).unwrap_err()
        };
        assert!(bad(&["http://example.com"], &[]).contains("`http://example.com` is no host"));
        assert!(bad(&[""], &[]).contains("is no host"));
        assert!(bad(&["a.example:*"], &[]).contains("is no host"));
        assert!(bad(&[], &["example.com"]).contains("`example.com` is no origin"));
        assert!(bad(&[], &["null"]).contains("is no origin"));
        assert!(bad(&[], &["https://example.com/"]).contains("is no origin"));
    }
}
