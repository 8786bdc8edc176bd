//! The operator's console, on the listener of the operator interface.
//!
//! Its own pages are about the service. Those below [`ABOUT`] are about one partner: its account, and the pages that the partner
//! itself has ([`super::places`]), on which the operator acts for it. Invariant: only here does anybody act for a partner by its
//! place in an address, and only with a session of the operator's.

mod account;
mod audit;
mod deliveries;
mod overview;
mod partners;
mod people;
mod system;

use std::collections::{BTreeMap, BTreeSet};

use bookguard_core::error::Error;
use bookguard_core::features::partners::account::GetPartnerAccount;
use bookguard_core::model::{Partner, PartnerId, PartnerStatus};
use maud::{Markup, html};

use super::frame::links;
use super::parts::{Tone, badge, words};
use super::{PageRoute, Part, User};

/// The parts of the operator's console, their names and their addresses.
pub(super) const PARTS: [(Part, &str, &str); 6] = [
    (Part::Overview, "Overview", ""),
    (Part::Partners, "Partners", "/partners"),
    (Part::Deliveries, "Deliveries", "/deliveries"),
    (Part::System, "System", "/system"),
    (Part::People, "People", "/people"),
    (Part::Audit, "Audit", "/audit"),
];

/// The place of what is about one partner.
const ABOUT: &str = "/partners/:partnerId";

fn places() -> Vec<PageRoute> {
    vec![
        place!("", get overview::show),
        place!("/partners", get partners::list),
        place!("/deliveries", get deliveries::list),
        place!("/people", get people::list),
        place!("/people/new", form people),
        place!("/people/:consoleSessionId/end", post people::end),
        place!("/system", get system::show),
        place!("/audit", get audit::list),
    ]
}

/// The places of a partner's account, below [`ABOUT`].
fn account_places() -> Vec<PageRoute> {
    vec![
        place!("", get account::show),
        place!("/approve", form account::approve),
        place!("/suspend", form account::suspend),
        place!("/reinstate", post account::reinstate, again account::show),
        place!("/edit", form account::edit),
        place!("/quota", form account::quota),
    ]
}

/// Every place, with its path.
pub(super) fn all_places() -> impl Iterator<Item = (String, PageRoute)> {
    let own = places().into_iter();
    let own = own.map(|place| (place.path.to_owned(), place));
    let account = account_places().into_iter();
    let account = account.map(|place| (format!("{ABOUT}{}", place.path), place));
    let partners = super::places().into_iter();
    let partners = partners.map(|place| (format!("{ABOUT}{}", beside_account(place.path)), place));
    own.chain(account).chain(partners)
}

/// The path of a partner's page where its account has the first one.
fn beside_account(path: &str) -> &str {
    match path {
        "" => "/overview",
        path => path,
    }
}

/// Whether what is at this place is about one partner.
pub(super) fn is_about_partner(path: &str) -> bool {
    path.starts_with(ABOUT)
}

/// The address of what is about this partner.
pub(super) fn about(partner_id: &PartnerId) -> String {
    ABOUT.replace(":partnerId", &partner_id.to_string())
}

/// Whom the operator acts for, and links to all that is about it.
pub(super) fn partner_parts<'p>(
    user: &User,
    partner: &Partner,
    parts: impl Iterator<Item = (Part, &'p str, &'p str)>,
    part: Option<Part>,
) -> Markup {
    let of_partner = parts
        .map(|(known, name, path)| (name, user.link(beside_account(path)), part == Some(known)));
    let account = [("Account", user.link(""), part == Some(Part::Partners))];
    html! {
        p.acting { "You act for " strong { (partner.name) } " " @if partner.status != PartnerStatus::Active { (partner_badge(partner)) } }
        (links("Partner", account.into_iter().chain(of_partner)))
    }
}

/// A link to a partner, by its name.
fn partner_link(user: &User, names: &Names, partner_id: &PartnerId) -> Markup {
    let id = partner_id.to_string();
    let name = names.get(partner_id).unwrap_or(&id);
    html! { a href=(user.link(&about(partner_id))) { (name) } }
}

/// Partners' names.
type Names = BTreeMap<PartnerId, String>;

/// The names of these partners, of which a page has a hundred at most.
async fn names_of(user: &User, partners: impl Iterator<Item = PartnerId>) -> Result<Names, Error> {
    let mut names = Names::new();
    for partner_id in partners.collect::<BTreeSet<_>>() {
        let id = partner_id.to_string();
        let account = user.read::<GetPartnerAccount>(&[&id], &[]).await?;
        names.insert(partner_id, account.partner.name);
    }
    Ok(names)
}

/// A partner's status in a word or two. One whose contract has ended is suspended; for good, once its record is erased.
fn partner_badge(partner: &Partner) -> Markup {
    if partner.is_erased() {
        return badge(Tone::Calm, "Ended");
    }
    if partner.is_ended() {
        return badge(Tone::Warn, "Ending");
    }
    let tone = match partner.status {
        PartnerStatus::Pending => Tone::Warn,
        PartnerStatus::Approved => Tone::Calm,
        PartnerStatus::Active => Tone::Good,
        PartnerStatus::Suspended => Tone::Bad,
    };
    badge(tone, &partner_status(partner.status))
}

/// The words of that badge, which the filter of the list has too.
fn partner_status(status: PartnerStatus) -> String {
    match status {
        PartnerStatus::Pending => "Waits for approval".to_owned(),
        status => words(status.word()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_partner_whose_contract_has_ended_is_not_called_suspended() {
        let partner = json!({
            "partnerId": "ptn_01a1ff28456e795c8e976258b781f76d", "name": "Acme", "businessType": "marketplace",
            "contactEmail": "ops@acme.example", "status": "suspended", "createdAt": "2026-10-05T14:13:20.000Z",
        });
        let partner: Partner = serde_json::from_value(partner).unwrap();
        let ending = Partner {
            contract_ended_at: Some(partner.created_at),
            ..partner.clone()
        };
        for (partner, expected) in [
            (partner.erased(), ">Ended<"),
            (ending, ">Ending<"),
            (partner, ">Suspended<"),
        ] {
            let shown = partner_badge(&partner).into_string();
            assert!(shown.contains(expected), "{shown}");
        }
    }
}
