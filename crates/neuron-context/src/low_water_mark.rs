//! The low-water mark of a compaction, which is the maximum size in tokens that a request should have afterwards. If
//! the mark is well below the budget, one compaction frees space for many turns.

use neuron_types::Message;

use crate::calibrated_estimate::CalibratedEstimate;

/// Selects the messages to keep, if possible so that a request with them has at most `mark` tokens. Returns one flag
/// per message, set if the message is kept.
///
/// `choose(messages, n)` returns the flags that keep the newest `n` messages, and all messages that cannot be dropped.
/// This function uses the largest `n` up to `most` whose kept messages fit into `mark`. If no number fits, it uses
/// zero. If `mark` is `None`, it uses `most`.
///
/// `choose` must be monotonic. For a larger `n`, it must keep at least the same messages.
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
    // Estimate each message once, because the search sums the estimates several times.
    let sizes: Vec<usize> = messages.iter().map(|message| size.estimate(message)).collect();
    let fits = |keep: &[bool]| {
        let kept = sizes.iter().zip(keep).filter(|(_, keep)| **keep);
        size.with(kept.map(|(size, _)| *size)) <= mark
    };
    if fits(&keep) {
        return keep;
    }
    // Binary search for the largest number that fits. `fitting` fits or is zero, and `too_many` does not fit.
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
