//! When the owner of a key hears that it will expire.

use serde_json::Value;

use super::*;
use crate::features::fixture::*;

const DAY: i64 = limits::DAY_MS;

/// Partner 1 with this endpoint, and a key that expires in a day and whose notice is due then.
fn state(events: &[EventType], notice_at: Option<Timestamp>) -> BatchState {
    let mut state = work(PartnerStatus::Active, vec![endpoint(7, events)]);
    let key = ApiKey {
        expires_at: Some(NOW.plus_ms(DAY)),
        ..new_key(2).key
    };
    let known = KeyState {
        partner_id: id(1),
        lives_ms: Some(10 * DAY),
        notice_at,
        key,
    };
    state.keys.insert(id(2), known);
    state
}

fn tell() -> Envelope<()> {
    let event = EventSeed {
        event_id: EventId::new(NOW, [5; 10]),
        lease: 1,
    };
    command(TellExpiry {
        partner_id: id(1),
        api_key_id: id(2),
        event,
    })
}

/// The bodies of the events that the command makes, and whether the notice is no longer due.
fn told(state: &BatchState) -> (Vec<Value>, bool) {
    let changes = caused(state, &tell());
    let bodies = changes.iter().filter_map(|change| match change {
        Change::EventAdded(event) => serde_json::from_slice(&event.body).ok(),
        _ => None,
    });
    let is_told = |change: &Change| matches!(change, Change::KeyExpiryTold(_));
    (bodies.collect(), changes.iter().any(is_told))
}

#[test]
fn a_due_notice_is_sent_once_to_endpoints_that_list_it() {
    let listed = [EventType::ApiKeyExpiring];
    let mut due = state(&listed, Some(NOW));
    let (bodies, done) = told(&due);
    let [body] = &bodies[..] else {
        panic!("{bodies:?}");
    };
    assert!(done);
    let key: ApiKeyId = id(2);
    assert_eq!(
        (
            &body["type"],
            &body["bookingId"],
            &body["payload"]["apiKeyId"]
        ),
        (
            &"api_key.expiring".into(),
            &Value::Null,
            &key.to_string().into()
        )
    );
    assert_eq!(body["payload"]["expiresAt"], NOW.plus_ms(DAY).to_string());
    let changes = caused(&due, &tell());
    apply_all(&mut due, &changes);
    assert_eq!(told(&due), (vec![], false), "another node looked too");
}

#[test]
fn nobody_hears_of_what_is_not_due_not_listed_or_already_over() {
    let listed = [EventType::ApiKeyExpiring];
    assert_eq!(told(&state(&listed, Some(NOW.plus_ms(1)))), (vec![], false));
    assert_eq!(told(&state(&listed, None)), (vec![], false));
    assert_eq!(told(&state(&[], Some(NOW))), (vec![], true));
    let mut late = state(&listed, Some(NOW));
    let key = &mut late.keys.get_mut(&id(2)).unwrap().key;
    key.expires_at = Some(NOW.plus_ms(-1));
    assert_eq!(told(&late), (vec![], true));
    // A row that somebody else wrote is not found again.
    late.keys.clear();
    assert_eq!(told(&late), (vec![], true));
}

#[test]
fn a_notice_is_due_a_week_before_the_end_or_after_nine_tenths_of_a_short_life() {
    for (lives, notice) in [
        (None, None),
        (Some(365 * DAY), Some(358 * DAY)),
        (Some(70 * DAY), Some(63 * DAY)),
        (Some(10 * DAY), Some(9 * DAY)),
        (Some(10), Some(9)),
    ] {
        let key = ApiKey {
            created_at: NOW,
            expires_at: lives.map(|ms| NOW.plus_ms(ms)),
            ..new_key(2).key
        };
        assert_eq!(
            key.notice_at(),
            notice.map(|ms| NOW.plus_ms(ms)),
            "{lives:?}"
        );
    }
}
