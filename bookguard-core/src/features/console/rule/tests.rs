//! Who may make a link, who may open one, and how long sessions last.

use super::*;
use crate::features::api_keys::Maker;
use crate::features::fixture::*;

const LINK: i64 = limits::CONSOLE_LINK_MS;
const SESSION: i64 = limits::CONSOLE_SESSION_MS;
const TOKEN: [u8; 32] = [7; 32];

fn scopes(words: &[&str]) -> Scopes {
    Scopes::parse(words).unwrap()
}

/// A partner with key 2, which has these scopes and ends then.
fn state(words: &[&str], expires_ms: Option<i64>) -> BatchState {
    let mut state = work(PartnerStatus::Active, vec![]);
    let key = ApiKey {
        scopes: scopes(words),
        expires_at: expires_ms.map(Timestamp::from_ms),
        ..new_key(2).key
    };
    add_key(&mut state, key, expires_ms);
    state
}

fn add_key(state: &mut BatchState, key: ApiKey, lives_ms: Option<i64>) {
    let known = KeyState {
        partner_id: id(1),
        key,
        lives_ms,
        notice_at: None,
    };
    state.keys.insert(known.key.api_key_id, known);
}

fn revoke_key(state: &mut BatchState) {
    revoke(state, 2);
}

fn revoke(state: &mut BatchState, n: u8) {
    state.keys.get_mut(&id(n)).unwrap().key.revoked_at = Some(NOW);
}

/// Adds so many sessions of a key, each a millisecond after the one before: with the key itself, or by a link to this person.
fn add_sessions(state: &mut BatchState, count: usize, key: u8, person: Option<&str>) {
    for _ in 0..count {
        let n = state.console_sessions.len() as u64;
        let mut random = [0; 10];
        random[..8].copy_from_slice(&n.to_be_bytes());
        let at = NOW.plus_ms(i64::try_from(n).unwrap());
        let session = ConsoleSession {
            console_session_id: Id::new(NOW, random),
            api_key_id: id(key),
            person: person.map(str::to_owned),
            scopes: Scopes::all(),
            created_at: at,
            started_at: Some(at),
            expires_at: at.plus_ms(SESSION),
            ended_at: None,
        };
        state.apply(&added(id(1), session, [0; 32]));
    }
}

/// A link made with key 2 that has these scopes, or by the administrator for key 2.
fn link(n: u8, by: Option<&[&str]>, wanted: Option<&[&str]>) -> CreateConsoleLink {
    CreateConsoleLink {
        partner_id: id(1),
        console_session_id: id(n),
        by: by.map(|words| Maker {
            api_key_id: id(2),
            scopes: scopes(words),
        }),
        api_key_id: id(2),
        person: "Ada".to_owned(),
        scopes: wanted.map(scopes),
        url: "https://b.example/console/link/t".to_owned(),
        hash: TOKEN,
    }
}

fn open_at(at: i64, n: u8, new: u8) -> Envelope<StartedConsoleSession> {
    let open = OpenConsoleLink {
        partner_id: id(1),
        api_key_id: id(2),
        console_session_id: id(n),
        link: TOKEN,
        token: format!("t{new}"),
        hash: [new; 32],
    };
    Envelope::new(Timestamp::from_ms(at), open)
}

fn start_at(at: i64, n: u8) -> Envelope<StartedConsoleSession> {
    let start = StartConsoleSession {
        partner_id: id(1),
        api_key_id: id(2),
        scopes: scopes(&["bookings:read"]),
        console_session_id: id(n),
        token: "t".to_owned(),
        hash: [n; 32],
    };
    Envelope::new(Timestamp::from_ms(at), start)
}

fn end_at(at: i64, owner: u8, n: u8) -> Envelope<ConsoleSession> {
    let end = EndConsoleSession {
        partner_id: id(owner),
        console_session_id: id(n),
    };
    Envelope::new(Timestamp::from_ms(at), end)
}

