//! Tests of programs that must work in the sandbox.

use std::collections::HashMap;
use std::fs;
use std::net::TcpListener;

use neuron_types::{CommandStatus, SandboxError, ToolCommand, ToolContext};

use crate::support::{Folder, attempt, build, builder, run, run_in, shell, text};

#[tokio::test]
async fn program_reads_its_directory_and_standard_input() {
    let folder = Folder::new();
    folder.file("a.txt", "from the file\n");
    let Some(sandbox) = build(builder(&folder)) else { return };
    let command = ToolCommand::new("cat").args(["a.txt", "-"]).stdin("from the input\n");
    assert_eq!(text(run(&sandbox, command).await), "from the file\nfrom the input\n");
    assert_eq!(
        text(run(&sandbox, ToolCommand::new("/bin/pwd")).await),
        format!("{}\n", folder.path().display())
    );
    assert_eq!(text(run(&sandbox, ToolCommand::new("true")).await), "");
}

#[tokio::test]
async fn program_writes_to_an_allowed_folder() {
    let folder = Folder::new();
    fs::create_dir_all(folder.path().join("out/b")).unwrap();
    let Some(sandbox) = build(builder(&folder).write(folder.path().join("out"))) else { return };
    let script = "cd out && echo one > a && cat a > b/c && mv b/c d && rm a && mkdir e && rmdir b e \
                  && ln -s d f && mkfifo g && cat f";
    let output = run(&sandbox, shell(script)).await.unwrap();
    assert!(!output.is_error, "{output:?}");
    assert_eq!(output.content[0].to_string(), "one\n");
    assert_eq!(fs::read_to_string(folder.path().join("out/d")).unwrap(), "one\n");
}

#[tokio::test]
async fn failing_program_is_an_error_result() {
    let folder = Folder::new();
    let Some(sandbox) = build(builder(&folder)) else { return };
    let output = run(&sandbox, shell("echo some; echo wrong >&2; exit 3")).await.unwrap();
    assert!(output.is_error);
    assert_eq!(output.content[0].to_string(), "some\n[stderr]\nwrong\n[exit status 3]");
    let output = run(&sandbox, shell("kill -TERM $$")).await.unwrap();
    assert_eq!(output.content[0].to_string(), format!("[{}]", CommandStatus::Signaled(15)));
    let error = run(&sandbox, ToolCommand::new("there-is-no-such-program")).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "sandbox setup failed: there is no program there-is-no-such-program"
    );
}

#[tokio::test]
async fn arguments_and_environment_are_passed_unchanged() {
    let folder = Folder::new();
    let Some(sandbox) = build(builder(&folder)) else { return };
    let all: Vec<u8> = (1..=255).collect();
    let all = <std::ffi::OsString as std::os::unix::ffi::OsStringExt>::from_vec(all);
    for value in ["", " ", "it's", "\"$HOME`id`\\", "a\nend\nend.\n", "-n", "āéü€😀", "\n\n", "%s"]
    {
        let args = shell("printf '%s|' \"$@\"; printf %s \"$VALUE\"").arg("sh").arg(value).arg("z");
        let output = text(run(&sandbox, args.env("VALUE", value)).await);
        assert_eq!(output, format!("{value}|z|{value}"), "{value:?}");
    }
    let command = shell("printf %s \"$VALUE\" | wc -c; [ \"$VALUE\" = \"$1\" ] && echo same");
    let command = command.arg("sh").arg(all.clone()).env("VALUE", all);
    assert_eq!(text(run(&sandbox, command).await), "255\nsame\n");
    // Variables with these names have a meaning for a shell, and must still reach the program.
    let names = "IFS HOME CDPATH ENV BASH_ENV PS4 POSIXLY_CORRECT TMOUT SECONDS OPTARG OPTERR MAIL HISTFILE \
                 GLOBIGNORE FUNCNEST COLUMNS LC_ALL LANG REPLY SHELL IGNOREEOF TERM EXECIGNORE";
    for name in names.split_whitespace() {
        let command = ToolCommand::new("printenv").arg(name).env(name, "7");
        assert_eq!(text(run(&sandbox, command).await), "7\n", "{name}");
    }
    // The launcher's script uses variables with these names.
    let script = "echo $text $line $end $PWD $IFS";
    let command =
        shell(script).env("text", "1").env("line", "2").env("end", "3").env("PWD", "/bin");
    let output = text(run(&sandbox, command).await);
    assert!(output.starts_with("1 2 3"), "{output}");
}

