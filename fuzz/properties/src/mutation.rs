//! Valid inputs, broken in ways that servers, networks and compatible vendors break them. The same
//! seed gives the same inputs on every machine.

/// Makes inputs from valid ones.
#[derive(Debug)]
pub struct Mutator {
    seeds: Vec<Vec<u8>>,
    random: Random,
}

impl Mutator {
    /// Starts from these inputs. The number names the sequence.
    #[must_use]
    pub fn new(seeds: Vec<Vec<u8>>, number: u64) -> Self {
        Self { seeds, random: Random(number) }
    }

    /// Returns the next input.
    pub fn input(&mut self) -> Vec<u8> {
        if self.random.below(50) == 0 {
            return (0..self.random.below(200)).map(|_| self.random.byte()).collect();
        }
        let mut input = self.seed();
        // The first byte tells how the others are cut.
        if let Some(first) = input.first_mut() {
            *first = self.random.byte();
        }
        for _ in 0..=self.random.below(4) {
            self.mutate(&mut input);
        }
        input
    }

    fn seed(&mut self) -> Vec<u8> {
        let place = self.random.below(self.seeds.len());
        self.seeds.get(place).cloned().unwrap_or_default()
    }

    fn mutate(&mut self, input: &mut Vec<u8>) {
        let random = &mut self.random;
        let (from, to) = random.range(input.len());
        match random.below(10) {
            0 => {
                if let Some(byte) = input.get_mut(from) {
                    *byte ^= 1 << random.below(8);
                }
            }
            1 => {
                if let Some(byte) = input.get_mut(from) {
                    *byte = random.byte();
                }
            }
            2 => input.truncate(from),
            3 => drop(input.drain(from..to)),
            4 => {
                let repeated = input[from..to].to_vec();
                input.splice(from..from, repeated);
            }
            5 => {
                let other = self.seed();
                let (start, _) = self.random.range(other.len());
                input.truncate(from);
                input.extend(&other[start..]);
            }
            6 => {
                let token = TOKENS[random.below(TOKENS.len())];
                input.splice(from..from, token.bytes());
            }
            7 | 8 => replace_value(random, input, from),
            _ => rearrange_frames(random, input),
        }
    }
}

/// What JSON and the formats around it are made of.
const TOKENS: [&str; 26] = [
    "null",
    "true",
    "{}",
    "[]",
    "\"\"",
    "0",
    "-1",
    "1e400",
    "18446744073709551616",
    "{\"a\":",
    "[[",
    ",",
    ":",
    "\"",
    "\\u0000",
    "\\ud800",
    "\n",
    "\r",
    "\r\n\r\n",
    "\n\ndata: ",
    "data: [DONE]\n\n",
    "event: x\n",
    "\u{feff}",
    "\u{0}",
    "\"text\":",
    "\"type\":\"",
];

/// Puts another value in the place of one after a colon.
fn replace_value(random: &mut Random, input: &mut Vec<u8>, from: usize) {
    let is_colon = |bytes: &[u8]| bytes == b"\":";
    let Some(colon) = input[from..].windows(2).position(is_colon) else {
        return;
    };
    let start = from + colon + 2;
    // As far as values without commas go.
    let length = input[start..].iter().position(|byte| matches!(byte, b',' | b'}' | b']' | b'\n'));
    let end = length.map_or(input.len(), |length| start + length);
    input.splice(start..end, TOKENS[random.below(11)].bytes());
}

/// Drops, repeats or swaps whole events or lines.
fn rearrange_frames(random: &mut Random, input: &mut Vec<u8>) {
    let text = String::from_utf8_lossy(input).into_owned();
    let end = if text.contains("\n\n") { "\n\n" } else { "\n" };
    let mut frames: Vec<&str> = text.split_inclusive(end).collect();
    let (one, other) = (random.below(frames.len()), random.below(frames.len()));
    match random.below(3) {
        _ if frames.is_empty() => return,
        0 => drop(frames.remove(one)),
        1 => frames.insert(one, frames[other]),
        _ => frames.swap(one, other),
    }
    *input = frames.concat().into_bytes();
}

/// SplitMix64: small, and the same everywhere.
#[derive(Debug)]
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// A number below `end`, or zero.
    fn below(&mut self, end: usize) -> usize {
        let end = u64::try_from(end.max(1)).unwrap_or(u64::MAX);
        usize::try_from(self.next() % end).unwrap_or_default()
    }

    fn byte(&mut self) -> u8 {
        self.next().to_le_bytes()[0]
    }

    /// A part of so many bytes; short ones are as likely as long ones.
    fn range(&mut self, length: usize) -> (usize, usize) {
        let from = self.below(length);
        let most = [4, 64, length][self.below(3)];
        (from, (from + self.below(most)).min(length))
    }
}
