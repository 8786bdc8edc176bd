//! What a recovery does about each event, and which recoveries are refused.

mod steps;

use crate::engine::batch::LoggedEvent;
use crate::engine::needs::Needs;
use crate::features::fixture::*;
use crate::features::recoveries::{ContinueRecovery, RecoverEvents};
use crate::limits::{
    DELIVERIES_PER_EVENT, HOUR_MS, OUR_FAULTS_FREE_MS, RECOVERED, RECOVERIES_BEGUN, RECOVERIES_MS,
    RECOVERIES_PER_DAY,
};

/// When the events of these tests happened: one a minute from here.
const THEN: i64 = 1_000 * HOUR_MS;

fn at(ms: i64) -> Timestamp {
    Timestamp::from_ms(ms)
}

fn event_id(seq: u64) -> EventId {
    let mut random = [0; 10];
    random[2..].copy_from_slice(&seq.to_be_bytes());
    Id::new(at(THEN + seq.cast_signed() * 60_000), random)
}

/// A partner with these endpoints and a log of this many events without deliveries.
fn log(events: u64, endpoints: Vec<Endpoint>) -> BatchState {
    let mut work = work(PartnerStatus::Active, endpoints);
    work.partners.get_mut(&id(1)).unwrap().events = events;
    for seq in 1..=events {
        let event = LoggedEvent {
            event_id: event_id(seq),
            event_type: EventType::BookingCreated,
            is_pruned: false,
            endpoints: Vec::new(),
        };
        work.log.insert((id(1), seq), event);
    }
    work
}

/// Gives an event of the log a delivery.
fn deliver(work: &mut BatchState, seq: u64, endpoint: u8, state: DeliveryState) {
    let event = work.log.get_mut(&(id(1), seq)).unwrap();
    event.endpoints.push(id(endpoint));
    work.deliveries.insert((event_id(seq), id(endpoint)), state);
}

/// A recovery of all events of these tests, requested a year later.
fn everything() -> Recovery {
    let now = at(THEN + 9_000 * HOUR_MS);
    Recovery {
        recovery_id: Id::new(now, [1; 10]),
        status: RecoveryStatus::Running,
        dry_run: false,
        since: at(THEN),
        until: now,
        statuses: vec![Unreceived::Failed, Unreceived::NoEndpoints],
        endpoint_id: None,
        after_seq: 0,
        through_seq: 0,
        reached_seq: 0,
        examined: 0,
        recovered: 0,
        deliveries: 0,
        no_endpoints: 0,
        expired: 0,
        created_at: now,
        finished_at: None,
    }
}

fn ask(recovery: Recovery) -> Envelope<Recovery> {
    let at = recovery.created_at;
    let partner_id = id(1);
    Envelope::new(
        at,
        RecoverEvents {
            partner_id,
            recovery,
        },
    )
}

/// Begins a recovery and applies it. Returns the recovery after its first step, and the other changes.
fn begin(work: &mut BatchState, recovery: Recovery) -> (Recovery, Vec<Change>) {
    let (mut changes, reply) = done(work, &ask(recovery));
    assert!(matches!(changes.pop(), Some(Change::RecoveryAdded(..))));
    (reply, changes)
}

fn step(work: &mut BatchState, recovery: &Recovery, after: u64) -> Vec<Change> {
    let step = ContinueRecovery {
        partner_id: id(1),
        recovery_id: recovery.recovery_id,
        after,
    };
    let command = Envelope::new(recovery.created_at.plus_ms(1), step);
    let changes = caused(work, &command);
    apply_all(work, &changes);
    changes
}

fn counts(recovery: &Recovery) -> [u64; 4] {
    [
        recovery.examined,
        recovery.recovered,
        recovery.deliveries,
        recovery.no_endpoints,
    ]
}

