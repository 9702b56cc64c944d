//! Names of tools and of generated items.

use syn::Ident;
use syn::ext::IdentExt;

/// Maximum length of a tool name in bytes. Every vendor accepts names of this length.
const MAX_LENGTH: usize = 64;

/// Returns the reason why vendors would reject a tool name. Returns `None` for a valid name.
pub(crate) fn problem(name: &str) -> Option<&'static str> {
    let is_allowed = |char: char| char.is_ascii_alphanumeric() || char == '_' || char == '-';
    if name.is_empty() || name.len() > MAX_LENGTH || !name.chars().all(is_allowed) {
        Some("a tool's name has 1 to 64 ASCII letters, digits, `_` or `-`")
    } else {
        None
    }
}

/// Creates the name of a generated item in camel case. `get_weather` and `Tool` become `GetWeatherTool`.
pub(crate) fn item(name: &Ident, suffix: &str) -> Ident {
    let mut camel = String::new();
    for word in name.unraw().to_string().split('_') {
        let mut chars = word.chars();
        camel.extend(chars.next().into_iter().flat_map(char::to_uppercase));
        camel.push_str(chars.as_str());
    }
    // Leading underscores were removed, so the name may start with a digit. An identifier must not start with a digit.
    if camel.starts_with(|first: char| first.is_ascii_digit()) {
        camel.insert(0, '_');
    }
    Ident::new(&format!("{camel}{suffix}"), name.span())
}

/// Converts the name of a struct to snake case. `ReadFile` becomes `read_file`, and `HTTPGet` becomes `http_get`.
pub(crate) fn snake_case(name: &Ident) -> String {
    let chars: Vec<char> = name.unraw().to_string().chars().collect();
    let is_upper = |index: usize| chars.get(index).is_some_and(|char| char.is_uppercase());
    let mut snake = String::new();
    for (index, char) in chars.iter().enumerate() {
        // A word starts at a capital letter that follows a small letter, or that precedes a small letter, as the `G` in
        // `HTTPGet`.
        let follows_lower = index > 0 && !is_upper(index - 1);
        let precedes_lower = chars.get(index + 1).is_some_and(|next| next.is_lowercase());
        if is_upper(index) && index > 0 && (follows_lower || precedes_lower) {
            snake.push('_');
        }
        snake.extend(char.to_lowercase());
    }
    snake
}
