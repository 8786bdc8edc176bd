-- How it went with the witnesses at one address, of which id is the SHA-256. mac is a code over the whole row, made with the sealing
-- key.
CREATE TABLE witness (
    id    BLOB NOT NULL PRIMARY KEY,
    body  TEXT NOT NULL,
    mac   BLOB NOT NULL
) STRICT;

-- The newest checkpoints that witnesses have cosigned. witness is the SHA-256 of vkey, the witness's key; note is the log's signed
-- checkpoint and, after it, the witness's line.
CREATE TABLE cosignature (
    size     INTEGER NOT NULL,
    witness  BLOB    NOT NULL,
    vkey     TEXT    NOT NULL,
    note     TEXT    NOT NULL,
    PRIMARY KEY (size, witness)
) STRICT;

-- Time-stamps of checkpoints. idx is the entry that commits to the response, size the number of entries that the checkpoint
-- covers, time_ms the stamped time; size and time repeat what checkpoint and response say.
CREATE TABLE stamp (
    idx         INTEGER NOT NULL PRIMARY KEY,
    size        INTEGER NOT NULL,
    time_ms     INTEGER NOT NULL,
    checkpoint  TEXT    NOT NULL,
    response    BLOB    NOT NULL
) STRICT;
CREATE INDEX stamp_by_size ON stamp (size);
CREATE INDEX stamp_by_time ON stamp (time_ms);

-- One row once a stamp was asked for. Before next_ms no node asks. asked counts the questions since the last stamp, and trouble says
-- why the last one got none. Nothing depends on this row: if it is reset, a node asks at once.
CREATE TABLE stamping (
    id       INTEGER NOT NULL PRIMARY KEY CHECK (id = 1),
    next_ms  INTEGER NOT NULL,
    asked    INTEGER NOT NULL,
    trouble  TEXT
) STRICT;

-- The log's own entries that say how it continued are few among those that commit to stamps.
CREATE INDEX entry_continued ON entry (kind, idx) WHERE kind = 'log.continued';
