//! A form in two steps: first it shows what it comes to, then a button does just that.
//!
//! Beside the button, what was typed stands as facts: in fields, somebody could change what the button does not send.

use maud::{Markup, html};

use super::draft::Draft;
use super::field::Field;
use crate::console::Asked;
use crate::console::parts::hidden;

/// The field of the form that leads back to the first step.
const CHANGE: &str = "change";

/// A form in two steps.
pub(in crate::console) struct Preview<'p> {
    /// The address that takes both steps.
    pub(in crate::console) address: &'p str,
    pub(in crate::console) heading: &'p str,
    pub(in crate::console) fields: &'p [Field<'p>],
    /// The fields' names, in the order in which the second step sends them.
    pub(in crate::console) names: &'p [&'p str],
}

/// What a form comes to.
pub(in crate::console) struct Outcome<'o> {
    pub(in crate::console) heading: &'o str,
    pub(in crate::console) shown: Markup,
    /// `None` if there is nothing to do.
    pub(in crate::console) act: Option<Act<'o>>,
}

/// The second step.
pub(in crate::console) struct Act<'o> {
    /// The fields that it sends as they were typed.
    pub(in crate::console) names: &'o [&'o str],
    /// Hidden fields that it sends beside them.
    pub(in crate::console) beside: Markup,
    /// How its button looks.
    pub(in crate::console) class: &'o str,
    pub(in crate::console) label: &'o str,
}

impl Preview<'_> {
    /// Whether somebody wants to change what they typed.
    pub(in crate::console) fn is_to_change(asked: &Asked) -> bool {
        asked.fields.has(CHANGE)
    }

    /// The first step: the form with its fields, after what is said about it, and a button with this label.
    pub(in crate::console) fn ask(&self, draft: &Draft<'_>, about: &Markup, label: &str) -> Markup {
        html! {
            form.card method="post" action=(self.address) aria-labelledby="asked" {
                h2 #asked { (self.heading) }
                (about)
                @for field in self.fields { (draft.field(field)) }
                button { (label) }
            }
        }
    }

    /// The second step: what was typed, the way back to the form that holds it, and what it comes to.
    pub(in crate::console) fn show(&self, draft: &Draft<'_>, outcome: &Outcome<'_>) -> Markup {
        html! {
            section.card aria-labelledby="typed" {
                h2 #typed { (self.heading) }
                (draft.facts(self.fields))
                // A note is personal, and may be longer than an address, so it is sent as a body.
                form.actions method="post" action=(self.address) {
                    (draft.hidden(self.names))
                    (hidden(CHANGE, "1"))
                    button.plain { "Change" }
                }
            }
            (outcome.card(self.address, draft))
        }
    }
}

impl Outcome<'_> {
    /// The browser is led to it: it stands below what was typed.
    pub(in crate::console) fn card(&self, address: &str, draft: &Draft<'_>) -> Markup {
        html! {
            section.card tabindex="-1" autofocus aria-labelledby="outcome" {
                h2 #outcome { (self.heading) }
                (self.shown)
                @if let Some(act) = &self.act {
                    form method="post" action=(address) {
                        (draft.hidden(act.names))
                        (act.beside)
                        (draft.once())
                        button class=(act.class) { (act.label) }
                    }
                }
            }
        }
    }
}
