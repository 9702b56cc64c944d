//! The low-water mark: keeping fewer messages, so that one compaction makes room for many turns.

use neuron_types::Message;

use crate::corrected::Corrected;

/// Says for each message whether it stays, as `choose` does for a number of the newest messages: the
/// largest number up to `most` with which what stays is at most `mark` tokens, or zero if there is no
/// such. Without a mark it is `most`.
///
/// With a larger number the same messages must stay, and perhaps others.
pub(crate) fn choose_within(
    mark: Option<usize>,
    most: usize,
    messages: &[Message],
    size: &Corrected<'_>,
    choose: impl Fn(&[Message], usize) -> Vec<bool>,
) -> Vec<bool> {
    let most = most.min(messages.len());
    let keep = choose(messages, most);
    let Some(mark) = mark else {
        return keep;
    };
    // Once: in a long conversation each is looked at for many choices.
    let sizes: Vec<usize> = messages.iter().map(|message| size.estimate(message)).collect();
    let fits = |keep: &[bool]| {
        let kept = sizes.iter().zip(keep).filter(|(_, keep)| **keep);
        size.with(kept.map(|(size, _)| *size)) <= mark
    };
    if fits(&keep) {
        return keep;
    }
    // Halving what is open between the numbers that are known to fit and not to.
    let (mut fitting, mut too_many) = (0, most);
    while too_many - fitting > 1 {
        let middle = fitting.midpoint(too_many);
        match fits(&choose(messages, middle)) {
            true => fitting = middle,
            false => too_many = middle,
        }
    }
    choose(messages, fitting)
}

#[cfg(test)]
mod tests;
