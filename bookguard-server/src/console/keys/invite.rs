//! Inviting somebody by a link that signs them in once.

use bookguard_core::error::Error;
use bookguard_core::features::api_keys::ListApiKeys;
use bookguard_core::features::console::CreateConsoleLink;
use bookguard_core::model::Scope;
use maud::html;

use super::{framed, link_page, scope_field, scopes};
use crate::console::form::{Field, Kind};
use crate::console::user::User;
use crate::console::{Answer, Asked, Page, Part};

const NAMES: [&str; 3] = ["/person", "/apiKeyId", "/scopes"];

pub(in crate::console) async fn send(user: &User, asked: &Asked) -> Result<Answer, Error> {
    let made = user.send::<CreateConsoleLink>(asked).await?;
    let shown = (made.person.as_str(), made.expires_at, made.url.as_str());
    let next = match user.may(Scope::ApiKeysRead) {
        true => (user.link("/keys"), "To keys and people"),
        false => (user.link(""), "To the overview"),
    };
    Ok(link_page(Part::Keys, shown, next))
}

pub(in crate::console) async fn page(
    user: &User,
    asked: &Asked,
    refused: Option<&Error>,
) -> Result<Answer, Error> {
    let draft = asked.draft(refused);
    // Whoever has no key of the partner's names the one with which the session acts.
    let keys = match user.acting {
        Some(_) => Some(working_keys(user, asked).await?),
        None => None,
    };
    let choices = keys.iter().flatten();
    let choices: Vec<_> = choices
        .map(|(id, name)| (id.as_str(), name.clone()))
        .collect();
    let words = scopes(user);
    let person = Field::new("/person", "Who is it for?", Kind::Text)
        .about("Their name: the audit shows it with everything they do.")
        .required();
    let scopes = match keys {
        Some(_) => scope_field(user, &words, "What they may do")
            .about("If nothing is chosen, everything that the key may do."),
        None => scope_field(user, &words, "What they may do"),
    };
    let form = html! {
        form.card.narrow method="post" action=(user.link("/people/new")) {
            (draft.field(&person))
            @if keys.is_some() {
                (draft.field(&Field::new("/apiKeyId", "With which key", Kind::Choice(&choices))
                    .about("They are signed out when it is revoked.").required()))
            }
            (draft.field(&scopes))
            (draft.once())
            button.first { "Make the link" }
        }
    };
    let main = framed(user, "Invite somebody", draft.alert(&NAMES), form);
    Ok(Page::new(Part::Keys, "Invite somebody", main).form(refused))
}

/// The partner's keys that work, of the newest, by their ids.
async fn working_keys(user: &User, asked: &Asked) -> Result<Vec<(String, String)>, Error> {
    let keys = user.read::<ListApiKeys>(&[], &[("limit", "100")]).await?;
    let working = keys.data.into_iter().filter(|key| key.works(asked.now));
    Ok(working
        .map(|key| {
            let name = format!("{} (…{})", key.name, key.hint);
            (key.api_key_id.to_string(), name)
        })
        .collect())
}
