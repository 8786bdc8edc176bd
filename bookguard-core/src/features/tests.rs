//! The rules as tables, on state made by hand.

mod endpoints;
mod health;
mod leases;
mod losses;
mod policies;
mod quotas;
mod recoveries;
mod retention;
mod settled;

use std::collections::{BTreeMap, HashMap};
use std::fmt::Debug;
use std::sync::Arc;

use crate::engine::answers::{ForgetAnswers, ReplaceAnswer};
use crate::engine::batch::{BatchState, ChainState, EventState, KeyState, PartnerState, Prior};
use crate::engine::change::{Change, Content, DeliveryPhase, DeliveryState};
use crate::engine::command::{Command, Envelope, LeasedDelivery, NewKey, Remember};
use crate::engine::decide::{Decision, decide};
use crate::error::{Error, Kind};
use crate::features::api_keys::{CreateApiKey, NewApiKey, RevokeApiKey};
use crate::features::bookings::ProtectBooking;
use crate::features::deliveries::{
    ClaimDeliveries, EndpointTurned, ReclaimDeliveries, ReleaseDeliveries, SettleDelivery,
};
use crate::features::endpoints::update::UpdateEndpoint;
use crate::features::endpoints::{CreateEndpoint, DeleteEndpoint, EndpointUpdate};
use crate::features::events::RetryEvent;
use crate::features::partners::{ApprovePartner, Registration};
use crate::ledger::Hash;
use crate::limits;
use crate::model::*;
use crate::policy::PolicySetVersion;
use crate::webhook::{Attempt, FailureClass};

mod acceptances;
mod cancellations;
mod reschedules;

const NOW: Timestamp = Timestamp::EPOCH;

fn id<N: crate::model::id::Noun>(n: u8) -> Id<N> {
    Id::new(NOW, [n; 10])
}

fn endpoint(n: u8, events: &[EventType]) -> Endpoint {
    Endpoint {
        endpoint_id: id(n),
        partner_id: None,
        url: format!("https://example.com/{n}"),
        events: events.to_vec(),
        description: None,
        rate_limit_per_second: None,
        own_secret: false,
        enabled: true,
        status: EndpointStatus::Active,
        failures: 0,
        failing_since: None,
        next_probe_at: None,
        unverified_since: None,
        created_at: NOW,
    }
}

fn partner(status: PartnerStatus, endpoints: Vec<Endpoint>) -> PartnerState {
    let partner = Partner {
        partner_id: id(1),
        name: "Acme".to_owned(),
        business_type: "venue".to_owned(),
        contact_email: "a@example.com".to_owned(),
        website: None,
        status,
        created_at: NOW,
        settings: PartnerSettings::default(),
    };
    PartnerState {
        partner,
        events: 0,
        usage: Usage::default(),
        quota: Quota::default(),
        live_keys: 0,
        endpoints,
        policy_set_version: PolicySetVersion::default(),
        policies: BTreeMap::new(),
    }
}

fn work(status: PartnerStatus, endpoints: Vec<Endpoint>) -> BatchState {
    BatchState {
        room: HashMap::from([(id(7), 2)]),
        partners: HashMap::from([(id(1), partner(status, endpoints))]),
        ..BatchState::default()
    }
}

fn command<R>(command: impl Command<Reply = R>) -> Envelope<R> {
    Envelope::new(NOW, command)
}

fn new_key(n: u8) -> NewKey {
    let key = ApiKey {
        api_key_id: id(n),
        name: "k".to_owned(),
        scopes: Scopes::all(),
        hint: "abcd".to_owned(),
        created_at: NOW,
        revoked_at: None,
    };
    NewKey { key, hash: [n; 32] }
}

fn changes(decided: Result<Decision<impl Debug>, Error>) -> Vec<Change> {
    match decided.unwrap() {
        Decision::Do { changes, .. } => changes,
        other => panic!("decided {other:?}"),
    }
}

fn refusal(decided: Result<Decision<impl Debug>, Error>) -> String {
    decided.unwrap_err().code.into_owned()
}

