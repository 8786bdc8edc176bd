//! Erasing personal data of a booking: what would go first, then the erasure of just that.

use bookguard_core::error::Error;
use bookguard_core::evidence::{Erasable, LegalBasis, Packet};
use bookguard_core::features::bookings::GetBooking;
use bookguard_core::features::erasures::{EraseValues, ErasedParty, ErasureReport};
use bookguard_core::ledger::TlogProof;
use bookguard_core::model::Scope;
use maud::{Markup, html};

use super::{done, head, packet};
use crate::console::form::{Act, Outcome, Preview, choices, is_correctable};
use crate::console::parts::{counted, fact, hidden, words};
use crate::console::{Answer, Asked, Draft, Field, Fields, Kind, Page, Part, User};

const NAMES: [&str; 4] = ["/party", "/fields", "/legalBasis", "/requestRef"];

pub(in crate::console) async fn ask(user: &User, asked: &Asked) -> Result<Answer, Error> {
    page(user, asked, None).await
}

/// Shows what would go when asked for that, and erases when asked to erase. If something else would go by then, it is shown first.
pub(in crate::console) async fn send(user: &User, asked: &Asked) -> Result<Answer, Error> {
    if Preview::is_to_change(asked) {
        return page(user, asked, None).await;
    }
    match user.send::<EraseValues>(asked).await {
        Ok(would) if would.dry_run => page(user, asked, Some(&would)).await,
        Ok(_) => Ok(done(
            asked,
            "Erased for good. Packets made before the erasure verify, and so do those made after it.",
        )),
        Err(error) if error.code == "erasure_changed" => show_anew(user, asked, error).await,
        Err(error) => Err(error),
    }
}

/// Shows what would go by now.
async fn show_anew(user: &User, asked: &Asked, mut changed: Error) -> Result<Answer, Error> {
    let trial = asked.with(asked.fields.with("/dryRun", "true").with(Fields::ONCE, ""));
    match user.send::<EraseValues>(&trial).await {
        Ok(would) => {
            changed.message =
                "Something was added, erased or released since you looked, so nothing was erased. Below is what would go now."
                    .to_owned();
            page(user, &trial.with_refusal(changed), Some(&would)).await
        }
        Err(error) if is_correctable(&error) => page(user, &trial.with_refusal(error), None).await,
        Err(error) => Err(error),
    }
}

async fn page(user: &User, asked: &Asked, would: Option<&ErasureReport>) -> Result<Answer, Error> {
    let id = asked.id(0);
    let booking = user.read::<GetBooking>(&[id], &[]).await?;
    let draft = asked.draft();
    let places = match would {
        Some(would) if !would.values.is_empty() && user.may(Scope::EvidenceRead) => {
            // Without the packet, entries are numbered as the booking has them.
            packet(user, id)
                .await
                .map_or_else(|_| Vec::new(), |packet| places(&packet))
        }
        _ => Vec::new(),
    };
    let values = Erasable::WORDS.iter();
    let values = values.map(|(word, value)| (*word, words(value.in_words())));
    let values = Kind::Choices(values.collect());
    let fields = [
        Field::new(
            "/party",
            "Whose data?",
            Kind::Choice(choices(ErasedParty::WORDS)),
        )
        .none("Only the values chosen below"),
        Field::new("/fields", "Or which values?", values).about("In all entries of the booking."),
        Field::new(
            "/legalBasis",
            "Why?",
            Kind::Choice(choices(LegalBasis::WORDS)),
        )
        .unanswered(),
        Field::new("/requestRef", "Reference of the request", Kind::Text)
            .about("Such as a case number. The ledger records it until it is erased itself."),
    ];
    let form = Preview {
        address: &user.link(&format!("/bookings/{id}/erase")),
        heading: "1. What to erase, and why",
        fields: &fields,
        names: &NAMES,
    };
    let main = html! {
        (head(user, &booking, "Erase personal data: "))
        (draft.alert(&NAMES))
        div.narrow {
            @if would.is_some() || draft.kept_key().is_some() {
                (form.show(&draft, &outcome(&draft, would, &places)))
            } @else {
                (form.ask(&draft, &hidden("/dryRun", "true"), "Show what would go"))
            }
        }
    };
    Ok(Page::new(Part::Bookings, "Erase personal data", main).form(asked))
}

