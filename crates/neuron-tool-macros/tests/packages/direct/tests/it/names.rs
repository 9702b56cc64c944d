//! Tests of the names of tools and of generated items.

use syn::Ident;

use source::{item, problem, snake_case};

// A crate of macros exports only its macros, so the module is compiled into the tests.
#[path = "../../../../../src/names.rs"]
mod source;

fn ident(name: &str) -> Ident {
    syn::parse_str(name).unwrap()
}

#[test]
fn item_names_are_camel_case() {
    for (name, expected) in [
        ("get_weather", "GetWeatherTool"),
        ("lookup", "LookupTool"),
        ("r#type", "TypeTool"),
        ("_private", "PrivateTool"),
        ("a__b", "ABTool"),
        ("get_2d", "Get2dTool"),
        ("_2d", "_2dTool"),
        ("über", "ÜberTool"),
        ("getURL", "GetURLTool"),
    ] {
        assert_eq!(item(&ident(name), "Tool"), expected, "{name}");
    }
}

#[test]
fn tool_names_are_snake_case() {
    for (name, expected) in [
        ("ReadFile", "read_file"),
        ("Now", "now"),
        ("HTTPGet", "http_get"),
        ("GetURL", "get_url"),
        ("Get2D", "get2_d"),
        ("already_snake", "already_snake"),
        ("A", "a"),
    ] {
        assert_eq!(snake_case(&ident(name)), expected, "{name}");
    }
}

#[test]
fn invalid_names_are_refused() {
    for name in ["a", "A-9_z", &"x".repeat(64)] {
        assert_eq!(problem(name), None, "{name}");
    }
    for name in ["", "a b", "a.b", "ä", "a\n", &"x".repeat(65)] {
        assert!(problem(name).is_some(), "{name}");
    }
}
