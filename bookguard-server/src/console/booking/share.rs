//! Links with which people without an account see a booking's evidence.

use bookguard_core::error::Error;
use bookguard_core::evidence::{Share, Withheld};
use bookguard_core::features::bookings::GetBooking;
use bookguard_core::features::shares::{CreateShare, ListShares, RevokeShare};
use bookguard_core::model::Timestamp;
use maud::html;

use super::{done, head};
use crate::console::form::labelled;
use crate::console::parts::{shown_once, time, words};
use crate::console::{Answer, Asked, Field, Kind, Page, Part, User};

const NAMES: [&str; 3] = ["/note", "/expiresIn", "/withhold"];

/// The links to a booking's evidence, newest first.
pub(super) async fn of(user: &User, id: &str) -> Result<Vec<Share>, Error> {
    let shares = user.read::<ListShares>(&[id], &[("limit", "100")]).await?;
    Ok(shares.data)
}

/// Whether a link still shows the evidence.
pub(super) fn is_live(share: &Share, now: Timestamp) -> bool {
    share.revoked_at.is_none() && share.expires_at > now
}

/// What people call a link: its note, or its id.
pub(super) fn name(share: &Share) -> String {
    let note = share.note.clone();
    note.unwrap_or_else(|| share.share_id.to_string())
}

/// Shows the link once, on the page that answers: it is stored nowhere.
pub(in crate::console) async fn send(user: &User, asked: &Asked) -> Result<Answer, Error> {
    let made = user.send::<CreateShare>(asked).await?;
    let about = html! { "Anybody who has it sees the evidence until " (time(made.expires_at)) "." };
    let page = (Part::Bookings, "Link to the evidence");
    let booking = user.link(&format!("/bookings/{}", asked.id(0)));
    let next = Some((booking, "Back to the booking"));
    Ok(shown_once(page, "The link", about, &made.url, next))
}

pub(in crate::console) async fn page(user: &User, asked: &Asked) -> Result<Answer, Error> {
    let id = asked.id(0);
    let booking = user.read::<GetBooking>(&[id], &[]).await?;
    let draft = asked.draft();
    let lasts = labelled(&[
        ("P1D", "A day"),
        ("P7D", "A week"),
        ("P30D", "30 days"),
        ("P90D", "90 days"),
        ("P366D", "A year"),
    ]);
    let left_out = Withheld::WORDS.iter();
    let left_out = left_out.map(|(word, value)| (*word, words(value.in_words())));
    let left_out = Kind::Choices(left_out.collect());
    let note = user.told(
        "For your own list, such as who receives it. Visitors do not see it.",
        "For the partner's own list, such as who receives it. Visitors do not see it.",
    );
    let main = html! {
        (head(user, &booking, "Share the evidence: "))
        (draft.alert(&NAMES))
        form.card.narrow method="post" action=(user.link(&format!("/bookings/{id}/share"))) {
            (draft.field(&Field::new("/note", "Note", Kind::Text).about(note)))
            (draft.field(&Field::new("/expiresIn", "Works for", Kind::Choice(lasts)).value("P30D").required()))
            (draft.field(&Field::new("/withhold", "Leave out", left_out)))
            (draft.once())
            button.first { "Make the link" }
        }
    };
    Ok(Page::new(Part::Bookings, "Share the evidence", main).form(asked))
}

pub(in crate::console) async fn confirm(user: &User, asked: &Asked) -> Result<Answer, Error> {
    let (id, share_id) = (asked.id(0), asked.id(1));
    let booking = user.read::<GetBooking>(&[id], &[]).await?;
    let mut shares = of(user, id).await?.into_iter();
    let share = shares.find(|share| share.share_id.to_string() == share_id);
    let share = share.ok_or_else(|| Error::not_found("share"))?;
    if !is_live(&share, asked.now) {
        return Ok(Answer::Go(format!("/bookings/{id}"), None));
    }
    let main = html! {
        (head(user, &booking, "Revoke a link to the evidence of "))
        form.card.narrow method="post" action=(user.link(&format!("/bookings/{id}/shares/{share_id}/revoke"))) {
            p { strong { (name(&share)) } ", made " (time(share.created_at)) ", works until " (time(share.expires_at)) "." }
            p { "It will no longer show the evidence. What was downloaded before cannot be taken back." }
            button.danger { "Revoke the link" }
        }
    };
    Ok(Page::new(Part::Bookings, "Revoke a link", main).ok())
}

pub(in crate::console) async fn revoke(user: &User, asked: &Asked) -> Result<Answer, Error> {
    user.submit::<RevokeShare>(asked).await?;
    Ok(done(asked, "The link is revoked."))
}
