//! Creates a control group for each program, in which the kernel limits its processes and memory ([`Cgroup`]).

use std::fmt::Display;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime};

use neuron_types::{SandboxError, SandboxLimit};
use rustix::process::Pid;

use super::{Limits, setup_failed};

/// First characters of the names of all control groups that this module creates.
const PREFIX: &str = "neuron-sandbox-";

/// Minimum age of an abandoned control group before it is removed. A group is abandoned if it is empty and its creator
/// is not visible as a process. A killed process leaves such groups.
///
/// A creator in another PID namespace is never visible. Within the minimum age it starts a program in its group, and
/// the kernel does not remove a group that is not empty.
const LEFT_BEHIND: Duration = Duration::from_secs(60);

/// Maximum wait for killed processes to leave a control group. A group that contains a process cannot be removed.
const PATIENCE: Duration = Duration::from_secs(2);

/// Directories in which control groups can be created, one for each controller. With cgroup version 2, both controllers
/// have the same directory.
#[derive(Debug, Clone)]
pub(super) struct Hierarchy {
    pids: PathBuf,
    /// Directory for the memory limit. `None` if the memory cannot be limited.
    memory: Option<PathBuf>,
}

impl Hierarchy {
    /// Finds directories in which this process can create control groups that count processes. Returns `None` if there
    /// is no such directory.
    pub(super) fn find() -> Option<Self> {
        let mounts = fs::read_to_string("/proc/self/mountinfo").ok()?;
        let own = fs::read_to_string("/proc/self/cgroup").ok()?;
        let found = |controller| candidates(&mounts, &own, controller);
        Self::choose(&found("pids"), &found("memory"), can_hold_programs)
    }

    /// Chooses a usable directory for each controller. A directory that supports both controllers is preferred.
    fn choose(
        pids: &[PathBuf],
        memory: &[PathBuf],
        is_usable: impl Fn(&Path) -> bool,
    ) -> Option<Self> {
        let both = pids.iter().find(|directory| memory.contains(directory) && is_usable(directory));
        if let Some(both) = both {
            return Some(Self { pids: both.clone(), memory: Some(both.clone()) });
        }
        let pids = pids.iter().find(|directory| is_usable(directory))?;
        // A process can be in only one group of version 2, so two different directories of version 2 cannot be
        // combined.
        let is_other = |directory: &Path| !(is_version_2(directory) && is_version_2(pids));
        let memory = memory.iter().find(|directory| is_other(directory) && is_usable(directory));
        Some(Self { pids: pids.clone(), memory: memory.cloned() })
    }

    /// Creates a control group with the limits of processes and memory.
    pub(super) fn create(&self, limits: &Limits) -> Result<Cgroup, SandboxError> {
        let mut cgroup = Cgroup { pids: new_directory(&self.pids)?, memory: None };
        write(&cgroup.pids.join("pids.max"), limits.processes)?;
        if let Some(parent) = &self.memory {
            let memory = match *parent == self.pids {
                true => cgroup.pids.clone(),
                false => new_directory(parent)?,
            };
            cgroup.memory = Some(memory.clone());
            let version_2 = memory.join("memory.max");
            if version_2.exists() {
                write(&version_2, limits.memory)?;
                let _ = fs::write(memory.join("memory.swap.max"), "0");
                let _ = fs::write(memory.join("memory.oom.group"), "1");
            } else {
                write(&memory.join("memory.limit_in_bytes"), limits.memory)?;
                let _ = fs::write(memory.join("memory.swappiness"), "0");
            }
        }
        Ok(cgroup)
    }
}

/// A control group. Dropping it removes the group, so all of its processes must have ended.
#[derive(Debug)]
pub(super) struct Cgroup {
    pids: PathBuf,
    memory: Option<PathBuf>,
}

impl Cgroup {
    /// Moves a process into the group. Its later children also belong to the group.
    pub(super) fn add(&self, pid: Pid) -> Result<(), SandboxError> {
        self.directories().try_for_each(|directory| write(&directory.join("cgroup.procs"), pid))
    }

    /// Returns the limit that a process of the group exceeded, so that the kernel killed it or refused to start it.
    /// Returns `None` if no limit was exceeded.
    pub(super) fn exceeded(&self, limits: &Limits) -> Option<SandboxLimit> {
        let refused = count(&self.pids.join("pids.events"), "max");
        if refused > 0 {
            return Some(SandboxLimit::Processes(limits.processes));
        }
        let memory = self.memory.as_ref()?;
        // The first file exists in version 2, and the second in version 1.
        let killed = ["memory.events", "memory.oom_control"]
            .iter()
            .any(|file| count(&memory.join(file), "oom_kill") > 0);
        killed.then_some(SandboxLimit::Memory(limits.memory))
    }

    /// Returns the directories of the group, without duplicates. Both controllers may have the same directory.
    fn directories(&self) -> impl Iterator<Item = &PathBuf> {
        let other = self.memory.as_ref().filter(|memory| **memory != self.pids);
        [&self.pids].into_iter().chain(other)
    }
}

