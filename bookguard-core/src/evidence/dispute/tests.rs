use super::super::item::EvidenceItem;
use super::*;
use crate::evidence::LegalBasis;
use crate::evidence::summary::Wording;
use crate::evidence::verify::tests::fixture::{self, Fixture, erased_values};
use crate::model::{Amount, ItemId, Timestamp};
use crate::policy::Reason;
use crate::text::outside_quotations;

/// The texts for Stripe.
fn evidence(export: &DisputeExport) -> &BTreeMap<String, String> {
    &export.request.as_ref().unwrap().evidence.0
}

/// A ledger whose packets are worded as new ones are.
fn worded_now() -> Fixture {
    let mut fixture = Fixture::new();
    fixture.wording = Wording::LATEST;
    fixture
}

/// Records a booking for this date, canceled by this side on 25 May 2026 if there is one.
fn booked(
    fixture: &mut Fixture,
    which: usize,
    date: &str,
    canceled: Option<(Actor, Option<Reason>)>,
) -> Packet {
    let value = fixture.canceled().booking.value().unwrap();
    let n = u8::try_from(which + 34).unwrap();
    let zone = Some("America/New_York");
    fixture.record(n, Some("firm"), date, zone, value, |_| {});
    if let Some((by, reason)) = canceled {
        fixture.cancel(which, by, reason);
    }
    fixture.packet_at(which)
}

#[test]
fn every_reason_fills_in_the_form_and_says_who_claims_what() {
    let fixture = Fixture::new();
    let packets = [
        fixture.recorded(),
        fixture.bare(),
        fixture.canceled(),
        fixture.pending(),
        fixture.decided(),
        fixture.rescheduled(),
    ];
    for (packet, &(word, reason)) in packets.iter().flat_map(|packet| {
        DisputeReason::WORDS
            .iter()
            .map(move |reason| (packet, reason))
    }) {
        let export = dispute(packet, DisputeForm::Stripe, reason);
        let request = export.request.unwrap();
        assert!(!request.submit && export.cut.is_empty());
        assert!(export.fields.is_none() && export.processors.is_empty());
        let fields = &request.evidence.0;
        let names: Vec<_> = fields.keys().collect();
        let mut all: Vec<_> = FIELDS.iter().map(|(stripe, ..)| *stripe).collect();
        all.sort_unstable();
        assert_eq!(names, all, "{word}");
        let said = &fields["uncategorized_text"];
        for words in [reason.claim(), &packet.partner_name, &packet.log.vkey] {
            assert!(said.contains(words), "{word}: {said}");
        }
        for text in fields.values() {
            for raw in ["ptn_", "full_refund", "review_required", "changed_plans"] {
                let told = text.split("How to check this").next().unwrap_or_default();
                let own = !std::ptr::eq(text, said);
                assert!(!own || !told.contains(raw), "{word}: {raw} in {text}");
            }
        }
        assert!(!export.files.is_empty() && export.missing.len() >= 4);
        assert_eq!(serde_json::to_value(reason).unwrap(), word);
        let card = dispute(packet, DisputeForm::Card, reason);
        assert!(card.request.is_none());
        let neutral = card.fields.unwrap().0;
        assert_eq!(neutral.len(), FIELDS.len());
        let mut hints = card
            .processors
            .iter()
            .flat_map(|other| other.texts.values());
        assert!(hints.all(|text| neutral.contains_key(text)));
    }
}

