//! The server of a region.
//!
//! <https://docs.aws.amazon.com/general/latest/gr/bedrock.html>

use neuron_model::ProviderError;

/// Domains of the partitions of AWS, by the beginnings of their regions. Regions of other partitions are in
/// `amazonaws.com`.
const DOMAINS: [(&str, &str); 7] = [
    ("cn-", "amazonaws.com.cn"),
    ("eusc-", "amazonaws.eu"),
    ("us-iso-", "c2s.ic.gov"),
    ("us-isob-", "sc2s.sgov.gov"),
    ("eu-isoe-", "cloud.adc-e.uk"),
    ("us-isof-", "csp.hci.ic.gov"),
    ("eu-isof-", "csp.hci.ic.gov"),
];

/// Returns the base URL of Bedrock in a region.
pub(crate) fn base_url(region: &str) -> String {
    let known = DOMAINS.iter().find(|(start, _)| region.starts_with(start));
    let domain = known.map_or("amazonaws.com", |(_, domain)| domain);
    format!("https://bedrock-runtime.{region}.{domain}")
}

/// Checks the name of a region. Without this check, the name could lead to another server.
///
/// # Errors
///
/// [`ProviderError::InvalidRequest`] if the name has other characters than regions have.
pub(crate) fn check(region: &str) -> Result<(), ProviderError> {
    let is_allowed = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    if !region.is_empty() && region.chars().all(is_allowed) {
        return Ok(());
    }
    Err(ProviderError::InvalidRequest(format!(
        "`{region}` cannot be the name of a region: use a name such as `us-east-1`"
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn host_depends_on_the_partition() {
        for (region, host) in [
            ("us-east-1", "bedrock-runtime.us-east-1.amazonaws.com"),
            ("us-gov-west-1", "bedrock-runtime.us-gov-west-1.amazonaws.com"),
            ("eusc-de-east-1", "bedrock-runtime.eusc-de-east-1.amazonaws.eu"),
            ("us-iso-east-1", "bedrock-runtime.us-iso-east-1.c2s.ic.gov"),
            ("us-isob-east-1", "bedrock-runtime.us-isob-east-1.sc2s.sgov.gov"),
        ] {
            assert_eq!(base_url(region), format!("https://{host}"));
        }
    }

    #[test]
    fn region_cannot_lead_to_another_host() {
        check("eu-central-1").unwrap();
        for region in ["", "us-east-1.evil.example/", "a@b", "US-EAST-1", "us east"] {
            assert_eq!(check(region).unwrap_err().kind(), "InvalidRequest", "{region}");
        }
    }
}
