//! Who of the operator is signed in, and links with which they sign in.

use bookguard_core::error::Error;
use bookguard_core::features::operator_sessions::{
    CreateOperatorLink, EndOperatorSession, ListOperatorSessions,
};
use bookguard_core::model::{OperatorSession, Timestamp};
use maud::{Markup, html};

use crate::console::keys::{SignIn, ended, link_page, person_field, sign_in_line};
use crate::console::parts::{empty, next_page, records};
use crate::console::{Answer, Asked, Page, Part, User, form};

pub(super) async fn list(user: &User, asked: &Asked) -> Result<Answer, Error> {
    let cursor = asked.fields.get("cursor").unwrap_or_default();
    let people = user.read::<ListOperatorSessions>(&[], &[("limit", "100"), ("cursor", cursor)]);
    let (people, asked) = form::filtered(asked, people.await)?;
    let main = html! {
        div.title {
            h1 { "People" }
            a.button.first href=(user.link("/people/new")) { "Invite somebody" }
        }
        p.lead { "Who signed in here with an operator key or by a link. The keys themselves are made and revoked on the database only, with "
            code { "bookguard operator-keys" } "." }
        (asked.draft().alert_of_filter(&[]))
        @if let Some(people) = &people {
            @let rows = people.data.iter().map(|session| line(user, session, asked.now));
            @if people.data.is_empty() { (empty("Nobody is signed in.", "Invite somebody by a link.")) }
            @else { section.card { (records("Sign-ins and links, newest first", &["Who", "State", "Until", "Actions"], rows)) } }
            (next_page(user, "/people", &asked.fields, "cursor", people.next_cursor.as_deref(), "Older ones"))
        }
    };
    Ok(Page::new(Part::People, "People", main).form(&asked))
}

fn line(user: &User, session: &OperatorSession, now: Timestamp) -> Markup {
    let sign_in = SignIn {
        id: session.console_session_id.to_string(),
        person: session.person.as_deref(),
        key: session.operator_key_id.to_string(),
        may: None,
        created_at: session.created_at,
        started_at: session.started_at,
        expires_at: session.expires_at,
        ended_at: session.ended_at,
    };
    sign_in_line(user, &sign_in, now, true)
}

pub(super) async fn end(user: &User, asked: &Asked) -> Result<Answer, Error> {
    user.submit::<EndOperatorSession>(asked).await?;
    Ok(ended(user, asked, "/people"))
}

pub(super) async fn send(user: &User, asked: &Asked) -> Result<Answer, Error> {
    let made = user.send::<CreateOperatorLink>(asked).await?;
    let shown = (made.person.as_str(), made.expires_at, made.url.as_str());
    let next = (user.link("/people"), "To the people");
    Ok(link_page(Part::People, shown, next))
}

pub(super) async fn page(user: &User, asked: &Asked) -> Result<Answer, Error> {
    let draft = asked.draft();
    let main = html! {
        p.back { a href=(user.link("/people")) { "← People" } }
        div.title { h1 { "Invite somebody" } }
        (draft.alert(&["/person"]))
        form.card.narrow method="post" action=(user.link("/people/new")) {
            p { "They may do here whatever you may, for twelve hours at most, and are signed out when your operator key is revoked." }
            (draft.field(&person_field()))
            (draft.once())
            button.first { "Make the link" }
        }
    };
    Ok(Page::new(Part::People, "Invite somebody", main).form(asked))
}
