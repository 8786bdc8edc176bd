//! Giving a partner a quota of its own.
//!
//! Each part has a form of its own, because an empty field means the service's default, not that nothing changes.

use bookguard_core::error::Error;
use bookguard_core::features::partners::SetQuota;
use bookguard_core::model::QuotaUse;
use maud::{Markup, html};

use super::{SIZES, account, amount, done, framed, limit, parts};
use crate::config::bytes::Bytes;
use crate::console::{Answer, Asked, Draft, Field, Fields, Kind, User};

pub(in crate::console) async fn send(user: &User, asked: &Asked) -> Result<Answer, Error> {
    let asked = &asked.with(in_bytes(&asked.fields)?);
    user.submit::<SetQuota>(asked).await?;
    Ok(done("The quota is changed."))
}

/// The fields with sizes such as 10 GiB as numbers of bytes.
fn in_bytes(typed: &Fields) -> Result<Fields, Error> {
    let mut fields = typed.clone();
    for name in SIZES {
        let Some(size) = typed.get(name) else {
            continue;
        };
        let Bytes(bytes) = size.parse::<Bytes>().map_err(|_| {
            let fix =
                "Write a whole number of bytes, or one with KiB, MiB, GiB or TiB, such as 10 GiB.";
            Error::fault(name, "wrong_type", "is not a size", fix)
        })?;
        fields = fields.with(name, &bytes.to_string());
    }
    Ok(fields)
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
    let (kind, about) = match SIZES.contains(&name) {
        true => (
            Kind::Text,
            "Such as 10 GiB. 0 means no limit; empty means the service's default.",
        ),
        false => (
            Kind::Number,
            "0 means no limit; empty means the service's default.",
        ),
    };
    let title = format!("New quota: {label}");
    let field = Field::new(name, &title, kind).about(about).plain();
    html! {
        form.card method="post" action=(user.link("/quota")) {
            h2 { (label) }
            p { (amount(name, part.used)) " used of " (limit(name, part)) }
            (draft.field(&field))
            (draft.once())
            button.first aria-label={ "Save: " (label) } { "Save" }
        }
    }
}