impl Drop for Cgroup {
    fn drop(&mut self) {
        let start = Instant::now();
        for directory in self.directories() {
            // A killed process may need a moment to leave the group.
            while let Err(error) = fs::remove_dir(directory) {
                if error.kind() == io::ErrorKind::NotFound {
                    break;
                }
                if start.elapsed() > PATIENCE {
                    tracing::warn!(directory = %directory.display(), %error, "a control group could not be removed");
                    break;
                }
                std::thread::sleep(Duration::from_millis(1));
            }
        }
    }
}

/// Returns the directories in which control groups with the controller `controller`, such as `pids`, may be created.
/// The directory nearest to this process comes first. `mounts` and `own` are the contents of `/proc/self/mountinfo` and
/// `/proc/self/cgroup`.
fn candidates(mounts: &str, own: &str, controller: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for line in mounts.lines() {
        let Some((mount, file_system)) = line.split_once(" - ") else { continue };
        let mount: Vec<&str> = mount.split(' ').collect();
        let file_system: Vec<&str> = file_system.split(' ').collect();
        let (Some(root), Some(point)) = (mount.get(3), mount.get(4)) else { continue };
        // Version 2 has one unnamed hierarchy. Version 1 has a hierarchy for each controller.
        let (is_version_2, name) = match (file_system.first(), file_system.get(2)) {
            (Some(&"cgroup2"), _) => (true, ""),
            (Some(&"cgroup"), Some(options)) if options.split(',').any(|it| it == controller) => {
                (false, controller)
            }
            _ => continue,
        };
        let Some(place) = own_place(own, name) else { continue };
        // A mount may show only a part of the hierarchy, which may not contain this process.
        let Ok(below) = Path::new(place).strip_prefix(root) else { continue };
        let point = Path::new(point);
        let nearest = point.join(below);
        match is_version_2 {
            true => found.extend(
                nearest
                    .ancestors()
                    .take_while(|directory| directory.starts_with(point))
                    .map(Path::to_owned),
            ),
            false => found.push(nearest),
        }
    }
    found.retain(|directory| match fs::read_to_string(directory.join("cgroup.subtree_control")) {
        Ok(controllers) => controllers.split_whitespace().any(|it| it == controller),
        // Version 1 has no file `cgroup.subtree_control`.
        Err(_) => directory.join("tasks").exists(),
    });
    found
}

fn is_version_2(directory: &Path) -> bool {
    directory.join("cgroup.subtree_control").exists()
}

/// Returns the path of this process's control group in the hierarchy of a controller. `own` has lines such as
/// `8:cpu,pids:/user.slice`. `name` is the name of the controller, or empty for cgroup version 2. Returns `None` if no
/// line contains the controller.
fn own_place<'a>(own: &'a str, name: &str) -> Option<&'a str> {
    own.lines().find_map(|line| {
        let mut fields = line.splitn(3, ':').skip(1);
        let (controllers, place) = (fields.next()?, fields.next()?);
        controllers.split(',').any(|controller| controller == name).then_some(place)
    })
}

/// Creates a control group in a directory, moves a process there, and removes the group. Returns `true` if this
/// succeeds.
fn can_hold_programs(directory: &Path) -> bool {
    remove_left_behind(directory);
    let Ok(child) = new_directory(directory) else { return false };
    let moved = std::process::Command::new("/bin/sh")
        .args(["-c", "echo $$ > \"$0\"", &child.join("cgroup.procs").to_string_lossy()])
        .env_clear()
        .stderr(std::process::Stdio::null())
        .status();
    // The process has ended, so the group is empty and can be removed.
    drop(Cgroup { pids: child, memory: None });
    moved.is_ok_and(|status| status.success())
}

/// Creates a directory with a unique name for a control group.
fn new_directory(parent: &Path) -> Result<PathBuf, SandboxError> {
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    loop {
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let path = parent.join(format!("{PREFIX}{}-{number}", std::process::id()));
        match fs::create_dir(&path) {
            Ok(()) => return Ok(path),
            // The directory belongs to another process with the same id, which has ended or runs in another PID
            // namespace.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(setup_failed(path.display(), error)),
        }
    }
}

/// Removes empty control groups that killed processes left. The kernel does not remove a group that contains a process.
fn remove_left_behind(parent: &Path) {
    for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
        let created = entry.metadata().and_then(|metadata| metadata.modified());
        let age = created.ok().and_then(|time| SystemTime::now().duration_since(time).ok());
        let name = entry.file_name();
        let process = name.to_str().and_then(|name| name.strip_prefix(PREFIX)?.split('-').next());
        let has_ended = process.is_some_and(|pid| !Path::new("/proc").join(pid).exists());
        if has_ended && age.is_some_and(|age| age > LEFT_BEHIND) {
            let _ = fs::remove_dir(entry.path());
        }
    }
}

fn write(path: &Path, value: impl Display) -> Result<(), SandboxError> {
    fs::write(path, value.to_string()).map_err(|error| setup_failed(path.display(), error))
}

