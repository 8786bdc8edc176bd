-- The first schema, written once, for SQLite. The PostgreSQL engine replaces the words INTEGER, BLOB, TEXT and STRICT,
-- and leaves references out.
--
-- Times are milliseconds since the epoch, ids are the 16 bytes of a UUIDv7, and documents are JSON text. A column
-- repeats a value of a document only where SQL filters, sorts, joins or moves it. References are checked when a batch
-- commits: if a reference is checked by the statement, SQLite keeps a copy of every page that the statement touches.

-- events and policies count all events of the partner and all versions of its policies, ever. put_ms is the time of the
-- last version, 0 if there is none. bookings and bytes count its bookings and the size of each booking's first facts
-- and terms. file_bytes is the size of its whole files. day_events counts its events since the beginning of day, which is
-- in UTC and counts days since the epoch. quota is the operator's setting for this partner.
CREATE TABLE partner (
    id        BLOB    NOT NULL PRIMARY KEY,
    status    INTEGER NOT NULL,
    events    INTEGER NOT NULL,
    policies  INTEGER NOT NULL,
    put_ms    INTEGER NOT NULL,
    bookings  INTEGER NOT NULL,
    bytes     INTEGER NOT NULL,
    day       INTEGER NOT NULL,
    day_events INTEGER NOT NULL,
    file_bytes INTEGER NOT NULL,
    quota     TEXT    NOT NULL,
    settings  TEXT    NOT NULL,
    body      TEXT    NOT NULL
) STRICT;

-- The sealed secrets that sign webhooks, one row per secret. The owner is a partner or an endpoint. from_ms is when the
-- secret takes over from the one made before it.
CREATE TABLE secret (
    owner    BLOB    NOT NULL,
    made_ms  INTEGER NOT NULL,
    from_ms  INTEGER NOT NULL,
    sealed   BLOB    NOT NULL,
    PRIMARY KEY (owner, made_ms)
) STRICT;

-- mac and standing are codes made with the sealing key: mac over id, partner, hash and body, standing over id and
-- revoked_ms.
CREATE TABLE api_key (
    id          BLOB    NOT NULL PRIMARY KEY,
    partner_id  BLOB    NOT NULL REFERENCES partner (id) DEFERRABLE INITIALLY DEFERRED,
    hash        BLOB    NOT NULL UNIQUE,
    revoked_ms  INTEGER,
    body        TEXT    NOT NULL,
    mac         BLOB    NOT NULL,
    standing    BLOB    NOT NULL
) STRICT;
CREATE INDEX api_key_by_partner ON api_key (partner_id, id);
CREATE INDEX api_key_live ON api_key (partner_id) WHERE revoked_ms IS NULL;

-- Policies by the SHA-256 of their canonical text, so that a thousand bookings under one policy store it once.
CREATE TABLE policy (
    hash  BLOB NOT NULL PRIMARY KEY,
    body  TEXT NOT NULL
) STRICT;

-- Every version of the partners' own policies. latest is 1 on the last version of each policy.
CREATE TABLE policy_version (
    partner_id  BLOB    NOT NULL REFERENCES partner (id) DEFERRABLE INITIALLY DEFERRED,
    policy_id   TEXT    NOT NULL,
    version     INTEGER NOT NULL,
    made_ms     INTEGER NOT NULL,
    latest      INTEGER NOT NULL,
    hash        BLOB    NOT NULL REFERENCES policy (hash) DEFERRABLE INITIALLY DEFERRED,
    PRIMARY KEY (partner_id, policy_id, version)
) STRICT;
CREATE UNIQUE INDEX policy_latest ON policy_version (partner_id, policy_id) WHERE latest = 1;

-- body is the booking exactly as GET answers it now. It is a copy of what the booking's entries imply: every change
-- rewrites it, and the ledger check compares it with them. terms are those recorded first. Once the event was
-- rescheduled, the entry rescheduled_leaf holds the current terms, and moves holds what had been reached before each
-- reschedule.
CREATE TABLE booking (
    id               BLOB    NOT NULL PRIMARY KEY,
    partner_id       BLOB    NOT NULL REFERENCES partner (id) DEFERRABLE INITIALLY DEFERRED,
    status           INTEGER NOT NULL,
    event_ms         INTEGER NOT NULL,
    protected_leaf   INTEGER,
    rescheduled_leaf INTEGER,
    moves            TEXT,
    resolution_leaf  INTEGER,
    stream           BLOB    NOT NULL,
    entries          INTEGER NOT NULL,
    tip              BLOB    NOT NULL,
    policy_hash      BLOB    REFERENCES policy (hash) DEFERRABLE INITIALLY DEFERRED,
    body             TEXT    NOT NULL,
    terms            TEXT    NOT NULL
) STRICT;
CREATE INDEX booking_by_partner ON booking (partner_id, id);

