//! Giving a partner a quota of its own.
//!
//! Each part has a form of its own, because an empty field means the service's default, not that nothing changes.

use bookguard_core::error::Error;
use bookguard_core::features::partners::SetQuota;
use bookguard_core::model::QuotaUse;
use maud::{Markup, html};

use super::{account, done, framed, limit, parts};
use crate::console::parts::grouped;
use crate::console::{Answer, Asked, Draft, Field, Fields, Kind, User};

pub(in crate::console) async fn send(user: &User, asked: &Asked) -> Result<Answer, Error> {
    user.submit::<SetQuota>(asked).await?;
    Ok(done("The quota is changed."))
}

pub(in crate::console) async fn page(user: &User, asked: &Asked) -> Result<Answer, Error> {
    let parts = parts(&account(user)?.quota);
    let draft = asked.draft();
    let names = parts.map(|(name, ..)| name);
    let forms = html! {
        p.lead { "Beyond its quota, a partner can add nothing new. Existing bookings are protected, canceled and delivered as before." }
        div.grid { @for part in parts { (part_form(user, &draft, part)) } }
    };
    framed(user, asked, "Change the quota", &names, forms)
}

fn part_form(
    user: &User,
    draft: &Draft<'_>,
    (name, label, part): (&str, &str, QuotaUse),
) -> Markup {
    let untouched = Fields::default();
    let untouched = Draft {
        fields: &untouched,
        refused: None,
    };
    // The form that was sent shows its refusal; the others are as before.
    let draft = match draft.fields.has(name) {
        true => draft,
        false => &untouched,
    };
    let field = Field::new(name, "New quota", Kind::Number)
        .about("0 means no limit; empty means the service's default.")
        .plain();
    html! {
        form.card method="post" action=(user.link("/quota")) {
            h2 { (label) }
            p { (grouped(&part.used.to_string())) " used of " (limit(part)) }
            (draft.field(&field))
            (draft.once())
            button.first aria-label={ "Save: " (label) } { "Save" }
        }
    }
}
