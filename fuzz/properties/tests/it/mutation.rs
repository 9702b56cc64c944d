//! Mutations of valid inputs, such as broken servers, networks and incompatible vendors produce.

use proptest::array::uniform3;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::{Index, select};

/// Returns a generator of inputs. Most inputs are mutated valid inputs, and 2 % are random bytes.
pub(crate) fn inputs(seeds: Vec<Vec<u8>>) -> impl Strategy<Value = Vec<u8>> {
    let mutation = (
        0..10_u8,
        uniform3(any::<Index>()),
        // The maximum length of the part that a mutation changes. Short parts are as likely as long parts.
        select(&[4, 64, usize::MAX][..]),
        any::<u8>(),
        select(&TOKENS[..]),
    );
    let broken = (any::<Index>(), any::<u8>(), vec(mutation, 1..=4));
    let broken = broken.prop_map(move |(seed, cut, mutations)| {
        let mut input = seed.get(&seeds).clone();
        // The first byte defines how the other bytes are cut (`pieces.rs`).
        if let Some(first) = input.first_mut() {
            *first = cut;
        }
        for mutation in mutations {
            mutate(&mut input, &seeds, mutation);
        }
        input
    });
    prop_oneof![49 => broken, 1 => vec(any::<u8>(), 0..200)]
}

/// The kind of a mutation, three positions, the maximum length of the changed part, a random byte, and a token.
type Mutation = (u8, [Index; 3], usize, u8, &'static str);

/// Applies one mutation to an input.
fn mutate(input: &mut Vec<u8>, seeds: &[Vec<u8>], mutation: Mutation) {
    let (kind, [one, other, third], most, byte, token) = mutation;
    let below = |place: Index, end: usize| place.index(end.max(1));
    let from = below(one, input.len());
    let to = (from + below(other, most.min(input.len()))).min(input.len());
    match kind {
        0 | 1 => {
            if let Some(changed) = input.get_mut(from) {
                *changed = if kind == 0 { *changed ^ (1 << (byte % 8)) } else { byte };
            }
        }
        2 => input.truncate(from),
        3 => drop(input.drain(from..to)),
        4 => {
            let repeated = input[from..to].to_vec();
            input.splice(from..from, repeated);
        }
        5 => {
            let seed = other.get(seeds);
            input.truncate(from);
            input.extend(&seed[below(third, seed.len())..]);
        }
        6 => drop(input.splice(from..from, token.bytes())),
        7 | 8 => replace_value(input, from, TOKENS[usize::from(byte) % VALUES]),
        _ => rearrange_frames(input, byte, |count| (below(one, count), below(other, count))),
    }
}

/// Number of tokens at the start of [`TOKENS`] that are JSON values or the beginning of a value.
const VALUES: usize = 11;

/// Fragments of JSON and of the stream formats that mutations insert.
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

/// Replaces the first JSON value after the position `from`. Does nothing if no object key follows.
fn replace_value(input: &mut Vec<u8>, from: usize, value: &str) {
    let is_colon = |bytes: &[u8]| bytes == b"\":";
    let Some(colon) = input[from..].windows(2).position(is_colon) else {
        return;
    };
    let start = from + colon + 2;
    // The value ends at the first separator. Strings with commas and nested values are cut, which is fine for a broken
    // input.
    let length = input[start..].iter().position(|byte| matches!(byte, b',' | b'}' | b']' | b'\n'));
    let end = length.map_or(input.len(), |length| start + length);
    input.splice(start..end, value.bytes());
}

/// Removes, repeats or swaps whole events or lines. `kind` selects the change, and `places` returns the positions for a
/// number of frames.
fn rearrange_frames(input: &mut Vec<u8>, kind: u8, places: impl Fn(usize) -> (usize, usize)) {
    let text = String::from_utf8_lossy(input).into_owned();
    let end = if text.contains("\n\n") { "\n\n" } else { "\n" };
    let mut frames: Vec<&str> = text.split_inclusive(end).collect();
    let (one, other) = places(frames.len());
    match kind % 3 {
        _ if frames.is_empty() => return,
        0 => drop(frames.remove(one)),
        1 => frames.insert(one, frames[other]),
        _ => frames.swap(one, other),
    }
    *input = frames.concat().into_bytes();
}
