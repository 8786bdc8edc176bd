//! Replacing an API key.

use bookguard_core::error::Error;
use bookguard_core::features::api_keys::rotation::RotateApiKey;
use maud::html;

use super::{framed_about, key_page, known, overlap};
use crate::console::parts::time;
use crate::console::{Answer, Asked, User};

pub(in crate::console) async fn send(user: &User, asked: &Asked) -> Result<Answer, Error> {
    let made = user.send::<RotateApiKey>(asked).await?;
    let what = html! { "It replaces the old key, which works until " (time(made.replaced_expires_at)) "." };
    Ok(key_page(user, &made.key.api_key, what))
}

pub(in crate::console) async fn page(user: &User, asked: &Asked) -> Result<Answer, Error> {
    let draft = asked.draft();
    let key = known(user, asked).await?;
    let form = html! {
        form.card.narrow method="post" action=(user.link(&format!("/keys/{}/rotate", asked.id(0)))) {
            p { "The new key has the name and the scopes of " strong { (key.name) } ". Whoever signed in with the old key is signed out when it ends." }
            (overlap(&draft, "The old key works for"))
            (draft.once())
            button.first { "Make a new key" }
        }
    };
    let names = ["/overlapSeconds"];
    Ok(framed_about(
        user,
        asked,
        "Replace a key",
        &names,
        &key,
        form,
    ))
}
