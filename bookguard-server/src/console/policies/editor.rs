//! Writing a policy: in fields or as its text, checked as it is typed, and put after a look at what it means.
//!
//! What was typed goes with every answer, so nothing is kept between them and nothing is lost. Only the button of the last page
//! puts the policy, and it puts what that page shows.

pub(super) mod draft;
mod form;
mod preview;

use bookguard_core::error::{Error, FieldError, Kind};
use bookguard_core::features::policies::{
    GetPolicy, ListPolicyTemplates, PolicyVersion, PutPolicy,
};
use bookguard_core::input::Json;
use bookguard_core::operation::Request;
use maud::{Markup, html};
use poem::http::StatusCode;

use super::example::{self, Checked};
use super::show::PolicyPage;
use super::{difference, fields};
use crate::console::form as forms;
use crate::console::{Answer, Asked, Fields, Page, Part, User, parts};
use draft::{Mode, Typed};

/// A policy for somebody who begins with nothing.
const SIMPLE: &str = r#"{
    "policyId": "my-policy",
    "grace": {"within": "PT24H", "minNotice": "P7D"},
    "organizer": {
        "tiers": [
            {"before": "P30D", "outcome": {"refundBps": 10000}},
            {"before": "P7D", "outcome": {"refundBps": 5000}}
        ],
        "late": {"refundBps": 0}
    }
}"#;
/// The field of the button that was used.
const DO: &str = "do";

/// What a page of the editor is about.
struct Editing<'e> {
    /// The policy that is changed; `None` for a new one.
    changed: Option<&'e PolicyPage>,
    typed: Typed,
    /// What the form said about the policy, and what was wrong with the example.
    checked: Option<Checked>,
    refused: Option<Error>,
    /// What else there is to say: such as why no fields are shown.
    note: Option<Markup>,
    /// The field that has the focus, or [`preview::PANE`].
    focus: Option<String>,
}

impl<'e> Editing<'e> {
    fn of(changed: Option<&'e PolicyPage>, typed: Typed) -> Self {
        Self {
            changed,
            typed,
            checked: None,
            refused: None,
            note: None,
            focus: None,
        }
    }
}

pub(in crate::console) async fn ask(user: &User, asked: &Asked) -> Result<Answer, Error> {
    let changed = changed(user, asked).await?;
    let mut policy = match (&changed, asked.fields.get("from")) {
        (Some(changed), _) => difference::json(&changed.policy),
        (None, Some(id)) => {
            let from = PolicyPage::of(user, asked, id, None).await?;
            let mut policy = difference::json(&from.policy);
            policy.remove("version");
            // The library's ids are its own.
            policy.set("policyId", format!("my-{id}").into());
            policy
        }
        (None, None) => Json::parse(SIMPLE),
    };
    let typed = Typed::of(&mut policy, asked.now);
    let checked = example::check(user, &typed.text(), &typed.fields).await?;
    let mut editing = Editing::of(changed.as_ref(), typed);
    editing.checked = Some(checked);
    Ok(page(user, asked, &editing, StatusCode::OK))
}

/// The policy that is changed, in its latest version.
async fn changed(user: &User, asked: &Asked) -> Result<Option<PolicyPage>, Error> {
    if asked.path.is_empty() {
        return Ok(None);
    }
    let own = user.read::<GetPolicy>(&[asked.id(0)], &[]).await?;
    Ok(Some(own.into()))
}

pub(in crate::console) async fn send(user: &User, asked: &Asked) -> Result<Answer, Error> {
    let changed = changed(user, asked).await?;
    let mut editing = Editing::of(changed.as_ref(), Typed::read(&asked.fields));
    let action = asked.fields.get(DO).unwrap_or_default();
    match action {
        "add" => editing.focus = editing.typed.add_step(),
        "check" => editing.focus = Some(preview::PANE.to_owned()),
        "json" => editing.typed.become_text(),
        "fields" => {
            let shown = editing.typed.become_fields();
            editing.note = shown.err().map(|why| unsayable(&why));
        }
        "rebase" => {
            if let Some(latest) = editing.changed.and_then(|changed| changed.version) {
                editing.typed.set_version(latest);
            }
        }
        action => {
            if let Some(number) = action.strip_prefix("remove-") {
                editing.typed.remove_step(number);
            }
        }
    }
    check(user, asked, &mut editing).await?;
    let is_refused = editing.refused.is_some();
    let asks_whether_right = match action {
        "" | "check" | "review" | "put" => true,
        // It did not become text, and the field whose figure that would lose is marked.
        "json" => editing.typed.mode == Mode::Fields,
        // Somebody who adds a step or looks at the text has not asked.
        _ => false,
    };
    match action {
        "preview" => Ok(preview::answer(asked, &editing)),
        "review" if !is_refused => Ok(preview::review(user, asked, &editing)),
        "put" if !is_refused => put(user, asked, editing).await,
        _ => {
            let refused = editing.refused.as_ref().filter(|_| asks_whether_right);
            let status = forms::status(refused);
            Ok(page(user, asked, &editing, status))
        }
    }
}

/// Checks what was typed.
async fn check(user: &User, asked: &Asked, editing: &mut Editing<'_>) -> Result<(), Error> {
    let typed = &editing.typed;
    let checked = match example::check(user, &typed.text(), &typed.fields).await {
        Ok(checked) => checked,
        // A text that is not JSON.
        Err(error) if forms::is_correctable(&error) => {
            editing.refused = Some(error);
            return Ok(());
        }
        Err(error) => return Err(error),
    };
    let mut faults = checked.check.errors.clone();
    if let (None, Some(id)) = (editing.changed, typed.policy_id()) {
        faults.extend(taken(user, asked, &id).await?);
    }
    if editing.typed.mode == Mode::Fields {
        faults.iter_mut().for_each(draft::beside);
        let unused = fields::unused_figures(&editing.typed.fields).into_iter();
        faults.extend(unused.map(|figure| {
            let why = "is filled in, and what is chosen beside it takes no figure";
            let fix = "Choose what the figure means, or empty it.";
            FieldError::new(figure, "not_allowed", why, fix)
        }));
    }
    faults.extend(checked.faults.iter().cloned());
    if !faults.is_empty() {
        let mut refused = Error::faults(faults);
        forms::as_typed(&mut refused);
        editing.refused = Some(refused);
    }
    editing.checked = Some(checked);
    Ok(())
}

