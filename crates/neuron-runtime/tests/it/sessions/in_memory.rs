//! Tests of sessions in memory.

use neuron_runtime::{InMemorySessionStorage, Session, SessionStorage};

crate::sessions::conforms!((InMemorySessionStorage::new(), ()));

#[tokio::test]
async fn storage_conforms_on_one_thread() {
    neuron_conformance::check_session_storage(&InMemorySessionStorage::new()).await;
}

#[tokio::test]
async fn clone_shares_the_sessions() {
    let storage = InMemorySessionStorage::default();
    storage.clone().save(&Session::new("s", ".".into())).await.unwrap();
    assert_eq!(storage.list().await.unwrap().len(), 1);
    assert!(InMemorySessionStorage::new().list().await.unwrap().is_empty());
}
