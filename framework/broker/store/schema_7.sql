-- What version 7 added.

-- Transactions: a row for each half message, which lies in a topic of its own at `place`. `state` is 0 while it is open, 1
-- once it is given up, else how it ended: 8 committed, 12 rolled back. Times are the schedule's.
CREATE TABLE halves (
    broker         TEXT NOT NULL,
    place          INTEGER NOT NULL,
    queue_offset   INTEGER NOT NULL,
    producer_group TEXT NOT NULL,
    begun_ms       INTEGER NOT NULL,
    checks         INTEGER NOT NULL,
    due_ms         INTEGER NOT NULL,
    state          INTEGER NOT NULL,
    seal           INTEGER NOT NULL,
    PRIMARY KEY (broker, place)
) STRICT, WITHOUT ROWID;

CREATE INDEX halves_by_due ON halves (broker, state, due_ms);
