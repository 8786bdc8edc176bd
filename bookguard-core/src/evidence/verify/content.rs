//! What a packet says in plain: that it is what the proven records say, and what anybody computes from them.

use super::super::frozen;
use super::super::packet::{Packet, evaluate};
use super::super::rebuild::{DisclosedFact, Ended, Rebuilt, differences, rebuild};
use super::super::summary::{Landmark, Material, summarize};
use super::{Outcome, Proven, Verification, acceptance, deliveries, resolution, terms};
use crate::ledger::Checkpoint;
use crate::model::Booking;
use crate::policy::Terms;

impl Verification {
    pub(super) fn content(&mut self, packet: &Packet, entries: &[Proven], head: &Checkpoint) {
        let facts: Vec<DisclosedFact> = entries
            .iter()
            .map(|entry| DisclosedFact {
                kind: entry.kind,
                at: entry.at,
                fields: entry.fields.clone(),
            })
            .collect();
        // The summary of the policy and all that the terms repeat of the booking comes from what is shown; that it is also
        // what is recorded is checked on the booking itself.
        let current = packet
            .terms
            .clone()
            .thaw(&packet.booking, packet.policy.clone());
        let policy = current
            .as_ref()
            .ok()
            .and_then(|terms| terms.policy.as_ref());
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
        self.check("terms", "/terms", terms::same(packet, &rebuilt));
        match &current {
            Ok(terms) => {
                let terms_versions = terms::schedule(packet, &rebuilt);
                let (said, terms_versions) = terms_versions.map_or_else(
                    |why| (Err(why), None),
                    |(said, terms_versions)| (Ok(said), Some(terms_versions)),
                );
                self.check("schedule", "/terms", said);
                if let Some(terms_versions) = terms_versions {
                    let accepted = acceptance::check(packet, &rebuilt, &terms_versions);
                    self.check("acceptances", "/acceptances", accepted);
                }
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
        let told = deliveries::check(packet, &rebuilt);
        self.check("deliveries", "/deliveries", told);
        let said = summary(packet, &rebuilt, entries, head);
        self.check("summary", "/summary", said);
    }
}

fn same_booking(packet: &Packet, recorded: &Booking) -> Outcome {
    let differences = differences(recorded, &packet.booking);
    if differences.is_empty() {
        return Ok(format!(
            "Booking {} is shown exactly as these records of the ledger say, status {} included.",
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

fn evaluation(packet: &Packet, rebuilt: &Rebuilt, terms: &Terms) -> Outcome {
    let resolution = rebuilt.ended.as_ref().map(Ended::latest);
    let under = (terms, rebuilt.reschedules());
    let anew = evaluate(&rebuilt.booking, resolution, under, packet.created_at);
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

fn summary(packet: &Packet, rebuilt: &Rebuilt, entries: &[Proven], head: &Checkpoint) -> Outcome {
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
        notifications: &rebuilt.notifications,
        deliveries: &packet.deliveries,
    });
    if anew != packet.summary {
        return Err("The summary in words is not what the rest of the packet says.".to_owned());
    }
    Ok("The summary in words says what the rest of the packet says.".to_owned())
}
