//! Names: what a tool may be called, and what its items are called.

use syn::Ident;
use syn::ext::IdentExt;

/// The longest name that every vendor takes.
const LONGEST: usize = 64;

/// Why no vendor would take a tool of this name.
pub(crate) fn problem(name: &str) -> Option<&'static str> {
    let is_allowed = |char: char| char.is_ascii_alphanumeric() || char == '_' || char == '-';
    if name.is_empty() || name.len() > LONGEST || !name.chars().all(is_allowed) {
        Some("a tool's name has 1 to 64 ASCII letters, digits, `_` or `-`")
    } else {
        None
    }
}

/// `get_weather` and `Tool` make `GetWeatherTool`.
pub(crate) fn item(name: &Ident, suffix: &str) -> Ident {
    let mut camel = String::new();
    for word in name.unraw().to_string().split('_') {
        let mut chars = word.chars();
        camel.extend(chars.next().into_iter().flat_map(char::to_uppercase));
        camel.push_str(chars.as_str());
    }
    if camel.starts_with(|first: char| first.is_ascii_digit()) {
        camel.insert(0, '_');
    }
    Ident::new(&format!("{camel}{suffix}"), name.span())
}

/// `ReadFile` makes `read_file`, `HTTPGet` makes `http_get`.
pub(crate) fn snake_case(name: &Ident) -> String {
    let chars: Vec<char> = name.unraw().to_string().chars().collect();
    let is_upper = |index: usize| chars.get(index).is_some_and(|char| char.is_uppercase());
    let mut snake = String::new();
    for (index, char) in chars.iter().enumerate() {
        let follows_lower = index > 0 && !is_upper(index - 1);
        let precedes_lower = chars.get(index + 1).is_some_and(|next| next.is_lowercase());
        if is_upper(index) && index > 0 && (follows_lower || precedes_lower) {
            snake.push('_');
        }
        snake.extend(char.to_lowercase());
    }
    snake
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ident(name: &str) -> Ident {
        syn::parse_str(name).unwrap()
    }

    #[test]
    fn items_are_in_camel_case() {
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
    fn names_are_in_snake_case() {
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
    fn a_name_is_one_that_every_vendor_takes() {
        for name in ["a", "A-9_z", &"x".repeat(64)] {
            assert_eq!(problem(name), None, "{name}");
        }
        for name in ["", "a b", "a.b", "ä", "a\n", &"x".repeat(65)] {
            assert!(problem(name).is_some(), "{name}");
        }
    }
}
