//! The cause of a miss.

use super::clock::Instant;
use super::conversations::Facts;
use super::place;
use super::prefix::Followed;
use super::report::{CacheMissCause, CachedModel, PrefixChange, PrefixExcerpts};
use super::vendor;

/// The facts about a call that missed the cache.
pub(super) struct Next<'a> {
    pub(super) model: &'a CachedModel,
    pub(super) started: Instant,
    /// Set if the conversation was compacted since the previous call.
    pub(super) is_compacted: bool,
    /// Number of content blocks behind the messages of the previous call.
    pub(super) new_blocks: usize,
    /// Set if the vendor may have removed a part of the conversation.
    pub(super) is_edited: bool,
    /// Number of cache breakpoints in the request.
    pub(super) breakpoints: usize,
    /// Maximum length of an excerpt in bytes. Zero means no excerpts.
    pub(super) excerpt_bytes: usize,
}

/// Returns the cause of a miss. The first cause that applies is returned, because the others made no difference.
pub(super) fn cause(previous: &Facts, followed: &Followed, next: &Next<'_>) -> CacheMissCause {
    let after = next.started.saturating_duration_since(previous.started);
    if after > previous.lifetime {
        return CacheMissCause::Expired { after };
    }
    if previous.model != *next.model {
        return CacheMissCause::OtherModel { previous: previous.model.clone() };
    }
    if next.is_compacted {
        return CacheMissCause::Compacted;
    }
    match followed {
        Followed::Different { prefix, previous, offset } => {
            let (old, new) = (previous.json(), prefix.json());
            CacheMissCause::Changed(change(old, new, *offset, next.excerpt_bytes))
        }
        Followed::Extended { .. }
            if next.breakpoints < previous.breakpoints
                && vendor::needs_breakpoints(&next.model.provider) =>
        {
            CacheMissCause::FewerBreakpoints
        }
        Followed::Extended { .. } => {
            match vendor::is_behind_lookback(&next.model.provider, next.new_blocks) {
                true => CacheMissCause::ManyNewBlocks { blocks: next.new_blocks },
                false if next.is_edited => CacheMissCause::EditedByVendor,
                false => CacheMissCause::Evicted,
            }
        }
    }
}

fn change(previous: &[u8], current: &[u8], offset: usize, excerpt_bytes: usize) -> PrefixChange {
    let place = place::of_difference(previous, current, offset);
    let excerpts = (excerpt_bytes > 0).then(|| PrefixExcerpts {
        previous: excerpt(previous, offset, excerpt_bytes),
        current: excerpt(current, offset, excerpt_bytes),
    });
    PrefixChange {
        part: place.part,
        offset,
        path: place.path,
        offset_in_value: place.offset,
        excerpts,
    }
}

/// Returns at most `bytes` bytes of JSON around a byte. A quarter of them is before the byte. Characters that do not
/// fit as a whole are left out.
fn excerpt(json: &[u8], offset: usize, bytes: usize) -> String {
    let start = offset.saturating_sub(bytes / 4).min(json.len());
    let end = start.saturating_add(bytes).min(json.len());
    let text = json.get(start..end).unwrap_or_default();
    // The continuation bytes of a character whose first byte is before the excerpt.
    let cut = text.iter().take_while(|byte| (0x80..0xc0).contains(*byte)).count();
    let text = text.get(cut..).unwrap_or_default();
    let valid = text.utf8_chunks().next().map(|chunk| chunk.valid());
    valid.unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn excerpt_has_whole_characters_around_the_byte() {
        let text = "aéøœ€z".as_bytes();
        for offset in 0..text.len() + 2 {
            for bytes in 0..text.len() + 2 {
                let excerpt = excerpt(text, offset, bytes);
                assert!(excerpt.len() <= bytes && "aéøœ€z".contains(&excerpt), "{excerpt}");
            }
        }
        assert_eq!(excerpt(b"0123456789", 4, 4), "3456");
        assert_eq!(excerpt("é€".as_bytes(), 2, 4), "€");
    }
}
