//! Encodes stream events as server-sent events or as lines of JSON.

use serde_json::Value;

use super::Wire;

impl Wire {
    /// Encodes a server-sent event with an `event` line for its name and a `data` line with the JSON.
    ///
    /// A comment precedes the event if [`comments`](Self::comments) was called.
    #[must_use]
    pub fn event(&self, name: &str, json: &Value) -> Vec<u8> {
        let (end, space) = (self.line_end(), self.space());
        let (comment, json) = (self.comment(), self.padded_json(json));
        format!("{comment}event:{space}{name}{end}data:{space}{json}{end}{end}").into_bytes()
    }

    /// Encodes a server-sent event that has only a `data` line with the JSON.
    ///
    /// A comment precedes the event if [`comments`](Self::comments) was called.
    #[must_use]
    pub fn data(&self, json: &Value) -> Vec<u8> {
        self.data_text(&self.padded_json(json))
    }

    /// Encodes a server-sent event that has only a `data` line, for a text that is not JSON, such as OpenAI's `[DONE]`.
    pub(crate) fn data_text(&self, text: &str) -> Vec<u8> {
        let (end, space, comment) = (self.line_end(), self.space(), self.comment());
        format!("{comment}data:{space}{text}{end}{end}").into_bytes()
    }

    /// Encodes JSON as one line. [`comments`](Self::comments) and [`no_space`](Self::no_space) have no effect on the
    /// line.
    ///
    /// U+2028 and U+2029 are escaped, as Ollama does. Ollama's Python client treats these two characters as the end of
    /// a line.
    #[must_use]
    pub fn json_line(&self, json: &Value) -> Vec<u8> {
        let json = self.padded_json(json);
        let json = json.replace('\u{2028}', "\\u2028").replace('\u{2029}', "\\u2029");
        format!("{json}{}", self.line_end()).into_bytes()
    }

    fn line_end(&self) -> &'static str {
        if self.crlf { "\r\n" } else { "\n" }
    }

    fn space(&self) -> &'static str {
        if self.no_space { "" } else { " " }
    }

    fn comment(&self) -> String {
        match self.comments {
            true => format!(": keep-alive{end}{end}", end = self.line_end()),
            false => String::new(),
        }
    }

    /// Serialises the JSON, with spaces before its last brace if [`padded`](Self::padded) was called.
    fn padded_json(&self, json: &Value) -> String {
        let json = json.to_string();
        match json.strip_suffix('}') {
            Some(open) if self.padded => format!("{open}{PADDING}}}"),
            _ => json,
        }
    }
}

const PADDING: &str = "       ";

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[track_caller]
    fn check(bytes: Vec<u8>, expected: &str) {
        assert_eq!(String::from_utf8(bytes).unwrap(), expected);
    }

    #[test]
    fn writes_every_form() {
        let json = json!({"a": {}});
        let event = |wire: Wire| wire.event("ping", &json);
        let wire = Wire::default;
        check(event(wire()), "event: ping\ndata: {\"a\":{}}\n\n");
        check(event(wire().crlf()), "event: ping\r\ndata: {\"a\":{}}\r\n\r\n");
        check(event(wire().no_space()), "event:ping\ndata:{\"a\":{}}\n\n");
        check(event(wire().comments()), ": keep-alive\n\nevent: ping\ndata: {\"a\":{}}\n\n");
        check(event(wire().padded()), "event: ping\ndata: {\"a\":{}       }\n\n");

        let all = wire().crlf().no_space().comments().padded();
        check(all.data(&json), ": keep-alive\r\n\r\ndata:{\"a\":{}       }\r\n\r\n");
        check(wire().data_text("[DONE]"), "data: [DONE]\n\n");
        check(all.json_line(&json), "{\"a\":{}       }\r\n");
        check(wire().json_line(&json), "{\"a\":{}}\n");
        let separators = json!({"a": "\u{2028}\u{2029}"});
        check(wire().json_line(&separators), "{\"a\":\"\\u2028\\u2029\"}\n");
    }
}
