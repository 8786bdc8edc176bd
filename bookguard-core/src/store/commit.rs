//! Writes a batch's changes: one multi-row statement per table, the tiles, and the head last.

use std::collections::HashMap;

use super::conn::{Arg, Conn, Statement, StoreError, args, insert, select_in, update};
use super::terms::hash_bytes;
use super::{
    audit, console_sessions, cosignatures, endpoints, epochs, files, holds, keys, losses_noted,
    operator_keys, policies, projection, recoveries, retention, shares, stamps,
};
use crate::engine::batch::PartnerState;
use crate::engine::change::{Change, DeliveryState, Entry, EventRow, Pruned};
use crate::engine::command::{Head, KeptPolicy, NewBooking, NewKey};
use crate::evidence::BookingState;
use crate::evidence::facts::Logged;
use crate::ledger::Tile;
use crate::limits::PRUNED;
use crate::model::{
    BookingId, EndpointHealth, EndpointId, EventId, Partner, PartnerId, PartnerSettings,
    PartnerStatus, Quota, Usage,
};
use crate::policy::Resolution;
use crate::seal::Seal;
use crate::webhook::Attempt;

/// A key that no request can have: real keys are digests.
const TRIED: &[u8; 32] = &[0; 32];

/// The ledger's part of a batch.
pub(crate) struct Append<'a> {
    /// The head that was loaded.
    pub from: Head,
    /// The head after the batch.
    pub to: Head,
    /// The log's name and key after the batch.
    pub log: (&'a str, &'a str),
    /// Every tile the batch touched, in its new state.
    pub tiles: &'a [Tile],
    /// The signed checkpoint of `to`.
    pub checkpoint: &'a str,
    /// The time of the last entry.
    pub written: i64,
    /// Whether the checkpoint is kept for good.
    pub keep: bool,
}

/// An answer to remember: its key, the request's digest, and the sealed body.
pub(crate) struct Answered {
    pub key: [u8; 32],
    pub request: [u8; 32],
    pub at: i64,
    pub sealed: Vec<u8>,
    /// The booking that it is about, if any.
    pub booking_id: Option<BookingId>,
}

