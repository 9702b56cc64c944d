//! Exact amounts of money.

use std::fmt;
use std::iter::Sum;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// An exact, non-negative amount of US dollars.
///
/// The amount is a whole number of picodollars (10⁻¹² dollars). A price of up to six decimals for a million tokens is
/// thus a whole number for a single token, and sums of any number of calls are exact.
///
/// `Display` writes all decimals, and at least two. With a precision, it rounds to the nearest amount. An amount is
/// parsed from text with up to twelve decimals, with or without a `$`. Its JSON form is a string, for example
/// `"0.0375"`.
///
/// # Example
///
/// ```
/// use neuron_model::Money;
///
/// let price: Money = "0.0375".parse()?;
/// assert_eq!(price.to_string(), "$0.0375");
/// assert_eq!(format!("{price:.2}"), "$0.04");
/// let million: Money = std::iter::repeat_n(price, 1_000_000).sum();
/// assert_eq!(million, Money::from_dollars(37_500));
/// # Ok::<(), neuron_model::ParseMoneyError>(())
/// ```
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Money(u128);

/// Picodollars in a dollar.
const DOLLAR: u128 = 10_u128.pow(DECIMALS as u32);

/// Number of decimals of a dollar amount.
const DECIMALS: usize = 12;

impl Money {
    /// No money.
    pub const ZERO: Self = Self(0);

    /// The largest amount, about 3.4 × 10²⁶ dollars.
    pub const MAX: Self = Self(u128::MAX);

    /// Creates an amount of whole dollars.
    #[must_use]
    pub const fn from_dollars(dollars: u64) -> Self {
        Self(dollars as u128 * DOLLAR)
    }

    /// Creates an amount of picodollars (10⁻¹² dollars).
    #[must_use]
    pub const fn from_picodollars(picodollars: u128) -> Self {
        Self(picodollars)
    }

    /// Returns the amount in picodollars (10⁻¹² dollars).
    #[must_use]
    pub const fn picodollars(self) -> u128 {
        self.0
    }

    /// Creates an amount from a number of dollars, rounded to the nearest picodollar, for example from
    /// [`AnswerMetadata::cost`](crate::AnswerMetadata::cost). Returns `None` if the number is negative, not a number, or
    /// too large.
    #[must_use]
    pub fn from_f64(dollars: f64) -> Option<Self> {
        let picodollars = (dollars * DOLLAR as f64).round();
        let is_amount = picodollars >= 0.0 && picodollars < u128::MAX as f64;
        is_amount.then_some(Self(picodollars as u128))
    }

    /// Returns the nearest number of dollars, for metrics and charts. Do not calculate with the number.
    #[must_use]
    pub fn as_f64(self) -> f64 {
        self.0 as f64 / DOLLAR as f64
    }

    /// Returns the sum of two amounts. Returns `None` if the sum exceeds [`MAX`](Self::MAX).
    #[must_use]
    pub const fn checked_add(self, other: Self) -> Option<Self> {
        match self.0.checked_add(other.0) {
            Some(sum) => Some(Self(sum)),
            None => None,
        }
    }

    /// Returns the difference of two amounts. Returns `None` if `other` is larger than this amount.
    #[must_use]
    pub const fn checked_sub(self, other: Self) -> Option<Self> {
        match self.0.checked_sub(other.0) {
            Some(difference) => Some(Self(difference)),
            None => None,
        }
    }

    /// Returns the sum of two amounts, at most [`MAX`](Self::MAX).
    #[must_use]
    pub const fn saturating_add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }

    /// Returns the difference of two amounts, or zero if `other` is larger than this amount.
    #[must_use]
    pub const fn saturating_sub(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }
}

/// Adds amounts. The sum is at most [`Money::MAX`].
impl Sum for Money {
    fn sum<I: Iterator<Item = Self>>(amounts: I) -> Self {
        amounts.fold(Self::ZERO, Self::saturating_add)
    }
}

impl fmt::Display for Money {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = match f.precision() {
            Some(precision) => format!("${}", self.decimal(precision.min(DECIMALS))),
            None => {
                let exact = self.decimal(DECIMALS);
                let needed = exact.trim_end_matches('0').len();
                // At least two decimals.
                let shortest = exact.len() - (DECIMALS - 2);
                format!("${}", exact.get(..needed.max(shortest)).unwrap_or(&exact))
            }
        };
        // Applies the width, but not the precision, of the format.
        f.pad_integral(true, "", &text)
    }
}

impl Money {
    /// Returns the dollars with a number of decimals, rounded to the nearest amount. `decimals` is at most 12.
    fn decimal(self, decimals: usize) -> String {
        let scale = 10_u128.pow(decimals as u32);
        let unit = DOLLAR / scale;
        let rounds_up = unit > 1 && self.0 % unit >= unit / 2;
        let units = self.0 / unit + u128::from(rounds_up);
        match decimals {
            0 => units.to_string(),
            _ => format!("{}.{:0decimals$}", units / scale, units % scale),
        }
    }
}

