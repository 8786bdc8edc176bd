//! Sentences of the interface in the words of the command line: a request becomes the command that makes it, and a member or parameter
//! its flag.
//!
//! Only people read them so. Programs read what a server answers.

use bookguard_core::operation::{IN_URL, Method};
use clap::ArgMatches;
use serde_json::Value;

use super::CliCommand;
use super::flags::Flags;
use crate::failure::Wording;

/// What the interface says of HTTP and JSON, and what is said here instead.
const PHRASES: [(&str, &str); 5] = [
    ("; over HTTP, in the header x-partner-id", ""),
    (IN_URL, ""),
    ("; try again after Retry-After seconds", ""),
    ("Look at \"evaluation\"", "Look at it with --dry-run"),
    ("[\"organizer\", \"talent\"]", "organizer,talent"),
];

/// How a write is repeated safely. Only some commands take the flag for it; repeating the others is safe without.
const SAME_KEY: &str = " with the same Idempotency-Key";

/// The words of the command that was typed.
pub(super) struct CommandWords<'a> {
    /// Every command.
    pub(super) all: &'a [CliCommand],
    pub(super) flags: &'a Flags,
    pub(super) matches: &'a ArgMatches,
}

impl Wording for CommandWords<'_> {
    fn flag(&self, pointer: &str) -> Option<String> {
        self.flags.typed_at(pointer, self.matches)
    }

    fn said(&self, text: &str, code: &str) -> String {
        let mut text = self.in_commands(text);
        for (there, here) in PHRASES {
            text = text.replace(there, here);
        }
        let same_key = match self.flags.takes_once() {
            true => " with the same --idempotency-key",
            false => "",
        };
        text = text.replace(SAME_KEY, same_key);
        // Of other faults, a word such as "before" may be no parameter.
        match code {
            "parameters_conflict" => self.parameters(&text),
            "not_found" => text + &self.of_file(),
            _ => text,
        }
    }

    fn fix(&self, text: &str, code: &str) -> String {
        let text = self.said(text, code);
        let quoted = text.split('"').skip(1).step_by(2);
        quoted.fold(text.clone(), |text, name| match self.member(name) {
            Some(flag) => text.replace(&format!("\"{name}\""), &flag),
            None => text,
        })
    }
}

impl CommandWords<'_> {
    /// That a file was named in the place of an id, and where the id is; empty if none was.
    fn of_file(&self) -> String {
        let Some((file, name)) = self.flags.file_as_id(self.matches) else {
            return String::new();
        };
        let id = match name {
            "bookingId" => " A packet holds its booking's id as booking.bookingId.",
            _ => "",
        };
        format!(" {file} is a file, and this command takes an id.{id}")
    }

    /// The flag of a member of the body or of a parameter.
    fn member(&self, name: &str) -> Option<String> {
        let flag = self.flag(&format!("?{name}"));
        flag.or_else(|| self.flag(&format!("/{name}")))
    }

    /// The text with a flag for each word that is a parameter.
    fn parameters(&self, text: &str) -> String {
        let words = text.split(' ').map(|word| {
            let name = word.trim_end_matches(['.', ',']);
            let flag = self.flag(&format!("?{name}"));
            flag.map_or_else(
                || word.to_owned(),
                |flag| format!("{flag}{}", &word[name.len()..]),
            )
        });
        words.collect::<Vec<_>>().join(" ")
    }

    /// The text with a command for each request.
    fn in_commands(&self, text: &str) -> String {
        let (mut done, mut rest) = (String::with_capacity(text.len()), text);
        while let Some((at, method)) = request(rest) {
            let (before, asked) = rest.split_at(at);
            let asked = &asked[method.word().len() + 1..];
            let end = asked.find(|c: char| !(c.is_ascii_alphanumeric() || "/-_{}".contains(c)));
            let (path, after) = asked.split_at(end.unwrap_or(asked.len()));
            let with_body = body(after)
                .and_then(|(body, after)| Some((self.command(method, path, Some(&body))?, after)));
            let found = with_body.or_else(|| Some((self.command(method, path, None)?, after)));
            done.push_str(before);
            rest = match found {
                Some((command, after)) => {
                    done.push_str(&format!("`{command}`"));
                    after
                }
                None => {
                    done.push_str(&format!("{} {path}", method.word()));
                    after
                }
            };
        }
        done + rest
    }

    /// The command that makes this request.
    fn command(&self, method: Method, path: &str, body: Option<&Value>) -> Option<String> {
        let mut named = Vec::new();
        name(self.all, "bookguard", &mut named);
        let found = named.into_iter().filter_map(|(name, command)| {
            let (its_method, route) = command.route?;
            let ids = ids(route, path).filter(|_| its_method == method)?;
            Some((name, command, ids))
        });
        let mut found: Vec<_> = found.collect();
        // `/v1/partners/me` is not the partner with the id "me".
        found.sort_by_key(|(.., ids)| ids.len());
        found.into_iter().find_map(|(name, command, ids)| {
            let typed = (command.flags)().typed_for(&ids, body)?;
            Some([vec![name], typed].concat().join(" "))
        })
    }
}

/// Each command that there is, with its whole name.
fn name<'c>(commands: &'c [CliCommand], before: &str, found: &mut Vec<(String, &'c CliCommand)>) {
    for command in commands {
        let whole = format!("{before} {}", command.name);
        name(&command.within, &whole, found);
        found.push((whole, command));
    }
}

/// The first request that the text names: where, and its method.
fn request(text: &str) -> Option<(usize, Method)> {
    let methods = Method::ALL.into_iter().filter_map(|method| {
        let at = text.find(&format!("{} /v1/", method.word()))?;
        Some((at, method))
    });
    methods.min_by_key(|(at, _)| *at)
}