/// Everything one batch writes.
#[derive(Default)]
pub(crate) struct Writes<'a> {
    partners: Vec<(&'a Partner, &'a [u8])>,
    keys: Vec<(PartnerId, &'a NewKey, String, [[u8; 32]; 2])>,
    policies: Vec<(PartnerId, &'a KeptPolicy)>,
    bookings: Vec<(&'a NewBooking, &'a Entry)>,
    entries: Vec<&'a Entry>,
    /// The last new entry of each existing booking whose other columns did not change.
    chains: Vec<(BookingId, &'a Entry)>,
    /// The existing bookings whose other columns changed, each with its last new entry.
    changed: Vec<(&'a BookingState, &'a Entry)>,
    /// Resolutions made by this batch.
    resolutions: Vec<&'a Logged<Resolution>>,
    events: Vec<&'a EventRow>,
    /// The new counters of each partner with an event, a whole file or an erasure in this batch.
    counts: Vec<(PartnerId, u64, Usage)>,
    deliveries: Vec<(EventId, EndpointId, DeliveryState)>,
    /// The new states of existing deliveries, each delivery once.
    updated: Vec<(EventId, EndpointId, DeliveryState)>,
    attempts: Vec<(EventId, EndpointId, u32, String)>,
    /// The changed health of endpoints, each endpoint once.
    health: Vec<(EndpointId, EndpointHealth)>,
    /// What replaces the bodies of pruned events.
    pruned: Vec<(EventId, Pruned)>,
    /// Pruned events, whose attempts are deleted.
    unattempted: Vec<EventId>,
    /// Pages of the log's map.
    pages: Vec<&'a (Vec<u8>, Vec<u8>)>,
    /// Statements that are not grouped.
    single: Vec<Statement<'a>>,
}

impl<'a> Writes<'a> {
    /// Sorts the changes of a batch by table. `partners` has their new counters.
    ///
    /// # Errors
    /// [`StoreError::Failed`] for a booking that was changed without an entry, and for a partner whose counters are missing.
    pub fn collect(
        changes: &'a [Change],
        partners: &HashMap<PartnerId, PartnerState>,
        seal: &Seal,
    ) -> Result<Self, StoreError> {
        let mut writes = Self::default();
        let mut created: Option<&'a NewBooking> = None;
        let mut changed: Vec<&'a BookingState> = Vec::new();
        for change in changes {
            match change {
                Change::BookingAdded(new) => created = Some(new),
                Change::Entry(entry) => {
                    match created.take() {
                        Some(new) => writes.bookings.push((new, entry)),
                        None => writes
                            .chains
                            .extend(entry.booking_id.map(|id| (id, &**entry))),
                    }
                    writes.entries.push(entry);
                }
                Change::BookingChanged(booking) => changed.push(&booking.state),
                other => writes.add(other, seal),
            }
        }
        keep_last(&mut writes.chains, |(booking_id, _)| *booking_id);
        keep_last(&mut changed, |state| state.booking.booking_id);
        let begun = writes.entries.first().map_or(u64::MAX, |entry| entry.index);
        for state in changed {
            let chains = &mut writes.chains;
            let place = chains.binary_search_by_key(&state.booking.booking_id, |(id, _)| *id);
            let place = place.map_err(|_| {
                StoreError::Failed("a booking was changed without an entry".to_owned())
            })?;
            let (_, entry) = chains.remove(place);
            writes.changed.push((state, entry));
            let resolutions = state.resolutions.iter();
            (writes.resolutions).extend(resolutions.filter(|r| r.place.index >= begun));
        }
        let mut counted: Vec<PartnerId> = writes.events.iter().map(|e| e.partner_id).collect();
        counted.extend(changes.iter().filter_map(|change| match change {
            Change::FilePartAdded { file, .. } | Change::FileDeleted(file) if file.is_whole() => {
                Some(file.file_id.partner_id())
            }
            Change::EntryErased(entry) => Some(entry.partner_id),
            _ => None,
        }));
        keep_last(&mut counted, |partner_id| *partner_id);
        for partner_id in counted {
            let state = partners.get(&partner_id).ok_or_else(|| {
                StoreError::Failed(
                    "an event, a file or an erasure was decided without its partner".to_owned(),
                )
            })?;
            writes.counts.push((partner_id, state.events, state.usage));
        }
        keep_last(&mut writes.updated, |(event_id, endpoint_id, _)| {
            (*event_id, *endpoint_id)
        });
        keep_last(&mut writes.health, |(endpoint_id, _)| *endpoint_id);
        Ok(writes)
    }

    fn add(&mut self, change: &'a Change, seal: &Seal) {
        match change {
            // Written with the rows of the booking, its entries, or the head.
            Change::BookingAdded(_)
            | Change::Entry(_)
            | Change::BookingChanged(_)
            | Change::LogRenamed { .. } => {}
            Change::LossesNoted(lacking) => self.single.push(losses_noted(lacking)),
            Change::PartnerAdded { partner, secret } => self.partners.push((partner, secret)),
            Change::PartnerEdited(partner) => self.single.push(edited(partner)),
            Change::PartnerStatusChanged(partner_id, status) => self.single.push(Statement::new(
                "UPDATE partner SET status = $1 WHERE id = $2",
                args![*status as i64, partner_id],
            )),
            Change::KeyAdded(partner_id, key) => {
                let (body, codes) = keys::born(seal, partner_id, key);
                self.keys.push((*partner_id, key, body, codes));
            }
            Change::KeyStandingChanged(api_key_id, standing) => {
                self.single.push(keys::stands(seal, api_key_id, *standing));
            }
            Change::KeyExpiryTold(api_key_id) => self.single.push(keys::notice_sent(api_key_id)),
            Change::OperatorKeyAdded(stored) => self.single.push(operator_keys::added(seal, stored)),
            Change::OperatorKeyRevoked(stored) => self.single.push(operator_keys::revoked(seal, stored)),
            Change::ConsoleSessionAdded(stored) => self.single.push(console_sessions::added(seal, &**stored)),
            Change::ConsoleSessionChanged(stored) => self.single.push(console_sessions::changed(seal, &**stored)),
            Change::OperatorSessionAdded(stored) => self.single.push(console_sessions::added(seal, &**stored)),
            Change::OperatorSessionChanged(stored) => self.single.push(console_sessions::changed(seal, &**stored)),
            Change::ConsoleSessionsForgotten(before) => self.single.push(console_sessions::forgotten(*before)),
            Change::Recorded(record) => self.single.push(audit::added(seal, record)),
            Change::AuditPruned(to) => self.single.push(audit::pruned(to)),
            Change::PolicyAdded { partner_id, kept, versions } => {
                self.policies.push((*partner_id, kept));
                self.single.push(policies::counted(partner_id, *versions, kept.made_at));
            }
            Change::PartnerSettingsChanged(partner_id, settings) => self.single.push(Statement::new(
                "UPDATE partner SET settings = $1 WHERE id = $2",
                args![json::<PartnerSettings>(settings), partner_id],
            )),
            Change::QuotaSet(partner_id, quota) => self.single.push(Statement::new(
                "UPDATE partner SET quota = $1 WHERE id = $2",
                args![json(quota), partner_id],
            )),
            Change::EventAdded(event) => self.events.push(event),
            Change::DeliveryAdded((event_id, endpoint_id), state) => {
                self.deliveries.push((*event_id, *endpoint_id, *state));
            }
            Change::DeliveryUpdated((event_id, endpoint_id), state) | Change::DeliveryRenewed((event_id, endpoint_id), state) => {
                self.updated.push((*event_id, *endpoint_id, *state));
            }
            Change::AttemptAdded { event_id, endpoint_id, number, attempt } => {
                self.attempts.push((*event_id, *endpoint_id, *number, json::<Attempt>(attempt)));
            }
            Change::EventRetried(event_id, retries) => self.single.push(Statement::new(
                "UPDATE event SET retries = $1 WHERE id = $2",
                args![*retries, event_id],
            )),
            Change::EventPruned(event_id, pruned) => {
                self.pruned.push((*event_id, *pruned));
                self.unattempted.push(*event_id);
            }
            Change::Swept(sweep) => self.single.push(retention::swept(sweep)),
            Change::FilePartAdded { file, part } => self.single.extend(files::part_added(file, part)),
            Change::FileDeleted(file) => self.single.extend(files::deleted(&file.file_id)),
            Change::EndpointAdded(partner_id, endpoint) => self.single.push(endpoints::added(partner_id, endpoint)),
            Change::EndpointChanged { endpoint, since } => self.single.push(endpoints::changed(endpoint, *since)),
            Change::EndpointHealthChanged(endpoint_id, health) => self.health.push((*endpoint_id, *health)),
            Change::EndpointDeleted(endpoint_id, at) => self.single.push(endpoints::deleted(endpoint_id, *at)),
            Change::SecretAdded { owner, term, sealed } => {
                self.single.push(endpoints::secret_added(owner, *term, sealed));
            }
            Change::SecretsForgotten { owner, made_before } => {
                self.single.push(endpoints::secrets_forgotten(owner, *made_before));
            }
            Change::RecoveryAdded(partner_id, recovery) => self.single.push(recoveries::added(partner_id, recovery)),
            Change::RecoveryUpdated(_, recovery) => self.single.push(recoveries::updated(recovery)),
            Change::ShareAdded(share) => self.single.push(shares::added(seal, share)),
            Change::ShareChanged(share) => self.single.push(shares::changed(seal, share)),
            Change::HoldWritten(stored) => self.single.push(holds::written(seal, stored)),
            Change::EntryErased(entry) => self.single.push(Statement::new(
                "UPDATE entry SET seed = $1, facts = $2 WHERE idx = $3",
                args![entry.opening.to_bytes(), entry.facts.as_str(), entry.index],
            )),
            Change::AnswersErased(booking_id) => self.single.push(Statement::new(
                "UPDATE answer SET body = $1 WHERE booking_id = $2",
                args![Vec::new(), booking_id],
            )),
            Change::SharesForgotten(before) => self.single.push(shares::forgotten(*before)),
            Change::WitnessNoted(state) => self.single.push(cosignatures::noted(seal, state)),
            Change::CosignatureAdded(one) => self.single.push(cosignatures::cosigned(one)),
            Change::CosignatureForgotten(size, witness) => self.single.push(cosignatures::forgotten(*size, witness)),
            Change::AnswerReplaced(key, answer) => self.single.push(Statement::new(
                "UPDATE answer SET body = $1 WHERE key = $2",
                args![answer, key],
            )),
            Change::Mapped(written) => self.pages.extend(written.pages.iter()),
            Change::Stamped(stamp) => self.single.push(stamps::stamped(stamp)),
            Change::StampingChanged(stamping) => self.single.push(stamps::stamping_changed(stamping)),
            Change::AnswersForgotten(before) => self.single.push(Statement::new(
                "DELETE FROM answer WHERE key IN (SELECT key FROM answer WHERE at_ms < $1 LIMIT 1000)",
                args![*before],
            )),
            // SQLite skips the write if an UPDATE changes nothing. Inserting and deleting a row leaves no trace but
            // writes pages.
            Change::WriteTried => self.single.extend([
                Statement::new(
                    "INSERT INTO answer (key, at_ms, request, body) VALUES ($1, 0, $1, $1)",
                    args![TRIED],
                ),
                Statement::new("DELETE FROM answer WHERE key = $1", args![TRIED]),
            ]),
        }
    }
}

/// Replaces a partner's record. Its settings and whether it may act are columns of their own: the record says whether it was
/// waiting for approval.
fn edited(partner: &Partner) -> Statement<'static> {
    let record = Partner {
        status: match partner.status {
            PartnerStatus::Pending => PartnerStatus::Pending,
            _ => PartnerStatus::Active,
        },
        settings: PartnerSettings::default(),
        ..partner.clone()
    };
    Statement::new(
        "UPDATE partner SET body = $1 WHERE id = $2",
        args![json(&record), partner.partner_id],
    )
}

/// Writes a batch and makes it durable. The head moves only from the exact size and root that were loaded.
pub(crate) fn commit(
    conn: &mut dyn Conn,
    writes: &Writes<'_>,
    answers: &[Answered],
    append: Option<&Append<'_>>,
) -> Result<(), StoreError> {
    let mut statements = rows(writes);
    insert(
        &mut statements,
        // Replaces an answer whose 24 hours are over and which housekeeping has not deleted yet.
        "INSERT INTO answer (key, at_ms, request, body, booking_id) VALUES {} ON CONFLICT (key) DO UPDATE SET \
         at_ms = excluded.at_ms, request = excluded.request, body = excluded.body, booking_id = excluded.booking_id",
        answers,
        |answer, args| {
            args.extend([
                (&answer.key).into(),
                answer.at.into(),
                (&answer.request).into(),
                (&answer.sealed).into(),
                answer.booking_id.as_ref().into(),
            ]);
        },
    );
    if let Some(append) = append {
        push_append(&mut statements, append);
    }
    conn.commit(&statements).map(drop)
}

/// Adds the statements that store these tiles as they are now.
pub(super) fn push_tiles<'a>(statements: &mut Vec<Statement<'a>>, tiles: &'a [Tile]) {
    insert(
        statements,
        "INSERT INTO tile (level, idx, hashes) VALUES {} ON CONFLICT (level, idx) DO UPDATE SET hashes = excluded.hashes",
        tiles,
        |tile, args| {
            args.extend([
                i64::from(tile.level).into(),
                tile.index.into(),
                tile.bytes.as_slice().into(),
            ])
        },
    );
}

