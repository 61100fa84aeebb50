-- What version 6 added.

-- The check of a row, the CRC-32 of its values without `is_rewound`; its complement where the group went back behind the
-- message. Rows that are older have none, and live for an hour.
ALTER TABLE sent_back ADD COLUMN seal INTEGER;