/// The fault of a new policy whose id is taken: by another one of the partner's, or by the library.
async fn taken(user: &User, asked: &Asked, id: &str) -> Result<Option<FieldError>, Error> {
    // If this form is sent again, what it put the first time does not count as another policy.
    if asked.fields.get(DO) == Some("put") {
        return Ok(None);
    }
    match user.read::<GetPolicy>(&[id], &[]).await {
        Ok(_) => {
            let whose = user.told("one of your policies", "a policy of the partner's");
            let why = format!("\"{id}\" is {whose} already");
            let fix = "Choose another id, or change that policy.";
            return Ok(Some(FieldError::new("/policyId", "not_allowed", why, fix)));
        }
        Err(error) if error.kind == Kind::NotFound => {}
        Err(error) => return Err(error),
    }
    let library = user.read::<ListPolicyTemplates>(&[], &[]).await?;
    let is_reserved = library.data.iter().any(|template| template.policy_id == id);
    Ok(is_reserved.then(|| {
        let why = format!("\"{id}\" is a policy of the library");
        let fix = format!("Choose another id, such as my-{id}.");
        FieldError::new("/policyId", "policy_id_reserved", why, fix)
    }))
}

async fn put(user: &User, asked: &Asked, mut editing: Editing<'_>) -> Result<Answer, Error> {
    let id = match (editing.changed, &editing.checked) {
        (Some(changed), _) => changed.id.clone(),
        (None, Some(Checked { check, .. })) => {
            let policy = check.normalized.as_ref();
            policy.map_or_else(String::new, |policy| policy.document().policy_id.clone())
        }
        (None, None) => String::new(),
    };
    let request = Request {
        path: vec![id],
        body: editing
            .typed
            .text_to_put(editing.changed.is_none())
            .into_bytes(),
        ..Request::default()
    };
    match user.perform::<PutPolicy>(request).await {
        Ok(put) => Ok(done(&editing, &put)),
        Err(mut error) if forms::is_correctable(&error) => {
            if error.code == "policy_version_conflict" {
                error.message = match editing.changed {
                    Some(_) => "Yours was made from another version than the latest, so it was not saved.",
                    None => "There is a policy with this id already, so yours was not saved. Choose another id, or change that policy.",
                }
                .to_owned();
                editing.note = editing
                    .changed
                    .map(|latest| overtaken(user, &editing, latest));
            }
            forms::as_typed(&mut error);
            let status = forms::status(Some(&error));
            editing.refused = Some(error);
            Ok(page(user, asked, &editing, status))
        }
        Err(error) => Err(error),
    }
}

fn done(editing: &Editing<'_>, put: &PolicyVersion) -> Answer {
    let version = put.version;
    let told = match editing.typed.version() == Some(version) {
        true => format!("It says the same as version {version}, so there is no new version."),
        false => {
            format!("Version {version} is saved. It applies to bookings recorded from now on.")
        }
    };
    Answer::done(format!("/policies/{}", put.policy_id), told)
}

/// What to do when somebody else put a version in the meantime.
fn overtaken(user: &User, editing: &Editing<'_>, latest: &PolicyPage) -> Markup {
    let newest = latest.version.unwrap_or_default();
    let base = editing.typed.version().unwrap_or_default();
    let link = user.link(&format!(
        "/policies/{}?version={newest}&against={base}",
        latest.id
    ));
    html! {
        p {
            "What you typed is still here. " a href=(link) { "See what version " (newest) " changed" } ". Then add to yours what you want to \
            keep of it, and go on: "
        }
        button name=(DO) value="rebase" { "Make mine the version after " (newest) }
    }
}

/// Why a policy stays text.
fn unsayable(why: &[String]) -> Markup {
    const SHOWN: usize = 8;
    html! {
        p { "The fields cannot express all of it, so it stays JSON:" }
        ul {
            @for pointer in why.iter().take(SHOWN) { li { @if pointer.is_empty() { "the whole" } @else { code { (pointer) } } } }
            @if why.len() > SHOWN { li { "and more" } }
        }
    }
}

fn page(user: &User, asked: &Asked, editing: &Editing<'_>, status: StatusCode) -> Answer {
    let (title, back) = match editing.changed {
        Some(changed) => (
            format!("Change {}", changed.name()),
            format!("/policies/{}", changed.id),
        ),
        None => ("New policy".to_owned(), "/policies".to_owned()),
    };
    let main = html! {
        p.back { a href=(user.link(&back)) { "← Back" } }
        div.title { h1 { (title) } }
        (form::editor(user, asked, editing, status))
    };
    Answer::Page(status, Page::new(Part::Policies, title, main))
}

/// The address that the forms of the editor are sent to.
fn action(user: &User, editing: &Editing<'_>) -> String {
    match editing.changed {
        Some(changed) => user.link(&format!("/policies/{}/change", changed.id)),
        None => user.link("/new-policy"),
    }
}

/// What was typed, in hidden fields.
fn hidden(fields: &Fields) -> Markup {
    html! {
        @for (name, text) in fields.pairs() { (parts::hidden(name, text)) }
    }
}
