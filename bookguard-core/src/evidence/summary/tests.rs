//! The sentences of each kind of history, held word for word by `golden.txt`, to be read by a person.

use std::fmt::Write as _;

use super::{Summary, SummaryInput, Wording, summarize};
use crate::evidence::facts::{Fact, LeafPlace, Logged, NotificationFact, ResolutionFact};
use crate::evidence::packet::{PacketDelivery, UNKNOWN_ADDRESS};
use crate::evidence::verify::tests::fixture::{Fixture, cancellation, erased_values, item};
use crate::evidence::{
    Acceptance, Erasable, Erasure, EvidenceItem, ItemKind, LegalBasis, Notification, Packet,
    RescheduleFact, Withheld,
};
use crate::ledger::Hash;
use crate::model::{Amount, Currency, DeliveryStatus};
use crate::policy::{Actor, Cancellation, EventDate, PastReschedule, Reason, ReviewReason};
use crate::text::outside_quotations;

const GOLDEN: &str = "src/evidence/summary/golden.txt";

/// Test vectors, whose summaries the verifiers check too. Two are in currencies with no decimals and with three.
const VECTORS: [(&str, &str); 9] = [
    ("in yen", "yen"),
    ("in dinars", "dinar"),
    ("canceled by agreement", "canceled-by-agreement"),
    ("erased in part", "erased"),
    ("rationale erased", "erased-words"),
    ("words erased, in the second wording", "worded-2-erased"),
    ("canceled too late", "worded-2-late"),
    (
        "accepted before, between and after two moves",
        "worded-2-moved",
    ),
    ("without a time, and not told", "worded-2-unsent"),
];

fn vector(name: &str) -> Packet {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/vectors/packets/good");
    let text = std::fs::read_to_string(format!("{folder}/{name}.json")).unwrap();
    serde_json::from_str(&text).unwrap()
}

fn told(name: &str, packet: &Packet) -> String {
    let summary = &packet.summary;
    let mut text = format!("== {name} ==\n{}\n\n", summary.headline);
    for paragraph in &summary.story {
        writeln!(text, "{paragraph}").unwrap();
    }
    text.push('\n');
    for moment in &summary.timeline {
        let entry = moment
            .entry
            .map_or("-".to_owned(), |entry| entry.to_string());
        writeln!(text, "[{entry}] {}: {}", moment.when, moment.text).unwrap();
    }
    text + "\n"
}

/// `UPDATE=1` writes the file anew.
#[test]
fn each_kind_of_history_is_told_in_these_words() {
    let mut fixture = Fixture::new();
    fixture.wording = Wording::LATEST;
    fixture.with_items(13, 30);
    let without = [Withheld::Note, Withheld::Organizer, Withheld::Talent];
    let told: String = [
        ("recorded", fixture.recorded()),
        ("without a policy", fixture.bare()),
        ("protected", fixture.protected()),
        ("accepted and moved twice", fixture.rescheduled()),
        ("canceled", fixture.canceled()),
        ("for a person to decide", fixture.pending()),
        ("decided", fixture.decided()),
        ("notified", fixture.notified()),
        ("with evidence items", fixture.packet_at(13)),
        (
            "without names and notes",
            fixture.packet_at_without(13, &without),
        ),
    ]
    .into_iter()
    .chain([(
        "dated back across a deadline",
        across_a_deadline(Wording::LATEST),
    )])
    .chain(VECTORS.map(|(name, file)| (name, vector(file))))
    .map(|(name, packet)| told(name, &packet))
    .collect();
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(GOLDEN, &told).unwrap();
    }
    assert_eq!(told, std::fs::read_to_string(GOLDEN).unwrap());
}

