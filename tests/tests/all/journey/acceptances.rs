//! The terms are shown in words and accepted; years later the packet alone proves what was accepted, and by whom.

use bookguard_core::evidence;
use bookguard_core::ledger::jcs;
use bookguard_core::model::{Amount, Currency, Timestamp};
use bookguard_core::policy::{
    Booked, DISCLOSURE_VERSION, DisclosureWording, EventDate, MissingZone, Policy, PolicySource,
    Terms, TermsDisclosure, disclose_in,
};
use bookguard_tests::json::Members as _;
use bookguard_tests::samples;
use bookguard_tests::test_server::{Partner, with_partner_on_every_engine};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

async fn disclosure(acme: &Partner, id: &str) -> Value {
    let path = format!("/v1/bookings/{id}/disclosure");
    let told = acme.get(&path).await.ok(200);
    let text = told.text("text");
    let digest = Sha256::digest(text);
    let hash: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(told["disclosureHash"], format!("sha256:{hash}"));
    told
}

async fn accept(acme: &Partner, id: &str, party: &str, hash: &Value) -> Value {
    let mut body = samples::acceptance(hash.as_str().unwrap());
    body["party"] = json!(party);
    let path = format!("/v1/bookings/{id}/acceptances");
    acme.post(&path, &body).await.ok(201)
}

#[tokio::test]
async fn an_acceptance_is_recorded_once_and_stays_with_its_text() {
    with_partner_on_every_engine(async |server, acme| {
        let zone = json!({"policyId": "firm", "timeZone": "America/New_York", "amountPaid": 250.5});
        let id = acme.book_with(zone).await;
        let told = disclosure(&acme, &id).await;
        for words in [
            "Friday 20 June 2031, 19:00 New York time (23:00 UTC)",
            "USD 1,250.50, of which USD 250.50 counts as paid",
            "Friday 13 June 2031, 19:00 New York time (23:00 UTC): nothing is returned, USD 250.50 is kept, and the organizer still owes USD 374.75.",
        ] {
            assert!(told.text("text").contains(words), "{words}: {told}");
        }
        let evaluated = acme.evaluation(&id, "").await;
        assert_eq!(told["schedule"], evaluated["schedule"]);
        told.holds(json!({"acceptances": [], "former": [], "timeZone": "America/New_York"}));
        assert_eq!(told["givenEventDate"], samples::booking()["eventDate"]);

        let accepted = accept(&acme, &id, "organizer", &told["disclosureHash"]).await;
        let expected = json!({
            "bookingId": id, "acceptedAt": "2026-09-21T14:13:20.000Z", "party": "organizer", "method": "checkbox",
            "at": "2026-09-21T14:13:20.000Z", "ip": "203.0.113.7", "userAgent": "Browser/1.0",
            "disclosureHash": told["disclosureHash"], "disclosureVersion": told["version"], "receipt": accepted["receipt"]
        });
        assert_eq!(accepted, expected);
        // Three years later, and protected: the text is the same, and a repeated acceptance is not recorded again.
        acme.protect(&id).await;
        server.advance(3 * 365 * 86_400_000);
        let mut again = accept(&acme, &id, "organizer", &told["disclosureHash"]).await;
        assert_eq!(again["receipt"]["leafHash"], accepted["receipt"]["leafHash"]);
        again["receipt"] = accepted["receipt"].clone();
        assert_eq!(again, accepted);
        let later = disclosure(&acme, &id).await;
        later.holds(json!({"text": told["text"], "disclosureHash": told["disclosureHash"]}));
        assert_eq!(later.list("acceptances").len(), 1);

        // A reschedule makes a new text, which nobody has accepted yet; the acceptance stays with the former text.
        acme.reschedule(&id, &samples::new_date()).await.ok(200);
        let moved = disclosure(&acme, &id).await;
        assert_ne!(moved["disclosureHash"], told["disclosureHash"]);
        assert_eq!(moved["acceptances"], json!([]));
        let former = &moved["former"][0];
        former.holds(json!({"text": told["text"], "schedule": told["schedule"]}));
        former.holds(json!({"acceptances": later["acceptances"], "until": moved["since"]}));
        former.holds(json!({"eventDate": told["eventDate"]}));
        let mut talent = samples::acceptance(moved.text("disclosureHash"));
        talent["party"] = json!("talent");
        talent["at"] = moved["since"].clone();
        let path = format!("/v1/bookings/{id}/acceptances");
        let once = acme.post_once(&path, "once", &talent).await;
        once.ok(201);
        acme.post_once(&path, "once", &talent).await.replays(&once);
        assert_eq!(acme.events(&id).await.len(), 2, "no event tells of it");

        acme.cancel(&id, &samples::cancellation()).await;
        let (shown, vkey) = (acme.verified_packet(&id).await, server.vkey().await);
        server.close().await;
        let texts = shown.list("termsDisclosures");
        assert_eq!(texts.iter().map(|told| &told["text"]).collect::<Vec<_>>(), [&told["text"], &moved["text"]]);
        assert_eq!(shown.list("acceptances").len(), 2);
        assert_eq!(shown["acceptances"][0], later["acceptances"][0]);
        forged(&shown, &vkey);
    })
    .await;
}

