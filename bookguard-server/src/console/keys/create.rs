//! Creating an API key.

use bookguard_core::error::Error;
use bookguard_core::features::api_keys::CreateApiKey;
use maud::html;

use super::{framed, key_page, scope_field, scopes};
use crate::console::form::{self, Draft, Field, Kind};
use crate::console::user::User;
use crate::console::{Answer, Asked, Page, Part};

const NAMES: [&str; 3] = ["/name", "/scopes", "/expiresAt"];

pub(in crate::console) async fn ask(user: &User, asked: &Asked) -> Result<Answer, Error> {
    page(user, asked, None)
}

pub(in crate::console) async fn send(user: &User, asked: &Asked) -> Result<Answer, Error> {
    let asked = &asked.in_utc(&["/expiresAt"]);
    match user.send::<CreateApiKey>(asked).await {
        Ok(made) => Ok(key_page(
            user,
            &made.api_key,
            html! { "“" (made.name) "” works from now on." },
        )),
        Err(error) if form::is_correctable(&error) => page(user, asked, Some(&error)),
        Err(error) => Err(error),
    }
}

fn page(user: &User, asked: &Asked, refused: Option<&Error>) -> Result<Answer, Error> {
    let draft = Draft {
        fields: &asked.fields,
        refused,
    };
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
    Ok(Answer::Page(
        form::status(refused),
        Page::new(Part::Keys, "Create a key", main),
    ))
}
