//! Checks the readable contents of a packet: they must be what the proven entries hold, or follow from them.

use serde_json::{Map, Value};

use super::super::acceptance;
use super::super::erasure::stand_in;
use super::super::facts::{Fact, LeafPlace, Logged, members};
use super::super::frozen;
use super::super::packet::{Packet, PacketEntry, evaluate, question};
use super::super::state::BookingState;
use super::super::summary::{Wording, summarize};
use super::super::withheld::stand_ins;
use super::entries::erased;
use super::resolution::is_same;
use super::{Misplaced, Outcome, Verification, deliveries, pointer, resolution, terms};
use crate::ledger::LeafKind;
use crate::ledger::jcs::differences;
use crate::model::Booking;
use crate::policy::Terms;

impl Verification<'_> {
    pub(super) fn content(&mut self, packet: &Packet, entries: &[(LeafKind, LeafPlace)]) {
        // The policy's summary and what the terms repeat of the booking come from what is shown. The check of the booking
        // itself compares them with what is recorded.
        let terms = packet.terms.clone();
        let current = terms.thaw(&packet.booking, packet.policy.clone());
        let policy = current
            .as_ref()
            .ok()
            .and_then(|terms| terms.policy.as_ref());
        let policy = policy.map(frozen::policy_summary);
        let folded = facts(packet, entries)
            .and_then(|facts| Ok((BookingState::fold(facts.iter().cloned(), policy)?, facts)));
        let (state, facts) = match folded {
            Ok(folded) => folded,
            Err(fault) => {
                self.check("booking", "/booking", Err(fault));
                return;
            }
        };
        self.check("booking", "/booking", same_booking(packet, &state.booking));
        self.check("policy", "/policy", same_policy(packet));
        self.check("terms", "/terms", terms::same(packet, &state));
        match &current {
            Ok(terms) => {
                match terms::schedule(packet, &state) {
                    Ok((said, terms_versions)) => {
                        self.check("schedule", "/terms", Ok(said));
                        let accepted = acceptance::check(packet, &state, &terms_versions);
                        self.check("acceptances", "/acceptances", accepted);
                    }
                    Err(why) => {
                        self.check("schedule", "/terms", Err(why));
                    }
                }
                self.check("items", "/items", items(packet, &state));
                let resolved = resolution::check(packet, &state, terms);
                self.check("resolution", "/resolution", resolved);
                let evaluated = evaluation(packet, &state, terms);
                self.check("evaluation", "/evaluation", evaluated);
            }
            Err(why) => {
                let why = format!("The terms cannot be read: {why}.");
                self.check("schedule", "/terms", Err(why));
            }
        }
        let told = deliveries::check(packet, &state);
        self.check("deliveries", "/deliveries", told);
        let (place, told) = match summary(packet, &facts) {
            Ok(said) => (String::new(), Ok(said)),
            Err(Misplaced { place, why }) => (place, Err(why)),
        };
        self.check("summary", &format!("/summary{place}"), told);
    }
}

/// Reads the facts that the entries disclose, exactly.
pub(in crate::evidence) fn facts(
    packet: &Packet,
    entries: &[(LeafKind, LeafPlace)],
) -> Result<Vec<Logged<Fact>>, String> {
    let erased = erased(packet)?;
    let read = |(seq, (entry, (kind, place))): (u64, (&PacketEntry, &(LeafKind, LeafPlace)))| {
        let mut members = members(&entry.disclosures);
        stand_in(erased.of_entry(seq), &mut members);
        stand_ins(&entry.body, &packet.withheld, &mut members);
        Ok(Logged {
            place: *place,
            fact: Fact::read(*kind, members)?,
        })
    };
    let entries = packet.entries.iter().zip(entries);
    (0..).zip(entries).map(read).collect()
}

fn same_booking(packet: &Packet, recorded: &Booking) -> Outcome {
    let members = |booking: &Booking| match serde_json::to_value(booking) {
        Ok(Value::Object(members)) => members,
        _ => Map::new(),
    };
    let differences = differences(members(recorded), members(&packet.booking));
    if differences.is_empty() {
        return Ok(format!(
            "Booking {} is shown exactly as these entries of the ledger say, status {} included.",
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
    let mut all = packet.former_terms.iter().chain([&packet.terms]);
    if all.any(|terms| terms.source.is_some() != packet.policy.is_some()) {
        return Err(
            "The terms name the source of a policy but the packet shows no policy, or the reverse."
                .to_owned(),
        );
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

fn items(packet: &Packet, state: &BookingState) -> Outcome {
    let recorded = state.items.iter().map(|logged| &logged.fact);
    if !recorded.eq(&packet.items) {
        return Err("The evidence items shown are not the ones recorded.".to_owned());
    }
    Ok(match packet.items.len() {
        0 => "No entry in the packet is an evidence item.".to_owned(),
        n => format!("{n} recorded: each is shown as the partner stated it."),
    })
}

fn evaluation(packet: &Packet, state: &BookingState, terms: &Terms) -> Outcome {
    let resolution = state.resolution();
    let anew = evaluate(state, terms, packet.created_at);
    let is_same = match (&packet.evaluation, &anew, resolution) {
        (Some(shown), Some(_), None) => {
            let (subject, question) = (state.subject(terms, None), question(packet.created_at));
            let anew = resolution::anew(shown, &subject, &question, terms);
            anew.is_ok_and(|anew| is_same(shown, &anew, terms))
        }
        (shown, anew, _) => shown == anew,
    };
    if !is_same {
        return Err(match resolution {
            Some(_) => "The evaluation shown is not the one that was recorded when the booking was canceled.".to_owned(),
            None => "The evaluation shown differs from the one recomputed from the terms.".to_owned(),
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

fn summary(packet: &Packet, facts: &[Logged<Fact>]) -> Result<String, Misplaced> {
    let version = &packet.summary.version;
    let wording = Wording::of(version).ok_or_else(|| Misplaced {
        place: "/version".to_owned(),
        why: format!(
            "The summary is worded as {version}, which this program does not know. A newer one may."
        ),
    })?;
    let anew = summarize(&packet.material(wording, facts));
    if anew != packet.summary {
        let [shown, anew] = [&packet.summary, &anew].map(serde_json::to_value);
        return Err(Misplaced {
            place: pointer::difference(&shown.unwrap_or_default(), &anew.unwrap_or_default()),
            why: "The summary in words is not what the rest of the packet says.".to_owned(),
        });
    }
    Ok("The summary in words says what the rest of the packet says.".to_owned())
}