-- The log, one row per leaf, with what opens its commitment: the fact as JSON, and the seed of its salts. An entry
-- without a booking is the log's own and records how the log continued after a loss.
CREATE TABLE entry (
    idx          INTEGER NOT NULL PRIMARY KEY,
    booking_id   BLOB    REFERENCES booking (id) DEFERRABLE INITIALLY DEFERRED,
    seq          INTEGER NOT NULL,
    leaf         BLOB    NOT NULL,
    kind         TEXT    NOT NULL,
    seed         BLOB    NOT NULL,
    facts        TEXT    NOT NULL
) STRICT;
CREATE UNIQUE INDEX entry_by_booking ON entry (booking_id, seq);

-- The place of the entry that records a resolution. Its content is only in the entry.
CREATE TABLE resolution (
    id          BLOB    NOT NULL PRIMARY KEY,
    booking_id  BLOB    NOT NULL REFERENCES booking (id) DEFERRABLE INITIALLY DEFERRED,
    leaf_idx    INTEGER NOT NULL
) STRICT;
CREATE UNIQUE INDEX resolution_by_booking ON resolution (booking_id, leaf_idx);

-- Links that show a booking's evidence to people without an account. hash is the SHA-256 of a link's token, which is stored
-- nowhere. expires_ms and revoked_ms repeat what the document says. mac is a code over the whole row, made with the sealing
-- key.
CREATE TABLE share (
    id          BLOB    NOT NULL PRIMARY KEY,
    booking_id  BLOB    NOT NULL REFERENCES booking (id) DEFERRABLE INITIALLY DEFERRED,
    hash        BLOB    NOT NULL UNIQUE,
    expires_ms  INTEGER NOT NULL,
    revoked_ms  INTEGER,
    body        TEXT    NOT NULL,
    mac         BLOB    NOT NULL
) STRICT;
CREATE INDEX share_by_booking ON share (booking_id, id);
CREATE INDEX share_by_expiry ON share (expires_ms);

CREATE TABLE tile (
    level   INTEGER NOT NULL,
    idx     INTEGER NOT NULL,
    hashes  BLOB    NOT NULL,
    PRIMARY KEY (level, idx)
) STRICT;

-- One row: the head of the log. Every commit moves it from exactly the size and root that were loaded. moved_to names
-- the database the log was moved to, after which nothing is written here. written_ms is the time of the last entry; no
-- later entry has an earlier time.
CREATE TABLE head (
    id          INTEGER NOT NULL PRIMARY KEY CHECK (id = 1),
    origin      TEXT    NOT NULL,
    vkey        TEXT    NOT NULL,
    size        INTEGER NOT NULL,
    root        BLOB    NOT NULL,
    checkpoint  TEXT    NOT NULL,
    written_ms  INTEGER NOT NULL DEFAULT 0,
    moved_to    TEXT
) STRICT;

-- Checkpoints kept for good, at least one for every second in which the log grew.
CREATE TABLE checkpoint (
    size   INTEGER NOT NULL PRIMARY KEY,
    at_ms  INTEGER NOT NULL,
    note   TEXT    NOT NULL
) STRICT;

-- since_ms is since when the endpoint takes what it takes now, null if its partner never changed that. failures counts
-- the failures in a row, and failing_ms is when they began. probe_ms is when one delivery may be tried while the
-- endpoint is suspended or not verified. unverified_ms is since when deliveries go to its address without one being
-- accepted. The indexes on probe_ms and unverified_ms find times that lie in the future because the clock was set back.
CREATE TABLE endpoint (
    id          BLOB    NOT NULL PRIMARY KEY,
    partner_id  BLOB    NOT NULL REFERENCES partner (id) DEFERRABLE INITIALLY DEFERRED,
    status      INTEGER NOT NULL,
    since_ms    INTEGER,
    failures    INTEGER NOT NULL,
    failing_ms  INTEGER,
    probe_ms    INTEGER,
    unverified_ms INTEGER,
    deleted_ms  INTEGER,
    body        TEXT    NOT NULL
) STRICT;
CREATE INDEX endpoint_by_partner ON endpoint (partner_id, id) WHERE deleted_ms IS NULL;
CREATE INDEX endpoint_probed ON endpoint (probe_ms) WHERE probe_ms IS NOT NULL;
CREATE INDEX endpoint_unverified ON endpoint (unverified_ms) WHERE unverified_ms IS NOT NULL;

-- The body is exactly what was delivered. After an old event was pruned, at pruned_ms, only the body's SHA-256 is left.
CREATE TABLE event (
    id          BLOB    NOT NULL PRIMARY KEY,
    partner_id  BLOB    NOT NULL REFERENCES partner (id) DEFERRABLE INITIALLY DEFERRED,
    seq         INTEGER NOT NULL,
    booking_id  BLOB    NOT NULL REFERENCES booking (id) DEFERRABLE INITIALLY DEFERRED,
    type        INTEGER NOT NULL,
    retries     INTEGER NOT NULL,
    body        BLOB,
    pruned_ms   INTEGER,
    digest      BLOB
) STRICT;
CREATE UNIQUE INDEX event_by_partner ON event (partner_id, seq);
CREATE INDEX event_by_booking ON event (booking_id, seq);

