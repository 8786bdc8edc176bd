//! Endpoints that are changed and enabled again, and secrets that replace each other.

use crate::features::endpoints::NewSecret;
use crate::features::endpoints::secrets::RotateSecret;
use crate::features::endpoints::testing::TestEndpoint;
use crate::features::fixture::*;
use crate::limits::{HOUR_MS, SECRET_OVERLAP_DEFAULT_MS, SECRETS_VALID, UNVERIFIED_MS};
use crate::webhook::{Secret, SecretTerm};

fn at<R>(ms: i64, command: impl Command<Reply = R>) -> Envelope<R> {
    Envelope::new(NOW.plus_ms(ms), command)
}

fn secret(n: u8) -> NewSecret {
    NewSecret {
        secret: Secret::new(format!("secret {n}")),
        sealed: vec![n],
    }
}

/// A change that gives the endpoint its own secret, or takes it away.
fn own(secret: Option<NewSecret>) -> UpdateEndpoint {
    let changes = EndpointChanges {
        own_secret: Some(secret.is_some()),
        ..EndpointChanges::default()
    };
    UpdateEndpoint {
        secret,
        ..update(changes)
    }
}

fn rotate(endpoint: Option<u8>, n: u8, overlap_ms: i64) -> RotateSecret {
    RotateSecret {
        partner_id: id(1),
        endpoint_id: endpoint.map(id),
        secret: secret(n),
        overlap_ms,
    }
}

fn with_endpoint(status: EndpointStatus) -> BatchState {
    let endpoint =
        endpoint(7, &[EventType::BookingCreated]).with_health(EndpointHealth::of(status));
    work(PartnerStatus::Active, vec![endpoint])
}

#[test]
fn what_is_not_named_stays_and_what_says_nothing_new_writes_nothing() {
    let mut work = with_endpoint(EndpointStatus::Active);
    let before = work.partners[&id(1)].endpoints[0].clone();
    for same in [
        EndpointChanges::default(),
        EndpointChanges {
            url: Some(before.url.clone()),
            events: Some(before.events.clone()),
            description: Some(None),
            rate_limit_per_second: Some(None),
            enabled: Some(true),
            own_secret: Some(false),
        },
    ] {
        let same = UpdateEndpoint {
            verifies: true,
            ..update(same)
        };
        let (changes, reply) = done(&mut work, &at(5, same));
        assert!(changes.is_empty(), "{changes:?}");
        assert_eq!(reply.endpoint, before);
    }
    let words = EndpointChanges {
        description: Some(Some("mine".to_owned())),
        rate_limit_per_second: Some(Some(9)),
        ..EndpointChanges::default()
    };
    let (changes, reply) = done(&mut work, &at(5, update(words)));
    assert!(matches!(
        changes.as_slice(),
        [Change::EndpointChanged { since: None, .. }]
    ));
    let expected = Endpoint {
        description: Some("mine".to_owned()),
        rate_limit_per_second: Some(9),
        ..before
    };
    assert_eq!(reply.endpoint, expected);
    assert_eq!(work.partners[&id(1)].endpoints, [expected]);
}

#[test]
fn an_endpoint_is_disabled_and_brought_back_and_since_when_is_kept() {
    use EndpointStatus::{Active, Disabled, Gone};
    for (from, enabled, to) in [
        (Active, true, Active),
        (Active, false, Disabled),
        (Disabled, false, Disabled),
        (Disabled, true, Active),
        (Gone, false, Gone),
        (Gone, true, Active),
    ] {
        let mut work = with_endpoint(from);
        let command = at(
            5,
            update(EndpointChanges {
                enabled: Some(enabled),
                ..EndpointChanges::default()
            }),
        );
        let (changes, reply) = done(&mut work, &command);
        let endpoint = reply.endpoint;
        assert_eq!(
            (endpoint.status, endpoint.enabled),
            (to, to == Active),
            "{from:?} {enabled}"
        );
        let since = changes.iter().find_map(|change| match change {
            Change::EndpointChanged { since, .. } => *since,
            _ => None,
        });
        assert_eq!(since.is_some(), from != to, "{from:?} {enabled}");
        let moved = changes.iter().any(
            |change| matches!(change, Change::EndpointHealthChanged(_, health) if health.status == to),
        );
        assert_eq!(moved, from != to);
        assert_eq!(work.partners[&id(1)].endpoints, [endpoint]);
    }
}

