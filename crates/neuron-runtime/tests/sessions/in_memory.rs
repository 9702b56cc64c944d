//! Sessions in memory.

use neuron_runtime::{InMemorySessionStorage, Session, SessionStorage};

crate::conforms!((InMemorySessionStorage::new(), ()));

#[tokio::test]
async fn it_conforms_on_one_thread_too() {
    neuron_conformance::check_session_storage(&InMemorySessionStorage::new()).await;
}

#[tokio::test]
async fn a_clone_shares_the_sessions() {
    let storage = InMemorySessionStorage::default();
    storage.clone().save(&Session::new("s", ".".into())).await.unwrap();
    assert_eq!(storage.list().await.unwrap().len(), 1);
    assert!(InMemorySessionStorage::new().list().await.unwrap().is_empty());
}
