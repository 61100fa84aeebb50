-- What version 2 added.

-- Messages by their keys: one row a group of writes. `hashes` are CRC-32s of `topic#key`, four bytes each; `messages`
-- the ids of the messages that have them, eight bytes each, in the same order.
CREATE TABLE message_keys (
    id        INTEGER PRIMARY KEY,
    stored_ms INTEGER NOT NULL,
    hashes    BLOB NOT NULL,
    messages  BLOB NOT NULL
) STRICT;

-- Queues of deleted topics whose messages are still to be removed. Until then their id must not be given out again.
CREATE TABLE dropped_queues (
    id INTEGER PRIMARY KEY
) STRICT;

-- How far the log ever was. Messages at its end may be deleted, but a place is never given out twice: ids of messages
-- are made of it.
CREATE TABLE log_end (
    place     INTEGER NOT NULL,
    stored_ms INTEGER NOT NULL
) STRICT;

-- Settings by name: a name server's namespaces, what was changed of a broker's while it ran.
CREATE TABLE named_values (
    scope TEXT NOT NULL,
    name  TEXT NOT NULL,
    value TEXT NOT NULL,
    PRIMARY KEY (scope, name)
) STRICT, WITHOUT ROWID;

-- Offsets that an administrator set and that no member of the group has taken up yet.
CREATE TABLE resets (
    broker         TEXT NOT NULL,
    consumer_group TEXT NOT NULL,
    topic          TEXT NOT NULL,
    number         INTEGER NOT NULL,
    next_offset    INTEGER NOT NULL,
    PRIMARY KEY (broker, consumer_group, topic, number)
) STRICT, WITHOUT ROWID;

-- Settings of a group that are kept and shown, and acted on by nobody here.
ALTER TABLE consumer_groups ADD COLUMN kept TEXT NOT NULL DEFAULT '{}';
-- Topics that the group may not read.
ALTER TABLE consumer_groups ADD COLUMN forbidden TEXT NOT NULL DEFAULT '[]';
