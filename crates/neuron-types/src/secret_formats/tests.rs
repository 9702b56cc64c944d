//! Tables of secrets that are found and of texts without a secret.
//!
//! The secrets are made up. They are assembled when a test runs, so that scanners of repositories do not report them.

use proptest::prelude::*;

use super::prefixes::{Body, FORMATS};
use super::*;

const HEX: &str = "0123456789abcdef";
const LOWER: &str = "abcdefghijklmnopqrstuvwxyz0123456789";
const UPPER: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";
const LETTERS: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
const ALNUM: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
const WORD: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
const BASE64: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// Returns the same text in each run. It looks random.
fn random(characters: &str, length: usize) -> String {
    let characters = characters.as_bytes();
    (0..length).map(|index| char::from(characters[(7 + index * 29) % characters.len()])).collect()
}

fn found(text: &str) -> Vec<&str> {
    secrets_in(text).map(|range| &text[range]).collect()
}

/// Returns a text with each secret replaced.
fn redacted(text: &str) -> String {
    let (mut redacted, mut end) = (String::new(), 0);
    for range in secrets_in(text) {
        redacted += &text[end..range.start];
        redacted += "[redacted]";
        end = range.end;
    }
    redacted + &text[end..]
}

#[track_caller]
fn check(text: &str, expected: &str) {
    assert_eq!(redacted(text), expected);
    // A text that was redacted before has no other secrets.
    assert_eq!(redacted(expected), expected);
}

