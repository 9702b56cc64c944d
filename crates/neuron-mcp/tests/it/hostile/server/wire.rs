//! The hostile server's end of the stdio connection. Reads JSON-RPC messages, and writes messages or arbitrary bytes.

use std::fs::{File, OpenOptions};
use std::io::{BufRead as _, BufReader, Stdin, Write as _};

use serde_json::{Value, json};

/// The pipes between the server process and the client.
pub(crate) struct Wire {
    input: BufReader<Stdin>,
    output: File,
}

impl Wire {
    /// Opens standard input for reading and descriptor 3 for writing. The function `shell` sets up descriptor 3.
    pub(crate) fn of_this_process() -> Self {
        let output = OpenOptions::new().write(true).open("/dev/fd/3").unwrap();
        Self { input: BufReader::new(std::io::stdin()), output }
    }

    /// Reads the next message. Exits the process at the end of the input.
    pub(crate) fn read(&mut self) -> Value {
        let mut line = String::new();
        if self.input.read_line(&mut line).unwrap() == 0 {
            std::process::exit(0);
        }
        serde_json::from_str(&line).unwrap()
    }

    /// Reads the next message with this method. Skips other messages.
    pub(crate) fn read_request(&mut self, method: &str) -> Value {
        loop {
            let message = self.read();
            if message["method"] == method {
                return message;
            }
        }
    }

    /// Writes bytes unchanged. Exits the process if the client has closed the pipe.
    pub(crate) fn write(&mut self, bytes: impl AsRef<[u8]>) {
        if self.output.write_all(bytes.as_ref()).is_err() {
            std::process::exit(0);
        }
    }

    /// Writes a message as one line.
    pub(crate) fn say(&mut self, message: &Value) {
        self.write(format!("{message}\n"));
    }

    /// Writes a notification.
    pub(crate) fn notify(&mut self, method: &str, params: Value) {
        self.say(&json!({"jsonrpc": "2.0", "method": method, "params": params}));
    }

    /// Writes the response to a request.
    pub(crate) fn answer(&mut self, request: &Value, result: Value) {
        self.say(&json!({"jsonrpc": "2.0", "id": request["id"], "result": result}));
    }

    /// Writes the response to a tool call, with one text item.
    pub(crate) fn answer_text(&mut self, call: &Value, text: &str) {
        self.answer(call, json!({"content": [{"type": "text", "text": text}]}));
    }

    /// Writes an error response to a request.
    pub(crate) fn refuse(&mut self, request: &Value, code: i64, text: &str) {
        self.say(&json!({"jsonrpc": "2.0", "id": request["id"], "error": {"code": code, "message": text}}));
    }

    /// Serves the handshake with `initialize`.
    pub(crate) fn shake_hands(&mut self) {
        let request = self.read_request("initialize");
        self.answer(&request, Self::hello());
        self.read_request("notifications/initialized");
    }

    /// Returns the result of `initialize`.
    pub(crate) fn hello() -> Value {
        json!({
            "protocolVersion": "2025-11-25",
            "capabilities": {"tools": {"listChanged": true}, "logging": {}},
            "serverInfo": {"name": "hostile", "version": "1"},
        })
    }

    /// Waits for the next tool call. Returns the call and the name of its tool.
    ///
    /// Meanwhile responds to each `tools/list` request with a page of `tools`. `next_cursor` returns the cursor in the
    /// page with this number, counted from zero. Other requests get an error response.
    pub(crate) fn next_call(
        &mut self,
        tools: &[&str],
        next_cursor: impl Fn(u64) -> Option<String>,
    ) -> (Value, String) {
        let mut page = 0;
        loop {
            let message = self.read();
            match message["method"].as_str() {
                Some("tools/call") => {
                    let name = message["params"]["name"].as_str().unwrap().to_owned();
                    return (message, name);
                }
                Some("tools/list") => {
                    let tools: Vec<_> = tools
                        .iter()
                        .map(|name| json!({"name": name, "inputSchema": {"type": "object"}}))
                        .collect();
                    let mut list = json!({"tools": tools});
                    if let Some(cursor) = next_cursor(page) {
                        list["nextCursor"] = cursor.into();
                    }
                    page += 1;
                    self.answer(&message, list);
                }
                Some(method) if message.get("id").is_some() => {
                    let text = format!("no {method}");
                    self.refuse(&message, -32601, &text);
                }
                _ => {}
            }
        }
    }
}
