-- The map of the log's first entries, in pages: for every stream, how many entries it has and the hash of the last. id is the number
-- of hex digits that the page's keys begin with, and the bytes that hold them. The newest entry of the kind log.mapped commits to it.
CREATE TABLE map_page (
    id    BLOB NOT NULL PRIMARY KEY,
    body  BLOB NOT NULL
) STRICT;

-- These entries are many, and only the newest is asked for.
CREATE INDEX entry_mapped ON entry (kind, idx) WHERE kind = 'log.mapped';
