//! The names of vendors and models.
//!
//! Requests name models in more ways than a price list: with a date, a version, a region, or the name of the vendor.
//! Only these parts are removed. A name that still differs is unknown, because a model with a similar name may have
//! another price.

/// Names of vendors in telemetry and in other libraries, and the names of the catalogue.
const VENDORS: &[(&str, &str)] = &[
    ("amazon-bedrock", "bedrock"),
    ("aws", "bedrock"),
    ("aws.bedrock", "bedrock"),
    ("aws_bedrock", "bedrock"),
    ("az.ai.inference", "azure"),
    ("az.ai.openai", "azure"),
    ("azure.ai.inference", "azure"),
    ("azure.ai.openai", "azure"),
    ("azure_openai", "azure"),
    ("fireworks-ai", "fireworks"),
    ("fireworks_ai", "fireworks"),
    ("gcp.gemini", "google"),
    ("gcp.gen_ai", "google"),
    ("gcp.vertex_ai", "google"),
    ("gemini", "google"),
    ("google-vertex", "google"),
    ("mistral_ai", "mistral"),
    ("mistralai", "mistral"),
    ("moonshot", "moonshotai"),
    ("together-ai", "together"),
    ("together_ai", "together"),
    ("togetherai", "together"),
    ("vertex", "google"),
    ("vertex_ai", "google"),
    ("vertexai", "google"),
    ("x-ai", "xai"),
    ("x_ai", "xai"),
    ("z-ai", "zai"),
];

/// Prefixes of the regions in names of Bedrock, except `global`.
const REGIONS: [&str; 9] = ["us", "eu", "apac", "jp", "au", "us-gov", "ca", "in", "uk"];

/// Returns the catalogue's name of a vendor, in lower case.
pub(crate) fn vendor(name: &str) -> String {
    let name = name.trim().to_ascii_lowercase();
    let known = VENDORS.iter().find(|(other, _)| *other == name);
    known.map_or(name, |(_, vendor)| (*vendor).to_owned())
}

/// Returns the vendors that may have the price of a model of this vendor, in the order in which they are asked.
pub(crate) fn vendors(vendor: &str) -> &'static [&'static str] {
    match vendor {
        // Azure and Vertex AI sell the models of other vendors at the vendors' prices, unless they have their own.
        "azure" => &["openai", "anthropic", "deepseek", "xai", "moonshotai"],
        "google" => &["anthropic"],
        _ => &[],
    }
}

/// Returns the forms of a model's name in the order in which they are looked up. The first form is the exact name.
pub(crate) fn forms(vendor: &str, model: &str) -> Vec<String> {
    let exact = model.trim().to_ascii_lowercase();
    let mut forms = vec![exact.clone()];
    let mut add = |form: String| {
        if !forms.contains(&form) {
            forms.push(form);
        }
    };
    let plain = without_prefix(vendor, &exact);
    add(plain.to_owned());
    for name in [plain, without_version(vendor, plain)] {
        for name in [name, without_date(vendor, name)] {
            let name = name.strip_suffix("-latest").unwrap_or(name);
            add(name.to_owned());
            if vendor == "bedrock" {
                regional(name).into_iter().for_each(&mut add);
            }
        }
    }
    if let Some(tuned) = plain.strip_prefix("ft:").and_then(|name| name.split(':').next()) {
        add(format!("ft:{}", without_date(vendor, tuned)));
    }
    forms
}

/// Removes the vendor before the name, for example of `models/gemini-3-pro` and `anthropic/claude-opus-5`.
fn without_prefix<'a>(vendor: &str, model: &'a str) -> &'a str {
    let short = match model.rsplit_once('/') {
        // `publishers/google/models/NAME` and `models/NAME`.
        Some((path, name)) if vendor == "google" && path.ends_with("models") => name,
        _ => model,
    };
    let after = short.strip_prefix(vendor).and_then(|rest| rest.strip_prefix('/'));
    after.unwrap_or(short)
}

/// Removes the version of a name of Bedrock, for example `-v1:0`.
fn without_version<'a>(vendor: &str, model: &'a str) -> &'a str {
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let is_version = |text: &str| match text.split_once(':') {
        Some((version, part)) => is_number(version) && is_number(part),
        None => is_number(text),
    };
    match model.rsplit_once("-v") {
        Some((name, version)) if vendor == "bedrock" && is_version(version) => name,
        _ => model,
    }
}

