//! The low-water mark, which makes one compaction free space for many turns.

use neuron_types::Message;

use crate::calibrated_estimate::CalibratedEstimate;

/// Chooses the messages to keep, so that they have at most `mark` tokens.
///
/// `choose` returns one flag per message for a number of newest messages. This function uses the largest number up to
/// `most` whose messages fit into `mark`, or zero if none fits. Without a mark it uses `most`.
///
/// `choose` must be monotonic: for a larger number it keeps at least the same messages.
pub(crate) fn choose_within(
    mark: Option<usize>,
    most: usize,
    messages: &[Message],
    size: &CalibratedEstimate<'_>,
    choose: impl Fn(&[Message], usize) -> Vec<bool>,
) -> Vec<bool> {
    let most = most.min(messages.len());
    let keep = choose(messages, most);
    let Some(mark) = mark else {
        return keep;
    };
    // Estimate each message once, because the search looks at all of them several times.
    let sizes: Vec<usize> = messages.iter().map(|message| size.estimate(message)).collect();
    let fits = |keep: &[bool]| {
        let kept = sizes.iter().zip(keep).filter(|(_, keep)| **keep);
        size.with(kept.map(|(size, _)| *size)) <= mark
    };
    if fits(&keep) {
        return keep;
    }
    // Binary search between a number that fits and a number that does not.
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
