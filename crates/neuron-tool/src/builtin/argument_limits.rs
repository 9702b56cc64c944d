//! [`ArgumentLimits`], which rejects deeply nested and large arguments.

use std::io;

use neuron_types::{ToolContext, ToolError, ToolOutput, WasmBoxedFuture};
use serde_json::Value;

use crate::json_path::JsonPath;
use crate::middleware::{Next, ToolCall, ToolMiddleware};
use crate::text;

/// Rejects arguments that are nested too deeply or too large, before they are deserialised.
///
/// The error is a [`ToolError::ModelRetry`]. Its text names the JSON path of the offending value and the limit.
///
/// # Example
///
/// ```
/// use neuron_tool::ToolRegistry;
/// use neuron_tool::builtin::ArgumentLimits;
///
/// let mut registry = ToolRegistry::new();
/// registry.add_middleware(ArgumentLimits::new().with_max_bytes(100_000));
/// ```
#[derive(Debug, Clone, Copy)]
pub struct ArgumentLimits {
    /// Maximum number of nested objects and arrays.
    max_depth: usize,
    /// Maximum size of the arguments as JSON, in bytes.
    max_bytes: usize,
}

/// Returns limits of 32 levels of nesting and 1,000,000 bytes of JSON.
impl Default for ArgumentLimits {
    fn default() -> Self {
        Self { max_depth: 32, max_bytes: 1_000_000 }
    }
}

impl ArgumentLimits {
    /// Creates limits of 32 levels of nesting and 1,000,000 bytes of JSON.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the maximum number of nested objects and arrays. The arguments object itself is the first level.
    #[must_use]
    pub fn with_max_depth(mut self, levels: usize) -> Self {
        self.max_depth = levels;
        self
    }

    /// Sets the maximum size of the arguments as JSON, in bytes.
    #[must_use]
    pub fn with_max_bytes(mut self, bytes: usize) -> Self {
        self.max_bytes = bytes;
        self
    }

    /// Checks the arguments of a call. Returns a [`ToolError::ModelRetry`] if they exceed a limit.
    fn check(&self, call: &ToolCall) -> Result<(), ToolError> {
        let Self { max_depth, max_bytes } = self;
        // Check the depth first, because the check of the size recurses to the full depth.
        if let Some(path) = too_deep(&call.input, *max_depth, JsonPath::default()) {
            let path = path.to_string();
            let path = text::shorten(&path, 200);
            return Err(ToolError::ModelRetry(format!(
                "arguments of `{}`: `{path}` is nested too deep; expected at most {max_depth} \
                 levels",
                call.name
            )));
        }
        let bytes = size(&call.input);
        if bytes <= *max_bytes {
            return Ok(());
        }
        let mut path = JsonPath::default();
        let mut largest = &call.input;
        // Name the part that the model should shorten. Descend while one part makes up more than half of the total
        // size.
        while let Some((inner, place)) = largest_part(largest, &path) {
            if size(inner) * 2 <= bytes {
                break;
            }
            (largest, path) = (inner, place);
        }
        let path = path.to_string();
        Err(ToolError::ModelRetry(format!(
            "arguments of `{}`: they are {bytes} bytes long, of which `{}` is {}; expected at \
             most {max_bytes} bytes",
            call.name,
            text::shorten(&path, 200),
            size(largest)
        )))
    }
}

impl ToolMiddleware for ArgumentLimits {
    fn process<'a>(
        &'a self,
        call: &'a ToolCall,
        ctx: &'a ToolContext,
        next: Next<'a>,
    ) -> WasmBoxedFuture<'a, Result<ToolOutput, ToolError>> {
        Box::pin(async move {
            self.check(call)?;
            next.run(call, ctx).await
        })
    }
}

/// Returns the path of the first value that is nested too deeply, or `None` if there is no such value. `levels` is the
/// maximum number of levels in `value`, and `path` is the path of `value`.
fn too_deep(value: &Value, levels: usize, path: JsonPath) -> Option<JsonPath> {
    if fits(value, levels) {
        return None;
    }
    let Some(levels) = levels.checked_sub(1) else {
        return Some(path);
    };
    let (part, place) = parts(value, &path).find(|(part, _)| !fits(part, levels))?;
    too_deep(part, levels, place())
}

/// Returns `true` if a value has at most `levels` levels of nested objects and arrays.
fn fits(value: &Value, levels: usize) -> bool {
    let fit = |part| levels > 0 && fits(part, levels - 1);
    match value {
        Value::Object(fields) => levels > 0 && fields.values().all(fit),
        Value::Array(items) => levels > 0 && items.iter().all(fit),
        _ => true,
    }
}

/// Returns the field or item of `value` with the longest JSON, and its path. Returns `None` if `value` is empty or is
/// neither an object nor an array.
fn largest_part<'v>(value: &'v Value, path: &JsonPath) -> Option<(&'v Value, JsonPath)> {
    let (part, place) = parts(value, path).max_by_key(|(part, _)| size(part))?;
    Some((part, place()))
}

/// Returns the fields of an object or the items of an array. Other values have no parts. Each part comes with a closure
/// that creates its path when the path is needed.
fn parts<'v>(
    value: &'v Value,
    path: &JsonPath,
) -> impl Iterator<Item = (&'v Value, impl FnOnce() -> JsonPath)> {
    enum Key<'v> {
        Field(&'v str),
        Index(usize),
    }
    let fields = value.as_object().into_iter().flatten();
    let fields = fields.map(|(name, part)| (part, Key::Field(name)));
    let items = value.as_array().into_iter().flatten().enumerate();
    let items = items.map(|(index, part)| (part, Key::Index(index)));
    fields.chain(items).map(move |(part, key)| {
        let place = move || {
            let mut path = path.clone();
            match key {
                Key::Field(name) => path.push_field(name),
                Key::Index(index) => path.push_index(index),
            }
            path
        };
        (part, place)
    })
}

/// Returns the length of a value as JSON, in bytes.
fn size(value: &Value) -> usize {
    struct Count(usize);
    impl io::Write for Count {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0 += bytes.len();
            Ok(bytes.len())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let mut count = Count(0);
    // Writing to the counter cannot fail.
    serde_json::to_writer(&mut count, value).ok();
    count.0
}