/// Keys with a prefix: the vendor, the prefix, and the characters and the length of the other part.
const KEYS: &[(&str, &str, &str, usize)] = &[
    ("1Password", "ops_eyJ", BASE64, 250),
    ("AWS", "AKIA", UPPER, 16),
    ("AWS, temporary", "ASIA", UPPER, 16),
    ("Anthropic", "sk-ant-api03-", WORD, 95),
    ("Artifactory", "AKCp", ALNUM, 69),
    ("Atlassian", "ATATT3", WORD, 186),
    ("Bitbucket", "ATBB", ALNUM, 32),
    ("Brevo", "xkeysib-", HEX, 64),
    ("Cerebras", "csk-", LOWER, 48),
    ("Contentful", "CFPAT-", WORD, 43),
    ("Databricks", "dapi", HEX, 32),
    ("DeepSeek", "sk-", HEX, 32),
    ("DigitalOcean", "dop_v1_", HEX, 64),
    ("DigitalOcean, OAuth", "doo_v1_", HEX, 64),
    ("DigitalOcean, refresh", "dor_v1_", HEX, 64),
    ("Discord, webhook", "discord.com/api/webhooks/123456789012345678/", WORD, 68),
    ("Docker Hub", "dckr_pat_", WORD, 27),
    ("Doppler", "dp.pt.", ALNUM, 43),
    ("Doppler, service", "dp.st.dev.", ALNUM, 43),
    ("Dynatrace", "dt0c01.ABCDEFGHIJKLMNOPQRSTUVWX.", UPPER, 64),
    ("ElevenLabs", "sk_", HEX, 48),
    ("Figma", "figd_", WORD, 40),
    ("Fireworks", "fw_", ALNUM, 24),
    ("Fly.io", "fm2_", BASE64, 120),
    ("GitHub, app", "ghu_", ALNUM, 36),
    ("GitHub, fine-grained", "github_pat_", WORD, 82),
    ("GitHub, installation", "ghs_", ALNUM, 36),
    ("GitHub, OAuth", "gho_", ALNUM, 36),
    ("GitHub, personal", "ghp_", ALNUM, 36),
    ("GitHub, refresh", "ghr_", ALNUM, 36),
    ("GitLab", "glpat-", WORD, 20),
    ("GitLab, deployment", "gldt-", WORD, 20),
    ("GitLab, job", "glcbt-64_", WORD, 20),
    ("GitLab, runner", "glrt-", WORD, 20),
    ("GitLab, trigger", "glptt-", HEX, 40),
    ("GitLab, with a full stop", "glpat-abcdefghijklmnopqrstuvwx12.", LOWER, 9),
    ("Google", "AIza", WORD, 35),
    ("Google, access", "ya29.", WORD, 120),
    ("Google, OAuth client", "GOCSPX-", WORD, 28),
    ("Google, refresh", "1//0", WORD, 60),
    ("Grafana", "eyJrIjoi", BASE64, 80),
    ("Grafana Cloud", "glc_", BASE64, 80),
    ("Grafana, service account", "glsa_", ALNUM, 32),
    ("Groq", "gsk_", ALNUM, 52),
    ("HashiCorp Terraform", "atlasv1.", WORD, 67),
    ("HashiCorp Vault", "hvs.", WORD, 96),
    ("HashiCorp Vault, batch", "hvb.", WORD, 140),
    ("Heroku", "HRKU-AA", WORD, 58),
    ("Hugging Face", "hf_", LETTERS, 34),
    ("Hugging Face, organisation", "api_org_", LETTERS, 34),
    ("Langfuse", "sk-lf-01234567-89ab-4cde-8f01-", HEX, 12),
    ("LangSmith", "lsv2_pt_", HEX, 32),
    ("Linear", "lin_api_", ALNUM, 40),
    ("Netlify", "nfp_", ALNUM, 36),
    ("New Relic", "NRAK-", UPPER, 27),
    ("Notion", "ntn_", ALNUM, 46),
    ("Notion, older", "secret_", ALNUM, 43),
    ("NuGet", "oy2", LOWER, 43),
    ("NVIDIA", "nvapi-", WORD, 64),
    ("OpenAI", "sk-", ALNUM, 48),
    ("OpenAI, project", "sk-proj-", WORD, 156),
    ("OpenRouter", "sk-or-v1-", HEX, 64),
    ("Perplexity", "pplx-", ALNUM, 48),
    ("Pinecone", "pcsk_", WORD, 70),
    ("PlanetScale", "pscale_tkn_", WORD, 43),
    ("Postman", "PMAK-0123456789abcdef01234567-", HEX, 34),
    ("Pulumi", "pul-", HEX, 40),
    ("PyPI", "pypi-AgEIcHlwaS5vcmc", WORD, 120),
    ("Replicate", "r8_", ALNUM, 37),
    ("RubyGems", "rubygems_", HEX, 48),
    ("SendGrid", "SG.ABCDEFGHIJKLMNOPQRSTUV.", WORD, 43),
    ("Sentry", "sntryu_", HEX, 64),
    ("Sentry, organisation", "sntrys_", BASE64, 150),
    ("Shopify", "shpat_", HEX, 32),
    ("Shopify, shared", "shpss_", HEX, 32),
    ("Slack, app", "xapp-1-A0123456789-", LOWER, 64),
    ("Slack, bot", "xoxb-123456789012-123456789012-", ALNUM, 24),
    ("Slack, user", "xoxp-123456789012-123456789012-", HEX, 32),
    ("Slack, webhook", "hooks.slack.com/services/T0123ABCD/B0123ABCD/", ALNUM, 24),
    ("Square", "sq0atp-", WORD, 22),
    ("Square, newer", "EAAAE", WORD, 59),
    ("Stripe", "sk_live_", ALNUM, 24),
    ("Stripe, restricted", "rk_live_", ALNUM, 24),
    ("Stripe, test", "sk_test_", ALNUM, 24),
    ("Stripe, webhook", "whsec_", BASE64, 32),
    ("Supabase", "sbp_", HEX, 40),
    ("Tavily", "tvly-dev-", ALNUM, 32),
    ("Together", "tgp_v1_", WORD, 43),
    ("Twilio", "SK", HEX, 32),
    ("Voyage", "pa-", WORD, 43),
    ("age", "AGE-SECRET-KEY-1", UPPER, 58),
    ("crates.io", "cio", ALNUM, 32),
    ("npm", "npm_", ALNUM, 36),
    ("xAI", "xai-", ALNUM, 80),
];

#[test]
fn keys_of_each_vendor_are_found() {
    for (vendor, prefix, characters, length) in KEYS {
        let key = format!("{prefix}{}", random(characters, *length));
        assert_eq!(found(&key), [&key], "{vendor}");
        let text = format!("a={key}, \"{key}\" ä{key} (https://{key})");
        assert_eq!(found(&text), [&key; 4], "{vendor}");
        check(&format!("It is {key}."), "It is [redacted].");
    }
}

