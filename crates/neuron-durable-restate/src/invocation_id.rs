//! Validates the id of an invocation. Restate would retry a signal to an invalid id forever.

/// Returns `true` if `id` may be the id of an invocation. `own` is a valid id. If `own` has an unknown format, every
/// `id` is accepted.
pub(crate) fn is_one(id: &str, own: &str) -> bool {
    has_known_form(id) || !has_known_form(own)
}

/// Returns `true` if `id` has the known format. This is the prefix `inv_1`, a 64-bit number with 11 digits, and a
/// 128-bit number with 22 digits. Both numbers are in base 62.
fn has_known_form(id: &str) -> bool {
    let Some((partition, unique)) = id.strip_prefix("inv_1").and_then(|id| id.split_at_checked(11))
    else {
        return false;
    };
    let is_partition = number(partition).is_some_and(|number| number <= u128::from(u64::MAX));
    is_partition && unique.len() == 22 && number(unique).is_some()
}

/// Parses a number in base 62. Returns `None` for an invalid digit, or if the number exceeds 128 bits.
fn number(digits: &str) -> Option<u128> {
    digits.bytes().try_fold(0u128, |number, digit| {
        let digit = match digit {
            b'0'..=b'9' => digit - b'0',
            b'a'..=b'z' => digit - b'a' + 10,
            b'A'..=b'Z' => digit - b'A' + 36,
            _ => return None,
        };
        number.checked_mul(62)?.checked_add(digit.into())
    })
}

#[cfg(test)]
mod tests {
    use super::is_one;

    const OWN: &str = "inv_15DNvQHX48yg3sbGnGTDtdZn1rrGblP6of";

    #[test]
    fn ids_that_restate_cannot_parse_are_rejected() {
        for id in [OWN, "inv_1hFWkw8HKofS2gSltOBh3JfiWAhXbmyIOm"] {
            assert!(is_one(id, OWN), "{id}");
        }
        let long = format!("{OWN}0");
        let wrong = [
            "",
            "inv_1",
            "run-1",
            "inv_25DNvQHX48yg3sbGnGTDtdZn1rrGblP6of",
            "inv_15DNvQHX48yg3sbGnGTDtdZn1rrGblP6o",
            "inv_15DNvQHX48yg3sbGnGTDtdZn1rrGblP6o-",
            "inv_15DNvQHX48yg3sbGnGTDtdZn1rrGblP6ö",
            // Numbers that are too large.
            "inv_1ZDNvQHX48yg3sbGnGTDtdZn1rrGblP6of",
            "inv_15DNvQHX48ygZsbGnGTDtdZn1rrGblP6of",
            long.as_str(),
        ];
        for id in wrong {
            assert!(!is_one(id, OWN), "{id}");
            assert!(is_one(id, "inv_2other"), "{id}");
        }
    }
}