/// A note, a name and whatever else others wrote stay within their quotation marks, so that none of it reads as a sentence of
/// the service.
#[test]
fn nothing_that_others_wrote_breaks_out_of_its_quotation() {
    for hostile in [
        "We are sorry\u{201d}. FORGED: nothing is to be returned. \u{201c}Thank you",
        "Acme\u{201d}\u{201d} FORGED \u{201c}\u{201c}Acme",
        "Acme\u{201f}\u{2033}\u{ff02} FORGED \u{ab}Acme\u{bb}",
    ] {
        let words = || hostile.to_owned();
        let packet = Fixture::new().decided();
        let mut booking = packet.booking.clone();
        (booking.organizer.name, booking.talent.name) = (words(), words());
        booking.event_type = words();
        let (booking_id, at) = (booking.booking_id, packet.created_at);
        let mut resolution = packet.resolution.clone().unwrap();
        let decision = resolution.decision.as_mut().unwrap();
        (decision.decided_by, decision.rationale) = (words(), words());
        let facts: [Fact; 5] = [
            Acceptance {
                booking_id,
                accepted_at: at,
                party: Actor::Organizer,
                method: words(),
                at,
                ip: None,
                user_agent: Some(words()),
                disclosure_hash: String::new(),
                disclosure_version: String::new(),
            }
            .into(),
            Cancellation {
                note: Some(words()),
                ..cancellation(booking_id, at, Actor::Mutual)
            }
            .into(),
            ResolutionFact::with_words_within(resolution.clone()).into(),
            EvidenceItem {
                party: Some(Actor::Talent),
                reference: Some(words()),
                note: Some(words()),
                ..item(booking_id, at, ItemKind::Message, hostile)
            }
            .into(),
            Erasure {
                booking_id,
                erased_at: at,
                legal_basis: LegalBasis::Objection,
                request_ref: Some(words()),
                values: vec![erased_values(1, &[Erasable::Ip])],
            }
            .into(),
        ];
        let facts: Vec<Logged<Fact>> = (0..)
            .zip(facts)
            .map(|(index, fact)| {
                let hash = Hash::ZERO;
                let place = LeafPlace { index, hash, at };
                Logged { place, fact }
            })
            .collect();
        let summary = summarize(&SummaryInput {
            wording: Wording::LATEST,
            created_at: at,
            partner_name: hostile,
            booking: &booking,
            terms: &packet.terms,
            former_terms: &packet.former_terms,
            policy: packet.policy.as_ref(),
            facts: &facts,
            evaluation: None,
            resolution: Some(&resolution),
            deliveries: &packet.deliveries,
            withheld: &[],
            offsets: &[],
        });
        let moments = summary.timeline.iter().map(|moment| &moment.text);
        let told: Vec<&String> = [&summary.headline]
            .into_iter()
            .chain(&summary.story)
            .chain(moments)
            .collect();
        let all: String = told.iter().map(|text| text.as_str()).collect();
        assert!(all.matches("FORGED").count() > 20, "{all}");
        for text in told {
            assert!(!outside_quotations(text).contains("FORGED"), "{text}");
        }
    }
}

/// A packet in sentences if this is all that happened.
fn sentences(
    packet: &Packet,
    wording: Wording,
    facts: &[Logged<Fact>],
    deliveries: &[PacketDelivery],
) -> Summary {
    summarize(&SummaryInput {
        wording,
        created_at: packet.created_at,
        partner_name: "Acme",
        booking: &packet.booking,
        terms: &packet.terms,
        former_terms: &packet.former_terms,
        policy: None,
        facts,
        evaluation: None,
        resolution: None,
        deliveries,
        withheld: &[],
        offsets: &[],
    })
}

/// The first item of its timeline.
fn begins(
    packet: &Packet,
    wording: Wording,
    facts: &[Logged<Fact>],
    deliveries: &[PacketDelivery],
) -> String {
    let summary = sentences(packet, wording, facts, deliveries);
    summary.timeline[0].text.clone()
}

#[test]
fn only_what_the_ledger_records_as_given_up_is_told_as_that() {
    let packet = Fixture::new().notified();
    let [given_up, accepted, open] = &packet.deliveries[..] else {
        panic!("{:?}", packet.deliveries);
    };
    let mut given_up = given_up.clone();
    (given_up.status, given_up.attempts) = (DeliveryStatus::Failed, 2);
    given_up.recorded.truncate(1);
    given_up.history.truncate(2);
    let unsent = PacketDelivery {
        status: DeliveryStatus::Pending,
        attempts: 0,
        history: Vec::new(),
        ..open.clone()
    };
    let dropped = PacketDelivery {
        status: DeliveryStatus::Failed,
        ..unsent.clone()
    };
    let sent = [accepted, &given_up, open].map(Clone::clone);
    let not_sent = [accepted, &unsent, &dropped].map(Clone::clone);
    for (wording, deliveries, told) in [
        (
            Wording::First,
            &sent[..],
            "The service sent 3 notifications about the booking to “Acme”: 1 accepted, 2 not accepted.",
        ),
        (
            Wording::Second,
            &sent[..],
            "The service sent 3 notifications about the booking to “Acme”: 1 accepted, 1 given up, 1 not accepted so far.",
        ),
        (
            Wording::Second,
            &not_sent[..],
            "The service sent 1 notification about the booking to “Acme”: 1 accepted. It has 1 more that it has not sent. \
             It has 1 more that it will not send.",
        ),
        (
            Wording::Second,
            &[dropped][..],
            "The service has 1 notification about the booking for “Acme” that it will not send.",
        ),
    ] {
        let story = sentences(&packet, wording, &[], deliveries).story;
        assert_eq!(story.last().unwrap(), told);
    }
}