-- One row once events were pruned. next is the id at which the search for old events continues. waiting is the first
-- event that was passed over because one of its deliveries still waited. Nothing depends on this row: if it is reset,
-- the search finds again what it left out.
CREATE TABLE sweep (
    id       INTEGER NOT NULL PRIMARY KEY CHECK (id = 1),
    next     BLOB    NOT NULL,
    waiting  BLOB
) STRICT;

-- due_ms is when a courier may next take the delivery: the time of the next attempt, or the end of a lease; null when
-- the delivery is over. settled_leaf is the entry that records how it ended, the latest one if it was given up, retried
-- and accepted. Most rows are inserted leased and end delivered, so they never enter the index that is queried four
-- times a second. begun_ms is when its schedule began, if not when the event happened. since_ms is when due_ms was
-- computed, and null with it. If since_ms lies in the future, the clock was set back since then, and the wait is
-- computed anew.
CREATE TABLE delivery (
    event_id     BLOB    NOT NULL REFERENCES event (id) DEFERRABLE INITIALLY DEFERRED,
    endpoint_id  BLOB    NOT NULL REFERENCES endpoint (id) DEFERRABLE INITIALLY DEFERRED,
    phase        INTEGER NOT NULL,
    attempts     INTEGER NOT NULL,
    charged      INTEGER NOT NULL,
    due_ms       INTEGER,
    lease        INTEGER,
    settled_leaf INTEGER,
    begun_ms     INTEGER,
    since_ms     INTEGER,
    PRIMARY KEY (event_id, endpoint_id)
) STRICT;
CREATE INDEX delivery_waiting ON delivery (endpoint_id, due_ms) WHERE lease IS NULL AND due_ms IS NOT NULL;
CREATE INDEX delivery_reckoned ON delivery (since_ms) WHERE lease IS NULL AND due_ms IS NOT NULL;
CREATE INDEX delivery_leased ON delivery (due_ms) WHERE lease IS NOT NULL;

CREATE TABLE attempt (
    event_id     BLOB    NOT NULL,
    endpoint_id  BLOB    NOT NULL,
    number       INTEGER NOT NULL,
    body         TEXT    NOT NULL,
    PRIMARY KEY (event_id, endpoint_id, number)
) STRICT;

-- Recoveries, which deliver events again or only count them: the request, the number of the last event examined, and
-- the counts up to it. A step updates these together with the deliveries it makes due. A partner has one running
-- recovery at a time.
CREATE TABLE recovery (
    id           BLOB    NOT NULL PRIMARY KEY,
    partner_id   BLOB    NOT NULL REFERENCES partner (id) DEFERRABLE INITIALLY DEFERRED,
    reached      INTEGER NOT NULL,
    examined     INTEGER NOT NULL,
    recovered    INTEGER NOT NULL,
    deliveries   INTEGER NOT NULL,
    unclaimed    INTEGER NOT NULL,
    expired      INTEGER NOT NULL,
    finished_ms  INTEGER,
    body         TEXT    NOT NULL
) STRICT;
CREATE INDEX recovery_by_partner ON recovery (partner_id, id);
CREATE UNIQUE INDEX recovery_under_way ON recovery (partner_id) WHERE finished_ms IS NULL;

-- Files of evidence items, once per partner and content: the id is the partner's id and then the SHA-256 of the bytes.
-- parts counts those of its file_part rows that are stored, the first ones without a gap. A file is whole when it has all
-- of them, and whole is then 1; before that, nobody can read it, and it is deleted if no part was added for long. at_ms is
-- when the last part was added.
CREATE TABLE file (
    id      BLOB    NOT NULL PRIMARY KEY,
    size    INTEGER NOT NULL,
    media   INTEGER NOT NULL,
    crc     INTEGER NOT NULL,
    parts   INTEGER NOT NULL,
    at_ms   INTEGER NOT NULL,
    whole   INTEGER NOT NULL
) STRICT;
CREATE INDEX file_unfinished ON file (at_ms) WHERE whole = 0;

CREATE TABLE file_part (
    file_id  BLOB    NOT NULL REFERENCES file (id) DEFERRABLE INITIALLY DEFERRED,
    number   INTEGER NOT NULL,
    bytes    BLOB    NOT NULL,
    PRIMARY KEY (file_id, number)
) STRICT;

-- Answers remembered under an Idempotency-Key. They are sealed because some contain a key that is shown once.
CREATE TABLE answer (
    key      BLOB    NOT NULL PRIMARY KEY,
    at_ms    INTEGER NOT NULL,
    request  BLOB    NOT NULL,
    body     BLOB    NOT NULL
) STRICT;
CREATE INDEX answer_by_age ON answer (at_ms);
