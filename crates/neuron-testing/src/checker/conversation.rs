//! The rules for the messages of a conversation, which differ little between vendors: the parts of each role, the first
//! and the last message, and the results of calls.

use std::collections::HashSet;

use serde_json::Value;

use super::shape::words;
use super::{Checked, Checker, join};

/// A conversation in the form that all vendors' requests have in common.
#[derive(Debug)]
pub(crate) struct Conversation<'a, 't> {
    checker: Checker<'t>,
    variations: Vec<Variation>,
    pub(crate) turns: Vec<Turn<'a>>,
}

/// A difference between vendors in the rules for a conversation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Variation {
    /// Consecutive messages of one role count as one.
    Merges,
    /// The first message may be the model's.
    MayBegin,
    /// The last message may be the model's, and the vendor continues it.
    MayEnd,
    /// A text must have other characters than white space, and the model's last text must not end with white space.
    Trims,
    /// A result may follow its call in any later turn, and may be repeated.
    MayWait,
    /// A system message may be between calls and their results.
    SystemBetween,
    /// The vendor may have earlier calls, which are not in the request.
    HasEarlierCalls,
    /// Results have the order of their calls.
    Ordered,
    /// Two calls of different turns may have the same id.
    RepeatsIds,
    /// Two calls of one turn may have the same id.
    RepeatsIdsInTurn,
    /// Results come before all other parts of their turn.
    ResultsFirst,
    /// Only results may be in a turn with results.
    ResultsOnly,
    /// No files may be in a turn with results.
    ResultsWithoutFiles,
    /// The model's part of the current turn begins with reasoning.
    Thinks,
}

/// One message, or several consecutive messages of one role.
#[derive(Debug)]
pub(crate) struct Turn<'a> {
    pub(crate) role: &'a str,
    /// The path of the last message.
    pub(crate) path: String,
    pub(crate) parts: Vec<Part<'a>>,
}

#[derive(Debug)]
pub(crate) struct Part<'a> {
    pub(crate) path: String,
    /// The vendor's name for this kind of part.
    pub(crate) name: &'a str,
    pub(crate) kind: Kind,
    /// The id of a call or a result.
    pub(crate) id: String,
    pub(crate) text: Option<&'a str>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A text, a file, or any other part without a kind of its own.
    Content,
    Reasoning,
    Call,
    Result,
    /// A call that the vendor executes.
    ServerCall,
    ServerResult,
    /// A mark, such as a cache point.
    Mark,
}

/// Reads the parts of the content at `path`, which is a text or a list. `read` returns the name, the kind and the id of
/// a part.
pub(crate) fn parts_of<'a>(
    content: &'a Value,
    path: &str,
    read: impl Fn(&'a Value) -> (&'a str, Kind, String),
) -> Vec<Part<'a>> {
    if let Some(said) = content.as_str() {
        let (path, id) = (path.to_owned(), String::new());
        return vec![Part { path, name: "text", kind: Kind::Content, id, text: Some(said) }];
    }
    let items = content.as_array().into_iter().flatten().enumerate();
    let part = |(index, item): (usize, &'a Value)| {
        let (name, kind, id) = read(item);
        let text = item.get("text").and_then(Value::as_str);
        Part { path: join(path, index), name, kind, id, text }
    };
    items.map(part).collect()
}

impl<'a> Turn<'a> {
    pub(crate) fn is_model(&self) -> bool {
        matches!(self.role, "assistant" | "model")
    }

    fn of(&self, kind: Kind) -> impl Iterator<Item = &Part<'a>> {
        self.parts.iter().filter(move |part| part.kind == kind)
    }
}

impl<'a, 't> Conversation<'a, 't> {
    pub(crate) fn new(checker: Checker<'t>, variations: Vec<Variation>) -> Self {
        Self { checker, variations, turns: Vec::new() }
    }

    fn has(&self, variation: Variation) -> bool {
        self.variations.contains(&variation)
    }

    /// Adds a message. Checks that it has parts, that its role may have them, and that no text is blank if the vendor
    /// rejects blank texts.
    pub(crate) fn add(&mut self, role: &'a str, path: &str, parts: Vec<Part<'a>>) -> Checked {
        if parts.is_empty() {
            return self.checker.refuse("empty", path, &[]);
        }
        let places = self.checker.table.json.get("places").unwrap_or(&Value::Null);
        for part in &parts {
            let is_allowed = words(places, role).any(|name| name == part.name);
            if places.get(role).is_some() && !is_allowed {
                let values = [("name", part.name), ("role", role)];
                return self.checker.refuse("place", &part.path, &values);
            }
            let is_blank = part.text.is_some_and(|text| text.trim().is_empty());
            if self.has(Variation::Trims) && is_blank {
                return self.checker.refuse("blank", &part.path, &[]);
            }
        }
        let merges = self.has(Variation::Merges);
        match self.turns.last_mut() {
            Some(turn) if merges && turn.role == role => {
                path.clone_into(&mut turn.path);
                turn.parts.extend(parts);
            }
            _ => self.turns.push(Turn { role, path: path.to_owned(), parts }),
        }
        Ok(())
    }

