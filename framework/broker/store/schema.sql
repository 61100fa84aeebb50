-- One file holds every logical broker of the process; what belongs to one of them names it.
-- A message's id is its queue's id shifted left by 40 bits, plus its offset: a queue is one run of the table's
-- primary key, so a pull reads neighbours, and an offset cannot hold two bodies.

CREATE TABLE queues (
    id     INTEGER PRIMARY KEY,
    broker TEXT NOT NULL,
    topic  TEXT NOT NULL,
    number INTEGER NOT NULL,
    low    INTEGER NOT NULL DEFAULT 0,
    UNIQUE (broker, topic, number)
) STRICT;

-- `record` is the message as a pull's answer carries it; `checksum` is the CRC-32 of all its bytes;
-- `place` is its commit-log offset: the sum of the lengths of all records before it, of all brokers.
CREATE TABLE messages (
    id        INTEGER PRIMARY KEY,
    place     INTEGER NOT NULL,
    stored_ms INTEGER NOT NULL,
    tag       INTEGER NOT NULL,
    checksum  INTEGER NOT NULL,
    record    BLOB NOT NULL
) STRICT;
CREATE UNIQUE INDEX messages_by_place ON messages (place);

CREATE TABLE topics (
    broker       TEXT NOT NULL,
    name         TEXT NOT NULL,
    read_queues  INTEGER NOT NULL,
    write_queues INTEGER NOT NULL,
    perm         INTEGER NOT NULL,
    is_ordered   INTEGER NOT NULL,
    sys_flag     INTEGER NOT NULL,
    attributes   TEXT NOT NULL,
    PRIMARY KEY (broker, name)
) STRICT, WITHOUT ROWID;

CREATE TABLE consumer_groups (
    broker            TEXT NOT NULL,
    name              TEXT NOT NULL,
    may_consume       INTEGER NOT NULL,
    may_broadcast     INTEGER NOT NULL,
    retry_queues      INTEGER NOT NULL,
    retries_max       INTEGER NOT NULL,
    notifies_members  INTEGER NOT NULL,
    PRIMARY KEY (broker, name)
) STRICT, WITHOUT ROWID;

-- `next_offset` is the first offset that the group has not finished.
CREATE TABLE offsets (
    broker         TEXT NOT NULL,
    consumer_group TEXT NOT NULL,
    topic          TEXT NOT NULL,
    number         INTEGER NOT NULL,
    next_offset    INTEGER NOT NULL,
    PRIMARY KEY (broker, consumer_group, topic, number)
) STRICT, WITHOUT ROWID;

-- Messages that go to their real queue at `due_ms`; until then each is stored, at `place`, in the schedule topic.
-- Those of one moment go in the order in which they came.
CREATE TABLE delays (
    due_ms INTEGER NOT NULL,
    place  INTEGER NOT NULL,
    PRIMARY KEY (due_ms, place)
) STRICT, WITHOUT ROWID;

-- Send-backs already done, so that one asked twice makes one copy.
CREATE TABLE sent_back (
    broker         TEXT NOT NULL,
    consumer_group TEXT NOT NULL,
    origin         TEXT NOT NULL,
    reconsumed     INTEGER NOT NULL,
    done_ms        INTEGER NOT NULL,
    PRIMARY KEY (broker, consumer_group, origin, reconsumed)
) STRICT, WITHOUT ROWID;
CREATE INDEX sent_back_by_age ON sent_back (done_ms);
