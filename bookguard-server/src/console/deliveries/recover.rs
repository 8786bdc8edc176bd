//! Sending many events again: how many there are first, then the recovery of exactly that time.

use bookguard_core::error::Error;
use bookguard_core::features::endpoints::ListEndpoints;
use bookguard_core::features::recoveries::{ListRecoveries, RecoverEvents};
use bookguard_core::limits::DAY_MS;
use bookguard_core::model::{EndpointId, Recovery, RecoveryStatus, Scope, Unreceived};
use maud::{Markup, html};

use crate::console::form::{self, Draft, Field, Kind};
use crate::console::parts::{Tone, badge, fact, grouped, once, table, time, words};
use crate::console::user::User;
use crate::console::{Answer, Asked, Page, Part};

const NAMES: [&str; 4] = ["/since", "/until", "/statuses", "/endpointId"];
const PATH: &str = "/deliveries/recover";

/// The address of the page, with the events of this state chosen if they can be sent again; otherwise with all that can.
pub(super) fn address(status: &str) -> String {
    match Unreceived::WORDS.iter().any(|(word, _)| *word == status) {
        true => format!("{PATH}?%2Fstatuses={status}"),
        false => PATH.to_owned(),
    }
}

/// The address of the page, with one endpoint chosen.
pub(in crate::console) fn of_endpoint(endpoint: EndpointId) -> String {
    format!("{PATH}?%2FendpointId={endpoint}")
}

pub(in crate::console) async fn ask(user: &User, asked: &Asked) -> Result<Answer, Error> {
    page(user, asked, None, None).await
}

/// Counts when asked to count, and sends when asked to send.
pub(in crate::console) async fn send(user: &User, asked: &Asked) -> Result<Answer, Error> {
    let asked = &asked.in_utc(&["/since", "/until"]);
    match user.send::<RecoverEvents>(asked).await {
        Ok(counted) if counted.dry_run => page(user, asked, None, Some(&counted)).await,
        Ok(begun) => {
            let events = grouped(&begun.recovered.to_string());
            let list = match user.may(Scope::WebhooksRead) {
                true => " The list below shows how far that has got.",
                false => "",
            };
            let told = format!("{events} events are being sent again.{list}");
            Ok(Answer::Go(PATH.to_owned(), Some(told)))
        }
        Err(error) if form::is_correctable(&error) => page(user, asked, Some(&error), None).await,
        Err(error) => Err(error),
    }
}

async fn page(
    user: &User,
    asked: &Asked,
    refused: Option<&Error>,
    counted: Option<&Recovery>,
) -> Result<Answer, Error> {
    let earlier = match user.may(Scope::WebhooksRead) {
        true => {
            let listed = user.read::<ListRecoveries>(&[], &[("limit", "20")]);
            listed.await?.data
        }
        false => Vec::new(),
    };
    let draft = Draft {
        fields: &asked.fields,
        refused,
    };
    let day_ago = asked.now.plus_ms(-DAY_MS).to_utc();
    let day_ago = day_ago.format("%Y-%m-%dT%H:%M").to_string();
    let statuses = Unreceived::WORDS.map(|(word, _)| (word, words(word)));
    let since = Field::new("/since", "Since (UTC)", Kind::Utc)
        .value(&day_ago)
        .required();
    let until = Field::new("/until", "Until (UTC)", Kind::Utc).about("Now if left empty.");
    let which = Field::new("/statuses", "Which events", Kind::Choices(&statuses))
        .value("failed no_endpoints");
    let endpoints = match user.may(Scope::WebhooksRead) {
        true => {
            let all = user.read::<ListEndpoints>(&[], &[("limit", "100")]).await?;
            all.data
        }
        false => Vec::new(),
    };
    let endpoints: Vec<_> = endpoints
        .into_iter()
        .filter(|endpoint| endpoint.enabled)
        .map(|endpoint| (endpoint.endpoint_id.to_string(), endpoint.url))
        .collect();
    let endpoints: Vec<_> = endpoints
        .iter()
        .map(|(id, url)| (id.as_str(), url.clone()))
        .collect();
    let to = Field::new("/endpointId", "To which endpoint", Kind::Choice(&endpoints)).none("All");
    let rows: Vec<Markup> = earlier.iter().map(line).collect();
    let running = earlier
        .iter()
        .any(|recovery| recovery.status == RecoveryStatus::Running);
    let main = html! {
        p.back { a href=(user.link("/deliveries")) { "← All deliveries" } }
        div.title { h1 { "Send many events again" } }
        (draft.alert(&NAMES))
        form.card.narrow method="post" action=(user.link(PATH)) {
            p { "Events that no endpoint received are sent again, oldest first. First count them." }
            (draft.field(&since)) (draft.field(&until)) (draft.field(&which))
            @if !endpoints.is_empty() { (draft.field(&to)) }
            input type="hidden" name="/dryRun" value="true";
            button.first { "Count them" }
        }
        @if let Some(counted) = counted { (confirm(user, asked, counted)) }
        @if !rows.is_empty() {
            section.card aria-labelledby="earlier" data-refreshed {
                h2 #earlier { "Earlier ones" }
                @if running { p.soft data-refresh { "This list updates itself." } }
                (table("Earlier recoveries", &["Begun", "State", "#Events", "#Deliveries", "From", "Until"], &rows))
            }
        }
    };
    Ok(Answer::Page(
        form::status(refused),
        Page::new(Part::Deliveries, "Send many events again", main),
    ))
}

/// What was counted, and the button that sends it.
fn confirm(user: &User, asked: &Asked, counted: &Recovery) -> Markup {
    let hidden = NAMES
        .iter()
        .flat_map(|name| asked.fields.all(name).map(move |text| (*name, text)));
    // Events that happen from now on were not counted.
    let until = asked
        .fields
        .get("/until")
        .is_none()
        .then(|| counted.until.to_string());
    let is_whole = counted.status == RecoveryStatus::Finished;
    html! {
        form.card.narrow method="post" action=(user.link(PATH)) {
            h2 { "What would be sent" }
            dl {
                (fact("Events", html! { @if !is_whole { "at least " } (grouped(&counted.recovered.to_string())) }))
                (fact("Deliveries", grouped(&counted.deliveries.to_string())))
                (fact("Without an endpoint now", grouped(&counted.no_endpoints.to_string())))
                (fact("Too old to be sent", grouped(&counted.expired.to_string())))
            }
            @for (name, text) in hidden { input type="hidden" name=(name) value=(text); }
            @if let Some(until) = until { input type="hidden" name="/until" value=(until); }
            (once())
            @if is_whole && counted.recovered == 0 { p { "There is nothing to send." } }
            @else { button.first { "Send them again" } }
        }
    }
}

fn line(recovery: &Recovery) -> Markup {
    let state = match (recovery.status, recovery.dry_run) {
        (RecoveryStatus::Running, _) => badge(Tone::Warn, "Running"),
        (RecoveryStatus::Finished, true) => badge(Tone::Calm, "Counted"),
        (RecoveryStatus::Finished, false) => badge(Tone::Good, "Finished"),
    };
    html! {
        td { (time(recovery.created_at)) }
        td { (state) }
        td.amount { (recovery.recovered) }
        td.amount { (recovery.deliveries) }
        td { (time(recovery.since)) }
        td { (time(recovery.until)) }
    }
}
