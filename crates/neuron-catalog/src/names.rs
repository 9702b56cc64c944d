//! The names of vendors and models.
//!
//! Requests name models in more ways than a price list: with a date, a version, a region, or the name of the vendor.
//! Only these parts are removed. A name that still differs is unknown, because a model with a similar name may have
//! another price.

/// Names of vendors in telemetry and in other libraries, and the names of the catalogue.
pub(crate) const VENDORS: &[(&str, &str)] = &[
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
