-- The first schema. Written once, for SQLite; the PostgreSQL engine replaces the words INTEGER, BLOB, TEXT and STRICT, and
-- leaves references out.
--
-- Times are milliseconds since the epoch, ids the 16 bytes of a UUIDv7, documents JSON text. A column stands beside
-- a document only where SQL filters, sorts, joins or moves it. References are checked when a batch commits: one that
-- is checked by the statement makes SQLite keep a copy of every page that the statement touches.

-- events and policies count what the partner ever caused: its events, and the versions of its policies. put_ms is when the last
-- of these was put, 0 when there is none. bookings and bytes are of its bookings, their first entry's facts and their terms; day_events are its events
-- since the day began, in UTC, that is this many days after the epoch. quota is what the operator said for it alone.
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
    quota     TEXT    NOT NULL,
    settings  TEXT    NOT NULL,
    body      TEXT    NOT NULL
) STRICT;

-- What webhooks are signed with: one row per secret that signs, sealed; the owner is a partner or an endpoint. from_ms is
-- when it takes over from the one made before it.
CREATE TABLE secret (
    owner    BLOB    NOT NULL,
    made_ms  INTEGER NOT NULL,
    from_ms  INTEGER NOT NULL,
    sealed   BLOB    NOT NULL,
    PRIMARY KEY (owner, made_ms)
) STRICT;

-- mac and standing are codes under the sealing key: over id, partner, hash and body, and over id and revoked_ms.
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

-- Policies by the SHA-256 of their canonical text: a thousand bookings under one policy keep it once.
CREATE TABLE policy (
    hash  BLOB NOT NULL PRIMARY KEY,
    body  TEXT NOT NULL
) STRICT;

-- A partner's own policies: every version it ever put. latest is 1 on the last of each policy.
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

-- body is the booking as GET answers it now, to the byte: a copy of what its entries come to, which every change writes anew
-- and the check of the ledger compares with them. terms are as they were recorded; the entry rescheduled_leaf says what holds
-- since the event was last moved, and moves what was reached before each time.
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

-- The log, one row per leaf, and what its commitment opens to: the fact as JSON, and the seed of its salts.
-- An entry that is of no booking is of the log itself: how it went on after a loss.
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

-- Where the entry stands that records a resolution; what it says, the entry alone says.
CREATE TABLE resolution (
    id          BLOB    NOT NULL PRIMARY KEY,
    booking_id  BLOB    NOT NULL REFERENCES booking (id) DEFERRABLE INITIALLY DEFERRED,
    leaf_idx    INTEGER NOT NULL
) STRICT;
CREATE UNIQUE INDEX resolution_by_booking ON resolution (booking_id, leaf_idx);

CREATE TABLE tile (
    level   INTEGER NOT NULL,
    idx     INTEGER NOT NULL,
    hashes  BLOB    NOT NULL,
    PRIMARY KEY (level, idx)
) STRICT;

-- One row: where the log stands. Every commit moves it from exactly what it loaded, unless the log goes on elsewhere:
-- moved_to names the database it was moved to. written_ms is the time of its last entry: no later one has an earlier time.
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

-- since_ms is since when it takes what it takes now, where the partner changed that: since it was made if null. failures
-- and failing_ms count what failed in a row, and since when; probe_ms is when one delivery may be tried while it is
-- suspended or not verified, and unverified_ms since when deliveries go to its address and none has been accepted. An index on
-- each finds times that lie ahead because the clock was set back.
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

-- The body is what was delivered, to the byte. Once an old event was pruned, at pruned_ms, there is only the body's SHA-256.
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

-- One row once events were pruned: the id from which on events are looked at next, and the first that was passed over because
-- one of its deliveries still waited. Nothing hangs on it: what it leaves out is met when it is set back.
CREATE TABLE sweep (
    id       INTEGER NOT NULL PRIMARY KEY CHECK (id = 1),
    next     BLOB    NOT NULL,
    waiting  BLOB
) STRICT;

-- due_ms is when somebody may next take the delivery: the next attempt's time, or the end of a lease; null when it is over.
-- settled_leaf is the entry that records how it ended, the latest when it was given up, tried again and accepted.
-- Most rows are born leased and end delivered, so they never stand in the index that is asked four times a second.
-- begun_ms is when its schedule began, where that was not when the event happened. since_ms is when due_ms was reckoned, and null
-- with it: if that lies ahead, the clock was set back since, and the wait is reckoned anew.
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

-- Events that are delivered once more, or counted for that: what was asked for, the number of the last event looked at, and
-- what came of those up to it. A step moves these together with the deliveries it makes due. One of a partner is under way at a time.
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

-- Answers remembered under an Idempotency-Key, sealed: some hold a key that is shown once.
CREATE TABLE answer (
    key      BLOB    NOT NULL PRIMARY KEY,
    at_ms    INTEGER NOT NULL,
    request  BLOB    NOT NULL,
    body     BLOB    NOT NULL
) STRICT;
CREATE INDEX answer_by_age ON answer (at_ms);
