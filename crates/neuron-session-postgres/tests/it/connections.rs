//! Tests of connections that fail or break, and of a pool that the caller has created.

use std::time::Duration;

use neuron_session_postgres::PostgresSessionStorage;
use neuron_session_postgres::deadpool_postgres::tokio_postgres::{Config, NoTls};
use neuron_session_postgres::deadpool_postgres::{Manager, Pool, Runtime};
use neuron_testkit::postgres::PostgresServer;
use neuron_types::{Message, SessionStorage, StorageError, VersionedSessionStorage};

use crate::support::{in_schema, look, session};

#[tokio::test]
async fn rejected_connection_reports_the_message_of_the_server() {
    let Some(server) = PostgresServer::shared() else { return };
    let port = server.port();
    let check = async |url: String, expected: String| {
        let error = PostgresSessionStorage::connect(&url).await.unwrap_err();
        assert_eq!(error.to_string(), expected);
        assert!(matches!(error, StorageError::Other(_)), "{error:?}");
    };
    check(
        format!("postgres://neuron:wrong-secret@127.0.0.1:{port}/postgres"),
        format!(
            "cannot connect to database postgres at 127.0.0.1:{port}: \
             password authentication failed for user \"neuron\" (28P01)"
        ),
    )
    .await;
    check(
        server.url("nowhere"),
        format!(
            "cannot connect to database nowhere at 127.0.0.1:{port}: \
             database \"nowhere\" does not exist (3D000)"
        ),
    )
    .await;
    check(
        format!("{}?sslmode=require", server.url("postgres")),
        format!(
            "cannot connect to database postgres at 127.0.0.1:{port}: \
             error performing TLS handshake: server does not support TLS"
        ),
    )
    .await;
}

#[tokio::test]
async fn missing_server_is_an_io_error() {
    // A port on which no server listens.
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let url = format!("postgres://neuron:secret@127.0.0.1:{port}/agents");
    let error = PostgresSessionStorage::connect(&url).await.unwrap_err();
    let StorageError::Io(source) = &error else { panic!("{error:?}") };
    assert_eq!(source.kind(), std::io::ErrorKind::ConnectionRefused);
    let text = error.to_string();
    let expected = format!("I/O error: cannot connect to database agents at 127.0.0.1:{port}: ");
    assert!(text.starts_with(&expected) && text.contains("Connection refused"), "{text}");
    assert!(!format!("{text} {error:?}").contains("secret"));
}

#[tokio::test]
async fn silent_server_is_a_timeout() {
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = silent.local_addr().unwrap().port();
    let url = format!("postgres://neuron:secret@127.0.0.1:{port}/agents");
    let error =
        in_schema("silent").timeout(Duration::from_millis(50)).connect(&url).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        format!(
            "I/O error: database agents at 127.0.0.1:{port}: the server did not answer in time"
        )
    );
}

#[tokio::test]
async fn exhausted_pool_is_an_error() {
    let Some(server) = PostgresServer::shared() else { return };
    let config: Config = server.url("postgres").parse().unwrap();
    let pool = Pool::builder(Manager::new(config, NoTls))
        .max_size(1)
        .wait_timeout(Some(Duration::from_millis(200)))
        .runtime(Runtime::Tokio1)
        .build()
        .unwrap();
    let storage = in_schema("exhausted").pool(pool).await.unwrap();
    storage.save(&session("s", 1)).await.unwrap();
    // Another client locks the session, and the only connection of the pool waits for it.
    let client = look(server).await;
    client.batch_execute("BEGIN; SELECT * FROM exhausted.sessions FOR UPDATE").await.unwrap();
    let waiting = tokio::spawn({
        let storage = storage.clone();
        async move { storage.save(&session("s", 2)).await }
    });
    wait_until(&client, "SELECT count(*) = 1 FROM pg_locks WHERE NOT granted").await;

    let error = storage.list().await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "I/O error: PostgreSQL: all connections of the pool are in use, and none became free in time"
    );
    client.batch_execute("ROLLBACK").await.unwrap();
    waiting.await.unwrap().unwrap();
    assert_eq!(storage.list().await.unwrap().len(), 1);
}

