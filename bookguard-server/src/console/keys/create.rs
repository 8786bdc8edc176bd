//! Creating an API key.

use bookguard_core::error::Error;
use bookguard_core::features::api_keys::CreateApiKey;
use maud::html;

use super::{framed, key_page, scope_field};
use crate::console::{Answer, Asked, Field, Kind, User};

const NAMES: [&str; 3] = ["/name", "/scopes", "/expiresAt"];

pub(in crate::console) async fn send(user: &User, asked: &Asked) -> Result<Answer, Error> {
    let asked = asked.with(asked.fields.in_utc(&["/expiresAt"]));
    let made = user.send::<CreateApiKey>(&asked).await?;
    let what = html! { "“" (made.name) "” works from now on." };
    Ok(key_page(user, &made.api_key, what))
}

pub(in crate::console) async fn page(user: &User, asked: &Asked) -> Result<Answer, Error> {
    let draft = asked.draft();
    let expires = user.told(
        "If left empty, when the key that you use expires.",
        "If left empty, never.",
    );
    let form = html! {
        form.card.narrow method="post" action=(user.link("/keys/new")) {
            (draft.field(&Field::new("/name", "What it is for", Kind::Text).required()))
            (draft.field(&scope_field(user, "What it may do")))
            (draft.field(&Field::new("/expiresAt", "Expires (UTC)", Kind::Utc).about(expires)))
            (draft.once())
            button.first { "Create the key" }
        }
    };
    Ok(framed(user, asked, "Create a key", &NAMES, form))
}
