//! What a packet says in plain: that it is what the proven records say, and what anybody computes from them.

use super::super::frozen;
use super::super::packet::{Packet, evaluate};
use super::super::rebuild::{Ended, Rebuilt, Told, differences, rebuild};
use super::super::summary::{Landmark, Material, summarize};
use super::{Outcome, Proven, Verification, resolution};
use crate::ledger::Checkpoint;
use crate::model::Booking;
use crate::policy::{Assumption, Booked, MissingZone, Segment, Terms, Zone};

/// How far a later edition of the time-zone tables can move an instant: no zone has moved its clocks further at once,
/// short of crossing the date line.
const ZONE_CHANGE_MS: i64 = 3 * 60 * 60 * 1000;

impl Verification {
    pub(super) fn content(&mut self, packet: &Packet, entries: &[Proven], head: &Checkpoint) {
        let facts: Vec<Told> = entries
            .iter()
            .map(|entry| Told {
                kind: entry.kind,
                at: entry.at,
                fields: entry.fields.clone(),
            })
            .collect();
        // The summary of the policy and all that the terms repeat of the booking comes from what is shown; that it is also
        // what is recorded is checked on the booking itself.
        let terms = packet
            .terms
            .clone()
            .thaw(&packet.booking, packet.policy.clone());
        let policy = terms.as_ref().ok().and_then(|terms| terms.policy.as_ref());
        let policy = policy.map(frozen::policy_summary);
        let rebuilt = match rebuild(&facts, policy) {
            Ok(rebuilt) => rebuilt,
            Err(faults) => {
                self.check("booking", "/booking", Err(faults.join(" ")));
                return;
            }
        };
        self.check(
            "booking",
            "/booking",
            same_booking(packet, &rebuilt.booking),
        );
        self.check("policy", "/policy", same_policy(packet));
        self.check("terms", "/terms", same_terms(packet, &rebuilt));
        match &terms {
            Ok(terms) => {
                self.check("schedule", "/terms", schedule(&rebuilt.booking, terms));
                let resolved = resolution::check(packet, &rebuilt, terms);
                self.check("resolution", "/resolution", resolved);
                let evaluated = evaluation(packet, &rebuilt, terms);
                self.check("evaluation", "/evaluation", evaluated);
            }
            Err(why) => {
                self.check(
                    "schedule",
                    "/terms",
                    Err(format!("The terms cannot be read: {why}.")),
                );
            }
        }
        self.check("summary", "/summary", summary(packet, entries, head));
        self.check("deliveries", "/deliveries", Ok(
            "The list of notifications is what the service says, under its signature; the ledger itself does not prove it."
                .to_owned(),
        ));
    }
}

fn same_booking(packet: &Packet, recorded: &Booking) -> Outcome {
    let differences = differences(recorded, &packet.booking);
    if differences.is_empty() {
        return Ok(format!(
            "Booking {} is shown exactly as the ledger recorded it, status {} included.",
            recorded.booking_id,
            recorded.status.word()
        ));
    }
    let said: Vec<String> = differences
        .into_iter()
        .map(|(name, shown, said)| {
            format!("{name}: the packet shows {shown}, the ledger recorded {said}")
        })
        .collect();
    Err(format!(
        "The booking is not shown as the ledger recorded it. {}.",
        said.join("; ")
    ))
}

fn same_policy(packet: &Packet) -> Outcome {
    if packet.policy_hash != packet.terms.adopted {
        return Err("The policy shown is not the one the terms name.".to_owned());
    }
    match (&packet.policy, &packet.policy_hash) {
        (None, None) => Ok("The terms were fixed without a cancellation policy.".to_owned()),
        (Some(policy), Some(hash)) if policy.hash() == hash => Ok(format!(
            "The cancellation policy, {} version {}, is word for word the one the terms name.",
            policy.document().policy_id,
            policy.document().version
        )),
        _ => Err(
            "The text of the cancellation policy is not that of the one the terms name.".to_owned(),
        ),
    }
}

fn same_terms(packet: &Packet, rebuilt: &Rebuilt) -> Outcome {
    let hash = frozen::hash_of(
        &packet.terms.clone().stored(),
        packet.terms.adopted.as_deref(),
    );
    if hash != rebuilt.terms_hash {
        return Err(
            "The terms shown are not the ones fixed when the booking was recorded.".to_owned(),
        );
    }
    match &rebuilt.terms {
        None => Ok("The terms are the ones fixed when the booking was recorded.".to_owned()),
        Some(locked) if *locked == packet.terms => Ok(
            "The terms are the ones fixed when the booking was recorded, and the same that were locked when it was protected."
                .to_owned(),
        ),
        Some(_) => Err("The terms locked by the protection are not the ones fixed when the booking was recorded.".to_owned()),
    }
}