#[test]
fn what_became_of_the_money_is_told_as_it_stands() {
    let mut fixture = worded_now();
    let told = |packet: &Packet| {
        let export = dispute(
            packet,
            DisputeForm::Stripe,
            DisputeReason::CreditNotProcessed,
        );
        (
            evidence(&export)["refund_refusal_explanation"].clone(),
            export.missing,
        )
    };
    let refunds = |missing: &[MissingEvidence]| {
        let asked = missing.iter().map(|it| &it.what);
        asked
            .filter(|what| what.starts_with("whether the refund of"))
            .count()
    };
    let (past, ahead) = ("2026-05-25T03:00:00-04:00", "2026-06-20T19:00:00-04:00");
    let no_show = Some((Actor::Talent, Some(Reason::NoShow)));
    let unpaid = Some((Actor::Partner, Some(Reason::NonPayment)));
    let missed = booked(&mut fixture, 13, past, no_show);
    let not_paid_for = booked(&mut fixture, 14, ahead, unpaid);
    let agreed = booked(&mut fixture, 15, ahead, Some((Actor::Mutual, None)));
    #[rustfmt::skip]
    let cases: [(Packet, &[&str], usize); 7] = [
        (missed, &["(the talent) did not come. ", "the report came 59 minutes after the start of the event."], 1),
        (not_paid_for, &[
            "\u{201c}Stage & Co\u{201d} reported that it canceled because the organizer did not pay. ",
            "the cancellation came 26 days 15 hours before the event. ",
        ], 1),
        (agreed, &["Both sides agreed on a refund of USD 100.25, as \u{201c}Stage & Co\u{201d} states. "], 1),
        (fixture.protected(), &["the terms give a refund only on a cancellation, and none is recorded."], 0),
        (fixture.canceled(), &[
            "canceled because of illness. According to \u{201c}Stage & Co\u{201d}, the cancellation counts from ",
            " The service Bookguard received and logged that on Monday 25 May 2026, 04:00 New York time (08:00 UTC). ",
            " USD 600.25 is to be returned to the organizer and USD 600.25 is to be kept.",
        ], 1),
        (fixture.pending(), &["a person must decide. When this evidence was made, nobody had decided yet."], 0),
        (fixture.decided(), &["reported that \u{201c}disputes\u{201d} decided on Wednesday 27 May 2026"], 1),
    ];
    for (packet, words, refund) in cases {
        let (said, missing) = told(&packet);
        for words in words {
            assert!(said.contains(words), "{words:?} in {said}");
        }
        assert!(said.matches("is to be kept").count() <= 1, "{said}");
        assert_eq!(refunds(&missing), refund, "{said}");
    }
}

#[test]
fn whether_the_event_took_place_is_answered_as_far_as_the_record_goes() {
    let mut fixture = worded_now();
    let (past, ahead) = ("2026-05-25T03:00:00-04:00", "2026-06-20T19:00:00-04:00");
    let by = |side| Some((side, None));
    let missed = |side| Some((side, Some(Reason::NoShow)));
    let open = "Whether the event took place is for \u{201c}Stage & Co\u{201d} to show";
    let moot = "so the question is not whether the event took place, but which refund is due.";
    // Half a minute before it was canceled, and half a minute after the platform says that it was.
    let between = "2026-05-25T03:59:30-04:00";
    #[rustfmt::skip]
    let cases = [
        (ahead, None, "The event's date was still ahead when this evidence was made.".to_owned(), false),
        (past, None, format!("{open}; this record shows"), true),
        (ahead, by(Actor::Talent), format!("The booking was canceled before the event, {moot}"), false),
        (between, by(Actor::Organizer),
            format!("According to \u{201c}Stage & Co\u{201d}, the booking was canceled before the event, {moot}"), false),
        (past, missed(Actor::Talent), format!("reported that the talent did not come, {moot}"), false),
        (past, missed(Actor::Organizer),
            "reported that the organizer did not come. Whether the talent was there is for".to_owned(), true),
        // Nobody named a time of that day.
        ("2026-05-25", by(Actor::Organizer), format!("canceled only after the time at which the event counts as started. {open}"), true),
    ];
    for ((date, canceled, words, is_proof_asked), which) in cases.into_iter().zip(13..) {
        let packet = booked(&mut fixture, which, date, canceled);
        let export = dispute(
            &packet,
            DisputeForm::Stripe,
            DisputeReason::ProductNotReceived,
        );
        let said = &evidence(&export)["uncategorized_text"];
        assert!(said.contains(&words), "{words:?} in {said}");
        let mut missing = export.missing.iter();
        let asked = missing.any(|it| it.field == "service_documentation");
        assert_eq!(asked, is_proof_asked, "{said}");
    }
}