#[test]
fn nobody_changes_another_partners_endpoint_or_its_secret() {
    let work = with_endpoint(EndpointStatus::Active);
    let foreign = UpdateEndpoint {
        partner_id: id(2),
        ..update(EndpointChanges::default())
    };
    assert_eq!(code_of(&work, &command(foreign)), "not_found");
    let foreign = RotateSecret {
        partner_id: id(2),
        endpoint_id: Some(id(7)),
        secret: secret(1),
        overlap_ms: 0,
    };
    assert_eq!(code_of(&work, &command(foreign)), "not_found");
    for ask in [rotate(Some(8), 1, 0), rotate(None, 1, 0)] {
        assert_eq!(code_of(&BatchState::default(), &command(ask)), "not_found");
    }
}

#[test]
fn an_endpoint_gets_a_secret_once_and_gives_it_back_whole() {
    let mut work = with_endpoint(EndpointStatus::Active);
    assert_eq!(
        code_of(&work, &at(5, rotate(Some(7), 1, 0))),
        "no_own_secret"
    );
    let (_, reply) = done(&mut work, &at(5, own(Some(secret(1)))));
    let first = reply;
    assert!(first.endpoint.own_secret);
    assert_eq!(first.secret.as_deref(), Some("secret 1"));
    let switch = NOW.plus_ms(5 + SECRET_OVERLAP_DEFAULT_MS);
    assert_eq!(first.switches_at, Some(switch));
    let (changes, reply) = done(&mut work, &at(6, own(Some(secret(2)))));
    assert!(changes.is_empty(), "it has one: {changes:?}");
    let again = reply;
    assert_eq!((again.secret, again.switches_at), (None, None));
    let (_, reply) = done(&mut work, &at(7, rotate(Some(7), 3, 0)));
    assert_eq!(reply.switches_at, NOW.plus_ms(7));
    assert_eq!(
        work.secrets[EndpointId::new(NOW, [7; 10]).as_bytes()],
        [SecretTerm::at_once(NOW.plus_ms(7))],
        "what signs nothing any more is forgotten"
    );
    let (_, reply) = done(&mut work, &at(8, own(None)));
    assert!(!reply.endpoint.own_secret);
    assert!(work.secrets.values().all(Vec::is_empty));
}

#[test]
fn a_deleted_endpoints_secrets_are_forgotten_with_it() {
    let mut work = with_endpoint(EndpointStatus::Active);
    done(&mut work, &at(5, own(Some(secret(1)))));
    let delete = deleting();
    let (_, deleted) = done(&mut work, &at(6, delete));
    assert!(!deleted.enabled);
    assert!(work.secrets.values().all(Vec::is_empty));
}

#[test]
fn deleting_again_changes_nothing_and_answers_the_same() {
    let mut work = with_endpoint(EndpointStatus::Active);
    let before = work.partners[&id(1)].endpoints[0].clone();
    let delete = || DeleteEndpoint {
        partner_id: id(1),
        endpoint_id: id(7),
        before: Some(before.clone()),
    };
    let (changes, first) = done(&mut work, &at(5, delete()));
    assert_eq!(changes.len(), 1, "{changes:?}");
    let (changes, again) = done(&mut work, &at(6, delete()));
    assert!(changes.is_empty(), "{changes:?}");
    assert_eq!(again, first);
}

#[test]
fn a_deleted_endpoint_has_no_failures_like_one_that_is_disabled() {
    let mut work = with_endpoint(EndpointStatus::Active);
    let before = Endpoint {
        failures: 3,
        failing_since: Some(NOW),
        next_probe_at: Some(NOW),
        unverified_since: Some(NOW),
        ..work.partners[&id(1)].endpoints[0].clone()
    };
    let delete = DeleteEndpoint {
        partner_id: id(1),
        endpoint_id: id(8),
        before: Some(before.clone()),
    };
    let (_, shown) = done(&mut work, &at(5, delete));
    let expected = Endpoint {
        enabled: false,
        status: EndpointStatus::Disabled,
        failures: 0,
        failing_since: None,
        next_probe_at: None,
        ..before
    };
    assert_eq!(shown, expected);
}

