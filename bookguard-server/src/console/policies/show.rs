//! A policy: what it means, an example of its schedule, its versions and how two of them differ.

use bookguard_core::error::{Error, FieldError, Kind};
use bookguard_core::features::policies::{
    GetPolicy, ListPolicyVersions, PolicyListing, PolicyVersion,
};
use bookguard_core::model::{Page as ListPage, Scope, Timestamp};
use bookguard_core::policy::Policy;
use maud::{Markup, html};

use super::difference::{self, Side};
use super::editor::draft::{beside, place};
use super::{Defaults, default_for, defaults, defaults_of, example, library, text, used_for};
use crate::console::parts::{
    Tone, badge, copyable, fact, hidden, next_page, records, time, with_amounts,
};
use crate::console::{Answer, Asked, Draft, Fields, Page, Part, User, form};

/// A policy as its page shows it: the partner's own, or one of the library.
pub(super) struct PolicyPage {
    pub(super) id: String,
    /// The version of the partner's own.
    pub(super) version: Option<u32>,
    pub(super) policy: Policy,
    pub(super) english: Vec<String>,
    warnings: Vec<FieldError>,
    hash: String,
    put_at: Option<Timestamp>,
    /// The event types that one of the library is used for without any default.
    used_for: Vec<String>,
}

impl From<PolicyVersion> for PolicyPage {
    fn from(own: PolicyVersion) -> Self {
        Self {
            id: own.policy_id,
            version: Some(own.version),
            policy: own.policy,
            english: own.english,
            warnings: own.warnings,
            hash: own.policy_hash,
            put_at: Some(own.created_at),
            used_for: Vec::new(),
        }
    }
}

impl PolicyPage {
    /// The policy with this id. An id of the library names that one, unless the partner has one of its own.
    ///
    /// # Errors
    /// `not_found`, and those of the operations.
    pub(super) async fn of(
        user: &User,
        asked: &Asked,
        id: &str,
        version: Option<&str>,
    ) -> Result<Self, Error> {
        let query = [("version", version.unwrap_or_default())];
        let unknown = match user.read::<GetPolicy>(&[id], &query).await {
            Ok(own) => return Ok(own.into()),
            Err(error) if error.kind == Kind::NotFound && version.is_none() => error,
            Err(error) => return Err(error),
        };
        let templates = library(user, asked).await?.data;
        let template = templates.into_iter().find(|known| known.policy_id == id);
        let template = template.ok_or(unknown)?;
        Ok(Self {
            id: template.policy_id,
            version: None,
            policy: template.policy,
            english: template.english,
            warnings: Vec::new(),
            hash: template.policy_hash,
            put_at: None,
            used_for: template.default_for,
        })
    }

    pub(super) fn name(&self) -> &str {
        self.policy.document().name.as_deref().unwrap_or(&self.id)
    }

    /// It as one of two versions that are compared.
    pub(super) fn side(&self) -> Side<'_> {
        let version = self.version.unwrap_or_default();
        Side::new(format!("Version {version}"), &self.english, &self.policy)
    }

    /// Its text, as people write it.
    pub(super) fn text(&self) -> String {
        text::text(&difference::json(&self.policy))
    }
}

/// The page of a policy, with the refusal of what was just tried.
pub(in crate::console) async fn show(user: &User, asked: &Asked) -> Result<Answer, Error> {
    let id = asked.id(0);
    let wanted = asked.fields.get("version");
    let shown = PolicyPage::of(user, asked, id, wanted).await?;
    let against = match asked.fields.get("against") {
        Some(version) => Some(PolicyPage::of(user, asked, id, Some(version)).await?),
        None => None,
    };
    let versions = match shown.version {
        Some(_) => Some(versions_of(user, asked).await?),
        None => None,
    };
    let defaults = defaults_of(user).await?;
    let (example, faults) = example_card(user, asked, &shown).await?;
    let draft = asked.draft();
    let main = html! {
        p.back { a href=(user.link("/policies")) { "← All policies" } }
        (head(user, &shown, wanted.is_some()))
        (draft.alert(&["eventType"]))
        @for warning in &shown.warnings { (warned(warning)) }
        @if let Some(against) = &against { (differing(against, &shown)) }
        (facts(user, &shown, &defaults))
        section.card aria-labelledby="english" {
            h2 #english { "What it means" }
            ul { @for sentence in &shown.english { li { (with_amounts(sentence)) } } }
        }
        (example)
        @if user.may(Scope::PoliciesWrite) {
            section.card aria-labelledby="default" {
                h2 #default { "Make it a default" }
                p { "For bookings recorded from now on that name no policy." }
                (defaults::forms(user, id, &draft))
            }
        }
        @if let Some(versions) = &versions { (versions_card(user, asked, &shown, versions)) }
        details.card { summary { "The policy as JSON" } pre { (shown.text()) } }
    };
    let status = form::status(asked.refused.as_ref().or(faults.as_ref()));
    Ok(Answer::Page(
        status,
        Page::new(Part::Policies, shown.name(), main),
    ))
}

