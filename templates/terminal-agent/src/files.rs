//! The tools, which work on the files of the current folder.

use std::path::{Component, Path};

use neuron::prelude::*;

/// Returns the tools of the agent.
pub(crate) fn tools() -> ToolRegistry {
    let mut tools = ToolRegistry::new();
    tools.register(ListFilesTool);
    tools.register(ReadFileTool);
    tools.register(WriteFileTool);
    tools
}

/// Lists the files and folders of a folder.
#[neuron_tool(effect = Pure)]
async fn list_files(
    /// A folder below the current folder, or "." for the current folder
    folder: String,
) -> Result<String, ToolError> {
    let folder = inside(&folder)?;
    let mut entries = tokio::fs::read_dir(folder).await.map_err(|error| hint(folder, &error))?;
    let mut names = Vec::new();
    while let Some(entry) = entries.next_entry().await.map_err(|error| hint(folder, &error))? {
        names.push(entry.file_name().to_string_lossy().into_owned());
    }
    names.sort();
    Ok(names.join("\n"))
}

/// Reads a text file.
#[neuron_tool(effect = Pure)]
async fn read_file(
    /// A path below the current folder
    path: String,
) -> Result<String, ToolError> {
    let path = inside(&path)?;
    tokio::fs::read_to_string(path).await.map_err(|error| hint(path, &error))
}

/// Writes a text file, and replaces the file if it exists.
#[neuron_tool(effect = Idempotent)]
async fn write_file(
    /// A path below the current folder
    path: String,
    /// The whole text
    text: String,
) -> Result<String, ToolError> {
    let path = inside(&path)?;
    tokio::fs::write(path, &text).await.map_err(|error| hint(path, &error))?;
    Ok(format!("{} bytes written", text.len()))
}

/// Returns an error for the model if the path leads out of the current folder.
///
/// A symbolic link may still lead out of it. To confine an agent that you do not trust, see `ProcessSandbox`.
fn inside(path: &str) -> Result<&Path, ToolError> {
    let is_below = |part| matches!(part, Component::Normal(_) | Component::CurDir);
    match Path::new(path).components().all(is_below) {
        true => Ok(Path::new(path)),
        false => Err(ToolError::ModelRetry(format!("`{path}` is not below the current folder"))),
    }
}

/// Creates an error that the model sees, so that it can try another path.
fn hint(path: &Path, error: &std::io::Error) -> ToolError {
    ToolError::ModelRetry(format!("{}: {error}", path.display()))
}
