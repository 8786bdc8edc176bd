//! One partner's account: who it is, what it uses, and whether it may.

pub(super) mod approve;
pub(super) mod edit;
pub(super) mod quota;
pub(super) mod suspend;

use bookguard_core::error::Error;
use bookguard_core::features::partners::account::ReinstatePartner;
use bookguard_core::model::{PartnerAccount, PartnerStatus, QuotaReport, QuotaUse};
use maud::{Markup, html};

use super::partner_badge;
use crate::config::bytes::Bytes;
use crate::console::parts::{alert, button, copyable, fact, grouped, table, time};
use crate::console::{Answer, Asked, Page, Part, User};

/// The account of the partner that the page is about.
fn account(user: &User) -> Result<&PartnerAccount, Error> {
    let acting = user.acting.as_ref();
    acting.ok_or_else(|| Error::not_found("partner"))
}

pub(super) async fn show(user: &User, asked: &Asked) -> Result<Answer, Error> {
    let PartnerAccount { partner, quota } = account(user)?;
    let defaults = partner.settings.default_policies.iter();
    let main = html! {
        p.back { a href=(user.console.link(super::partners::PATH)) { "← All partners" } }
        div.title { h1 { (partner.name) } (partner_badge(partner)) }
        (alert(asked))
        @if !partner.is_erased() {
            div.actions {
                @match partner.status {
                    PartnerStatus::Pending => a.button.first href=(user.link("/approve")) { "Approve" },
                    PartnerStatus::Suspended => (button(user, "/reinstate", "Reinstate", "first")),
                    PartnerStatus::Approved | PartnerStatus::Active => {}
                }
                a.button href=(user.link("/edit")) { "Edit" }
                a.button href=(user.link("/quota")) { "Change the quota" }
                @if matches!(partner.status, PartnerStatus::Active | PartnerStatus::Approved) {
                    a.button.danger href=(user.link("/suspend")) { "Suspend" }
                }
            }
        }
        section.card aria-label="The partner" {
            dl {
                (fact("Business", &partner.business_type))
                (fact("Contact", &partner.contact_email))
                @if let Some(site) = &partner.website { (fact("Site", site)) }
                @if let Some(zone) = &partner.settings.time_zone { (fact("Time zone", zone)) }
                @for (event_type, policy) in defaults { (fact(&format!("Default policy of {event_type}"), policy)) }
                (fact("Registered", time(partner.created_at)))
                @if let Some(at) = partner.contract_ended_at { (fact("Contract ended", time(at))) }
                (fact("Id", copyable(&partner.partner_id.to_string())))
            }
        }
        section.card aria-labelledby="quota" {
            h2 #quota { "What it uses" }
            (table("Quota and use", &["What", "#Used", "#Quota", "#Share"], parts(quota).map(used)))
        }
    };
    Ok(Page::new(Part::Partners, &partner.name, main).form(asked))
}

/// The parts of a quota that are sizes.
const SIZES: [&str; 2] = ["/bytes", "/fileBytes"];

/// Each part of a quota, by its member in the operation's body and its name.
fn parts(quota: &QuotaReport) -> [(&'static str, &'static str, QuotaUse); 5] {
    [
        ("/bookings", "Bookings", quota.bookings),
        ("/bytes", "Size of bookings", quota.bytes),
        ("/eventsPerDay", "Events today (UTC)", quota.events_per_day),
        ("/endpoints", "Webhook endpoints", quota.endpoints),
        ("/fileBytes", "Size of evidence files", quota.file_bytes),
    ]
}

fn used((name, label, part): (&str, &str, QuotaUse)) -> Markup {
    let share = part.limit.filter(|limit| *limit > 0).map(|limit| {
        let percent = u128::from(part.used) * 100 / u128::from(limit);
        format!("{percent} %")
    });
    html! {
        td { (label) }
        td.amount { (amount(name, part.used)) }
        td.amount { (limit(name, part)) }
        td.amount { (share.unwrap_or_default()) }
    }
}

/// How much of a part: a size, and a number of anything else.
fn amount(name: &str, number: u64) -> String {
    match SIZES.contains(&name) {
        true => size(number),
        false => grouped(&number.to_string()),
    }
}

/// A size such as 10 GiB, or a number of bytes that has no larger unit.
fn size(bytes: u64) -> String {
    let text = Bytes(bytes).to_string();
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    match &text[digits.len()..] {
        "" => format!("{} B", grouped(&text)),
        unit => format!("{digits} {unit}"),
    }
}

fn limit(name: &str, part: QuotaUse) -> String {
    let limit = part.limit.map(|limit| amount(name, limit));
    limit.unwrap_or_else(|| "no limit".to_owned())
}

pub(super) async fn reinstate(user: &User, asked: &Asked) -> Result<Answer, Error> {
    user.submit::<ReinstatePartner>(asked).await?;
    Ok(done("The partner is reinstated."))
}

/// Back to the account, with what was done.
fn done(what: &str) -> Answer {
    Answer::done("", what)
}

/// A page below the account with this form, which has fields of these names.
fn framed(
    user: &User,
    asked: &Asked,
    title: &str,
    names: &[&str],
    form: Markup,
) -> Result<Answer, Error> {
    let name = &account(user)?.partner.name;
    let main = html! {
        p.back { a href=(user.link("")) { "← " (name) } }
        div.title { h1 { (title) } }
        (asked.draft().alert(names))
        (form)
    };
    Ok(Page::new(Part::Partners, title, main).form(asked))
}
