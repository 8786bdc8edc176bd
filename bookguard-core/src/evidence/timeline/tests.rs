use super::*;
use crate::evidence::verify::tests::fixture::Fixture;
use crate::ledger::leaf_hash;
use crate::model::{Amount, Currency, Timestamp};

fn booking(n: u8) -> BookingId {
    BookingId::new(Timestamp::EPOCH, [n; 10])
}

/// The hash of an entry of the booking's true history.
fn hash(number: u64) -> Hash {
    leaf_hash(&number.to_be_bytes())
}

fn note(log_size: u64, count: u64) -> Account {
    Account::Note(SignedStatement {
        digest: [count as u8; 32],
        stream: [1; 16],
        count,
        head: hash(count - 1),
        log_size,
    })
}

/// A packet whose entries are at these places.
fn packet(log_size: u64, places: &[u64]) -> Account {
    Account::Packet(Timeline {
        booking: booking(1),
        stream: [1; 16],
        entries: (0..)
            .zip(places)
            .map(|(number, place)| (*place, hash(number)))
            .collect(),
        log: Checkpoint {
            origin: "example.com/log".to_owned(),
            size: log_size,
            root: hash(log_size),
        },
    })
}

fn changed(mut account: Account, change: impl FnOnce(&mut Timeline)) -> Account {
    if let Account::Packet(packet) = &mut account {
        change(packet);
    }
    account
}

fn other_head(mut account: Account) -> Account {
    match &mut account {
        Account::Note(note) => note.head = hash(99),
        Account::Packet(packet) => packet.entries.last_mut().unwrap().1 = hash(99),
    }
    account
}

#[test]
fn only_what_cannot_both_be_true_is_a_contradiction() {
    use TimelineVerdict::{Consistent, Contradiction, Unrelated};
    let another = |account, n| {
        changed(account, |p| {
            (p.booking, p.stream) = (booking(n), [2; 16]);
            for (place, leaf) in &mut p.entries {
                *leaf = hash(50 + *place);
            }
        })
    };
    let elsewhere = another(packet(10, &[3]), 2);
    let forked = |account| changed(account, |p| p.log.root = hash(77));
    #[rustfmt::skip]
    let cases = [
        ("the same note", note(10, 2), note(10, 2), Consistent, "nothing was added"),
        ("a packet and its note", packet(10, &[1, 2]), note(10, 2), Consistent, "nothing was added"),
        ("only the log grew", note(10, 2), note(20, 2), Consistent, "nothing was added"),
        ("the booking grew", note(10, 2), note(20, 5), Consistent, "B can continue A with 3 entries"),
        ("the booking grew, shown", note(10, 2), packet(20, &[1, 2, 12]), Consistent, "B continues A with 1 entry"),
        ("as much as the log", packet(10, &[1]), packet(12, &[1, 10, 11]), Consistent, "B continues A with 2 entries"),
        ("a later note with less", note(10, 2), note(20, 1), Contradiction, "B was made later and leaves out 1 entry"),
        ("a later packet with less", packet(10, &[1, 2, 3]), packet(11, &[1]), Contradiction, "leaves out 2 entries"),
        ("more, in the same log", note(10, 2), note(10, 3), Contradiction, "A leaves out what was already in it"),
        ("more than the log grew", note(10, 2), note(12, 5), Contradiction, "A leaves out what was already in it"),
        ("another head", note(10, 2), other_head(note(10, 2)), Contradiction, "different last entries"),
        ("another head later", note(10, 2), other_head(note(20, 2)), Contradiction, "different last entries"),
        ("another history", other_head(note(10, 2)), packet(20, &[1, 2, 12]), Contradiction, "two histories"),
        ("there before", note(10, 2), packet(20, &[1, 2, 9]), Contradiction, "entry 3 of the booking is entry 9 of the log"),
        ("just after", note(10, 2), packet(20, &[1, 2, 10]), Consistent, "continues"),
        ("the same entry elsewhere", packet(20, &[10]), packet(25, &[12]), Contradiction,
            "entry 1 of the booking is entry 10 of the log in A and entry 12 in B"),
        ("an earlier entry elsewhere", packet(20, &[10, 15]), packet(25, &[11, 15, 22]), Contradiction, "the log is forked"),
        ("an earlier entry changed", packet(20, &[10, 15]), changed(packet(25, &[10, 15, 22]), |p| p.entries[0].1 = hash(99)),
            Contradiction, "the booking has two histories"),
        ("another booking", packet(10, &[1]), elsewhere.clone(), Unrelated, "different bookings"),
        ("a note of another booking", note(10, 2), elsewhere.clone(), Unrelated, "different bookings"),
        ("another booking between", packet(10, &[1, 5]), another(packet(20, &[3, 12]), 2), Unrelated, "different bookings"),
        ("the booking in another stream", packet(10, &[1]), another(packet(20, &[12]), 1), Contradiction,
            "show two chains of entries: the booking has two histories"),
        ("another booking at its place", packet(10, &[1, 5]), another(packet(10, &[3, 5]), 2), Contradiction,
            "Entry 5 of the log is of booking bkg_"),
        ("another log", packet(10, &[1]), forked(packet(10, &[1])), Contradiction, "The log itself is forked"),
        ("another log and booking", packet(10, &[1]), forked(elsewhere), Contradiction, "The log itself is forked"),
    ];
    for (what, a, b, verdict, words) in cases {
        let found = compare(&a, &b);
        assert_eq!(found.verdict, verdict, "{what}: {}", found.detail);
        assert!(found.detail.contains(words), "{what}: {}", found.detail);
        // The order in which they are given only changes their names.
        let (turned, swap) = (compare(&b, &a), |text: &str| text.replace(['A', 'B'], "?"));
        assert_eq!(turned.verdict, verdict, "{what}: {}", turned.detail);
        if a.log_size() != b.log_size() {
            assert_eq!(swap(&turned.detail), swap(&found.detail), "{what}");
        }
    }
}

