//! Every maximum that a caller can meet, with its reason.

/// Faults reported for one request. A body can hold thousands, and nobody reads more.
pub const FAULTS: usize = 50;
/// Bytes of a request body. A booking with an inline policy and full metadata is below 20 KiB.
pub const BODY_BYTES: usize = 64 * 1024;
/// Characters of a name (partner, talent, organizer, key).
pub const NAME_CHARS: usize = 200;
/// Characters of free text.
pub const TEXT_CHARS: usize = 2_000;
/// Characters of a partner's own id of a talent or organizer.
pub const PARTY_ID_CHARS: usize = 128;
/// Metadata pairs on a booking.
pub const METADATA_PAIRS: usize = 20;
/// Characters of a metadata key.
pub const METADATA_KEY_CHARS: usize = 64;
/// Characters of a metadata value.
pub const METADATA_VALUE_CHARS: usize = 500;
/// Characters of a time zone's name; the longest IANA names have half as many.
pub const TIME_ZONE_CHARS: usize = 64;
/// Characters of an address (website, webhook URL).
pub const URL_CHARS: usize = 2_048;
/// Characters of a mail address (RFC 5321: 64 + @ + 255, less the brackets).
pub const EMAIL_CHARS: usize = 254;
/// Minor units: 15 significant digits, which every JSON reader with IEEE doubles represents exactly.
pub const AMOUNT_MINOR_UNITS: i64 = 999_999_999_999_999;
/// Pieces of evidence named with one cancellation; each is a digest and a name, and every packet contains all of them.
pub const CANCELLATION_EVIDENCE: usize = 20;
/// Changes of one booking's date: each entry repeats the earlier ones, and every packet contains all of them.
pub const RESCHEDULES: usize = 20;
/// Acceptances of one booking's terms: a few parties, each once or twice for every change of date.
pub const ACCEPTANCES: usize = 50;
/// Evidence items of one booking: every packet contains all of them.
pub const ITEMS: usize = 50;
/// Erasures of one booking from which on further ones take no reference of their own: the next one could erase it in turn, without end,
/// and every packet contains all of them. An erasure itself is never too many: each takes a value that was still there.
pub const ERASURES: usize = 100;
/// Characters of what others know an evidence item by, such as the number of a payment.
pub const REFERENCE_CHARS: usize = 200;
/// Bytes of an evidence item's file: what card networks accept is smaller.
pub const FILE_BYTES: usize = 10 * 1024 * 1024;
/// Bytes of a file that are written in one commit: other partners' writes wait for no more than some milliseconds.
pub const FILE_PART_BYTES: usize = 256 * 1024;
/// Milliseconds after its last part at which a file that was never completed is deleted: whoever sends it again within
/// that time continues where it ended.
pub const FILE_UNFINISHED_MS: i64 = HOUR_MS;
/// Bytes of the fonts that an operator adds to PDFs, all files together: a server holds them in memory. One with all Chinese,
/// Japanese and Korean characters has 20 MB.
pub const FONT_BYTES: u64 = 128 * 1024 * 1024;
/// Files that were never completed which are deleted in one commit.
pub const FILES_FORGOTTEN: usize = 16;
/// Default quota of bytes of stored files per partner.
pub const QUOTA_FILE_BYTES: u64 = 1024 * 1024 * 1024;
/// Uploads of files that a node receives at a time, including those that wait for room. Files that a first piece of 64 KiB holds
/// are not counted: each is as small as any other body.
pub const UPLOADS: usize = 256;
/// Uploads of one partner that a node receives at a time.
pub const UPLOADS_PER_PARTNER: usize = 2;
/// Bytes of files under way to the store for which a node has room at a time: beyond it, uploads wait.
pub const UPLOAD_BYTES: usize = 96 * 1024 * 1024;
/// Seconds for which an upload waits for room: less than clients usually wait for an answer.
pub const UPLOAD_WAIT_S: u64 = 15;
/// The least bytes per second of an upload while there is no place or room for another file: the largest one, at this rate, just
/// arrives in the time that any request has.
pub const UPLOAD_BYTES_PER_S: u64 = 256 * 1024;
/// The most bytes of answers that their clients have not read yet, of one listener.
pub const ANSWER_BYTES: usize = 256 * 1024 * 1024;
/// Bytes of an answer that does not count: one on each of 8,192 connections come to as much as [`ANSWER_BYTES`].
pub const FREE_ANSWER_BYTES: usize = 32 * 1024;
/// The least bytes per second at which a client must take an answer: a tenth of what a slow mobile connection does.
pub const ANSWER_BYTES_PER_S: u64 = 4 * 1024;
/// The least bytes per second at which a client must take an answer that counts, while more than half of [`ANSWER_BYTES`] is held.
pub const SCARCE_ANSWER_BYTES_PER_S: u64 = 256 * 1024;
/// Characters of the method by which a party accepted.
pub const METHOD_CHARS: usize = 64;
/// Characters of a user agent; the longest ones of browsers have a few hundred.
pub const USER_AGENT_CHARS: usize = 1_000;
/// Characters of an evidence item's kind.
pub const EVIDENCE_KIND_CHARS: usize = 64;
/// Characters of a media type (RFC 6838: 127 + / + 127).
pub const MEDIA_TYPE_CHARS: usize = 255;
/// Scopes named on one key.
pub const SCOPES: usize = 32;
/// API keys of one partner that work.
pub const KEYS_PER_PARTNER: usize = 100;
/// Operator keys that are not revoked: one for each person and program, and each opens everything.
pub const OPERATOR_KEYS: usize = 100;
/// Requests with a wrong operator key from one network per minute. Whoever has a key makes few mistakes.
pub const OPERATOR_FAILURES_PER_MINUTE: u32 = 30;
/// Milliseconds for which a console link can be opened: enough to pass it on, and soon useless to whoever finds it.
pub const CONSOLE_LINK_MS: i64 = 10 * 60 * 1000;
/// Milliseconds that a console session lasts at most: a working day, after which a person signs in again.
pub const CONSOLE_SESSION_MS: i64 = 12 * HOUR_MS;
/// Console links and sessions of one partner that work: one for each person and device.
pub const CONSOLE_SESSIONS: usize = 100;
/// Console sessions that work and began with one key itself; another one ends the oldest of them. It is half of
/// [`CONSOLE_SESSIONS`]: a key that may make no links, however little it may do, leaves the others to links and other keys.
pub const CONSOLE_SESSIONS_OF_KEY: usize = CONSOLE_SESSIONS / 2;
/// Console links of one partner that work and that nobody has opened. They leave half of [`CONSOLE_SESSIONS`] to people.
pub const CONSOLE_LINKS: usize = CONSOLE_SESSIONS / 2;
/// Those of one key.
pub const CONSOLE_LINKS_OF_KEY: usize = CONSOLE_LINKS / 2;
/// Console links and sessions that work and that one key made or began. Whoever makes links can open them too, so without this a single
/// key could take all places.
pub const CONSOLE_PLACES_OF_KEY: usize = CONSOLE_SESSIONS - CONSOLE_LINKS_OF_KEY;
/// Console links and sessions of one partner that work or were ended before their time: beginning and ending them in turn must
/// end.
pub const CONSOLE_SESSIONS_BEGUN: usize = 1_000;
/// Those of one key, for the same reason half of all.
pub const CONSOLE_SESSIONS_BEGUN_OF_KEY: usize = CONSOLE_SESSIONS_BEGUN / 2;
/// Days for which an expired console session is kept, so that lists tell who had one.
pub const CONSOLE_SESSION_KEPT_DAYS: i64 = 30;
/// Expired console sessions deleted in one commit: keeps it short.
pub const CONSOLE_SESSIONS_FORGOTTEN: u64 = 256;
/// Random bytes of the token of a console link or session, or of a share.
pub const TOKEN_BYTES: usize = 32;
/// Shares of one booking that show its evidence: the other side, a bank, some lawyers and courts, each with a link or two.
pub const SHARES_PER_BOOKING: usize = 20;
/// Bookings erased by one request when a contract ends. Each is a commit of its own, with several kilobytes.
pub const BOOKINGS_ENDED: u32 = 50;
/// Legal holds that a partner, or the operator, may place on one booking, released ones included: each is a matter of its own.
pub const HOLDS_PER_BOOKING: usize = 50;
/// Active legal holds that a partner, or the operator for it, may have. Before a file is deleted, the items of every held booking are read.
pub const HOLDS_PER_PARTNER: u32 = 1_000;
/// Shares of one booking that are kept, revoked and expired ones included: making and revoking them in turn must end.
pub const SHARES_KEPT_PER_BOOKING: usize = 200;
/// Days for which a share shows the evidence if the caller gives no duration.
pub const SHARE_DAYS_DEFAULT: i64 = 30;
/// The most days for which a share shows the evidence.
pub const SHARE_DAYS: i64 = 366;
/// Days for which an expired share is kept, with the views recorded of it.
pub const SHARE_KEPT_DAYS: i64 = 366;
/// Expired shares deleted in one commit: keeps it short.
pub const SHARES_FORGOTTEN: u64 = 256;
/// Milliseconds in which repeated views of one share in one form count once: what an anonymous visitor can make the writer do
/// is one small row per share, form and minute.
pub const SHARE_VIEW_MS: i64 = 60 * 1000;
/// Views of one share that are listed, the latest ones; further ones are counted.
pub const SHARE_VIEWS: usize = 50;
/// Requests for shares, and messages to MCP without a key, from one network address per minute. A person needs two for each
/// document.
pub const SHARE_REQUESTS_PER_MINUTE: u32 = 120;
/// Webhook endpoints of one partner: each multiplies the partner's deliveries.
pub const ENDPOINTS_PER_PARTNER: usize = 20;
/// Default quota of bookings per partner. They fill some 300 GB of database: more than any business needs, and low enough
/// to stop a runaway program.
pub const QUOTA_BOOKINGS: u64 = 100_000_000;
/// Default quota of bytes of these bookings' records and terms: enough for as many of the usual size, some 1 KB.
pub const QUOTA_BYTES: u64 = 128 * 1024 * 1024 * 1024;
/// Default quota of events per partner and day: 500 a second, day and night.
pub const QUOTA_EVENTS_PER_DAY: u64 = 50_000_000;
/// The largest quota that can be set: a number that every JSON reader represents exactly.
pub const QUOTA_MAX: u64 = 999_999_999_999_999;
/// Milliseconds of an hour.
pub const HOUR_MS: i64 = 60 * 60 * 1000;
/// Milliseconds of a day.
pub const DAY_MS: i64 = 24 * HOUR_MS;
/// Deliveries of one event: to all of a partner's endpoints when it happens, and to those that replace them later. The end
/// of each is an entry of the booking, contained in every packet.
pub const DELIVERIES_PER_EVENT: usize = 50;
/// The highest rate limit of an endpoint, in deliveries per second; more than one node ever begins.
pub const ENDPOINT_RATE: u32 = 1_000;
/// Consecutive failed attempts after which an endpoint counts as failing.
pub const WARNING_FAILURES: u32 = 10;
/// Milliseconds of nothing but failures after which an endpoint is suspended: longer than the retry schedule and a weekend.
pub const SUSPENDED_AFTER_MS: i64 = 5 * DAY_MS;
/// Minimum milliseconds between two probes of a suspended endpoint: noticing its recovery an hour late is soon enough.
pub const PROBE_MS: i64 = HOUR_MS;
/// Milliseconds after a failure or a test before an unverified endpoint is tried again. Its receiver, which may not have asked for
/// anything, gets at most six deliveries a minute, no matter how many events and nodes there are.
pub const UNVERIFIED_MS: i64 = 10 * 1000;
/// Milliseconds after a change of an endpoint's address until no delivery begins to the former address any more: how long a
/// node remembers an endpoint, plus the allowed difference between clocks.
pub const MOVED_MS: i64 = LEASE_SKEW_MS + 5_000;
/// Divisor of the time since a suspended endpoint began to fail: the next probe comes after that part of it, one hour after
/// five days, two after ten. So the attempts at its waiting deliveries stay few, no matter how long nobody repairs it.
pub const PROBE_SHARE: i64 = 120;
/// Maximum milliseconds between two probes of a suspended endpoint.
pub const PROBE_MAX_MS: i64 = DAY_MS;
/// Secrets of one owner that sign at a time, including those yet to take over: each adds a signature.
pub const SECRETS_VALID: usize = 4;
/// The longest life of an API key that expires, in days.
pub const KEY_DAYS: i64 = 3_653;
/// Milliseconds between two uses of one API key that are stored: enough to tell which keys are in use.
pub const KEY_USE_MS: i64 = 15 * 60 * 1000;
/// A stored use that is later than now by more than this comes from a wrong clock, and is replaced.
pub const KEY_USE_AHEAD_MS: i64 = DAY_MS;
/// Uses of API keys that a node stores in one transaction, and seconds until the next: on a database file, no batch is written
/// meanwhile.
pub const KEY_USES: usize = 500;
/// See [`KEY_USES`].
pub const KEY_USES_S: u64 = 2;
/// Uses of API keys that wait to be stored. Those beyond it are noted again within seconds, when the key is read again.
pub const KEY_USES_WAITING: usize = 10_000;
/// How long before a key expires `api_key.expiring` is sent, unless the key lives for less than ten times that.
pub const KEY_NOTICE_MS: i64 = 7 * DAY_MS;
/// Keys that one look for expiring ones reads.
pub const KEYS_LOOKED_AT: u32 = 200;
/// Milliseconds for which the old secret goes on signing, or the old key works, if the caller gives none.
pub const SECRET_OVERLAP_DEFAULT_MS: i64 = DAY_MS;
/// Minimum milliseconds for which a key that rotates itself goes on working: time to repeat a request whose answer was lost.
pub const OWN_OVERLAP_MS: i64 = 60 * 1000;
/// Maximum milliseconds for which the old secret may go on signing, or the old key work.
pub const SECRET_OVERLAP_MS: i64 = 7 * DAY_MS;
/// The greatest number of an event: the greatest that the store and clients with signed integers hold.
pub const EVENT_NUMBER: u64 = i64::MAX.cast_unsigned();
/// Characters of an Idempotency-Key.
pub const IDEMPOTENCY_KEY_CHARS: usize = 255;
/// Minimum characters of an Idempotency-Key on an operation that needs no API key: too many to guess.
pub const IDEMPOTENCY_KEY_CHARS_OPEN: usize = 16;
/// Milliseconds for which an Idempotency-Key is remembered.
pub const IDEMPOTENCY_TTL_MS: i64 = DAY_MS;
/// Maximum rows of one page.
pub const PAGE_ROWS: u32 = 100;
/// Rows of a page if the caller gives no number.
pub const PAGE_ROWS_DEFAULT: u32 = 25;
/// Bookings examined for one page of a filtered list; a page may be short and continue from there.
pub const BOOKINGS_EXAMINED: u32 = 10_000;
/// Bookings of one hour that are counted to show what happened lately: a few tenths of a millisecond.
pub const BOOKINGS_COUNTED: u32 = 5_000;
/// Deliveries examined to show what happened lately, and events without one: some 20 milliseconds.
pub const DELIVERIES_EXAMINED: u32 = 5_000;
/// Characters of the text that bookings and partners are searched for: a name and a number, or a whole id with a few words.
pub const SEARCH_CHARS: usize = 100;
/// Bytes of bookings, or of resolutions, that are read for one page of a list; a page may be short and continue from there. As
/// many bookings of the usual size as are examined for one page have fewer.
pub const EXAMINED_BYTES: usize = 8 * 1024 * 1024;
/// Partners examined for one page of a search; a page may be short and continue from there.
pub const PARTNERS_EXAMINED: u32 = 10_000;
/// Events examined for one page of a filtered log; a page may be short and continue from there.
pub const EVENTS_EXAMINED: u32 = 10_000;
/// Endpoints with waiting deliveries that are examined together for due ones: half a millisecond of processor time.
pub const ENDPOINTS_EXAMINED: u32 = 256;
/// Combinations of route and status whose requests are measured by route, for refusals and for failures each; more are
/// measured without their routes. Keeps a scrape below 3,000 series.
pub const REFUSALS_BY_ROUTE: usize = 32;
/// Waiting deliveries of one endpoint that are counted for the metrics, due ones and others each: about a millisecond.
pub const WAITING_COUNTED: u32 = 1_000;
/// Endpoints whose waiting deliveries are counted at a time.
pub const ENDPOINTS_COUNTED: u32 = 16;
/// Leased deliveries that are counted for the metrics: more than one node holds.
pub const LEASED_COUNTED: u32 = 100_000;
/// Endpoints whose health is read at a time for the metrics.
pub const ENDPOINTS_READ: u32 = 1_000;
/// Seconds for which a request may wait for the next event.
pub const EVENT_WAIT_S: u64 = 30;
/// Continuations of a log after a loss that a node reads back through.
pub const CONTINUATIONS: i64 = 1_000;

