//! API keys, the people who are signed in, and the links with which they sign in.

pub(super) mod create;
pub(super) mod invite;
pub(super) mod revoke;
pub(super) mod rotate;

use bookguard_core::error::Error;
use bookguard_core::features::api_keys::ListApiKeys;
use bookguard_core::features::console::{EndConsoleSession, ListConsoleSessions};
use bookguard_core::limits::SECRET_OVERLAP_DEFAULT_MS;
use bookguard_core::model::{ApiKey, ConsoleSession, Scope, Scopes, Timestamp};
use maud::{Markup, html};

use super::form::{self, labelled};
use super::parts::{
    Tone, ago, back, badge, button_of, empty, next_page, records, shown_once, time,
};
use super::sign_in::SignedOut;
use super::{Answer, Asked, Draft, Field, Kind, Page, Part, User};

/// The field with the cursor of the people, beside that of the keys.
const PEOPLE: &str = "people";

pub(super) async fn list(user: &User, asked: &Asked) -> Result<Answer, Error> {
    let cursor = asked.fields.get("cursor").unwrap_or_default();
    let keys = user.read::<ListApiKeys>(&[], &[("limit", "100"), ("cursor", cursor)]);
    let (keys, asked) = form::filtered(asked, keys.await)?;
    let cursor = asked.fields.get(PEOPLE).unwrap_or_default();
    let people = user.read::<ListConsoleSessions>(&[], &[("limit", "50"), ("cursor", cursor)]);
    let (people, asked) = form::filtered(&asked, people.await)?;
    let may_write = user.may(Scope::ApiKeysWrite);
    let main = html! {
        div.title {
            h1 { "Keys and people" }
            @if may_write {
                a.button href=(user.link("/people/new")) { "Invite somebody" }
                a.button.first href=(user.link("/keys/new")) { "Create a key" }
            }
        }
        (asked.draft().alert_of_filter(&[]))
        @if let Some(keys) = &keys {
            @let rows = keys.data.iter().map(|key| key_line(user, key, asked.now, may_write));
            section.card aria-labelledby="keys" {
                h2 #keys { "API keys" }
                @if keys.data.is_empty() { (empty("There are no keys yet.", "A partner gets its first key when it is approved.")) }
                @else { (records("Every key", &["Name", "May", "Used", "State", "Actions"], rows)) }
            }
            (next_page(user, "/keys", &asked.fields, "cursor", keys.next_cursor.as_deref(), "Older keys"))
        }
        @if let Some(people) = &people {
            @let known = keys.as_ref().map_or(&[][..], |keys| &keys.data);
            @let rows = people.data.iter().map(|session| person_line(user, session, known, asked.now, may_write));
            section.card aria-labelledby="people" {
                h2 #people { "People" }
                @if people.data.is_empty() { (empty("Nobody is signed in.", "Invite somebody by a link, or sign in with a key.")) }
                @else { (records("Sign-ins and links", &["Who", "State", "Until", "Actions"], rows)) }
            }
            (next_page(user, "/keys", &asked.fields, PEOPLE, people.next_cursor.as_deref(), "Older sign-ins"))
        }
    };
    Ok(Page::new(Part::Keys, "Keys and people", main).form(&asked))
}

fn key_line(user: &User, key: &ApiKey, now: Timestamp, may_write: bool) -> Markup {
    let is_live = key.revoked_at.is_none() && !key.has_expired(now);
    let link = |rest: &str| user.link(&format!("/keys/{}{rest}", key.api_key_id));
    html! {
        td { (key.name) small { "…" (key.hint) ", made " (time(key.created_at)) } }
        td { (allowed(&key.scopes)) }
        td { @match key.last_used_at { Some(at) => (ago(at, now)), None => span.soft { "never" } } }
        td {
            @if let Some(at) = key.revoked_at { (badge(Tone::Calm, "Revoked")) small { (time(at)) } }
            @else if !is_live { (badge(Tone::Calm, "Expired")) }
            @else { (badge(Tone::Good, "Works")) @if let Some(at) = key.expires_at { small { "until " (time(at)) } } }
        }
        td {
            @if is_live && may_write {
                a href=(link("/rotate")) aria-label={ "Replace " (key.name) } { "Replace" } " "
                a href=(link("/revoke")) aria-label={ "Revoke " (key.name) } { "Revoke" }
            }
        }
    }
}

