//! The behaviours of the hostile stdio servers, selected by name.

use std::thread::sleep;
use std::time::Duration;

use serde_json::{Value, json};

use super::Wire;

/// Number of notifications in a flood. Smaller in debug builds, in which a client needs 0.1 ms to read each one.
pub(crate) const FLOOD: u32 = if cfg!(debug_assertions) { 40_000 } else { 1_000_000 };

/// Runs a server with the named behaviour until the server ends by itself or its input ends.
pub(super) fn run(behaviour: &str, wire: &mut Wire) {
    match behaviour {
        "dies at once" => die(3, "no database"),
        "dies in the handshake" => {
            wire.read();
            die(4, "I do not like you");
        }
        "says nothing" => stand_still(),
        "dies when it is called" => {
            wire.shake_hands();
            wire.next_call(&[], |_| None);
            die(5, "out of luck");
        }
        "never ends a request" => {
            wire.shake_hands();
            loop {
                wire.read();
            }
        }
        "never reads" => {
            wire.shake_hands();
            stand_still();
        }
        "is stubborn" => {
            wire.shake_hands();
            let (call, _) = wire.next_call(&[], |_| None);
            let ids = format!("{} {}", std::process::id(), std::env::var("HELPER").unwrap());
            wire.answer_text(&call, &ids);
            stand_still();
        }
        "changes its tools" => {
            wire.shake_hands();
            let (call, _) = wire.next_call(&["first", "second"], |_| None);
            wire.notify("notifications/tools/list_changed", json!({}));
            wire.refuse(&call, -32602, "Unknown tool: first");
            loop {
                let (call, _) = wire.next_call(&["second", "third"], |_| None);
                wire.answer_text(&call, "fine");
            }
        }
        behaviour => {
            wire.shake_hands();
            loop {
                serve(behaviour, wire);
            }
        }
    }
}

/// Waits for one tool call and responds to it. The name of the tool selects the kind of response. `behaviour` selects a
/// finite, endless or circular tool list.
fn serve(behaviour: &str, wire: &mut Wire) {
    let next_cursor = match behaviour {
        "has endless lists" => |page: u64| Some(page.to_string()),
        "has circular lists" => |page: u64| Some((page % 3).to_string()),
        _ => |_| None,
    };
    let (call, tool) = wire.next_call(&["first", "second"], next_cursor);
    match tool.as_str() {
        "fine" => wire.answer_text(&call, "fine"),
        "frames" => broken_frames(wire, &call),
        "last words" => {
            wire.answer_text(&call, &std::process::id().to_string());
            std::process::exit(0);
        }
        "environment" => {
            let variables: serde_json::Map<String, Value> =
                std::env::vars().map(|(name, value)| (name, value.into())).collect();
            wire.answer_text(&call, &Value::from(variables).to_string());
        }
        "nested" => {
            let nested = "[".repeat(100_000);
            wire.write(format!(
                "{{\"jsonrpc\":\"2.0\",\"id\":{},\"result\":{nested}\n",
                call["id"]
            ));
        }
        "closed nesting" => {
            let nested = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
            wire.write(format!(
                "{{\"jsonrpc\":\"2.0\",\"id\":{},\"result\":{nested}}}\n",
                call["id"]
            ));
        }
        "not UTF-8" => {
            wire.write(format!(
                "{{\"jsonrpc\":\"2.0\",\"id\":{},\"result\":{{\"content\":\"",
                call["id"]
            ));
            wire.write(b"\xff\xfe\"}}\n");
        }
        "cut" => {
            wire.write(format!(
                "{{\"jsonrpc\":\"2.0\",\"id\":{},\"result\":{{\"content\":[{{",
                call["id"]
            ));
            std::process::exit(0);
        }
        "another id" => {
            wire.say(&json!({"jsonrpc": "2.0", "id": 4711, "result": {"content": []}}));
            wire.say(&json!({"jsonrpc": "2.0", "id": "x", "error": {"code": 1, "message": "no"}}));
            wire.say(&json!({"jsonrpc": "2.0", "error": {"code": 1, "message": "no"}}));
        }
        "no result" => wire.answer(&call, json!("what?")),
        "twice" => {
            wire.answer_text(&call, "once");
            wire.answer_text(&call, "twice");
            wire.refuse(&call, -32603, "thrice");
        }
        "huge" => huge(wire, &call, true),
        "huge, id last" => huge(wire, &call, false),
        "no end of a line" => {
            wire.write("{\"jsonrpc\":\"2.0\",\"method\":\"notifications/message\",\"params\":\"");
            for _ in 0..100 {
                wire.write(vec![b'x'; 1_000_000]);
            }
            wire.write("\"}\n");
            wire.answer_text(&call, "fine");
        }
        "loud" => {
            let line = format!("{}\n", "x".repeat(999));
            for _ in 0..100_000 {
                eprint!("{line}");
            }
            wire.answer_text(&call, "fine");
        }
        "flood" => flood(wire, &call),
        "text flood" => {
            for number in 0..100_000 {
                wire.write(format!("line {number} of a log that is on the wrong pipe\n"));
            }
            wire.answer_text(&call, "fine");
        }
        "endless progress" => loop {
            let token = &call["params"]["_meta"]["progressToken"];
            wire.notify("notifications/progress", json!({"progressToken": token, "progress": 1}));
            sleep(Duration::from_millis(20));
        },
        "asks" => asks(wire, &call),
        "vanishes" => {
            wire.notify("notifications/tools/list_changed", json!({}));
            wire.refuse(&call, -32602, "Unknown tool: vanishes");
        }
        tool => wire.refuse(&call, -32602, &format!("Unknown tool: {tool}")),
    }
}

