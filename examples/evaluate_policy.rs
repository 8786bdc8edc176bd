//! Computes what a cancellation costs under your own policy, without a service. The service and its previews call the same
//! function.
//!
//! `cargo run -p bookguard-examples --example evaluate_policy`

use bookguard_core::model::{Amount, BookingId, Currency, Timestamp};
use bookguard_core::policy::{
    Actor, Booked, Evaluation, EventDate, MissingZone, Mode, Policy, PolicySource, Question,
    Standing, Subject, Terms, evaluate_now,
};

const POLICY: &str = r#"{
  "policyId": "house",
  "organizer": {
    "tiers": [
      {"before": "P30D", "outcome": {"refundBps": 10000}},
      {"before": "P7D", "outcome": {"refundBps": 5000}}
    ],
    "late": {"refundBps": 0}
  }
}"#;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    for at in [
        "2031-05-01T12:00:00Z",
        "2031-06-01T12:00:00Z",
        "2031-06-18T12:00:00Z",
    ] {
        let evaluation = canceled_by_organizer(POLICY, at)?;
        println!("{}", evaluation.explanation.text);
    }
    Ok(())
}

/// Evaluates the cancellation, at this moment and by its organizer, of a concert for USD 1200.50 in New York.
fn canceled_by_organizer(policy: &str, at: &str) -> Result<Evaluation, Box<dyn std::error::Error>> {
    let time = |text: &str| Timestamp::parse(text).ok_or("a moment is RFC 3339");
    // In words, an error names the first faults of the policy, each with its place and a fix; its `details` list them all.
    let policy = Policy::from_json(policy)?;
    let booked = Booked {
        event_date: EventDate::parse("2031-06-20T19:00:00").ok_or("an event has a date")?,
        time_zone: Some("America/New_York"),
        partner_time_zone: None,
        value: Amount::parse("1200.50", Currency::USD).map_err(|error| error.to_string())?,
        paid: None,
        created_at: time("2031-01-10T15:00:00Z")?,
    };
    // Terms are frozen once, when a booking is made; from then on they always give the same result.
    let adopted = Some((policy, PolicySource::Booking));
    let terms = Terms::freeze(adopted, &booked, MissingZone::Refuse)?;
    let booking = Subject {
        booking_id: BookingId::parse("bkg_0198f2a4c8d07e3fa1b2c3d4e5f60718").ok_or("an id")?,
        terms: &terms,
        standing: Standing::Protected,
        reschedules: &[],
    };
    let question = Question {
        mode: Mode::Evaluate,
        actor: Actor::Organizer,
        reason: None,
        at: Some(time(at)?),
        received_at: time(at)?,
        evidence: 0,
        agreed_refund: None,
    };
    Ok(evaluate_now(&booking, &question)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_step_gives_its_share() {
        for (at, refund) in [
            ("2031-05-01T12:00:00Z", "USD 1200.50"),
            ("2031-06-01T12:00:00Z", "USD 600.25"),
            ("2031-06-18T12:00:00Z", "USD 0.00"),
        ] {
            let evaluation = canceled_by_organizer(POLICY, at).unwrap();
            assert_eq!(evaluation.refund.unwrap().to_string(), refund, "{at}");
        }
        let refused = canceled_by_organizer("{}", "2031-05-01T12:00:00Z").unwrap_err();
        let said = refused.to_string();
        for place in ["/policyId: ", "/organizer: "] {
            assert!(said.contains(place), "{said}");
        }
    }
}