/// The pause after a question to a time-stamp authority that got no stamp; it doubles with each further one. Some authorities
/// refuse whoever asks more often than every 15 s.
pub const STAMP_PAUSE_MS: i64 = 30_000;
/// The longest such pause.
pub const STAMP_PAUSE_MAX_MS: i64 = HOUR_MS;
/// The age at which the last stamp of a log at rest is renewed: far shorter than what an authority's certificate is valid for.
pub const STAMP_IDLE_MS: i64 = 7 * DAY_MS;
/// The age from which the last stamp shows that stamping has stopped: a day more than that of any log that is stamped.
pub const STAMP_OLD_MS: i64 = STAMP_IDLE_MS + DAY_MS;
/// Characters of the sentence that says why there is no stamp.
pub const STAMP_TROUBLE_CHARS: usize = 500;
/// The most entries that an epoch adds to the map, so that its write turn stays short. This many make one due.
pub const EPOCH_ENTRIES: u64 = 4_096;
/// The entries of one step of an audit of maps.
pub const MAP_AUDIT_ENTRIES: u64 = 4_096;
/// Stamps in a packet: one, and one for each time that the certificates of the one before ended.
pub const PACKET_STAMPS: usize = 8;
/// Attempts after which a delivery is given up, whoever asked for them: each is stored, and recoveries begin any number of schedules.
/// While its endpoint is suspended, a delivery goes on waiting.
pub const ATTEMPTS_PER_DELIVERY: u32 = 500;
/// Manual retries of one event.
pub const MANUAL_RETRIES: u32 = 100;
/// Events that one step of a recovery examines: with the most endpoints, some 2,500 deliveries in one commit.
pub const RECOVERED: usize = 128;
/// Recoveries that take their first step in the commit in which they begin. Others of that commit begin without examining
/// an event, so that no commit grows with the number of requests.
pub const RECOVERIES_BEGUN: usize = 2;
/// Recoveries that a partner may begin in 24 hours, and as many that only count: each is stored, and the others send to its
/// receivers once more.
pub const RECOVERIES_PER_DAY: usize = 100;
/// Milliseconds of the period for [`RECOVERIES_PER_DAY`].
pub const RECOVERIES_MS: i64 = DAY_MS;
/// Recoveries, each of another partner, that take a step at a time.
pub const RECOVERIES_AT_ONCE: u32 = 4;
/// Milliseconds by which the times of events may deviate from the order of their numbers: nodes' clocks differ, and
/// requests wait for their turn.
pub const EVENT_ORDER_MS: i64 = 10 * 60 * 1000;
/// Long reads of one partner that may wait for their turn: what one thread does in about a second. Further ones are refused.
pub const LONG_READS_WAITING: usize = 32;
/// Bytes of finished evidence packets that a node keeps.
pub const PACKETS_KEPT_BYTES: usize = 16 * 1024 * 1024;
/// Milliseconds for which a packet of an unchanged booking is reused: its `createdAt` is never older.
pub const PACKET_KEPT_MS: i64 = 60 * 1000;
/// Entries of a booking that are read and reported at once, which takes about a millisecond; more count as a long read. A
/// booking that was never moved has fewer.
pub const ENTRIES_AT_ONCE: u64 = 20;
/// Bytes of a packet that is verified at once; verifying a larger one counts as long.
pub const PACKET_BYTES_AT_ONCE: usize = 32 * 1024;
/// Commands waiting for the writer. Beyond it, callers get `busy` at once.
pub const INBOX: usize = 4_096;
/// Bytes of disk space that must stay free unless the operator sets another number: room for the write-ahead log while a
/// backup holds it back, and for some 50,000 protections, cancellations and deliveries of existing bookings.
pub const MIN_FREE_DISK: u64 = 256 * 1024 * 1024;
/// Bytes of disk space below which a batch may not fit: the size of one of the largest.
pub const DISK_RESERVE: u64 = 1024 * 1024;
/// Commands in one commit: bounds the time to the first answer.
pub const BATCH: usize = 256;
/// Milliseconds for which a node leases a delivery.
pub const LEASE_MS: i64 = 60_000;
/// Milliseconds by which the clocks of two nodes may differ before one takes a delivery that the other still attempts.
pub const LEASE_SKEW_MS: i64 = 10_000;
/// Deliveries whose lapsed leases are ended in one commit, or that end in one because their endpoints were deleted.
pub const RECLAIMED: usize = 512;
/// Deliveries of one endpoint in flight at a time, on each node.
pub const IN_FLIGHT_PER_ENDPOINT: usize = 8;
/// Deliveries in flight of an endpoint that has not answered yet: two, so that losing a first attempt holds nothing up.
pub const IN_FLIGHT_PER_NEW_ENDPOINT: usize = 2;
/// Deliveries in flight of an endpoint that times out or is slow: each attempt holds its place for seconds.
pub const IN_FLIGHT_PER_TROUBLED_ENDPOINT: usize = 1;
/// Deliveries of one endpoint held in memory on each node, in flight or queued; the others wait in the store.
pub const QUEUED_PER_ENDPOINT: usize = 512;
/// Deliveries held in memory of a new endpoint, and of one so slow that more would have to be released before their turn came.
pub const QUEUED_PER_SLOW_ENDPOINT: usize = 16;
/// Deliveries held in memory of an endpoint in trouble: the one in flight, and the one to follow it at once.
pub const QUEUED_PER_TROUBLED_ENDPOINT: usize = 2;
/// Deliveries held in memory on each node for all healthy endpoints: some 20 MB with their bodies. One partner can use at
/// most a sixth, which is what its endpoints can hold.
pub const QUEUED: usize = 65_536;
/// Deliveries held in memory on each node for all new endpoints: twice the number in flight, so that each queued delivery is sent
/// before its lease is too short.
pub const QUEUED_NEW: usize = 2 * IN_FLIGHT_NEW;
/// Deliveries held in memory on each node for all endpoints in trouble: twice the number in flight, for the same reason. The others
/// wait in the store without a lease.
pub const QUEUED_TROUBLED: usize = 2 * IN_FLIGHT_TROUBLED;
/// Endpoints whose health a node remembers while it holds no delivery of them, for healthy and troubled ones each: some 100
/// bytes each. A forgotten endpoint counts as new again.
pub const ENDPOINTS_REMEMBERED: usize = 16_384;
/// Milliseconds in which the held deliveries of an endpoint should be sent: half a lease.
pub const QUEUE_MS: u64 = 30_000;
/// Deliveries of one endpoint taken from the store in one claim: keeps the commit of the claim short.
pub const CLAIMED_PER_ENDPOINT: usize = 128;
/// Outcomes of failed attempts that a node lets into one commit, unless it is slow. Attempts that began together time out together,
/// and a request that arrives then waits for the commit under way and for its own. A commit of 16 outcomes takes 7 ms.
pub const FAILURES_SETTLED_AT_ONCE: usize = 4;
/// Deliveries in flight on one node to healthy endpoints.
pub const IN_FLIGHT: usize = 1_024;
/// Deliveries in flight on one node to new endpoints, in addition: 250 partners that all register only dead ones at once leave room for others.
pub const IN_FLIGHT_NEW: usize = 512;
/// Deliveries in flight on one node to endpoints in trouble, in addition. With the shortest timeout, some 60 of them are tried per
/// second, so that 5,000 dead ones cost the writer little.
pub const IN_FLIGHT_TROUBLED: usize = 256;
/// Bytes of an attempt's response that are stored.
pub const RESPONSE_HEAD_BYTES: usize = 1_024;
/// Bytes of an attempt's response that are read before it is dropped.
pub const RESPONSE_BYTES: usize = 16 * 1024;
/// Bytes of a response's head: what common proxies accept, and the lowest limit the HTTP client can be given.
pub const RESPONSE_FIELDS_BYTES: usize = 8 * 1024;
/// Header fields of a response: what the HTTP client accepts.
pub const RESPONSE_FIELDS: usize = 100;
/// Bytes read from the connection in response to one request: interim responses, head, body and their framing. Larger than
/// a head and a body of the sizes here; reading that much takes a millisecond.
pub const RESPONSE_WIRE_BYTES: usize = 32 * 1024;
/// Bytes read of a receiver's TLS handshake: its largest message; real ones have a few thousand.
pub const HANDSHAKE_BYTES: usize = 64 * 1024;
/// Pieces in which a handshake or a response may arrive: each costs a wake-up. A server that writes its head line by line
/// sends a few dozen.
pub const RESPONSE_PIECES: usize = 512;
/// Milliseconds that one delivery attempt may take, response body included.
pub const ATTEMPT_MS: u64 = 15_000;
/// Minimum milliseconds for an attempt, however often its endpoint has timed out: far more than a working receiver needs.
pub const ATTEMPT_MS_LEAST: u64 = 3_000;
/// One in this many attempts at an endpoint that only times out gets the full timeout, to find a receiver that is back but
/// slow.
pub const FULL_PATIENCE_EVERY: u32 = 8;
/// Milliseconds after which an attempt counts as slow: its endpoint occupies places for as long as a timeout would.
pub const SLOW_MS: u64 = 2_000;
/// The pause after a step of work that may wait, as a multiple of the time that the step took: such work takes at most a twentieth of
/// the time, however much there is.
pub const PAUSE_SHARE: u32 = 20;
/// Milliseconds for which every event is kept whole, regardless of settings: a day, far beyond any difference between clocks.
pub const RETENTION_MS: i64 = DAY_MS;
/// Days after which events are pruned by default.
pub const RETENTION_DAYS: u32 = 90;
/// The age in milliseconds from which a backup is old: a day, and two hours for making it.
pub const BACKUP_OLD_MS: i64 = 26 * HOUR_MS;
/// Backups in a folder that an operator can keep: looking through them takes a second.
pub const BACKUPS_KEPT: u32 = 1_000;
/// Seconds for which nothing was written to an unfinished backup before it counts as left over by a process that was killed. A
/// backup that is being made is written to all the time; it waits only for its disks.
pub const DRAFT_LEFT_OVER_S: u64 = 60 * 60;
/// The most days that an operator can set: a century.
pub const RETENTION_DAYS_MAX: u32 = 36_500;
/// Changes of keys, secrets, endpoints, policies and settings that a partner may make in a day (UTC): no person and no program of a
/// partner needs more, and their records are 100 MB in 400 days.
pub const CHANGES_PER_DAY: u64 = 500;
/// The number of changes in a day after which a partner can no longer change policies and settings. The rest is left for keys and secrets.
pub const POLICIES_UNTIL: u64 = 400;
/// The number of changes in a day after which a partner can place no more legal holds and invite nobody. Releasing and ending count
/// too, and stay possible.
pub const HOLDS_UNTIL: u64 = 200;
/// Days for which records of the audit are kept by default: a year, and a month to look back on it.
pub const AUDIT_DAYS: u32 = 400;
/// The fewest days that an operator can set: a change stays explained for a month, whoever made it.
pub const AUDIT_DAYS_MIN: u32 = 30;
/// The most days that an operator can set: ten years.
pub const AUDIT_DAYS_MAX: u32 = 3_650;
/// Records of the audit deleted in one commit: keeps it short.
pub const AUDIT_PRUNED: u32 = 1_000;
/// Events examined for one commit that prunes.
pub const EVENTS_LOOKED_AT: u32 = 1_000;
/// Events pruned in one commit: keeps it short.
pub const PRUNED: usize = 256;
/// Attempts deleted in one commit; those of its last event may exceed the number.
pub const ATTEMPTS_PRUNED: u64 = 2_000;
/// Maximum milliseconds for which a receiver's `Retry-After` is respected: 24 h, the longest wait of the default schedule.
pub const RETRY_AFTER_MS: u64 = 24 * 60 * 60 * 1000;
/// The most tests of one partner's endpoints under way on a node: each holds one of the few places of all partners.
pub const TESTS_PER_PARTNER: usize = 4;
/// Milliseconds for which a manual retry waits for the outcome.
pub const RETRY_WAIT_MS: u64 = 10_000;
/// The most manual retries of one partner's events whose answers wait on a node: each looks into the database again and again.
pub const RETRIES_WAITING: usize = 16;
/// Milliseconds for which a node may remember an API key: a revoked key stops working within this time.
pub const KEY_CACHE_MS: i64 = 3_000;
/// Milliseconds from the start of a delivery's schedule in which our own faults use up none of its steps: twice its length.
pub const OUR_FAULTS_FREE_MS: i64 = 7 * DAY_MS;
/// Characters of a policy's name.
pub const POLICY_NAME_CHARS: usize = 120;
/// Tiers of a policy: more than any published one has, and few enough to compile for every booking.
pub const POLICY_TIERS: usize = 16;
/// Outcomes compared by one `lesserOf` or `greaterOf`.
pub const POLICY_SPLITS: usize = 4;
/// Policies of one partner: each can be chosen by name, and all of them stay in memory while its bookings come in.
pub const POLICIES_PER_PARTNER: usize = 100;
/// Versions of one partner's policies, all policies together: one a day for a quarter of a century.
pub const POLICY_VERSIONS_PER_PARTNER: u64 = 10_000;
/// Default policies of one partner, one per event type.
pub const DEFAULT_POLICIES: usize = 100;
/// Partners whose policies a node keeps in memory.
pub const CACHED_POLICY_SETS: usize = 4_096;
/// Policies of all these partners that a node keeps in memory: some kilobytes each.
pub const CACHED_POLICIES: usize = 4_096;
/// Milliseconds by which `effectiveAt` may lie after receipt, because clocks differ.
pub const CLOCK_SKEW_MS: i64 = 5 * 60 * 1000;
/// Bytes of an evidence packet that can be verified. The largest ones consist mostly of ends of deliveries, each an entry
/// of 3 to 4 KB: four events to 20 endpoints each, all given up and accepted later, take half a MiB. The longest texts in all places, in
/// characters of four bytes, take 3 MB. Only a booking with long texts in nearly all places, or one that is moved again and again while
/// most of many endpoints give up, can exceed it; the log says so.
pub const PACKET_BYTES: usize = 4 * 1024 * 1024;
/// Characters of one text field of a card dispute, as Stripe limits it.
pub const DISPUTE_FIELD_CHARS: usize = 20_000;
/// Characters of all text fields of a card dispute together, as Stripe limits them.
pub const DISPUTE_CHARS: usize = 150_000;
/// Entries listed that a log holds and a packet lacks; the rest are counted.
pub const MISSING_ENTRIES: usize = 100;
/// Lines of its log that a server holds while standard error is blocked, before it loses further ones: some seconds of an
/// access log, and 16 MiB at most.
pub const LOG_LINES: usize = 1_024;
/// Bytes of one text in a line of the log: more than any sentence of ours.
pub const LOG_TEXT_BYTES: usize = 4_096;
/// Attempts of one delivery that its event and an evidence packet show, the latest ones: two whole schedules. A delivery can
/// have many more.
pub const ATTEMPTS_SHOWN: u32 = 20;
/// Witnesses that a log asks: a verifier of notes need accept no more than 16 signatures, and one is the log's.
pub const WITNESSES: usize = 15;
/// Milliseconds from asking a witness until it is asked again while the log grows: a witness writes to its disk each time.
pub const WITNESS_GAP_MS: i64 = 10_000;
/// Milliseconds after which a checkpoint that the log has not outgrown is shown to a witness again, so that its cosignature does not
/// look stale to those who want a recent one.
pub const COSIGNATURE_FRESH_MS: i64 = HOUR_MS;
/// Milliseconds after its last cosignature at which a witness counts as silent: twice the time after which it is asked for a fresh one.
pub const WITNESS_SILENT_MS: i64 = 2 * COSIGNATURE_FRESH_MS;
/// Seconds in which a witness must have answered, all requests of one turn together.
pub const WITNESS_TURN_S: u64 = 15;
/// Milliseconds for which a node alone asks a witness: longer than its turn.
pub const WITNESS_LEASE_MS: i64 = 30_000;
/// The longest wait, in milliseconds, before a witness that did not cosign is asked again; at first it is [`WITNESS_GAP_MS`].
pub const WITNESS_BACKOFF_MS: i64 = 15 * 60 * 1000;
/// Requests of one turn: one finds out what the witness has cosigned last, one is answered, and one may meet a log that grew.
pub const WITNESS_REQUESTS: usize = 3;
/// The newest cosignatures that are kept of each witness, beside those that make up the newest quorum.
pub const COSIGNATURES_KEPT: usize = 4;
/// Cosignatures that are read at a time: more than are kept.
pub const COSIGNATURES_READ: u32 = 1_024;
/// Witnesses that are read at a time, former ones included.
pub const WITNESSES_READ: u32 = 1_024;