fn delivery(phase: DeliveryPhase, due: Option<i64>, lease: Option<i64>) -> DeliveryState {
    DeliveryState {
        phase,
        attempts: 1,
        counted_attempts: 1,
        due: due.map(|ms| NOW.plus_ms(ms)),
        lease,
        settled_leaf: None,
        begun: None,
        since: due.map(|_| NOW),
    }
}

fn attempt(class: Option<FailureClass>) -> Attempt {
    Attempt {
        started_at: 0,
        duration_ms: 1,
        phase: crate::webhook::Phase::Body,
        class,
        detail: None,
        status_code: None,
        response_head: String::new(),
        response_len: 0,
        response_sha256: None,
        retry_after_ms: None,
        uncharged: false,
    }
}

/// A batch with one event of one delivery to endpoint 7.
fn with_delivery(state: DeliveryState) -> BatchState {
    let mut work = work(PartnerStatus::Active, vec![endpoint(7, &[])]);
    work.events.insert(
        id(5),
        EventState {
            partner_id: id(1),
            seq: 1,
            booking_id: id(6),
            event_type: EventType::BookingCreated,
            content: Content::Whole(Arc::from(&b"{}"[..])),
            retries: 0,
            endpoints: vec![id(7)],
        },
    );
    work.deliveries.insert((id(5), id(7)), state);
    work.health
        .insert(id(7), EndpointHealth::of(EndpointStatus::Active));
    work.chains.insert(id(6), CHAIN);
    work.size = 20;
    work
}

/// Where the chain of that event's booking stands.
const CHAIN: ChainState = ChainState {
    stream: [3; 16],
    entries: 1,
    tip: Hash([7; 32]),
};

/// The outcome of an attempt at that delivery, the one with this number.
fn settle(
    at: Timestamp,
    lease: i64,
    number: u32,
    class: Option<FailureClass>,
) -> Envelope<Option<EndpointTurned>> {
    Envelope::new(at, settling(at, lease, number, class))
}

fn settling(at: Timestamp, lease: i64, number: u32, class: Option<FailureClass>) -> SettleDelivery {
    let delivery = LeasedDelivery {
        event_id: id(5),
        partner_id: id(1),
        endpoint_id: id(7),
        booking_id: id(6),
        event_type: EventType::BookingCreated,
        seq: 1,
        body: Arc::from(&b"{}"[..]),
        lease,
        until: NOW,
        attempts: number - 1,
        per_second: None,
        failing: false,
    };
    SettleDelivery {
        jitter: 1 << 63,
        ..SettleDelivery::of(&delivery, attempt(class), at).unwrap()
    }
}

#[test]
fn only_a_pending_partner_is_approved() {
    let reply = Registration {
        partner_id: id(1),
        name: "Acme".to_owned(),
        status: PartnerStatus::Active,
        api_key_id: None,
        api_key: None,
        signing_secret: None,
    };
    let approve = command(ApprovePartner {
        partner_id: id(1),
        key: new_key(2),
        reply,
    });
    assert_eq!(
        changes(decide(&work(PartnerStatus::Pending, vec![]), &approve)).len(),
        2
    );
    assert_eq!(
        refusal(decide(&work(PartnerStatus::Active, vec![]), &approve)),
        "partner_not_pending"
    );
    assert_eq!(
        refusal(decide(&BatchState::default(), &approve)),
        "not_found"
    );
}

#[test]
fn keys_are_limited_and_revoked_once() {
    let reply = NewApiKey {
        api_key_id: id(2),
        api_key: String::new(),
        name: String::new(),
        scopes: Scopes::all(),
        created_at: NOW,
    };
    let create = command(CreateApiKey {
        partner_id: id(1),
        key: new_key(2),
        reply,
    });
    let mut state = work(PartnerStatus::Active, vec![]);
    assert_eq!(changes(decide(&state, &create)).len(), 1);
    state.partners.get_mut(&id(1)).unwrap().live_keys = crate::limits::KEYS_PER_PARTNER;
    assert_eq!(refusal(decide(&state, &create)), "too_many_keys");
    assert_eq!(
        refusal(decide(&work(PartnerStatus::Pending, vec![]), &create)),
        "not_found"
    );

    let revoke = |owner| {
        command(RevokeApiKey {
            partner_id: owner,
            api_key_id: id(3),
            by: None,
        })
    };
    state.keys.insert(
        id(3),
        KeyState {
            partner_id: id(1),
            key: new_key(3).key,
        },
    );
    assert_eq!(refusal(decide(&state, &revoke(id(9)))), "not_found");
    let first = changes(decide(&state, &revoke(id(1))));
    assert_eq!(first.len(), 1);
    first.iter().for_each(|change| state.apply(change));
    assert!(
        changes(decide(&state, &revoke(id(1)))).is_empty(),
        "revoking twice changes nothing"
    );
}

