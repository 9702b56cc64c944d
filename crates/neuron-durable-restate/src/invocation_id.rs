//! The check for the id of an invocation. Restate retries a signal to any other text for ever.

/// Returns `true` if `id` is the id of an invocation. If Restate's own ids, such as `own`, have an unknown form,
/// any text may be an id.
pub(crate) fn is_one(id: &str, own: &str) -> bool {
    has_known_form(id) || !has_known_form(own)
}

/// A version, a number of 64 bits and one of 128, these in digits of base 62.
fn has_known_form(id: &str) -> bool {
    let Some((partition, unique)) = id.strip_prefix("inv_1").and_then(|id| id.split_at_checked(11))
    else {
        return false;
    };
    let is_partition = number(partition).is_some_and(|number| number <= u128::from(u64::MAX));
    is_partition && unique.len() == 22 && number(unique).is_some()
}

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
    fn what_restate_cannot_read_is_no_id() {
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
