-- A session without its messages. Its key is another one after it was deleted and made again.
CREATE TABLE {schema}.sessions (
    key bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    -- Ordered by bytes, whatever the language of the database.
    id text COLLATE "C" NOT NULL UNIQUE,
    -- Out of a sequence, another one with every write (`SET revision = DEFAULT`).
    revision bigint GENERATED ALWAYS AS IDENTITY,
    -- JSON.
    state text NOT NULL,
    -- PostgreSQL counts microseconds; *_nanos is what is beyond.
    created_at timestamptz NOT NULL,
    created_nanos smallint NOT NULL,
    updated_at timestamptz NOT NULL,
    updated_nanos smallint NOT NULL,
    message_count bigint NOT NULL,
    -- That of the last message.
    digest bytea NOT NULL
);

CREATE TABLE {schema}.session_messages (
    session bigint NOT NULL REFERENCES {schema}.sessions (key) ON DELETE CASCADE,
    position bigint NOT NULL,
    -- JSON, byte by byte as it was written. The types json and jsonb refuse or change some of it.
    body text NOT NULL,
    -- Half the SHA-256 of the digest before and the body: stands for the messages up to this one.
    digest bytea NOT NULL,
    PRIMARY KEY (session, position)
);