#[test]
fn a_recovery_delivers_where_an_event_failed_or_never_went() {
    let lines = include_str!("tests/events.txt").lines();
    for shown in lines.filter(|line| !line.starts_with('#')) {
        let mut columns = shown.split('|').map(str::split_whitespace);
        let [endpoints, deliveries, counting, due] = [(); 4].map(|()| columns.next().unwrap());
        let statuses = endpoints.zip([7, 8]).filter(|(status, _)| *status != "-");
        let endpoints = statuses.map(|(status, n)| {
            let mut known = EndpointStatus::WORDS.iter();
            let (_, status) = known.find(|(word, _)| *word == status).unwrap();
            endpoint(n, &[]).with_health(EndpointHealth::of(*status))
        });
        let mut work = log(1, endpoints.collect());
        let deliveries: Vec<&str> = deliveries.collect();
        for pair in deliveries.chunks(2) {
            let phase = match pair[1] {
                "delivered" => DeliveryPhase::Delivered,
                "failed" => DeliveryPhase::Failed,
                "pending" => DeliveryPhase::Pending,
                other => panic!("{other}: {shown}"),
            };
            let to = pair[0].parse().unwrap();
            deliver(&mut work, 1, to, delivery(phase, None, None));
        }
        let only_8 = counting.eq(["8"]);
        let nobody = due.clone().any(|word| word == "nobody");
        let due: Vec<u8> = due.filter_map(|n| n.parse().ok()).collect();
        let asked = Recovery {
            endpoint_id: only_8.then(|| id(8)),
            ..everything()
        };
        let (counted, nothing) = begin(
            &mut work_like(&work),
            Recovery {
                dry_run: true,
                ..asked.clone()
            },
        );
        let (recovery, changes) = begin(&mut work, asked);
        let made: Vec<EndpointId> = changes
            .iter()
            .map(|change| match change {
                Change::DeliveryAdded((_, endpoint_id), state)
                | Change::DeliveryUpdated((_, endpoint_id), state) => {
                    assert_eq!(state.due, Some(recovery.created_at), "{shown}");
                    assert_eq!((state.lease, state.counted_attempts), (None, 0), "{shown}");
                    *endpoint_id
                }
                other => panic!("{shown}: {other:?}"),
            })
            .collect();
        let expected: Vec<EndpointId> = due.iter().map(|n| id(*n)).collect();
        assert_eq!(made, expected, "{shown}");
        let some = u64::from(!due.is_empty());
        assert_eq!(
            counts(&recovery),
            [1, some, due.len() as u64, u64::from(nobody)],
            "{shown}"
        );
        assert_eq!(
            counts(&counted),
            counts(&recovery),
            "{shown}: a dry run counts the same"
        );
        assert!(nothing.is_empty(), "{shown}: a dry run does nothing");
        assert_eq!(counted.finished_at, Some(counted.created_at));
    }
}

/// A copy of the state for another decision.
fn work_like(work: &BatchState) -> BatchState {
    BatchState {
        partners: work.partners.clone(),
        log: work.log.clone(),
        deliveries: work.deliveries.clone(),
        chains: HashMap::from([(id(6), CHAIN)]),
        size: 20,
        ..BatchState::default()
    }
}

#[test]
fn the_type_the_status_and_the_time_decide_which_events() {
    let failed = delivery(DeliveryPhase::Failed, None, None);
    let all = [Unreceived::Failed, Unreceived::NoEndpoints];
    // Endpoint 8 takes no such events. The first event failed, the second had no endpoint, the third failed.
    for (since, until, statuses, expected) in [
        (1, 3, &all[..], [3, 3, 3, 0]),
        (1, 3, &all[..1], [3, 2, 2, 0]),
        (1, 3, &all[1..], [3, 1, 1, 0]),
        (2, 3, &all[..], [2, 2, 2, 0]),
        (1, 1, &all[..], [1, 1, 1, 0]),
        (4, 9, &all[..], [0, 0, 0, 0]),
    ] {
        let others = endpoint(8, &[EventType::BookingProtected]);
        let mut work = log(3, vec![endpoint(7, &[]), others]);
        deliver(&mut work, 1, 7, failed);
        deliver(&mut work, 3, 7, failed);
        let asked = Recovery {
            since: event_id(since).made_at(),
            until: event_id(until).made_at(),
            statuses: statuses.to_vec(),
            ..everything()
        };
        let (recovery, _) = begin(&mut work, asked);
        assert_eq!(
            counts(&recovery),
            expected,
            "{since} to {until} {statuses:?}"
        );
        assert_eq!(recovery.status, RecoveryStatus::Finished);
    }
}

#[test]
fn a_schedule_begins_anew_and_its_age_with_it() {
    let mut work = log(1, vec![endpoint(7, &[])]);
    let given_up = DeliveryState {
        counted_attempts: 10,
        attempts: 12,
        settled_leaf: Some(9),
        ..delivery(DeliveryPhase::Failed, None, None)
    };
    deliver(&mut work, 1, 7, given_up);
    let (recovery, _) = begin(&mut work, everything());
    let now = recovery.created_at;
    assert!(now.ms() - event_id(1).made_at().ms() > OUR_FAULTS_FREE_MS);
    let attempts_until_given_up = |mut work: BatchState, class| {
        let mut now = now;
        for made in 1.. {
            let state = work.deliveries.get_mut(&(event_id(1), id(7))).unwrap();
            assert_eq!(
                (state.attempts, state.begun),
                (12 + made - 1, Some(recovery.created_at))
            );
            let Some(due) = state.due else {
                return (made - 1, now);
            };
            now = due.max(now);
            (state.due, state.lease) = (Some(now), Some(1));
            let delivery = LeasedDelivery {
                event_id: event_id(1),
                partner_id: id(1),
                endpoint_id: id(7),
                booking_id: Some(id(6)),
                event_type: EventType::BookingCreated,
                seq: 1,
                body: Arc::from(&b"{}"[..]),
                lease: 1,
                until: now,
                attempts: state.attempts,
                begun: now,
                per_second: None,
                failing: false,
            };
            let settle = SettleDelivery {
                jitter: 1 << 63,
                ..SettleDelivery::of(&delivery, attempt(Some(class)), now).unwrap()
            };
            let settle = Envelope::new(now, settle);
            let changes = caused(&work, &settle);
            apply_all(&mut work, &changes);
        }
        unreachable!("every schedule ends")
    };
    let (attempts, _) = attempts_until_given_up(work_like(&work), FailureClass::Http5xx);
    assert_eq!(attempts, 10, "the whole schedule");
    let (attempts, last) = attempts_until_given_up(work_like(&work), FailureClass::OurFault);
    assert!(
        attempts > 10 && last.ms() - now.ms() > OUR_FAULTS_FREE_MS,
        "a week from then"
    );
}

