//! The shell that holds a server, and what it is told.

use std::collections::hash_map::RandomState;
use std::fs::{self, DirBuilder};
use std::hash::BuildHasher;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

/// What the shell does.
const SCRIPT: &str = include_str!("guard.sh");

/// How long the shell or the server may be silent before that is an error.
const PATIENCE: Duration = Duration::from_secs(120);

/// How a start of the server went.
pub(super) enum Launch {
    /// It takes connections.
    Ready,
    /// Somebody else listens on the port.
    PortTaken,
    /// It ended, with this as its last words.
    Failed(String),
}

/// The shell, the folder that it removes, and what is known of its server.
#[derive(Debug)]
pub(super) struct Guard {
    shell: Child,
    /// Closed when the guard is dropped, or with this process: then the shell cleans up.
    commands: Option<ChildStdin>,
    news: Receiver<News>,
    log: Arc<Mutex<String>>,
    password: String,
    /// The server's first process, if it runs.
    server: Option<u32>,
}

/// What the shell or the server tells.
#[derive(Debug, PartialEq)]
enum News {
    Initialised,
    Started(u32),
    Stopped,
    /// What a process of a server logged of its start.
    Logged(u32, Start),
    /// The shell ended.
    End,
}

/// What a server logs of its start.
#[derive(Debug, Clone, PartialEq)]
enum Start {
    Ready,
    PortTaken,
    Fatal(String),
}

impl Guard {
    /// Starts the shell, and makes fresh data.
    pub(super) fn new(programs: &Path) -> io::Result<Self> {
        let folder = fresh_folder()?;
        let password = secret();
        let prepared = fs::write(folder.join("password"), &password)
            .and_then(|()| Self::hold(programs, &folder, password));
        let mut guard = prepared.inspect_err(|_| {
            // It is ours, and nobody else is there to remove it.
            let _ = fs::remove_dir_all(&folder);
        })?;
        guard.await_news(|news| (*news == News::Initialised).then_some(()))?;
        Ok(guard)
    }

    fn hold(programs: &Path, folder: &Path, password: String) -> io::Result<Self> {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", SCRIPT, "postgres-guard"]).arg(programs).arg(folder);
        // Variables such as PGPORT and PGOPTIONS would change the server.
        command.env_clear().env("LC_ALL", "C").env("TZ", "UTC").current_dir(folder);
        if let Some(path) = std::env::var_os("PATH") {
            command.env("PATH", path);
        }
        // A group of its own: Ctrl-C ends the tests, and thereby the shell.
        command.process_group(0);
        if fs::metadata(folder)?.uid() == 0 {
            let (uid, gid) = nobody();
            for path in [folder.to_path_buf(), folder.join("password")] {
                std::os::unix::fs::chown(path, Some(uid), Some(gid))?;
            }
            command.uid(uid).gid(gid);
        }
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());

        let mut shell = command.spawn()?;
        let (sender, news) = mpsc::channel();
        let log = Arc::<Mutex<String>>::default();
        if let Some(answers) = shell.stdout.take() {
            listen(answers, sender.clone(), None);
        }
        if let Some(messages) = shell.stderr.take() {
            listen(messages, sender, Some(log.clone()));
        }
        let commands = shell.stdin.take();
        Ok(Self { shell, commands, news, log, password, server: None })
    }

    /// Starts the server, and waits until it takes connections or ends.
    pub(super) fn launch(&mut self, port: u16) -> io::Result<Launch> {
        self.tell(&format!("start {port}"))?;
        let server = self.await_news(|news| match news {
            News::Started(process) => Some(*process),
            _ => None,
        })?;
        self.server = Some(server);
        // Of this process alone: others log what became of a single connection, and an earlier server's
        // last words may come late.
        let start = self.await_news(|news| match news {
            News::Logged(process, start) if *process == server => Some(start.clone()),
            _ => None,
        })?;
        if start == Start::Ready {
            return Ok(Launch::Ready);
        }
        self.end("stop QUIT".into())?;
        Ok(match start {
            Start::Fatal(reason) => Launch::Failed(reason),
            Start::Ready | Start::PortTaken => Launch::PortTaken,
        })
    }

    /// Lets the server end its connections and exit.
    pub(super) fn stop(&mut self) -> io::Result<()> {
        self.end("stop INT".into())
    }

    /// Kills all processes of the server.
    pub(super) fn kill(&mut self) -> io::Result<()> {
        let Some(server) = self.server else {
            return Ok(());
        };
        let mut processes = vec![server];
        processes.extend(children(server));
        let processes: Vec<String> = processes.iter().map(u32::to_string).collect();
        self.end(format!("kill {}", processes.join(" ")))
    }

    pub(super) fn password(&self) -> &str {
        &self.password
    }

    pub(super) fn log(&self) -> String {
        self.log.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn end(&mut self, command: String) -> io::Result<()> {
        if self.server.take().is_none() {
            return Ok(());
        }
        self.tell(&command)?;
        self.await_news(|news| (*news == News::Stopped).then_some(()))
    }

    fn tell(&mut self, command: &str) -> io::Result<()> {
        match &mut self.commands {
            Some(commands) => writeln!(commands, "{command}"),
            None => Err(io::Error::other("the shell that holds the server is gone")),
        }
    }

    /// Waits for the news that are asked for, and forgets others.
    fn await_news<T>(&mut self, wanted: impl Fn(&News) -> Option<T>) -> io::Result<T> {
        loop {
            let news = self.news.recv_timeout(PATIENCE);
            match news {
                Ok(News::End) | Err(_) => {
                    let log = self.log();
                    return Err(io::Error::other(format!("it says nothing more; its log: {log}")));
                }
                Ok(news) => {
                    if let Some(found) = wanted(&news) {
                        return Ok(found);
                    }
                }
            }
        }
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        self.commands = None;
        // If the shell cannot be waited for, it is gone.
        let _ = self.shell.wait();
    }
}

