//! Pass rates and their confidence intervals.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The share of passed runs, with its 95 % confidence interval.
///
/// The interval is Wilson's, which is also valid for few runs and for rates of 0 and 1 (E. B. Wilson, "Probable
/// inference, the law of succession, and statistical inference", 1927).
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct PassRate {
    /// Number of passed runs.
    pub passed: usize,
    /// Number of runs.
    pub runs: usize,
    /// The share of passed runs, from 0 to 1. It is 0 without runs.
    pub rate: f64,
    /// The lower end of the 95 % confidence interval of `rate`.
    pub low: f64,
    /// The upper end of the 95 % confidence interval of `rate`.
    pub high: f64,
}

/// The 97.5 % quantile of the standard normal distribution, which gives a confidence interval of 95 %.
const Z: f64 = 1.959_963_984_540_054;

impl PassRate {
    #[expect(clippy::cast_precision_loss, reason = "numbers of runs are far below 2^52")]
    pub(super) fn new(passed: usize, runs: usize) -> Self {
        if runs == 0 {
            return Self { passed, runs, rate: 0.0, low: 0.0, high: 1.0 };
        }
        let n = runs as f64;
        let rate = passed as f64 / n;
        let middle = rate + Z * Z / (2.0 * n);
        let half = Z * (rate * (1.0 - rate) / n + Z * Z / (4.0 * n * n)).sqrt();
        let scale = 1.0 + Z * Z / n;
        // The interval must contain the rate in spite of rounding errors.
        let low = ((middle - half) / scale).clamp(0.0, rate);
        let high = ((middle + half) / scale).clamp(rate, 1.0);
        Self { passed, runs, rate, low, high }
    }

    /// Returns this rate minus the rate `before`, and the 95 % confidence interval of this difference. The first number
    /// is the difference. The others are the lower and the upper end of the interval.
    ///
    /// The method is Newcombe's, which uses Wilson's intervals (R. G. Newcombe, "Interval estimation for the difference
    /// between independent proportions", 1998).
    pub(super) fn difference(&self, before: &Self) -> (f64, f64, f64) {
        let difference = self.rate - before.rate;
        let below = (self.rate - self.low).hypot(before.high - before.rate);
        let above = (self.high - self.rate).hypot(before.rate - before.low);
        (difference, difference - below, difference + above)
    }
}

impl fmt::Display for PassRate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { passed, runs, rate, low, high } = self;
        let percent = |share: &f64| share * 100.0;
        write!(
            f,
            "{:.0} % ({passed} of {runs}, 95 % interval {:.0} to {:.0} %)",
            percent(rate),
            percent(low),
            percent(high)
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(passed: usize, runs: usize, low: f64, high: f64) {
        let rate = PassRate::new(passed, runs);
        assert!((rate.low - low).abs() < 1e-4 && (rate.high - high).abs() < 1e-4, "{rate:?}");
    }

    /// The computed intervals must be equal to those in Newcombe's tables of 1998.
    #[test]
    fn intervals_are_those_of_the_literature() {
        check(81, 263, 0.2553, 0.3662);
        check(15, 148, 0.0624, 0.1605);
        check(0, 20, 0.0, 0.1611);
        check(1, 29, 0.0061, 0.1718);
        check(10, 10, 0.7225, 1.0);
        check(0, 0, 0.0, 1.0);
    }

    #[test]
    fn difference_is_that_of_the_literature() {
        let (difference, low, high) = PassRate::new(56, 70).difference(&PassRate::new(48, 80));
        assert!((difference - 0.2).abs() < 1e-9);
        assert!((low - 0.0524).abs() < 1e-4 && (high - 0.3339).abs() < 1e-4, "{low} {high}");
    }
}
