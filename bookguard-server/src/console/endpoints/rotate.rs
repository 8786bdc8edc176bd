//! Replacing an endpoint's own signing secret.

use bookguard_core::error::Error;
use bookguard_core::features::endpoints::GetEndpoint;
use bookguard_core::features::endpoints::secrets::RotateEndpointSecret;
use maud::html;

use super::secret;
use crate::console::keys::overlap;
use crate::console::parts::time;
use crate::console::{Answer, Asked, Page, Part, User};

pub(in crate::console) async fn send(user: &User, asked: &Asked) -> Result<Answer, Error> {
    let made = user.send::<RotateEndpointSecret>(asked).await?;
    let when = html! { "It takes over " (time(made.switches_at)) "; until then deliveries carry a signature of each." };
    Ok(secret(user, asked.id(0), &made.secret, when))
}

pub(in crate::console) async fn page(user: &User, asked: &Asked) -> Result<Answer, Error> {
    let id = asked.id(0);
    let endpoint = user.read::<GetEndpoint>(&[id], &[]).await?;
    let draft = asked.draft();
    let main = html! {
        p.back { a href=(user.link(&format!("/endpoints/{id}"))) { "← Back to the endpoint" } }
        div.title { h1 { "Replace the signing secret" } }
        (draft.alert(&["/overlapSeconds"]))
        form.card.narrow method="post" action=(user.link(&format!("/endpoints/{id}/rotate-secret"))) {
            p { (endpoint.url) }
            (overlap(&draft, "The old secret goes on signing for"))
            (draft.once())
            button.first { "Make a new secret" }
        }
    };
    Ok(Page::new(Part::Endpoints, "Replace the secret", main).form(asked))
}