#[test]
fn a_key_ends_no_key_that_holds_more_and_not_the_last_that_manages_keys() {
    let scopes = |words: &[&str]| Scopes::parse(words).unwrap();
    let (all, manager): (&[&str], &[&str]) = (&["*"], &["api-keys:write"]);
    for (by, target, others, expected) in [
        (Some(manager), all, vec![all], "insufficient_scope"),
        (
            Some(&["api-keys:*", "bookings:*"]),
            &["webhooks:read"],
            vec![all],
            "insufficient_scope",
        ),
        (Some(manager), manager, vec![all], ""),
        (Some(all), all, vec![manager], ""),
        (Some(all), all, vec![], "last_managing_key"),
        (
            Some(all),
            all,
            vec![&["bookings:*", "api-keys:read"]],
            "last_managing_key",
        ),
        (Some(manager), manager, vec![], "last_managing_key"),
        (Some(all), &["bookings:read"], vec![all], ""),
        (None, all, vec![], ""),
    ] {
        let mut state = work(PartnerStatus::Active, vec![]);
        let mut add = |n: u8, owner, words: &[&str], revoked_at| {
            let key = ApiKey {
                scopes: scopes(words),
                revoked_at,
                ..new_key(n).key
            };
            state.keys.insert(
                id(n),
                KeyState {
                    partner_id: id(owner),
                    key,
                },
            );
        };
        add(3, 1, target, None);
        for (n, words) in (10..).zip(&others) {
            add(n, 1, words, None);
        }
        // Neither of these takes the last one's place.
        add(20, 1, all, Some(NOW));
        add(21, 9, all, None);
        let revoke = command(RevokeApiKey {
            partner_id: id(1),
            api_key_id: id(3),
            by: by.map(scopes),
        });
        let decided = decide(&state, &revoke);
        let said = format!("{by:?} ends {target:?} beside {others:?}");
        match expected {
            "" => assert_eq!(changes(decided).len(), 1, "{said}"),
            code => assert_eq!(refusal(decided), code, "{said}"),
        }
    }
}

#[test]
fn a_remembered_answer_is_replayed_and_another_request_refused() {
    let remember = |request| Remember {
        key: [1; 32],
        request: [request; 32],
        encode: |_| Vec::new(),
    };
    let forget = |request| Envelope {
        remember: Some(remember(request)),
        ..command(ForgetAnswers)
    };
    let mut state = BatchState::default();
    state.prior.insert(
        [1; 32],
        Prior::Stored {
            request: [2; 32],
            answer: Arc::from(&b"x"[..]),
        },
    );
    assert!(matches!(decide(&state, &forget(2)), Ok(Decision::Replay(answer)) if *answer == *b"x"));
    assert_eq!(
        refusal(decide(&state, &forget(3))),
        "idempotency_key_reused"
    );
    state.prior.insert(
        [1; 32],
        Prior::Pending {
            request: [2; 32],
            command: 0,
        },
    );
    assert!(matches!(decide(&state, &forget(2)), Ok(Decision::Same(0))));
    assert_eq!(
        refusal(decide(&state, &forget(3))),
        "idempotency_key_reused"
    );
}

