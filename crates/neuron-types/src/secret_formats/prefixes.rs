//! Keys that begin with a prefix of their vendor.

use super::{is_placeholder, is_word};

use self::Body::{Alnum, Base64, Dotted, Exact, Hex, Mixed, Upper, Word};

/// The characters of a key after its prefix.
#[derive(Debug, Clone, Copy)]
pub(super) enum Body {
    /// Letters, digits, `_` and `-`.
    Word,
    /// Letters and digits.
    Alnum,
    /// Upper-case letters and digits.
    Upper,
    /// Hexadecimal digits.
    Hex,
    /// The characters of [`Word`](Self::Word) and full stops.
    Dotted,
    /// The characters of [`Word`](Self::Word), `+`, `/` and `=`.
    Base64,
    /// The characters of [`Word`](Self::Word), with letters of both cases and digits. For prefixes such as `pa-`, which
    /// may also begin ordinary words.
    Mixed,
    /// Letters and digits, exactly as many as the minimum. For prefixes such as `cio`, which Base64 may contain.
    Exact,
}

/// Prefixes of keys, each with the minimum number of characters after the prefix. The list is sorted.
///
/// The minimum is lower than the length of the vendor's keys if the prefix has no other use. Then a part of a key is
/// found too.
// Most prefixes come from the rules of gitleaks, which have the MIT licence:
// https://github.com/gitleaks/gitleaks/blob/master/config/gitleaks.toml
pub(super) const FORMATS: &[(&str, usize, Body)] = &[
    ("1//0", 40, Word),                           // Google, refresh tokens
    ("ABIA", 16, Exact),                          // AWS
    ("ACCA", 16, Exact),                          // AWS
    ("AGE-SECRET-KEY-1", 50, Upper),              // age
    ("AIza", 30, Word),                           // Google
    ("AKCp", 60, Alnum),                          // Artifactory
    ("AKIA", 16, Upper),                          // AWS
    ("ASIA", 16, Upper),                          // AWS
    ("ATATT3", 50, Word),                         // Atlassian
    ("ATBB", 32, Mixed),                          // Bitbucket
    ("ATCTT3", 50, Word),                         // Atlassian
    ("CFPAT-", 40, Word),                         // Contentful
    ("EAAAE", 50, Mixed),                         // Square
    ("EAAAl", 50, Mixed),                         // Square
    ("GOCSPX-", 20, Word),                        // Google, secrets of OAuth clients
    ("GR1348941", 20, Word),                      // GitLab
    ("HRKU-", 40, Word),                          // Heroku
    ("NRAK-", 20, Alnum),                         // New Relic
    ("NRII-", 20, Word),                          // New Relic
    ("PMAK-", 40, Word),                          // Postman
    ("SG.", 20, Dotted),                          // SendGrid
    ("SK", 32, Hex),                              // Twilio
    ("api_org_", 30, Alnum),                      // Hugging Face
    ("atlasv1.", 50, Word),                       // Terraform, behind the id of the token
    ("cio", 32, Exact),                           // crates.io
    ("csk-", 30, Alnum),                          // Cerebras
    ("dapi", 32, Hex),                            // Databricks
    ("dckr_oat_", 20, Word),                      // Docker Hub
    ("dckr_pat_", 20, Word),                      // Docker Hub
    ("discord.com/api/webhooks/", 60, Base64),    // Discord
    ("discordapp.com/api/webhooks/", 60, Base64), // Discord
    ("doo_v1_", 40, Hex),                         // DigitalOcean
    ("dop_v1_", 40, Hex),                         // DigitalOcean
    ("dor_v1_", 40, Hex),                         // DigitalOcean
    ("dp.audit.", 40, Alnum),                     // Doppler
    ("dp.ct.", 40, Alnum),                        // Doppler
    ("dp.pt.", 40, Alnum),                        // Doppler
    ("dp.sa.", 40, Alnum),                        // Doppler
    ("dp.scim.", 40, Alnum),                      // Doppler
    ("dp.st.", 40, Dotted),                       // Doppler
    ("dt0c01.", 60, Dotted),                      // Dynatrace
    ("duffel_live_", 30, Word),                   // Duffel
    ("duffel_test_", 30, Word),                   // Duffel
    ("e2b_", 40, Hex),                            // E2B
    ("eyJrIjoi", 60, Base64),                     // Grafana
    ("figd_", 30, Word),                          // Figma
    ("fio-u-", 40, Word),                         // Frame.io
    ("fm2_", 60, Base64),                         // Fly.io
    ("fo1_", 40, Word),                           // Fly.io
    ("fw_", 20, Alnum),                           // Fireworks
    ("gho_", 16, Word),                           // GitHub
    ("ghp_", 16, Word),                           // GitHub
    ("ghr_", 16, Word),                           // GitHub
    ("ghs_", 16, Word),                           // GitHub
    ("ghu_", 16, Word),                           // GitHub
    ("github_pat_", 16, Word),                    // GitHub
    ("glagent-", 20, Word),                       // GitLab
    ("glc_", 32, Base64),                         // Grafana
    ("glcbt-", 20, Word),                         // GitLab
    ("gldt-", 20, Word),                          // GitLab
    ("glffct-", 20, Word),                        // GitLab
    ("glft-", 20, Word),                          // GitLab
    ("glimt-", 20, Word),                         // GitLab
    ("gloas-", 20, Word),                         // GitLab
    ("glpat-", 16, Word),                         // GitLab
    ("glptt-", 20, Word),                         // GitLab
    ("glrt-", 20, Word),                          // GitLab
    ("glrtr-", 20, Word),                         // GitLab
    ("glsa_", 32, Word),                          // Grafana
    ("glsoat-", 20, Word),                        // GitLab
    ("gsk_", 20, Alnum),                          // Groq
    ("hf_", 30, Alnum),                           // Hugging Face
    ("hooks.slack.com/services/", 30, Base64),    // Slack
    ("hooks.slack.com/triggers/", 30, Base64),    // Slack
    ("hooks.slack.com/workflows/", 30, Base64),   // Slack
    ("hvb.", 24, Word),                           // HashiCorp Vault
    ("hvr.", 24, Word),                           // HashiCorp Vault
    ("hvs.", 24, Word),                           // HashiCorp Vault
    ("ico-", 32, Alnum),                          // Infracost
    ("jina_", 40, Alnum),                         // Jina
    ("lin_api_", 30, Alnum),                      // Linear
    ("lin_oauth_", 30, Alnum),                    // Linear
    ("lsv2_pt_", 32, Word),                       // LangSmith
    ("lsv2_sk_", 32, Word),                       // LangSmith
    ("nfp_", 30, Alnum),                          // Netlify
    ("npm_", 30, Alnum),                          // npm
    ("ntn_", 30, Alnum),                          // Notion
    ("nvapi-", 40, Word),                         // NVIDIA
    ("ops_eyJ", 60, Base64),                      // 1Password
    ("oy2", 43, Exact),                           // NuGet
    ("pa-", 40, Mixed),                           // Voyage
    ("pcsk_", 30, Word),                          // Pinecone
    ("pk-", 20, Mixed),                           // keys of several vendors, in pairs with `sk-`
    ("pk-lf-", 30, Word),                         // Langfuse
    ("pk_live_", 16, Word),                       // Stripe
    ("pk_test_", 16, Word),                       // Stripe
    ("pnu_", 30, Alnum),                          // Prefect
    ("pplx-", 30, Alnum),                         // Perplexity
    ("pscale_oauth_", 30, Dotted),                // PlanetScale
    ("pscale_pw_", 30, Dotted),                   // PlanetScale
    ("pscale_tkn_", 30, Dotted),                  // PlanetScale
    ("pul-", 40, Hex),                            // Pulumi
    ("pypi-", 40, Word),                          // PyPI
    ("r8_", 30, Alnum),                           // Replicate
    ("rdme_", 50, Alnum),                         // ReadMe
    ("rk_live_", 16, Word),                       // Stripe
    ("rk_prod_", 16, Word),                       // Stripe
    ("rk_test_", 16, Word),                       // Stripe
    ("rubygems_", 40, Hex),                       // RubyGems
    ("sb_secret_", 20, Word),                     // Supabase
    ("sbp_", 40, Hex),                            // Supabase
    ("secret_", 40, Mixed),                       // Notion
    ("sgp_", 40, Word),                           // Sourcegraph
    ("shpat_", 32, Hex),                          // Shopify
    ("shpca_", 32, Hex),                          // Shopify
    ("shppa_", 32, Hex),                          // Shopify
    ("shpss_", 32, Hex),                          // Shopify
    ("shptka_", 32, Hex),                         // Shopify
    ("sk-", 17, Word),                            // Anthropic, OpenAI, OpenRouter and others
    ("sk_", 48, Hex),                             // ElevenLabs
    ("sk_live_", 16, Word),                       // Stripe
    ("sk_prod_", 16, Word),                       // Stripe
    ("sk_test_", 16, Word),                       // Stripe
    ("sntrys_", 40, Base64),                      // Sentry
    ("sntryu_", 40, Hex),                         // Sentry
    ("sq0atp-", 20, Word),                        // Square
    ("sq0csp-", 20, Word),                        // Square
    ("tgp_v1_", 30, Word),                        // Together
    ("tvly-", 20, Word),                          // Tavily
    ("whsec_", 30, Base64),                       // Stripe and Svix, signing secrets
    ("xai-", 20, Alnum),                          // xAI
    ("xapp-", 20, Word),                          // Slack
    ("xkeysib-", 40, Word),                       // Brevo
    ("xoxa-", 10, Word),                          // Slack
    ("xoxb-", 10, Word),                          // Slack
    ("xoxc-", 10, Word),                          // Slack
    ("xoxd-", 10, Word),                          // Slack
    ("xoxe-", 10, Word),                          // Slack
    ("xoxe.", 20, Word),                          // Slack
    ("xoxo-", 10, Word),                          // Slack
    ("xoxp-", 10, Word),                          // Slack
    ("xoxr-", 10, Word),                          // Slack
    ("xoxs-", 10, Word),                          // Slack
    ("ya29.", 40, Word),                          // Google, access tokens
];