/// The body that the text goes on with, and what comes after it.
fn body(text: &str) -> Option<(Value, &str)> {
    let json = text.strip_prefix(" with ")?;
    let (json, after) = json.split_at(json.find('}')? + 1);
    Some((serde_json::from_str(json).ok()?, after))
}

/// The ids in a path; `None` if it is not of this route.
fn ids<'p>(route: &str, path: &'p str) -> Option<Vec<&'p str>> {
    let (known, parts) = (route.split('/'), path.split('/'));
    if known.clone().count() != parts.clone().count() {
        return None;
    }
    let mut ids = Vec::new();
    for (known, part) in known.zip(parts) {
        match known.starts_with('{') {
            true => ids.push(part),
            false if known == part => {}
            false => return None,
        }
    }
    Some(ids)
}

#[cfg(test)]
mod tests {
    use bookguard_core::features::endpoints::secrets::RotateEndpointSecret;
    use bookguard_core::features::evaluations::EvaluatePolicy;
    use bookguard_core::features::evidence::ExportDispute;
    use bookguard_core::features::health::GetHealth;
    use bookguard_core::features::recoveries::RecoverEvents;
    use bookguard_core::features::reschedules::RescheduleBooking;
    use bookguard_core::operation::{Operation as _, Route};

    use super::*;
    use crate::commands::declared;

    /// What the command of this route says instead of a sentence, or of a fix.
    fn worded(route: &Route, line: &[&str], say: impl Fn(&CommandWords<'_>) -> String) -> String {
        let (all, flags) = (declared(), Flags::of(route));
        let shape = flags.shape(clap::Command::new("x").no_binary_name(true));
        let matches = shape.try_get_matches_from(line).unwrap();
        say(&CommandWords {
            all: &all,
            flags: &flags,
            matches: &matches,
        })
    }

    #[test]
    fn a_file_in_the_place_of_an_id_is_named() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let file = file.path().to_str().unwrap();
        let told = format!(
            "No such booking. {file} is a file, and this command takes an id. A packet holds its booking's id as booking.bookingId."
        );
        for (typed, code, told) in [
            (file, "not_found", told.as_str()),
            (file, "invalid_request", "No such booking."),
            ("bkg_1", "not_found", "No such booking."),
        ] {
            let line = [typed, "--for=stripe", "--reason=general"];
            let said = worded(&ExportDispute::ROUTE, &line, |words| {
                words.said("No such booking.", code)
            });
            assert_eq!(said, told);
        }
    }

    #[test]
    fn a_request_is_said_as_the_command_that_makes_it() {
        for (there, here) in [
            (
                "GET /v1/policy-templates shows it.",
                "`bookguard policies templates` shows it.",
            ),
            (
                "Rotate that with POST /v1/partners/me/rotate-secret, or not.",
                "Rotate that with `bookguard partners rotate-secret`, or not.",
            ),
            (
                "PATCH /v1/webhook-endpoints/end_1 with {\"ownSecret\": true}.",
                "`bookguard webhook-endpoints update end_1 --own-secret`.",
            ),
            (
                "PATCH /v1/webhook-endpoints/{endpointId} with {\"enabled\": true}. Then retry.",
                "`bookguard webhook-endpoints enable <ENDPOINT_ID>`. Then retry.",
            ),
            (
                "Choose another with PATCH /v1/partners/me.",
                "Choose another with `bookguard partners update`.",
            ),
            (
                "POST /v1/nothing of this: GET /v1/policies",
                "POST /v1/nothing of this: `bookguard policies list`",
            ),
        ] {
            let say = |words: &CommandWords<'_>| words.said(there, "c");
            let route = &RotateEndpointSecret::ROUTE;
            assert_eq!(worded(route, &["end_1"], say), here);
        }
    }

    #[test]
    fn a_parameter_is_said_as_its_flag_where_it_is_one() {
        let route = &EvaluatePolicy::ROUTE;
        let said = |code| {
            worded(route, &["bkg_1"], |words| {
                words.fix("Leave out effectiveAt or matrix.", code)
            })
        };
        assert_eq!(
            said("parameters_conflict"),
            "Leave out --effective-at or --matrix."
        );
        assert_eq!(said("other"), "Leave out effectiveAt or matrix.");
        let line = ["--since", "2031-06-01T09:00:00Z"];
        let fix = worded(&RecoverEvents::ROUTE, &line, |words| {
            words.fix("Send a \"since\" before \"until\", not \"then\".", "c")
        });
        assert_eq!(fix, "Send a --since before --until, not \"then\".");
    }

    #[test]
    fn what_is_for_http_alone_is_left_out() {
        let moved = bookguard_core::Error::ledger_moved().message;
        let read = worded(&GetHealth::ROUTE, &[], |words| words.said(&moved, "c"));
        assert!(
            read.ends_with("repeat it where the service runs now."),
            "{read}"
        );
        let line = [
            "bkg_1",
            "--event-date=2031-06-20T19:00:00Z",
            "--agreed-by=talent",
            "--at=2031-06-01T09:00:00Z",
        ];
        let write = worded(&RescheduleBooking::ROUTE, &line, |words| {
            words.said(&moved, "c")
        });
        assert!(write.contains("with the same --idempotency-key"), "{write}");
        let fix = worded(&GetHealth::ROUTE, &[], |words| {
            words.fix(&format!("Send RFC 3339{IN_URL}."), "invalid_date")
        });
        assert_eq!(fix, "Send RFC 3339.");
    }
}