/// Sends lines that are not valid messages, and then a correct response.
fn broken_frames(wire: &mut Wire, call: &Value) {
    wire.write("Listening on port 3000\r\n\n\r\n");
    wire.write("{\"level\":30,\"msg\":\"a log in JSON\"}\n");
    wire.write("null\n42\n\"text\"\n[]\n[1,2]\n{}\n{\"jsonrpc\":\"2.0\"}\n");
    wire.write("{\"jsonrpc\":\"1.0\",\"method\":\"notifications/message\"}\n");
    wire.write("{\"jsonrpc\":\"2.0\",\"method\":\"notifications/message\",\"params\":7}\n");
    wire.write("{\"jsonrpc\":\"2.0\",\"method\":\"notifications/of/no/protocol\",\"params\":{}}\n");
    wire.write("{\"jsonrpc\":\"2.0\",\"method\":7,\"id\":1}\n");
    wire.write("{\"jsonrpc\":\"2.0\",\"id\":\n}}}}]]]]\n");
    wire.write(b"\x00\xff\xfe\n");
    wire.answer_text(call, "fine");
}

/// Sends a response with a text of 100 MB. If `id_first` is `true`, the `id` of the response precedes the text.
/// Otherwise it follows the text.
fn huge(wire: &mut Wire, call: &Value, id_first: bool) {
    let id = &call["id"];
    match id_first {
        true => wire.write(format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"result\":")),
        false => wire.write("{\"jsonrpc\":\"2.0\",\"result\":"),
    }
    wire.write("{\"content\":[{\"type\":\"text\",\"text\":\"");
    for _ in 0..100 {
        wire.write(vec![b'x'; 1_000_000]);
    }
    wire.write("\"}]}");
    if !id_first {
        wire.write(format!(",\"id\":{id}"));
    }
    wire.write("}\n");
}

/// Sends [`FLOOD`] notifications of several kinds, and then the response to `call`. After half of the notifications,
/// waits for another tool call and responds to it.
fn flood(wire: &mut Wire, call: &Value) {
    let token = &call["params"]["_meta"]["progressToken"];
    let kinds = [
        (
            "notifications/progress",
            json!({"progressToken": token, "progress": 1, "message": "on we go"}),
        ),
        ("notifications/progress", json!({"progressToken": "nobody", "progress": 1})),
        ("notifications/message", json!({"level": "info", "data": "a line of a log"})),
        ("notifications/tools/list_changed", json!({})),
    ];
    let block: String = kinds
        .iter()
        .map(|(method, params)| {
            format!("{}\n", json!({"jsonrpc": "2.0", "method": method, "params": params}))
        })
        .collect();
    let blocks = FLOOD / 4;
    for number in 0..blocks {
        if number == blocks / 2 {
            let (other, tool) = wire.next_call(&[], |_| None);
            wire.answer_text(&other, &tool);
        }
        wire.write(&block);
    }
    wire.answer_text(call, "fine");
}

/// Sends requests that the client cannot handle, and a ping. The result of the tool call contains the client's error
/// code for each request, or `ok` if there was no error.
fn asks(wire: &mut Wire, call: &Value) {
    let message = json!({"role": "user", "content": {"type": "text", "text": "hi"}});
    let questions = [
        ("sampling/createMessage", json!({"messages": [message], "maxTokens": 10})),
        (
            "elicitation/create",
            json!({"message": "?", "requestedSchema": {"type": "object", "properties": {}}}),
        ),
        ("roots/list", json!({})),
        ("no/such/method", json!({})),
        ("sampling/createMessage", json!("nonsense")),
        ("ping", json!({})),
    ];
    let mut said = Vec::new();
    for (number, (method, params)) in questions.into_iter().enumerate() {
        wire.say(&json!({"jsonrpc": "2.0", "id": number, "method": method, "params": params}));
        let answer = loop {
            let message = wire.read();
            if message.get("method").is_none() {
                break message;
            }
        };
        assert_eq!(answer["id"], number);
        said.push(match answer["error"]["code"].as_i64() {
            Some(code) => code.to_string(),
            None => "ok".to_owned(),
        });
    }
    wire.answer_text(call, &said.join(" "));
}

/// Writes a line to standard error, and exits with this status.
fn die(status: i32, words: &str) {
    eprintln!("{words}");
    std::process::exit(status);
}

/// Sleeps forever. Does not read or write.
fn stand_still() {
    loop {
        sleep(Duration::from_secs(1000));
    }
}
