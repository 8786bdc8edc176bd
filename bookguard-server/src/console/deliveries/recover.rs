//! Sending many events again: how many there are first, then the recovery of exactly that time.

use bookguard_core::error::Error;
use bookguard_core::features::endpoints::ListEndpoints;
use bookguard_core::features::recoveries::{ListRecoveries, RecoverEvents};
use bookguard_core::limits::{DAY_MS, HOUR_MS};
use bookguard_core::model::{
    Endpoint, Event, Recovery, RecoveryStatus, Scope, Timestamp, Unreceived,
};
use maud::{Markup, html};

use crate::console::form::{Act, Outcome, Preview, choices};
use crate::console::parts::{Tone, back, badge, counted, fact, grouped, hidden, table, time};
use crate::console::{Answer, Asked, Draft, Field, Kind, Page, Part, User};

/// The fields of the form. The end comes last, where `outcome` adds it: a request that is repeated is the same to the byte.
const NAMES: [&str; 4] = ["/since", "/statuses", "/endpointId", "/until"];
const TIMES: [&str; 2] = ["/since", "/until"];
const PATH: &str = "/deliveries/recover";

/// The page's address. It preselects the events of this state if they can be sent again, otherwise all that can, from the oldest
/// of these on that can.
pub(super) fn address<'e>(
    status: &str,
    shown: impl Iterator<Item = &'e Event>,
    now: Timestamp,
) -> String {
    let mut names = Unreceived::WORDS.iter().map(|(word, _)| *word);
    let status = names.find(|word| *word == status);
    let can_be_sent = shown.filter(|event| Unreceived::of(event.status).is_some());
    let since = can_be_sent.map(|event| event.timestamp).min();
    preselecting(status.map(|word| ("statuses", word.to_owned())), since, now)
}

/// The page's address, which preselects one endpoint, and the time for which it has failed. An event happens before the attempt
/// that failed, so the time begins earlier.
pub(in crate::console) fn of_endpoint(endpoint: &Endpoint, now: Timestamp) -> String {
    let since = endpoint.failing_since.map(|since| since.plus_ms(-HOUR_MS));
    let chosen = ("endpointId", endpoint.endpoint_id.to_string());
    preselecting(Some(chosen), since, now)
}

/// The page's address with this field, and with a time to begin from that is earlier than the page's own. The texts need no escape.
fn preselecting(
    chosen: Option<(&str, String)>,
    since: Option<Timestamp>,
    now: Timestamp,
) -> String {
    let since = since.filter(|since| *since < day_before(now));
    let since = since.map(|since| ("since", typed(since)));
    let fields = chosen.into_iter().chain(since);
    let pairs: Vec<_> = fields
        .map(|(name, text)| format!("%2F{name}={text}"))
        .collect();
    match pairs.is_empty() {
        true => PATH.to_owned(),
        false => format!("{PATH}?{}", pairs.join("&")),
    }
}

/// The time from which the page looks unless another is chosen.
fn day_before(now: Timestamp) -> Timestamp {
    now.plus_ms(-DAY_MS)
}

/// An instant as a field holds it, to the minute before it.
fn typed(at: Timestamp) -> String {
    at.to_utc().format("%Y-%m-%dT%H:%M").to_string()
}

pub(in crate::console) async fn ask(user: &User, asked: &Asked) -> Result<Answer, Error> {
    page(user, asked, None).await
}

/// Counts when asked to count, and sends when asked to send.
pub(in crate::console) async fn send(user: &User, asked: &Asked) -> Result<Answer, Error> {
    if Preview::is_to_change(asked) {
        return page(user, asked, None).await;
    }
    let asked = asked.with(asked.fields.in_utc(&TIMES));
    let recovery = user.send::<RecoverEvents>(&asked).await?;
    if recovery.dry_run {
        return page(user, &asked, Some(&recovery)).await;
    }
    let list = match user.may(Scope::WebhooksRead) {
        true => " The list below shows how far that has got.",
        false => "",
    };
    Ok(Answer::done(PATH, told(&recovery) + list))
}

/// The message about a recovery that has just begun.
fn told(begun: &Recovery) -> String {
    let events = counted(begun.recovered, "event");
    let are = if begun.recovered == 1 { "is" } else { "are" };
    match begun.status {
        RecoveryStatus::Running => format!("At least {events} {are} being sent again."),
        RecoveryStatus::Finished => format!("{events} {are} being sent again."),
    }
}

