//! Tests that kill processes while they write five megabytes.

use neuron_conformance::session::kill::{self, Killed};
use neuron_session_sqlite::SqliteSessionStorage;
use tempfile::TempDir;

use crate::support::place;

async fn somewhere() -> (String, TempDir) {
    let (folder, path) = place();
    (path.into_os_string().into_string().unwrap(), folder)
}

async fn open(path: String) -> SqliteSessionStorage {
    SqliteSessionStorage::open(path).await.unwrap()
}

fn tell(killed: Killed) {
    println!("{killed:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn saves() {
    tell(kill::check_saves("killed::saves", somewhere, open).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn updates() {
    tell(kill::check_updates("killed::updates", somewhere, open).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn appends() {
    tell(kill::check_appends("killed::appends", somewhere, open).await);
}
