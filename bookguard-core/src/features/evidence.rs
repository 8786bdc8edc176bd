//! The evidence packet of a booking: made from one snapshot of the store, and reused while a new one would say the same.
//! Invariant: a packet shows every entry, and the latest attempts, that the store held when it was requested.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use sha2::{Digest as _, Sha256};

use super::acceptances::{TermsHistory, facts};
use super::cosignatures::{CosignedHead, cosigned_head};
use super::timestamps;
use crate::engine::batch::LoadedBooking;
use crate::engine::change::StoredStamp;
use crate::error::Error;
use crate::evidence::StoredEntry;
use crate::evidence::facts::Logged;
use crate::evidence::packet::{
    Completeness, CompletenessStep, LogHint, PACKET_TYPE, PacketAttempt, PacketDelivery,
    PacketEntry, PacketTimestamp, UNKNOWN_ADDRESS, evaluate, shown_address,
};
use crate::evidence::summary::{SummaryInput, Wording, summarize};
use crate::evidence::withheld::withhold;
use crate::evidence::{
    DisputeExport, DisputeForm, DisputeReason, FrozenTerms, LoggedEpoch, Notification, Packet,
    SealedPacket, Withheld, dispute,
};
use crate::ledger::map::{self, MapStep, MapValue};
use crate::ledger::proof::{Prover, prove_consistency, tiles_of};
use crate::ledger::tile::{ReadError, UpperNodes};
use crate::ledger::{Hash, TlogProof, leaf_hash};
use crate::limits::{ENTRIES_AT_ONCE, PACKET_BYTES};
use crate::model::{BookingId, DeliveryStatus, PartnerId, Scope, Timestamp};
use crate::operation::{
    Action, Finished, Operation, QueryForm, QueryParam, QueryReader, Request, Route, path_id, read,
    read_long, read_stored, to_json,
};
use crate::packets::PacketKey;
use crate::policy::{Evaluation, Explanation};
use crate::service::Service;
use crate::session::{Access, Session};
use crate::store::events::{Attempts, StoredDelivery, StoredEvent};
use crate::store::read::{Reader, StoredChain};
use crate::store::{StoreError, StoredHead};

/// `GET /v1/bookings/{bookingId}/evidence`
pub struct GetEvidence;

impl Operation for GetEvidence {
    const ROUTE: Route = Route {
        id: "getEvidence",
        path: "/v1/bookings/{bookingId}/evidence",
        access: Access::Scope(Scope::EvidenceRead),
        elsewhere: &[("for", DISPUTE), ("reason", DISPUTE)],
        refusals: &[404],
        tag: "Evidence",
        summary: "The evidence packet of a booking",
        description: "Everything recorded about the booking so far, in one signed document that anybody can verify offline \
                      with the log's verifier key. The signature covers everything in it. While \
                      nothing happens to the booking and its deliveries, the same packet is returned for up to a minute, and \
                      its `ETag` stays the same: ask with `If-None-Match`. With `Accept: text/html` the answer is a page that \
                      holds the packet and checks it offline; with `Accept: application/pdf` it is a PDF, with \
                      `Accept: application/zip` an archive of all of these and the files of its evidence items.",
        ..Route::GET
    };
    type Output = SealedPacket;

    fn prepare(session: &Session, request: &Request) -> Result<Action<SealedPacket>, Error> {
        let key = (path_id(request, 0)?, Vec::new());
        Ok(match find_own(session, &key, request)? {
            PacketLookup::Kept(tag) => read_stored(false, move |_| Ok(Finished::unchanged(tag))),
            PacketLookup::Packet(packet) => read_stored(false, move |_| Ok(answer(&packet))),
            PacketLookup::Long => {
                read_stored(true, move |session| Ok(answer(&made_own(session, &key)?)))
            }
        })
    }
}

const DISPUTE: &str = "/v1/bookings/{bookingId}/evidence/dispute";

/// `GET /v1/bookings/{bookingId}/evidence/dispute`
pub struct ExportDispute;

