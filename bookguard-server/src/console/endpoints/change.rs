//! Changing an endpoint.

use bookguard_core::error::Error;
use bookguard_core::features::endpoints::GetEndpoint;
use bookguard_core::features::endpoints::update::UpdateEndpoint;
use bookguard_core::operation::Operation as _;
use maud::html;

use super::{NAMES, address, description, rate_limit, types};
use crate::console::form::labelled;
use crate::console::parts::endpoint_badge;
use crate::console::{Answer, Asked, Field, Kind, Page, Part, User};

pub(in crate::console) async fn send(user: &User, asked: &Asked) -> Result<Answer, Error> {
    let changed = asked.with(asked.fields.changed(&NAMES));
    let told = match changed.fields.body(UpdateEndpoint::ROUTE.body) == b"{}" {
        true => "Nothing was changed.",
        false => "The endpoint is changed.",
    };
    user.submit::<UpdateEndpoint>(&changed).await?;
    Ok(Answer::done(format!("/endpoints/{}", asked.id(0)), told))
}

pub(in crate::console) async fn page(user: &User, asked: &Asked) -> Result<Answer, Error> {
    // The button that enables an endpoint sends nothing else. Here its refusal would stand above fields that look emptied.
    if asked.refused.is_some() && !asked.fields.has("/url") {
        return super::show(user, asked).await;
    }
    let id = asked.id(0);
    let endpoint = user.read::<GetEndpoint>(&[id], &[]).await?;
    let draft = asked.draft();
    let listed: Vec<&str> = endpoint.events.iter().map(|known| known.word()).collect();
    let listed = listed.join(" ");
    let events = Field::new("/events", "What it receives", Kind::Choices(types()))
        .about("Without any: booking.created, booking.protected and resolution.created.")
        .value(&listed);
    let enabled = labelled(&[("true", "Yes"), ("false", "No, it is disabled")]);
    let limit = endpoint.rate_limit_per_second;
    let limit = limit.map_or_else(String::new, |limit| limit.to_string());
    let url = address(&endpoint.url);
    let description = description(endpoint.description.as_deref().unwrap_or_default());
    let fields = [url, events, description, rate_limit(&limit)];
    let main = html! {
        p.back { a href=(user.link(&format!("/endpoints/{id}"))) { "← Back to the endpoint" } }
        div.title { h1 { "Change the endpoint" } (endpoint_badge(endpoint.status)) }
        (draft.alert(&NAMES))
        form.card.narrow method="post" action=(user.link(&format!("/endpoints/{id}/change"))) {
            @for field in &fields { (draft.field(field)) (draft.start(field)) }
            // Without this, a form with no type chosen would not name the types at all.
            input type="hidden" name="/events" value="";
            // To enable a suspended endpoint is to send it all that waits, so nobody does it by saving something else.
            (draft.field(&Field::new("/enabled", "Receives new events", Kind::Choice(enabled)).none("Leave it as it is").plain()))
            (draft.once())
            button.first { "Save" }
        }
    };
    Ok(Page::new(Part::Endpoints, "Change an endpoint", main).form(asked))
}
