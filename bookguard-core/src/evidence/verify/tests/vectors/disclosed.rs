//! Packets whose terms are worded in the second wording; and one whose text says another tolerance than the policy.

use serde_json::json;

use super::super::fixture::Fixture;
use super::relog::relogged;
use super::{Bad, Noticed, World};
use crate::evidence::summary::Wording;
use crate::evidence::{Packet, frozen};
use crate::model::{Amount, Currency};
use crate::policy::{Actor, DisclosureWording};

const POLICY: &str = r#"{"policyId":"half_a_day","backdateTolerance":"PT12H","organizer":{"tiers":[{"before":"P7D","outcome":{"refundBps":10000}}],
    "late":{"refundBps":5000},"noShow":{"refundBps":0}}}"#;

/// The packets of two bookings: one whose terms were accepted in the second wording, and one whose sides were shown the same terms in
/// different wordings, before and after an upgrade.
pub fn packets() -> [(&'static str, Packet); 2] {
    let mut fixture = Fixture::new();
    fixture.wording = Wording::Second;
    let usd = Amount::parse("950", Currency::USD).unwrap();
    let zone = Some("America/New_York");
    let at = ["2026-02-01T10:00:00Z", "2026-02-02T10:00:00Z"];
    fixture.record(60, Some(POLICY), "2026-06-20", zone, usd, |_| {});
    let date = "2026-06-20T19:00:00-04:00";
    fixture.record(61, Some("firm"), date, zone, usd, |_| {});
    fixture.accept(14, at[0], Actor::Organizer, Some("2001:db8::7"));
    fixture.disclosed = DisclosureWording::Second;
    fixture.accept(14, at[1], Actor::Talent, None);
    fixture.accept(13, at[0], Actor::Organizer, Some("2001:db8::7"));
    [
        ("disclosed-2", fixture.packet_at(13)),
        ("disclosed-1-and-2", fixture.packet_at(14)),
    ]
}

/// The service showed and recorded a text of its own making.
pub fn bad(world: &World) -> [Bad; 1] {
    let mut document = world.doc("disclosed-2");
    let told = &mut document["termsDisclosures"][0];
    let text = told["text"].as_str().unwrap();
    assert!(text.contains("at most 12 hours before"), "{text}");
    let text = text.replace("at most 12 hours before", "at most 24 hours before");
    let hash = frozen::hash_of(&text, None);
    (told["text"], told["disclosureHash"]) = (json!(text), json!(hash));
    document["acceptances"][0]["disclosureHash"] = json!(hash);
    let bytes = relogged(&document, &world.fixture.signer, |drafts| {
        *drafts[1].member("disclosureHash") = json!(hash);
    });
    let why = "the text that was accepted says another tolerance for backdating than the policy";
    let name = "text-of-another-tolerance";
    [Bad::of(name, why, Noticed::Wording, "acceptances", bytes)]
}