/// Removes the date of a snapshot, for example `-20250929`, `@20250929` or `-2025-09-29`, and of Google's names also
/// `-09-2025`, `-09-25` and `-001`.
fn without_date<'a>(vendor: &str, model: &'a str) -> &'a str {
    let patterns: &[&str] = match vendor {
        "google" => &["-20dddddd", "@20dddddd", "-20dd-dd-dd", "-dd-20dd", "-dd-dd", "-ddd"],
        _ => &["-20dddddd", "@20dddddd", "-20dd-dd-dd"],
    };
    let matches = |pattern: &&&str| {
        let end = model.len().checked_sub(pattern.len()).and_then(|start| model.get(start..));
        end.is_some_and(|end| {
            end.bytes().zip(pattern.bytes()).all(|(byte, expected)| match expected {
                b'd' => byte.is_ascii_digit(),
                _ => byte == expected,
            })
        })
    };
    let found = patterns.iter().find(matches);
    let start = found.and_then(|pattern| model.len().checked_sub(pattern.len()));
    start.and_then(|start| model.get(..start)).unwrap_or(model)
}

/// Returns the other names of a model of Bedrock. The price is the same in all regions, except if the profile is
/// global.
fn regional(model: &str) -> Vec<String> {
    let region = model.split_once('.').filter(|(region, _)| REGIONS.contains(region));
    match region {
        Some((_, name)) => vec![format!("regional.{name}"), name.to_owned()],
        None if model.starts_with("global.") => Vec::new(),
        None => vec![format!("regional.{model}")],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn finds(vendor: &str, model: &str, listed: &str) {
        let forms = forms(vendor, model);
        assert!(forms.iter().any(|form| form == listed), "{listed} is not in {forms:?}");
    }

    #[test]
    fn names_with_a_date_or_a_vendor_are_recognised() {
        finds("anthropic", "claude-sonnet-4-5-20250929", "claude-sonnet-4-5");
        finds("anthropic", "Claude-Sonnet-4-5@20250929", "claude-sonnet-4-5");
        finds("anthropic", "anthropic/claude-sonnet-4-5", "claude-sonnet-4-5");
        finds("openai", "gpt-5.4-mini-2026-03-17", "gpt-5.4-mini");
        finds("openai", "ft:gpt-4o-2024-08-06:acme::9f", "ft:gpt-4o");
        finds("google", "models/gemini-2.5-flash-preview-09-2025", "gemini-2.5-flash-preview");
        finds("google", "publishers/google/models/gemini-2.0-flash-001", "gemini-2.0-flash");
        finds("google", "google/gemini-3-pro-preview", "gemini-3-pro-preview");
    }

    #[test]
    fn names_of_bedrock_with_a_region_and_a_version_are_recognised() {
        finds(
            "bedrock",
            "us.anthropic.claude-opus-4-5-20251101-v1:0",
            "regional.anthropic.claude-opus-4-5",
        );
        finds("bedrock", "anthropic.claude-sonnet-5-5", "regional.anthropic.claude-sonnet-5-5");
        finds("bedrock", "global.anthropic.claude-opus-4-6-v1", "global.anthropic.claude-opus-4-6");
        finds("bedrock", "eu.amazon.nova-lite-v1:0", "amazon.nova-lite");
        let global = forms("bedrock", "global.anthropic.claude-opus-4-6-v1");
        assert!(global.iter().all(|form| form.starts_with("global.")), "{global:?}");
    }

    #[test]
    fn similar_names_are_other_models() {
        for (vendor, model, other) in [
            ("openai", "gpt-5.4-mini", "gpt-5.4"),
            ("openai", "gpt-4o-001", "gpt-4o"),
            ("anthropic", "claude-sonnet-4-6-fast", "claude-sonnet-4-6"),
            ("anthropic", "claude-sonnet-4-6-v1:0", "claude-sonnet-4-6"),
            ("openrouter", "openai/gpt-4o:nitro", "openai/gpt-4o"),
        ] {
            assert!(!forms(vendor, model).iter().any(|form| form == other), "{model}");
        }
    }

    #[test]
    fn vendors_have_other_names() {
        assert_eq!(vendor("aws.bedrock"), "bedrock");
        assert_eq!(vendor(" Gemini "), "google");
        assert_eq!(vendor("acme"), "acme");
        assert!(VENDORS.is_sorted());
    }

    #[test]
    fn any_text_is_a_name() {
        for model in
            ["", "-", "ü-20250929", "/", "models/", "ft:", ":", "-v:", "20250929", "ü@2025092ü"]
        {
            for vendor in ["google", "bedrock", "openai", ""] {
                assert_eq!(forms(vendor, model)[0], model);
            }
        }
    }
}