#[tokio::test]
async fn environment_contains_only_named_variables() {
    let folder = Folder::new();
    let builder = builder(&folder)
        .env("FIXED", "f")
        .env("BOTH", "sandbox")
        .inherit_env("TOKEN")
        .inherit_env("CARGO_MANIFEST_DIR")
        .inherit_env("NOT_SET_ANYWHERE");
    let Some(sandbox) = build(builder) else { return };
    let environment = HashMap::from([
        ("TOKEN".to_owned(), "t".to_owned()),
        ("SECRET".to_owned(), "s".to_owned()),
    ]);
    let ctx = ToolContext { environment, ..Default::default() };
    let command = ToolCommand::new("env").env("BOTH", "command").env("OWN", "o");
    let output = text(run_in(&sandbox, command, &ctx).await);
    let mut lines: Vec<&str> = output.lines().filter(|line| !line.starts_with("_=")).collect();
    lines.retain(|line| !["PWD=", "SHLVL="].iter().any(|own| line.starts_with(own)));
    lines.sort();
    let manifest = format!("CARGO_MANIFEST_DIR={}", env!("CARGO_MANIFEST_DIR"));
    let path = "PATH=/usr/local/bin:/usr/bin:/bin";
    let mut expected = vec!["BOTH=command", "FIXED=f", "OWN=o", path, "TOKEN=t"];
    if std::env::var_os("CARGO_MANIFEST_DIR").is_some() {
        expected.insert(1, &manifest);
    }
    assert_eq!(lines, expected);

    for name in ["", "1A", "A-B", "BASH_FUNC_kill%%", "A\nB", "A=B", "UID", "PPID", "RANDOM", "_"] {
        let error = run(&sandbox, ToolCommand::new("env").env(name, "x")).await.unwrap_err();
        assert!(error.to_string().contains("cannot be set"), "{error}");
    }
}

#[tokio::test]
async fn large_input_and_output_are_transferred_concurrently() {
    let folder = Folder::new();
    let Some(sandbox) = build(builder(&folder).output_limit(4 << 20)) else { return };
    let input: String = (0..200_000).map(|number| format!("line {number}\n")).collect();
    let command = ToolCommand::new("cat").stdin(input.clone());
    assert_eq!(text(run(&sandbox, command).await), input);
    // A program that does not read its input.
    let command = ToolCommand::new("echo").arg("done").stdin(input);
    assert_eq!(text(run(&sandbox, command).await), "done\n");
}

#[tokio::test]
async fn allow_network_permits_loopback() {
    let folder = Folder::new();
    let Some(sandbox) = build(builder(&folder).allow_network()) else { return };
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = server.local_addr().unwrap().to_string();
    assert_eq!(attempt(&sandbox, "connect", &[&address]).await, "did it");
    assert_eq!(attempt(&sandbox, "listen", &[]).await, "did it");
    assert_eq!(attempt(&sandbox, "udp", &[&address]).await, "did it");
}

#[tokio::test]
async fn allow_attribute_changes_permits_them() {
    let folder = Folder::new();
    let file = folder.file("a", "");
    let builder = builder(&folder).write(folder.path()).allow_attribute_changes();
    let Some(sandbox) = build(builder) else { return };
    for what in ["chmod", "fchmod", "times"] {
        assert_eq!(attempt(&sandbox, what, &[file.to_str().unwrap()]).await, "did it", "{what}");
    }
}

#[tokio::test]
async fn calls_run_concurrently() {
    let folder = Folder::new();
    let Some(sandbox) = build(builder(&folder)) else { return };
    let runs = (0..16).map(|number| {
        let sandbox = sandbox.clone();
        tokio::spawn(async move {
            let command = shell(&format!("echo {number}; head -c 100000 /dev/zero | wc -c"));
            (number, text(run(&sandbox, command).await))
        })
    });
    for run in runs.collect::<Vec<_>>() {
        let (number, output) = run.await.unwrap();
        assert_eq!(output, format!("{number}\n100000\n"));
    }
}

#[tokio::test]
async fn working_directory_is_relative_to_the_sandbox_directory() {
    let folder = Folder::new();
    fs::create_dir(folder.path().join("sub")).unwrap();
    let Some(sandbox) = build(builder(&folder)) else { return };
    let output = text(run(&sandbox, ToolCommand::new("/bin/pwd").current_dir("sub")).await);
    assert_eq!(output, format!("{}\n", folder.path().join("sub").display()));
    let error = run(&sandbox, ToolCommand::new("pwd").current_dir("none")).await.unwrap_err();
    assert!(matches!(error, SandboxError::SetupFailed(reason) if reason.contains("no directory")));
}