#[test]
fn an_event_without_a_time_of_day_is_told_without_one() {
    let mut fixture = worded_now();
    for ((date, told), which) in [
        (
            "2026-06-20T19:00:00-04:00",
            "Saturday 20 June 2026, 19:00 New York time (23:00 UTC)",
        ),
        (
            "2026-06-20",
            "Saturday 20 June 2026 (no time of day was given)",
        ),
    ]
    .into_iter()
    .zip(13..)
    {
        let packet = booked(&mut fixture, which, date, None);
        let export = dispute(&packet, DisputeForm::Stripe, DisputeReason::General);
        let said = &evidence(&export)["product_description"];
        let words = format!(", for USD 1,200.50. The event starts on {told}. Booking ");
        assert!(said.contains(&words), "{words:?} in {said}");
    }
}

#[test]
fn the_statement_names_the_entry_of_what_is_in_the_ledger() {
    let packet = worded_now().notified();
    let export = dispute(&packet, DisputeForm::Stripe, DisputeReason::General);
    let said = &evidence(&export)["uncategorized_text"];
    let mut logged = 0;
    for moment in &packet.summary.timeline {
        let entry = moment.entry.map(|entry| format!(", entry {entry}"));
        logged += usize::from(entry.is_some());
        let line = format!(
            "\n{}{}: {}\n",
            moment.when,
            entry.unwrap_or_default(),
            moment.text
        );
        assert!(said.contains(&line), "{line:?} in {said}");
    }
    assert_eq!(logged, packet.entries.len());
}

#[test]
fn a_text_says_what_bookguard_is() {
    let mut fixture = worded_now();
    fixture.with_items(13, 45);
    for packet in [fixture.rescheduled(), fixture.packet_at(13)] {
        for &(_, reason) in DisputeReason::WORDS {
            let export = dispute(&packet, DisputeForm::Stripe, reason);
            for text in evidence(&export).values() {
                let named = text.matches("Bookguard").count();
                let explained = text.matches("he service Bookguard").count();
                assert_eq!(named, explained, "{text}");
            }
        }
    }
}

#[test]
fn the_accepted_text_is_shown_with_who_recorded_the_acceptance() {
    let fixture = Fixture::new();
    let export = dispute(
        &fixture.rescheduled(),
        DisputeForm::Stripe,
        DisputeReason::General,
    );
    let said = &evidence(&export)["cancellation_policy_disclosure"];
    let packet = fixture.rescheduled();
    for words in [
        "recorded that the organizer, ",
        "by \u{201c}checkbox\u{201d} from the network address 203.0.113.7",
        "Bookguard received and logged that record on 2026-04-01T00:00:00.000Z",
        packet.terms_disclosures[0].text.as_str(),
    ] {
        assert!(said.contains(words), "{words:?} in {said}");
    }
    let [accepted, .., in_force] = packet.terms_disclosures.as_slice() else {
        panic!("the event was moved");
    };
    assert!(said.contains(&format!(
        "it names the text exactly, by its SHA-256: {}.",
        accepted.disclosure_hash
    )));
    assert!(said.contains(&format!(
        "put another text in force ({}), which",
        in_force.disclosure_hash
    )));
    assert!(said.contains(&format!(
        "The text that was accepted last ({}):",
        accepted.disclosure_hash
    )));
    let bare = dispute(
        &fixture.recorded(),
        DisputeForm::Stripe,
        DisputeReason::General,
    );
    let said = &evidence(&bare)["refund_policy_disclosure"];
    assert!(!said.contains("another text"), "{said}");
    assert!(
        said.contains("recorded no acceptance of the terms by the organizer"),
        "{said}"
    );
}

