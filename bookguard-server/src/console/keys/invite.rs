//! Inviting somebody by a link that signs them in once.

use bookguard_core::error::Error;
use bookguard_core::features::api_keys::ListApiKeys;
use bookguard_core::features::console::CreateConsoleLink;
use bookguard_core::model::Scope;
use maud::html;

use super::{framed, link_page, person_field, scope_field, told_apart};
use crate::console::{Answer, Asked, Field, Kind, Part, User};

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

pub(in crate::console) async fn page(user: &User, asked: &Asked) -> Result<Answer, Error> {
    let draft = asked.draft();
    // Whoever has no key of the partner's names the one with which the session acts.
    let keys = match user.acting {
        Some(_) => Some(working_keys(user, asked).await?),
        None => None,
    };
    let scopes = scope_field(user, "What they may do");
    let scopes = match keys {
        Some(_) => scopes.about("If nothing is chosen, everything that the key may do."),
        None => scopes,
    };
    let form = html! {
        form.card.narrow method="post" action=(user.link("/people/new")) {
            (draft.field(&person_field()))
            @if let Some(keys) = &keys {
                @let keys = keys.iter().map(|(id, name)| (id.as_str(), name.clone())).collect();
                (draft.field(&Field::new("/apiKeyId", "With which key", Kind::Choice(keys)).about("They are signed out when it is revoked.").required()))
            }
            (draft.field(&scopes))
            (draft.once())
            button.first { "Make the link" }
        }
    };
    Ok(framed(user, asked, "Invite somebody", &NAMES, form))
}

/// The partner's keys that work, of the newest, by their ids.
async fn working_keys(user: &User, asked: &Asked) -> Result<Vec<(String, String)>, Error> {
    let keys = user.read::<ListApiKeys>(&[], &[("limit", "100")]).await?;
    let working = keys.data.iter().filter(|key| key.works(asked.now));
    let named = working.map(|key| (key.api_key_id.to_string(), told_apart(key)));
    Ok(named.collect())
}
