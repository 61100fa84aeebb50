-- What version 3 added.

-- Who may handle a queue of a group that works in order. For how long is not kept: a lock that is found at the start is
-- as good as new, so that none is granted to another before the old one could have run out, whatever the clocks say.
CREATE TABLE queue_locks (
    broker         TEXT NOT NULL,
    consumer_group TEXT NOT NULL,
    topic          TEXT NOT NULL,
    queue_broker   TEXT NOT NULL,
    number         INTEGER NOT NULL,
    client_id      TEXT NOT NULL,
    PRIMARY KEY (broker, consumer_group, topic, queue_broker, number)
) STRICT, WITHOUT ROWID;
