//! Replacing an API key.

use bookguard_core::error::Error;
use bookguard_core::features::api_keys::rotation::RotateApiKey;
use maud::html;

use super::{framed, key_page, named, overlap};
use crate::console::form::{self, Draft};
use crate::console::parts::time;
use crate::console::user::User;
use crate::console::{Answer, Asked, Page, Part};

pub(in crate::console) async fn ask(user: &User, asked: &Asked) -> Result<Answer, Error> {
    page(user, asked, None).await
}

pub(in crate::console) async fn send(user: &User, asked: &Asked) -> Result<Answer, Error> {
    match user.send::<RotateApiKey>(asked).await {
        Ok(made) => {
            let what = html! { "It replaces the old key, which works until " (time(made.replaced_expires_at)) "." };
            Ok(key_page(user, &made.key.api_key, what))
        }
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
        form.card.narrow method="post" action=(user.link(&format!("/keys/{}/rotate", asked.id(0)))) {
            p { "The new key has the name and the scopes of " strong { (name) } ". Whoever signed in with the old key is signed out when it ends." }
            (overlap(&draft, "The old key works for"))
            (draft.once())
            button.first { "Make a new key" }
        }
    };
    let main = framed(
        user,
        "Replace a key",
        draft.alert(&["/overlapSeconds"]),
        form,
    );
    Ok(Answer::Page(
        form::status(refused),
        Page::new(Part::Keys, "Replace a key", main),
    ))
}