async fn page(user: &User, asked: &Asked, counted: Option<&Recovery>) -> Result<Answer, Error> {
    let (mut earlier, mut endpoints) = (Vec::new(), Vec::new());
    if user.may(Scope::WebhooksRead) {
        let listed = user.read::<ListRecoveries>(&[], &[("limit", "20")]);
        earlier = listed.await?.data;
        let listed = user.read::<ListEndpoints>(&[], &[("limit", "100")]);
        endpoints = listed.await?.data;
    }
    // What is sent next holds the instants that this page was asked for.
    let asked = asked.with(asked.fields.in_utc(&TIMES));
    let draft = asked.draft();
    let day_ago = typed(day_before(asked.now));
    endpoints.retain(|endpoint| endpoint.enabled);
    let ids = endpoints.iter().map(|to| to.endpoint_id.to_string());
    let ids: Vec<String> = ids.collect();
    let urls = endpoints.into_iter().map(|endpoint| endpoint.url);
    let to: Vec<_> = ids.iter().map(String::as_str).zip(urls).collect();
    let running = earlier
        .iter()
        .any(|recovery| recovery.status == RecoveryStatus::Running);
    let statuses = Kind::Choices(choices(&Unreceived::WORDS));
    let mut fields = vec![
        Field::new("/since", "Since (UTC)", Kind::Utc)
            .value(&day_ago)
            .required(),
        Field::new("/until", "Until (UTC)", Kind::Utc).about("Now if left empty."),
        Field::new("/statuses", "Which events", statuses)
            .value("failed no_endpoints")
            .required(),
    ];
    if !to.is_empty() {
        fields.push(Field::new("/endpointId", "To which endpoint", Kind::Choice(to)).none("All"));
    }
    let form = Preview {
        address: &user.link(PATH),
        heading: "1. What to send again",
        fields: &fields,
        names: &NAMES,
    };
    let about = html! {
        p { "Events of every type that failed, or that no endpoint took, are sent again, oldest first. If you choose an endpoint, these are all that it did not \
            receive, also where another did. First count them." }
        (hidden("/dryRun", "true"))
        // Without this, a form with neither ticked would not name them at all, which stands for both.
        (hidden("/statuses", ""))
    };
    let main = html! {
        (back(user, Scope::WebhooksRead, "/deliveries", "All deliveries"))
        div.title { h1 { "Send many events again" } }
        (draft.alert(&NAMES))
        div.narrow {
            @if counted.is_some() || must_wait(&asked) || draft.kept_key().is_some() {
                (form.show(&draft, &outcome(&draft, counted)))
            } @else {
                (form.ask(&draft, &about, "Count them"))
            }
        }
        @if !earlier.is_empty() {
            section.card aria-labelledby="earlier" data-refreshed {
                h2 #earlier { "Earlier ones" }
                @if running { p.soft data-refresh { "This list updates itself." } }
                (table("Earlier recoveries", &["Begun", "State", "#Events", "#Deliveries", "From", "Until"], earlier.iter().map(line)))
            }
        }
    };
    Ok(Page::new(Part::Deliveries, "Send many events again", main).form(&asked))
}

/// Whether the counted events could not be sent yet, because another recovery runs: a long count is one itself.
fn must_wait(asked: &Asked) -> bool {
    let refused = asked.refused.as_ref();
    let is_busy = refused.is_some_and(|error| error.code == "recovery_running");
    is_busy && !asked.fields.has("/dryRun")
}

