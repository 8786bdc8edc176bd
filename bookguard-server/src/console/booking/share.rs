//! Links with which people without an account see a booking's evidence.

use bookguard_core::error::Error;
use bookguard_core::evidence::Withheld;
use bookguard_core::features::bookings::GetBooking;
use bookguard_core::features::shares::{CreateShare, RevokeShare};
use maud::html;

use super::title;
use crate::console::form::{Field, Kind};
use crate::console::parts::{copyable, time, words};
use crate::console::user::User;
use crate::console::{Answer, Asked, Page, Part};

const NAMES: [&str; 3] = ["/note", "/expiresIn", "/withhold"];

/// Shows the link once, on the page that answers: it is stored nowhere.
pub(in crate::console) async fn send(user: &User, asked: &Asked) -> Result<Answer, Error> {
    let made = user.send::<CreateShare>(asked).await?;
    let main = html! {
        div.title { h1 { "The link" } }
        section.card.narrow {
            p { "Anybody who has it sees the evidence until " (time(made.expires_at)) "." }
            p { (copyable(&made.url)) }
            p.alert.warn { "It is shown only once. Copy it before you leave this page." }
            a.button href=(user.link(&format!("/bookings/{}", asked.id(0)))) { "Back to the booking" }
        }
    };
    Ok(Page::new(Part::Bookings, "Link to the evidence", main).ok())
}

pub(in crate::console) async fn page(
    user: &User,
    asked: &Asked,
    refused: Option<&Error>,
) -> Result<Answer, Error> {
    let id = asked.id(0);
    let booking = user.read::<GetBooking>(&[id], &[]).await?;
    let draft = asked.draft(refused);
    let lasts = [
        ("P1D", "A day"),
        ("P7D", "A week"),
        ("P30D", "30 days"),
        ("P90D", "90 days"),
        ("P366D", "A year"),
    ];
    let lasts = lasts.map(|(word, text)| (word, text.to_owned()));
    let hidden: Vec<_> = Withheld::WORDS
        .iter()
        .map(|(word, value)| (*word, words(value.in_words())))
        .collect();
    let note = Field::new("/note", "Note", Kind::Text).about(user.told(
        "For your own list, such as who receives it. Visitors do not see it.",
        "For the partner's own list, such as who receives it. Visitors do not see it.",
    ));
    let expires = Field::new("/expiresIn", "Works for", Kind::Choice(&lasts))
        .value("P30D")
        .required();
    let withhold = Field::new("/withhold", "Leave out", Kind::Choices(&hidden));
    let main = html! {
        p.back { a href=(user.link(&format!("/bookings/{id}"))) { "← Back to the booking" } }
        div.title { h1 { "Share the evidence: " (title(&booking)) } }
        (draft.alert(&NAMES))
        form.card.narrow method="post" action=(user.link(&format!("/bookings/{id}/share"))) {
            (draft.field(&note)) (draft.field(&expires)) (draft.field(&withhold))
            (draft.once())
            button.first { "Make the link" }
        }
    };
    Ok(Page::new(Part::Bookings, "Share the evidence", main).form(refused))
}

pub(in crate::console) async fn confirm(user: &User, asked: &Asked) -> Result<Answer, Error> {
    let (id, share) = (asked.id(0), asked.id(1));
    let booking = user.read::<GetBooking>(&[id], &[]).await?;
    let main = html! {
        p.back { a href=(user.link(&format!("/bookings/{id}"))) { "← Back to the booking" } }
        div.title { h1 { "Revoke the link " (share) } }
        form.card.narrow method="post" {
            p { "It will no longer show the evidence of " (title(&booking)) ". What was downloaded before cannot be taken back." }
            button.danger { "Revoke the link" }
        }
    };
    Ok(Page::new(Part::Bookings, "Revoke a link", main).ok())
}

pub(in crate::console) async fn revoke(user: &User, asked: &Asked) -> Result<Answer, Error> {
    user.submit::<RevokeShare>(asked).await?;
    let told = "The link is revoked.";
    Ok(Answer::done(format!("/bookings/{}", asked.id(0)), told))
}