/// Freezes the terms anew from the booking's facts. Time-zone tables change, and the schedule once agreed counts; so under
/// a named zone instants may differ by hours, and rules and sums not at all.
fn schedule(booking: &Booking, terms: &Terms) -> Outcome {
    let wrong =
        || "The schedule of deadlines is not what the policy gives for this booking.".to_owned();
    let anew = refrozen(booking, terms).ok_or_else(wrong)?;
    if anew == *terms && booking.event_date == terms.anchor {
        return Ok(
            "Deadlines and amounts are what the policy gives for this booking, recomputed."
                .to_owned(),
        );
    }
    let named = matches!(terms.time_zone, Zone::Named(_));
    let close = |a: crate::model::Timestamp, b: crate::model::Timestamp| {
        (a.ms() - b.ms()).abs() <= ZONE_CHANGE_MS
    };
    let alike = |(a, b): (&Segment, &Segment)| {
        (a.rule_id, a.refund, a.penalty) == (b.rule_id, b.refund, b.penalty)
            && close(a.from, b.from)
            && close(a.to, b.to)
    };
    let same = anew.schedule.len() == terms.schedule.len()
        && anew.schedule.iter().zip(&terms.schedule).all(alike)
        && close(anew.anchor, terms.anchor)
        && close(anew.claim_until, terms.claim_until)
        && booking.event_date == terms.anchor
        && Terms {
            anchor: terms.anchor,
            claim_until: terms.claim_until,
            schedule: terms.schedule.clone(),
            ..anew
        } == *terms;
    if named && same {
        return Ok(format!(
            "Deadlines and amounts are what the policy gives for this booking, but for a change of the clocks in {} since; the \
             ones agreed on then count.",
            terms.time_zone
        ));
    }
    Err(wrong())
}

/// The terms this booking would get today.
pub(crate) fn refrozen(booking: &Booking, terms: &Terms) -> Option<Terms> {
    let zone = match terms.time_zone {
        Zone::Named(zone) if !terms.assumptions.contains(&Assumption::TimeZoneAssumedUtc) => {
            Some(zone.name())
        }
        _ => None,
    };
    let paid = match &booking.amount_paid {
        Some(paid) => Some(crate::model::Amount::parse(&paid.to_string(), booking.currency).ok()?),
        None => None,
    };
    let booked = Booked {
        event_date: terms.event_date,
        time_zone: booking.time_zone.as_deref(),
        // The one place a zone can come from that is neither the booking, nor the policy, nor the date.
        partner_time_zone: zone,
        value: booking.value()?,
        paid,
        created_at: booking.created_at,
    };
    let policy = terms
        .policy
        .as_ref()
        .map(|policy| (policy.document.clone(), policy.policy_source));
    Terms::freeze(policy, &booked, MissingZone::AssumeUtc).ok()
}

fn evaluation(packet: &Packet, rebuilt: &Rebuilt, terms: &Terms) -> Outcome {
    let resolution = rebuilt.ended.as_ref().map(Ended::latest);
    let anew = evaluate(&rebuilt.booking, resolution, terms, packet.created_at);
    if anew != packet.evaluation {
        return Err(match resolution {
            Some(_) => "The evaluation shown is not the one that was recorded when the booking was canceled.".to_owned(),
            None => "The evaluation of the policy is not what the terms give, recomputed.".to_owned(),
        });
    }
    Ok(match (&packet.evaluation, resolution) {
        (Some(_), Some(resolution)) => format!(
            "The evaluation shown is the one recorded in resolution {}.",
            resolution.resolution_id
        ),
        (Some(evaluation), None) => format!(
            "What canceling at {} would come to ({}) was recomputed from the terms with the same result.",
            packet.created_at, evaluation.resolution_path
        ),
        (None, _) => "The terms give no evaluation, and the packet shows none.".to_owned(),
    })
}

fn summary(packet: &Packet, entries: &[Proven], head: &Checkpoint) -> Outcome {
    let entries: Vec<Landmark> = entries
        .iter()
        .map(|entry| Landmark {
            kind: entry.kind,
            at: entry.at,
            index: entry.index,
        })
        .collect();
    let anew = summarize(&Material {
        origin: &head.origin,
        created_at: packet.created_at,
        booking: &packet.booking,
        entries: &entries,
        evaluation: packet.evaluation.as_ref(),
        resolution: packet.resolution.as_ref(),
        deliveries: &packet.deliveries,
    });
    if anew != packet.summary {
        return Err("The summary in words is not what the rest of the packet says.".to_owned());
    }
    Ok("The summary in words says what the rest of the packet says.".to_owned())
}
