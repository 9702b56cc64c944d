//! The rules for JSON schemas: those of all tools, and those of strict ones.

use serde_json::Value;

/// Checks the schema of a tool's arguments.
///
/// # Errors
///
/// The vendor's text.
pub(super) fn check_object_schema(schema: &Value, subject: &str) -> Result<(), String> {
    let kind = schema.get("type").and_then(Value::as_str);
    // No parameters at all may be written as an empty schema.
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

/// Checks a schema that answers are held to: its objects name all their properties, and require
/// every one.
///
/// # Errors
///
/// The vendor's text.
pub(super) fn check_strict_schema(schema: &Value, subject: &str) -> Result<(), String> {
    check_strict(schema, subject, &mut Vec::new())
}

fn check_strict(schema: &Value, subject: &str, context: &mut Vec<String>) -> Result<(), String> {
    if is_object_schema(schema) {
        check_strict_object(schema, subject, context)?;
    }
    for key in ["properties", "$defs", "definitions"] {
        for (name, value) in schema.get(key).and_then(Value::as_object).into_iter().flatten() {
            check_under(value, subject, context, [key, name])?;
        }
    }
    for key in ["anyOf", "allOf"] {
        let list = schema.get(key).and_then(Value::as_array).into_iter().flatten();
        for (index, value) in list.enumerate() {
            check_under(value, subject, context, [key, &index.to_string()])?;
        }
    }
    match schema.get("items") {
        Some(items) => check_under(items, subject, context, ["items"]),
        None => Ok(()),
    }
}

fn check_under<const N: usize>(
    schema: &Value,
    subject: &str,
    context: &mut Vec<String>,
    steps: [&str; N],
) -> Result<(), String> {
    let depth = context.len();
    context.extend(steps.map(str::to_owned));
    check_strict(schema, subject, context)?;
    context.truncate(depth);
    Ok(())
}

fn is_object_schema(schema: &Value) -> bool {
    match schema.get("type") {
        Some(Value::String(kind)) => kind == "object",
        Some(Value::Array(kinds)) => kinds.iter().any(|kind| kind == "object"),
        _ => false,
    }
}

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
    match missing {
        Some((name, _)) => Err(problem(
            subject,
            context,
            &format!(
                "'required' is required to be supplied and to be an array including every key in \
                 properties. Missing '{name}'"
            ),
        )),
        None => Ok(()),
    }
}

/// The vendor prints the way to the problem as Python prints a tuple.
fn problem(subject: &str, context: &[String], what: &str) -> String {
    let steps: Vec<String> = context.iter().map(|step| format!("'{step}'")).collect();
    let context = match steps.as_slice() {
        [one] => format!("({one},)"),
        steps => format!("({})", steps.join(", ")),
    };
    format!("Invalid schema for {subject}: In context={context}, {what}.")
}
