//! Tests in which the files of sessions are randomly changed, cut and deleted.

use neuron_conformance::random::from_env;
use neuron_conformance::session::damage::check_damage;
use neuron_runtime::FileSessionStorage;

use crate::sessions::temporary::Temporary;

#[tokio::test]
async fn random_damage_never_restores_an_earlier_state() {
    let temporary = Temporary::new();
    let open = async |folder| Ok(FileSessionStorage::new(folder));
    let tally =
        check_damage(&temporary.join("trial"), open, 0..from_env("DAMAGE_ROUNDS").unwrap_or(500))
            .await;
    println!("{tally:?}");
    assert!(tally.exact > 100 && tally.refused > 100, "{tally:?}");
}
