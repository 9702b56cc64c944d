//! Tests that kill a process during its writes.

use neuron_conformance::session::kill;
use neuron_runtime::FileSessionStorage;

use crate::sessions::temporary::Temporary;

async fn place() -> (String, Temporary) {
    let temporary = Temporary::new();
    (temporary.join("sessions").to_str().unwrap().to_owned(), temporary)
}

async fn open(place: String) -> FileSessionStorage {
    FileSessionStorage::new(place.into())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn while_it_saves() {
    println!("{:?}", kill::check_saves("sessions::killed::while_it_saves", place, open).await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn while_it_updates() {
    println!("{:?}", kill::check_updates("sessions::killed::while_it_updates", place, open).await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn while_it_appends() {
    println!("{:?}", kill::check_appends("sessions::killed::while_it_appends", place, open).await);
}