#[test]
fn an_attempt_settles_only_under_the_lease_it_was_made_under() {
    let settle = |lease, class| settle(NOW, lease, 2, class);
    let held = with_delivery(delivery(DeliveryPhase::Pending, Some(1_000), Some(77)));
    // (lease, failure, phase afterwards, whether another attempt is due, charged, endpoint disabled)
    let table = [
        (77, None, DeliveryPhase::Delivered, false, 2, false),
        (
            77,
            Some(FailureClass::Http5xx),
            DeliveryPhase::Failed,
            true,
            2,
            false,
        ),
        (
            77,
            Some(FailureClass::PayloadTooLarge),
            DeliveryPhase::Failed,
            false,
            2,
            false,
        ),
        (
            77,
            Some(FailureClass::Gone),
            DeliveryPhase::Failed,
            false,
            2,
            true,
        ),
        (
            77,
            Some(FailureClass::OurFault),
            DeliveryPhase::Failed,
            true,
            1,
            false,
        ),
    ];
    for (lease, class, phase, due, counted_attempts, disabled) in table {
        let changes = changes(decide(&held, &settle(lease, class)));
        let Change::DeliveryUpdated { state, .. } = &changes[0] else {
            panic!("{changes:?}")
        };
        assert_eq!(
            (state.phase, state.due.is_some(), state.counted_attempts),
            (phase, due, counted_attempts),
            "{class:?}"
        );
        assert_eq!((state.attempts, state.lease), (2, None));
        assert!(matches!(
            &changes[1],
            Change::AttemptAdded { number: 2, .. }
        ));
        assert_eq!(
            changes.iter().any(|c| matches!(
                c,
                Change::EndpointHealthChanged { health, .. } if health.status == EndpointStatus::Gone
            )),
            disabled
        );
    }
    assert!(
        changes(decide(&held, &settle(78, None))).is_empty(),
        "a late result changes nothing"
    );
    let over = with_delivery(delivery(DeliveryPhase::Delivered, None, None));
    assert!(changes(decide(&over, &settle(77, None))).is_empty());
    assert!(changes(decide(&BatchState::default(), &settle(77, None))).is_empty());
}

#[test]
fn the_last_scheduled_attempt_is_the_last_and_after_a_week_faults_of_ours_count_too() {
    let settle = |at: i64, class| settle(NOW.plus_ms(at), 77, 2, Some(class));
    let settled = |state: DeliveryState, at, class| {
        let changes = changes(decide(&with_delivery(state), &settle(at, class)));
        match changes.as_slice() {
            [
                Change::DeliveryUpdated { state, .. },
                Change::AttemptAdded { attempt, .. },
                ..,
            ] => (
                state.counted_attempts,
                state.due.is_some(),
                attempt.uncharged,
            ),
            other => panic!("{other:?}"),
        }
    };
    let held = |counted_attempts| DeliveryState {
        counted_attempts,
        ..delivery(DeliveryPhase::Failed, Some(1), Some(77))
    };
    let week = crate::limits::OUR_FAULTS_FREE_MS;
    for (counted_attempts, at, class, after) in [
        (8, 0, FailureClass::Timeout, (9, true, false)),
        (9, 0, FailureClass::Timeout, (10, false, false)),
        // However old the event is: the schedule alone ends it.
        (0, 99 * week, FailureClass::Timeout, (1, true, false)),
        (0, week, FailureClass::OurFault, (0, true, true)),
        (0, week + 1, FailureClass::OurFault, (1, true, false)),
        (9, week + 1, FailureClass::OurFault, (10, false, false)),
    ] {
        let settled = settled(held(counted_attempts), at, class);
        assert_eq!(settled, after, "{counted_attempts} {at} {class}");
    }
}