#[test]
fn a_rotation_names_the_moment_and_the_last_made_wins_whatever_the_clocks_say() {
    let owner = *PartnerId::new(NOW, [1; 10]).as_bytes();
    let mut work = with_endpoint(EndpointStatus::Active);
    work.secrets.insert(owner, vec![SecretTerm::at_once(NOW)]);
    let (changes, reply) = done(&mut work, &at(10, rotate(None, 1, HOUR_MS)));
    assert_eq!(reply.switches_at, NOW.plus_ms(10 + HOUR_MS));
    assert_eq!(changes.len(), 1, "nothing has signed its last: {changes:?}");
    // A node whose clock is behind.
    let (_, reply) = done(&mut work, &at(3, rotate(None, 2, 2 * HOUR_MS)));
    assert_eq!(reply.switches_at, NOW.plus_ms(11 + 2 * HOUR_MS));
    let made: Vec<i64> = work.secrets[&owner].iter().map(|t| t.made.ms()).collect();
    assert_eq!(made, [0, 10, 11]);
    // The first secret no longer signs.
    let (_, _) = done(&mut work, &at(HOUR_MS + 10, rotate(None, 3, HOUR_MS)));
    let made: Vec<i64> = work.secrets[&owner].iter().map(|t| t.made.ms()).collect();
    assert_eq!(made, [10, 11, HOUR_MS + 10]);
    // A rotation without overlap ends all of them.
    done(&mut work, &at(HOUR_MS + 11, rotate(None, 4, 0)));
    assert_eq!(
        work.secrets[&owner],
        [SecretTerm::at_once(NOW.plus_ms(HOUR_MS + 11))]
    );
}

#[test]
fn no_more_secrets_sign_at_a_time_than_are_allowed_and_there_is_a_way_out() {
    let owner = *PartnerId::new(NOW, [1; 10]).as_bytes();
    let mut work = with_endpoint(EndpointStatus::Active);
    work.secrets.insert(owner, vec![SecretTerm::at_once(NOW)]);
    for n in 1..SECRETS_VALID as u8 {
        done(&mut work, &at(i64::from(n), rotate(None, n, HOUR_MS)));
    }
    let more = at(9, rotate(None, 9, HOUR_MS));
    assert_eq!(code_of(&work, &more), "too_many_secrets");
    let later = at(HOUR_MS + 1, rotate(None, 9, HOUR_MS));
    assert_eq!(caused(&work, &later).len(), 2);
    done(&mut work, &at(9, rotate(None, 9, 0)));
    assert_eq!(work.secrets[&owner].len(), 1);
}

#[test]
fn a_test_changes_nothing_and_is_only_for_an_endpoint_that_is_there() {
    let test = |partner, endpoint| {
        command(TestEndpoint {
            partner_id: id(partner),
            endpoint_id: id(endpoint),
        })
    };
    for status in [EndpointStatus::Active, EndpointStatus::Disabled] {
        let work = with_endpoint(status);
        assert!(caused(&work, &test(1, 7)).is_empty());
        assert_eq!(code_of(&work, &test(1, 8)), "not_found");
        assert_eq!(code_of(&work, &test(2, 7)), "not_found");
    }
}

