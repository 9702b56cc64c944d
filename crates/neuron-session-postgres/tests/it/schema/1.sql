-- Version 1 with two sessions: pg_dump --schema=fixture --column-inserts --no-owner, without its settings.

CREATE SCHEMA fixture;

CREATE TABLE fixture.session_messages (
    session bigint NOT NULL,
    "position" bigint NOT NULL,
    body text NOT NULL,
    digest bytea NOT NULL
);

CREATE TABLE fixture.session_migrations (
    version bigint NOT NULL,
    applied_at timestamp with time zone DEFAULT now() NOT NULL
);

CREATE TABLE fixture.sessions (
    key bigint NOT NULL,
    id text NOT NULL COLLATE pg_catalog."C",
    revision bigint NOT NULL,
    state text NOT NULL,
    created_at timestamp with time zone NOT NULL,
    created_nanos smallint NOT NULL,
    updated_at timestamp with time zone NOT NULL,
    updated_nanos smallint NOT NULL,
    message_count bigint NOT NULL,
    digest bytea NOT NULL
);

ALTER TABLE fixture.sessions ALTER COLUMN key ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME fixture.sessions_key_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

ALTER TABLE fixture.sessions ALTER COLUMN revision ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME fixture.sessions_revision_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

INSERT INTO fixture.session_messages (session, "position", body, digest) VALUES (1, 0, '{"role":"user","content":[{"type":"text","text":"a\u0000b 🦀"}]}', '\xc4646d7d4eadfaa76458c5ad6a3b088c');
INSERT INTO fixture.session_messages (session, "position", body, digest) VALUES (1, 1, '{"role":"assistant","content":[{"type":"text","text":"Noted."}]}', '\x92e7e0f333a7b5fc945ad9b85664bdc3');

INSERT INTO fixture.session_migrations (version, applied_at) VALUES (1, '2026-11-21 21:45:52.679746+00');

INSERT INTO fixture.sessions (key, id, revision, state, created_at, created_nanos, updated_at, updated_nanos, message_count, digest) OVERRIDING SYSTEM VALUE VALUES (1, 'chat-1', 1, '{"cwd":"/srv/project","token_usage":{"input_tokens":0,"output_tokens":0},"event_count":0,"custom":{"theme":"dark"}}', '2026-01-02 03:04:05.123456+00', 789, '2026-01-02 03:05:06+00', 0, 2, '\x92e7e0f333a7b5fc945ad9b85664bdc3');
INSERT INTO fixture.sessions (key, id, revision, state, created_at, created_nanos, updated_at, updated_nanos, message_count, digest) OVERRIDING SYSTEM VALUE VALUES (2, 'chat-2', 2, '{"cwd":"/srv/project","token_usage":{"input_tokens":0,"output_tokens":0},"event_count":0,"custom":{"theme":"dark"}}', '2026-01-02 03:04:05.123456+00', 789, '2026-01-02 03:05:06+00', 0, 0, '\x00000000000000000000000000000000');

SELECT pg_catalog.setval('fixture.sessions_key_seq', 2, true);

SELECT pg_catalog.setval('fixture.sessions_revision_seq', 2, true);

ALTER TABLE ONLY fixture.session_messages
    ADD CONSTRAINT session_messages_pkey PRIMARY KEY (session, "position");

ALTER TABLE ONLY fixture.session_migrations
    ADD CONSTRAINT session_migrations_pkey PRIMARY KEY (version);

ALTER TABLE ONLY fixture.sessions
    ADD CONSTRAINT sessions_id_key UNIQUE (id);

ALTER TABLE ONLY fixture.sessions
    ADD CONSTRAINT sessions_pkey PRIMARY KEY (key);

ALTER TABLE ONLY fixture.session_messages
    ADD CONSTRAINT session_messages_session_fkey FOREIGN KEY (session) REFERENCES fixture.sessions(key) ON DELETE CASCADE;
