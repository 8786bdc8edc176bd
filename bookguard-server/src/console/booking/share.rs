//! Links with which people without an account see a booking's evidence.

use bookguard_core::error::Error;
use bookguard_core::evidence::{Share, Withheld};
use bookguard_core::features::bookings::GetBooking;
use bookguard_core::features::shares::{CreateShare, ListShares, RevokeShare};
use bookguard_core::model::{Page as Rows, Scope, Timestamp};
use maud::{Markup, html};

use super::{done, head};
use crate::console::form::labelled;
use crate::console::parts::{grouped, next_page, records, shown_once, time, words};
use crate::console::{Answer, Asked, Field, Fields, Kind, Page, Part, User};

const NAMES: [&str; 3] = ["/note", "/expiresIn", "/withhold"];

/// The field with the cursor of the links, on the page of their booking.
const LINKS: &str = "links";

/// The links to a booking's evidence, newest first.
pub(super) async fn of(user: &User, asked: &Asked) -> Result<Rows<Share>, Error> {
    let cursor = asked.fields.get(LINKS).unwrap_or_default();
    let query = [("limit", "100"), ("cursor", cursor)];
    user.read::<ListShares>(&[asked.id(0)], &query).await
}

/// The links that were found, and the ways to older and to the newest ones.
pub(super) fn list(user: &User, asked: &Asked, found: &Rows<Share>) -> Markup {
    let booking = format!("/bookings/{}", asked.id(0));
    let rows = found.data.iter().map(|share| {
        let is_live = is_live(share, asked.now);
        let revoke = user.link(&format!("{booking}/shares/{}/revoke", share.share_id));
        html! {
            td { @match &share.note { Some(note) => (note), None => span.soft { "without a note" } } small { (share.share_id) } }
            td { @if is_live { "until " (time(share.expires_at)) } @else if share.revoked_at.is_some() { "revoked" } @else { "expired" } }
            td { (grouped(&share.views.to_string())) @if let Some(at) = share.last_viewed_at { small { "last " (time(at)) } } }
            td { @if is_live && user.may(Scope::EvidenceShare) {
                a href=(revoke) aria-label={ "Revoke: " (name(share)) } { "Revoke" }
            } }
        }
    });
    let next = found.next_cursor.as_deref();
    html! {
        @if !found.data.is_empty() { (records("Links to the evidence", &["Link", "Works", "Views", "Actions"], rows)) }
        (next_page(user, &booking, &Fields::default(), LINKS, next, "Older links"))
        @if asked.fields.get(LINKS).is_some() { p { a href=(user.link(&booking)) { "Newest links" } } }
    }
}

/// Whether a link still shows the evidence.
fn is_live(share: &Share, now: Timestamp) -> bool {
    share.revoked_at.is_none() && share.expires_at > now
}

/// What people call a link: its note, or its id.
fn name(share: &Share) -> String {
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
    let share = user
        .row::<ListShares, _, _>(&[id], share_id, |share| share.share_id)
        .await?;
    let is_over = |share: &Share| !is_live(share, asked.now);
    if share.as_ref().is_some_and(is_over) {
        return Ok(Answer::Go(format!("/bookings/{id}"), None));
    }
    let main = html! {
        (head(user, &booking, "Revoke a link to the evidence of "))
        form.card.narrow method="post" action=(user.link(&format!("/bookings/{id}/shares/{share_id}/revoke"))) {
            @match &share {
                Some(share) => p { strong { (name(share)) } ", made " (time(share.created_at)) ", works until " (time(share.expires_at)) "." },
                None => p { strong { (share_id) } },
            }
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
