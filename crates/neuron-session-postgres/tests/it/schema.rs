//! Tests of creating the database tables, and of migrating tables of every version.

use neuron_testkit::postgres::PostgresServer;
use neuron_types::{Message, SessionStorage, StorageError, VersionedSessionStorage};

use crate::support::{in_schema, look, session};

/// The newest version of the tables.
const NEWEST: i64 = 1;

/// A SQL dump of the tables of each version, written by `pg_dump --schema=fixture`. All dumps contain the same two
/// sessions.
const FIXTURES: [&str; NEWEST as usize] = [include_str!("schema/1.sql")];

#[tokio::test]
async fn concurrent_first_connections_create_the_tables_once() {
    let Some(server) = PostgresServer::shared() else { return };
    let url = server.url("postgres");
    let opened = (0..16).map(|_| {
        let url = url.clone();
        tokio::spawn(
            async move { in_schema("first \"come\" 'first'; --").connect(&url).await.unwrap() },
        )
    });
    let storages = futures_util::future::try_join_all(opened.collect::<Vec<_>>()).await.unwrap();
    storages[0].save(&session("s", 2)).await.unwrap();
    let (loaded, revision) = storages[9].load_versioned("s").await.unwrap();
    storages[3].append("s", &[Message::user("x")], None, &revision).await.unwrap();
    assert_eq!(loaded.messages.len(), 2);

    let client = look(server).await;
    let versions =
        r#"SELECT version FROM "first ""come"" 'first'; --".session_migrations ORDER BY 1"#;
    let versions: Vec<i64> =
        client.query(versions, &[]).await.unwrap().iter().map(|row| row.get(0)).collect();
    assert_eq!(versions, (1..=NEWEST).collect::<Vec<_>>());
}

#[tokio::test]
async fn migration_from_every_version_keeps_the_sessions() {
    let Some(server) = PostgresServer::shared() else { return };
    let client = look(server).await;
    let fresh = in_schema("fresh").connect(&server.url("postgres")).await.unwrap();
    drop(fresh);
    for (version, fixture) in (1..).zip(FIXTURES) {
        client.batch_execute("DROP SCHEMA IF EXISTS fixture CASCADE").await.unwrap();
        client.batch_execute(fixture).await.unwrap();
        let storage = in_schema("fixture").connect(&server.url("postgres")).await.unwrap();

        assert_eq!(shape("fixture").await, shape("fresh").await, "of version {version}");
        let (loaded, revision) = storage.load_versioned("chat-1").await.unwrap();
        assert_eq!(loaded.messages[0].text(), "a\0b \u{1f980}");
        assert_eq!(loaded.created_at.to_rfc3339(), "2026-01-02T03:04:05.123456789+00:00");
        assert_eq!(loaded.state.custom["theme"], "dark");
        storage.append("chat-1", &[Message::user("on")], None, &revision).await.unwrap();
        assert_eq!(storage.load("chat-1").await.unwrap().messages.len(), 3);
        assert_eq!(storage.list().await.unwrap().len(), 2);
    }
}

/// Returns the columns, indexes and constraints of all tables in a schema, as text to compare.
async fn shape(schema: &str) -> Vec<String> {
    let server = PostgresServer::shared().unwrap();
    let statement = "
        SELECT concat_ws(' ', table_name, column_name, data_type, collation_name, is_nullable,
            column_default, is_identity)
        FROM information_schema.columns WHERE table_schema = $1
        UNION ALL
        SELECT replace(indexdef, $1, '') FROM pg_indexes WHERE schemaname = $1
        UNION ALL
        SELECT replace(conrelid::regclass || pg_get_constraintdef(oid), $1, '')
        FROM pg_constraint WHERE connamespace::regnamespace::text = $1
        ORDER BY 1";
    let rows = look(server).await.query(statement, &[&schema]).await.unwrap();
    assert!(rows.len() > 10);
    rows.iter().map(|row| row.get(0)).collect()
}

#[tokio::test]
async fn newer_version_is_rejected_and_not_changed() {
    let Some(server) = PostgresServer::shared() else { return };
    let url = server.url("postgres");
    let storage = in_schema("newer").connect(&url).await.unwrap();
    storage.save(&session("s", 2)).await.unwrap();
    let newer = "INSERT INTO newer.session_migrations (version) VALUES (7)";
    look(server).await.batch_execute(newer).await.unwrap();

    let error = in_schema("newer").connect(&url).await.unwrap_err();
    let found = matches!(error, StorageError::UnsupportedVersion { found: 7, supported: 1, .. });
    assert!(found, "{error:?}");
    let location = format!("schema newer of database postgres at 127.0.0.1:{}", server.port());
    assert_eq!(
        error.to_string(),
        format!(
            "{location} has format version 7, and this version reads up to {NEWEST}: update neuron, or store the \
             sessions elsewhere"
        )
    );
}

#[tokio::test]
async fn tables_of_another_application_are_not_changed() {
    let Some(server) = PostgresServer::shared() else { return };
    let client = look(server).await;
    let foreign = "CREATE SCHEMA foreigner; CREATE TABLE foreigner.sessions (id text); \
                   INSERT INTO foreigner.sessions VALUES ('theirs')";
    client.batch_execute(foreign).await.unwrap();
    let error = in_schema("foreigner").connect(&server.url("postgres")).await.unwrap_err();
    let location = format!("schema foreigner of database postgres at 127.0.0.1:{}", server.port());
    assert_eq!(
        error.to_string(),
        format!(
            "{location} has tables of another application: use another schema \
             (`PostgresSessionStorage::builder().schema(..)`): relation \"sessions\" already exists (42P07)"
        )
    );
    let row = client
        .query_one(
            "SELECT (SELECT string_agg(id, ',') FROM foreigner.sessions), \
             to_regclass('foreigner.session_migrations') IS NULL",
            &[],
        )
        .await
        .unwrap();
    assert_eq!((row.get::<_, &str>(0), row.get::<_, bool>(1)), ("theirs", true));
}

#[tokio::test]
async fn role_without_rights_to_create_tables_uses_existing_tables() {
    let Some(server) = PostgresServer::shared() else { return };
    let client = look(server).await;
    client
        .batch_execute("CREATE ROLE clerk LOGIN PASSWORD 'pen'; CREATE DATABASE office")
        .await
        .unwrap_err();
    for statement in ["CREATE ROLE clerk LOGIN PASSWORD 'pen'", "CREATE DATABASE office"] {
        client.batch_execute(statement).await.unwrap();
    }
    let url = format!("postgres://clerk:pen@127.0.0.1:{}/office", server.port());
    let error = in_schema("desk").connect(&url).await.unwrap_err();
    assert_eq!(error.to_string(), "PostgreSQL: permission denied for database office (42501)");

    in_schema("desk").connect(&server.url("office")).await.unwrap();
    let rights = "GRANT USAGE ON SCHEMA desk TO clerk; \
                  GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA desk TO clerk";
    crate::support::look_at(&server.url("office")).await.batch_execute(rights).await.unwrap();
    let storage = in_schema("desk").connect(&url).await.unwrap();
    storage.save(&session("s", 2)).await.unwrap();
    let mut changed = session("s", 3);
    changed.messages.remove(0);
    storage.save(&changed).await.unwrap();
    let revision = storage.revision("s").await.unwrap();
    storage.append("s", &[Message::user("x")], None, &revision).await.unwrap();
    assert_eq!(storage.load("s").await.unwrap().messages.len(), 3);
    storage.delete("s").await.unwrap();
}