impl Operation for ExportDispute {
    const ROUTE: Route = Route {
        id: "exportDispute",
        path: "/v1/bookings/{bookingId}/evidence/dispute",
        access: Access::Scope(Scope::EvidenceRead),
        query: &[
            QueryParam {
                name: "for",
                description: "Whose form to fill in: `stripe`, or `card` for any card dispute.",
                form: QueryForm::RequiredWord("DisputeForm"),
            },
            QueryParam {
                name: "reason",
                description: "What the cardholder claims, as Stripe names it: credit_not_processed, duplicate, fraudulent, \
                              general, product_not_received, product_unacceptable, subscription_canceled or unrecognized.",
                form: QueryForm::RequiredWord("DisputeReason"),
            },
        ],
        refusals: &[404],
        tag: "Evidence",
        summary: "The evidence in the fields of a card dispute",
        description: "Fills in the fields of a dispute with what is recorded about the booking. You complete and submit them: \
                      `missing` lists what only you can add, and `files` the documents to upload. Each sentence says who claims \
                      it. The service submits nothing and does not talk to your processor.",
        ..Route::GET
    };
    type Output = DisputeExport;

    fn prepare(session: &Session, request: &Request) -> Result<Action<DisputeExport>, Error> {
        let key = (path_id(request, 0)?, Vec::new());
        let mut params = QueryReader::of(request);
        let form = params.word("for", DisputeForm::WORDS);
        let reason = params.word("reason", DisputeReason::WORDS);
        let (Some(form), Some(reason)) = (form, reason) else {
            return Err(params.refusal());
        };
        let export = move |packet: &SealedPacket| {
            let packet = packet.read();
            let packet =
                packet.map_err(|why| Error::internal(format!("a packet cannot be read: {why}")))?;
            Ok(dispute(&packet, form, reason))
        };
        // The caller cannot have the packet already: its tags are those of exports.
        let found = find_own(session, &key, &Request::default())?;
        Ok(match found {
            PacketLookup::Packet(packet) => read::<Self>(move |_| export(&packet)),
            PacketLookup::Kept(_) | PacketLookup::Long => {
                read_long::<Self>(true, move |session| export(&made_own(session, &key)?))
            }
        })
    }
}

/// The result of looking for a packet.
enum PacketLookup {
    /// The caller already has a packet with this tag, and it is still current.
    Kept(String),
    /// The packet.
    Packet(SealedPacket),
    /// Making the packet takes long.
    Long,
}

/// The text that was signed, as it is.
fn answer(packet: &SealedPacket) -> Finished {
    let tag = packet.tag().map(str::to_owned);
    Finished::stored(packet.bytes(), tag)
}

/// The packet of a caller's booking, however long it takes.
fn made_own(session: &Session, key: &PacketKey) -> Result<SealedPacket, Error> {
    made(&session.service, key, |owner| session.may_see(owner))
}

/// As [`find`], however long it takes.
pub(super) fn made(
    service: &Service,
    key: &PacketKey,
    may_see: impl Fn(&PartnerId) -> bool,
) -> Result<SealedPacket, Error> {
    match find(service, key, may_see, None)? {
        PacketLookup::Packet(packet) => Ok(packet),
        PacketLookup::Kept(_) | PacketLookup::Long => {
            Err(Error::internal("a packet is made when it is asked for"))
        }
    }
}

/// As [`find`], of a booking that the caller may see.
fn find_own(session: &Session, key: &PacketKey, asked: &Request) -> Result<PacketLookup, Error> {
    let may_see = |owner: &PartnerId| session.may_see(owner);
    find(&session.service, key, may_see, Some(asked))
}