#[test]
fn every_prefix_has_its_minimum_and_follows_no_letter() {
    assert!(FORMATS.is_sorted_by_key(|(prefix, ..)| prefix));
    for (prefix, least, body) in FORMATS {
        let characters = match body {
            Body::Word | Body::Mixed | Body::Dotted => WORD,
            Body::Alnum | Body::Exact => ALNUM,
            Body::Upper => UPPER,
            Body::Hex => HEX,
            Body::Base64 => BASE64,
        };
        let key = format!("{prefix}{}", random(characters, *least));
        check(&key, "[redacted]");
        check(&format!("x{key}"), &format!("x{key}"));
        // A word is not random.
        let word = format!("{prefix}{}", "a".repeat(*least));
        check(&word, &word);
        let is_part =
            |(other, ..): &(&str, usize, Body)| other != prefix && prefix.starts_with(other);
        if !FORMATS.iter().any(is_part) {
            check(&key[..key.len() - 1], &key[..key.len() - 1]);
        }
    }
}

/// Texts with a secret, which stands for `{}`: the text, the characters and the length of the secret.
const NAMED: &[(&str, &str, usize)] = &[
    ("MISTRAL_API_KEY={}", ALNUM, 32),
    ("export COHERE_API_KEY='{}'", ALNUM, 40),
    ("CO_API_KEY: {}", ALNUM, 40),
    (r#"{"api_key": "{}", "a": 1}"#, ALNUM, 16),
    (r#"{\"apiKey\":\"{}\"}"#, HEX, 32),
    ("POST / HTTP/1.1\r\nx-api-key: {}\r\n", ALNUM, 40),
    ("api-key: {}\r\n", HEX, 32),
    ("Ocp-Apim-Subscription-Key: {}", HEX, 32),
    ("AZURE_SPEECH_KEY={}", HEX, 32),
    ("AccountName=a;AccountKey={}==;EndpointSuffix=core", BASE64, 86),
    ("SharedAccessKeyName=Root;SharedAccessKey={}", BASE64, 43),
    ("AZURE_CLIENT_SECRET={}", WORD, 40),
    ("CLOUDFLARE_API_TOKEN={}", WORD, 40),
    ("X-Auth-Key: {}", HEX, 37),
    ("aws_secret_access_key = {}", BASE64, 40),
    (r#""SecretAccessKey": "{}","#, BASE64, 40),
    ("aws_session_token={}", BASE64, 300),
    ("TWILIO_AUTH_TOKEN={}", HEX, 32),
    ("TOGETHER_API_KEY={}", HEX, 64),
    ("DISCORD_CLIENT_SECRET={}", ALNUM, 32),
    ("DD_APP_KEY={}", HEX, 40),
    ("PAGERDUTY_API_KEY={}", ALNUM, 20),
    ("NEXTAUTH_SECRET={}", ALNUM, 40),
    ("//registry.example.com/:_authToken={}", ALNUM, 36),
    ("client_secret={}&grant_type=client_credentials", ALNUM, 30),
    ("https://api.example.com/v1?token={}&page=2", ALNUM, 20),
    ("**Token:** {}", ALNUM, 20),
    ("The API key: {}.", ALNUM, 20),
    (r#"headers["X-Api-Key"] = "{}""#, ALNUM, 20),
    ("os.environ['FOO_TOKEN'] = '{}'", ALNUM, 20),
    ("token := `{}`", ALNUM, 20),
    ("'token' => '{}'", ALNUM, 20),
    ("Authorization: Bearer {}", WORD, 40),
    ("Authorization: Bearer {}", LOWER, 8),
    (r#"{"authorization": "Bearer {}"}"#, WORD, 40),
    ("curl -H 'Authorization: Token {}' https://example.org", HEX, 40),
    ("Proxy-Authorization: Basic {}=", BASE64, 19),
    ("Authorization: {}", WORD, 40),
    ("send(`Bearer {}`)", WORD, 40),
    ("bearer  {}", HEX, 32),
    ("postgres://me:{}@db.internal:5432/app?sslmode=require", LOWER, 8),
    ("redis://:{}@cache:6379/0", LETTERS, 4),
    ("https://x-access-token:{}@github.com/a/b.git", LETTERS, 8),
    ("see <mongodb+srv://me:{}@a.b.net/?x=y>", LETTERS, 8),
    ("https://api.telegram.org/bot123456789:AA{}/getMe", WORD, 33),
];

#[test]
fn values_with_names_and_credentials_are_found() {
    for (text, characters, length) in NAMED {
        let secret = random(characters, *length);
        let text = text.replace("{}", &secret);
        let text = text.as_str();
        let secrets = found(text);
        let [all] = secrets[..] else { panic!("{text}: {secrets:?}") };
        // Padding and the beginning of a Telegram token belong to the secret too.
        assert_eq!(all.trim_start_matches("AA").trim_end_matches('='), secret, "{text}");
        assert_eq!(redacted(&redacted(text)), redacted(text));
    }
    for (text, secret) in [
        (
            "HEROKU_API_KEY=01234567-89ab-4cde-8f01-23456789abcd",
            "01234567-89ab-4cde-8f01-23456789abcd",
        ),
        ("password: P@ssw0rd!2024#long-one", "P@ssw0rd!2024#long-one"),
        ("amqps://me:a:b@c@host/", "a:b@c"),
        ("https://me:pässword@host", "pässword"),
        ("https://me:p%40ss@host", "p%40ss"),
        ("Authorization: Basic bWU6cHdk", "bWU6cHdk"),
    ] {
        assert_eq!(found(text), [secret]);
    }
}

#[test]
fn tokens_with_parts_are_found() {
    let part = |length: usize| random(WORD, length);
    for token in [
        // Signed JSON Web Tokens.
        format!("eyJ{}.eyJ{}.{}", part(17), part(40), part(43)),
        format!("eyJ{}.e30.{}", part(17), part(43)),
        // Cut before the signature.
        format!("eyJ{}.eyJ{}", part(17), part(40)),
        // Encrypted JSON Web Tokens.
        format!("eyJ{}.{}.{}.{}.{}", part(30), part(43), part(16), part(60), part(22)),
        format!("eyJ{}..{}.{}.{}", part(30), part(16), part(60), part(22)),
        // Discord.
        format!("MTE4{}.G{}.{}", random(ALNUM, 22), random(ALNUM, 5), part(38)),
    ] {
        check(&token, "[redacted]");
        check(&format!("a \"{token}\", {token}."), "a \"[redacted]\", [redacted].");
    }
}

/// Regression test for `\n` and others: the letter before the key was treated as the beginning of a word.
#[test]
fn key_after_escape_sequence_or_without_space_is_found() {
    let key = &format!("sk-{}", random(ALNUM, 21));
    for before in [
        r"\n",
        r"\t",
        r"\r",
        r"\b",
        r"\f",
        r"\u001b",
        r"\u00E4",
        "%3D",
        "%20",
        "\x1b[m",
        "\x1b[1;32m",
        r"\u001b[0m",
        r"\u001B[31m",
        "密钥是",
        "é",
        "_",
        "-",
    ] {
        check(&format!("a{before}{key} b"), &format!("a{before}[redacted] b"));
    }
    for before in ["n", "ta", "u001b", "3D", "[m", "0m", "%3Da", r"\u001", "é1"] {
        check(&format!("a{before}{key} b"), &format!("a{before}{key} b"));
    }
}

#[test]
fn private_keys_are_found_to_their_end() {
    let line = |side: &str, kind: &str| format!("-----{side} {kind}PRIVATE KEY-----");
    check(&format!("x{}\nabc", line("BEGIN", "")), "x[redacted]");
    for kind in ["", "RSA ", "EC ", "OPENSSH ", "ENCRYPTED "] {
        let key = format!("{}\nMIIE\nabc==\n{}", line("BEGIN", kind), line("END", kind));
        check(&format!("a {key}\nb {key}"), "a [redacted]\nb [redacted]");
        for (end, _) in key.char_indices().skip(line("BEGIN", kind).len()) {
            check(&key[..end], "[redacted]");
        }
    }
    let block = |side: &str| line(side, "PGP ").replace("KEY", "KEY BLOCK");
    check(&format!("{}\n\nabc\n{}\n", block("BEGIN"), block("END")), "[redacted]\n");
    let public = "-----BEGIN CERTIFICATE-----\nMIIE\n-----END CERTIFICATE-----";
    check(public, public);
    check(&format!("{public} and PRIVATE KEY-----"), &format!("{public} and PRIVATE KEY-----"));
}

#[test]
fn ordinary_texts_have_no_secret() {
    for text in [
        "",
        "550e8400-e29b-41d4-a716-446655440000",
        "commit 3f786850e387550fdab836ed7e6dc881de23001b",
        "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
        "checksum = \"e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855\"",
        "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJ0123456789abcdefghijklmnopqrstuvwxyzABCD me@host",
        "![](data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==)",
        // URLs and addresses without a password.
        "https://user@example.org/a?b=c#d",
        "git@github.com:rust-lang/rust.git",
        "ssh://git@github.com:22/a/b",
        "http://localhost:8080/@scope/pkg",
        "http://localhost:8080?mail=me@host",
        "https://medium.com/@me:you/x",
        "mail me@host or you:me@host",
        "://a:b@c",
        // Prose.
        "A Bearer token is a string that a server accepts from every bearer of it.",
        "Authorization: Bearer authentication is required",
        "Send the header Authorization: Bearer, and a token",
        "the bearer certificate-of-the-edition-2024 and bearer 1234",
        "The password: it has 16 characters, the token: at least 20characters",
        "ask-me-about-something-quite-long-2024",
        "<div class=\"sk-toggleable__content sk-estimator-doc-link\">",
        "near harrisburg-pa-apartments-for-rent-under-1000-dollars-a-month",
        // Placeholders.
        "sk-...",
        "sk-8",
        "sk-xxxxxxxxxxxxxxxxxxxxxxxxxxxx",
        "sk-ant-api03-xxxxxxxxxxxxxxxxxxxxxxxxxxxx",
        "sk-ant-api03-...",
        "sk-your-key-goes-here-2024",
        "ghp_xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx",
        "xoxb-your-token",
        concat!("AKIA", "IOSFODNN7EXAMPLE"),
        "eyJ...",
        "eyJhbGciOi...",
        "YOUR_API_KEY_1234567890",
        "API_KEY=YOUR_API_KEY_1234567890",
        "API_KEY=<token>",
        "API_KEY=...",
        "API_KEY=${TOKEN}",
        "API_KEY=$API_KEY1234567890",
        "token: {{ secrets.GITHUB_TOKEN_2 }}",
        "password=****************",
        "password: xxxxxxxxxxxxxxxx",
        "secret=00000000000000000000000a",
        "PASSWORD=[redacted], TOKEN=[KEY], a=[secret:token]",
        "Authorization: Bearer <token>",
        "Authorization: Bearer $TOKEN_12345",
        "Authorization: Bearer ${TOKEN}",
        "Authorization: Bearer {token}",
        "Authorization: Bearer xxxxxxxx",
        "Authorization: Bearer YOUR_TOKEN_1",
        "postgres://user:${PASSWORD}@host/db",
        "postgres://user:<password>@host/db",
        "postgres://{user}:{password}@{host}",
        "https://user:***@host",
        "https://user:xxxx@host",
        "https://user:[redacted]@host",
        // Tokens that a caller has to send back, and names of data.
        r#""nextPageToken": "CAUQAA1234567890abcdefgh""#,
        r#""NextContinuationToken": "1ueGcxLPRx1Tr/XYExHnhbYLgveDs2J/wm36Hy4vbOwM=""#,
        r#"{"next_token": "a1b2c3d4e5f6a7b8c9d0"}"#,
        "Next page token: a1b2c3d4e5f6a7b8c9d0",
        "csrf_token=a1b2c3d4e5f6a7b8c9d0&x-xsrf-token: a1b2c3d4e5f6a7b8c9d0",
        "cursor=eyJpZCI6MTIzNDU2Nzg5MCwibmFtZSI6ImEifQ",
        r#"{"key": "a1b2c3d4e5f6a7b8c9d0", "object_key": "a1b2c3d4e5f6a7b8c9d0"}"#,
        "CACHE_KEY=v1-linux-a1b2c3d4e5f6a7b8c9d0",
        "cache_key: cargo-linux-a1b2c3d4e5f6a7b8c9d0",
        "PRIMARY_KEY=a1b2c3d4e5f6a7b8c9d0",
        "max_tokens: 1024, tokens=a1b2c3d4e5f6a7b8c9d0",
        "id: call_a1b2c3d4e5f6a7b8c9d0, toolu_01A09q90qw90lq917835lq9, chatcmpl-a1b2c3d4e5f6a7b8c9d0",
        "model: claude-3-5-sonnet-20241022",
        // Code and paths.
        "api_key=os.environ['OPENAI_API_KEY_2']",
        "api_key = settings.OPENAI_API_KEY_V2",
        "let token = base64_encode1234567(value);",
        "fn secret(token: CancellationToken, password: Option<String>) -> u64",
        "secret::Key1234567890abcdef",
        "SECRET=/run/secrets/password12345678",
        "SECRET: kv/data/production1/password12345678",
        "pwd=/home/me/project12345678",
        "token: https://example.org/a1b2c3d4e5f6a7b8c9d0",
        "secret: arn:aws:secretsmanager:us-east-1:123456789012:secret:name-AbCdEf",
        "gsk_gl_shader_args_builder_set_vec2",
        "npm_package_dependencies_lodash_and_others_4",
        "hf_hub_download_with_retries_and_cache_2",
        "android.service.notification.NotificationListenerService.action.BIND_NOTIFICATION_LISTENER",
        "12:34:56:AABBCC 123456:AA",
        "| token | `abc` |\n|---|---|\n- **key**: see [docs](https://example.org/a1b2c3d4e5f6a7b8c9d0)",
    ] {
        check(text, text);
    }
}

#[test]
fn name_of_field_shows_that_its_value_is_secret() {
    fn found<'t>(name: &str, text: &'t str) -> Vec<&'t str> {
        secrets_in_field(name, text).map(|range| &text[range]).collect()
    }
    let key = random(ALNUM, 32);
    for name in ["api_key", "apiKey", "X-Api-Key", "client_secret", "PASSWORD", "MISTRAL_KEY"] {
        assert_eq!(found(name, &key), [&key], "{name}");
        assert!(found(name, "<token>").is_empty(), "{name}");
    }
    for name in ["", "key", "id", "object_key", "nextPageToken", "tokens"] {
        assert!(found(name, &key).is_empty(), "{name}");
    }
    assert_eq!(found("Authorization", &format!("Bearer {key}")), [&key]);
    // The text behind the value of the field is searched too.
    let other = format!("sk-{key}");
    assert_eq!(found("token", &format!("{key} {other}")), [&key, &other]);
    assert_eq!(found("message", &other), [&other]);
}

/// With quadratic time, this test would not end.
#[test]
fn time_is_linear_in_hostile_texts() {
    const BYTES: usize = 1_000_000;
    for part in [
        ".",
        "-",
        "\"",
        " ",
        "é",
        "A",
        "M.",
        "1;",
        "\\n",
        "%3D",
        "eyJ",
        "eyJaaaaaaaaaaaaaa.",
        "eyJ-",
        "sk-",
        "-sk-a",
        "hf_",
        "1m",
        "\x1b[1;",
        "=",
        ":",
        "://",
        "http://a:",
        "a://b:c",
        "token=",
        "token = ",
        "token:\"",
        "_KEY=",
        "a@b:",
        "Bearer ",
        "authorization: bearer ",
        "123456:AA",
        "123456:AA-",
        "MMMMMMMMMMMMMMMMMMMMMMMM.",
        "-----BEGIN ",
        "-----BEGIN PRIVATE KEY-",
        "-----BEGIN a-----",
    ] {
        let key = format!(" sk-{}", random(ALNUM, 48));
        let text = part.repeat(BYTES / part.len()) + &key;
        let last = secrets_in(&text).last();
        assert_eq!(last.map(|range| range.end), Some(text.len()), "{part}");
    }
}

proptest! {
    /// Any text has ranges in ascending order, at the boundaries of characters.
    #[test]
    fn ranges_are_valid(
        parts in prop::collection::vec(
            prop_oneof![
                prop::sample::select(FORMATS).prop_map(|(prefix, ..)| prefix.to_owned()),
                "[A-Za-z0-9_-]{1,60}",
                prop::sample::select(vec![
                    "token", "api_key", "Authorization", "Bearer ", "Basic ", "://", "a:", "@", "=", ": ", "\"",
                    "\\n", ".", "eyJ", "-----BEGIN PRIVATE KEY-----", "-----END PRIVATE KEY-----", " ", "ä", "密",
                ]).prop_map(str::to_owned),
            ],
            0..20,
        ),
    ) {
        let text = parts.concat();
        let mut end = 0;
        for range in secrets_in(&text) {
            prop_assert!(range.start >= end && range.end > range.start);
            prop_assert!(text.get(range.clone()).is_some());
            end = range.end;
        }
        prop_assert!(end <= text.len());
    }
}