#[test]
fn an_address_that_is_not_known_is_not_named() {
    let mut packet = Fixture::new().recorded();
    packet.deliveries[0].url = Some(UNKNOWN_ADDRESS.to_owned());
    for (wording, end) in [
        (
            Wording::Second,
            "to “Acme” was not accepted in 1 attempt so far.",
        ),
        (
            Wording::First,
            "to “Acme” at unknown:// was not accepted in 1 attempt.",
        ),
    ] {
        let text = begins(&packet, wording, &[], &packet.deliveries);
        assert!(text.ends_with(end), "{text}");
    }
}

/// This fact alone.
fn alone(packet: &Packet, fact: impl Into<Fact>) -> [Logged<Fact>; 1] {
    let place = LeafPlace {
        index: 0,
        hash: Hash::ZERO,
        at: packet.created_at,
    };
    let fact = fact.into();
    [Logged { place, fact }]
}

#[test]
fn somebody_who_did_not_come_has_not_canceled() {
    let packet = Fixture::new().canceled();
    let (booking_id, at) = (packet.booking.booking_id, packet.created_at);
    let reported =
        "It was reported on Monday 25 May 2026, 04:00 New York time (08:00 UTC) that the ";
    let canceled = "It was canceled on Monday 25 May 2026, 04:00 New York time (08:00 UTC).";
    let (talent, organizer) = ("talent did not come.", "organizer did not come.");
    #[rustfmt::skip]
    let cases = [
        (Wording::Second, Actor::Talent, "(the talent) did not come.", format!("{reported}{talent}")),
        (Wording::Second, Actor::Organizer, "(the organizer) did not come.", format!("{reported}{organizer}")),
        (Wording::Second, Actor::Partner, "“Acme” reported that it canceled because somebody did not come.", canceled.to_owned()),
        (Wording::First, Actor::Talent, "(the talent) canceled because somebody did not come.", canceled.to_owned()),
        (Wording::First, Actor::Partner, "“Acme” reported that “Acme” (the platform) canceled because somebody did not come.", canceled.to_owned()),
    ];
    for (wording, canceled_by, end, standing) in cases {
        let fact = Cancellation {
            reason: Some(Reason::NoShow),
            ..cancellation(booking_id, at, canceled_by)
        };
        let summary = sentences(&packet, wording, &alone(&packet, fact), &[]);
        let text = &summary.timeline[0].text;
        assert!(text.ends_with(end), "{text}");
        let headline = &summary.headline;
        assert!(headline.ends_with(&standing), "{headline}");
    }
}

#[test]
fn a_booking_that_was_canceled_unprotected_is_told_as_that() {
    for (wording, pending, canceled) in [
        (Wording::First, false, false),
        (Wording::Second, true, false),
    ] {
        let mut fixture = Fixture::new();
        fixture.wording = wording;
        for (packet, is_said) in [(fixture.pending(), pending), (fixture.canceled(), canceled)] {
            let headline = packet.summary.headline;
            let told = headline.ends_with(" It had not been protected.");
            assert_eq!(told, is_said, "{headline}");
        }
    }
}

#[test]
fn a_date_before_a_move_is_told_on_the_clock_of_its_time_and_in_utc() {
    for (wording, from, first, to) in [
        (
            Wording::First,
            "20 August 2026, 20:00",
            "20 June 2026, 19:00 (UTC-04:00)",
            "Friday 21 August 2026, 02:00 Berlin time (00:00 UTC)",
        ),
        (
            Wording::Second,
            "Thursday 20 August 2026, 20:00 New York time (21 August, 00:00 UTC)",
            "Saturday 20 June 2026, 19:00 New York time (23:00 UTC)",
            "Thursday 20 August 2026, 20:00 New York time (21 August, 00:00 UTC)",
        ),
    ] {
        let mut fixture = Fixture::new();
        fixture.wording = wording;
        let summary = fixture.rescheduled().summary;
        let told = format!("it was to start on {from}.");
        assert!(
            summary.story.iter().any(|text| text.contains(&told)),
            "{:?}",
            summary.story
        );
        for told in [
            format!("to move the event from {first} to {to}. The"),
            format!("to move the event from {from} to "),
        ] {
            let mut moments = summary.timeline.iter();
            assert!(
                moments.any(|moment| moment.text.contains(&told)),
                "{told}: {:#?}",
                summary.timeline
            );
        }
    }
}

