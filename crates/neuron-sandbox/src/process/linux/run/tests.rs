//! Tests of confinement with the Landlock versions of older kernels.

use std::fs;

use super::*;
use crate::ProcessSandbox;

/// Creates a folder with a readable file, a forbidden file, and a writable folder.
fn files() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for name in ["own", "own/a", "own/b"] {
        fs::create_dir(folder.path().join(name)).unwrap();
    }
    for name in ["secret", "readable", "own/a/file"] {
        fs::write(folder.path().join(name), name).unwrap();
    }
    folder
}

#[tokio::test]
async fn every_landlock_version_confines_files() {
    let folder = files();
    let path = |name: &str| folder.path().join(name);
    let own = path("own");
    let settings = |is_accepted| {
        let builder = ProcessSandbox::builder(&own).write(&own).read(path("readable"));
        let builder = builder.watched_process_limit();
        if is_accepted { builder.accept_older_kernel().0 } else { builder.0 }
    };
    for abi in [ABI::V1, ABI::V2, ABI::V3, ABI::V4, ABI::V5] {
        let ready = Ready::with_landlock(settings(true), abi).unwrap();
        assert_eq!(ready.confinement(), Confinement::OlderKernel);
        let script = format!(
            "cat {readable}; cat {secret} || echo no; echo x >> {readable} || echo no; echo x > {new} || echo no; \
             echo x > {own}/new && rm {own}/new && mv {own}/a/file {own}/b/ && cat {own}/b/file && mv {own}/b/file {own}/a/",
            readable = path("readable").display(),
            secret = path("secret").display(),
            new = path("new").display(),
            own = own.display(),
        );
        let command = ToolCommand::new("/bin/sh").arg("-c").arg(script);
        let output = ready.run(command, &ToolContext::default()).await.unwrap();
        let text = String::from_utf8_lossy(&output.stdout);
        assert_eq!(text, "readableno\nno\nno\nown/a/file", "{abi:?}: {output:?}");
        assert_eq!(fs::read_to_string(path("readable")).unwrap(), "readable");
        assert!(!path("new").exists());
    }
    let full = Ready::with_landlock(settings(true), confine::FULL).unwrap();
    assert_eq!(full.confinement(), Confinement::Full);
}
