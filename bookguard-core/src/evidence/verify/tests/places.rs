//! What cannot be read, or does not follow, is named by its place; what is there, by the words of the documents.

use super::*;

/// The place of the check that fails first, and what it says.
fn fault(document: &Value, fixture: &Fixture) -> (String, String) {
    let report = verify(document.to_string().as_bytes(), &fixture.vkey());
    let check = report.failures().next().unwrap();
    (check.place.clone(), check.detail.clone())
}

fn path(pointer: &str) -> Vec<String> {
    pointer.split('/').skip(1).map(str::to_owned).collect()
}

#[test]
fn a_packet_that_cannot_be_read_says_where_and_in_plain_words() {
    let fixture = Fixture::new();
    let genuine = serde_json::to_value(fixture.notified()).unwrap();
    let too_large =
        json!({"amount": "1.00", "currency": "USD", "minorUnits": 1_000_000_000_000_000_u64});
    for (at, to, words) in [
        (
            "/partnerName",
            json!(5),
            "a value is of another type than it must be",
        ),
        (
            "/createdAt",
            json!("yesterday"),
            "not an RFC 3339 date-time",
        ),
        ("/entries", json!({}), "another type"),
        (
            "/deliveries/1/more",
            json!(1),
            "a member is not known to this version",
        ),
        ("/deliveries/1/status", json!("lost"), ""),
        (
            "/deliveries/0/history/0/startedAt",
            json!("never"),
            "not an RFC 3339 date-time",
        ),
        ("/deliveries/0/url", json!(["x"]), "another type"),
        ("/evaluation/evaluationStatus", json!("lost"), ""),
        ("/evaluation/refund", too_large, "an amount is too large"),
        ("/withheld", json!(7), "another type"),
        (
            "/evaluation/more",
            json!(1),
            "does not know, or writes differently",
        ),
        (
            "/booking/createdAt",
            json!("2026-01-10T15:25:00.123+00:00"),
            "",
        ),
    ] {
        let changed = changed(&genuine, &path(at), Some(to));
        let (place, said) = fault(&changed, &fixture);
        assert_eq!(place, at, "{said}");
        assert!(said.contains(words), "{said}");
        assert!(!said.contains("expected") && !said.contains('_'), "{said}");
    }
    // The last item of the last member.
    let changed_last = changed(&genuine, &path("/withheld"), Some(json!(["ip", "nobody"])));
    assert_eq!(fault(&changed_last, &fixture).0, "/withheld/1");
    for (at, place) in [
        ("/formerTerms", ""),
        ("/deliveries/0/status", "/deliveries/0"),
    ] {
        let (found, said) = fault(&changed(&genuine, &path(at), None), &fixture);
        let name = at.rsplit('/').next().unwrap();
        assert_eq!(
            (
                &*found,
                said.contains(&format!("the member {name} is missing"))
            ),
            (place, true),
            "{said}"
        );
    }
}

#[test]
fn a_summary_that_does_not_follow_says_where() {
    let fixture = Fixture::new();
    let mut packet = fixture.protected();
    let last = packet.summary.story.len() - 1;
    packet.summary.story[last].push('!');
    let document = serde_json::from_str(&text(&packet, &fixture.signer)).unwrap();
    let (place, said) = fault(&document, &fixture);
    assert_eq!(place, format!("/summary/story/{last}"), "{said}");
}

#[test]
fn checks_speak_of_entries_and_moves_and_tell_withheld_values_from_erased_ones() {
    let key = include_str!("../../../../../tests/vectors/packets/ledger.vkey");
    for (packet, words) in [
        (
            include_str!("../../../../../tests/vectors/packets/good/erased.json"),
            "Erased: note, sha256, title.",
        ),
        (
            include_str!("../../../../../tests/vectors/packets/good/withheld.json"),
            "Withheld: ip, userAgent.",
        ),
    ] {
        let said = verify(packet.as_bytes(), key).to_string();
        assert!(said.contains(words), "{said}");
    }
    let fixture = Fixture::new();
    for (packet, words) in [
        (
            fixture.moved_and_canceled(),
            "the terms before the move are shown too",
        ),
        (
            fixture.rescheduled(),
            "those before each of 2 moves are shown too",
        ),
    ] {
        let said = verify(text(&packet, &fixture.signer).as_bytes(), &fixture.vkey()).to_string();
        assert!(said.contains(words), "{said}");
        assert!(said.contains("entries form an unbroken chain"), "{said}");
        assert!(
            !said.contains("records form") && !said.contains("of date"),
            "{said}"
        );
    }
}