#[test]
fn the_story_says_who_agreed_to_the_last_move_and_before_which_one_terms_were_accepted() {
    let both = "“Ana María” (the organizer) and “The 🎸 \"Band\"” (the talent)";
    let agreed = format!(
        " “Stage & Co” reported that {both} agreed to the last move on Monday 10 August 2026, 02:00 Berlin time (00:00 UTC)."
    );
    let mut fixture = Fixture::new();
    fixture.wording = Wording::LATEST;
    let story = fixture.rescheduled().summary.story;
    for end in [
        agreed.as_str(),
        "(the organizer) accepted the terms that applied before move 1 of the event, by “checkbox”.",
        "(the talent) accepted the terms that applied before move 2 of the event, by “checkbox”.",
    ] {
        assert!(
            story.iter().any(|text| text.ends_with(end)),
            "{end}: {story:#?}"
        );
    }
    let once = fixture.moved_and_canceled().summary.story;
    let agreed = format!(" “Stage & Co” reported that {both} agreed to this on ");
    assert!(once[1].contains(&agreed), "{once:#?}");
    let former = Fixture::new().rescheduled().summary.story;
    let told = "the terms that applied before the event was moved on ";
    assert!(
        former.iter().filter(|text| text.contains(told)).count() == 2,
        "{former:#?}"
    );
}

#[test]
fn the_story_says_who_accepted_nothing() {
    let mut fixture = Fixture::new();
    fixture.wording = Wording::LATEST;
    fixture.with_items(13, 30);
    let said = |packet: Packet| {
        let mut story = packet.summary.story.into_iter();
        story.find(|text| text.starts_with("No entry says"))
    };
    let nobody = "No entry says that the organizer or the talent accepted these terms.";
    let talent = "No entry says that the talent accepted these terms.";
    let former = "No entry says that the organizer or the talent accepted the terms that have applied since the event was last moved.";
    assert_eq!(said(fixture.recorded()).as_deref(), Some(nobody));
    assert_eq!(said(fixture.packet_at(13)).as_deref(), Some(talent));
    assert_eq!(said(fixture.rescheduled()).as_deref(), Some(former));
    assert_eq!(said(fixture.bare()), None);
    assert_eq!(said(Fixture::new().recorded()), None);
}

/// A cancellation that took effect in the step of 50 %, a minute before it was received in the one of 0 %.
fn across_a_deadline(wording: Wording) -> Packet {
    let mut fixture = Fixture::new();
    fixture.wording = wording;
    let (date, zone) = ("2026-06-01T03:59:30-04:00", Some("America/New_York"));
    let usd = Amount::parse("950", Currency::USD).unwrap();
    fixture.record(30, Some("firm"), date, zone, usd, |_| {});
    fixture.cancel(13, Actor::Organizer, Some(Reason::Illness));
    fixture.packet_at(13)
}

#[test]
fn the_story_says_why_an_earlier_time_counts_and_what_receipt_would_have_given() {
    let received = " On Monday 25 May 2026, 04:00 New York time (08:00 UTC), when the service received it, another step of the terms applied";
    for (wording, rest) in [
        (Wording::First, "."),
        (
            Wording::Second,
            ", by which USD 0.00 would be returned. By the terms, an earlier time counts if it is at most 1 hour before receipt, \
             or if evidence is named for it.",
        ),
    ] {
        let story = across_a_deadline(wording).summary.story;
        let end = format!("USD 475.00 is to be kept.{received}{rest}");
        assert!(
            story.iter().any(|text| text.ends_with(&end)),
            "{end}: {story:#?}"
        );
    }
}

#[test]
fn a_review_of_an_earlier_time_names_the_other_step_once() {
    let packet = across_a_deadline(Wording::LATEST);
    let booking = &packet.booking;
    let canceled = Cancellation {
        effective_at: Some(booking.canceled_at.unwrap().plus_ms(-60_000)),
        ..cancellation(
            booking.booking_id,
            booking.canceled_at.unwrap(),
            Actor::Organizer,
        )
    };
    let mut resolution = packet.resolution.clone().unwrap();
    resolution.evaluation.review_reasons = vec![ReviewReason::BackdatedAcrossDeadline];
    let resolved = ResolutionFact::with_words_within(resolution);
    let facts = [alone(&packet, canceled), alone(&packet, resolved)].concat();
    let why = "nothing proves the earlier notice: a person must decide.";
    for (wording, is_last) in [(Wording::First, false), (Wording::Second, true)] {
        let timeline = sentences(&packet, wording, &facts, &[]).timeline;
        let text = &timeline[1].text;
        assert!(text.contains(why), "{text}");
        assert_eq!(text.ends_with(why), is_last, "{text}");
    }
}

