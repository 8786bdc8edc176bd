//! Correcting a partner's name and contact.

use bookguard_core::error::Error;
use bookguard_core::features::partners::account::EditPartner;
use bookguard_core::operation::Operation as _;
use maud::html;

use super::{account, done, framed};
use crate::console::{Answer, Asked, Field, Kind, User};

const NAMES: [&str; 3] = ["/name", "/contactEmail", "/website"];

pub(in crate::console) async fn send(user: &User, asked: &Asked) -> Result<Answer, Error> {
    let changed = asked.with(asked.fields.changed(&NAMES));
    let told = match changed.fields.body(EditPartner::ROUTE.body) == b"{}" {
        true => "Nothing was changed.",
        false => "The partner is changed.",
    };
    user.submit::<EditPartner>(&changed).await?;
    Ok(done(told))
}

pub(in crate::console) async fn page(user: &User, asked: &Asked) -> Result<Answer, Error> {
    let draft = asked.draft();
    let partner = &account(user)?.partner;
    let site = partner.website.as_deref().unwrap_or_default();
    let fields = [
        Field::new("/name", "Name", Kind::Text)
            .value(&partner.name)
            .required(),
        Field::new("/contactEmail", "Contact, an email address", Kind::Text)
            .value(&partner.contact_email)
            .required(),
        Field::new("/website", "Site", Kind::Url).value(site),
    ];
    let form = html! {
        form.card.narrow method="post" action=(user.link("/edit")) {
            @for field in &fields { (draft.field(field)) (draft.start(field)) }
            (draft.once())
            button.first { "Save" }
        }
    };
    framed(user, asked, "Edit the partner", &NAMES, form)
}