/// Finds the packet of a booking without the withheld values, reusing the one made before while it is current, or makes it.
/// The booking is unknown unless its owner `may_see` it. With `asked`, it answers
/// [`PacketLookup::Kept`] if the caller has a current packet, and [`PacketLookup::Long`] instead of making one that takes long.
fn find(
    service: &Service,
    key: &PacketKey,
    may_see: impl Fn(&PartnerId) -> bool,
    asked: Option<&Request>,
) -> Result<PacketLookup, Error> {
    let (booking_id, withheld) = key;
    let seen = service.packets().erasures();
    let mut reader = service.reader()?;
    reader.snapshot();
    let chain = reader
        .booking_chain(booking_id)
        .map_err(|e| service.fault(&e))?
        .filter(|chain| may_see(&chain.owner))
        .ok_or_else(|| Error::not_found("booking"))?;
    let now = service.clock().now();
    let found = PacketInputs::read(&mut reader, booking_id).map_err(|e| service.fault(&e))?;
    let mut inputs = found.ok_or_else(|| Error::not_found("booking"))?;
    inputs.cosigned = cosigned(service, &mut reader, inputs.ends.1, &inputs.head)?;
    let cosigned = inputs.cosigned.as_ref().map(|cosigned| cosigned.size);
    let size = cosigned.unwrap_or(inputs.head.head.size);
    // Later stamps are of more than that state of the log, so it cannot prove them.
    let stamps = timestamps::of_booking(&mut reader, (&inputs.head.origin, size), inputs.ends);
    inputs.stamps = stamps.map_err(|e| service.fault(&e))?;
    inputs.epoch = (inputs.epoch).filter(|epoch| epoch.place.index < size);
    let tag = inputs.tag(&chain, withheld, now);
    if asked.is_some_and(|request| request.knows(&tag)) {
        return Ok(PacketLookup::Kept(tag));
    }
    if let Some(packet) = service.packets().get(key, &tag, now) {
        return Ok(PacketLookup::Packet(packet));
    }
    if asked.is_some() && chain.entries > ENTRIES_AT_ONCE {
        return Ok(PacketLookup::Long);
    }
    let source = Source::read(&mut reader, booking_id, inputs, service.upper_nodes());
    let source = source.map_err(|e| service.fault(&e))?;
    service.publish_signed(&mut reader, &source.head)?;
    drop(reader);
    let signer = service.signer(&source.head.origin)?;
    let packet = source
        .packet(service, withheld)?
        .seal(&signer)?
        .tagged(&tag);
    if packet.is_too_long() {
        tracing::error!(
            "the packet of booking {booking_id} has {} bytes, and verifiers refuse one of more than {PACKET_BYTES}: it is given out all \
             the same; once long texts of the booking, such as notes, are erased, it is shorter",
            packet.text().len()
        );
    }
    service
        .packets()
        .keep(key.clone(), chain.owner, &packet, (now, seen));
    Ok(PacketLookup::Packet(packet))
}

/// The cosigned checkpoint that covers this last entry of a booking, if witnesses are set and have given one. Nothing waits for it.
fn cosigned(
    service: &Service,
    reader: &mut Reader<'_>,
    last: u64,
    head: &StoredHead,
) -> Result<Option<CosignedHead>, Error> {
    let Some(policy) = service.witnesses() else {
        return Ok(None);
    };
    let least = last + 1;
    let stored = reader.cosignatures(least).map_err(|e| service.fault(&e))?;
    let signer = service.signer(&head.origin)?;
    Ok(cosigned_head(
        &stored,
        policy,
        signer.verifier(),
        least..=head.head.size,
    ))
}

/// What a packet depends on, besides the entries (the tip of their chain stands for them) and the rest of the log.
struct PacketInputs {
    state: LoadedBooking,
    partner_name: String,
    head: StoredHead,
    /// The places of the first and the last entry.
    ends: (u64, u64),
    /// The cosigned checkpoint that its entries are proven under, in place of the head's.
    cosigned: Option<CosignedHead>,
    deliveries: [u8; 32],
    /// Those that this state of the log proves.
    stamps: Vec<StoredStamp>,
    /// The newest epoch, if it covers all entries.
    epoch: Option<LoggedEpoch>,
}

impl PacketInputs {
    fn read(reader: &mut Reader<'_>, booking_id: &BookingId) -> Result<Option<Self>, StoreError> {
        let Some(state) = reader.booking(booking_id)? else {
            return Ok(None);
        };
        let owner = state.booking.partner_id;
        let partner = reader.partner(&owner)?.ok_or_else(|| {
            StoreError::Corrupt(format!(
                "booking {booking_id} belongs to {owner}, which does not exist"
            ))
        })?;
        let head = reader.head()?;
        let ends = reader.ends_of(booking_id)?;
        let ends = ends.ok_or_else(|| {
            StoreError::Corrupt(format!("booking {booking_id} has no entries in the log"))
        })?;
        let epoch = reader.latest_epoch()?;
        let covers = |epoch: &LoggedEpoch| ends.1 < epoch.epoch.tree_size;
        Ok(Some(Self {
            state,
            partner_name: partner.name,
            head,
            ends,
            cosigned: None,
            stamps: Vec::new(),
            epoch: epoch.filter(covers),
            deliveries: reader.standing_of(booking_id)?,
        }))
    }