#[test]
fn a_link_gives_away_only_what_its_maker_holds() {
    let own: &[&str] = &["bookings:*", "api-keys:write"];
    #[rustfmt::skip]
    let cases = [
        (Some(own), None, Ok(own)),
        (Some(own), Some(&["bookings:read"][..]), Ok(&["bookings:read"][..])),
        (Some(own), Some(&["*"][..]), Err("insufficient_scope")),
        (Some(own), Some(&["audit:read"][..]), Err("insufficient_scope")),
        // A session of the key that may do less than the key.
        (Some(&["api-keys:write"][..]), None, Ok(&["api-keys:write"][..])),
        (Some(&["api-keys:write"][..]), Some(own), Err("insufficient_scope")),
        // The administrator: whatever the key holds.
        (None, None, Ok(own)),
        (None, Some(&["audit:read"][..]), Err("insufficient_scope")),
    ];
    for (by, wanted, expected) in cases {
        let mut state = state(own, None);
        let create = command(link(3, by, wanted));
        match expected {
            Ok(words) => {
                let (changes, made) = done(&mut state, &create);
                assert_eq!((changes.len(), made.scopes), (1, scopes(words)));
                let stored = &state.console_sessions[&id(3)];
                assert_eq!(stored.session.scopes, scopes(words));
                assert_eq!(stored.session.person.as_deref(), Some("Ada"));
                assert_eq!((stored.partner_id, stored.hash), (id(1), TOKEN));
            }
            Err(expected) => assert_eq!(code_of(&state, &create), expected, "{by:?} {wanted:?}"),
        }
    }
    assert!(waits_for_room(
        &state(&["*"], None),
        &command(link(3, None, None))
    ));
}

#[test]
fn a_link_needs_a_key_of_the_partner_that_works() {
    for (revoked, elsewhere, by_key, by_operator) in [
        (false, false, "", ""),
        (true, false, "unauthorized", "api_key_ended"),
        (false, true, "unauthorized", "not_found"),
    ] {
        let mut state = state(&["*"], None);
        if revoked {
            revoke_key(&mut state);
        }
        if elsewhere {
            state.keys.get_mut(&id(2)).unwrap().partner_id = id(9);
        }
        let by = |by| code_of(&state, &command(link(3, by, None)));
        assert_eq!(
            (by(Some(&["*"])), by(None)),
            (by_key.into(), by_operator.into())
        );
        assert_eq!(code_of(&state, &start_at(0, 4)), by_key);
    }
}

#[test]
fn links_and_sessions_end_in_time_and_with_their_key() {
    for (key_ends, link_ends, session_ends) in [
        (None, LINK, SESSION),
        (Some(SESSION * 2), LINK, SESSION),
        (Some(LINK + 1), LINK, LINK + 1),
        (Some(5), 5, 5),
    ] {
        let mut state = state(&["*"], key_ends);
        let (_, made) = done(&mut state, &command(link(3, None, None)));
        assert_eq!(made.expires_at.ms(), link_ends);
        let (_, opened) = done(&mut state, &open_at(0, 3, 8));
        assert_eq!(opened.expires_at.ms(), session_ends);
        let (_, started) = done(&mut state, &start_at(0, 4));
        assert_eq!(started.expires_at.ms(), session_ends);
    }
    let mut state = state(&["*"], None);
    done(&mut state, &command(link(3, None, None)));
    let (_, opened) = done(&mut state, &open_at(LINK - 1, 3, 8));
    assert_eq!(
        opened.expires_at.ms(),
        LINK - 1 + SESSION,
        "from its beginning"
    );
}

#[test]
fn a_link_is_opened_once_in_time_and_while_its_key_works() {
    let made = || {
        let mut state = state(&["*"], Some(LINK - 1));
        state.keys.get_mut(&id(2)).unwrap().key.expires_at = None;
        done(&mut state, &command(link(3, None, None)));
        state
    };
    let mut once = made();
    let (changes, first) = done(&mut once, &open_at(1, 3, 8));
    assert_eq!((changes.len(), first.token.as_str()), (1, "t8"));
    let stored = once.console_sessions[&id(3)].clone();
    assert_eq!(stored.hash, [8; 32], "the link's token opens nothing more");
    assert_eq!(stored.session.started_at, Some(NOW.plus_ms(1)));
    assert_eq!(stored.session.created_at, NOW);
    assert_eq!(
        code_of(&once, &open_at(1, 3, 9)),
        "not_found",
        "in the same batch"
    );

    let refused = |change: fn(&mut BatchState), at| {
        let mut state = made();
        change(&mut state);
        let refused = decide(&state, &open_at(at, 3, 8)).unwrap_err();
        assert_eq!(refused, no_such_link());
    };
    refused(|_| {}, LINK);
    refused(revoke_key, 1);
    refused(
        |state| state.keys.get_mut(&id(2)).unwrap().partner_id = id(9),
        1,
    );
    refused(|state| state.keys.clear(), 1);
    refused(|state| state.console_sessions.clear(), 1);
    refused(
        |state| {
            done(state, &end_at(1, 1, 3));
        },
        2,
    );
    refused(
        |state| state.console_sessions.get_mut(&id(3)).unwrap().hash = [6; 32],
        1,
    );
    let expires = |state: &mut BatchState| {
        state.keys.get_mut(&id(2)).unwrap().key.expires_at = Some(NOW.plus_ms(1));
    };
    refused(expires, 1);
}