/// Adds the ledger's statements, ending with the head's.
fn push_append<'a>(statements: &mut Vec<Statement<'a>>, append: &'a Append<'a>) {
    push_tiles(statements, append.tiles);
    if append.keep {
        statements.push(Statement::new(
            "INSERT INTO checkpoint (size, at_ms, note) VALUES ($1, $2, $3) ON CONFLICT (size) DO NOTHING",
            args![append.to.size, append.written, append.checkpoint],
        ));
    }
    // If the stored head differs, the size becomes null. The column refuses that, so the engine itself undoes the
    // batch, and the COMMIT can travel in the same flight without anyone looking at a result first.
    statements.push(Statement::new(
        "UPDATE head SET size = CASE WHEN size = $1 AND root = $2 THEN CAST($3 AS BIGINT) END, root = $4, checkpoint = $5, \
         origin = $6, vkey = $7, written_ms = $8 WHERE id = 1",
        args![
            append.from.size,
            append.from.root.as_bytes(),
            append.to.size,
            append.to.root.as_bytes(),
            append.checkpoint,
            append.log.0,
            append.log.1,
            append.written,
        ],
    ));
}

fn rows<'a>(writes: &'a Writes<'a>) -> Vec<Statement<'a>> {
    let mut statements = Vec::with_capacity(16 + writes.single.len());
    for (partner, secret) in &writes.partners {
        statements.push(Statement::new(
            "INSERT INTO partner (id, status, events, policies, put_ms, bookings, bytes, day, day_events, file_bytes, quota, settings, body) \
             VALUES ($1, $2, 0, 0, 0, 0, 0, 0, 0, 0, $3, $4, $5)",
            args![&partner.partner_id, partner.status as i64, json(&Quota::default()), json(&partner.settings), json(*partner)],
        ));
        statements.push(Statement::new(
            "INSERT INTO secret (owner, made_ms, from_ms, sealed) VALUES ($1, $2, $3, $4)",
            args![
                &partner.partner_id,
                partner.created_at,
                partner.created_at,
                *secret,
            ],
        ));
    }
    insert(
        &mut statements,
        keys::INSERT,
        &writes.keys,
        |(partner_id, key, body, [mac, standing]), args| {
            args.extend([
                (&key.key.api_key_id).into(),
                partner_id.into(),
                (&key.hash).into(),
                body.as_str().into(),
                mac.into(),
                standing.into(),
                key.key.expires_at.into(),
                key.key.notice_at().into(),
            ]);
        },
    );
    push_bookings(&mut statements, writes);
    push_resolutions(&mut statements, writes);
    push_events(&mut statements, writes);
    let health = writes.health.iter();
    statements
        .extend(health.map(|(endpoint_id, health)| endpoints::set_health(endpoint_id, *health)));
    statements.extend(writes.single.iter().cloned());
    // After the search has moved on.
    let first = writes.events.iter().map(|event| &event.event_id).min();
    statements.extend(first.map(retention::met_again));
    statements
}

