//! Extracts the Rust examples of the README and the guide into one file each, and those of `docs/testing.md` into a
//! common file. The modules in `src` and the tests include these files, so the tests run the text of the pages.

use std::error::Error;
use std::path::{Path, PathBuf};
use std::{env, fs};

/// Code that is inserted into the examples. Each entry has the name of the example, the code before the insertion, and
/// the inserted code. If the code before the insertion is empty, the code is appended to the example.
///
/// The additions redirect a provider to a server of the test, and print values that an example does not print itself.
const ADDITIONS: [(&str, &str, &str); 11] = [
    ("an-agent", "from_env()?", ".base_url(crate::server()?)"),
    ("telemetry", "from_env()?", ".base_url(crate::server()?)"),
    (
        "providers-anthropic",
        "= neuron::anthropic::Anthropic::from_env()?",
        ".base_url(crate::server()?)",
    ),
    ("providers-ollama", "= neuron::ollama::Ollama::from_env()?", ".base_url(crate::server()?)"),
    ("providers-openai", "= neuron::openai::OpenAi::from_env()?", ".base_url(crate::server()?)"),
    ("control", "ApprovalRequired(pending)) = outcome {", "crate::control::asked(&pending);"),
    ("mcp", "// A name that is taken is an error.\n}", "crate::mcp::discovered(&tools)?;"),
    ("tests-without-a-model", "Anthropic::new(key)", ".base_url(crate::server()?)"),
    ("testing", "Anthropic::new(key)", ".base_url(crate::server())"),
    ("tools-and-long-conversations", "", "(tools, context)"),
    ("telemetry", "", "crate::telemetry::ask(&agent).await?;"),
];

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed=build.rs");
    let folder = PathBuf::from(env::var("OUT_DIR")?);
    let mut pages = String::new();
    for page in ["../README.md", "../docs/guide.md"] {
        let page = Path::new(env!("CARGO_MANIFEST_DIR")).join(page);
        println!("cargo::rerun-if-changed={}", page.display());
        pages.push_str(&fs::read_to_string(page)?);
    }
    let mut names = Vec::new();
    for (name, code) in examples(&pages)?.into_iter().flat_map(variants) {
        let code = with_additions(&name, code)?;
        // An example with `main` is included as a module. Any other example is included as an expression, so it becomes
        // a block.
        let code = if code.contains("fn main()") { code } else { format!("{{\n{code}\n}}\n") };
        fs::write(folder.join(format!("{name}.rs")), code)?;
        names.push(name);
    }
    fs::write(folder.join("names.rs"), format!("{names:?}"))?;

    // The examples of this page are the parts of one test file.
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/testing.md");
    println!("cargo::rerun-if-changed={}", page.display());
    let parts = examples(&fs::read_to_string(page)?)?.into_iter().map(|(_, code)| code);
    let code = parts.collect::<Vec<_>>().join("\n\n");
    fs::write(folder.join("testing.rs"), with_additions("testing", code)?)?;
    Ok(())
}

/// Returns the Rust examples of the pages as pairs of name and code. The name is made from the heading above the
/// example.
///
/// Returns an error if a heading has two Rust examples, or if the language of an example has attributes such as
/// `rust,no_run`.
fn examples(pages: &str) -> Result<Vec<(String, String)>, String> {
    let mut examples: Vec<(String, String)> = Vec::new();
    let mut heading = String::new();
    let mut lines = pages.lines();
    while let Some(line) = lines.next() {
        if let Some(title) = line.strip_prefix("## ") {
            heading = title.to_lowercase().replace(' ', "-");
        } else if let Some(language) = line.strip_prefix("```").filter(|info| !info.is_empty()) {
            let code: Vec<&str> = lines.by_ref().take_while(|line| *line != "```").collect();
            if language == "rust" {
                if examples.iter().any(|(name, _)| *name == heading) {
                    return Err(format!("two Rust examples below `{heading}`: give one a heading"));
                }
                examples.push((heading.clone(), code.join("\n")));
            } else if language.starts_with("rust") {
                return Err(format!(
                    "`{language}`: a Rust example of the pages runs: write `rust`"
                ));
            }
        }
    }
    Ok(examples)
}

/// Returns one example for each alternative provider in its comments. Returns the example unchanged if it has no
/// provider lines.
///
/// The example with the name `providers` contains a line for each vendor, of which only one is not a comment.
fn variants((name, code): (String, String)) -> Vec<(String, String)> {
    const PROVIDER: &str = "let provider = neuron::";
    let vendors = code.lines().filter_map(|line| line.split_once(PROVIDER)?.1.split("::").next());
    let vendors: Vec<&str> = vendors.collect();
    if vendors.is_empty() {
        return vec![(name, code)];
    }
    let variant = |vendor: &&str| {
        let line = |line: &str| match line.trim_start_matches([' ', '/']) {
            text if text.starts_with(&format!("{PROVIDER}{vendor}::")) => text.to_owned(),
            text if text.starts_with(PROVIDER) => format!("// {text}"),
            _ => line.to_owned(),
        };
        let code: Vec<String> = code.lines().map(line).collect();
        (format!("{name}-{vendor}"), code.join("\n"))
    };
    vendors.iter().map(variant).collect()
}

/// Inserts the additions of an example into its code. Returns an error if the code before an insertion does not occur
/// exactly once.
fn with_additions(name: &str, mut code: String) -> Result<String, String> {
    for (_, before, text) in ADDITIONS.iter().filter(|(example, ..)| *example == name) {
        if before.is_empty() {
            code = format!("{code}\n{text}");
        } else if code.matches(before).count() == 1 {
            code = code.replace(before, &format!("{before}{text}"));
        } else {
            return Err(format!("the example `{name}` does not have `{before}` exactly once"));
        }
    }
    Ok(code)
}
