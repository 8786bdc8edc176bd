-- review_leaf is the entry of the resolution that waits for a person's decision, null if none does. The indexes hold only such
-- bookings, which are few, and so is what the list of reviews examines.
ALTER TABLE booking ADD COLUMN review_leaf INTEGER;
UPDATE booking SET review_leaf = resolution_leaf WHERE resolution_leaf IS NOT NULL
    AND (SELECT e.facts FROM entry e WHERE e.idx = resolution_leaf) LIKE '%"status":"pending_review"%';
CREATE INDEX booking_to_review ON booking (partner_id, id) WHERE review_leaf IS NOT NULL;
CREATE INDEX booking_of_all_to_review ON booking (id) WHERE review_leaf IS NOT NULL;
