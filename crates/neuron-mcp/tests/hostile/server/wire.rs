//! The server's end of the pipes.

use std::fs::{File, OpenOptions};
use std::io::{BufRead as _, BufReader, Stdin, Write as _};

use serde_json::{Value, json};

/// Lines from the client, bytes to it.
pub(crate) struct Wire {
    input: BufReader<Stdin>,
    output: File,
}

impl Wire {
    /// The pipes of this process; see `shell` for the number.
    pub(crate) fn of_this_process() -> Self {
        let output = OpenOptions::new().write(true).open("/dev/fd/3").unwrap();
        Self { input: BufReader::new(std::io::stdin()), output }
    }

    /// The next message. At the end of the input, this process ends.
    pub(crate) fn read(&mut self) -> Value {
        let mut line = String::new();
        if self.input.read_line(&mut line).unwrap() == 0 {
            std::process::exit(0);
        }
        serde_json::from_str(&line).unwrap()
    }

    /// The next request of this method; others than it are passed over.
    pub(crate) fn read_request(&mut self, method: &str) -> Value {
        loop {
            let message = self.read();
            if message["method"] == method {
                return message;
            }
        }
    }

    /// Bytes as they are. When nobody reads them any more, this process ends.
    pub(crate) fn write(&mut self, bytes: impl AsRef<[u8]>) {
        if self.output.write_all(bytes.as_ref()).is_err() {
            std::process::exit(0);
        }
    }

    /// A message.
    pub(crate) fn say(&mut self, message: &Value) {
        self.write(format!("{message}\n"));
    }

    /// A notification.
    pub(crate) fn notify(&mut self, method: &str, params: Value) {
        self.say(&json!({"jsonrpc": "2.0", "method": method, "params": params}));
    }

    /// The answer to a request.
    pub(crate) fn answer(&mut self, request: &Value, result: Value) {
        self.say(&json!({"jsonrpc": "2.0", "id": request["id"], "result": result}));
    }

    /// The answer to a call.
    pub(crate) fn answer_text(&mut self, call: &Value, text: &str) {
        self.answer(call, json!({"content": [{"type": "text", "text": text}]}));
    }

    /// The error that a request gets.
    pub(crate) fn refuse(&mut self, request: &Value, code: i64, text: &str) {
        self.say(&json!({"jsonrpc": "2.0", "id": request["id"], "error": {"code": code, "message": text}}));
    }

    /// The handshake.
    pub(crate) fn shake_hands(&mut self) {
        let request = self.read_request("initialize");
        self.answer(&request, Self::hello());
        self.read_request("notifications/initialized");
    }

    /// What a server says of itself.
    pub(crate) fn hello() -> Value {
        json!({
            "protocolVersion": "2025-11-25",
            "capabilities": {"tools": {"listChanged": true}, "logging": {}},
            "serverInfo": {"name": "hostile", "version": "1"},
        })
    }

    /// The next call, and the name of its tool. Lists in between are answered with `tools`, page by page.
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