#[test]
fn an_unverified_endpoint_is_tested_no_sooner_than_a_delivery_would_be_sent() {
    let test = |ms| {
        let test = TestEndpoint {
            partner_id: id(1),
            endpoint_id: id(7),
        };
        at(ms, test)
    };
    let unverified = |status| {
        let mut work = with_endpoint(status);
        let partner = work.partners.get_mut(&id(1)).unwrap();
        partner.endpoints[0].unverified_since = Some(NOW);
        work
    };
    let mut work = unverified(EndpointStatus::Active);
    let early = |work: &BatchState, ms| {
        let early = decide(work, &test(ms)).unwrap_err();
        assert_eq!(early.code, "rate_limited");
        early.retry_after_s.unwrap()
    };
    // The first takes its own turn, and the second that of the next delivery.
    done(&mut work, &test(0));
    for n in 0..3 {
        let due = n * UNVERIFIED_MS;
        done(&mut work, &test(due));
        assert_eq!(early(&work, due), 10);
        assert_eq!(early(&work, due + UNVERIFIED_MS - 1), 1);
    }
    let endpoint = &work.partners[&id(1)].endpoints[0];
    let next = NOW.plus_ms(4 * UNVERIFIED_MS);
    assert_eq!(endpoint.next_probe_at, Some(next), "a delivery waits too");
    assert_eq!(endpoint.unverified_since, Some(NOW));
    let planned = |status, ms| {
        let mut work = unverified(status);
        let partner = work.partners.get_mut(&id(1)).unwrap();
        partner.endpoints[0].next_probe_at = Some(NOW.plus_ms(ms));
        work
    };
    // While a delivery is under way.
    assert_eq!(early(&planned(EndpointStatus::Failing, 120_000), 0), 15);
    let mut suspended = planned(EndpointStatus::Suspended, 3_600_000);
    done(&mut suspended, &test(0));
    assert_eq!(early(&suspended, 0), 10);
    done(&mut suspended, &test(UNVERIFIED_MS));
    for status in [EndpointStatus::Disabled, EndpointStatus::Gone] {
        let work = unverified(status);
        assert_eq!(code_of(&work, &test(0)), "endpoint_disabled");
    }
}

#[test]
fn endpoints_are_limited_and_new_ones_need_room() {
    let create = command(CreateEndpoint {
        partner_id: id(1),
        endpoint: endpoint(99, &[]),
        secret: None,
    });
    let full: Vec<Endpoint> = (0..crate::limits::ENDPOINTS_PER_PARTNER as u8)
        .map(|n| endpoint(n, &[]))
        .collect();
    assert_eq!(
        caused(&work(PartnerStatus::Active, full[1..].to_vec()), &create).len(),
        1
    );
    assert_eq!(
        code_of(&work(PartnerStatus::Active, full), &create),
        "too_many_endpoints"
    );
    assert!(waits_for_room(
        &work(PartnerStatus::Active, vec![]),
        &create
    ));
}

#[test]
fn deleting_an_unverified_endpoint_and_adding_another_sends_no_sooner() {
    let pause = 2 * UNVERIFIED_MS;
    // (whether the deleted one was verified, whether the new one need not be, when it is added, when it is tried)
    for (was_verified, is_trusted, ms, tried) in [
        (false, false, 5, Some(5 + pause)),
        (false, false, 4 + pause, Some(5 + pause)),
        (false, false, 5 + pause, None),
        // The clock was set back.
        (false, false, 3, Some(3 + pause)),
        (true, false, 5, None),
        (false, true, 5, None),
    ] {
        let mut work = with_endpoint(EndpointStatus::Active);
        let partner = work.partners.get_mut(&id(1)).unwrap();
        partner.endpoints[0].unverified_since = (!was_verified).then_some(NOW);
        let delete = deleting();
        done(&mut work, &at(5, delete));
        let create = CreateEndpoint {
            partner_id: id(1),
            endpoint: Endpoint {
                unverified_since: (!is_trusted).then_some(NOW.plus_ms(ms)),
                ..endpoint(8, &[])
            },
            secret: None,
        };
        let (_, kept) = done(&mut work, &at(ms, create));
        let told = format!("{was_verified} {is_trusted} {ms}");
        let tried = tried.map(|ms| NOW.plus_ms(ms));
        assert_eq!(kept.endpoint.next_probe_at, tried, "{told}");
        let partner = &work.partners[&id(1)];
        assert_eq!(partner.endpoints, [kept.endpoint], "{told}");
    }
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
        command(UpdateEndpoint {
            endpoint_id: id(8),
            ..update(moving_to(&format!("https://example.com/{n}")))
        })
    };
    assert_eq!(code_of(&state(), &moved(7)), "duplicate_endpoint");
    assert!(caused(&state(), &moved(8)).is_empty(), "its own");
    assert!(!caused(&state(), &moved(9)).is_empty());
}
