-- Events may be about no booking, as endpoint.suspended is. The check of the database reads those by their own index.
-- The index comes first, because making it takes long on a server, and the next statement locks readers out.
CREATE INDEX event_without_booking ON event (booking_id, id) WHERE booking_id IS NULL;
ALTER TABLE event ALTER COLUMN booking_id DROP NOT NULL;

-- API keys that expire, and when they were last used. expires_ms is null if a key works until it is revoked; standing then has
-- the form that it had before, and covers expires_ms otherwise. last_used_ms is covered by no code: it decides nothing.
ALTER TABLE api_key ADD COLUMN expires_ms INTEGER;
ALTER TABLE api_key ADD COLUMN last_used_ms INTEGER;
-- notice_ms is when api_key.expiring is due; null once it was sent, or if there is nothing to tell.
ALTER TABLE api_key ADD COLUMN notice_ms INTEGER;
CREATE INDEX api_key_by_notice ON api_key (notice_ms, id) WHERE notice_ms IS NOT NULL;
CREATE INDEX api_key_working ON api_key (partner_id, expires_ms) WHERE revoked_ms IS NULL;
