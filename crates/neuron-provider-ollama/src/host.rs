//! Parsing of the environment variable `OLLAMA_HOST`, as in Ollama's own clients.
//!
//! <https://docs.ollama.com/faq#how-can-i-expose-ollama-on-my-network>

use std::net::{Ipv4Addr, Ipv6Addr};

use neuron_http::BaseUrl;
use neuron_model::ProviderError;

const DEFAULT_PORT: u16 = 11434;

/// Converts the value of `OLLAMA_HOST` to a URL. The scheme, the port and the path of the value are optional.
///
/// # Errors
///
/// [`ProviderError::InvalidRequest`] if the value is not a valid address.
pub(crate) fn base_url(host: &str) -> Result<String, ProviderError> {
    let host = host.trim().trim_matches(['"', '\'']).trim();
    let (scheme, rest, default_port) = match host.split_once("://") {
        None => ("http", host, DEFAULT_PORT),
        Some((scheme, rest)) if scheme.eq_ignore_ascii_case("http") => ("http", rest, 80),
        Some((scheme, rest)) if scheme.eq_ignore_ascii_case("https") => ("https", rest, 443),
        Some((scheme, rest)) => return Err(invalid(scheme, rest, "must be http or https")),
    };
    let error = |why| invalid(scheme, rest, why);
    let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    let (user, authority) = match authority.rsplit_once('@') {
        Some((user, authority)) => (format!("{user}@"), authority),
        None => (String::new(), authority),
    };
    let (name, port) = split_port(authority).ok_or_else(|| error("has a `[` without a `]`"))?;
    let port = match port {
        "" => default_port,
        port => port.parse().map_err(|_| error("needs a number up to 65535 as its port"))?,
    };
    let url = format!("{scheme}://{user}{}:{port}{}", reachable(name), path.trim_end_matches('/'));
    match BaseUrl::new(&url).join("api/chat") {
        Ok(_) => Ok(url),
        Err(_) => Err(error("is not an address")),
    }
}

fn invalid(scheme: &str, rest: &str, why: &str) -> ProviderError {
    // The `Debug` output of a `BaseUrl` hides a password in the URL.
    let shown = BaseUrl::new(format!("{scheme}://{rest}"));
    ProviderError::InvalidRequest(format!("OLLAMA_HOST {shown:?} {why}"))
}

/// Splits `name:port` into the name and the port. The port is empty if there is none. An IPv6 address may have
/// brackets, and must have them if a port follows. Returns `None` if the closing bracket is missing.
fn split_port(authority: &str) -> Option<(&str, &str)> {
    if let Some(rest) = authority.strip_prefix('[') {
        let (name, port) = rest.split_once(']')?;
        return Some((name, port.strip_prefix(':').unwrap_or(port)));
    }
    if authority.parse::<Ipv6Addr>().is_ok() {
        return Some((authority, ""));
    }
    Some(authority.rsplit_once(':').unwrap_or((authority, "")))
}

/// Returns the host name to which a client can connect. An empty name and an unspecified address, such as `0.0.0.0`,
/// become the address of the local machine. Servers use such values of `OLLAMA_HOST` to listen.
fn reachable(name: &str) -> String {
    if let Ok(address) = name.parse::<Ipv6Addr>() {
        let address = if address.is_unspecified() { Ipv6Addr::LOCALHOST } else { address };
        return format!("[{address}]");
    }
    match name.parse::<Ipv4Addr>() {
        Ok(address) if address.is_unspecified() => Ipv4Addr::LOCALHOST.to_string(),
        _ if name.is_empty() => Ipv4Addr::LOCALHOST.to_string(),
        _ => name.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(host: &str, expected: &str) {
        assert_eq!(base_url(host).unwrap(), expected);
    }

    #[test]
    fn host_is_parsed_as_by_ollamas_own_clients() {
        for (host, expected) in [
            ("", "http://127.0.0.1:11434"),
            ("1.2.3.4", "http://1.2.3.4:11434"),
            (":56789", "http://127.0.0.1:56789"),
            ("1.2.3.4:56789", "http://1.2.3.4:56789"),
            ("http://1.2.3.4", "http://1.2.3.4:80"),
            ("https://1.2.3.4", "https://1.2.3.4:443"),
            ("https://1.2.3.4:56789", "https://1.2.3.4:56789"),
            ("example.com", "http://example.com:11434"),
            ("example.com:56789", "http://example.com:56789"),
            ("http://example.com", "http://example.com:80"),
            ("https://example.com", "https://example.com:443"),
            ("https://example.com:56789", "https://example.com:56789"),
            ("example.com/", "http://example.com:11434"),
            ("example.com:56789/", "http://example.com:56789"),
            ("example.com/path", "http://example.com:11434/path"),
            ("example.com:56789/path/", "http://example.com:56789/path"),
            ("https://example.com:56789/path/", "https://example.com:56789/path"),
            ("[1:2:3:4::1]", "http://[1:2:3:4::1]:11434"),
            ("[1:2:3:4::1]:56789", "http://[1:2:3:4::1]:56789"),
            ("http://[1:2:3:4::1]", "http://[1:2:3:4::1]:80"),
            ("https://[1:2:3:4::1]:56789/path/", "https://[1:2:3:4::1]:56789/path"),
            ("1:2:3:4::1", "http://[1:2:3:4::1]:11434"),
        ] {
            check(host, expected);
        }
    }

    #[test]
    fn listen_address_becomes_loopback_address() {
        check("0.0.0.0", "http://127.0.0.1:11434");
        check("0.0.0.0:8080", "http://127.0.0.1:8080");
        check("http://0.0.0.0", "http://127.0.0.1:80");
        check("::", "http://[::1]:11434");
        check("[::]:8080", "http://[::1]:8080");
    }

    #[test]
    fn quotes_and_white_space_are_removed_from_host() {
        check(" 'host' \n", "http://host:11434");
        check("\"host:1\"", "http://host:1");
        check("host:", "http://host:11434");
        check("HTTPS://host//", "https://host:443");
        check("http://", "http://127.0.0.1:80");
        check("user:pw@host", "http://user:pw@host:11434");
    }

    #[track_caller]
    fn check_error(host: &str, expected: &str) {
        assert_eq!(base_url(host).unwrap_err().to_string(), expected);
    }

    #[test]
    fn invalid_host_error_has_reason_and_no_password() {
        check_error(
            "ftp://host",
            "invalid request: OLLAMA_HOST \"ftp://host\" must be http or https",
        );
        check_error(
            "user:hunter2@host:port",
            "invalid request: OLLAMA_HOST \"http://[redacted]@host:port\" needs a number up to 65535 as its port",
        );
        check_error(
            "host:65536",
            "invalid request: OLLAMA_HOST \"http://host:65536\" needs a number up to 65535 as its port",
        );
        check_error("[::1", "invalid request: OLLAMA_HOST \"http://[::1\" has a `[` without a `]`");
        check_error(
            "two words",
            "invalid request: OLLAMA_HOST \"http://two words\" is not an address",
        );
    }
}
