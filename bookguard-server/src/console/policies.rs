//! Policies: the partner's own, which is the default for what, and the library.

pub(super) mod defaults;
mod difference;
pub(super) mod editor;
mod example;
mod fields;
pub(super) mod show;
mod text;

use std::collections::BTreeMap;

use bookguard_core::error::Error;
use bookguard_core::features::partners::GetPartner;
use bookguard_core::features::policies::{
    GetPolicy, ListPolicies, ListPolicyTemplates, PolicyTemplate, PolicyVersion,
};
use bookguard_core::model::{Page as ListPage, Scope};
use bookguard_core::policy::Zone;
use maud::{Markup, html};

use super::parts::{empty, next_page, records, time, with_amounts};
use super::schedule::drawn;
use super::{Answer, Asked, Page, Part, User};

/// Policies on a page; each is read by itself.
const ROWS: &str = "20";
/// Sentences of a policy's English in lists.
const SENTENCES: usize = 3;
/// The word for all event types that have no default.
const EVERY: &str = "*";

/// The default policies: event type and policy.
type Defaults = BTreeMap<String, String>;

async fn defaults_of(user: &User) -> Result<Defaults, Error> {
    let account = user.read::<GetPartner>(&[], &[]).await?;
    Ok(account.partner.settings.default_policies)
}

/// An event type as people read it.
fn event_type(word: &str) -> &str {
    match word {
        EVERY => "every other event type",
        word => word,
    }
}

/// What a policy is the default for, as people read it.
fn default_for(defaults: &Defaults, policy_id: &str) -> Vec<String> {
    let own = defaults.iter().filter(|(_, id)| *id == policy_id);
    own.map(|(word, _)| event_type(word).to_owned()).collect()
}

/// What a policy of the library is used for without any default, as people read it; empty if for nothing.
fn used_for(user: &User, types: &[String]) -> String {
    if types.is_empty() {
        return String::new();
    }
    let types: Vec<&str> = types.iter().map(|word| event_type(word)).collect();
    let unless = user.told(
        " unless you chose another.",
        " unless the partner chose another.",
    );
    types.join(", ") + unless
}

/// The library, each policy with the schedule of the example.
async fn library(user: &User, asked: &Asked) -> Result<ListPage<PolicyTemplate>, Error> {
    let date = example::date_after(asked.now, example::LIBRARY_DAYS);
    let query = [("eventDate", &*date)];
    user.read::<ListPolicyTemplates>(&[], &query).await
}

pub(super) async fn list(user: &User, asked: &Asked) -> Result<Answer, Error> {
    let cursor = asked.fields.get("cursor").unwrap_or_default();
    let query = [("limit", ROWS), ("cursor", cursor)];
    let listed = user.read::<ListPolicies>(&[], &query).await?;
    let mut own = Vec::with_capacity(listed.data.len());
    for policy in &listed.data {
        own.push(user.read::<GetPolicy>(&[&policy.policy_id], &[]).await?);
    }
    let defaults = defaults_of(user).await?;
    let templates = library(user, asked).await?.data;
    let may_write = user.may(Scope::PoliciesWrite);
    let main = html! {
        div.title {
            h1 { "Policies" }
            @if may_write { a.button.first href=(user.link("/new-policy")) { "New policy" } }
        }
        p.lead { "A policy says what a cancellation costs. A booking keeps the one it was recorded with; a change applies to later bookings." }
        section.card aria-labelledby="own" {
            h2 #own { (user.told("Your policies", "The partner's policies")) }
            @if own.is_empty() {
                (empty(user.told("You have no policies of your own.", "The partner has no policies of its own."), html! {
                    "Bookings take those of the library below. Start one from any of them"
                    @if may_write { ", or " a href=(user.link("/new-policy")) { "from a simple one" } }
                    "."
                }))
            } @else { (records(user.told("Each of your policies", "Each policy of the partner"), &["Policy", "What it means", "Default for", "Version"], own.iter().map(|policy| line(user, policy, &defaults)))) }
        }
        (next_page(user, "/policies", &asked.fields, "cursor", listed.next_cursor.as_deref(), "More policies"))
        (defaults::card(user, &defaults))
        h2 #library { "The library" }
        p.lead { "Policies that every booking can name. The bars show how much goes back at each step, from the first to the last." }
        div.grid { @for template in &templates { (card(user, template, asked, may_write)) } }
    };
    Ok(Page::new(Part::Policies, "Policies", main).ok())
}

fn line(user: &User, policy: &PolicyVersion, defaults: &Defaults) -> Markup {
    let name = policy.policy.document().name.as_deref();
    html! {
        td {
            a href=(user.link(&format!("/policies/{}", policy.policy_id))) { (name.unwrap_or(&policy.policy_id)) }
            @if name.is_some() { small { (policy.policy_id) } }
        }
        td { @for sentence in policy.english.iter().take(SENTENCES) { div { (with_amounts(sentence)) } } }
        td { @for word in default_for(defaults, &policy.policy_id) { div { (word) } } }
        td { (policy.version) small { (time(policy.created_at)) } }
    }
}

fn card(user: &User, template: &PolicyTemplate, asked: &Asked, may_write: bool) -> Markup {
    let id = &template.policy_id;
    let name = template.policy.document().name.as_deref().unwrap_or(id);
    let used_for = used_for(user, &template.default_for);
    let schedule = template.schedule.as_deref().unwrap_or_default();
    html! {
        section.card aria-labelledby={ "of-" (id) } {
            h3 id={ "of-" (id) } { a href=(user.link(&format!("/policies/{id}"))) { (name) } }
            ul.plain-list { @for sentence in template.english.iter().take(SENTENCES) { li { (with_amounts(sentence)) } } }
            (drawn(schedule, example::value_of(schedule), Zone::UTC, asked.now))
            @if !used_for.is_empty() { p.soft { "Used for " (used_for) } }
            @if may_write {
                a href=(user.link(&format!("/new-policy?from={id}"))) aria-label={ "Start from this: " (name) } { "Start from this" }
            }
        }
    }
}
