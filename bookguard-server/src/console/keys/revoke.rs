//! Revoking an API key.

use bookguard_core::error::Error;
use bookguard_core::features::api_keys::RevokeApiKey;
use maud::html;

use super::{framed, named};
use crate::console::form::{self, Draft};
use crate::console::user::User;
use crate::console::{Answer, Asked, Page, Part};

pub(in crate::console) async fn ask(user: &User, asked: &Asked) -> Result<Answer, Error> {
    page(user, asked, None).await
}

pub(in crate::console) async fn send(user: &User, asked: &Asked) -> Result<Answer, Error> {
    match user.submit::<RevokeApiKey>(asked).await {
        Ok(()) => Ok(Answer::Go(
            "/keys".to_owned(),
            Some("The key is revoked.".to_owned()),
        )),
        Err(error) if form::is_correctable(&error) => page(user, asked, Some(&error)).await,
        Err(error) => Err(error),
    }
}

async fn page(user: &User, asked: &Asked, refused: Option<&Error>) -> Result<Answer, Error> {
    let draft = Draft {
        fields: &asked.fields,
        refused,
    };
    let name = named(user, asked).await?;
    let form = html! {
        form.card.narrow method="post" action=(user.link(&format!("/keys/{}/revoke", asked.id(0)))) {
            p { strong { (name) } }
            p { strong { "This cannot be undone." } " Programs that use the key are refused within five seconds, and whoever signed in with it \
                is signed out." }
            button.danger { "Revoke the key" }
        }
    };
    let main = framed(user, "Revoke a key", draft.alert(&[]), form);
    Ok(Answer::Page(
        form::status(refused),
        Page::new(Part::Keys, "Revoke a key", main),
    ))
}
