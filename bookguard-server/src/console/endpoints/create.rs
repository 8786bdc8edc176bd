//! Adding an endpoint.

use bookguard_core::error::Error;
use bookguard_core::features::endpoints::CreateEndpoint;
use bookguard_core::model::Scope;
use maud::html;

use super::{NAMES, address, description, rate_limit, secret, types};
use crate::console::form::labelled;
use crate::console::parts::back;
use crate::console::{Answer, Asked, Field, Kind, Page, Part, User};

const PATH: &str = "/endpoints/new";

pub(in crate::console) async fn send(user: &User, asked: &Asked) -> Result<Answer, Error> {
    let kept = user.send::<CreateEndpoint>(asked).await?;
    let id = kept.endpoint.endpoint_id.to_string();
    Ok(match &kept.secret {
        Some(own) => secret(user, &id, own, html! {}),
        None if user.may(Scope::WebhooksRead) => Answer::done(
            format!("/endpoints/{id}"),
            "The endpoint is added. Send it a test.",
        ),
        None => Answer::done(PATH, "The endpoint is added."),
    })
}

pub(in crate::console) async fn page(user: &User, asked: &Asked) -> Result<Answer, Error> {
    let draft = asked.draft();
    let own = labelled(&[("true", "Give it a signing secret of its own")]);
    let main = html! {
        (back(user, Scope::WebhooksRead, "/endpoints", "All endpoints"))
        div.title { h1 { "Add an endpoint" } }
        (draft.alert(&NAMES))
        form.card.narrow method="post" action=(user.link(PATH)) {
            (draft.field(&address("")))
            (draft.field(&Field::new("/events", "What it receives", Kind::Choices(types()))
                .value("booking.created booking.protected resolution.created")))
            (draft.field(&description("")))
            (draft.field(&rate_limit("")))
            (draft.field(&Field::new("/ownSecret", "Signing", Kind::Choices(own)).about("Otherwise it is signed with the secret that endpoints share.")))
            (draft.once())
            button.first { "Add the endpoint" }
        }
    };
    Ok(Page::new(Part::Endpoints, "Add an endpoint", main).form(asked))
}