    /// Checks the order of the messages, and that each call has its result.
    pub(crate) fn check(&self) -> Checked {
        let mut said = self.turns.iter().filter(|turn| turn.role != "system");
        if !self.has(Variation::MayBegin) && said.next().is_some_and(Turn::is_model) {
            return self.checker.refuse("begin", "", &[]);
        }
        self.check_calls()?;
        self.check_server_calls()?;
        self.check_reasoning()?;
        let Some(end) = self.turns.last().filter(|turn| turn.is_model()) else { return Ok(()) };
        if !self.has(Variation::MayEnd) {
            return self.checker.refuse("end", &end.path, &[]);
        }
        let text = end.parts.last().and_then(|part| part.text).unwrap_or_default();
        match self.has(Variation::Trims) && text.ends_with(char::is_whitespace) {
            true => self.checker.refuse("end in space", &end.path, &[]),
            false => Ok(()),
        }
    }

    fn check_calls(&self) -> Checked {
        let refuse =
            |fault, part: &Part<'_>| self.checker.refuse(fault, &part.path, &[("id", &part.id)]);
        let mut known = HashSet::new();
        // The calls without a result, and the path of the last turn with calls.
        let (mut open, mut caller) = (Vec::<&Part<'a>>::new(), "");
        for turn in &self.turns {
            let mut answered = HashSet::new();
            for result in turn.of(Kind::Result) {
                match open.iter().position(|call| call.id == result.id) {
                    Some(index) if index == 0 || !self.has(Variation::Ordered) => {
                        _ = open.remove(index)
                    }
                    _ if answered.contains(&result.id) => return refuse("second result", result),
                    _ if self.has(Variation::HasEarlierCalls) => {}
                    _ if self.has(Variation::MayWait) && known.contains(&result.id) => {}
                    _ => return refuse("unknown result", result),
                }
                answered.insert(&result.id);
            }
            self.check_beside(turn)?;
            let is_between = turn.role == "system" && self.has(Variation::SystemBetween);
            if !(open.is_empty() || self.has(Variation::MayWait) || is_between) {
                return self.unanswered(caller, turn, &open);
            }
            if self.has(Variation::RepeatsIds) {
                known.clear();
            }
            for call in turn.of(Kind::Call) {
                if !known.insert(&call.id) && !self.has(Variation::RepeatsIdsInTurn) {
                    return refuse("second call", call);
                }
                open.push(call);
                caller = &turn.path;
            }
        }
        match self.turns.last() {
            Some(turn) if !open.is_empty() => self.unanswered(caller, turn, &open),
            _ => Ok(()),
        }
    }

    /// Refuses calls without results. `caller` is the path of their turn, and `turn` the one that lacks the results.
    fn unanswered(&self, caller: &str, turn: &Turn<'_>, calls: &[&Part<'_>]) -> Checked {
        let ids: Vec<&str> = calls.iter().map(|call| &*call.id).collect();
        self.checker.refuse(
            "no result",
            &turn.path,
            &[("ids", &ids.join(", ")), ("caller", caller)],
        )
    }

    /// Checks that only allowed parts are beside the results of a turn.
    fn check_beside(&self, turn: &Turn<'_>) -> Checked {
        let is_result = |part: &Part<'_>| part.kind == Kind::Result;
        let Some(last) = turn.parts.iter().rposition(is_result) else { return Ok(()) };
        let mut others = turn.parts.iter().enumerate().filter(|(_, part)| !is_result(part));
        let wrong = others.find(|(index, part)| {
            self.has(Variation::ResultsOnly)
                || self.has(Variation::ResultsFirst) && *index < last
                || self.has(Variation::ResultsWithoutFiles)
                    && ["document", "video"].contains(&part.name)
        });
        wrong.map_or(Ok(()), |(_, part)| {
            self.checker.refuse("beside", &part.path, &[("name", part.name)])
        })
    }

    /// Checks that each call that the vendor executes has its result in the same turn. The last turn may end between
    /// them, because the request continues it.
    fn check_server_calls(&self) -> Checked {
        let over = self.turns.split_last().map_or(&[][..], |(_, over)| over);
        for turn in over {
            let is_open = |call: &&Part<'_>| turn.of(Kind::ServerResult).all(|it| it.id != call.id);
            if let Some(call) = turn.of(Kind::ServerCall).find(is_open) {
                return self.checker.refuse("no server result", &call.path, &[("id", &call.id)]);
            }
        }
        Ok(())
    }

    /// Returns the messages of the current turn of the agent, which are all after the last message with other parts
    /// than results.
    pub(crate) fn current(&self) -> &[Turn<'a>] {
        let is_said = |part: &Part<'_>| !matches!(part.kind, Kind::Result | Kind::Mark);
        let is_prompt = |turn: &Turn<'_>| !turn.is_model() && turn.parts.iter().any(is_said);
        let start = self.turns.iter().rposition(is_prompt).map_or(0, |last| last + 1);
        self.turns.get(start..).unwrap_or_default()
    }

    fn check_reasoning(&self) -> Checked {
        let current = self.current();
        let is_open =
            self.has(Variation::Thinks) && current.last().is_some_and(|turn| !turn.is_model());
        let first = current.iter().find(|turn| turn.is_model() && is_open);
        match first.and_then(|turn| turn.parts.first()) {
            Some(part) if part.kind != Kind::Reasoning => {
                self.checker.refuse("no reasoning", &part.path, &[("name", part.name)])
            }
            _ => Ok(()),
        }
    }
}
