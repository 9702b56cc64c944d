//! Reads and writes the file of a cassette, which contains recorded requests and their responses.

use std::fmt::Write as _;
use std::path::Path;
use std::{fs, io};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::exchange::{Exchange, Outcome, Request};

/// Version of the cassette file format. Files of another version are rejected.
const VERSION: u32 = 1;

#[derive(Deserialize)]
struct File {
    neuron_cassette: u32,
    exchanges: Vec<Stored>,
}

/// The JSON form of an exchange (a request with its response or error) in a cassette file.
#[derive(Deserialize)]
struct Stored {
    /// Index of an earlier exchange, if this request continues its conversation. `request` then contains only the new
    /// messages and the fields that differ from the earlier request. `None` if `request` is complete.
    #[serde(default)]
    continues: Option<usize>,
    /// Names of the fields that the earlier request (`continues`) has and this request lacks.
    #[serde(default)]
    without: Vec<String>,
    request: Request,
    #[serde(flatten)]
    outcome: Outcome,
}

/// Reads the exchanges of a file. Returns `None` if there is no file.
///
/// # Errors
///
/// Returns the reason if the file cannot be read or is not a cassette of this version.
pub(super) fn read(path: &Path) -> Result<Option<Vec<Exchange>>, String> {
    let fails =
        |reason: &dyn std::fmt::Display| format!("the cassette {}: {reason}", path.display());
    let text = match fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(fails(&error)),
    };
    let file: File = serde_json::from_str(&text).map_err(|error| fails(&error))?;
    if file.neuron_cassette != VERSION {
        let version = file.neuron_cassette;
        return Err(fails(&format!("its format is {version}, and this version reads {VERSION}")));
    }
    let mut exchanges: Vec<Exchange> = Vec::new();
    for (index, stored) in file.exchanges.into_iter().enumerate() {
        let Stored { continues, without, request, outcome } = stored;
        let request = match continues.map(|earlier| exchanges.get(earlier)) {
            None => request,
            Some(Some(earlier)) => continued(&earlier.request, request, &without),
            Some(None) => {
                let reason = format!("exchange {index} (counted from 0) continues none before it");
                return Err(fails(&reason));
            }
        };
        exchanges.push(Exchange { request, outcome });
    }
    Ok(Some(exchanges))
}

/// Replaces the file. Creates its folder if it is missing.
///
/// # Errors
///
/// Returns the reason if the file cannot be written.
pub(super) fn write(path: &Path, exchanges: &[(&Request, &Outcome)]) -> Result<(), String> {
    let fails = |error: io::Error| format!("cannot write the cassette {}: {error}", path.display());
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder).map_err(fails)?;
    }
    let text = text(exchanges);
    // If a replay could not read the file, the error must be reported now, while recording.
    if let Err(error) = serde_json::from_str::<File>(&text) {
        return Err(format!("cannot record in the cassette {}: {error}", path.display()));
    }
    // Write a new file and rename it. If the process ends during the write, the old file is unchanged.
    let mut new = path.as_os_str().to_owned();
    new.push(format!(".{}.new", std::process::id()));
    fs::write(&new, text).and_then(|()| fs::rename(&new, path)).map_err(fails)
}

/// Returns the JSON text of a cassette file. Requests and responses are indented, and each event of a stream is one
/// line.
fn text(exchanges: &[(&Request, &Outcome)]) -> String {
    let stored = exchanges.iter().enumerate().map(|(index, (request, outcome))| {
        let earlier = exchanges.get(..index).unwrap_or_default();
        let Shortened { continues, without, request } = shortened(earlier, request);
        let mut text = String::from("    {\n");
        if let Some(continues) = continues {
            let _ = writeln!(text, "      \"continues\": {continues},");
        }
        if !without.is_empty() {
            let _ = writeln!(text, "      \"without\": {},", line(&without));
        }
        let _ = writeln!(text, "      \"request\": {},", indented(&request, 6));
        match outcome {
            Outcome::Stream(pieces) => {
                let pieces = pieces.iter().map(|piece| format!("        {}", line(piece)));
                let pieces = pieces.collect::<Vec<_>>().join(",\n");
                let _ = write!(text, "      \"stream\": [\n{pieces}\n      ]");
            }
            outcome => {
                // The outcome is an object with one field. Its braces are left out, because the exchange has the
                // braces.
                let fields = indented(outcome, 4);
                let fields = fields.trim_start_matches("{\n").trim_end_matches('}').trim_end();
                text.push_str(fields);
            }
        }
        text.push_str("\n    }");
        text
    });
    let exchanges = stored.collect::<Vec<_>>().join(",\n");
    format!("{{\n  \"neuron_cassette\": {VERSION},\n  \"exchanges\": [\n{exchanges}\n  ]\n}}\n")
}

/// Returns a value as indented JSON. Every line except the first is indented by `spaces` additional spaces.
fn indented(value: &impl Serialize, spaces: usize) -> String {
    let text = serde_json::to_string_pretty(value).unwrap_or_default();
    text.replace('\n', &format!("\n{}", " ".repeat(spaces)))
}

fn line(value: &impl Serialize) -> String {
    serde_json::to_string(value).unwrap_or_default()
}

/// A request without the messages and fields that it shares with an earlier request in the file. [`Stored`] explains
/// the fields.
struct Shortened {
    /// Index of the exchange whose conversation the request continues. `None` if `request` is complete.
    continues: Option<usize>,
    without: Vec<String>,
    request: Request,
}

fn shortened(earlier: &[(&Request, &Outcome)], request: &Request) -> Shortened {
    let earlier = earlier.iter().map(|(earlier, _)| earlier).enumerate();
    let continued = earlier.filter(|(_, earlier)| {
        let before = earlier.messages();
        !before.is_empty() && request.messages().starts_with(before)
    });
    let longest = continued.max_by_key(|(_, earlier)| earlier.messages().len());
    let Some((index, earlier)) = longest else {
        return Shortened { continues: None, without: Vec::new(), request: request.clone() };
    };
    let new = request.messages().get(earlier.messages().len()..).unwrap_or_default();
    let mut fields = Map::new();
    for (name, value) in &request.0 {
        if name == "messages" {
            fields.insert(name.clone(), Value::Array(new.to_vec()));
        } else if earlier.0.get(name) != Some(value) {
            fields.insert(name.clone(), value.clone());
        }
    }
    let without = earlier.0.keys().filter(|name| !request.0.contains_key(*name));
    Shortened {
        continues: Some(index),
        without: without.cloned().collect(),
        request: Request(fields),
    }
}

/// Restores a complete request from `request`, which has only the new messages and the changed fields. All other values
/// are in the request `earlier`. `without` names the fields of `earlier` that the complete request lacks.
fn continued(earlier: &Request, request: Request, without: &[String]) -> Request {
    let mut whole = earlier.0.clone();
    whole.retain(|name, _| !without.contains(name));
    for (name, value) in request.0 {
        match (whole.get_mut(&name), value) {
            (Some(Value::Array(messages)), Value::Array(new)) if name == "messages" => {
                messages.extend(new);
            }
            (_, value) => {
                whole.insert(name, value);
            }
        }
    }
    Request(whole)
}