/// Adds policies and bookings. Bookings name a policy by its hash.
fn push_bookings<'a>(statements: &mut Vec<Statement<'a>>, writes: &'a Writes<'a>) {
    let adopted = writes
        .bookings
        .iter()
        .filter_map(|(new, _)| Some(&new.terms.policy.as_ref()?.document));
    let put = writes.policies.iter().map(|(_, kept)| &kept.policy);
    let mut texts: Vec<(&str, &str)> = adopted
        .chain(put)
        .map(|policy| (policy.hash(), policy.canonical_json()))
        .collect();
    texts.sort_unstable();
    texts.dedup_by_key(|(hash, _)| *hash);
    for (hash, body) in texts {
        statements.push(Statement::new(
            "INSERT INTO policy (hash, body) VALUES ($1, $2) ON CONFLICT (hash) DO NOTHING",
            args![hash_bytes(hash), body],
        ));
    }
    for (partner_id, kept) in &writes.policies {
        policies::push(statements, partner_id, kept);
    }
    insert(
        statements,
        "INSERT INTO booking (id, partner_id, status, event_ms, stream, entries, tip, policy_hash, body, terms) VALUES {}",
        &writes.bookings,
        |(new, entry), args| args.extend(projection::added(new, &entry.hash)),
    );
    insert(
        statements,
        "INSERT INTO entry (idx, booking_id, seq, leaf, kind, seed, facts) VALUES {}",
        &writes.entries,
        |entry, args| {
            args.extend([
                entry.index.into(),
                entry.booking_id.as_ref().into(),
                entry.seq.into(),
                (&entry.leaf).into(),
                entry.fact.kind.as_str().into(),
                (&entry.fact.seed).into(),
                entry.fact.members.as_str().into(),
            ]);
        },
    );
    update(
        statements,
        "UPDATE booking SET {} WHERE id IN ({})",
        &["entries", "tip"],
        &writes.chains,
        |(booking_id, entry), args| {
            args.extend([
                booking_id.into(),
                (entry.seq + 1).into(),
                entry.hash.as_bytes().into(),
            ]);
        },
    );
    update(
        statements,
        "UPDATE booking SET {} WHERE id IN ({})",
        projection::CHANGED,
        &writes.changed,
        |(state, entry), args| {
            let booking_id = &state.booking.booking_id;
            args.push(booking_id.into());
            args.extend(projection::changed(state, entry.seq + 1, &entry.hash));
        },
    );
}

