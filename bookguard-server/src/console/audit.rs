//! Who changed what.

use bookguard_core::error::Error;
use bookguard_core::features::audit::{ACTIONS, ListAudit, SERVICE_ACTIONS};
use bookguard_core::model::{AuditActorKind, AuditRecord, Page as Rows, Scope};
use maud::{Markup, html};

use super::parts::{empty, next_page, records, time, words};
use super::{Answer, Asked, Field, Kind, Page, Part, User, Whose, form};

/// The fields of the filter, with the names of the operation's parameters.
const FILTER: [&str; 3] = ["action", "since", "until"];
const PATH: &str = "/audit";

/// Actions that the pages call otherwise than the interface.
const CALLED: [(&str, &str); 15] = [
    ("createConsoleLink", "Invite somebody"),
    ("createShare", "Share by a link"),
    ("createWebhookEndpoint", "Add an endpoint"),
    ("deleteWebhookEndpoint", "Remove an endpoint"),
    ("eraseValues", "Erase personal data"),
    ("putPolicy", "Save a policy"),
    ("recoverWebhookEvents", "Send many events again"),
    ("retryWebhookEvent", "Send an event again"),
    ("revokeShare", "Revoke a link"),
    ("rotateApiKey", "Replace an API key"),
    ("rotatePartnerSecret", "Replace the signing secret"),
    (
        "rotateWebhookEndpointSecret",
        "Replace an endpoint's secret",
    ),
    ("testWebhookEndpoint", "Test an endpoint"),
    ("updatePartner", "Change settings"),
    ("updateWebhookEndpoint", "Change an endpoint"),
];

/// Records, and for what they were asked.
pub(super) struct Found {
    pub(super) records: Rows<AuditRecord>,
    asked: Asked,
}

/// The records that a page of the audit asks for.
pub(super) async fn find(user: &User, asked: &Asked) -> Result<Found, Error> {
    let typed = asked.fields.in_utc(&["since", "until"]);
    let mut query = vec![
        ("limit", "100"),
        ("cursor", typed.get("cursor").unwrap_or_default()),
    ];
    query.extend(FILTER.map(|name| (name, typed.get(name).unwrap_or_default())));
    let (records, asked) = form::filtered(asked, user.read::<ListAudit>(&[], &query).await)?;
    Ok(Found {
        records: records.unwrap_or_else(|| Rows::of(Vec::new(), 0, |_| String::new())),
        asked,
    })
}

impl Found {
    /// The filter, these lines of records, and the way to older ones.
    pub(super) fn shown(&self, user: &User, lines: impl Iterator<Item = Markup>) -> Markup {
        let fields = &self.asked.fields;
        let draft = self.asked.draft();
        let service = match user.console.whose {
            Whose::Operator => SERVICE_ACTIONS,
            Whose::Partners => &[],
        };
        let names = ACTIONS.iter().chain(service);
        let mut actions: Vec<_> = names.map(|name| (*name, called(name))).collect();
        actions.sort_by(|one, other| one.1.cmp(&other.1));
        let is_filtered = FILTER.iter().any(|name| fields.get(name).is_some());
        let next = self.records.next_cursor.as_deref();
        html! {
            (draft.alert_of_filter(&FILTER))
            form.filter role="search" action=(user.link(PATH)) {
                (draft.field(&Field::new("action", "What", Kind::Choice(actions)).none("Any").plain()))
                (draft.field(&Field::new("since", "Since (UTC)", Kind::Utc).plain()))
                (draft.field(&Field::new("until", "Before (UTC)", Kind::Utc).plain()))
                button.first { "Show" }
            }
            @if !self.records.data.is_empty() { section.card { (records("Audit records, newest first", &["When", "Who", "What", "About"], lines)) } }
            @else if draft.refused.is_some() {}
            @else if is_filtered { (empty("No record matches.", html! { a href=(user.link(PATH)) { "Show all records" } })) }
            @else { (empty("Nothing was changed yet.", "Each change leaves one record, which nobody can edit.")) }
            (next_page(user, PATH, fields, "cursor", next, "Older records"))
        }
    }

    /// The page with this in it.
    pub(super) fn page(&self, main: Markup) -> Answer {
        Page::new(Part::Audit, "Audit", main).form(&self.asked)
    }
}

pub(super) async fn list(user: &User, asked: &Asked) -> Result<Answer, Error> {
    let found = find(user, asked).await?;
    let main = html! {
        div.title { h1 { "Audit" } }
        p.lead { "Every change of " (user.told("your", "the partner's")) " keys, secrets, endpoints and policies, every legal hold, erasure and link to \
            evidence, everything that people did here, and what the service's operator did for " (user.told("you", "it")) "." }
        (found.shown(user, found.records.data.iter().map(|record| line(user, record))))
    };
    Ok(found.page(main))
}

/// An action as the pages call it.
fn called(action: &str) -> String {
    let own = CALLED.iter().find(|(known, _)| *known == action);
    own.map_or_else(|| words(action), |(_, name)| (*name).to_owned())
}

fn line(user: &User, record: &AuditRecord) -> Markup {
    let bookings = user.may(Scope::BookingsRead);
    let bookings = bookings.then(|| user.link("/bookings"));
    let cells = cells(
        record,
        "The service's operator",
        html! {},
        bookings.as_deref(),
    );
    html! { @for cell in cells { (cell) } }
}

/// When, who, what and about what, with `more` of the last. A booking is a link, if there is an address of its partner's bookings.
pub(super) fn cells(
    record: &AuditRecord,
    operator: &str,
    more: Markup,
    bookings: Option<&str>,
) -> [Markup; 4] {
    let kind = match record.actor.kind {
        AuditActorKind::ApiKey => "API key",
        AuditActorKind::OperatorKey | AuditActorKind::LocalUser => operator,
        AuditActorKind::Anonymous => "Somebody without a key",
    };
    let who = html! {
        td {
            (record.actor.name.as_deref().unwrap_or(kind))
            @if let Some(id) = &record.actor.key_id { small.id { (id) } }
            @if let Some(address) = &record.address { small { (address) } }
        }
    };
    let about = |name: &str, id: &str| {
        html! {
            @match bookings.filter(|_| name == "bookingId") {
                Some(bookings) => a.id href={ (bookings) "/" (id) } { (id) },
                None => span.id { (id) },
            }
        }
    };
    let subject = html! { td { (more) @for (name, id) in &record.subject { div { small { (words(name)) } (about(name, id)) } } } };
    [
        html! { td { (time(record.at)) } },
        who,
        html! { td { (called(&record.action)) } },
        subject,
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn actions_bear_the_names_of_the_pages() {
        for (action, name) in CALLED {
            assert!(ACTIONS.contains(&action), "{action}");
            assert_eq!(called(action), name);
        }
        assert_eq!(called("createApiKey"), "Create API key");
    }
}