    /// A digest of what a packet made now would say: the chain, the name of the log that proves it, who has cosigned it, its stamps, whether it is mapped,
    /// how its events were delivered, and what a cancellation would come to, which can change with the clock alone. Packets with the same tag
    /// differ only in when they were made and what follows from that.
    fn tag(&self, chain: &StoredChain, withheld: &[Withheld], now: Timestamp) -> String {
        let evaluation = evaluate(&self.state, &self.state.terms, now);
        let outcome = evaluation.map(|evaluation| Evaluation {
            evaluated_at: Timestamp::EPOCH,
            as_of: Timestamp::EPOCH,
            explanation: Explanation {
                code: evaluation.explanation.code,
                params: BTreeMap::new(),
                text: String::new(),
            },
            ..evaluation
        });
        let stamps: Vec<u64> = self.stamps.iter().map(|stamp| stamp.leaf).collect();
        let mut digest = Sha256::new();
        for part in [
            self.head.origin.as_bytes(),
            self.partner_name.as_bytes(),
            &chain.tip,
            &self.deliveries,
            &to_json(&outcome),
            &to_json(&withheld),
            &to_json(&stamps),
            // Which epoch it is changes all the time, like the time at which the packet is made.
            &to_json(&self.epoch.is_some()),
        ] {
            digest.update((part.len() as u64).to_be_bytes());
            digest.update(part);
        }
        if let Some(cosigned) = &self.cosigned {
            digest.update(to_json(&cosigned.witnesses));
        }
        hex::encode(&digest.finalize()[..16])
    }
}

/// The contents of a packet, all read at one moment.
struct Source {
    state: LoadedBooking,
    partner_name: String,
    head: StoredHead,
    entries: Vec<(StoredEntry, TlogProof)>,
    events: Vec<StoredEvent>,
    timestamps: Vec<ProvenStamp>,
    completeness: Option<ProvenMap>,
}

/// The entry that commits to the map of the log, and the booking's path through the map.
struct ProvenMap {
    entry: (StoredEntry, TlogProof),
    path: Vec<MapStep>,
}

/// A stamp, the proof that the log continues its checkpoint, and the entry that commits to it if another stamp renews it.
struct ProvenStamp {
    stamp: StoredStamp,
    consistency: Vec<Hash>,
    anchor: Option<(StoredEntry, TlogProof)>,
}

impl Source {
    fn read(
        reader: &mut Reader<'_>,
        booking_id: &BookingId,
        inputs: PacketInputs,
        upper_nodes: &UpperNodes,
    ) -> Result<Self, StoreError> {
        let PacketInputs {
            state,
            partner_name,
            head,
            cosigned,
            stamps,
            epoch,
            ..
        } = inputs;
        let stored = reader.entries_of(booking_id)?;
        let last = stamps.len().saturating_sub(1);
        let mut anchors = Vec::new();
        for stamp in stamps.iter().take(last) {
            let anchor = reader.entry_at(stamp.leaf)?;
            anchors.push(anchor.ok_or_else(|| {
                StoreError::Corrupt(format!("entry {} of a stamp is missing", stamp.leaf))
            })?);
        }
        let mapped = match epoch {
            Some(epoch) => mapped(reader, &epoch, &state.stream, &stored)?,
            None => None,
        };
        let (size, checkpoint) = match cosigned {
            Some(cosigned) => (cosigned.size, cosigned.note),
            None => (head.head.size, head.checkpoint.clone()),
        };
        let of_log = anchors
            .iter()
            .chain(mapped.as_ref().map(|(entry, _)| entry));
        let leaves = stored.iter().chain(of_log).map(|entry| entry.index);
        let mut tiles = reader.tiles(&tiles_of(leaves, size))?;
        let read = |level, index| Ok::<_, StoreError>(tiles.remove(&(level, index)));
        let mut prover = Prover::new(size, read, Some(upper_nodes));
        let mut proven = |entry: StoredEntry| {
            let path = prover.inclusion(entry.index).map_err(unread)?;
            let proof = TlogProof {
                extra: None,
                index: entry.index,
                path,
                checkpoint: checkpoint.clone(),
            };
            Ok::<_, StoreError>((entry, proof))
        };
        let entries = stored.into_iter().map(&mut proven);
        let entries = entries.collect::<Result<_, _>>()?;
        let completeness = mapped.map(|(entry, path)| {
            let entry = proven(entry)?;
            Ok::<_, StoreError>(ProvenMap { entry, path })
        });
        let completeness = completeness.transpose()?;
        let anchors = anchors.into_iter().map(&mut proven);
        let mut anchors = anchors.collect::<Result<Vec<_>, _>>()?.into_iter();
        let mut timestamps = Vec::new();
        for stamp in stamps {
            let read = |level, index| reader.tile(level, index);
            timestamps.push(ProvenStamp {
                consistency: prove_consistency(stamp.size, size, read).map_err(unread)?,
                anchor: anchors.next(),
                stamp,
            });
        }
        let events = reader.events_of(booking_id, Attempts::Latest)?;
        Ok(Self {
            state,
            partner_name,
            head,
            entries,
            events,
            timestamps,
            completeness,
        })
    }