/// Number of characters after the prefix that decide if a text is a key. No minimum is higher.
const DECISIVE: usize = 64;

/// Returns the length of the key at the start of the text, with its prefix.
pub(super) fn key(text: &str) -> Option<usize> {
    let first = text.as_bytes().first();
    let start = FORMATS.partition_point(|(prefix, ..)| prefix.as_bytes().first() < first);
    let formats = FORMATS.iter().skip(start);
    formats.take_while(|(prefix, ..)| prefix.as_bytes().first() == first).find_map(
        |(prefix, least, body)| {
            let length = body.length(text.strip_prefix(prefix)?, *least)?;
            Some(prefix.len() + length)
        },
    )
}

impl Body {
    /// Returns the length of the body at the start of the text. It has at least `least` characters and looks random.
    fn length(self, text: &str, least: usize) -> Option<usize> {
        let count = text.bytes().take(DECISIVE).take_while(|byte| self.contains(*byte)).count();
        let start = text.get(..count)?;
        let ends_at_least = || text.as_bytes().get(least).is_none_or(|byte| !is_base64(*byte));
        let is_key = match self {
            // Some of AWS's key ids have no digit.
            Self::Upper => true,
            Self::Mixed => has_digit(start) && has_both_cases(start),
            Self::Exact => has_digit(start) && ends_at_least(),
            _ => has_digit(start) || has_both_cases(start),
        };
        if count < least || !is_key || is_placeholder(start) {
            return None;
        }
        Some(match self {
            Self::Exact => least,
            Self::Base64 => text.bytes().take_while(|byte| is_base64(*byte)).count(),
            _ => dotted_length(text),
        })
    }

