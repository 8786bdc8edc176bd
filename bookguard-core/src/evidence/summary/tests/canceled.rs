//! Cancellations: who reported what, from which time it counts, and what the terms gave.

use super::{across_a_deadline, alone, sentences};
use crate::evidence::facts::ResolutionFact;
use crate::evidence::summary::Wording;
use crate::evidence::verify::tests::fixture::{Fixture, cancellation};
use crate::model::{Amount, Currency};
use crate::policy::{Actor, Cancellation, Reason, ReviewReason};

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
    for wording in [Wording::First, Wording::Second] {
        let mut fixture = Fixture::new();
        fixture.wording = wording;
        let unprotected = wording == Wording::Second;
        for (packet, is_said) in [
            (fixture.pending(), unprotected),
            (fixture.canceled(), false),
        ] {
            let headline = packet.summary.headline;
            let told = headline.ends_with(" It had not been protected.");
            assert_eq!(told, is_said, "{headline}");
        }
    }
}

#[test]
fn what_is_counted_from_a_time_that_the_platform_states_is_told_so() {
    let canceled = "the cancellation came 26 days";
    for (wording, counted) in [
        (Wording::First, ""),
        (
            Wording::Second,
            "counted from the time that “Stage & Co” states, ",
        ),
    ] {
        let mut fixture = Fixture::new();
        fixture.wording = wording;
        let story = fixture.canceled().summary.story;
        let begin = format!("The service computed from the frozen terms: {counted}{canceled}");
        assert!(
            story.iter().any(|text| text.starts_with(&begin)),
            "{begin}: {story:#?}"
        );
    }
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
fn the_story_says_why_an_earlier_time_counts_after_the_time_for_claims_whoever_canceled() {
    let end = "when the service received it, the time for claims had passed. By the terms, an earlier time counts if it is at \
               most 1 hour before receipt, or if evidence is named for it.";
    let (date, zone) = ("2026-05-11T03:59:30-04:00", Some("America/New_York"));
    let usd = Amount::parse("950", Currency::USD).unwrap();
    for actor in [Actor::Organizer, Actor::Talent, Actor::Partner] {
        let mut fixture = Fixture::new();
        fixture.wording = Wording::Second;
        fixture.record(30, Some("firm"), date, zone, usd, |_| {});
        fixture.cancel(13, actor, Some(Reason::Illness));
        let story = fixture.packet_at(13).summary.story;
        let is_told = story.iter().any(|text| text.ends_with(end));
        assert!(is_told, "{actor:?}: {story:#?}");
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
fn what_is_still_owed_is_not_kept() {
    let packet = Fixture::new().canceled();
    let booking = &packet.booking;
    let mut resolution = packet.resolution.clone().unwrap();
    let penalty = resolution.evaluation.penalty.unwrap();
    let amount = |minor| Amount::from_minor(minor, penalty.currency()).unwrap();
    resolution.evaluation.balance_due = Some(amount(1));
    let at = booking.canceled_at.unwrap();
    let canceled = cancellation(booking.booking_id, at, Actor::Organizer);
    let resolved = ResolutionFact::with_words_within(resolution);
    let facts = [alone(&packet, canceled), alone(&packet, resolved)].concat();
    let timeline = sentences(&packet, Wording::LATEST, &facts, &[]).timeline;
    let text = &timeline[1].text;
    let kept = amount(penalty.minor() - 1);
    let told = format!("{kept} is to be kept; USD 0.01 is still owed by the organizer.");
    assert!(text.contains(&told), "{told}: {text}");
}
