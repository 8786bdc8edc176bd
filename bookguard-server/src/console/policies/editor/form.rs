//! The form of the editor: the fields of a policy, or its text, with faults and warnings beside them.

use bookguard_core::error::{self, FieldError};
use bookguard_core::limits::{POLICY_NAME_CHARS, POLICY_TIERS};
use maud::{Markup, html};
use poem::http::StatusCode;

use super::draft::{Mode, PLACES, TEXT, beside};
use super::fields::{self, DURATIONS, FLAGS, OUTCOMES, STEPS, TEXTS, UNITS};
use super::{DO, Editing, action, example, preview};
use crate::console::form::labelled;
use crate::console::parts::hidden;
use crate::console::{Asked, Draft, Field, Fields, Kind, User};

/// What a rule can say.
const KINDS: [(&str, &str); 4] = [
    ("refundBps", "A share goes back"),
    ("keepDeposit", "The deposit is kept, the rest goes back"),
    (
        "penaltyAmount",
        "A fixed amount is kept, the rest goes back",
    ),
    ("manual", "A person decides"),
];
/// The units that are not days of a calendar.
const EXACT_UNITS: [&str; 2] = ["hours", "minutes"];
/// What applies if no outcome is chosen; `None` where one must be.
const NONE: [Option<&str>; 6] = [
    None,
    Some("As after the last step"),
    Some("Everything goes back"),
    Some("As when the talent cancels"),
    Some("Everything goes back"),
    Some("Everything goes back"),
];

/// A form with what was typed, and the warnings about it.
struct Sheet<'s> {
    draft: Draft<'s>,
    warnings: Vec<FieldError>,
    /// The field that has the focus.
    focus: Option<&'s str>,
}

/// The whole editor: the form, and beside it what the policy means.
pub(super) fn editor(
    user: &User,
    asked: &Asked,
    editing: &Editing<'_>,
    status: StatusCode,
) -> Markup {
    let all = editing.typed.all();
    let refused = editing
        .refused
        .as_ref()
        .filter(|_| status != StatusCode::OK);
    let mut warnings = editing
        .checked
        .as_ref()
        .map_or_else(Vec::new, |checked| checked.check.warnings.clone());
    warnings.iter_mut().for_each(beside);
    let sheet = Sheet {
        draft: Draft {
            fields: &all,
            refused,
        },
        warnings,
        focus: editing.focus.as_deref(),
    };
    let names = names(&all);
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let is_text = editing.typed.mode == Mode::Json;
    html! {
        // The check says what is missing, so the browser must not refuse to send the form.
        form.editor method="post" action=(action(user, editing)) novalidate data-preview {
            div {
                // A text has all its faults beside it, wherever in it they are.
                @if is_text { (sheet.draft.alert(&[""])) } @else { (sheet.draft.alert(&names)) }
                @if let Some(note) = &editing.note { div.alert.warn role="status" { (note) } }
                (hidden("mode", all.raw("mode").unwrap_or_default()))
                @if let Some(version) = all.get("/version") { (hidden("/version", version)) }
                // The first button is the one that the Enter key uses, so it changes nothing.
                div.actions {
                    button name=(DO) value="check" { "Check" }
                    @if is_text { button name=(DO) value="fields" { "Write it in fields" } }
                    @else { button name=(DO) value="json" { "Write it as JSON" } }
                }
                @if is_text { (sheet.text()) } @else { (sheet.fields(editing)) }
                div.actions { button.first name=(DO) value="review" { "Go on" } }
                p.soft { "The next page shows what the policy means. Nothing is saved before then." }
            }
            (preview::pane(asked, editing, &sheet.draft))
        }
    }
}

/// The fields that the form has.
fn names(typed: &Fields) -> Vec<String> {
    let plain = TEXTS.iter().chain(&DURATIONS).chain(&FLAGS);
    let plain = plain.chain(&example::NAMES);
    let mut names: Vec<String> = plain.map(|name| (*name).to_owned()).collect();
    for name in OUTCOMES.into_iter().chain(["/deposit"]) {
        names.extend([format!("{name}/kind"), format!("{name}/figure")]);
    }
    let steps = fields::steps(typed).len();
    names.extend((0..steps).map(|number| format!("{STEPS}/{number}/")));
    names
}

fn all_units() -> [&'static str; 4] {
    UNITS.map(|(word, ..)| word)
}

