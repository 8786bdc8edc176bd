//! Suspending a partner.

use bookguard_core::error::Error;
use bookguard_core::features::partners::account::SuspendPartner;
use maud::html;

use super::{account, done, framed};
use crate::console::{Answer, Asked, User};

pub(in crate::console) async fn send(user: &User, asked: &Asked) -> Result<Answer, Error> {
    user.submit::<SuspendPartner>(asked).await?;
    Ok(done("The partner is suspended."))
}

pub(in crate::console) async fn page(user: &User, asked: &Asked) -> Result<Answer, Error> {
    let form = html! {
        form.card.narrow method="post" action=(user.link("/suspend")) {
            p { "Within five seconds, the keys of " strong { (account(user)?.partner.name) } " can only read: whatever its programs and people ask for \
                beyond that is refused." }
            p { "Its bookings, evidence and links stay, its webhooks go on, and you can still act for it. You can reinstate it." }
            (asked.draft().once())
            button.danger { "Suspend the partner" }
        }
    };
    framed(user, asked, "Suspend the partner", &[], form)
}
