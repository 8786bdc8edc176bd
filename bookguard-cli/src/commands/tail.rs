//! `webhook-events tail`: a partner's events as they happen.
//!
//! Ends only when it is stopped, or refused for a reason that waiting does not mend. Invariant: no event is shown twice or
//! left out while it runs, also when the server was away in between.

use std::time::Duration;

use bookguard_core::features::events::log::ListEvents;
use bookguard_core::limits::EVENT_WAIT_S;
use bookguard_core::model::Event;
use tokio::time::sleep;

use super::add;
use super::events::events_of;
use crate::args::Format;
use crate::commands::cli::EventsArgs;
use crate::failure::Failure;
use crate::output::{self, Screen, events};
use crate::target::Target;
use crate::text::plain;

/// How soon a server that is away is asked again, and how late at most.
const ASK_AGAIN: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(10));

/// Shows events until it is stopped.
pub async fn run(target: &Target, which: EventsArgs, screen: &Screen) -> Result<(), Failure> {
    let mut following = Following::new(target, which);
    loop {
        for event in following.next().await? {
            match screen.format {
                Format::Json => output::print(&line(&event)?)?,
                Format::Table => output::print(&events::happened(&event, screen.style))?,
            }
        }
    }
}

fn line(event: &Event) -> Result<String, Failure> {
    serde_json::to_string(event)
        .map_err(|e| Failure::Unexpected(format!("an event cannot be written: {e}")))
}

/// A place in a partner's log that moves on.
pub struct Following<'t> {
    target: &'t Target,
    which: EventsArgs,
}

impl<'t> Following<'t> {
    /// From where `which` says, else from now on.
    pub fn new(target: &'t Target, mut which: EventsArgs) -> Self {
        which.after.get_or_insert_with(|| "latest".to_owned());
        Self { target, which }
    }

    /// The next events, waited for; sometimes none.
    ///
    /// # Errors
    /// What waiting does not mend.
    pub async fn next(&mut self) -> Result<Vec<Event>, Failure> {
        let mut pause = ASK_AGAIN.0;
        loop {
            let mut request = events_of(&self.which);
            add(&mut request, "wait", Some(EVENT_WAIT_S.to_string()));
            match self.target.call::<ListEvents>(request).await {
                Ok(answer) => {
                    self.which.after = Some(answer.output.next_after.to_string());
                    return Ok(answer.output.data);
                }
                Err(failure) => match failure.passing() {
                    Some(why) => output::say(&plain(&format!(
                        "{why} (asking again in {} s)",
                        pause.as_secs()
                    ))),
                    None => return Err(failure),
                },
            }
            sleep(pause).await;
            pause = (pause * 2).min(ASK_AGAIN.1);
        }
    }
}
