//! Dates: those of moves, and days without a time.

use super::{alone, begins};
use crate::evidence::RescheduleFact;
use crate::evidence::summary::Wording;
use crate::evidence::verify::tests::fixture::Fixture;
use crate::policy::{Actor, EventDate, PastReschedule};

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
    let both = "“Ana María” (the organizer) and “The 🎸 \"Band\"\u{7}” (the talent)";
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
