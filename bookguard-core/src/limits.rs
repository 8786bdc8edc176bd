//! Every maximum in the product, with its reason.

/// Faults reported of one request; a body can hold thousands, and nobody reads more.
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
/// Characters of a time zone's name: the longest IANA names have half of them.
pub const TIME_ZONE_CHARS: usize = 64;
/// Characters of an address (website, webhook URL).
pub const URL_CHARS: usize = 2_048;
/// Characters of a mail address (RFC 5321: 64 + @ + 255, less the brackets).
pub const EMAIL_CHARS: usize = 254;
/// Minor units: 15 significant digits, what every IEEE-double JSON reader keeps exactly.
pub const AMOUNT_MINOR_UNITS: i64 = 999_999_999_999_999;
/// Pieces of evidence named with one cancellation; each is a digest and a name, and all travel in every packet.
pub const CANCELLATION_EVIDENCE: usize = 20;
/// Changes of one booking's date: each entry repeats those before it, and all travel in every packet.
pub const RESCHEDULES: usize = 20;
/// Acceptances of one booking's terms: a few parties, each once or twice for every change of date.
pub const ACCEPTANCES: usize = 50;
/// Characters of how a party accepted.
pub const METHOD_CHARS: usize = 64;
/// Characters of the name a program gives itself: the longest of browsers are a few hundred.
pub const USER_AGENT_CHARS: usize = 1_000;
/// Characters of an evidence item's kind.
pub const EVIDENCE_KIND_CHARS: usize = 64;
/// Characters of a media type (RFC 6838: 127 + / + 127).
pub const MEDIA_TYPE_CHARS: usize = 255;
/// Scopes named on one key.
pub const SCOPES: usize = 32;
/// API keys of one partner that are not revoked.
pub const KEYS_PER_PARTNER: usize = 100;
/// Webhook endpoints of one partner: each multiplies the partner's deliveries.
pub const ENDPOINTS_PER_PARTNER: usize = 20;
/// Bookings of one partner unless the operator says otherwise: some 300 GB of database: beyond any business, and low
/// enough to stop a program that runs wild.
pub const QUOTA_BOOKINGS: u64 = 100_000_000;
/// Bytes of these bookings' records and terms unless the operator says otherwise: as many of the usual size, some 1 KB.
pub const QUOTA_BYTES: u64 = 128 * 1024 * 1024 * 1024;
/// Events of one partner in a day unless the operator says otherwise: 500 a second, day and night.
pub const QUOTA_EVENTS_PER_DAY: u64 = 50_000_000;
/// The greatest quota that can be said: what every JSON reader keeps exactly.
pub const QUOTA_MAX: u64 = 999_999_999_999_999;
/// Milliseconds of a day.
pub const DAY_MS: i64 = 24 * 60 * 60 * 1000;
/// Deliveries of one event: to all of a partner's endpoints when it happens, and to those that replace them later. How each
/// ended is an entry of the booking, in every packet of it.
pub const DELIVERIES_PER_EVENT: usize = 50;
/// Deliveries per second a partner may allow one of its endpoints; more than one node ever begins.
pub const ENDPOINT_RATE: u32 = 1_000;
/// Attempts in a row after whose failure an endpoint counts as failing.
pub const WARNING_FAILURES: u32 = 10;
/// Milliseconds of nothing but failure after which an endpoint is suspended: longer than the retry schedule and a weekend.
pub const SUSPENDED_AFTER_MS: i64 = 5 * 24 * 60 * 60 * 1000;
/// Milliseconds between two tries whether a suspended endpoint is back, at least: an hour late is soon enough.
pub const PROBE_MS: i64 = 60 * 60 * 1000;
/// Milliseconds after a failure before an endpoint that is not verified is tried again: what nobody has asked for comes six times a
/// minute at most, however many events and nodes there are.
pub const UNVERIFIED_MS: i64 = 10 * 1000;
/// Milliseconds after a change of an endpoint's address from which on no delivery begins to the one before: what a node remembers of an
/// endpoint, and what clocks may differ by.
pub const MOVED_MS: i64 = LEASE_SKEW_MS + 5_000;
/// The share of the time since it began to fail after which a suspended endpoint is tried again: the hour above after five
/// days, twice that after ten, so that the attempts at what waits for it stay few however long nobody looks after it.
pub const PROBE_SHARE: i64 = 120;
/// Milliseconds between two such tries, at most.
pub const PROBE_MAX_MS: i64 = 24 * 60 * 60 * 1000;
/// Secrets of one owner that sign at a time, those included that have yet to take over: each is a signature more.
pub const SECRETS_VALID: usize = 4;
/// Milliseconds for which the old secret goes on signing when the caller does not say.
pub const SECRET_OVERLAP_DEFAULT_MS: i64 = 24 * 60 * 60 * 1000;
/// Milliseconds for which the old secret may go on signing.
pub const SECRET_OVERLAP_MS: i64 = 7 * 24 * 60 * 60 * 1000;
/// Characters of an Idempotency-Key.
pub const IDEMPOTENCY_KEY_CHARS: usize = 255;
/// Characters of an Idempotency-Key on an operation that needs no API key: enough not to be guessed.
pub const IDEMPOTENCY_KEY_CHARS_OPEN: usize = 16;
/// How long an Idempotency-Key is remembered, milliseconds.
pub const IDEMPOTENCY_TTL_MS: i64 = 24 * 60 * 60 * 1000;
/// Rows of one page.
pub const PAGE_ROWS: u32 = 100;
/// Rows of a page when the caller does not say.
pub const PAGE_ROWS_DEFAULT: u32 = 25;
/// Bookings examined for one page of a filtered list; a page may come up short and go on from there.
pub const BOOKINGS_EXAMINED: u32 = 10_000;
/// Events examined for one page of a filtered log; a page may come up short and go on from there.
pub const EVENTS_EXAMINED: u32 = 10_000;
/// Endpoints with something waiting that are looked at together for what is due: half a millisecond of a processor.
pub const ENDPOINTS_EXAMINED: u32 = 256;
/// Seconds that a request may wait for the next event.
pub const EVENT_WAIT_S: u64 = 30;
/// Losses a log may go on after that a node reads back through.
pub const CONTINUATIONS: i64 = 1_000;
/// Manual retries of one event.
pub const MANUAL_RETRIES: u32 = 100;
/// Events one step of a recovery looks at: with the most endpoints, some 2,500 deliveries in one commit.
pub const RECOVERED: usize = 128;
/// Recoveries whose first step is taken in the commit in which they begin; the others of that commit begin with nothing
/// looked at, so that no commit grows with how many ask at once.
pub const RECOVERIES_BEGUN: usize = 2;
/// Recoveries a partner may begin in 24 hours, those that only count included: each sends to its receivers once more.
pub const RECOVERIES_PER_DAY: usize = 100;
/// Milliseconds of such a day.
pub const RECOVERIES_MS: i64 = 24 * 60 * 60 * 1000;
/// Recoveries, of as many partners, that are taken a step further at a time.
pub const RECOVERIES_AT_ONCE: u32 = 4;
/// How far the times of events may lie out of the order of their numbers, milliseconds: nodes' clocks differ, and requests
/// wait for their turn.
pub const EVENT_ORDER_MS: i64 = 10 * 60 * 1000;
/// Reads of one partner that take long and wait for their turn: what one thread does in a second or so. Beyond it they are refused.
pub const LONG_READS_WAITING: usize = 32;
/// Bytes of evidence packets that a node keeps as they were made.
pub const PACKETS_KEPT_BYTES: usize = 16 * 1024 * 1024;
/// Milliseconds for which a packet of an unchanged booking is handed out as it was made: its `createdAt` is never older.
pub const PACKET_KEPT_MS: i64 = 60 * 1000;
/// Entries of a booking that are read and told of at once; more take long. A booking that was never moved has fewer.
pub const ENTRIES_AT_ONCE: u64 = 12;
/// Bytes of a packet that is verified at once; a larger one takes long.
pub const PACKET_BYTES_AT_ONCE: usize = 32 * 1024;
/// Commands waiting for the writer; above it callers get `busy` at once.
pub const INBOX: usize = 4_096;
/// Bytes of disk space that must be free unless the operator says otherwise: room for the write-ahead log while a backup holds it
/// back, and for some 50,000 protections, cancellations and deliveries of bookings that are there.
pub const MIN_FREE_DISK: u64 = 256 * 1024 * 1024;
/// Bytes of disk space below which it is not known whether a batch fits: what one of the largest takes.
pub const DISK_RESERVE: u64 = 1024 * 1024;
/// Commands in one commit: keeps the time to the first answer bounded.
pub const BATCH: usize = 256;
/// How long a delivery stays with the node that holds it, milliseconds.
pub const LEASE_MS: i64 = 60_000;
/// Milliseconds by which the clocks of two nodes may differ before one takes a delivery that the other still attempts.
pub const LEASE_SKEW_MS: i64 = 10_000;
/// Deliveries taken back in one commit from nodes that have gone.
pub const RECLAIMED: usize = 512;
/// Deliveries of one endpoint in flight at a time, on each node.
pub const IN_FLIGHT_PER_ENDPOINT: usize = 8;
/// The same for an endpoint that has not answered yet: two, so that a first attempt that is lost holds up nothing.
pub const IN_FLIGHT_PER_NEW_ENDPOINT: usize = 2;
/// The same for an endpoint that times out or is slow: each attempt holds its place for seconds.
pub const IN_FLIGHT_PER_TROUBLED_ENDPOINT: usize = 1;
/// Deliveries of one endpoint held in memory on each node, in flight or queued; the rest wait in the store.
pub const QUEUED_PER_ENDPOINT: usize = 512;
/// The same for a new endpoint, and for one so slow that more would have to be given back before their turn came.
pub const QUEUED_PER_SLOW_ENDPOINT: usize = 16;
/// The same for an endpoint in trouble: the one in flight, and one that follows it at once.
pub const QUEUED_PER_TROUBLED_ENDPOINT: usize = 2;
/// Deliveries held in memory on each node for all healthy endpoints: some 20 MB with their bodies. The share of one partner
/// alone is a sixth, which is what its endpoints can hold.
pub const QUEUED: usize = 65_536;
/// The same for all new endpoints: twice what is in flight, so that what waits has its turn before its lease is too short.
pub const QUEUED_NEW: usize = 2 * IN_FLIGHT_NEW;
/// The same for all endpoints in trouble, for the same reason; the rest waits in the store, under no lease.
pub const QUEUED_TROUBLED: usize = 2 * IN_FLIGHT_TROUBLED;
/// Endpoints whose health a node remembers while nothing is held for them, of healthy and of troubled ones each: some
/// 100 bytes each. One that is forgotten is new again.
pub const ENDPOINTS_REMEMBERED: usize = 16_384;
/// Milliseconds in which what is held for an endpoint should have been sent: half a lease.
pub const QUEUE_MS: u64 = 30_000;
/// Deliveries of one endpoint taken from the store in one claim: keeps the commit that claims them short.
pub const CLAIMED_PER_ENDPOINT: usize = 128;
/// Deliveries in flight on one node to healthy endpoints.
pub const IN_FLIGHT: usize = 1_024;
/// The same to new endpoints, beside those: 250 partners that registered nothing but dead ones at once leave a place for others.
pub const IN_FLIGHT_NEW: usize = 512;
/// The same to endpoints in trouble, beside those. With the shortest patience, some 60 of them are tried per second, so that what
/// 5,000 dead ones cost the writer stays small.
pub const IN_FLIGHT_TROUBLED: usize = 256;
/// Bytes kept of an attempt's response.
pub const RESPONSE_HEAD_BYTES: usize = 1_024;
/// Bytes read of an attempt's response before it is dropped.
pub const RESPONSE_BYTES: usize = 16 * 1024;
/// Bytes of an answer's head: what common proxies take, and the least the HTTP client can be told.
pub const RESPONSE_FIELDS_BYTES: usize = 8 * 1024;
/// Fields of an answer's head: what the HTTP client takes.
pub const RESPONSE_FIELDS: usize = 100;
/// Bytes read of all that one request is answered with, as they come over the connection: interim answers, head, body and what
/// frames them. Above a head and a body of the sizes here; reading so much takes a millisecond.
pub const RESPONSE_WIRE_BYTES: usize = 32 * 1024;
/// Bytes read of a receiver's TLS handshake: its largest message; real ones have a few thousand.
pub const HANDSHAKE_BYTES: usize = 64 * 1024;
/// Pieces in which a handshake, or an answer, may arrive: each costs a wake-up. Who writes a line of a head at a time has a few dozen.
pub const RESPONSE_PIECES: usize = 512;
/// Milliseconds one delivery attempt may take, response body included.
pub const ATTEMPT_MS: u64 = 15_000;
/// Milliseconds an attempt gets at least, however often its endpoint has timed out: far more than a receiver that works needs.
pub const ATTEMPT_MS_LEAST: u64 = 3_000;
/// Of so many attempts at an endpoint that only times out, one gets all the time there is: what is back, and slow, is found by it.
pub const FULL_PATIENCE_EVERY: u32 = 8;
/// Milliseconds after which an attempt was slow: its endpoint holds places for as long as a time-out would.
pub const SLOW_MS: u64 = 2_000;
/// Milliseconds for which every event is kept whole, whatever is asked: a day, far beyond any difference of clocks.
pub const RETENTION_MS: i64 = 24 * 60 * 60 * 1000;
/// Days after which events are pruned when the operator does not say.
pub const RETENTION_DAYS: u32 = 90;
/// Days that an operator may say: a century.
pub const RETENTION_DAYS_MAX: u32 = 36_500;
/// Events looked at for one commit that prunes.
pub const EVENTS_LOOKED_AT: u32 = 1_000;
/// Events pruned in one commit: keeps it short.
pub const PRUNED: usize = 256;
/// Attempts deleted in one commit, those of its last event included only in part.
pub const ATTEMPTS_PRUNED: u64 = 2_000;
/// Milliseconds a receiver's `Retry-After` may ask for: 24 h, the longest wait of the default schedule.
pub const RETRY_AFTER_MS: u64 = 24 * 60 * 60 * 1000;
/// Milliseconds a manual retry waits for the outcome.
pub const RETRY_WAIT_MS: u64 = 10_000;
/// Seconds an API key may be remembered by a node: a revoked key dies within this.
pub const KEY_CACHE_MS: i64 = 3_000;
/// Milliseconds for which a fault of ours uses up nothing of a delivery's schedule, from when that began: twice its length.
pub const OUR_FAULTS_FREE_MS: i64 = 7 * 24 * 60 * 60 * 1000;
/// Characters of a policy's name.
pub const POLICY_NAME_CHARS: usize = 120;
/// Tiers of a policy: more than any published one has, few enough to compile for every booking.
pub const POLICY_TIERS: usize = 16;
/// Outcomes compared by one `lesserOf` or `greaterOf`.
pub const POLICY_SPLITS: usize = 4;
/// Policies of one partner: each may be chosen by name, and all of them are remembered while its bookings come in.
pub const POLICIES_PER_PARTNER: usize = 100;
/// Versions of one partner's policies, all policies together: one a day for a quarter of a century.
pub const POLICY_VERSIONS_PER_PARTNER: u64 = 10_000;
/// Default policies of one partner, one per event type.
pub const DEFAULT_POLICIES: usize = 100;
/// Partners whose policies a node remembers.
pub const CACHED_POLICY_SETS: usize = 4_096;
/// Policies a node remembers of all these partners: some kilobytes each.
pub const CACHED_POLICIES: usize = 4_096;
/// How far `effectiveAt` may lie after receipt, milliseconds: clocks differ.
pub const CLOCK_SKEW_MS: i64 = 5 * 60 * 1000;
/// Bytes of an evidence packet that is verified. Most of the largest ones is ends of deliveries, each an entry of 3 to 4 KB: four
/// events to 20 endpoints each, all given up and accepted later, are half a MiB.
pub const PACKET_BYTES: usize = 4 * 1024 * 1024;
/// Attempts of one delivery shown in an evidence packet, the latest ones: manual retries have no maximum.
pub const PACKET_ATTEMPTS: usize = 20;