/// A session, with its key by name if it is among the `known` ones.
fn person_line(
    user: &User,
    session: &ConsoleSession,
    known: &[ApiKey],
    now: Timestamp,
    may_write: bool,
) -> Markup {
    let mut known = known.iter();
    let key = known.find(|key| key.api_key_id == session.api_key_id);
    let sign_in = SignIn {
        id: session.console_session_id.to_string(),
        person: session.person.as_deref(),
        key: key.map_or_else(|| session.api_key_id.to_string(), told_apart),
        may: Some(allowed(&session.scopes)),
        created_at: session.created_at,
        started_at: session.started_at,
        expires_at: session.expires_at,
        ended_at: session.ended_at,
    };
    sign_in_line(user, &sign_in, now, may_write)
}

/// A session or a link that was not opened, as a list shows it.
pub(super) struct SignIn<'s> {
    pub(super) id: String,
    pub(super) person: Option<&'s str>,
    /// The key with which it acts.
    pub(super) key: String,
    /// What it may do, if that can be less than everything.
    pub(super) may: Option<String>,
    pub(super) created_at: Timestamp,
    pub(super) started_at: Option<Timestamp>,
    pub(super) expires_at: Timestamp,
    pub(super) ended_at: Option<Timestamp>,
}

pub(super) fn sign_in_line(user: &User, it: &SignIn<'_>, now: Timestamp, may_end: bool) -> Markup {
    let who = it.person.unwrap_or("With a key");
    let is_over = it.ended_at.is_some() || it.expires_at <= now;
    let (tone, state) = match (is_over, it.started_at) {
        (true, None) if it.ended_at.is_some() => (Tone::Calm, "Link ended"),
        (true, None) => (Tone::Calm, "Link not used"),
        (true, Some(_)) => (Tone::Calm, "Signed out"),
        (false, None) => (Tone::Warn, "Link not opened yet"),
        (false, Some(_)) => (Tone::Good, "Signed in"),
    };
    html! {
        td {
            (who)
            @if user.is_signed_in_by(&it.id) { " " (badge(Tone::Calm, "This is you")) }
            small.id { (it.key) }
            @if let Some(may) = &it.may { small { (may) } }
        }
        td { (badge(tone, state)) small { (time(it.started_at.unwrap_or(it.created_at))) } }
        td { (time(it.ended_at.unwrap_or(it.expires_at))) }
        td { @if !is_over && may_end { (button_of(user, &format!("/people/{}/end", it.id), "End", who)) } }
    }
}

/// The page that shows a link once: for whom it is, until when it works, and its address; and where to go from there.
pub(super) fn link_page(
    part: Part,
    (person, until, url): (&str, Timestamp, &str),
    next: (String, &str),
) -> Answer {
    let about = html! { "It signs in " strong { (person) } " once, until " (time(until)) ". Send it to nobody else." };
    shown_once(
        (part, "Link to sign in"),
        "The link",
        about,
        url,
        Some(next),
    )
}

pub(super) async fn end(user: &User, asked: &Asked) -> Result<Answer, Error> {
    user.submit::<EndConsoleSession>(asked).await?;
    Ok(ended(user, asked, "/keys"))
}

/// After a sign-in was ended: back to their list or, if it was one's own, to the page to sign in.
pub(super) fn ended(user: &User, asked: &Asked, list: &str) -> Answer {
    match user.is_signed_in_by(asked.id(0)) {
        true => Answer::Response(user.console.signed_out(SignedOut::BySelf)),
        false => Answer::done(list, "The sign-in is ended."),
    }
}

/// Scopes as people read them.
fn allowed(scopes: &Scopes) -> String {
    match scopes.words() {
        [all] if all == "*" => "everything".to_owned(),
        words => words.join(", "),
    }
}

