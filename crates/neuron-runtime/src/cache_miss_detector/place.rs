//! The place of a byte in JSON.

use serde::Deserialize;

use super::report::PrefixPart;

/// The place of a byte in the JSON of a prefix.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) part: PrefixPart,
    /// Path of the innermost value, for example `messages[3].content[0].text`.
    pub(super) path: String,
    /// Number of bytes between the start of the innermost value and the byte. The opening quote of a text does not
    /// count.
    pub(super) offset: usize,
}

/// Returns the place of the first difference of two prefixes, which is at `offset` in both.
pub(super) fn of_difference(previous: &[u8], current: &[u8], offset: usize) -> Place {
    // If an array ends in one of the prefixes, the difference is the element that only the other prefix has.
    let ends = |json: &[u8]| matches!(json.get(offset), None | Some(b']' | b'}'));
    let json = if ends(current) && !ends(previous) { previous } else { current };
    Scan::up_to(json, offset).place(json, offset)
}

/// A container that is open at a byte.
#[derive(Debug)]
struct Container {
    /// Offset of the opening bracket.
    start: usize,
    /// Offset of the current element or of the value of the current key.
    value: usize,
    position: Position,
}

/// The position in a container.
#[derive(Debug)]
enum Position {
    /// Index of the current element of an array.
    Index(usize),
    /// Start and end of the current key of an object. `None` before the key is complete.
    Key(Option<(usize, usize)>),
}

/// State of a scan of JSON, from its start to a byte.
#[derive(Debug, Default)]
struct Scan {
    containers: Vec<Container>,
    /// Set inside a text, with the offset behind its opening quote.
    text: Option<usize>,
    is_escaped: bool,
}

impl Scan {
    fn up_to(json: &[u8], offset: usize) -> Self {
        let mut scan = Self::default();
        for (index, byte) in json.iter().enumerate().take(offset) {
            scan.read(index, *byte);
        }
        // The comma between two elements belongs to the second element.
        if scan.text.is_none() && json.get(offset) == Some(&b',') {
            scan.read(offset, b',');
        }
        scan
    }

    fn read(&mut self, index: usize, byte: u8) {
        let next = index.saturating_add(1);
        let last = self.containers.last_mut();
        if let Some(start) = self.text {
            match byte {
                _ if self.is_escaped => self.is_escaped = false,
                b'\\' => self.is_escaped = true,
                b'"' => {
                    self.text = None;
                    if let Some(Container { position: Position::Key(key @ None), .. }) = last {
                        *key = Some((start, index));
                    }
                }
                _ => {}
            }
            return;
        }
        let position = match byte {
            b'{' => Position::Key(None),
            b'[' => Position::Index(0),
            b'"' => {
                self.text = Some(next);
                return;
            }
            b'}' | b']' => {
                self.containers.pop();
                return;
            }
            b',' | b':' => {
                if let Some(container) = last {
                    container.value = next;
                    match &mut container.position {
                        Position::Index(index) => *index = index.saturating_add(1),
                        Position::Key(key) if byte == b',' => *key = None,
                        Position::Key(_) => {}
                    }
                }
                return;
            }
            _ => return,
        };
        self.containers.push(Container { start: index, value: next, position });
    }

    fn place(&self, json: &[u8], offset: usize) -> Place {
        let key = |(start, end): (usize, usize)| {
            String::from_utf8_lossy(json.get(start..end).unwrap_or_default()).into_owned()
        };
        let (mut path, mut value) = (String::new(), 0);
        for container in &self.containers {
            value = container.value;
            match container.position {
                Position::Index(index) => path += &format!("[{index}]"),
                Position::Key(None) => value = container.start,
                Position::Key(Some(range)) => {
                    let key = key(range);
                    let is_plain = key.chars().all(|char| char.is_alphanumeric() || char == '_');
                    match is_plain && !key.is_empty() {
                        true if path.is_empty() => path += &key,
                        true => path += &format!(".{key}"),
                        false => path += &format!("[\"{key}\"]"),
                    }
                }
            }
        }
        // The quote of a text that is a value does not count.
        let value = self.text.filter(|text| text.saturating_sub(1) == value).unwrap_or(value);
        Place { part: self.part(json, key), path, offset: offset.saturating_sub(value) }
    }

