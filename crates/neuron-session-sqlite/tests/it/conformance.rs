//! Tests with the conformance suite, in a file and in memory.

use neuron_conformance::session::{self, Load};
use neuron_session_sqlite::SqliteSessionStorage;

use crate::support::{open, place};

macro_rules! parts {
    ($($part:ident)*) => {$(
        mod $part {
            use super::*;

            #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
            async fn in_a_file() {
                let (_folder, path) = place();
                session::$part(&open(&path).await).await;
            }

            #[tokio::test]
            async fn in_memory() {
                let storage = SqliteSessionStorage::open(":memory:").await.unwrap();
                session::$part(&storage).await;
            }
        }
    )*};
}

neuron_conformance::session_parts!(parts);

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn load_in_a_file() {
    let (_folder, path) = place();
    let tally = session::load(&open(&path).await, Load::from_env()).await;
    println!("{tally:?}");
}

#[tokio::test]
async fn load_in_memory() {
    let storage = SqliteSessionStorage::open(":memory:").await.unwrap();
    session::load(&storage, Load::from_env()).await;
}