#[tokio::test]
async fn lost_connection_is_replaced() {
    let Some(server) = PostgresServer::shared() else { return };
    let url = format!("{}?application_name=lost", server.url("postgres"));
    let storage = in_schema("lost").max_connections(3).connect(&url).await.unwrap();
    storage.save(&session("s", 1)).await.unwrap();
    let client = look(server).await;
    // The connection is ended during a call that waits for a lock.
    client.batch_execute("BEGIN; SELECT * FROM lost.sessions FOR UPDATE").await.unwrap();
    let waiting = tokio::spawn({
        let storage = storage.clone();
        async move { storage.save(&session("s", 2)).await }
    });
    wait_until(&client, "SELECT count(*) > 0 FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND application_name = 'lost'").await;
    let end =
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'lost'";
    client.query(end, &[]).await.unwrap();
    let error = waiting.await.unwrap().unwrap_err();
    let StorageError::Io(source) = &error else { panic!("{error:?}") };
    assert_eq!(source.kind(), std::io::ErrorKind::ConnectionAborted);
    assert!(std::error::Error::source(source.get_ref().unwrap()).is_some());
    client.batch_execute("ROLLBACK").await.unwrap();

    storage.save(&session("s", 3)).await.unwrap();
    assert_eq!(storage.load("s").await.unwrap().messages.len(), 3);
}

#[tokio::test]
async fn restarted_server_is_used_again() {
    let Some(server) = PostgresServer::or_skip() else { return };
    let storage = in_schema("restart").connect(&server.url("postgres")).await.unwrap();
    let revision = storage.create(&session("s", 1)).await.unwrap();
    server.stop().unwrap();
    let error = storage.append("s", &[Message::user("x")], None, &revision).await.unwrap_err();
    assert!(matches!(error, StorageError::Io(_)), "{error:?}");
    let error = storage.load("s").await.unwrap_err();
    assert!(matches!(error, StorageError::Io(_)), "{error:?}");
    server.restart().unwrap();
    storage.append("s", &[Message::user("x")], None, &revision).await.unwrap();
    assert_eq!(storage.load("s").await.unwrap().messages.len(), 2);
}

#[tokio::test]
async fn pool_of_the_caller_is_used() {
    let Some(server) = PostgresServer::shared() else { return };
    let config: Config = server.url("postgres").parse().unwrap();
    let pool = Pool::builder(Manager::new(config, NoTls)).max_size(2).build().unwrap();
    let storage = in_schema("own_pool").pool(pool.clone()).await.unwrap();
    storage.save(&session("s", 1)).await.unwrap();
    assert_eq!(pool.status().size, 1);
    assert_eq!(pool.status().available, 1);
    pool.close();
    let error = storage.load("s").await.unwrap_err();
    assert_eq!(error.to_string(), "cannot connect to PostgreSQL: Pool has been closed");
}

#[tokio::test]
async fn password_is_not_printed() {
    let Some(server) = PostgresServer::shared() else { return };
    let storage = in_schema("secrets").connect(&server.url("postgres")).await.unwrap();
    let shown = format!("{storage:?} {:?}", in_schema("secrets"));
    assert!(!shown.contains(&server.password()), "{shown}");
    assert_eq!(
        format!("{storage:?}"),
        format!(
            "PostgresSessionStorage {{ place: \"database postgres at 127.0.0.1:{}\", \
             schema: \"secrets\", connections: 1, max_connections: 8 }}",
            server.port()
        )
    );
    assert!(!server.log().contains(&server.password()));
}

/// Repeats the query `question` until it returns `true`. Tests use it to wait until another connection waits for a
/// lock, because the server sends no notification of this.
pub(crate) async fn wait_until(client: &tokio_postgres::Client, question: &str) {
    while !client.query_one(question, &[]).await.unwrap().get::<_, bool>(0) {
        tokio::task::yield_now().await;
    }
}
