//! Creating an API key.

use bookguard_core::error::Error;
use bookguard_core::features::api_keys::CreateApiKey;
use maud::html;

use super::{framed, key_page, scope_field, scopes};
use crate::console::form::{Field, Kind};
use crate::console::user::User;
use crate::console::{Answer, Asked, Page, Part};

const NAMES: [&str; 3] = ["/name", "/scopes", "/expiresAt"];

pub(in crate::console) async fn send(user: &User, asked: &Asked) -> Result<Answer, Error> {
    let asked = asked.in_utc(&["/expiresAt"]);
    let made = user.send::<CreateApiKey>(&asked).await?;
    let what = html! { "“" (made.name) "” works from now on." };
    Ok(key_page(user, &made.api_key, what))
}

pub(in crate::console) async fn page(
    user: &User,
    asked: &Asked,
    refused: Option<&Error>,
) -> Result<Answer, Error> {
    let draft = asked.draft(refused);
    let words = scopes(user);
    let name = Field::new("/name", "What it is for", Kind::Text).required();
    let expires = Field::new("/expiresAt", "Expires (UTC)", Kind::Utc).about(user.told(
        "If left empty, when the key that you use expires.",
        "If left empty, never.",
    ));
    let form = html! {
        form.card.narrow method="post" action=(user.link("/keys/new")) {
            (draft.field(&name)) (draft.field(&scope_field(user, &words, "What it may do"))) (draft.field(&expires))
            (draft.once())
            button.first { "Create the key" }
        }
    };
    let main = framed(user, "Create a key", draft.alert(&NAMES), form);
    Ok(Page::new(Part::Keys, "Create a key", main).form(refused))
}
