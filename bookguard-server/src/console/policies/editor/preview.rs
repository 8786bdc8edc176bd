//! What a policy that is being written means: beside its form, and on the page from which it is put.

use bookguard_core::error::{Error, FieldError};
use bookguard_core::features::policies::PolicyCheck;
use maud::{Markup, html};

use super::super::difference::{self, Side};
use super::super::show::warned;
use super::draft::{Mode, beside, place};
use super::{DO, Editing, action, example, hidden};
use crate::console::form::id_of;
use crate::console::parts::{counted, with_amounts};
use crate::console::{Answer, Asked, Draft, Page, Part, User};

/// What [`Editing::focus`] holds if the part beside the form has the focus.
pub(super) const PANE: &str = "preview";

/// The part beside the form. The script renews what is marked, and the verdict is read out when it changes.
pub(super) fn pane(asked: &Asked, editing: &Editing<'_>, draft: &Draft<'_>) -> Markup {
    // On a small screen it stands below the form, so whoever asked for it is led to it. A refusal comes first.
    let is_asked_for = editing.focus.as_deref() == Some(PANE) && draft.refused.is_none();
    html! {
        aside.card.preview aria-labelledby="preview" tabindex=[is_asked_for.then_some("-1")] autofocus[is_asked_for] {
            h2 #preview { "What it means" }
            p role="status" aria-live="polite" data-live { (verdict(editing)) }
            // A text that was refused has its faults beside it.
            @let is_marked = editing.typed.mode == Mode::Json && draft.refused.is_some();
            div data-live { (meaning(asked, editing, editing.refused.as_ref().filter(|_| !is_marked))) }
            h3 { "The example" }
            (example::inputs(draft, "Such as 2027-06-20T19:00. Empty: no schedule."))
        }
    }
}

/// Nothing but the part that the script renews. Whatever is wrong, the check itself went well.
pub(super) fn answer(asked: &Asked, editing: &Editing<'_>) -> Answer {
    let all = editing.typed.all();
    let draft = Draft {
        fields: &all,
        refused: None,
    };
    let main = html! { h1 { "Preview" } (pane(asked, editing, &draft)) };
    Page::new(Part::Policies, "Preview", main).ok()
}

/// Whether the policy can be used, in a sentence.
fn verdict(editing: &Editing<'_>) -> String {
    let check = editing.checked.as_ref().map(|checked| &checked.check);
    let refused = editing.refused.as_ref();
    let faults = refused.map_or(0, |refused| refused.details.len().max(1) as u64);
    match check {
        _ if faults > 0 => format!("{} to correct.", counted(faults, "thing")),
        Some(check) if check.valid => usable(check.warnings.len() as u64),
        Some(check) => format!(
            "{} to fill in.",
            counted(check.errors.len() as u64, "thing")
        ),
        None => String::new(),
    }
}

/// That the policy can be used, and how many warnings there are.
fn usable(warnings: u64) -> String {
    match warnings {
        0 => "It can be used.".to_owned(),
        1 => "It can be used. There is 1 warning.".to_owned(),
        warnings => format!(
            "It can be used. There are {}.",
            counted(warnings, "warning")
        ),
    }
}

/// These faults, warnings, English and schedule.
fn meaning(asked: &Asked, editing: &Editing<'_>, refused: Option<&Error>) -> Markup {
    let faults = refused.map_or(&[][..], |refused| &refused.details);
    html! {
        @if let Some(refused) = refused.filter(|refused| refused.details.is_empty()) { p.fault { (refused.message) } }
        @if !faults.is_empty() { ul.fault { @for fault in faults { li { (told(editing, fault)) } } } }
        @if let Some(checked) = &editing.checked {
            @for warning in &checked.check.warnings {
                @let warning = moved(editing, warning);
                div.alert.warn { p { strong { "Warning: " } (told(editing, &warning)) } }
            }
            @if checked.check.valid { (example::shown(&checked.check, asked.now)) }
            (english(&checked.check))
        }
    }
}

/// A warning at the field that it is about, if there are fields.
fn moved(editing: &Editing<'_>, warning: &FieldError) -> FieldError {
    let mut warning = warning.clone();
    if editing.typed.mode == Mode::Fields {
        beside(&mut warning);
    }
    warning
}

/// A fault or a warning, with a link to its field, if there are fields.
fn told(editing: &Editing<'_>, fault: &FieldError) -> Markup {
    let FieldError {
        pointer,
        message,
        fix,
        ..
    } = fault;
    html! {
        @match editing.typed.mode {
            Mode::Fields => a href={ "#" (id_of(pointer)) } { (place(pointer)) },
            Mode::Json => code { (pointer) },
        }
        " " (message) ". " (fix)
    }
}

/// What a policy means, a sentence for each rule.
fn english(check: &PolicyCheck) -> Markup {
    html! { @if !check.english.is_empty() { ul { @for sentence in &check.english { li { (with_amounts(sentence)) } } } } }
}

/// The page from which the policy is put.
pub(super) fn review(user: &User, asked: &Asked, editing: &Editing<'_>) -> Answer {
    let typed = editing.typed.all();
    let check = editing.checked.as_ref().map(|checked| &checked.check);
    let policy = check.and_then(|check| check.normalized.as_ref());
    let id = policy.map_or("", |policy| policy.document().policy_id.as_str());
    let title = match editing.changed {
        Some(changed) => format!("Save a new version of {}?", changed.name()),
        None => format!("Save the policy {id}?"),
    };
    let main = html! {
        div.title { h1 { (title) } }
        section.card aria-labelledby="means" {
            h2 #means { "What it means" }
            @if let Some(check) = check {
                @for warning in &check.warnings { (warned(warning)) }
                (english(check))
                (example::shown(check, asked.now))
            }
        }
        @if let (Some(changed), Some(policy), Some(check)) = (editing.changed, policy, check) {
            @let after = Side::new("Yours".to_owned(), &check.english, policy);
            section.card aria-labelledby="difference" { h2 #difference { "What changes" } (difference::shown(&changed.side(), &after)) }
        }
        form.card method="post" action=(action(user, editing)) {
            p { strong { "A version is never removed." } " It applies to bookings recorded from now on; those that exist keep theirs." }
            (hidden(&typed))
            div.actions {
                button.first name=(DO) value="put" { "Save" }
                button name=(DO) value="edit" { "Back to the form" }
            }
        }
    };
    Page::new(Part::Policies, title, main).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn warnings_are_counted_in_english() {
        for (warnings, expected) in [
            (0, "It can be used."),
            (1, "It can be used. There is 1 warning."),
            (2, "It can be used. There are 2 warnings."),
            (5, "It can be used. There are 5 warnings."),
            (21, "It can be used. There are 21 warnings."),
        ] {
            assert_eq!(usable(warnings), expected);
        }
    }
}
