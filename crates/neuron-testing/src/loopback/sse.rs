//! Server-sent events as bytes.

use super::Wire;

/// Writes one event, with the comment before it if there is to be one.
pub(crate) fn sse_event(name: &str, json: &str, wire: &Wire) -> Vec<u8> {
    let end = if wire.crlf { "\r\n" } else { "\n" };
    let space = if wire.no_space { "" } else { " " };
    let comment = if wire.comments { format!(": keep-alive{end}{end}") } else { String::new() };
    let json = match json.strip_suffix('}') {
        Some(open) if wire.padded => format!("{open}{PADDING}}}"),
        _ => json.to_owned(),
    };
    format!("{comment}event:{space}{name}{end}data:{space}{json}{end}{end}").into_bytes()
}

const PADDING: &str = "       ";

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(wire: Wire, expected: &str) {
        let bytes = sse_event("ping", r#"{"a":{}}"#, &wire);
        assert_eq!(String::from_utf8(bytes).unwrap(), expected);
    }

    #[test]
    fn writes_every_form() {
        let wire = Wire::default;
        check(wire(), "event: ping\ndata: {\"a\":{}}\n\n");
        check(wire().crlf(), "event: ping\r\ndata: {\"a\":{}}\r\n\r\n");
        check(wire().no_space(), "event:ping\ndata:{\"a\":{}}\n\n");
        check(wire().comments(), ": keep-alive\n\nevent: ping\ndata: {\"a\":{}}\n\n");
        check(wire().padded(), "event: ping\ndata: {\"a\":{}       }\n\n");
    }
}