fn head(user: &User, shown: &PolicyPage, is_asked: bool) -> Markup {
    let link = |address: String| user.link(&address);
    html! {
        div.title {
            h1 { (shown.name()) }
            @match shown.version {
                Some(version) => (badge(Tone::Calm, &format!("Version {version}{}", if is_asked { "" } else { ", the latest" }))),
                None => (badge(Tone::Calm, "Library")),
            }
        }
        @if user.may(Scope::PoliciesWrite) {
            div.actions {
                @if shown.version.is_some() { a.button.first href=(link(format!("/policies/{}/change", shown.id))) { "Change" } }
                a.button href=(link(format!("/new-policy?from={}", shown.id))) { "Start a policy from it" }
            }
        }
    }
}

/// A warning about a policy, in the words of the editor's fields.
pub(super) fn warned(warning: &FieldError) -> Markup {
    let mut warning = warning.clone();
    beside(&mut warning);
    html! {
        div.alert.warn {
            p { strong { "Warning: " } (place(&warning.pointer)) " " (warning.message) ". " (warning.fix) }
        }
    }
}

fn facts(user: &User, shown: &PolicyPage, defaults: &Defaults) -> Markup {
    let types = default_for(defaults, &shown.id);
    let used_for = used_for(user, &shown.used_for);
    html! {
        section.card aria-label="The policy" {
            dl {
                (fact("Id", copyable(&shown.id)))
                @if !types.is_empty() { (fact("Default for", types.join(", "))) }
                @else if used_for.is_empty() { (fact("Default for", "nothing")) }
                @if !used_for.is_empty() { (fact("Used for", used_for)) }
                @if let Some(at) = shown.put_at { (fact("Saved", time(at))) }
                (fact("Hash", copyable(&shown.hash)))
            }
        }
    }
}

/// The example with its fields, and its faults.
async fn example_card(
    user: &User,
    asked: &Asked,
    shown: &PolicyPage,
) -> Result<(Markup, Option<Error>), Error> {
    let document = shown.policy.document();
    let fields = match asked.fields.get("eventDate") {
        Some(_) => asked.fields.clone(),
        None => asked
            .fields
            .with("eventDate", &example::date_for(document, asked.now)),
    };
    let checked = example::check(user, shown.policy.canonical_json(), &fields).await?;
    let faults = (!checked.faults.is_empty()).then(|| Error::faults(checked.faults));
    let draft = Draft {
        fields: &fields,
        refused: faults.as_ref(),
    };
    let kept = ["version", "against"].map(|name| (name, asked.fields.get(name)));
    let card = html! {
        section.card aria-labelledby="example" {
            h2 #example { "An example" }
            (draft.alert(&example::NAMES))
            form.filter action=(user.link(&format!("/policies/{}", shown.id))) {
                @for (name, text) in kept { @if let Some(text) = text { (hidden(name, text)) } }
                (example::inputs(&draft, "Such as 2027-06-20T19:00."))
                button { "Show" }
            }
            @if faults.is_none() { (example::shown(&checked.check, asked.now)) }
        }
    };
    Ok((card, faults))
}

async fn versions_of(user: &User, asked: &Asked) -> Result<ListPage<PolicyListing>, Error> {
    let cursor = asked.fields.get("cursor").unwrap_or_default();
    let query = [("limit", "25"), ("cursor", cursor)];
    user.read::<ListPolicyVersions>(&[asked.id(0)], &query)
        .await
}

fn versions_card(
    user: &User,
    asked: &Asked,
    shown: &PolicyPage,
    versions: &ListPage<PolicyListing>,
) -> Markup {
    let path = format!("/policies/{}", shown.id);
    let link = |query: String| user.link(&format!("{path}?{query}"));
    let rows = versions.data.iter().map(|listed| {
        let version = listed.version;
        html! {
            td { a href=(link(format!("version={version}"))) { "Version " (version) } @if shown.version == Some(version) { " " strong { "shown" } } }
            td { (time(listed.created_at)) }
            td { @if version > 1 {
                a href=(link(format!("version={version}&against={}", version - 1))) { "What version " (version) " changed" }
            } }
            td { @if let Some(current) = shown.version.filter(|current| *current != version) {
                @let (newer, older) = (current.max(version), current.min(version));
                a href=(link(format!("version={newer}&against={older}"))) { "Compare " (older) " with " (newer) }
            } }
        }
    });
    let filter = Fields::default();
    html! {
        section.card aria-labelledby="versions" {
            h2 #versions { "Versions" }
            p { "A version never changes, and none is removed. A booking keeps the one that it was recorded with." }
            (records("Versions, newest first", &["Version", "Saved", "Change", "Compare"], rows))
            (next_page(user, &path, &filter, "cursor", versions.next_cursor.as_deref(), "Older versions"))
            @if asked.fields.get("cursor").is_some() { p { a href=(user.link(&path)) { "Newest versions" } } }
        }
    }
}

fn differing(against: &PolicyPage, shown: &PolicyPage) -> Markup {
    let number = |of: &PolicyPage| of.version.unwrap_or_default();
    let (before, after) = (number(against), number(shown));
    html! {
        section.card aria-labelledby="difference" {
            h2 #difference { "From version " (before) " to version " (after) }
            (difference::shown(&against.side(), &shown.side()))
        }
    }
}