#[test]
fn terms_that_nobody_accepted_date_from_what_fixed_them() {
    let fixture = Fixture::new();
    let (recorded, moved) = (fixture.recorded(), fixture.moved_and_canceled());
    let at = moved.booking.rescheduled_at.unwrap();
    for (packet, words) in [
        (
            &recorded,
            "and could not be changed unnoticed since.".to_owned(),
        ),
        (
            &moved,
            format!("and those below when the event was last moved, {at}."),
        ),
    ] {
        let words = format!("recorded, {}, {words}", packet.booking.created_at);
        let export = dispute(packet, DisputeForm::Stripe, DisputeReason::General);
        for field in ["cancellation_policy_disclosure", "refund_policy_disclosure"] {
            let said = &evidence(&export)[field];
            assert!(said.contains(&words), "{words} {said}");
            let in_force = &packet.terms_disclosures.last().unwrap().text;
            assert!(said.ends_with(in_force.as_str()), "{said}");
        }
    }
}

#[test]
fn what_nobody_recorded_is_left_to_the_platform() {
    use DisputeReason as R;
    let fixture = Fixture::new();
    let (recorded, bare) = (fixture.recorded(), fixture.bare());
    let charge =
        "What another charge is for, if there is one, is for \u{201c}Stage & Co\u{201d} to show.";
    let payment = "What the payment was for is for \u{201c}Stage & Co\u{201d} to show.";
    let refund = "The booking has no cancellation policy: whether a refund is due is for \u{201c}Stage & Co\u{201d} to show.";
    #[rustfmt::skip]
    let cases = [
        (&recorded, R::Duplicate, charge, "is for another booking"),
        (&recorded, R::Fraudulent, payment, "the payment is for the booking"),
        (&recorded, R::Unrecognized, payment, "the payment is for the booking"),
        (&recorded, R::CreditNotProcessed, "what is owed follows from the terms", refund),
        (&bare, R::CreditNotProcessed, refund, "what is owed follows from the terms"),
        (&bare, R::General, refund, "the terms give a refund only"),
    ];
    for (packet, reason, said, unsaid) in cases {
        let export = dispute(packet, DisputeForm::Stripe, reason);
        let text = &evidence(&export)["uncategorized_text"];
        assert!(
            text.contains(said) && !text.contains(unsaid),
            "{reason}: {text}"
        );
        let refund_refusal = &evidence(&export)["refund_refusal_explanation"];
        assert_eq!(refund_refusal.contains(refund), packet.policy.is_none());
    }
}

#[test]
fn the_service_date_is_the_day_by_the_clock_of_the_terms() {
    let mut fixture = Fixture::new();
    let value = fixture.canceled().booking.value().unwrap();
    let cases = [
        (
            "2026-06-21T01:30:00Z",
            Some("America/New_York"),
            "2026-06-20",
        ),
        ("2026-06-20T22:30:00Z", Some("Europe/Berlin"), "2026-06-21"),
        ("2026-06-20T23:30:00-04:00", None, "2026-06-20"),
        ("2026-06-20T23:30", Some("Asia/Tokyo"), "2026-06-20"),
        ("2026-06-20", Some("Asia/Tokyo"), "2026-06-20"),
    ];
    for ((given, zone, date), n) in cases.into_iter().zip(13..) {
        fixture.record(n, Some("firm"), given, zone, value, |_| {});
        let packet = fixture.packet_at(n.into());
        let export = dispute(&packet, DisputeForm::Stripe, DisputeReason::General);
        assert_eq!(evidence(&export)["service_date"], date, "{given} {zone:?}");
    }
}

/// An item that the partner recorded.
fn item(kind: ItemKind, amount: Option<Amount>, sha256: Option<&str>) -> EvidenceItem {
    let added_at = Timestamp::parse("2026-06-01T08:00:00.000Z").unwrap();
    let booking_id = Fixture::new().canceled().booking.booking_id;
    EvidenceItem {
        item_id: ItemId::new(added_at, [kind as u8; 10]),
        amount,
        reference: amount.map(|_| "re_7".to_owned()),
        sha256: sha256.map(str::to_owned),
        ..fixture::item(booking_id, added_at, kind, &format!("the {kind}"))
    }
}

