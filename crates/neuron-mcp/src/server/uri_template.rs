//! [`UriTemplate`], which matches URIs against URI templates (RFC 6570).

use std::collections::HashMap;

/// A parsed URI template.
#[derive(Debug, Clone)]
pub(crate) struct UriTemplate(Vec<Part>);

/// A part of a template, which is literal text or a variable.
#[derive(Debug, Clone, PartialEq)]
enum Part {
    /// Literal text, which a URI must contain unchanged.
    Literal(String),
    /// A variable whose value contains no `/`, `?` or `#`, as in `{name}`. Contains the variable's name.
    Simple(String),
    /// A variable whose value may contain any characters, as in `{+name}`. Contains the variable's name.
    Reserved(String),
    /// Variables for query parameters, as in `{?name,…}`. The parameters are optional and may appear in any order.
    Query(Vec<String>),
}

impl UriTemplate {
    /// Parses a template. An opening brace without a closing brace becomes literal text.
    pub(crate) fn new(template: &str) -> Self {
        let mut parts = Vec::new();
        let mut rest = template;
        while let Some((literal, after)) = rest.split_once('{') {
            let Some((expression, after)) = after.split_once('}') else { break };
            push_literal(&mut parts, literal);
            push_expression(&mut parts, expression);
            rest = after;
        }
        push_literal(&mut parts, rest);
        Self(parts)
    }

    /// Returns the variables of a URI by name, percent-decoded. Returns `None` if the URI does not match the template.
    pub(crate) fn matches(&self, uri: &str) -> Option<HashMap<String, String>> {
        let mut variables = HashMap::new();
        let mut rest = uri;
        for (index, part) in self.0.iter().enumerate() {
            match part {
                Part::Literal(literal) => rest = rest.strip_prefix(literal.as_str())?,
                Part::Simple(name) | Part::Reserved(name) => {
                    let is_reserved = matches!(part, Part::Reserved(_));
                    let end =
                        value_end(rest, self.0.get(index + 1..).unwrap_or_default(), is_reserved)?;
                    let (value, after) = rest.split_at_checked(end)?;
                    if value.is_empty() || (!is_reserved && value.contains(['/', '?', '#'])) {
                        return None;
                    }
                    variables.insert(name.clone(), decode(value)?);
                    rest = after;
                }
                Part::Query(names) => {
                    if let Some(query) = rest.strip_prefix('?') {
                        for pair in query.split('&') {
                            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
                            if names.iter().any(|known| known == name) {
                                variables.insert(name.to_owned(), decode(value)?);
                            }
                        }
                        rest = "";
                    }
                }
            }
        }
        rest.is_empty().then_some(variables)
    }
}

/// Returns the byte index in `rest` at which the value of a variable ends. `following` are the parts of the template
/// after the variable. Returns `None` if they begin with a literal text that `rest` does not contain.
///
/// `is_reserved` is `true` for a variable such as `{+name}`, whose value may contain any characters.
fn value_end(rest: &str, following: &[Part], is_reserved: bool) -> Option<usize> {
    match following {
        [] => Some(rest.len()),
        [Part::Literal(literal)] => rest.strip_suffix(literal.as_str()).map(str::len),
        // The value may contain the literal too, so the last occurrence ends the value.
        [Part::Literal(literal), ..] if is_reserved => rest.rfind(literal.as_str()),
        [Part::Literal(literal), ..] => rest.find(literal.as_str()),
        [Part::Query(_), ..] => Some(rest.find('?').unwrap_or(rest.len())),
        // Two adjacent variables have no separator. The first variable gets the text before the next `/`.
        _ => Some(rest.find('/').unwrap_or(rest.len())),
    }
}

/// Adds literal text to the parts of a template. Appends the text to the last part if that is literal text too.
fn push_literal(parts: &mut Vec<Part>, literal: &str) {
    match parts.last_mut() {
        _ if literal.is_empty() => {}
        Some(Part::Literal(before)) => before.push_str(literal),
        _ => parts.push(Part::Literal(literal.to_owned())),
    }
}

