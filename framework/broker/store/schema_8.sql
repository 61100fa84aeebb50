-- What version 8 added.

-- Popped messages: a row for each that a consumer holds and has not acknowledged. `message` is its id; `popped_ms` is the time
-- in its receipt, by the wall clock; at `due_ms`, by the schedule's, it is put on the retry topic, unless it was acknowledged.
CREATE TABLE popped (
    broker         TEXT NOT NULL,
    consumer_group TEXT NOT NULL,
    message        INTEGER NOT NULL,
    popped_ms      INTEGER NOT NULL,
    due_ms         INTEGER NOT NULL,
    seal           INTEGER NOT NULL,
    PRIMARY KEY (broker, consumer_group, message)
) STRICT, WITHOUT ROWID;

CREATE INDEX popped_by_due ON popped (broker, due_ms);
