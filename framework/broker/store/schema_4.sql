-- What version 4 added.

-- What members of a group have finished above a gap in a queue, in words that only they know. `epoch` is that of the
-- acquisition which wrote it; `checksum` the CRC-32 of both, for a record is an instruction to skip messages.
CREATE TABLE progress (
    broker         TEXT NOT NULL,
    consumer_group TEXT NOT NULL,
    topic          TEXT NOT NULL,
    number         INTEGER NOT NULL,
    epoch          INTEGER NOT NULL,
    checksum       INTEGER NOT NULL,
    content        BLOB NOT NULL,
    PRIMARY KEY (broker, consumer_group, topic, number)
) STRICT, WITHOUT ROWID;
