//! Revoking an API key.

use bookguard_core::error::Error;
use bookguard_core::features::api_keys::RevokeApiKey;
use maud::html;

use super::{framed, named};
use crate::console::{Answer, Asked, User};

pub(in crate::console) async fn send(user: &User, asked: &Asked) -> Result<Answer, Error> {
    user.submit::<RevokeApiKey>(asked).await?;
    Ok(Answer::done("/keys", "The key is revoked."))
}

pub(in crate::console) async fn page(user: &User, asked: &Asked) -> Result<Answer, Error> {
    let name = named(user, asked).await?;
    let form = html! {
        form.card.narrow method="post" action=(user.link(&format!("/keys/{}/revoke", asked.id(0)))) {
            p { strong { (name) } }
            p { strong { "This cannot be undone." } " Programs that use the key are refused within five seconds, and whoever signed in with it \
                is signed out." }
            button.danger { "Revoke the key" }
        }
    };
    Ok(framed(user, asked, "Revoke a key", &[], form))
}
