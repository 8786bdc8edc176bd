//! What all pages share: the head, the navigation, the message of what was just done.

use bookguard_core::model::Scope;
use maud::{DOCTYPE, Markup, html};

use super::assets::{SCRIPT, STYLE};
use super::{Console, Part, User, Whose, operator};

/// The parts but the overview, which is everybody's: their names, their addresses, and the scope that their pages need.
const PARTS: [(Part, &str, &str, Scope); 7] = [
    (Part::Bookings, "Bookings", "/bookings", Scope::BookingsRead),
    (Part::Reviews, "Reviews", "/reviews", Scope::BookingsRead),
    (
        Part::Deliveries,
        "Deliveries",
        "/deliveries",
        Scope::WebhooksRead,
    ),
    (
        Part::Endpoints,
        "Endpoints",
        "/endpoints",
        Scope::WebhooksRead,
    ),
    (Part::Policies, "Policies", "/policies", Scope::PoliciesRead),
    (Part::Keys, "Keys and people", "/keys", Scope::ApiKeysRead),
    (Part::Audit, "Audit", "/audit", Scope::AuditRead),
];

impl Console {
    /// A whole page, for whoever is signed in.
    pub(super) fn framed(
        &self,
        user: Option<&User>,
        title: &str,
        part: Option<Part>,
        notice: Option<Markup>,
        main: Markup,
    ) -> Markup {
        // Every partner has the same pages. That of its account has its name already.
        let account = user.and_then(|user| user.acting.as_ref());
        let whose = account.map(|account| account.partner.name.as_str());
        let whose = whose.filter(|name| *name != title);
        html! {
            (DOCTYPE)
            html lang="en" {
                head {
                    meta charset="utf-8";
                    meta name="viewport" content="width=device-width, initial-scale=1";
                    title { (title) @if let Some(name) = whose { " · " (name) } " · Bookguard" }
                    link rel="icon" type="image/svg+xml" href={ (self.base) "/favicon.ico" };
                    link rel="stylesheet" href=(self.link(STYLE.address()));
                    script src=(self.link(SCRIPT.address())) defer {}
                }
                body.framed[user.is_some()] {
                    a.skip href="#main" { "Skip to the content" }
                    @if let Some(user) = user { (self.header(user, part)) }
                    main #main tabindex="-1" {
                        @if let Some(notice) = notice { (notice) }
                        @if user.is_some_and(User::is_suspended) {
                            p.alert.warn { "Your partner account is suspended. You can still look at things, but change nothing. Ask the service's operator." }
                        }
                        (main)
                    }
                }
            }
        }
    }

    fn header(&self, user: &User, part: Option<Part>) -> Markup {
        let shown = PARTS.iter().filter(|(.., scope)| user.may(*scope));
        let shown = shown.map(|(part, name, address, _)| (*part, *name, *address));
        let parts = std::iter::once((Part::Overview, "Overview", "")).chain(shown);
        let operators = self.whose == Whose::Operator;
        // Every page about a partner belongs to the part "Partners".
        let whole = user.acting.as_ref().map(|_| Part::Partners).or(part);
        html! {
            header {
                a.brand href=(self.link("")) { "Bookguard" @if operators { " " span.badge.warn { "Operator" } } }
                @if operators {
                    (self.list("Console", &operator::PARTS, whole))
                    @if let Some(account) = &user.acting { (operator::partner_parts(user, &account.partner, parts, part)) }
                } @else {
                    (self.list("Console", &parts.collect::<Vec<_>>(), part))
                }
                form.who method="post" action=(self.link("/sign-out")) {
                    @if let Some(person) = user.person() { span { (person) } }
                    button.plain { "Sign out" }
                }
            }
        }
    }

    fn list(&self, label: &str, parts: &[(Part, &str, &str)], current: Option<Part>) -> Markup {
        let parts = parts
            .iter()
            .map(|(part, name, address)| (*name, self.link(address), current == Some(*part)));
        links(label, parts)
    }
}

/// Links to the parts of something, each with whether it is shown now.
pub(super) fn links<'n>(
    label: &str,
    parts: impl Iterator<Item = (&'n str, String, bool)>,
) -> Markup {
    html! {
        nav aria-label=(label) {
            ul {
                @for (name, address, current) in parts {
                    li { a href=(address) aria-current=[current.then_some("page")] { (name) } }
                }
            }
        }
    }
}
