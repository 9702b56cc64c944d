//! Tests with randomly changed, cut and deleted files.

use neuron_conformance::random::from_env;
use neuron_conformance::session::damage::check_damage;
use neuron_session_sqlite::SqliteSessionStorage;

#[tokio::test]
async fn random_damage_never_restores_an_earlier_state() {
    let folder = tempfile::tempdir().unwrap();
    let open = async |folder: std::path::PathBuf| {
        SqliteSessionStorage::open(folder.join("sessions.db")).await
    };
    let tally = check_damage(
        &folder.path().join("trial"),
        open,
        0..from_env("DAMAGE_ROUNDS").unwrap_or(500),
    )
    .await;
    println!("{tally:?}");
    assert!(tally.exact > 100 && tally.refused > 100, "{tally:?}");
}
