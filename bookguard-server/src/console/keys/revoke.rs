//! Revoking an API key.

use bookguard_core::error::Error;
use bookguard_core::features::api_keys::RevokeApiKey;
use bookguard_core::model::Scope;
use maud::html;

use super::{framed_about, known};
use crate::console::{Answer, Asked, User};

pub(in crate::console) async fn send(user: &User, asked: &Asked) -> Result<Answer, Error> {
    user.submit::<RevokeApiKey>(asked).await?;
    let next = match user.may(Scope::ApiKeysRead) {
        true => "/keys",
        false => "",
    };
    Ok(Answer::done(next, "The key is revoked."))
}

pub(in crate::console) async fn page(user: &User, asked: &Asked) -> Result<Answer, Error> {
    let key = known(user, asked).await?;
    let form = html! {
        form.card.narrow method="post" action=(user.link(&format!("/keys/{}/revoke", asked.id(0)))) {
            p { strong { (key.name) } }
            p { strong { "This cannot be undone." } " Programs that use the key are refused within five seconds, and whoever signed in with it \
                is signed out." }
            button.danger { "Revoke the key" }
        }
    };
    Ok(framed_about(user, asked, "Revoke a key", &[], &key, form))
}
