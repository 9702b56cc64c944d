//! Tests of the forms of the names of models and vendors.

use source::{VENDORS, forms, vendor};

// The module is private, so it is compiled into the tests.
#[path = "../../src/names.rs"]
#[expect(dead_code, reason = "these tests use only a part of the module")]
mod source;

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
