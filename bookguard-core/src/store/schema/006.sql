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