#[test]
fn a_delivery_attempted_as_often_as_allowed_is_left_alone() {
    for (attempts, counted) in [(0, [1, 1, 1, 0]), (1, [1, 0, 0, 1])] {
        let mut work = log(1, vec![endpoint(7, &[])]);
        let state = DeliveryState {
            attempts: crate::limits::ATTEMPTS_PER_DELIVERY - 1 + attempts,
            ..delivery(DeliveryPhase::Failed, None, None)
        };
        deliver(&mut work, 1, 7, state);
        let (recovery, changes) = begin(&mut work, everything());
        assert_eq!(counts(&recovery), counted);
        assert_eq!(changes.len() as u64, recovery.deliveries);
    }
}

#[test]
fn an_attempt_under_way_is_left_to_end_and_what_waits_keeps_its_place() {
    let now = everything().created_at.ms();
    for (due, lease, expected) in [
        (Some(now + 5), Some(3), (Some(now + 5), Some(3))),
        (Some(now), Some(3), (Some(now), None)),
        (Some(now - 7), None, (Some(now - 7), None)),
        (Some(now + HOUR_MS), None, (Some(now), None)),
        (None, None, (Some(now), None)),
    ] {
        let mut work = log(1, vec![endpoint(7, &[])]);
        deliver(&mut work, 1, 7, delivery(DeliveryPhase::Failed, due, lease));
        let (recovery, changes) = begin(&mut work, everything());
        assert_eq!(counts(&recovery), [1, 1, 1, 0]);
        // Not leased: only what is under a lease is renewed.
        let renewed = matches!(&changes[0], Change::DeliveryRenewed(..));
        assert_eq!(renewed, expected.1.is_some());
        let state = work.deliveries[&(event_id(1), id(7))];
        assert_eq!((state.due.map(Timestamp::ms), state.lease), expected);
        assert_eq!((state.counted_attempts, state.begun), (0, Some(at(now))));
        // An attempt under way waits since it began.
        let since = if renewed { NOW } else { at(now) };
        assert_eq!(state.since, Some(since));
    }
}

#[test]
fn what_a_retry_of_the_same_batch_did_is_not_done_again() {
    let mut work = log(1, vec![endpoint(7, &[])]);
    let event = EventState {
        partner_id: id(1),
        seq: 1,
        booking_id: Some(id(6)),
        event_type: EventType::BookingCreated,
        content: Content::Whole(Arc::from(&b"{}"[..])),
        retries: 0,
        endpoints: vec![],
    };
    work.events.insert(event_id(1), event);
    let retry = command(RetryEvent {
        partner_id: id(1),
        event_id: event_id(1),
        lease: 5,
    });
    let added = caused(&work, &retry);
    apply_all(&mut work, &added);
    let (recovery, changes) = begin(&mut work, everything());
    assert_eq!(
        (counts(&recovery), changes.len()),
        ([1, 0, 0, 0], 0),
        "it is pending"
    );
}

#[test]
fn an_event_goes_to_so_many_endpoints_and_to_no_more() {
    let most = u8::try_from(DELIVERIES_PER_EVENT).unwrap();
    for (had, made) in [(most - 2, 2), (most - 1, 1), (most, 0)] {
        let mut work = log(1, vec![endpoint(7, &[]), endpoint(8, &[])]);
        for gone in 0..had {
            let failed = delivery(DeliveryPhase::Failed, None, None);
            deliver(&mut work, 1, 100 + gone, failed);
        }
        let (recovery, changes) = begin(&mut work, everything());
        assert_eq!(changes.len(), made, "{had}");
        let recovered = u64::from(made > 0);
        assert_eq!(
            counts(&recovery),
            [1, recovered, made as u64, 1 - recovered],
            "{had}"
        );
    }
    // What a retry of the same batch made counts.
    let mut work = log(1, vec![endpoint(7, &[]), endpoint(8, &[])]);
    let pending = delivery(DeliveryPhase::Pending, Some(0), None);
    for gone in 0..most - 1 {
        deliver(&mut work, 1, 100 + gone, pending);
    }
    work.deliveries.insert((event_id(1), id(7)), pending);
    let only_8 = Recovery {
        endpoint_id: Some(id(8)),
        ..everything()
    };
    let (recovery, changes) = begin(&mut work, only_8);
    assert_eq!((counts(&recovery), changes.len()), ([1, 0, 0, 1], 0));
}

