//! Removing an endpoint.

use bookguard_core::error::Error;
use bookguard_core::features::endpoints::{DeleteEndpoint, GetEndpoint};
use maud::html;

use crate::console::{Answer, Asked, Page, Part, User};

pub(in crate::console) async fn ask(user: &User, asked: &Asked) -> Result<Answer, Error> {
    let id = asked.id(0);
    let endpoint = user.read::<GetEndpoint>(&[id], &[]).await?;
    let main = html! {
        p.back { a href=(user.link(&format!("/endpoints/{id}"))) { "← Back to the endpoint" } }
        div.title { h1 { "Remove the endpoint" } }
        form.card.narrow method="post" action=(user.link(&format!("/endpoints/{id}/remove"))) {
            p { (endpoint.url) }
            p { strong { "This cannot be undone." } " What still waits for it is not sent. To stop it for a while, change it instead." }
            button.danger { "Remove the endpoint" }
        }
    };
    Ok(Page::new(Part::Endpoints, "Remove an endpoint", main).ok())
}

pub(in crate::console) async fn send(user: &User, asked: &Asked) -> Result<Answer, Error> {
    user.submit::<DeleteEndpoint>(asked).await?;
    Ok(Answer::done("/endpoints", "The endpoint is removed."))
}
