use super::*;
use crate::evidence::verify::tests::fixture::Fixture;

/// The texts for Stripe.
fn evidence(export: &DisputeExport) -> &BTreeMap<String, String> {
    &export.request.as_ref().unwrap().evidence.0
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
    let fixture = Fixture::new();
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
    for (packet, words, refund) in [
        (
            fixture.protected(),
            "the terms give a refund only on a cancellation, and none is recorded.",
            0,
        ),
        (
            fixture.canceled(),
            "canceled the booking, giving the reason illness",
            1,
        ),
        (
            fixture.pending(),
            "a person has to decide, and nobody has yet",
            0,
        ),
        (
            fixture.decided(),
            "recorded that disputes decided it on 2026-05-27",
            1,
        ),
    ] {
        let (said, missing) = told(&packet);
        assert!(said.contains(words), "{said}");
        assert_eq!(refunds(&missing), refund, "{said}");
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
        "by checkbox from the network address 203.0.113.7",
        "Bookguard received and logged that record on 2026-04-01T00:00:00.000Z",
        packet.terms_disclosures[0].text.as_str(),
    ] {
        assert!(said.contains(words), "{words:?} in {said}");
    }
    let bare = dispute(
        &fixture.recorded(),
        DisputeForm::Stripe,
        DisputeReason::General,
    );
    let said = &evidence(&bare)["refund_policy_disclosure"];
    assert!(
        said.contains("recorded no acceptance of the terms by the organizer"),
        "{said}"
    );
}