#[test]
fn a_manual_retry_takes_what_is_open_and_leaves_what_is_in_flight() {
    let retry = |owner| {
        command(RetryEvent {
            partner_id: owner,
            event_id: id(5),
            lease: 99,
        })
    };
    let taken = |state| {
        let changes = changes(decide(&with_delivery(state), &retry(id(1))));
        assert!(matches!(
            changes.last(),
            Some(Change::EventRetried { retries: 1, .. })
        ));
        changes
            .iter()
            .any(|c| matches!(c, Change::DeliveryUpdated { state, .. } if state.lease == Some(99)))
    };
    assert!(
        taken(delivery(DeliveryPhase::Failed, Some(9_000), None)),
        "a scheduled attempt is pulled forward"
    );
    assert!(
        taken(delivery(DeliveryPhase::Failed, None, None)),
        "one that was given up is tried again"
    );
    assert!(
        taken(delivery(DeliveryPhase::Pending, Some(-1), Some(5))),
        "a lease that ran out is taken over"
    );
    assert!(
        !taken(delivery(DeliveryPhase::Pending, Some(1), Some(5))),
        "one in flight is waited for"
    );
    let delivered = with_delivery(delivery(DeliveryPhase::Delivered, None, None));
    assert_eq!(
        refusal(decide(&delivered, &retry(id(1)))),
        "event_already_delivered"
    );
    assert_eq!(refusal(decide(&delivered, &retry(id(2)))), "not_found");
    let mut deleted = with_delivery(delivery(DeliveryPhase::Failed, None, None));
    deleted.partners.get_mut(&id(1)).unwrap().endpoints.clear();
    assert_eq!(refusal(decide(&deleted, &retry(id(1)))), "no_endpoints");
}

#[test]
fn a_retry_of_an_event_nobody_took_goes_to_the_endpoints_of_today() {
    let retry = command(RetryEvent {
        partner_id: id(1),
        event_id: id(5),
        lease: 99,
    });
    let mut state = with_delivery(delivery(DeliveryPhase::Pending, None, None));
    state.events.get_mut(&id(5)).unwrap().endpoints.clear();
    state.deliveries.clear();
    let added = changes(decide(&state, &retry));
    assert!(matches!(&added[0], Change::DeliveryAdded { state, .. } if state.lease == Some(99)));
    state.partners.get_mut(&id(1)).unwrap().endpoints =
        vec![endpoint(7, &[EventType::BookingProtected])];
    assert_eq!(refusal(decide(&state, &retry)), "no_endpoints");
}

#[test]
fn a_claim_takes_only_what_is_still_due_and_no_more_than_there_is_room_for() {
    let mut state = with_delivery(delivery(DeliveryPhase::Failed, Some(0), None));
    state.deliveries.insert(
        (id(6), id(7)),
        delivery(DeliveryPhase::Failed, Some(-5), None),
    );
    state.due.insert(id(7), vec![id(6), id(5)]);
    let claim = |room| {
        command(ClaimDeliveries {
            lease: 42,
            endpoints: vec![(id(7), room)],
        })
    };
    assert_eq!(changes(decide(&state, &claim(1))).len(), 1);
    let both = changes(decide(&state, &claim(5)));
    assert_eq!(both.len(), 2);
    both.iter().for_each(|change| state.apply(change));
    assert!(
        changes(decide(&state, &claim(5))).is_empty(),
        "a second claim in the same batch finds nothing"
    );
}

#[test]
fn a_deleted_endpoint_is_claimed_from_no_more() {
    let delete = |owner| {
        command(DeleteEndpoint {
            partner_id: owner,
            endpoint_id: id(7),
        })
    };
    let mut state = with_delivery(delivery(DeliveryPhase::Pending, Some(0), None));
    state.due.insert(id(7), vec![id(5)]);
    assert_eq!(refusal(decide(&state, &delete(id(2)))), "not_found");
    let deleted = changes(decide(&state, &delete(id(1))));
    deleted.iter().for_each(|change| state.apply(change));
    let claim = command(ClaimDeliveries {
        lease: 42,
        endpoints: vec![(id(7), 5)],
    });
    assert!(changes(decide(&state, &claim)).is_empty());
    assert_eq!(refusal(decide(&state, &delete(id(1)))), "not_found");
}

#[test]
fn a_retry_whose_endpoints_are_gone_goes_to_those_of_today() {
    let retry = command(RetryEvent {
        partner_id: id(1),
        event_id: id(5),
        lease: 99,
    });
    let mut state = with_delivery(delivery(DeliveryPhase::Failed, None, None));
    state.partners.get_mut(&id(1)).unwrap().endpoints = vec![endpoint(8, &[])];
    let added = changes(decide(&state, &retry));
    assert!(
        matches!(&added[0], Change::DeliveryAdded { endpoint_id, .. } if *endpoint_id == id(8))
    );
}

