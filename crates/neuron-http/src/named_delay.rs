//! Reads the delay before a retry from the text of an error ([`named_delay`]).

use std::time::Duration;

/// Texts behind which a vendor names a delay.
///
/// - OpenAI: "Please try again in 1m2.5s", <https://platform.openai.com/docs/guides/rate-limits>
/// - Azure: "Please retry after 30 seconds"
/// - Google: "Please retry in 41.4s", and "Your quota will reset after 18h31m10s"
const LEADS: [&str; 5] =
    ["retry after ", "retry in ", "try again in ", "reset after ", "resets in "];

/// Returns the delay before a retry that a message in lower case names, such as "try again in 1m2.5s". Returns `None` if
/// it names none.
pub(crate) fn named_delay(message: &str) -> Option<Duration> {
    let after = |lead: &'static str| message.split(lead).skip(1);
    LEADS.into_iter().flat_map(after).find_map(duration)
}

/// Reads a duration of one or more numbers with a unit at the beginning of a text.
fn duration(mut text: &str) -> Option<Duration> {
    let mut sum = None;
    loop {
        let digits = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
        let (number, rest) = text.split_at_checked(digits)?;
        let rest = rest.strip_prefix(' ').unwrap_or(rest);
        let end = rest.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(rest.len());
        let (unit, rest) = rest.split_at_checked(end)?;
        let (Ok(number), Some(unit)) = (number.parse::<f64>(), seconds(unit)) else {
            return sum;
        };
        let part = Duration::try_from_secs_f64(number * unit).ok()?;
        sum = Some(sum.unwrap_or(Duration::ZERO).checked_add(part)?);
        text = [" and ", ", ", " "].iter().find_map(|it| rest.strip_prefix(it)).unwrap_or(rest);
    }
}

/// Returns the length of a unit in seconds.
fn seconds(unit: &str) -> Option<f64> {
    Some(match unit {
        "ms" | "millisecond" | "milliseconds" => 0.001,
        "s" | "sec" | "secs" | "second" | "seconds" => 1.0,
        "m" | "min" | "mins" | "minute" | "minutes" => 60.0,
        "h" | "hr" | "hrs" | "hour" | "hours" => 3_600.0,
        "d" | "day" | "days" => 86_400.0,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_of_all_vendors_are_read() {
        for (text, expected) in [
            ("limit 3, used 3. please try again in 20s. visit https://a.example", Some(20_000)),
            ("try again in 1m2.5s", Some(62_500)),
            ("please try again in 6ms.", Some(6)),
            ("please retry after 30 seconds.", Some(30_000)),
            ("please retry after 1 minute 5 seconds", Some(65_000)),
            ("please retry after 1 minute and 30 seconds", Some(90_000)),
            ("please retry after 1 minute, 30 seconds", Some(90_000)),
            ("you can retry after upgrading. please retry after 20 seconds.", Some(20_000)),
            ("please retry in 41.4s.", Some(41_400)),
            ("your quota will reset after 18h31m10s.", Some(66_670_000)),
            ("resets in 2 days", Some(172_800_000)),
            ("retry after 0s", Some(0)),
            ("retry after 7", None),
            ("retry after a while", None),
            ("retry after -3s", None),
            ("retry after 1.2.3s", None),
            ("retry after s", None),
            ("retry after 99999999999999999999999999d", None),
            ("try again in 5 apples", None),
            ("try again later", None),
            ("waited 30 seconds", None),
            ("", None),
        ] {
            assert_eq!(named_delay(text), expected.map(Duration::from_millis), "{text}");
        }
    }
}