    fn contains(self, byte: u8) -> bool {
        match self {
            Self::Word | Self::Mixed => is_word(&byte),
            Self::Alnum | Self::Exact => byte.is_ascii_alphanumeric(),
            Self::Upper => byte.is_ascii_uppercase() || byte.is_ascii_digit(),
            Self::Hex => byte.is_ascii_hexdigit(),
            Self::Dotted => is_word(&byte) || byte == b'.',
            Self::Base64 => is_base64(byte),
        }
    }
}

/// Returns the number of bytes until a key ends. A key may contain a single full stop, but does not end with one.
fn dotted_length(text: &str) -> usize {
    let bytes = text.as_bytes();
    let is_word_at = |index: usize| bytes.get(index).is_some_and(is_word);
    let is_stop = |index: usize| bytes.get(index) == Some(&b'.');
    let is_inside = |index: &usize| is_word_at(*index) || is_stop(*index) && is_word_at(index + 1);
    (0..).take_while(is_inside).count()
}

fn is_base64(byte: u8) -> bool {
    is_word(&byte) || matches!(byte, b'+' | b'/' | b'=')
}

fn has_digit(text: &str) -> bool {
    text.bytes().any(|byte| byte.is_ascii_digit())
}

fn has_both_cases(text: &str) -> bool {
    let has = |is_case: fn(&u8) -> bool| text.as_bytes().iter().any(is_case);
    has(u8::is_ascii_uppercase) && has(u8::is_ascii_lowercase)
}