#[test]
fn accounts_are_read_from_packets_and_from_their_notes() {
    let mut fixture = Fixture::new();
    let (vkey, signer) = (fixture.vkey(), fixture.signer.clone());
    let seal = |packet: &crate::evidence::Packet| packet.seal(&signer).unwrap();
    let (hiding, honest) = fixture.hiding_the_protection();
    let (hiding, honest) = (seal(&hiding), seal(&honest));
    let read = |bytes: &str| Account::read(bytes.as_bytes(), &vkey);
    let signature = hiding.read().unwrap().signature;
    let (packet, note) = (read(hiding.text()).unwrap(), read(&signature).unwrap());
    assert_eq!(compare(&packet, &note).verdict, TimelineVerdict::Consistent);
    for copied in [format!("{signature}\n"), signature.trim_end().to_owned()] {
        assert_eq!(read(&copied), Ok(note.clone()), "{copied:?}");
    }
    // What one packet hides, the other shows.
    let honest = read(honest.text()).unwrap();
    for hiding in [&packet, &note] {
        let found = compare(hiding, &honest);
        assert_eq!(
            found.verdict,
            TimelineVerdict::Contradiction,
            "{}",
            found.detail
        );
    }
    let other = read(seal(&fixture.protected()).text()).unwrap();
    assert_eq!(compare(&packet, &other).verdict, TimelineVerdict::Unrelated);
    for (bytes, words) in [
        ("", "neither a packet nor the signed note of one"),
        ("{}", "The packet does not verify. "),
        (
            &hiding.text().replacen("1200", "1201", 1),
            "The packet does not verify. ",
        ),
        (
            &fixture.checkpoint(),
            "neither a packet nor the signed note of one",
        ),
    ] {
        let refused = read(bytes).unwrap_err().to_string();
        assert!(refused.contains(words), "{refused}");
    }
    assert!(Account::read(&[0xff], &vkey).is_err());
    let refused = Account::read(b"{}", "no key").unwrap_err();
    assert!(refused.to_string().contains("key"), "{refused}");
}

#[test]
fn a_booking_has_one_stream_and_a_place_of_the_log_one_entry() {
    let read = |fixture: &Fixture| {
        let packet = fixture.latest().seal(&fixture.signer).unwrap();
        Account::read(packet.text().as_bytes(), &fixture.vkey()).unwrap()
    };
    let (mut one, mut other) = (Fixture::new(), Fixture::new());
    one.other_work();
    let other_place = other.hidden();
    other.protect(other_place);
    let found = compare(&read(&one), &read(&other));
    assert_eq!(found.verdict, TimelineVerdict::Contradiction);
    assert!(
        found.detail.contains("the log is forked"),
        "{}",
        found.detail
    );
    // Of the two bookings, the second is called like the first.
    let id = one.latest().booking.booking_id;
    let value = Amount::parse("1200.50", Currency::USD).unwrap();
    one.record(31, None, "2026-06-20T19:00:00Z", None, value, |booking| {
        booking.booking_id = id;
    });
    let first = one.packet_at(other_place);
    let first = first.seal(&one.signer).unwrap();
    let first = Account::read(first.text().as_bytes(), &one.vkey()).unwrap();
    let found = compare(&first, &read(&one));
    assert_eq!(found.verdict, TimelineVerdict::Contradiction);
    assert!(
        found.detail.contains(&id.to_string()) && found.detail.contains("two histories"),
        "{}",
        found.detail
    );
}