#[test]
fn a_session_is_ended_once_and_only_by_its_partner() {
    let mut state = state(&["*"], None);
    assert_eq!(code_of(&state, &end_at(0, 1, 4)), "not_found");
    done(&mut state, &start_at(0, 4));
    assert_eq!(code_of(&state, &end_at(0, 9, 4)), "not_found");
    let (changes, first) = done(&mut state, &end_at(5, 1, 4));
    assert_eq!((changes.len(), first.ended_at), (1, Some(NOW.plus_ms(5))));
    let (changes, second) = done(&mut state, &end_at(6, 1, 4));
    assert!(changes.is_empty(), "ending twice changes nothing");
    assert_eq!(first, second);
    done(&mut state, &start_at(0, 5));
    let (changes, expired) = done(&mut state, &end_at(SESSION, 1, 5));
    assert!(changes.is_empty() && expired.ended_at.is_none());
    assert!(!waits_for_room(&state, &end_at(0, 1, 4)));
}

const FULL: &str = "too_many_console_sessions";

#[test]
fn a_partner_has_so_many_sessions_at_a_time() {
    let mut state = state(&["*"], None);
    add_key(&mut state, new_key(3).key, None);
    add_sessions(&mut state, limits::CONSOLE_SESSIONS, 3, Some("Ada"));
    let (first, last) = (NOW.plus_ms(SESSION), SESSION + 99);
    assert_eq!(
        decide(&state, &start_at(0, 250)).unwrap_err().message,
        format!(
            "The partner has 100 console sessions and links that work, the most allowed. End one first with DELETE \
             /v1/console-sessions/{{consoleSessionId}}, or wait. The first of them expires at {first}."
        )
    );
    let made = |at| Envelope::new(Timestamp::from_ms(at), link(250, None, None));
    assert_eq!(code_of(&state, &start_at(0, 250)), FULL);
    assert_eq!(code_of(&state, &made(0)), FULL);
    assert_eq!(code_of(&state, &made(last)), "", "they have expired");
    let mut ending = state.clone();
    let one = ending.console_sessions.values_mut().next().unwrap();
    one.session.ended_at = Some(NOW);
    assert_eq!(code_of(&ending, &start_at(0, 250)), "", "one has ended");
    for stored in state.console_sessions.values_mut() {
        stored.partner_id = id(9);
    }
    assert_eq!(
        code_of(&state, &start_at(0, 250)),
        "",
        "another's do not count"
    );
}

#[test]
fn links_that_nobody_opens_leave_places_to_others() {
    let (share, all) = (
        limits::CONSOLE_LINKS_OF_KEY as u8,
        limits::CONSOLE_LINKS as u8,
    );
    let mut state = state(&["*"], None);
    add_key(&mut state, new_key(3).key, None);
    let made = |at, n| Envelope::new(Timestamp::from_ms(at), link(n, None, None));
    let full = |state: &BatchState| decide(state, &made(0, 250)).unwrap_err();
    for n in 0..share {
        done(&mut state, &made(0, n));
    }
    let first = NOW.plus_ms(LINK);
    assert_eq!(full(&state).code, FULL);
    assert_eq!(
        full(&state).message,
        format!(
            "The API key has 25 console links that nobody has opened, the most allowed. End one first with DELETE \
             /v1/console-sessions/{{consoleSessionId}}, or wait. The first of them expires at {first}."
        )
    );
    assert_eq!(code_of(&state, &made(LINK, 250)), "", "they have expired");
    assert_eq!(code_of(&state, &start_at(0, 250)), "", "there is room");
    // As if the other key had made these.
    for stored in state.console_sessions.values_mut() {
        stored.session.api_key_id = id(3);
    }
    for n in share..all {
        done(&mut state, &made(0, n));
    }
    for stored in state.console_sessions.values_mut() {
        stored.session.api_key_id = id(3);
    }
    assert!(full(&state).message.starts_with("The partner has 50"));
    let stored = state.console_sessions.get_mut(&id(0)).unwrap();
    stored.session.api_key_id = id(2);
    done(&mut state, &open_at(1, 0, 8));
    assert_eq!(code_of(&state, &made(1, 250)), "", "one was opened");
}

