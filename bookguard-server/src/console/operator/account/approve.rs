//! Approving a partner that waits, which makes its first key.

use bookguard_core::error::Error;
use bookguard_core::features::partners::{ApprovePartner, Registration};
use bookguard_core::model::PartnerStatus;
use maud::html;

use super::{account, framed};
use crate::console::parts::{copyable, fact};
use crate::console::{Answer, Asked, Page, Part, User};

pub(in crate::console) async fn send(user: &User, asked: &Asked) -> Result<Answer, Error> {
    let approved = user.send::<ApprovePartner>(asked).await?;
    Ok(credentials(user, &approved))
}

pub(in crate::console) async fn page(user: &User, asked: &Asked) -> Result<Answer, Error> {
    let partner = &account(user)?.partner;
    let draft = asked.draft();
    // Whoever sends it again after it was received sees the key after all.
    let is_open = partner.status == PartnerStatus::Pending || draft.kept_key().is_some();
    let form = html! {
        @if is_open {
            form.card.narrow method="post" action=(user.link("/approve")) {
                p { "This lets " strong { (partner.name) } " use the service. The next page shows its first API key, which may do everything, and \
                    the signing secret of its webhooks, once. Be ready to hand them over on an encrypted channel." }
                p { strong { "This cannot be undone." } " You can suspend the partner later, and revoke the key." }
                (draft.once())
                button.first { "Approve the partner" }
            }
        } @else {
            div.card.narrow {
                p { strong { (partner.name) } " does not wait for approval. Further keys are made under " a href=(user.link("/keys")) { "Keys and people" } "." }
            }
        }
    };
    framed(user, asked, "Approve the partner", &[], form)
}

/// The page that shows a partner's first key and its signing secret once.
fn credentials(user: &User, approved: &Registration) -> Answer {
    let values = [
        ("API key, with all scopes", &approved.api_key),
        ("Signing secret of its webhooks", &approved.signing_secret),
    ];
    let main = html! {
        div.title { h1 { (approved.name) " is approved" } }
        section.card.narrow {
            p { "Hand these over on an encrypted channel." }
            dl { @for (name, value) in values { @if let Some(value) = value { (fact(name, copyable(value))) } } }
            p.alert.warn { "They are shown only once. Copy them before you leave this page." }
            a.button href=(user.link("")) { "To the partner" }
        }
    };
    Page::new(Part::Partners, "Partner approved", main).ok()
}