impl Sheet<'_> {
    /// A field, with the warnings about it in its description.
    fn field(&self, field: Field<'_>) -> Markup {
        let warned = self
            .warnings
            .iter()
            .filter(|warning| warning.pointer == field.name);
        let warned: Vec<String> = warned
            .map(|warning| format!("Warning: it {}. {}", warning.message, warning.fix))
            .collect();
        let about = [&[field.about.to_owned()], &*warned].concat().join(" ");
        let is_focused = self.focus == Some(field.name);
        self.draft.field(
            &Field {
                focused: is_focused,
                ..field
            }
            .about(about.trim()),
        )
    }

    fn fields(&self, editing: &Editing<'_>) -> Markup {
        html! {
            section.card aria-labelledby="policy" {
                h2 #policy { "The policy" }
                @match editing.changed {
                    Some(changed) => {
                        p { "Id: " code { (changed.id) } }
                        (hidden("/policyId", &changed.id))
                    },
                    None => (self.field(Field::new("/policyId", "Id", Kind::Text).required()
                        .about("Bookings and programs name the policy by this id, which cannot change. Lower-case letters, digits, - and _."))),
                }
                @let about = format!("For people; at most {POLICY_NAME_CHARS} characters.");
                (self.field(Field::new("/name", "Name", Kind::Text).about(&about)))
                div.filter {
                    (self.field(Field::new("/timeZone", "Time zone", Kind::Text).about("For bookings that name none, such as Europe/Berlin.")))
                    (self.field(Field::new("/anchorTime", "Events start at", Kind::Text).about("For bookings whose date has no time; 00:00 if empty.")))
                    (self.field(Field::new("/currency", "Currency", Kind::Text).about("Only for fixed amounts, such as EUR.")))
                }
            }
            section.card aria-labelledby="organizer" {
                h2 #organizer { "The organizer cancels" }
                p { "Steps count back from the event, the earliest deadline first. Each applies until its deadline, such as 30 days before the event." }
                @let count = fields::steps(self.draft.fields).len();
                @for number in 0..count { (self.step(number)) }
                @if count < POLICY_TIERS { button.plain name=(DO) value="add" { "Add a step" } }
                @for place in 0..2 { (self.outcome(place)) }
            }
            (self.grace())
            (self.deposit())
            section.card aria-labelledby="others" {
                h2 #others { "Others cancel" }
                @for place in 2..5 { (self.outcome(place)) }
            }
            section.card aria-labelledby="force" {
                h2 #force { "Force majeure" }
                p { "What nobody could prevent, whoever cancels." }
                (self.outcome(5))
                @let words = labelled(&[("true", "Yes: without it a person decides"), ("false", "No")]);
                (self.field(Field::new("/forceMajeure/requiresEvidence", "Evidence is needed", Kind::Choice(words)).required()))
            }
            (self.more())
        }
    }

    fn step(&self, number: usize) -> Markup {
        let at = |name: &str| format!("{STEPS}/{number}/{name}");
        let (before, cutoff) = (at("before"), at("cutoffTime"));
        html! {
            fieldset.step {
                legend { "Step " (number + 1) }
                div.filter role="group" aria-label="Its deadline" {
                    (self.duration(&before, "How long before the event", "", &all_units(), true))
                    (self.field(Field::new(&cutoff, "Time of that day", Kind::Text).about("The event's own if empty.").plain()))
                }
                (self.rule(&at("outcome"), "What happens then", None))
                button.plain.danger name=(DO) value={ "remove-" (number) } aria-label={ "Remove step " (number + 1) } { "Remove" }
            }
        }
    }

    /// An outcome beside the steps.
    fn outcome(&self, place: usize) -> Markup {
        self.rule(OUTCOMES[place], PLACES[place], NONE[place])
    }

    fn rule(&self, at: &str, title: &str, none: Option<&str>) -> Markup {
        let (kind, figure) = (format!("{at}/kind"), format!("{at}/figure"));
        let choice = Field {
            required: none.is_none(),
            ..Field::new(&kind, title, Kind::Choice(labelled(&KINDS)))
        };
        html! {
            div.filter role="group" aria-label=(title) {
                (self.field(choice.none(none.unwrap_or("—")).plain()))
                (self.field(Field::new(&figure, "How much", Kind::Number).about("Percent back, or amount kept.").plain()))
            }
        }
    }

    fn duration(
        &self,
        name: &str,
        title: &str,
        about: &str,
        units: &[&str],
        required: bool,
    ) -> Markup {
        let unit = format!("{name}/unit");
        let units = units.iter().map(|unit| (*unit, (*unit).to_owned()));
        let number = Field {
            required,
            plain: !required,
            ..Field::new(name, title, Kind::Number).about(about)
        };
        html! {
            (self.field(number))
            (self.field(Field::new(&unit, "Unit", Kind::Choice(units.collect())).required()))
        }
    }

    /// A duration that may be left empty, as a group of its own.
    fn period(&self, name: &str, title: &str, about: &str, units: &[&str]) -> Markup {
        html! { div.filter role="group" aria-label=(title) { (self.duration(name, title, about, units, false)) } }
    }

    fn grace(&self) -> Markup {
        html! {
            section.card aria-labelledby="grace" {
                h2 #grace { "Grace period" }
                p { "For a while after booking, the organizer can cancel for free. Leave it empty for none." }
                (self.period("/grace/within", "Free for how long after booking", "", &all_units()))
                (self.period("/grace/minNotice", "If the event is at least this far away", "", &all_units()))
            }
        }
    }

    fn deposit(&self) -> Markup {
        let kinds = labelled(&[
            ("bps", "A share of the value, in percent"),
            ("amount", "A fixed amount"),
        ]);
        let kept = labelled(&[(
            "true",
            "Kept whenever the organizer cancels, except in the grace period",
        )]);
        html! {
            section.card aria-labelledby="deposit" {
                h2 #deposit { "Deposit" }
                div.filter {
                    (self.field(Field::new("/deposit/kind", "How it is given", Kind::Choice(kinds)).none("No deposit").plain()))
                    (self.field(Field::new("/deposit/figure", "Amount or percentage", Kind::Number).plain()))
                }
                (self.field(Field::new("/deposit/nonRefundable", "Whether it goes back", Kind::Choices(kept)).plain()))
            }
        }
    }

    fn more(&self) -> Markup {
        let floors = labelled(&[
            ("keep_reached_tier", "A step that was reached still counts"),
            ("reset", "The steps start anew"),
        ]);
        let roundings = labelled(&[
            ("half_up", "To the nearest, halves up"),
            ("half_even", "To the nearest, halves to the even one"),
            ("down", "Down"),
            ("up", "Up"),
        ]);
        html! {
            section.card aria-labelledby="more" {
                h2 #more { "Everything else" }
                (self.field(Field::new("/reschedule/floor", "When the event is moved", Kind::Choice(floors)).required()))
                (self.field(Field::new("/rounding", "Fractions of the smallest unit of money are rounded", Kind::Choice(roundings)).required()))
                (self.period("/claimWindow", "How long after the start a cancellation can be claimed", "14 days if empty.", &all_units()))
                (self.period("/backdateTolerance", "How far a cancellation may be backdated", "1 hour if empty; beyond it a person decides.", &EXACT_UNITS))
            }
        }
    }

    /// The policy as its text, with all its faults.
    fn text(&self) -> Markup {
        let refused = self.draft.refused;
        let faults = refused
            .map(|error| error.details.as_slice())
            .unwrap_or_default();
        let faults = faults
            .iter()
            .filter(|fault| !example::NAMES.contains(&&*fault.pointer));
        // A text that is no JSON has no faults by place.
        let unread =
            refused.filter(|error| error.details.is_empty() && error.kind == error::Kind::Invalid);
        let is_faulty = unread.is_some() || faults.clone().next().is_some();
        html! {
            section.card aria-labelledby="text" {
                h2 #text { "The policy as JSON" }
                p #text-about.about { "It may hold anything that a policy can. The interface describes every member." }
                @if is_faulty {
                    div #text-faults.fault {
                        @if let Some(unread) = unread { (unread.message) }
                        @else {
                            "Correct this:"
                            ul { @for fault in faults { li { code { (fault.pointer) } " " (fault.message) ". " (fault.fix) } } }
                        }
                    }
                }
                label.hidden for="fjson" { "The policy as JSON" }
                textarea #fjson.code name=(TEXT) rows="28" spellcheck="false" aria-invalid=[is_faulty.then_some("true")]
                    aria-describedby=(if is_faulty { "text-about text-faults" } else { "text-about" }) {
                    (self.draft.fields.raw(TEXT).unwrap_or_default())
                }
            }
        }
    }
}