/// The counted events, and the button that sends them. On a second try, the figures are no longer known.
fn outcome(draft: &Draft<'_>, counted: Option<&Recovery>) -> Outcome<'static> {
    // Events that happen from now on were not counted.
    let until = counted
        .filter(|_| draft.fields.get("/until").is_none())
        .map(|counted| counted.until.to_string());
    let is_nothing = counted.is_some_and(|counted| {
        counted.status == RecoveryStatus::Finished && counted.recovered == 0
    });
    Outcome {
        heading: "2. What would be sent",
        shown: html! {
            @if let Some(counted) = counted { (figures(counted)) } @else { p { "What you counted before." } }
            @if is_nothing { p { "There is nothing to send." } }
        },
        act: (!is_nothing).then(|| Act {
            names: &NAMES,
            beside: html! { @if let Some(until) = until { (hidden("/until", until)) } },
            class: "first",
            label: "Send them again",
        }),
    }
}

/// The figures of a count, so far if it is still running.
fn figures(counted: &Recovery) -> Markup {
    let figure = |number: u64| {
        let number = grouped(&number.to_string());
        match counted.status {
            RecoveryStatus::Running => format!("at least {number}"),
            RecoveryStatus::Finished => number,
        }
    };
    let not_taken = match counted.endpoint_id {
        Some(_) => "Not taken by this endpoint",
        None => "Not taken by any endpoint",
    };
    html! {
        dl {
            (fact("Events", figure(counted.recovered)))
            (fact("Deliveries", figure(counted.deliveries)))
            (fact(not_taken, figure(counted.no_endpoints)))
            (fact("Too old to be sent, or erased", figure(counted.expired)))
        }
        @if counted.no_endpoints > 0 {
            p.soft { "What is not taken is of a type that is not listed, or was attempted as often as anything can be." }
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
        td.amount { (grouped(&recovery.recovered.to_string())) }
        td.amount { (grouped(&recovery.deliveries.to_string())) }
        td { (time(recovery.since)) }
        td { (time(recovery.until)) }
    }
}

#[cfg(test)]
mod tests {
    use bookguard_core::model::Timestamp;
    use serde_json::json;

    use super::*;
    use crate::console::Fields;

    fn recovery(status: &str) -> Recovery {
        let recovery = json!({
            "recoveryId": "rec_01a1fc8142fd7527b8919d686c4a1720", "status": status, "dryRun": true,
            "since": "2026-10-05T14:13:20.000Z", "until": "2026-10-06T14:13:20.000Z", "statuses": ["failed"],
            "afterSeq": 0, "throughSeq": 9000, "reachedSeq": 5000, "examined": 5000, "recovered": 1100,
            "deliveries": 1200, "noEndpoints": 1300, "expired": 1400, "createdAt": "2026-10-06T14:13:20.000Z",
        });
        serde_json::from_value(recovery).unwrap()
    }

    #[test]
    fn figures_of_a_recovery_that_is_under_way_are_the_least() {
        let (running, finished) = (recovery("running"), recovery("finished"));
        assert_eq!(
            told(&running),
            "At least 1,100 events are being sent again."
        );
        assert_eq!(told(&finished), "1,100 events are being sent again.");
        let one = Recovery {
            recovered: 1,
            ..finished.clone()
        };
        assert_eq!(told(&one), "1 event is being sent again.");
        let [running, finished] =
            [running, finished].map(|counted| figures(&counted).into_string());
        for number in ["1,100", "1,200", "1,300", "1,400"] {
            assert!(
                running.contains(&format!("<dd>at least {number}</dd>")),
                "{running}"
            );
            assert!(
                finished.contains(&format!("<dd>{number}</dd>")),
                "{finished}"
            );
        }
    }

    #[test]
    fn what_is_not_taken_names_who_does_not_take_it() {
        let mut counted = recovery("finished");
        let of_all = figures(&counted).into_string();
        assert!(of_all.contains("<dt>Not taken by any endpoint</dt><dd>1,300</dd>"));
        let endpoint = "end_01a1fc8142fd7527b8919d686c4a1720";
        counted.endpoint_id = serde_json::from_value(json!(endpoint)).unwrap();
        let of_one = figures(&counted).into_string();
        assert!(of_one.contains("<dt>Not taken by this endpoint</dt><dd>1,300</dd>"));
    }

    #[test]
    fn what_was_counted_can_be_sent_once_another_recovery_is_finished() {
        let since = ("/since".to_owned(), "2026-10-05T14:13".to_owned());
        let count = ("/dryRun".to_owned(), "true".to_owned());
        let sending = Fields::new(vec![since.clone()]);
        let counting = Fields::new(vec![since, count]);
        let busy = Error::conflict("recovery_running", "One is under way.");
        let other = Error::conflict("endpoint_disabled", "It is disabled.");
        let waits = |refused: Option<&Error>, fields: &Fields| {
            must_wait(&Asked {
                path: Vec::new(),
                fields: fields.clone(),
                now: Timestamp::from_ms(0),
                refused: refused.cloned(),
            })
        };
        assert!(waits(Some(&busy), &sending));
        assert!(!waits(Some(&busy), &counting));
        assert!(!waits(Some(&other), &sending));
        assert!(!waits(None, &sending));
    }

    #[test]
    fn a_recovery_of_which_nobody_knows_is_sent_again_as_it_was() {
        let counted = recovery("finished");
        let typed = [
            ("/since", "2026-10-05T14:13:20Z"),
            ("/statuses", "failed"),
            ("/endpointId", "end_1"),
        ];
        let mut sent = typed
            .map(|(name, text)| (name.to_owned(), text.to_owned()))
            .to_vec();
        let counting = Fields::new(sent.clone());
        let draft = Draft {
            fields: &counting,
            refused: None,
        };
        let first = outcome(&draft, Some(&counted))
            .card("/to", &draft)
            .into_string();
        sent.push(("/until".to_owned(), counted.until.to_string()));
        let hidden = |(name, text): &(String, String)| {
            format!("<input type=\"hidden\" name=\"{name}\" value=\"{text}\">")
        };
        let hidden: String = sent.iter().map(hidden).collect();
        assert!(first.contains(&hidden), "{first}");
        sent.push((Fields::ONCE.to_owned(), "0a1b".to_owned()));
        let (sent, open) = (Fields::new(sent), Error::unavailable("Nobody knows."));
        let draft = Draft {
            fields: &sent,
            refused: Some(&open),
        };
        let again = outcome(&draft, None).card("/to", &draft).into_string();
        for kept in [hidden.as_str(), "value=\"0a1b\"", "counts only once"] {
            assert!(again.contains(kept), "{again}");
        }
    }
}