#[tokio::test]
async fn the_disclosure_says_on_which_clocks_the_terms_go_and_whether_a_time_of_day_is_known() {
    with_partner_on_every_engine(async |server, acme| {
        let day = json!({"eventDate": "2031-06-20", "timeZone": "Asia/Tokyo", "policyId": "firm"});
        let id = acme.book_with(day).await;
        let told = disclosure(&acme, &id).await;
        told.holds(json!({"givenEventDate": "2031-06-20", "timeZone": "Asia/Tokyo"}));
        // In UTC, it begins on the day before.
        assert_eq!(told["eventDate"], "2031-06-19T15:00:00.000Z");
        let moved =
            json!({"eventDate": "2031-07-20T19:00:00", "agreedBy": ["organizer", "talent"]});
        acme.reschedule(&id, &moved).await.ok(200);
        let told = disclosure(&acme, &id).await;
        told.holds(json!({"givenEventDate": "2031-07-20T19:00:00", "timeZone": "Asia/Tokyo"}));
        told["former"][0].holds(json!({"givenEventDate": "2031-06-20"}));
        let offset = json!({"eventDate": "2031-06-20T19:00:00+02:00", "policyId": "firm"});
        let id = acme.book_with(offset).await;
        let told = disclosure(&acme, &id).await;
        told.holds(json!({"givenEventDate": "2031-06-20T19:00:00+02:00", "timeZone": "+02:00"}));
        server.close().await.verify(2).await;
    })
    .await;
}

/// The sample booking's terms under `firm`, as 0.1.0 worded them.
fn in_first_words(created_at: &str) -> TermsDisclosure {
    let firm = Policy::template("firm").unwrap().clone();
    let booked = Booked {
        event_date: EventDate::parse("2031-06-20T19:00:00-04:00").unwrap(),
        time_zone: None,
        partner_time_zone: None,
        value: Amount::parse("1250.50", Currency::USD).unwrap(),
        paid: None,
        created_at: Timestamp::parse(created_at).unwrap(),
    };
    let firm = Some((firm, PolicySource::Named));
    let terms = Terms::freeze(firm, &booked, MissingZone::Refuse).unwrap();
    disclose_in(DisclosureWording::First, &terms, &[]).unwrap()
}

#[tokio::test]
async fn what_was_shown_before_an_upgrade_is_accepted_after_it() {
    with_partner_on_every_engine(async |server, acme| {
        let id = acme.book_with(json!({"policyId": "firm"})).await;
        let latest = disclosure(&acme, &id).await;
        assert_eq!(latest["version"], DISCLOSURE_VERSION);
        let first = in_first_words(latest.text("since"));
        let accepted = accept(&acme, &id, "organizer", &json!(first.disclosure_hash)).await;
        assert_eq!(accepted["disclosureVersion"], first.version);
        // Whoever asks now is shown what the organizer accepted; the talent had asked before.
        let shown = disclosure(&acme, &id).await;
        shown.holds(json!({"version": first.version, "text": first.text}));
        let accepted = accept(&acme, &id, "talent", &latest["disclosureHash"]).await;
        assert_eq!(accepted["disclosureVersion"], latest["version"]);
        let later = disclosure(&acme, &id).await;
        assert_eq!(later["text"], shown["text"]);
        assert_eq!(later.list("acceptances").len(), 2);

        let packet = acme.verified_packet(&id).await;
        let texts = packet.list("termsDisclosures").iter();
        let texts: Vec<_> = texts.map(|told| &told["text"]).collect();
        assert_eq!(texts, [&shown["text"], &latest["text"]]);
        server.close().await;
    })
    .await;
}

/// Asserts that a packet with altered terms or acceptances fails its acceptance check too, not only its signature.
fn forged(packet: &Value, vkey: &str) {
    for (place, value) in [
        ("/termsDisclosures/0/text", json!("Everything is returned.")),
        (
            "/termsDisclosures/0/disclosureHash",
            packet["termsDisclosures"][1]["disclosureHash"].clone(),
        ),
        ("/acceptances/0/party", json!("talent")),
        (
            "/acceptances/1/disclosureHash",
            packet["termsDisclosures"][0]["disclosureHash"].clone(),
        ),
    ] {
        let mut edited = packet.clone();
        *edited.pointer_mut(place).unwrap() = value;
        let edited = jcs::to_canonical(&edited).unwrap();
        let report = evidence::verify(edited.as_bytes(), vkey);
        let failed: Vec<_> = report.failures().map(|check| check.name).collect();
        assert_eq!(failed, ["signature", "acceptances"], "{place}");
    }
}
