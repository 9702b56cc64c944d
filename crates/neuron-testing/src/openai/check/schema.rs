//! OpenAI's rules for the JSON schemas of tools and of strict response formats.

use serde_json::Value;

/// Checks that the schema of a tool's arguments describes an object. `subject` names the tool in the error text.
///
/// # Errors
///
/// Returns OpenAI's error text if the type of the schema is not `object`, or if `properties` is missing. An empty
/// schema passes.
pub(super) fn check_object_schema(schema: &Value, subject: &str) -> Result<(), String> {
    let kind = schema.get("type").and_then(Value::as_str);
    // An empty schema means that there are no parameters.
    if schema.as_object().is_some_and(|fields| fields.is_empty()) {
        return Ok(());
    }
    if kind != Some("object") {
        let kind = kind.unwrap_or("None");
        return Err(format!(
            "Invalid schema for {subject}: schema must be a JSON Schema of 'type: \"object\"', \
             got 'type: \"{kind}\"'."
        ));
    }
    match schema.get("properties") {
        Some(_) => Ok(()),
        None => Err(problem(subject, &[], "object schema missing properties")),
    }
}

/// Checks a strict schema and its subschemas. Every object must require all of its properties and forbid other
/// properties.
///
/// `subject` names the tool or format in the error text. `context` is the path from the root schema to `schema`.
///
/// # Errors
///
/// Returns OpenAI's error text for the first object that breaks the rules.
pub(super) fn check_strict(
    schema: &Value,
    subject: &str,
    context: &[String],
) -> Result<(), String> {
    let is_object = match schema.get("type") {
        Some(Value::Array(kinds)) => kinds.iter().any(|kind| kind == "object"),
        kind => kind.is_some_and(|kind| kind == "object"),
    };
    if is_object {
        check_strict_object(schema, subject, context)?;
    }
    let named = ["properties", "$defs", "definitions"].into_iter().flat_map(|key| {
        let children = schema.get(key).and_then(Value::as_object).into_iter().flatten();
        children.map(move |(name, child)| (vec![key.to_owned(), name.clone()], child))
    });
    let listed = ["anyOf", "allOf"].into_iter().flat_map(|key| {
        let children = schema.get(key).and_then(Value::as_array).into_iter().flatten().enumerate();
        children.map(move |(index, child)| (vec![key.to_owned(), index.to_string()], child))
    });
    let items = schema.get("items").map(|items| (vec!["items".to_owned()], items));
    let mut children = named.chain(listed).chain(items);
    children
        .try_for_each(|(steps, child)| check_strict(child, subject, &[context, &steps].concat()))
}

/// Checks one object schema, without its subschemas. `subject` names the tool or format in the error text. `context` is
/// the path from the root schema to `schema`.
fn check_strict_object(schema: &Value, subject: &str, context: &[String]) -> Result<(), String> {
    if schema.get("additionalProperties") != Some(&Value::Bool(false)) {
        let what = "'additionalProperties' is required to be supplied and to be false";
        return Err(problem(subject, context, what));
    }
    let required = schema.get("required").and_then(Value::as_array);
    let properties = schema.get("properties").and_then(Value::as_object);
    let missing = properties.into_iter().flatten().find(|(name, _)| {
        !required.is_some_and(|required| required.iter().any(|known| known == *name))
    });
    let Some((name, _)) = missing else { return Ok(()) };
    let what = format!(
        "'required' is required to be supplied and to be an array including every key in \
         properties. Missing '{name}'"
    );
    Err(problem(subject, context, &what))
}

/// Returns OpenAI's error text for a schema. OpenAI prints the path to the problem as a Python tuple.
fn problem(subject: &str, context: &[String], what: &str) -> String {
    let steps: Vec<String> = context.iter().map(|step| format!("'{step}'")).collect();
    let context = match steps.as_slice() {
        [one] => format!("({one},)"),
        steps => format!("({})", steps.join(", ")),
    };
    format!("Invalid schema for {subject}: In context={context}, {what}.")
}
