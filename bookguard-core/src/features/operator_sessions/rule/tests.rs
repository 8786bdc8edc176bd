//! Who may make a link to the operator's console, who may open one, and how long sessions last.

use super::*;
use crate::engine::command::{Envelope, NewOperatorKey};
use crate::features::fixture::*;
use crate::model::OperatorKey;

const LINK: i64 = limits::CONSOLE_LINK_MS;
const SESSION: i64 = limits::CONSOLE_SESSION_MS;
const TOKEN: [u8; 32] = [7; 32];

/// The operator with key 2, and the revoked key 3.
fn state() -> BatchState {
    let mut state = BatchState::default();
    for (n, revoked_at) in [(2, None), (3, Some(NOW))] {
        let key = OperatorKey {
            operator_key_id: id(n),
            name: "console".to_owned(),
            hint: "abcd".to_owned(),
            created_at: NOW,
            revoked_at,
        };
        let stored = NewOperatorKey { key, hash: [n; 32] };
        state.operator_keys.insert(id(n), stored);
    }
    state
}

fn link(n: u8, key: u8, is_own: bool) -> Envelope<NewOperatorLink> {
    command(CreateOperatorLink {
        console_session_id: id(n),
        operator_key_id: id(key),
        is_own,
        person: "Ada".to_owned(),
        url: "https://o.example/console/link/t".to_owned(),
        hash: TOKEN,
    })
}

fn start(n: u8, key: u8) -> Envelope<StartedConsoleSession> {
    command(StartOperatorSession {
        operator_key_id: id(key),
        console_session_id: id(n),
        token: "t".to_owned(),
        hash: [n; 32],
    })
}

fn open_at(ms: i64, n: u8, link: [u8; 32]) -> Envelope<StartedConsoleSession> {
    let open = OpenOperatorLink {
        operator_key_id: id(2),
        console_session_id: id(n),
        link,
        token: "t2".to_owned(),
        hash: [9; 32],
    };
    Envelope::new(NOW.plus_ms(ms), open)
}

fn end_at(ms: i64, n: u8) -> Envelope<OperatorSession> {
    let end = EndOperatorSession {
        console_session_id: id(n),
    };
    Envelope::new(NOW.plus_ms(ms), end)
}

#[test]
fn only_a_key_that_works_begins_anything() {
    let state = state();
    assert_eq!(code_of(&state, &link(10, 3, true)), "unauthorized");
    assert_eq!(code_of(&state, &link(10, 3, false)), "not_found");
    assert_eq!(code_of(&state, &link(10, 4, false)), "not_found");
    assert_eq!(code_of(&state, &start(10, 3)), "unauthorized");
    for is_own in [true, false] {
        let (_, made) = done(&mut state.clone(), &link(10, 2, is_own));
        assert_eq!(made.expires_at, NOW.plus_ms(LINK));
        assert_eq!((made.person.as_str(), made.operator_key_id), ("Ada", id(2)));
    }
    let (_, started) = done(&mut state.clone(), &start(10, 2));
    assert_eq!(started.expires_at, NOW.plus_ms(SESSION));
}

#[test]
fn a_link_is_opened_once_while_it_and_its_key_work() {
    let mut state = state();
    let made = caused(&state, &link(10, 2, true));
    apply_all(&mut state, &made);
    for (ms, hash) in [(LINK, TOKEN), (0, [8; 32])] {
        assert_eq!(code_of(&state, &open_at(ms, 10, hash)), "not_found");
    }
    assert_eq!(code_of(&state, &open_at(0, 11, TOKEN)), "not_found");
    let opened = decide(&state, &open_at(LINK - 1, 10, TOKEN));
    let mut begun = state.clone();
    apply_all(&mut begun, &changes(opened));
    assert_eq!(
        begun.operator_sessions[&id(10)].session.expires_at,
        NOW.plus_ms(LINK - 1 + SESSION)
    );
    assert_eq!(
        code_of(&begun, &open_at(LINK - 1, 10, [9; 32])),
        "not_found",
        "a session is not a link"
    );
    let revoked = state.operator_keys.get_mut(&id(2)).unwrap();
    revoked.key.revoked_at = Some(NOW);
    assert_eq!(code_of(&state, &open_at(0, 10, TOKEN)), "not_found");
}

#[test]
fn ending_what_has_ended_changes_nothing() {
    let mut state = state();
    assert_eq!(code_of(&state, &end_at(0, 10)), "not_found");
    let made = caused(&state, &start(10, 2));
    apply_all(&mut state, &made);
    assert!(caused(&state, &end_at(SESSION, 10)).is_empty());
    let ended = caused(&state, &end_at(5, 10));
    assert_eq!(ended.len(), 1);
    apply_all(&mut state, &ended);
    assert!(caused(&state, &end_at(6, 10)).is_empty());
    let session = &state.operator_sessions[&id(10)].session;
    assert_eq!(session.ended_at, Some(NOW.plus_ms(5)));
}

#[test]
fn there_is_room_for_so_many() {
    let mut state = state();
    for n in 100..200u8 {
        let made = caused(&state, &start(n, 2));
        apply_all(&mut state, &made);
    }
    let full = decide(&state, &start(10, 2)).unwrap_err();
    assert_eq!(full.code, "too_many_console_sessions");
    let first = NOW.plus_ms(limits::CONSOLE_SESSION_MS);
    let until = format!("The first of them expires at {first}.");
    assert!(full.message.ends_with(&until), "{}", full.message);
    assert_eq!(
        code_of(&state, &link(10, 2, true)),
        "too_many_console_sessions"
    );
    // One that has ended takes no place, nor one whose key was revoked.
    let mut ended = state.clone();
    apply_all(&mut ended, &caused(&state, &end_at(0, 100)));
    assert_eq!(caused(&ended, &start(10, 2)).len(), 1);
    let of_revoked = state.operator_sessions.get_mut(&id(100)).unwrap();
    of_revoked.session.operator_key_id = id(3);
    assert_eq!(caused(&state, &start(10, 2)).len(), 1);
}
