//! `webhook-events tail`: shows a partner's events as they happen.
//!
//! It ends only when it is stopped, when nobody reads it any more, or when it is refused for a reason that waiting does not
//! cure. Invariant: from the first answer on, no event is shown twice or left out, even if the server was away in between.

use bookguard_core::features::events::log::ListEvents;
use bookguard_core::limits::EVENT_WAIT_S;
use bookguard_core::model::Event;
use bookguard_core::operation::Request;
use tokio::time::sleep;

use super::declare::{Call, add};
use super::events::happened;
use crate::failure::Failure;
use crate::output;
use crate::target::Target;
use crate::target::remote::ASK_AGAIN;
use crate::text::plain;

/// The end of the log, as a position.
const LATEST: &str = "latest";

/// Shows events until it is stopped, or nobody reads them.
pub(super) async fn run(call: Call<'_>) -> Result<(), Failure> {
    let mut lines = call.screen.lines()?;
    let mut following = Following::new(call.target(), call.request()?);
    loop {
        let events = tokio::select! {
            events = following.next() => events?,
            () = output::until_unread() => return Err(Failure::Closed),
        };
        for event in events {
            lines.show(&event, |style| happened(&event, style))?;
        }
    }
}

/// A position in a partner's log that moves forward.
pub(super) struct Following<'t> {
    target: &'t Target,
    request: Request,
    after: String,
}

impl<'t> Following<'t> {
    /// Starts at the request's `after`, or else at the end of the log.
    pub(super) fn new(target: &'t Target, mut request: Request) -> Self {
        let after = request.query.iter().position(|(name, _)| name == "after");
        let after = after.map(|at| request.query.remove(at).1);
        Self {
            target,
            request,
            after: after.unwrap_or_else(|| LATEST.to_owned()),
        }
    }

    /// Waits for the next events; the list may be empty.
    ///
    /// # Errors
    /// Errors that waiting does not cure.
    pub(super) async fn next(&mut self) -> Result<Vec<Event>, Failure> {
        let mut pause = ASK_AGAIN.0;
        loop {
            match self.target.call::<ListEvents>(self.question()).await {
                Ok(answer) => {
                    self.after = answer.output.next_after.to_string();
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

    /// The request for the next events. It waits only once the position is a number: if the answer to one that waits at the end
    /// of the log were lost, the end would be another when it is asked again.
    fn question(&self) -> Request {
        let wait = match self.after.as_str() {
            LATEST => 0,
            _ => EVENT_WAIT_S,
        };
        let mut request = self.request.clone();
        add(&mut request, "after", Some(self.after.clone()));
        add(&mut request, "wait", Some(wait.to_string()));
        request
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::target::remote::Remote;

    #[test]
    fn it_waits_only_once_its_position_is_a_number() {
        let target = Target::Remote(Box::new(Remote::new("http://h", None).unwrap()));
        for (after, asked, wait) in [
            (None, "latest", "0"),
            (Some("latest"), "latest", "0"),
            (Some("0"), "0", "30"),
            (Some("7"), "7", "30"),
        ] {
            let mut request = Request::default();
            add(&mut request, "after", after.map(str::to_owned));
            let question = Following::new(&target, request).question();
            let query = [("after", asked), ("wait", wait)];
            let query = query.map(|(name, value)| (name.to_owned(), value.to_owned()));
            assert_eq!(question.query, query, "{after:?}");
        }
    }
}
