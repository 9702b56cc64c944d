//! Matching of URIs against URI templates (RFC 6570).

use std::collections::HashMap;

/// A parsed template.
#[derive(Debug, Clone)]
pub(crate) struct UriTemplate(Vec<Part>);

#[derive(Debug, Clone, PartialEq)]
enum Part {
    /// Literal text.
    Literal(String),
    /// At most one segment, as in `{name}`.
    Simple(String),
    /// Any characters, as in `{+name}`.
    Reserved(String),
    /// Query parameters, each optional and in any order, as in `{?name,…}`.
    Query(Vec<String>),
}

impl UriTemplate {
    /// Parses a template. Unsupported expressions become literal text.
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

    /// Returns the decoded variables of a URI, or `None` if the URI does not match.
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

/// Returns the end of a variable's value, just before the following part of the template.
fn value_end(rest: &str, following: &[Part], is_reserved: bool) -> Option<usize> {
    match following {
        [] => Some(rest.len()),
        [Part::Literal(literal)] => rest.strip_suffix(literal.as_str()).map(str::len),
        [Part::Literal(literal), ..] if is_reserved => rest.rfind(literal.as_str()),
        [Part::Literal(literal), ..] => rest.find(literal.as_str()),
        [Part::Query(_), ..] => Some(rest.find('?').unwrap_or(rest.len())),
        // If two variables are adjacent, the first takes one segment.
        _ => Some(rest.find('/').unwrap_or(rest.len())),
    }
}

fn push_literal(parts: &mut Vec<Part>, literal: &str) {
    match parts.last_mut() {
        _ if literal.is_empty() => {}
        Some(Part::Literal(before)) => before.push_str(literal),
        _ => parts.push(Part::Literal(literal.to_owned())),
    }
}

fn push_expression(parts: &mut Vec<Part>, expression: &str) {
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

/// Decodes percent-encoding. Returns `None` if the result is not valid text.
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
    fn variables_are_found() {
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
    fn parameters_come_in_any_order_and_may_be_missing() {
        let template = "x://find{?q,page}";
        check(template, "x://find", Some(&[]));
        check(template, "x://find?page=2&q=a%26b", Some(&[("q", "a&b"), ("page", "2")]));
        check(template, "x://find?q=1&other=2", Some(&[("q", "1")]));
        check("x://{id}{?q}", "x://7?q=1", Some(&[("id", "7"), ("q", "1")]));
    }

    #[test]
    fn what_is_no_text_does_not_match() {
        for uri in ["x://%", "x://%f", "x://%ff", "x://%+1", "x://%zz", "x://%é"] {
            check("x://{id}", uri, None);
        }
    }

    #[test]
    fn an_unclosed_brace_stands_for_itself() {
        check("x://{id", "x://{id", Some(&[]));
        check("x://{a}/{id", "x://1/{id", Some(&[("a", "1")]));
    }
}