    /// Builds the packet, unsigned.
    fn packet(self, service: &Service, withheld: &[Withheld]) -> Result<Packet, Error> {
        let stored: Vec<&StoredEntry> = self.entries.iter().map(|(entry, _)| entry).collect();
        let mut facts = facts(&stored)?;
        for logged in &mut facts {
            withhold(&mut logged.fact, withheld);
        }
        let told = TermsHistory::of(&self.state, facts.iter().cloned())?;
        let (booking, terms) = (&told.state.booking, &self.state.terms);
        let mut created_at = service.clock().now();
        let mut entries = Vec::new();
        for ((stored, proof), fact) in self.entries.into_iter().zip(&facts) {
            // A packet must not be older than its contents, even if a clock was set back.
            created_at = created_at.max(fact.place.at);
            entries.push(shown(stored, proof, withheld)?);
        }
        let completeness = self.completeness.map(ProvenMap::shown);
        let resolution = told.state.resolution();
        let evaluation = evaluate(&told.state, terms, created_at);
        let settled = &told.state.settled;
        let deliveries: Vec<PacketDelivery> = self
            .events
            .iter()
            .flat_map(|event| deliveries(event, settled))
            .collect();
        let frozen = FrozenTerms::of(terms);
        let terms_disclosures = told.in_words()?;
        let former_terms: Vec<FrozenTerms> = (told.versions.into_iter())
            .take(told.state.moves.len())
            .map(|version| version.terms)
            .collect();
        let summary = summarize(&SummaryInput {
            wording: Wording::LATEST,
            created_at,
            partner_name: &self.partner_name,
            booking,
            terms: &frozen,
            former_terms: &former_terms,
            policy: terms.policy.as_ref().map(|policy| &policy.document),
            offsets: &[],
            facts: &facts,
            evaluation: evaluation.as_ref(),
            resolution,
            deliveries: &deliveries,
            withheld,
        });
        let resolution = resolution.cloned();
        let state = told.state;
        Ok(Packet {
            packet_type: PACKET_TYPE.to_owned(),
            created_at,
            booking: state.booking,
            partner_name: self.partner_name,
            stream: URL_SAFE_NO_PAD.encode(self.state.stream),
            log: LogHint {
                origin: self.head.origin,
                vkey: self.head.vkey,
            },
            entries,
            policy: terms.policy.as_ref().map(|policy| policy.document.clone()),
            policy_hash: terms.policy_hash().map(str::to_owned),
            terms: frozen,
            terms_disclosures,
            former_terms,
            acceptances: (state.acceptances.into_iter())
                .map(|logged| logged.fact)
                .collect(),
            items: (state.items.into_iter())
                .map(|logged| logged.fact)
                .collect(),
            evaluation,
            resolution,
            deliveries,
            withheld: withheld.to_vec(),
            summary,
            timestamps: (self.timestamps.into_iter())
                .map(ProvenStamp::shown)
                .collect::<Result<_, _>>()?,
            completeness: completeness.transpose()?,
            signature: String::new(),
        })
    }
}