    fn part(&self, json: &[u8], key: impl Fn((usize, usize)) -> String) -> PrefixPart {
        let mut containers = self.containers.iter();
        let field = match containers.next() {
            Some(Container { position: Position::Key(Some(range)), .. }) => key(*range),
            _ => String::new(),
        };
        match (&*field, containers.next()) {
            ("tools", Some(tool)) => PrefixPart::Tool { name: name_of_tool(json, tool.value) },
            ("messages", Some(Container { position: Position::Index(index), .. })) => {
                PrefixPart::Message { index: *index }
            }
            ("settings", Some(Container { position: Position::Key(Some(range)), .. })) => {
                PrefixPart::Setting { name: key(*range) }
            }
            ("settings", _) => PrefixPart::Setting { name: String::new() },
            _ => PrefixPart::System,
        }
    }
}

/// Returns the name of the tool whose definition starts at `start`. Returns an empty text if there is no tool.
fn name_of_tool(json: &[u8], start: usize) -> String {
    #[derive(Deserialize)]
    struct Tool {
        name: String,
    }
    let tool = json.get(start..).unwrap_or_default();
    let mut values = serde_json::Deserializer::from_slice(tool).into_iter::<Tool>();
    values.next().and_then(Result::ok).map(|tool| tool.name).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(previous: &str, current: &str, part: PrefixPart, path: &str, offset: usize) {
        let common = previous.bytes().zip(current.bytes()).take_while(|(a, b)| a == b).count();
        let place = of_difference(previous.as_bytes(), current.as_bytes(), common);
        assert_eq!(place, Place { part, path: path.into(), offset });
    }

    #[test]
    fn place_of_a_difference_has_its_part_path_and_offset() {
        let json = |tools: &str, system: &str, settings: &str, messages: &str| {
            format!(
                r#"{{"tools":[{tools}],"system":[{system}],"settings":{{{settings}}},"messages":[{messages}"#
            )
        };
        let tool = |name: &str| PrefixPart::Tool { name: name.into() };
        let message = |index| PrefixPart::Message { index };
        let (a, b) = (r#"{"name":"a","description":"x"}"#, r#"{"name":"b","description":"x"}"#);
        let both = format!("{a},{b}");
        let swapped = format!("{b},{a}");
        let base = json(&both, r#""hi""#, "", "{},{}");
        check(&base, &json(&swapped, "", "", ""), tool("b"), "tools[0].name", 0);
        check(&base, &json(a, "", "", ""), tool("b"), "tools[1]", 0);
        check(&json(a, "", "", ""), &base, tool("b"), "tools[1]", 0);
        check(&json("", "", "", ""), &json(a, "", "", ""), tool("a"), "tools[0]", 0);
        check(&base, &base.replacen('x', "y", 1), tool("a"), "tools[0].description", 0);
        check(&base, &base.replace("hi", "ho"), PrefixPart::System, "system[0]", 1);
        let choice = json(&both, r#""hi""#, r#""tool_choice":{"type":"none"}"#, "{},{}");
        let setting = |name: &str| PrefixPart::Setting { name: name.into() };
        check(&base, &choice, setting(""), "settings", 1);
        check(&choice, &base, setting(""), "settings", 1);
        let auto = choice.replace("none", "auto");
        check(&choice, &auto, setting("tool_choice"), "settings.tool_choice.type", 0);
        check(&base, &json(&both, r#""hi""#, "", r#"{},{"a":1"#), message(1), "messages[1]", 1);
        let text = |text: &str| json("", "", "", &format!(r#"{{}},{{"a b":["{text}"]"#));
        check(&text(r#""x"#), &text(r#""y"#), message(1), r#"messages[1]["a b"][0]"#, 2);
        check(&base, &base[..base.len() - 3], message(1), "messages[1]", 0);
    }

    #[test]
    fn any_bytes_have_a_place() {
        let json: &[u8] = br#"}]{"tools":[1,""#;
        for offset in 0..json.len() + 2 {
            of_difference(json, &json[..offset.min(json.len())], offset);
        }
    }
}
