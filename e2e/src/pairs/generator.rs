//! [`plan`], which creates a random conversation from a seed.

use neuron_conformance::random::Random;
use neuron_types::{DocumentSource, StopReason};

use super::plan::{
    Answer, Args, ITEMS, Mark, Outcome, Part, Plan, Said, Text, Timing, Turn, image, image_url,
    item,
};
use super::wires::{WIRES, Wire};

/// Name of a tool that is too long for most vendors.
pub(crate) const LONG_NAME: &str =
    "a_name_of_seventy_characters_that_is_longer_than_some_vendors_accept_0";

/// Returns the conversation of a seed.
pub(crate) fn plan(seed: u64) -> Plan {
    let mut generator = Generator { random: Random::new(seed), marks: 0 };
    let system = generator.is_likely(30).then(|| generator.mark());
    let thinks = generator.is_likely(50);
    let mut turns = Vec::new();
    if generator.is_likely(15) {
        turns.push(Turn::System(generator.mark()));
    }
    for _ in 0..=generator.random.below(4) {
        if generator.is_likely(85) {
            turns.push(generator.user());
        }
        turns.push(Turn::Answer(generator.answer()));
        if generator.is_likely(8) {
            turns.push(Turn::System(generator.mark()));
        }
        if generator.is_likely(8) {
            turns.push(Turn::Cut(generator.mark()));
        }
    }
    Plan { system, thinks, turns }
}

struct Generator {
    random: Random,
    marks: u64,
}

impl Generator {
    fn mark(&mut self) -> Mark {
        self.marks += 1;
        Mark(self.marks)
    }

    /// Returns `true` with a probability of `percent`.
    fn is_likely(&mut self, percent: u64) -> bool {
        self.random.below(100) < percent
    }

    /// Returns an index below `count`.
    fn index(&mut self, count: usize) -> usize {
        usize::try_from(self.random.below(count as u64)).unwrap_or_default()
    }

    fn text(&mut self) -> Text {
        let mark = self.mark();
        match self.random.below(20) {
            0..10 => Text::Plain(mark),
            10..14 => Text::Unicode(mark),
            14..17 => Text::Escaped(mark),
            17 => Text::Long(mark),
            18 => Text::Blank,
            _ => Text::Empty,
        }
    }

    fn user(&mut self) -> Turn {
        let count = 1 + self.random.below(3);
        Turn::User((0..count).map(|_| self.said()).collect())
    }

    fn said(&mut self) -> Said {
        let mark = self.mark();
        match self.random.below(100) {
            0..70 => Said::Text(self.text()),
            70..78 => Said::Image(image(mark, "image/png")),
            78..84 => Said::Image(image(mark, "image/jpeg")),
            84..86 => Said::Image(image(mark, "image/gif")),
            86..88 => Said::Image(image_url(mark)),
            88..94 => Said::Document(DocumentSource::PlainText { data: format!("a file: {mark}") }),
            94..97 => Said::Document(DocumentSource::Base64Pdf { data: mark.base64() }),
            97 => Said::Document(DocumentSource::Url { url: format!("https://h/{mark}.pdf") }),
            _ => Said::Image(image(mark, "image/webp")),
        }
    }

    fn answer(&mut self) -> Answer {
        let place = self.index(WIRES.len());
        let wire = WIRES.get(place).unwrap_or(&WIRES[0]);
        let parts = if self.is_likely(4) { Vec::new() } else { self.parts(wire) };
        let calls = parts.iter().filter(|part| matches!(part, Part::Call { .. })).count();
        let pauses = matches!(parts.last(), Some(Part::Pause(_)));
        let stop = match self.random.below(100) {
            _ if pauses => Some(StopReason::PauseTurn),
            0..5 if calls == 0 => Some(StopReason::Refusal),
            5..10 => Some(StopReason::MaxTokens),
            10..12 if calls == 0 => Some(StopReason::ContentFilter),
            _ => None,
        };
        // A custom tool of the vendor may be called too.
        let results = (0..calls + 1).map(|_| self.outcome()).collect();
        let timing = match self.random.below(100) {
            0..70 => Timing::Now,
            70..80 => Timing::WithText(self.mark()),
            80..92 => Timing::Late(self.mark()),
            _ => Timing::Never,
        };
        Answer {
            wire: place,
            model: self.index(wire.models.len()),
            is_streamed: self.is_likely(50),
            parts,
            stop,
            results,
            timing,
        }
    }

    fn parts(&mut self, wire: &Wire) -> Vec<Part> {
        let mut parts = Vec::new();
        if self.is_likely(45) {
            parts.push(Part::Thinking(self.mark()));
        }
        let count = 1 + self.random.below(4);
        for _ in 0..count {
            let mark = self.mark();
            parts.push(match self.random.below(100) {
                0..40 => Part::Text(self.text()),
                40..75 => Part::Call {
                    mark,
                    id: wire.ids[self.index(wire.ids.len())],
                    name: self.name(),
                    args: self.args(wire),
                },
                75..95 if !wire.own.is_empty() => {
                    Part::Own { mark, kind: self.index(wire.own.len()) }
                }
                95..97 => Part::Thinking(mark),
                _ => Part::Text(Text::Plain(mark)),
            });
        }
        if wire.pause.is_some() && self.is_likely(20) {
            parts.push(Part::Pause(self.mark()));
        }
        parts
    }

    fn name(&mut self) -> &'static str {
        // Models also call tools that do not exist.
        const OTHERS: [&str; 5] =
            ["default_api.look", "look:all", "look up", "schau_nach_ü", "fs_read"];
        match self.random.below(100) {
            0..45 => "look",
            45..72 => "find_all",
            72..80 => "fs.read",
            80..86 => "ns/tool",
            86..92 => LONG_NAME,
            _ => OTHERS[self.index(OTHERS.len())],
        }
    }

    fn args(&mut self, wire: &Wire) -> Args {
        match self.random.below(20) {
            0..4 => Args::Empty,
            4..11 => Args::Flat,
            11..15 => Args::Nested,
            15..18 => Args::Unicode,
            18.. if wire.has_broken_args => Args::Broken,
            _ => Args::Unicode,
        }
    }

    fn outcome(&mut self) -> Outcome {
        let count = [0, 1, 1, 1, 2, 3][self.index(6)];
        let content = (0..count)
            .map(|_| {
                // Half of the items are texts.
                let kind = self.random.below(ITEMS * 2).saturating_sub(ITEMS);
                item(self.mark(), kind)
            })
            .collect();
        Outcome { content, is_error: self.is_likely(20) }
    }
}
