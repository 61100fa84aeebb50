-- What version 5 added.

-- A check of each row, the CRC-32 of its values; seals.py knows of what.
ALTER TABLE queues ADD COLUMN seal INTEGER NOT NULL DEFAULT 0;
ALTER TABLE log_end ADD COLUMN seal INTEGER NOT NULL DEFAULT 0;
ALTER TABLE topics ADD COLUMN seal INTEGER NOT NULL DEFAULT 0;
ALTER TABLE consumer_groups ADD COLUMN seal INTEGER NOT NULL DEFAULT 0;
ALTER TABLE offsets ADD COLUMN seal INTEGER NOT NULL DEFAULT 0;
ALTER TABLE resets ADD COLUMN seal INTEGER NOT NULL DEFAULT 0;
ALTER TABLE queue_locks ADD COLUMN seal INTEGER NOT NULL DEFAULT 0;
ALTER TABLE named_values ADD COLUMN seal INTEGER NOT NULL DEFAULT 0;

-- `seal` is the complement of `due_ms`.
ALTER TABLE delays ADD COLUMN seal INTEGER NOT NULL DEFAULT 0;
UPDATE delays SET seal = ~due_ms;

-- Since this version `messages.checksum` has the complement of `tag` above its lower 32 bits. Messages that are older have
-- nothing there: their tags are believed, until they are removed for their age. Where in the log they end:
INSERT INTO named_values (scope, name, value)
    SELECT 'store', 'tags_checked_from', CAST(place + 1 AS TEXT) FROM messages ORDER BY place DESC LIMIT 1;

-- Which message it was (its id), when its copy is due, and whether its group went back behind it since.
ALTER TABLE sent_back ADD COLUMN message INTEGER NOT NULL DEFAULT 0;
ALTER TABLE sent_back ADD COLUMN due_ms INTEGER NOT NULL DEFAULT 0;
ALTER TABLE sent_back ADD COLUMN is_rewound INTEGER NOT NULL DEFAULT 0;
CREATE INDEX sent_back_by_message ON sent_back (broker, consumer_group, message);