#[test]
fn a_manual_attempt_does_not_use_up_the_schedule() {
    let retry = command(RetryEvent {
        partner_id: id(1),
        event_id: id(5),
        lease: 99,
    });
    let mut state = with_delivery(DeliveryState {
        counted_attempts: 4,
        ..delivery(DeliveryPhase::Failed, Some(9_000), None)
    });
    for manual in 1..=20 {
        changes(decide(&state, &retry))
            .iter()
            .for_each(|change| state.apply(change));
        state.room.insert(id(7), 2);
        let settle = settle(NOW, 99, 1 + manual, Some(FailureClass::Http5xx));
        changes(decide(&state, &settle))
            .iter()
            .for_each(|change| state.apply(change));
        let after = state.deliveries[&(id(5), id(7))];
        assert_eq!((after.counted_attempts, after.attempts), (4, 1 + manual));
        assert!(
            after.due.is_some(),
            "the chain goes on after {manual} attempts by hand"
        );
    }
}

#[test]
fn retries_by_hand_have_a_maximum() {
    let retry = command(RetryEvent {
        partner_id: id(1),
        event_id: id(5),
        lease: 99,
    });
    let mut state = with_delivery(delivery(DeliveryPhase::Failed, None, None));
    state.events.get_mut(&id(5)).unwrap().retries = crate::limits::MANUAL_RETRIES;
    assert_eq!(refusal(decide(&state, &retry)), "too_many_retries");
}

#[test]
fn a_retry_without_room_waits_its_turn_like_any_other() {
    let retry = command(RetryEvent {
        partner_id: id(1),
        event_id: id(5),
        lease: 99,
    });
    let mut state = with_delivery(delivery(DeliveryPhase::Failed, Some(9_000), None));
    state.room.insert(id(7), 0);
    let moved = changes(decide(&state, &retry));
    let Change::DeliveryUpdated { state: after, .. } = &moved[0] else {
        panic!("{moved:?}")
    };
    assert_eq!((after.due, after.lease), (Some(NOW), None));
}

#[test]
fn endpoints_are_limited() {
    let create = command(CreateEndpoint {
        partner_id: id(1),
        endpoint: endpoint(99, &[]),
        secret: None,
    });
    let full: Vec<Endpoint> = (0..crate::limits::ENDPOINTS_PER_PARTNER as u8)
        .map(|n| endpoint(n, &[]))
        .collect();
    assert_eq!(
        changes(decide(
            &work(PartnerStatus::Active, full[1..].to_vec()),
            &create
        ))
        .len(),
        1
    );
    assert_eq!(
        refusal(decide(&work(PartnerStatus::Active, full), &create)),
        "too_many_endpoints"
    );
}

#[test]
fn an_address_has_one_endpoint_of_a_partner() {
    let there = vec![endpoint(7, &[]), endpoint(8, &[])];
    let state = || work(PartnerStatus::Active, there.clone());
    let create = command(CreateEndpoint {
        partner_id: id(1),
        endpoint: Endpoint {
            endpoint_id: id(9),
            ..endpoint(7, &[])
        },
        secret: None,
    });
    let refused = decide(&state(), &create).unwrap_err();
    assert_eq!(refused.code, "duplicate_endpoint");
    assert!(refused.message.contains(&there[0].endpoint_id.to_string()));
    let moved = |n: u8| {
        let url = Some(format!("https://example.com/{n}"));
        let update = EndpointUpdate {
            url,
            ..EndpointUpdate::default()
        };
        command(UpdateEndpoint {
            partner_id: id(1),
            endpoint_id: id(8),
            update,
        })
    };
    assert_eq!(refusal(decide(&state(), &moved(7))), "duplicate_endpoint");
    assert!(changes(decide(&state(), &moved(8))).is_empty(), "its own");
    assert!(!changes(decide(&state(), &moved(9))).is_empty());
}
