-- Keys of the operator, made on the database alone. hash is the SHA-256 of a key's text. revoked_ms repeats what the document
-- says. mac is a code over the whole row, made with the sealing key.
CREATE TABLE operator_key (
    id          BLOB    NOT NULL PRIMARY KEY,
    hash        BLOB    NOT NULL UNIQUE,
    revoked_ms  INTEGER,
    body        TEXT    NOT NULL,
    mac         BLOB    NOT NULL
) STRICT;
CREATE INDEX operator_key_live ON operator_key (id) WHERE revoked_ms IS NULL;

-- What the operator did, and what partners changed of keys, secrets, endpoints and policies: one row for each, in the
-- transaction of what it records. partner_id is the partner concerned, null if there is none. Both columns beside the document
-- repeat it. mac is a code over the whole row, made with the sealing key.
CREATE TABLE audit (
    id          BLOB    NOT NULL PRIMARY KEY,
    partner_id  BLOB    REFERENCES partner (id) DEFERRABLE INITIALLY DEFERRED,
    action      TEXT    NOT NULL,
    body        TEXT    NOT NULL,
    mac         BLOB    NOT NULL
) STRICT;
CREATE INDEX audit_by_partner ON audit (partner_id, id);
CREATE INDEX audit_by_action ON audit (action, id);
CREATE INDEX audit_of_partner ON audit (partner_id, action, id);