#[test]
fn signing_in_ends_the_oldest_session_of_the_same_key_rather_than_lock_anybody_out() {
    let share = limits::CONSOLE_SESSIONS_OF_KEY;
    let all = limits::CONSOLE_SESSIONS;
    let places = limits::CONSOLE_PLACES_OF_KEY;
    // How many sessions began with key 2 itself, by its links, and with key 3; whether that one works; and which of the first ends.
    for (own, linked, others, other_works, expected) in [
        (share - 1, 0, 0, true, Ok(None)),
        (share - 1, 1, share, true, Ok(Some(0))),
        (share, 0, 0, true, Ok(Some(0))),
        (share - 1, 0, share, true, Ok(None)),
        (1, 0, all - 1, true, Ok(Some(0))),
        (0, 0, all - 1, true, Ok(None)),
        // Nobody else is signed out.
        (0, 0, all, true, Err(FULL)),
        (0, all, 0, true, Err(FULL)),
        // Nor do links leave a key more than its places.
        (0, places - 1, 0, true, Ok(None)),
        (0, places, 0, true, Err(FULL)),
        (places - share, share, 0, true, Ok(Some(0))),
        // A session that ended with its key takes no place.
        (0, 0, all, false, Ok(None)),
        (1, 0, all, false, Ok(None)),
    ] {
        let case = format!("{own} {linked} {others} {other_works}");
        let mut state = state(&["*"], None);
        add_key(&mut state, new_key(3).key, None);
        add_sessions(&mut state, own, 2, None);
        add_sessions(&mut state, linked, 2, Some("Ada"));
        add_sessions(&mut state, others, 3, None);
        if !other_works {
            revoke(&mut state, 3);
        }
        let Ok(ended) = expected else {
            assert_eq!(code_of(&state, &start_at(1000, 250)), FULL, "{case}");
            assert_eq!(
                code_of(&state, &command(link(250, None, None))),
                FULL,
                "{case}"
            );
            continue;
        };
        let (_, started) = done(&mut state, &start_at(1000, 250));
        let is_ended = |stored: &&StoredConsoleSession| stored.session.ended_at.is_some();
        let found: Vec<_> = (state.console_sessions.values())
            .filter(is_ended)
            .map(|stored| stored.session.created_at)
            .collect();
        let ended: Vec<_> = ended.map(|n| NOW.plus_ms(n)).into_iter().collect();
        assert_eq!(found, ended, "{case}");
        let displaced = started.displaced.map(|id| &state.console_sessions[&id]);
        let displaced = displaced.map(|stored| stored.session.created_at);
        assert_eq!(displaced.into_iter().collect::<Vec<_>>(), ended, "{case}");
        let count = own + linked + others + 1;
        assert_eq!(state.console_sessions.len(), count, "{case}");
    }
}

#[test]
fn a_partner_and_a_key_begin_so_many_sessions() {
    let share = limits::CONSOLE_SESSIONS_BEGUN_OF_KEY;
    let begun = |of_own: usize, of_other: usize| {
        let mut state = state(&["*"], None);
        add_sessions(&mut state, of_own, 2, None);
        add_sessions(&mut state, of_other, 3, None);
        // Those that ended count until they would have expired.
        for stored in state.console_sessions.values_mut() {
            stored.session.ended_at = Some(NOW);
        }
        state
    };
    let last = limits::CONSOLE_SESSIONS_BEGUN - share + 1;
    let first = NOW.plus_ms(SESSION);
    for (state, expected) in [
        (begun(share - 1, 0), None),
        (begun(share, 0), Some("The API key has begun 500")),
        // One key leaves as many to the others.
        (begun(0, share), None),
        (begun(share - 1, last - 1), None),
        (begun(share - 1, last), Some("The partner has begun 1000")),
    ] {
        let Some(whose) = expected else {
            assert_eq!(code_of(&state, &start_at(0, 250)), "");
            continue;
        };
        assert_eq!(code_of(&state, &start_at(0, 250)), FULL);
        assert_eq!(code_of(&state, &command(link(250, None, None))), FULL);
        assert_eq!(
            decide(&state, &start_at(0, 250)).unwrap_err().message,
            format!(
                "{whose} console sessions and links that would not have expired yet, the most allowed. The first of them expires at \
                 {first}."
            )
        );
        assert_eq!(code_of(&state, &start_at(SESSION, 250)), "");
        // Nor do those count that have expired and are there because other commands of the batch name them.
        let whole = |at| crate::engine::decide::decide(&state, &start_at(at, 250));
        assert_eq!(whole(SESSION - 1).unwrap_err().code, FULL);
        assert!(whole(SESSION).is_ok());
    }
}