fn push_resolutions<'a>(statements: &mut Vec<Statement<'a>>, writes: &'a Writes<'a>) {
    insert(
        statements,
        "INSERT INTO resolution (id, booking_id, leaf_idx) VALUES {}",
        &writes.resolutions,
        |resolution, args| args.extend(projection::resolution(resolution)),
    );
}

fn push_events<'a>(statements: &mut Vec<Statement<'a>>, writes: &'a Writes<'a>) {
    insert(
        statements,
        "INSERT INTO event (id, partner_id, seq, booking_id, type, body, retries) VALUES {}",
        &writes.events,
        |event, args| {
            args.extend(projection::event(event));
            args.push(Arg::Int(0));
        },
    );
    update(
        statements,
        "UPDATE partner SET {} WHERE id IN ({})",
        &[
            "events",
            "bookings",
            "bytes",
            "day",
            "day_events",
            "file_bytes",
        ],
        &writes.counts,
        |(partner_id, events, usage), args| {
            args.extend([
                partner_id.into(),
                (*events).into(),
                usage.bookings.into(),
                usage.bytes.into(),
                usage.day.into(),
                usage.day_events.into(),
                usage.file_bytes.into(),
            ]);
        },
    );
    insert(
        statements,
        "INSERT INTO delivery (event_id, endpoint_id, phase, attempts, charged, due_ms, lease, settled_leaf, begun_ms, since_ms) VALUES {}",
        &writes.deliveries,
        push_delivery,
    );
    // The rows exist, so this always updates. As an INSERT, one statement updates many rows.
    insert(
        statements,
        "INSERT INTO delivery (event_id, endpoint_id, phase, attempts, charged, due_ms, lease, settled_leaf, begun_ms, since_ms) VALUES {} \
         ON CONFLICT (event_id, endpoint_id) DO UPDATE SET phase = excluded.phase, attempts = excluded.attempts, \
         charged = excluded.charged, due_ms = excluded.due_ms, lease = excluded.lease, settled_leaf = excluded.settled_leaf, \
         begun_ms = excluded.begun_ms, since_ms = excluded.since_ms",
        &writes.updated,
        push_delivery,
    );
    epochs::push_pages(statements, &writes.pages);
    insert(
        statements,
        "INSERT INTO attempt (event_id, endpoint_id, number, body) VALUES {}",
        &writes.attempts,
        |(event_id, endpoint_id, number, body), args| {
            args.extend([
                event_id.into(),
                endpoint_id.into(),
                (*number).into(),
                body.as_str().into(),
            ]);
        },
    );
    update(
        statements,
        "UPDATE event SET body = NULL, {} WHERE id IN ({})",
        projection::PRUNED,
        &writes.pruned,
        |(event_id, pruned), args| {
            args.push(event_id.into());
            args.extend(projection::pruned(pruned));
        },
    );
    // After this batch's own attempts: a delivery may have ended in this batch.
    for events in writes.unattempted.chunks(PRUNED) {
        statements.extend(select_in(
            "DELETE FROM attempt WHERE event_id IN ({})",
            events,
        ));
    }
}

fn push_delivery<'a>(
    (event_id, endpoint_id, state): &'a (EventId, EndpointId, DeliveryState),
    args: &mut Vec<Arg<'a>>,
) {
    args.extend(projection::delivery(event_id, endpoint_id, state));
}

/// Keeps the last row of each key, in key order, because a statement must not meet a row twice.
fn keep_last<T, K: Ord>(rows: &mut Vec<T>, key: impl Fn(&T) -> K) {
    rows.reverse();
    rows.sort_by_key(&key);
    rows.dedup_by_key(|row| key(row));
}

pub(super) fn json<T: serde::Serialize>(value: &T) -> String {
    serde_json::to_string(value)
        .expect("the model's own types always serialize: their map keys are strings")
}
