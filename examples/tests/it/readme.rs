//! Checks that the README shows a program of the examples and its output.

const README: &str = include_str!("../../../README.md");

#[test]
fn readme_shows_the_first_tool_and_its_output() {
    let program = include_str!("../../programs/first_tool.rs");
    let (_, code) = program.split_once("\n\n").unwrap();
    let code = code.replace("pub async fn main", "async fn main");
    assert!(README.contains(&format!("```rust\n{code}```")), "copy {code} into the README");
    let output = include_str!("../../output/first_tool.txt");
    assert!(README.contains(output), "copy {output} into the README");
}