/// The scopes that somebody may give away: their own.
fn scopes(user: &User) -> Vec<(&'static str, String)> {
    let own = Scope::ALL.into_iter().filter(|(scope, _)| user.has(*scope));
    own.map(|(scope, word)| (word, format!("{word}: {}", about(scope))))
        .collect()
}

fn about(scope: Scope) -> &'static str {
    match scope {
        Scope::BookingsRead => "see bookings and what a cancellation would mean",
        Scope::BookingsWrite => "record, protect, reschedule and cancel bookings",
        Scope::WebhooksRead => "see endpoints and deliveries",
        Scope::WebhooksWrite => "change endpoints, and send events again",
        Scope::PoliciesRead => "see policies",
        Scope::PoliciesWrite => "change policies",
        Scope::EvidenceRead => "see evidence",
        Scope::EvidenceShare => "share evidence by links",
        Scope::EvidenceErase => "erase personal data for good, and place legal holds",
        Scope::ApiKeysRead => "see keys and who is signed in",
        Scope::ApiKeysWrite => "make and revoke keys, and invite people",
        Scope::AuditRead => "see who changed what",
    }
}

/// The field for the person whom a link is for.
pub(super) fn person_field() -> Field<'static> {
    Field::new("/person", "Who is it for?", Kind::Text)
        .about("Their name: the audit shows it with everything they do.")
        .required()
}

fn scope_field(user: &User, label: &'static str) -> Field<'static> {
    Field::new("/scopes", label, Kind::Choices(scopes(user))).about(user.told(
        "If nothing is chosen, everything that you may do.",
        "If nothing is chosen, everything.",
    ))
}

/// The field for how long something that is replaced goes on working.
pub(super) fn overlap(draft: &Draft<'_>, label: &str) -> Markup {
    let times = labelled(&[
        ("0", "no longer: it ends now"),
        ("3600", "an hour"),
        ("86400", "a day"),
        ("259200", "three days"),
        ("604800", "a week"),
    ]);
    let default = (SECRET_OVERLAP_DEFAULT_MS / 1000).to_string();
    let field = Field::new("/overlapSeconds", label, Kind::Choice(times));
    draft.field(&field.value(&default).required())
}

/// The page that shows a new key once.
fn key_page(user: &User, key: &str, what: Markup) -> Answer {
    let next = user.may(Scope::ApiKeysRead);
    let next = next.then(|| (user.link("/keys"), "To the keys"));
    shown_once((Part::Keys, "New key"), "The key", what, key, next)
}

/// What a page shows of the key that it is about.
struct Known {
    /// For whoever may not see keys, its id.
    name: String,
    ended_at: Option<Timestamp>,
}

async fn known(user: &User, asked: &Asked) -> Result<Known, Error> {
    let id = asked.id(0);
    let found = user
        .row::<ListApiKeys, _, _>(&[], id, |key| key.api_key_id)
        .await?;
    Ok(match found {
        Some(key) => Known {
            name: told_apart(&key),
            ended_at: key.stopped_at(asked.now),
        },
        None => Known {
            name: id.to_owned(),
            ended_at: None,
        },
    })
}

/// A key's name, and what tells it from others of the same name.
fn told_apart(key: &ApiKey) -> String {
    format!("{} (…{})", key.name, key.hint)
}

/// A page with this form about a key, unless the key has ended.
fn framed_about(
    user: &User,
    asked: &Asked,
    title: &str,
    names: &[&str],
    key: &Known,
    form: Markup,
) -> Answer {
    let shown = match key.ended_at {
        Some(at) => html! {
            section.card.narrow {
                p { strong { (key.name) } }
                p { "The key ended on " (time(at)) ". It opens nothing any more." }
            }
        },
        None => form,
    };
    framed(user, asked, title, names, shown)
}

/// A page with this form, which has fields of these names.
fn framed(user: &User, asked: &Asked, title: &str, names: &[&str], form: Markup) -> Answer {
    let main = html! {
        (back(user, Scope::ApiKeysRead, "/keys", "Keys and people"))
        div.title { h1 { (title) } }
        (asked.draft().alert(names))
        (form)
    };
    Page::new(Part::Keys, title, main).form(asked)
}