#[test]
fn data_are_erased_from_earlier_entries() {
    let packet = Fixture::new().recorded();
    for (wording, told) in [
        (
            Wording::First,
            "“Acme” had personal data of the entries before erased, because the person withdrew the consent: notes.",
        ),
        (
            Wording::Second,
            "“Acme” had personal data erased from earlier entries, because the person withdrew consent: notes.",
        ),
    ] {
        let fact = Erasure {
            booking_id: packet.booking.booking_id,
            erased_at: packet.created_at,
            legal_basis: LegalBasis::ConsentWithdrawn,
            request_ref: None,
            values: vec![erased_values(1, &[Erasable::Note])],
        };
        let text = begins(&packet, wording, &alone(&packet, fact), &[]);
        assert!(text.starts_with(told), "{text}");
    }
}

#[test]
fn terms_with_one_step_before_the_event_have_no_earlier_deadline() {
    let flat =
        r#"{"policyId":"flat","version":1,"organizer":{"tiers":[],"late":{"refundBps":5000}}}"#;
    let soon = "2026-06-05T19:00:00-04:00";
    let passed = "Every earlier deadline has passed.";
    let only = "The step that applies lasts until the start of the event.";
    for (wording, policy, date, told) in [
        (Wording::Second, flat, "2026-08-20T19:00:00-04:00", only),
        (Wording::Second, "firm", soon, passed),
        (Wording::First, flat, soon, passed),
    ] {
        let mut fixture = Fixture::new();
        fixture.wording = wording;
        let usd = Amount::parse("950", Currency::USD).unwrap();
        fixture.record(
            30,
            Some(policy),
            date,
            Some("America/New_York"),
            usd,
            |_| {},
        );
        let story = fixture.packet_at(13).summary.story;
        assert!(
            story.iter().any(|text| text.contains(told)),
            "{told}: {story:#?}"
        );
    }
}

#[test]
fn an_event_of_which_only_the_day_was_named_has_no_time() {
    let alone = "Friday 20 November 2026 (no time of day was given)";
    let midnight = "Friday 20 November 2026, 00:00 Berlin time (19 November, 23:00 UTC)";
    for (wording, event) in [(Wording::First, midnight), (Wording::Second, alone)] {
        let mut fixture = Fixture::new();
        fixture.wording = wording;
        let packet = fixture.rescheduled();
        let summary = &packet.summary;
        assert_eq!(packet.event_in_words(), event);
        let told = format!(" for {event}, event type");
        assert!(summary.headline.contains(&told), "{}", summary.headline);
        let told = format!(" to {event}. The service froze new terms.");
        let mut moments = summary.timeline.iter();
        assert!(moments.any(|moment| moment.text.ends_with(&told)));
    }
}

#[test]
fn the_end_of_the_map_is_told_as_the_other_times_are() {
    let packet = vector("complete");
    let has = |texts: &[String], part: &str| texts.iter().any(|text| text.contains(part));
    let end = "Monday 10 August 2026, 00:30 UTC";
    let proves = packet.proves();
    assert!(
        has(&proves, &format!("recorded by {end} is missing")),
        "{proves:?}"
    );
    let limits = packet.does_not_prove();
    assert!(
        has(&limits, &format!("no entry after {end}.")),
        "{limits:?}"
    );
}

#[test]
fn three_sides_that_agreed_are_listed() {
    let packet = Fixture::new().rescheduled();
    let at = packet.created_at;
    for (wording, words) in [
        (Wording::Second, "(the organizer), “"),
        (Wording::First, "(the organizer) and “"),
    ] {
        let fact = RescheduleFact {
            rescheduled_at: at,
            event_date: packet.booking.event_date,
            time_zone: None,
            agreed_by: vec![Actor::Organizer, Actor::Talent, Actor::Partner],
            at: None,
            former: PastReschedule {
                at,
                previous_event_date: EventDate::parse("2026-06-20T19:00").unwrap(),
                reached: None,
            },
            terms: packet.terms.clone(),
        };
        let text = begins(&packet, wording, &alone(&packet, fact), &[]);
        assert!(text.contains(words), "{text}");
        assert!(
            text.contains("(the talent) and “Acme” (the platform) agreed on"),
            "{text}"
        );
    }
}