impl fmt::Debug for Money {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Money({self})")
    }
}

/// The error of a text that is not an amount of dollars.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "not an amount of dollars: {text:?}: write digits with up to {DECIMALS} decimals, for example \"0.25\""
)]
pub struct ParseMoneyError {
    /// The text.
    text: String,
}

impl FromStr for Money {
    type Err = ParseMoneyError;

    fn from_str(text: &str) -> Result<Self, ParseMoneyError> {
        let amount = || {
            let number = text.strip_prefix('$').unwrap_or(text);
            let (dollars, decimals) = number.split_once('.').unwrap_or((number, "0"));
            let is_digits =
                |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
            if !is_digits(dollars) || !is_digits(decimals) || decimals.len() > DECIMALS {
                return None;
            }
            let dollars: u128 = dollars.parse().ok()?;
            let decimals: u128 = format!("{decimals:0<DECIMALS$}").parse().ok()?;
            dollars.checked_mul(DOLLAR)?.checked_add(decimals)
        };
        amount().map(Self).ok_or_else(|| ParseMoneyError { text: text.to_owned() })
    }
}

impl Serialize for Money {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        // Without the `$`. A JSON number would lose digits in most other languages.
        serializer.serialize_str(self.to_string().trim_start_matches('$'))
    }
}

impl<'de> Deserialize<'de> for Money {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn money(text: &str) -> Money {
        text.parse().unwrap()
    }

    #[test]
    fn amount_is_written_with_all_decimals_and_at_least_two() {
        for (text, written) in [
            ("0", "$0.00"),
            ("3", "$3.00"),
            ("1.5", "$1.50"),
            ("0.0375", "$0.0375"),
            ("$12.345678901234", "$12.345678901234"),
            ("0.000000000001", "$0.000000000001"),
        ] {
            assert_eq!(money(text).to_string(), written);
            assert_eq!(money(written), money(text));
        }
        assert_eq!(Money::MAX.to_string().parse(), Ok(Money::MAX));
    }

    #[test]
    fn precision_rounds_to_the_nearest_amount() {
        let amount = money("0.995");
        assert_eq!(format!("{amount:.2}"), "$1.00");
        assert_eq!(format!("{amount:.0}"), "$1");
        assert_eq!(format!("{amount:.3}"), "$0.995");
        assert_eq!(format!("{amount:.20}"), "$0.995000000000");
        assert_eq!(format!("{:.2}", money("0.004999999999")), "$0.00");
        assert_eq!(format!("{:>8.2}|", money("1.25")), "   $1.25|");
        assert_eq!(format!("{:.11}", Money::MAX).len(), Money::MAX.to_string().len() - 1);
    }

    #[test]
    fn other_texts_are_errors_that_name_the_text() {
        for text in [
            "",
            "$",
            ".5",
            "1.",
            "-1",
            "1,5",
            "1e3",
            "0.1234567890123",
            "99999999999999999999999999999",
            " 1",
        ] {
            let error = text.parse::<Money>().unwrap_err();
            assert!(error.to_string().contains(&format!("{text:?}")), "{error}");
        }
    }

    #[test]
    fn json_form_is_an_exact_string() {
        let amount = money("0.000000375");
        assert_eq!(serde_json::to_string(&amount).unwrap(), "\"0.000000375\"");
        assert_eq!(serde_json::from_str::<Money>("\"0.000000375\"").unwrap(), amount);
        assert!(serde_json::from_str::<Money>("0.25").is_err(), "a float is not exact");
    }

    #[test]
    fn arithmetic_is_checked_or_saturates() {
        let (one, most) = (money("1"), Money::MAX);
        assert_eq!(one.checked_add(money("0.5")), Some(money("1.5")));
        assert_eq!(most.checked_add(Money::from_picodollars(1)), None);
        assert_eq!(most.saturating_add(one), most);
        assert_eq!(one.checked_sub(money("0.5")), Some(money("0.5")));
        assert_eq!(Money::ZERO.checked_sub(one), None);
        assert_eq!(Money::ZERO.saturating_sub(one), Money::ZERO);
        assert_eq!([most, one].into_iter().sum::<Money>(), most);
    }

    #[test]
    fn sum_of_a_million_calls_is_exact() {
        let call = money("0.000000000003");
        let sum: Money = std::iter::repeat_n(call, 1_000_000).sum();
        assert_eq!(sum, money("0.000003"));
    }

    #[test]
    fn floating_point_number_is_converted_if_it_is_an_amount() {
        assert_eq!(Money::from_f64(0.000_375), Some(money("0.000375")));
        assert_eq!(Money::from_f64(0.0), Some(Money::ZERO));
        for number in [-0.01, f64::NAN, f64::INFINITY, f64::MAX] {
            assert_eq!(Money::from_f64(number), None);
        }
        assert_eq!(money("0.25").as_f64(), 0.25);
    }
}
