//! All partners.

use bookguard_core::error::Error;
use bookguard_core::features::partners::ListPartners;
use bookguard_core::model::{Partner, PartnerStatus};
use maud::{Markup, html};

use super::{about, partner_badge, partner_status};
use crate::console::form;
use crate::console::parts::{empty, next_page, nothing_yet, records, time};
use crate::console::{Answer, Asked, Field, Kind, Page, Part, User};

/// Rows of a page.
const ROWS: &str = "100";
/// The fields of the filter.
const FILTER: [&str; 2] = ["search", "status"];
/// Where the list is.
pub(super) const PATH: &str = "/partners";

pub(in crate::console) async fn list(user: &User, asked: &Asked) -> Result<Answer, Error> {
    let fields = &asked.fields;
    let text = |name| fields.get(name).unwrap_or_default();
    let query = [
        ("status", text("status")),
        ("search", text("search")),
        ("cursor", text("cursor")),
        ("limit", ROWS),
    ];
    let (found, asked) = form::filtered(asked, user.read::<ListPartners>(&[], &query).await)?;
    let draft = asked.draft();
    let statuses = PartnerStatus::WORDS.iter();
    let statuses = statuses.map(|(word, status)| (*word, partner_status(*status)));
    let statuses = statuses.collect();
    let main = html! {
        div.title { h1 { "Partners" } }
        (draft.alert_of_filter(&FILTER))
        form.filter role="search" action=(user.link(PATH)) {
            (draft.field(&Field::new("search", "Search", Kind::Search).plain()))
            (draft.field(&Field::new("status", "Status", Kind::Choice(statuses)).none("Any").plain()))
            button.first { "Show" }
        }
        p.soft { "Searches ids, names, kinds of business, contacts and sites. Case does not matter; accents do." }
        @if let Some(found) = &found {
            @let lines = found.data.iter().map(|partner| line(user, partner));
            @let next = found.next_cursor.as_deref();
            @let is_filtered = FILTER.iter().any(|name| fields.get(name).is_some());
            @if !found.data.is_empty() {
                section.card { (records("Partners, newest first", &["Name", "Status", "Business", "Contact", "Since"], lines)) }
            } @else if next.is_some() {
                (nothing_yet("partners"))
            } @else if is_filtered {
                (empty("No partner matches.", html! { a href=(user.link(PATH)) { "Show all partners" } }))
            } @else {
                (empty("There are no partners yet.", html! {
                    "Partners register themselves, or you register one with " code { "bookguard partners register" } "."
                }))
            }
            (next_page(user, PATH, fields, "cursor", next, "Older partners"))
        }
    };
    Ok(Page::new(Part::Partners, "Partners", main).form(&asked))
}

fn line(user: &User, partner: &Partner) -> Markup {
    html! {
        td { a href=(user.link(&about(&partner.partner_id))) { (partner.name) } }
        td { (partner_badge(partner)) }
        td { (partner.business_type) }
        td { (partner.contact_email) @if let Some(site) = &partner.website { small { (site) } } }
        td { (time(partner.created_at)) }
    }
}
