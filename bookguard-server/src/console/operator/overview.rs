//! The first page: what needs the operator now.

use bookguard_core::error::Error;
use bookguard_core::features::endpoints::ListEndpoints;
use bookguard_core::features::partners::ListPartners;
use bookguard_core::features::system::{GetSystem, System};
use bookguard_core::limits::PARTNERS_EXAMINED;
use bookguard_core::model::{Endpoint, Page as Rows, Partner, PartnerStatus};
use maud::{Markup, html};

use super::{about, partner_badge, system};
use crate::console::parts::{ago, empty, endpoint_badge, time};
use crate::console::{Answer, Asked, Page, Part, User};

/// How many of a kind are named.
const NAMED: u32 = 10;
/// Partners that are asked for at a time.
const ROWS: u32 = 100;

pub(super) async fn show(user: &User, asked: &Asked) -> Result<Answer, Error> {
    let service = user.read::<GetSystem>(&[], &[]).await?;
    let mut partners = Vec::new();
    for status in [PartnerStatus::Pending, PartnerStatus::Suspended] {
        partners.push((status, under_contract(user, status).await?));
    }
    let mut endpoints = Vec::new();
    let named = NAMED.to_string();
    for status in ["suspended", "failing"] {
        let query = [("status", status), ("limit", named.as_str())];
        endpoints.push(user.read::<ListEndpoints>(&[], &query).await?);
    }
    let troubles = system::troubles(&service, asked.now);
    let is_quiet = troubles.is_empty()
        && partners
            .iter()
            .all(|(_, found)| found.data.is_empty() && !found.has_more)
        && endpoints.iter().all(|found| found.data.is_empty());
    let main = html! {
        div.title { h1 { "Overview" } }
        section.card aria-labelledby="now" {
            h2 #now { "What needs you now" }
            @if is_quiet {
                (empty("Nothing waits for you.", "Partners to approve, endpoints that fail, and what is wrong with the service appear here."))
            } @else {
                ul.todo {
                    @for trouble in &troubles {
                        li { strong { (trouble) } a href=(user.link("/system")) { "Look at it" } }
                    }
                    @for (status, found) in &partners { (partner_lines(user, asked, *status, found)) }
                    @for found in &endpoints { (endpoint_lines(user, found)) }
                }
            }
        }
        (glance(user, &service))
    };
    Ok(Page::new(Part::Overview, "Overview", main).ok())
}

/// The newest partners in this status. Nothing can be done for those whose contract has ended for good: they stay suspended, so others may come
/// after any number of them. No more are examined than for one page of a search.
async fn under_contract(user: &User, status: PartnerStatus) -> Result<Rows<Partner>, Error> {
    let limit = ROWS.to_string();
    let (mut found, mut cursor) = (Vec::new(), String::new());
    for _ in 0..PARTNERS_EXAMINED / ROWS {
        let query = [
            ("status", status.word()),
            ("cursor", cursor.as_str()),
            ("limit", limit.as_str()),
        ];
        let page = user.read::<ListPartners>(&[], &query).await?;
        found.extend(page.data.into_iter().filter(|partner| !partner.is_erased()));
        cursor = page.next_cursor.unwrap_or_default();
        if cursor.is_empty() || found.len() > NAMED as usize {
            break;
        }
    }
    let mut named = Rows::of(found, NAMED, |partner: &Partner| partner.partner_id);
    named.has_more |= !cursor.is_empty();
    Ok(named)
}

fn partner_lines(
    user: &User,
    asked: &Asked,
    status: PartnerStatus,
    found: &Rows<Partner>,
) -> Markup {
    html! {
        @for partner in &found.data {
            li {
                (partner_badge(partner))
                a href=(user.link(&about(&partner.partner_id))) { (partner.name) }
                span.soft { "registered " (ago(partner.created_at, asked.now)) }
            }
        }
        @if found.has_more {
            li { a href=(user.link(&format!("/partners?status={}", status.word()))) { "More of them" } }
        }
    }
}

fn endpoint_lines(user: &User, found: &Rows<Endpoint>) -> Markup {
    html! {
        @for endpoint in &found.data {
            li {
                (endpoint_badge(endpoint.status))
                @match endpoint.partner_id {
                    Some(partner) => a href=(user.link(&format!("{}/endpoints/{}", about(&partner), endpoint.endpoint_id))) { (endpoint.url) },
                    None => (endpoint.url),
                }
                @if let Some(since) = endpoint.failing_since { span.soft { "since " (time(since)) } }
            }
        }
        @if found.has_more { li { span.soft { "and more: " code { "bookguard webhook-endpoints list" } } } }
    }
}

/// The service at a glance.
fn glance(user: &User, service: &System) -> Markup {
    html! {
        section.card aria-labelledby="service" {
            h2 #service { "The service" }
            (system::facts(service))
            p { a href=(user.link("/system")) { "More about the service" } }
        }
    }
}