/// Adds the parts of an expression, such as `+path`. An expression is the text between `{` and `}`.
fn push_expression(parts: &mut Vec<Part>, expression: &str) {
    // The modifier `*` for lists is ignored, because a value is always one string.
    let name = |text: &str| text.trim_end_matches('*').to_owned();
    if let Some(reserved) = expression.strip_prefix(['+', '#']) {
        if expression.starts_with('#') {
            push_literal(parts, "#");
        }
        parts.push(Part::Reserved(name(reserved)));
    } else if let Some(segments) = expression.strip_prefix('/') {
        for segment in segments.split(',') {
            push_literal(parts, "/");
            parts.push(Part::Simple(name(segment)));
        }
    } else if let Some(query) = expression.strip_prefix(['?', '&']) {
        parts.push(Part::Query(query.split(',').map(name).collect()));
    } else {
        for (index, variable) in expression.split(',').enumerate() {
            if index > 0 {
                push_literal(parts, ",");
            }
            parts.push(Part::Simple(name(variable)));
        }
    }
}

/// Decodes percent-encoded text. Returns `None` if an escape sequence is invalid or the result is not UTF-8.
fn decode(value: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(value.len());
    let mut rest = value.as_bytes();
    while let [first, after @ ..] = rest {
        rest = after;
        if *first != b'%' {
            bytes.push(*first);
            continue;
        }
        let (digits, after) = rest.split_at_checked(2)?;
        // `from_str_radix` accepts a leading plus sign.
        let digits = std::str::from_utf8(digits).ok().filter(|digits| !digits.starts_with('+'))?;
        bytes.push(u8::from_str_radix(digits, 16).ok()?);
        rest = after;
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(template: &str, uri: &str, expected: Option<&[(&str, &str)]>) {
        let expected = expected.map(|pairs| {
            pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
        });
        assert_eq!(UriTemplate::new(template).matches(uri), expected, "{template} {uri}");
    }

    #[test]
    fn matching_uri_yields_its_decoded_variables() {
        check("test://x", "test://x", Some(&[]));
        check("test://x", "test://y", None);
        check("test://{id}/data", "test://7/data", Some(&[("id", "7")]));
        check("test://{id}/data", "test://7/other", None);
        check("test://{id}/data", "test:///data", None);
        check("test://{id}/data", "test://7/8/data", None);
        check("file:///{+path}", "file:///a/b.txt", Some(&[("path", "a/b.txt")]));
        check("file:///{path}", "file:///a/b.txt", None);
        check("file:///{path}", "file:///a%2Fb%20c", Some(&[("path", "a/b c")]));
        check("x://{name}.{ext}", "x://a.b.c", Some(&[("name", "a"), ("ext", "b.c")]));
        check(
            "x://{+path}/raw/{id}",
            "x://a/raw/b/raw/1",
            Some(&[("path", "a/raw/b"), ("id", "1")]),
        );
        check("x:/{/a,b}", "x://1/2", Some(&[("a", "1"), ("b", "2")]));
        check("x://{a,b}", "x://1,2", Some(&[("a", "1"), ("b", "2")]));
    }

    #[test]
    fn query_parameters_are_optional_and_unordered() {
        let template = "x://find{?q,page}";
        check(template, "x://find", Some(&[]));
        check(template, "x://find?page=2&q=a%26b", Some(&[("q", "a&b"), ("page", "2")]));
        check(template, "x://find?q=1&other=2", Some(&[("q", "1")]));
        check("x://{id}{?q}", "x://7?q=1", Some(&[("id", "7"), ("q", "1")]));
    }

    #[test]
    fn invalid_percent_encoding_does_not_match() {
        for uri in ["x://%", "x://%f", "x://%ff", "x://%+1", "x://%zz", "x://%é"] {
            check("x://{id}", uri, None);
        }
    }

    #[test]
    fn unclosed_brace_is_literal_text() {
        check("x://{id", "x://{id", Some(&[]));
        check("x://{a}/{id", "x://1/{id", Some(&[("a", "1")]));
    }
}
