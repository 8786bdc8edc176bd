//! Which policy is the default for which event type.

use bookguard_core::error::Error;
use bookguard_core::features::partners::UpdatePartner;
use bookguard_core::input::quoted;
use bookguard_core::model::Scope;
use bookguard_core::operation::Request;
use bookguard_core::policy::normalise_event_type;
use maud::{Markup, html};

use super::{Defaults, EVERY, defaults_of, event_type, show};
use crate::console::parts::{hidden, records};
use crate::console::{Answer, Asked, Draft, Field, Kind, User};

/// The event type that a form is about.
const TYPE: &str = "eventType";

/// All defaults, with a button that removes each.
pub(super) fn card(user: &User, defaults: &Defaults) -> Markup {
    let may_write = user.may(Scope::PoliciesWrite);
    let rows = defaults.iter().map(|(word, id)| {
        let link = user.link(&format!("/policies/{id}"));
        html! {
            td { (event_type(word)) }
            td { a href=(link) { (id) } }
            td { @if may_write {
                form method="post" action={ (link) "/default" } {
                    (hidden(TYPE, word))
                    (hidden("remove", "true"))
                    button.plain aria-label={ "Remove the default for " (event_type(word)) } { "Remove" }
                }
            } }
        }
    });
    html! {
        section.card aria-labelledby="defaults" {
            h2 #defaults { "Defaults" }
            p { "A booking that names no policy takes " (user.told("your", "the partner's")) " default for its event type, else the one for \
                every other event type, else the library's." }
            @if defaults.is_empty() { p.soft { (user.told("You have", "The partner has")) " chosen none. Open a policy to make it one." } }
            @else { (records("Default policies", &["Event type", "Policy", "Actions"], rows)) }
        }
    }
}

/// The forms that make a policy a default.
pub(super) fn forms(user: &User, id: &str, draft: &Draft<'_>) -> Markup {
    let action = user.link(&format!("/policies/{id}/default"));
    html! {
        div.grid {
            form method="post" action=(action) {
                (draft.field(&Field::new(TYPE, "Event type", Kind::Text).about("Such as wedding party. Case does not matter, nor what parts the words.").required()))
                button { "Make it the default for this type" }
            }
            form method="post" action=(action) {
                (hidden(TYPE, EVERY))
                p { "Bookings whose event type has no default of its own:" }
                button { "Make it the default for every other type" }
            }
        }
    }
}

pub(in crate::console) async fn send(user: &User, asked: &Asked) -> Result<Answer, Error> {
    let id = asked.id(0);
    show::PolicyPage::of(user, asked, id, None).await?;
    let word = asked.fields.get(TYPE).unwrap_or_default();
    let is_removal = asked.fields.get("remove").is_some();
    if is_removal && let Some(refused) = other_by_now(&defaults_of(user).await?, word, id) {
        return Err(refused);
    }
    let policy = match is_removal {
        true => "null".to_owned(),
        false => quoted(id),
    };
    let request = Request {
        body: format!("{{\"defaultPolicies\":{{{}:{policy}}}}}", quoted(word)).into_bytes(),
        ..Request::default()
    };
    let set = user.perform::<UpdatePartner>(request).await;
    set.map_err(at_type)?;
    let word = match word {
        EVERY => EVERY.to_owned(),
        word => normalise_event_type(word),
    };
    let what = event_type(&word);
    Ok(match is_removal {
        true => Answer::done(
            "/policies",
            format!("There is no default for {what} any more."),
        ),
        false => Answer::done(
            format!("/policies/{id}"),
            format!("It is now the default for {what}."),
        ),
    })
}

/// The refusal to remove a default that somebody has changed since the page was made. The interface removes whatever is the default,
/// so this is asked just before; what is chosen in between is lost all the same.
fn other_by_now(defaults: &Defaults, word: &str, id: &str) -> Option<Error> {
    let other = defaults.get(word).filter(|now| *now != id)?;
    Some(Error::conflict(
        "default_changed",
        format!(
            "The default for {} is now {other}, no longer {id}. Nothing was removed. Look at the defaults again.",
            event_type(word)
        ),
    ))
}

/// The refusal with its faults at the field.
fn at_type(mut error: Error) -> Error {
    for detail in &mut error.details {
        TYPE.clone_into(&mut detail.pointer);
    }
    error
}
