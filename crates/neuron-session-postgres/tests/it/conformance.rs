//! Runs the conformance suite of session storages, including tests that kill a process while it writes.

use neuron_conformance::child_process;
use neuron_conformance::session::{self, Load, kill};
use neuron_session_postgres::PostgresSessionStorage;
use neuron_testkit::postgres::PostgresServer;

use crate::connections::wait_until;
use crate::support::{in_schema, look_at, storage};

/// Defines a test for each part of the conformance suite.
macro_rules! parts {
    ($($part:ident)*) => {$(
        #[tokio::test(flavor = "multi_thread")]
        async fn $part() {
            let Some(storage) = storage(concat!("suite_", stringify!($part))).await else { return };
            session::$part(&storage).await;
        }
    )*};
}

neuron_conformance::session_parts!(parts);

#[tokio::test(flavor = "multi_thread")]
async fn load() {
    let Some(storage) = storage("suite_load").await else { return };
    let tally = session::load(&storage, Load::from_env()).await;
    println!("{tally:?}");
}

/// Defines a test for each kind of write. Each test kills a child process during a write, and then checks the stored
/// session.
macro_rules! kills {
    ($($test:ident: $check:ident;)*) => {$(
        #[tokio::test(flavor = "multi_thread")]
        async fn $test() {
            // The killed child process uses the server of the test.
            if child_process::task().is_none() && PostgresServer::shared().is_none() {
                return;
            }
            let place = async || {
                let url = PostgresServer::shared().unwrap().url("postgres");
                (format!("{url}?application_name={}", stringify!($test)), ())
            };
            let name = concat!("conformance::", stringify!($test));
            let killed = kill::$check(name, place, async |url| open(&url, stringify!($test)).await).await;
            println!("{killed:?}");
        }
    )*};
}

kills! {
    killed_saves: check_saves;
    killed_updates: check_updates;
    killed_appends: check_appends;
}

/// Opens the storage, either in the test process or in the child process that the test kills. `child` is the
/// `application_name` of the child's database connections.
///
/// The server may still run a statement that the killed child sent. The test process waits for the statement's end,
/// because it may still change the session.
async fn open(url: &str, child: &str) -> PostgresSessionStorage {
    if child_process::task().is_some() {
        return in_schema("suite_killed").connect(url).await.unwrap();
    }
    let url = format!("{url}_is_over");
    let client = look_at(&url).await;
    let is_over =
        format!("SELECT count(*) = 0 FROM pg_stat_activity WHERE application_name = '{child}'");
    wait_until(&client, &is_over).await;
    in_schema("suite_killed").connect(&url).await.unwrap()
}
