-- Sessions of the console. A row without started_ms is a link that nobody has opened. hash is the SHA-256 of the token that opens
-- the row: the link's until it is opened, then the session's; neither token is stored. key_id is the key with which the session
-- acts, and partner_id its owner, null if it has none. The other columns beside the document repeat it. mac is a code over the whole
-- row, made with the sealing key.
CREATE TABLE console_session (
    id          BLOB    NOT NULL PRIMARY KEY,
    partner_id  BLOB    REFERENCES partner (id) DEFERRABLE INITIALLY DEFERRED,
    key_id      BLOB    NOT NULL,
    hash        BLOB    NOT NULL UNIQUE,
    started_ms  INTEGER,
    expires_ms  INTEGER NOT NULL,
    ended_ms    INTEGER,
    body        TEXT    NOT NULL,
    mac         BLOB    NOT NULL
) STRICT;
CREATE INDEX console_session_by_partner ON console_session (partner_id, id);
CREATE INDEX console_session_unexpired ON console_session (partner_id, expires_ms);
CREATE INDEX console_session_by_expiry ON console_session (expires_ms);