/// The entry that commits to an epoch, and a stream's path through its map; `None` if the map does not have exactly these entries.
fn mapped(
    reader: &mut Reader<'_>,
    epoch: &LoggedEpoch,
    stream: &[u8; 16],
    entries: &[StoredEntry],
) -> Result<Option<(StoredEntry, Vec<MapStep>)>, StoreError> {
    let key = map::key_of(stream);
    let mut pages = reader.map_pages([&key])?;
    let proof = pages.prove(&key);
    let proof = proof.map_err(|e| StoreError::Corrupt(e.to_string()))?;
    let last = entries.last().map(|last| leaf_hash(&last.leaf));
    let value = MapValue {
        count: entries.len() as u64,
        head: last.unwrap_or(Hash::ZERO),
    };
    if proof.verify(&epoch.epoch.map_root, &key) != Ok(Some(value)) {
        let index = epoch.place.index;
        tracing::error!(
            "the map in entry {index} is not that of the log; packets do not show that they are complete: run `bookguard ledger verify`"
        );
        return Ok(None);
    }
    let entry = reader.entry_at(epoch.place.index)?;
    Ok(entry.map(|entry| (entry, proof.path)))
}

impl ProvenMap {
    fn shown(self) -> Result<Completeness, Error> {
        let (stored, proof) = self.entry;
        let step = |step: &MapStep| CompletenessStep {
            bit: step.bit,
            hash: step.hash.to_base64(),
        };
        Ok(Completeness {
            entry: shown(stored, proof, &[])?,
            path: self.path.iter().map(step).collect(),
        })
    }
}

impl ProvenStamp {
    fn shown(self) -> Result<PacketTimestamp, Error> {
        let anchor = self.anchor;
        Ok(PacketTimestamp {
            checkpoint: self.stamp.checkpoint,
            consistency: self.consistency.iter().map(Hash::to_base64).collect(),
            response: STANDARD.encode(&self.stamp.response),
            anchor: (anchor.map(|(stored, proof)| shown(stored, proof, &[]))).transpose()?,
        })
    }
}

fn unread(error: ReadError<StoreError>) -> StoreError {
    match error {
        ReadError::Read(error) => error,
        other => StoreError::Corrupt(other.to_string()),
    }
}

/// An entry as the packet shows it.
fn shown(
    stored: StoredEntry,
    proof: TlogProof,
    withheld: &[Withheld],
) -> Result<PacketEntry, Error> {
    let body = stored.event_body().map_err(|why| {
        Error::internal(format!(
            "entry {} of the ledger cannot be read: {why}",
            stored.index
        ))
    })?;
    let shown = |name: &str| !withheld.iter().any(|one| one.word() == name);
    let disclosures = (stored.disclosures.into_iter()).filter(|one| shown(&one.name));
    Ok(PacketEntry {
        leaf: STANDARD.encode(&stored.leaf),
        salt: URL_SAFE_NO_PAD.encode(stored.salt),
        body,
        disclosures: disclosures.collect(),
        proof: proof.to_string(),
    })
}

/// The deliveries of an event, or a single record that it had none. Nothing for a type that endpoints must list.
fn deliveries(event: &StoredEvent, settled: &[Logged<Notification>]) -> Vec<PacketDelivery> {
    let Some(event_type) = event.event_type.recorded() else {
        return Vec::new();
    };
    let nowhere = PacketDelivery {
        event_id: event.event_id,
        event_type,
        endpoint_id: None,
        url: None,
        status: DeliveryStatus::NoEndpoints,
        attempts: 0,
        recorded: Vec::new(),
        history: Vec::new(),
    };
    if event.deliveries.is_empty() {
        return vec![nowhere];
    }
    let shown = |delivery: &StoredDelivery| PacketDelivery {
        endpoint_id: Some(delivery.endpoint_id),
        url: Some(shown_address(
            delivery
                .receiver(&event.event_id)
                .unwrap_or(UNKNOWN_ADDRESS),
        )),
        status: delivery.state.phase.into(),
        attempts: delivery.state.attempts,
        recorded: settled
            .iter()
            .map(|logged| &logged.fact)
            .filter(|n| n.is_of(event.event_id, delivery.endpoint_id))
            .cloned()
            .collect(),
        history: delivery
            .attempts
            .iter()
            .map(|attempt| PacketAttempt {
                started_at: Timestamp::from_ms(attempt.started_at),
                status_code: attempt.status_code,
                error: attempt.class.map(|class| class.to_string()),
            })
            .collect(),
        ..nowhere.clone()
    };
    event.deliveries.iter().map(shown).collect()
}