#[test]
fn some_begin_at_once_and_the_others_of_a_batch_with_their_next_step() {
    let mut needs = Needs::default();
    for _ in 0..RECOVERIES_BEGUN + 2 {
        ask(everything()).command.needs(&mut needs);
    }
    let begun = (needs.recovering.len(), needs.log.len());
    assert_eq!(begun, (RECOVERIES_BEGUN + 2, RECOVERIES_BEGUN));
}

#[test]
fn one_runs_at_a_time_and_a_hundred_begin_in_a_day() {
    let mut work = log(RECOVERED as u64 + 1, vec![endpoint(7, &[])]);
    assert!(waits_for_room(&work, &ask(everything())));
    let (running, _) = begin(&mut work, everything());
    let refused = decide(&work, &ask(everything())).unwrap_err();
    assert_eq!(refused.code, "recovery_running");
    assert!(
        refused.message.contains(&running.recovery_id.to_string()),
        "{refused}"
    );
    let (_, another) = work.recoveries.get_mut(&running.recovery_id).unwrap();
    *another = another.clone().finished(running.created_at);
    assert!(decide(&work, &ask(everything())).is_ok());

    let old = running.created_at.plus_ms(-RECOVERIES_MS);
    for n in 0..RECOVERIES_PER_DAY {
        let earlier = Recovery {
            recovery_id: Id::new(NOW, [u8::try_from(n).unwrap(); 10]),
            created_at: if n == 0 { old } else { running.created_at },
            ..running.clone().finished(running.created_at)
        };
        let foreign = Recovery {
            recovery_id: Id::new(at(7), [u8::try_from(n).unwrap(); 10]),
            ..earlier.clone()
        };
        work.recoveries
            .insert(earlier.recovery_id, (id(1), earlier));
        work.recoveries
            .insert(foreign.recovery_id, (id(2), foreign));
    }
    assert_eq!(code_of(&work, &ask(everything())), "too_many_recoveries");
    let counting = Recovery {
        dry_run: true,
        ..everything()
    };
    assert!(decide(&work, &ask(counting.clone())).is_ok());
    for (_, recovery) in work.recoveries.values_mut() {
        recovery.dry_run = true;
    }
    assert_eq!(code_of(&work, &ask(counting)), "too_many_recoveries");
    assert!(
        decide(&work, &ask(everything())).is_ok(),
        "dry runs do not count"
    );
    for (_, recovery) in work.recoveries.values_mut() {
        recovery.dry_run = false;
    }
    work.recoveries.remove(&running.recovery_id);
    assert!(
        decide(&work, &ask(everything())).is_ok(),
        "one is a day old"
    );
}

#[test]
fn an_endpoint_that_is_not_the_partners_is_unknown_and_a_disabled_one_is_refused() {
    let work = log(
        1,
        vec![endpoint(7, &[]).with_health(EndpointHealth::of(EndpointStatus::Gone))],
    );
    for (endpoint, code) in [(7, "endpoint_disabled"), (8, "endpoint_unknown")] {
        let asked = Recovery {
            endpoint_id: Some(id(endpoint)),
            ..everything()
        };
        assert_eq!(code_of(&work, &ask(asked)), code);
    }
    let pending = BatchState {
        partners: HashMap::from([(id(1), partner(PartnerStatus::Pending, vec![]))]),
        ..BatchState::default()
    };
    assert_eq!(code_of(&pending, &ask(everything())), "partner_pending");
}

#[test]
fn what_was_pruned_is_counted_and_left_as_it_is() {
    let mut work = log(2, vec![endpoint(7, &[])]);
    for seq in [1, 2] {
        deliver(
            &mut work,
            seq,
            7,
            delivery(DeliveryPhase::Failed, None, None),
        );
    }
    let pruned = work.log.get_mut(&(id(1), 1)).unwrap();
    pruned.is_pruned = true;
    let (recovery, changes) = begin(&mut work, everything());
    assert_eq!((counts(&recovery), recovery.expired), ([2, 1, 1, 0], 1));
    let [Change::DeliveryUpdated((due, _), _)] = changes.as_slice() else {
        panic!("{changes:?}");
    };
    assert_eq!(*due, event_id(2));
}