/// Reads the number of `name` from a file with one name and one number per line. Returns 0 if the name is missing.
fn count(path: &Path, name: &str) -> u64 {
    let text = fs::read_to_string(path).unwrap_or_default();
    let value = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    value.and_then(|value| value.trim().parse().ok()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A folder that simulates a mounted cgroup hierarchy.
    struct Mount(PathBuf);

    impl Mount {
        fn new(name: &str) -> Self {
            let path = std::env::temp_dir().join(format!("cgroup-{}-{name}", std::process::id()));
            fs::create_dir(&path).unwrap();
            Self(path)
        }

        fn directory(&self, below: &str, file: &str, text: &str) -> PathBuf {
            let path = self.0.join(below);
            fs::create_dir_all(&path).unwrap();
            fs::write(path.join(file), text).unwrap();
            path
        }
    }

    impl Drop for Mount {
        fn drop(&mut self) {
            fs::remove_dir_all(&self.0).unwrap();
        }
    }

    #[test]
    fn candidate_of_version_1_is_the_group_of_the_process() {
        let mount = Mount::new("one");
        let own = mount.directory("user/a", "tasks", "");
        let point = mount.0.display();
        let mounts = format!(
            "30 25 0:26 / /other rw - cgroup cgroup rw,memory\n31 25 0:27 / {point} rw - cgroup cgroup rw,cpu,pids\n"
        );
        let places = "3:memory:/\n2:cpu,pids:/user/a\n0::/\n";
        assert_eq!(candidates(&mounts, places, "pids"), std::slice::from_ref(&own));
        assert_eq!(candidates(&mounts, "2:cpu:/\n", "pids"), Vec::<PathBuf>::new());
        // A container sees only the part below its own group.
        let mounts = format!("31 25 0:27 /user/a {point}/user/a rw - cgroup cgroup rw,pids\n");
        assert_eq!(candidates(&mounts, places, "pids"), [own]);
        assert_eq!(candidates(&mounts, "2:pids:/elsewhere\n", "pids"), Vec::<PathBuf>::new());
    }

    #[test]
    fn candidates_of_version_2_are_ancestors_with_the_controller() {
        let mount = Mount::new("two");
        mount.directory("user/app/own", "cgroup.subtree_control", "");
        let app = mount.directory("user/app", "cgroup.subtree_control", "memory pids\n");
        mount.directory("user", "cgroup.subtree_control", "pids-of-others\n");
        let root = mount.directory("", "cgroup.subtree_control", "cpu pids\n");
        let mounts = format!("31 25 0:27 / {} rw - cgroup2 cgroup rw\n", mount.0.display());
        let places = "0::/user/app/own\n";
        assert_eq!(candidates(&mounts, places, "pids"), [app.clone(), root]);
        assert_eq!(candidates(&mounts, places, "memory"), [app]);
        for (mounts, places) in
            [("", places), (&*mounts, ""), ("a - cgroup2", places), (" - ", "::")]
        {
            assert_eq!(candidates(mounts, places, "pids"), Vec::<PathBuf>::new());
        }
    }

    #[test]
    fn two_directories_of_version_2_are_not_combined() {
        let mount = Mount::new("choice");
        let app = mount.directory("app", "cgroup.subtree_control", "pids");
        let root = mount.directory("", "cgroup.subtree_control", "memory pids");
        let old = mount.directory("old", "tasks", "");
        let choose = |memory: &[&PathBuf], usable: &[&PathBuf]| {
            let memory: Vec<PathBuf> = memory.iter().copied().cloned().collect();
            let is_usable = |path: &Path| usable.iter().any(|usable| **usable == path);
            let found = Hierarchy::choose(&[app.clone(), root.clone()], &memory, is_usable);
            found.map(|found| (found.pids, found.memory))
        };
        let both = Some((root.clone(), Some(root.clone())));
        assert_eq!(choose(&[&root], &[&app, &root]), both);
        assert_eq!(choose(&[&root], &[&app]), Some((app.clone(), None)));
        assert_eq!(choose(&[&old], &[&app, &old]), Some((app.clone(), Some(old.clone()))));
        assert_eq!(choose(&[], &[&root]), Some((root.clone(), None)));
        assert_eq!(choose(&[&root], &[]), None);
        // Two usable directories of version 2 are not combined.
        let other = mount.directory("other", "cgroup.subtree_control", "memory");
        assert_eq!(choose(&[&other], &[&app, &other]), Some((app.clone(), None)));
    }

    #[test]
    fn count_matches_the_whole_name() {
        let mount = Mount::new("events");
        let folder = mount.directory("x", "memory.events", "oom 3\noom_kill 2\noom_group_kill 1\n");
        let file = folder.join("memory.events");
        assert_eq!((count(&file, "oom_kill"), count(&file, "oom"), count(&file, "max")), (2, 3, 0));
        assert_eq!(count(&folder.join("none"), "oom"), 0);
    }
}
