//! Replacing an endpoint's own signing secret.

use bookguard_core::error::Error;
use bookguard_core::features::endpoints::GetEndpoint;
use bookguard_core::features::endpoints::secrets::RotateEndpointSecret;
use maud::html;

use super::secret;
use crate::console::form::{self, Draft};
use crate::console::keys::overlap;
use crate::console::parts::time;
use crate::console::user::User;
use crate::console::{Answer, Asked, Page, Part};

pub(in crate::console) async fn ask(user: &User, asked: &Asked) -> Result<Answer, Error> {
    page(user, asked, None).await
}

pub(in crate::console) async fn send(user: &User, asked: &Asked) -> Result<Answer, Error> {
    match user.send::<RotateEndpointSecret>(asked).await {
        Ok(made) => {
            let when = html! { "It takes over " (time(made.switches_at)) "; until then deliveries carry a signature of each." };
            Ok(secret(user, asked.id(0), &made.secret, when))
        }
        Err(error) if form::is_correctable(&error) => page(user, asked, Some(&error)).await,
        Err(error) => Err(error),
    }
}

async fn page(user: &User, asked: &Asked, refused: Option<&Error>) -> Result<Answer, Error> {
    let id = asked.id(0);
    let endpoint = user.read::<GetEndpoint>(&[id], &[]).await?;
    let draft = Draft {
        fields: &asked.fields,
        refused,
    };
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
    Ok(Answer::Page(
        form::status(refused),
        Page::new(Part::Endpoints, "Replace the secret", main),
    ))
}
