-- The map of the log's first entries, in pages: for every stream, how many entries it has and the hash of the last. id is the number
-- of hex digits that the page's keys begin with, and the bytes that hold them. The newest entry of the kind log.mapped commits to it.
CREATE TABLE map_page (
    id    BLOB NOT NULL PRIMARY KEY,
    body  BLOB NOT NULL
) STRICT;

-- These entries are many, and only the newest is asked for.
CREATE INDEX entry_mapped ON entry (kind, idx) WHERE kind = 'log.mapped';

-- Legal holds on bookings, released ones included. While a booking has one that is not released, nothing of it is erased or pruned.
-- The columns beside the document repeat it. mac is a code over the whole row, made with the sealing key.
CREATE TABLE hold (
    id           BLOB    NOT NULL PRIMARY KEY,
    booking_id   BLOB    NOT NULL REFERENCES booking (id) DEFERRABLE INITIALLY DEFERRED,
    partner_id   BLOB    NOT NULL REFERENCES partner (id) DEFERRABLE INITIALLY DEFERRED,
    released_ms  INTEGER,
    body         TEXT    NOT NULL,
    mac          BLOB    NOT NULL
) STRICT;
CREATE INDEX hold_by_booking ON hold (booking_id, id);
CREATE INDEX hold_active ON hold (partner_id, id) WHERE released_ms IS NULL;

-- Once values of an entry were erased, seed holds the salts of the others one by one, as JSON, and facts what stands in for the
-- erased ones. The erasures are few among the entries.
CREATE INDEX entry_erasing ON entry (kind, idx) WHERE kind = 'evidence.erased';

-- booking_id is the booking that an answer is about, if any. body is empty once values of that booking were erased.
ALTER TABLE answer ADD COLUMN booking_id BLOB;
CREATE INDEX answer_by_booking ON answer (booking_id) WHERE booking_id IS NOT NULL;
