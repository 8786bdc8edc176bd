//! Inviting somebody by a link that signs them in once.

use bookguard_core::error::Error;
use bookguard_core::features::console::CreateConsoleLink;
use maud::html;

use super::{framed, scope_field, scopes};
use crate::console::form::{self, Draft, Field, Kind};
use crate::console::parts::{copyable, once, time};
use crate::console::user::User;
use crate::console::{Answer, Asked, Page, Part};

const NAMES: [&str; 2] = ["/person", "/scopes"];

pub(in crate::console) async fn ask(user: &User, asked: &Asked) -> Result<Answer, Error> {
    page(user, asked, None)
}

pub(in crate::console) async fn send(user: &User, asked: &Asked) -> Result<Answer, Error> {
    let made = match user.send::<CreateConsoleLink>(asked).await {
        Ok(made) => made,
        Err(error) if form::is_correctable(&error) => return page(user, asked, Some(&error)),
        Err(error) => return Err(error),
    };
    let main = html! {
        div.title { h1 { "The link" } }
        section.card.narrow {
            p { "It signs in " strong { (made.person) } " once, until " (time(made.expires_at)) ". Send it to nobody else." }
            p { (copyable(&made.url)) }
            p.alert.warn { "It is shown only now. Copy it before you leave this page." }
            a.button href=(user.link("/keys")) { "To keys and people" }
        }
    };
    Ok(Page::new(Part::Keys, "Link to sign in", main).ok())
}

fn page(user: &User, asked: &Asked, refused: Option<&Error>) -> Result<Answer, Error> {
    let draft = Draft {
        fields: &asked.fields,
        refused,
    };
    let words = scopes(user);
    let person = Field::new("/person", "Who is it for?", Kind::Text)
        .about("Their name: the audit shows it with everything they do.")
        .required();
    let form = html! {
        form.card.narrow method="post" action=(user.link("/people/new")) {
            (draft.field(&person)) (draft.field(&scope_field(&words, "What they may do")))
            (once())
            button.first { "Make the link" }
        }
    };
    let main = framed(user, "Invite somebody", draft.alert(&NAMES), form);
    Ok(Answer::Page(
        form::status(refused),
        Page::new(Part::Keys, "Invite somebody", main),
    ))
}