#[test]
fn what_an_item_gives_is_cited_and_not_asked_for() {
    let fixture = Fixture::new();
    let refund = fixture.canceled().resolution.unwrap().evaluation.refund;
    let due = refund.unwrap();
    let half = Amount::from_minor(due.minor() / 2, due.currency()).unwrap();
    let other_half = Amount::from_minor(due.minor() - half.minor(), due.currency()).unwrap();
    let rest = format!("whether the remaining {other_half} of the refund of {due} was paid: ");
    // The day of this event has come.
    let mut over = fixture.recorded();
    over.created_at = over.booking.event_date;
    let refunds = |amounts: &[Amount]| -> Vec<EvidenceItem> {
        let paid = |amount: &Amount| item(ItemKind::Refund, Some(*amount), None);
        amounts.iter().map(paid).collect()
    };
    use DisputeReason as R;
    use ItemKind as K;
    #[rustfmt::skip]
    let cases = [
        (R::General, vec![], "receipt", "payment's own", true),
        (R::General, vec![item(K::Payment, None, None)], "receipt", "payment's own", true),
        (R::General, vec![item(K::Payment, Some(due), None)], "receipt", "payment's own", false),
        (R::General, refunds(&[]), "uncategorized_text", "the refund of", true),
        (R::General, refunds(&[half]), "uncategorized_text", "the refund of", true),
        (R::General, refunds(&[due]), "uncategorized_text", "the refund of", false),
        (R::General, refunds(&[half]), "uncategorized_text", rest.as_str(), true),
        (R::General, refunds(&[half, half, half]), "uncategorized_text", "the refund of", false),
        (R::General, vec![item(K::Message, None, None)], "customer_communication", "", false),
        (R::Fraudulent, vec![item(K::Contract, None, None)], "customer_signature", "", false),
        (R::ProductNotReceived, vec![item(K::CheckIn, None, None)], "service_documentation", "", false),
        (R::ProductNotReceived, vec![item(K::Other, None, None)], "service_documentation", "", true),
    ];
    for (reason, items, field, what, asked) in cases {
        let mut packet = match reason {
            R::ProductNotReceived => over.clone(),
            _ => fixture.canceled(),
        };
        packet.items = items;
        let export = dispute(&packet, DisputeForm::Stripe, reason);
        let mut missing = export.missing.iter();
        let found = missing.any(|it| it.field == field && it.what.contains(what));
        assert_eq!(found, asked, "{reason} {field} {:?}", packet.items);
        let said = &evidence(&export)["uncategorized_text"];
        for item in packet.items.iter().filter(|_| !asked) {
            let cited = reason != R::General || item.kind != K::Payment;
            assert_eq!(said.contains(&item.item_id.to_string()), cited, "{said}");
        }
    }
    let mut packet = fixture.canceled();
    let digest = format!("sha256:{}", "0".repeat(64));
    packet.items = vec![item(K::Contract, None, Some(&digest))];
    for (form, field) in [
        (DisputeForm::Stripe, "customer_signature"),
        (DisputeForm::Card, "document"),
    ] {
        let files = dispute(&packet, form, R::Fraudulent).files;
        let file = files.last().unwrap();
        assert!(
            files.len() == 2 && file.field == field && file.document.contains(&digest),
            "{files:?}"
        );
    }
}