/// Reads lines on a thread of its own, so that whoever writes them never waits.
fn listen(lines: impl Read + Send + 'static, news: Sender<News>, log: Option<Arc<Mutex<String>>>) {
    thread::spawn(move || {
        for line in BufReader::new(lines).lines().map_while(Result::ok) {
            let told = match &log {
                Some(log) => {
                    let mut log = log.lock().unwrap_or_else(PoisonError::into_inner);
                    log.push_str(&line);
                    log.push('\n');
                    of_server(&line)
                }
                None => of_shell(&line),
            };
            if let Some(told) = told
                && news.send(told).is_err()
            {
                return;
            }
        }
        if log.is_none() {
            // Whether anybody waits for it does not matter.
            let _ = news.send(News::End);
        }
    });
}

fn of_shell(line: &str) -> Option<News> {
    match line.split_once(' ') {
        None if line == "initialised" => Some(News::Initialised),
        None if line == "stopped" => Some(News::Stopped),
        Some(("started", process)) => process.parse().ok().map(News::Started),
        _ => None,
    }
}

/// What a line of a server's log tells of its start. It begins with the process that wrote it.
fn of_server(line: &str) -> Option<News> {
    let (process, text) = line.split_once(' ')?;
    let start = if text.contains("database system is ready to accept connections") {
        Start::Ready
    } else if text.contains("Address already in use") {
        Start::PortTaken
    } else if text.contains("FATAL:") || text.contains("database system is shut down") {
        Start::Fatal(text.to_owned())
    } else {
        return None;
    };
    Some(News::Logged(process.parse().ok()?, start))
}

/// A folder in the system's temporary one that only its owner may enter.
fn fresh_folder() -> io::Result<PathBuf> {
    let folder = std::env::temp_dir().join(format!("neuron-postgres-{}", secret()));
    DirBuilder::new().mode(0o700).create(&folder)?;
    Ok(folder)
}

/// Sixteen digits that nobody guesses: the standard library seeds its hash tables by the system's
/// randomness.
fn secret() -> String {
    format!("{:016x}", RandomState::new().hash_one(std::process::id()))
}

/// The user who has no rights, and their group.
fn nobody() -> (u32, u32) {
    let users = fs::read_to_string("/etc/passwd").unwrap_or_default();
    let mut ids = users.lines().filter_map(|line| {
        let mut fields = line.strip_prefix("nobody:")?.split(':').skip(1);
        Some((fields.next()?.parse().ok()?, fields.next()?.parse().ok()?))
    });
    ids.next().unwrap_or((65534, 65534))
}

/// The processes that a process has started, as far as the system shows them. Those of PostgreSQL have
/// groups of their own and end by themselves when the first is gone, a moment later.
fn children(process: u32) -> Vec<u32> {
    let is_child = |candidate: &u32| {
        let stat = fs::read_to_string(format!("/proc/{candidate}/stat")).unwrap_or_default();
        // `pid (name) state parent …`, and the name may hold anything.
        let after_name = stat.rsplit(')').next().unwrap_or_default();
        after_name.split_whitespace().nth(1).and_then(|parent| parent.parse().ok()) == Some(process)
    };
    fs::read_dir("/proc")
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .filter(is_child)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_log_tells_how_a_start_went() {
        let check = |line: &str, expected: Option<Start>| {
            assert_eq!(of_server(line), expected.map(|start| News::Logged(17, start)), "{line}");
        };
        check("17 LOG:  database system is ready to accept connections", Some(Start::Ready));
        check(
            r#"17 LOG:  could not bind IPv4 address "127.0.0.1": Address already in use"#,
            Some(Start::PortTaken),
        );
        let fatal = "FATAL:  data directory \"/x\" has invalid permissions";
        check(&format!("17 {fatal}"), Some(Start::Fatal(fatal.into())));
        check("17 LOG:  redo starts at 0/1529C88", None);
        check("FATAL: without a process", None);
    }

    #[test]
    fn children_are_found() {
        let mut child = Command::new("sleep").arg("60").spawn().unwrap();
        assert!(children(std::process::id()).contains(&child.id()));
        child.kill().unwrap();
        child.wait().unwrap();
    }
}