/// The values that would be erased, and the button that erases them. On a second try, the values are no longer known.
fn outcome(
    draft: &Draft<'_>,
    would: Option<&ErasureReport>,
    places: &[Option<u64>],
) -> Outcome<'static> {
    let heading = "2. What would go";
    if would.is_some_and(ErasureReport::is_empty) {
        return Outcome {
            heading,
            shown: html! { p { "Nothing of this is left to erase." } },
            act: None,
        };
    }
    let hash = match would {
        Some(would) => would.plan_hash.as_deref(),
        None => draft.fields.get("/expected"),
    };
    Outcome {
        heading,
        shown: html! {
            @if let Some(would) = would { (values(would, places)) } @else { p { "What you were shown before." } }
            p { strong { "This cannot be undone." } " Deliveries of these events that still wait are dropped. The ledger keeps digests that nobody can open again." }
        },
        act: Some(Act {
            names: &NAMES,
            beside: html! { @if let Some(hash) = hash { (hidden("/expected", hash)) } },
            class: "danger",
            label: "Erase it for good",
        }),
    }
}

/// The places in the ledger of the booking's entries, oldest first.
fn places(packet: &Packet) -> Vec<Option<u64>> {
    let proofs = packet.entries.iter().map(|entry| &entry.proof);
    proofs
        .map(|proof| TlogProof::parse(proof).ok().map(|proof| proof.index))
        .collect()
}

/// An entry of this number in the booking's chain as the timeline calls it, for those who may see its place in the ledger.
fn entry(number: u64, places: &[Option<u64>]) -> String {
    let place = usize::try_from(number)
        .ok()
        .and_then(|number| places.get(number));
    match place {
        Some(Some(place)) => format!("Entry {place} of the ledger"),
        _ => format!("Entry {} of the booking", number + 1),
    }
}

/// The values by entry, and what goes beside them.
fn values(would: &ErasureReport, places: &[Option<u64>]) -> Markup {
    let beside = [
        (
            would.events.len(),
            "event",
            "Bodies of events, and attempts",
        ),
        (would.files.len(), "file", "Files of evidence items"),
        (would.shares.len(), "note", "Notes on links to the evidence"),
        (would.holds.len(), "hold", "Texts of released holds"),
    ];
    let beside = beside.into_iter().filter(|(number, ..)| *number > 0);
    html! {
        dl {
            @for values in &would.values {
                @let names: Vec<&str> = values.names.iter().map(|name| name.in_words()).collect();
                (fact(&entry(values.entry, places), words(&names.join(", "))))
            }
            @for (number, thing, what) in beside { (fact(what, counted(number as u64, thing))) }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_erasure_of_which_nobody_knows_is_sent_again_as_it_was() {
        let pair = |name: &str, text: &str| (name.to_owned(), text.to_owned());
        let sent = Fields::new(vec![
            pair("/party", "talent"),
            pair("/legalBasis", "objection"),
            pair("/expected", "sha256:0"),
            pair(Fields::ONCE, "0a1b"),
        ]);
        let open = Error::unavailable("Nobody knows.");
        let draft = Draft {
            fields: &sent,
            refused: Some(&open),
        };
        let again = outcome(&draft, None, &[]).card("/to", &draft).into_string();
        for (name, text) in sent.pairs() {
            let kept = format!("<input type=\"hidden\" name=\"{name}\" value=\"{text}\">");
            assert!(again.contains(&kept), "{kept}: {again}");
        }
        assert!(again.contains("counts only once"), "{again}");
    }
}