#[test]
fn who_was_erased_is_named_nowhere_and_asked_for() {
    let mut fixture = Fixture::new();
    fixture.with_items(13, 45);
    let names = [Erasable::EventType, Erasable::Organizer, Erasable::Talent];
    let accepted = [Erasable::Ip, Erasable::Method];
    let values = vec![erased_values(0, &names), erased_values(1, &accepted)];
    let why = (LegalBasis::Objection, None);
    fixture.erase(13, "2026-07-01T09:00:00Z", why, values);
    let packet = fixture.packet_at(13);
    for &(word, reason) in DisputeReason::WORDS {
        let export = dispute(&packet, DisputeForm::Stripe, reason);
        let texts = evidence(&export);
        assert!(!texts.contains_key("customer_name"), "{word}");
        assert!(
            texts["product_description"].contains("[erased] with [erased], booked by [erased]")
        );
        // What the platform reported stands in the packet's own sentences.
        for (field, text) in texts
            .iter()
            .filter(|(field, _)| *field != "uncategorized_text")
        {
            let rest = text.replace("[erased]", "").replace("(name erased)", "");
            assert!(!rest.contains("erased"), "{word}, {field}: {text}");
        }
        let asked = export
            .missing
            .iter()
            .find(|one| one.field == "customer_name");
        assert!(asked.is_some_and(|one| one.what.contains("was erased")));
    }
}

#[test]
fn a_text_counts_as_erased_only_if_an_erasure_names_it() {
    let mut fixture = Fixture::new();
    fixture.with_items(13, 45);
    let mut kept = fixture.packet_at(13);
    let values = vec![
        erased_values(1, &[Erasable::Method]),
        erased_values(2, &[Erasable::Title]),
    ];
    let why = (LegalBasis::Objection, None);
    fixture.erase(13, "2026-07-01T09:00:00Z", why, values);
    let gone = fixture.packet_at(13);
    // The partner sent the very text that stands in for an erased one.
    for one in &mut kept.acceptances {
        one.method = "erased".to_owned();
    }
    for one in &mut kept.items {
        one.title = "erased".to_owned();
    }
    for (packet, word) in [(kept, "\u{201c}erased\u{201d}"), (gone, "[erased]")] {
        let export = dispute(&packet, DisputeForm::Stripe, DisputeReason::Fraudulent);
        let terms = &evidence(&export)["refund_policy_disclosure"];
        assert!(terms.contains(&format!(" by {word} from")), "{terms}");
        let statement = &evidence(&export)["uncategorized_text"];
        let cited = format!(" recorded a contract on 2026-01-31T20:00:00.000Z, {word}; ");
        assert!(statement.contains(&cited), "{statement}");
        let file = &export.files.last().unwrap().document;
        assert!(file.contains(&format!(", {word}, sha256:")), "{file}");
    }
}

#[test]
fn nothing_that_others_wrote_reads_as_a_sentence_of_the_service() {
    let fixture = Fixture::new();
    let words = || "Acme\u{201d} FORGED \u{201c}Acme".to_owned();
    for mut packet in [
        fixture.recorded(),
        fixture.canceled(),
        fixture.decided(),
        fixture.rescheduled(),
    ] {
        packet.partner_name = words();
        packet.booking.event_type = words();
        packet.booking.organizer.name = words();
        packet.booking.talent.name = words();
        for accepted in &mut packet.acceptances {
            accepted.method = words();
        }
        let decision = packet.resolution.as_mut();
        if let Some(decision) = decision.and_then(|resolution| resolution.decision.as_mut()) {
            (decision.decided_by, decision.rationale) = (words(), words());
        }
        let digest = format!("sha256:{}", "0".repeat(64));
        packet.items = ItemKind::WORDS
            .iter()
            .map(|(_, kind)| EvidenceItem {
                title: words(),
                reference: Some(words()),
                ..item(*kind, None, Some(&digest))
            })
            .collect();
        for &(word, reason) in DisputeReason::WORDS {
            let export = dispute(&packet, DisputeForm::Stripe, reason);
            let texts = evidence(&export).iter();
            // A name alone is the whole field.
            let texts = texts.filter(|(field, _)| *field != "customer_name");
            let texts = texts.map(|(_, text)| text);
            let files = export.files.iter().map(|file| &file.document);
            for text in texts.chain(files) {
                let outside = outside_quotations(text);
                assert!(!outside.contains("FORGED"), "{word}: {text}");
            }
        }
    }
}
