//! `console-links` and `console-sessions`: signs people in to the console, and out. `operator-links` and `operator-sessions`: the
//! same of the operator's console.

use bookguard_core::features::console::{
    CreateConsoleLink, EndConsoleSession, ListConsoleSessions, NewConsoleLink,
};
use bookguard_core::features::operator_sessions::{
    CreateOperatorLink, EndOperatorSession, ListOperatorSessions, NewOperatorLink,
};
use bookguard_core::model::{ConsoleSession, OperatorSession};

use super::declare::{CliCommand, group, operation};
use crate::output::table::{one_and_page, record_fn};

pub(super) fn links() -> CliCommand {
    let about = "Make a link that signs a person in once; it is shown only once";
    let create = operation::<CreateConsoleLink>("create", about, new_link).flags(|flags| {
        flags.name("scopes", "scope");
    });
    let about = "Links that sign a person in to the console";
    group("console-links", about, [create])
}

pub(super) fn sessions() -> CliCommand {
    let about = "List sessions and links that were not opened, newest first";
    let list = operation::<ListConsoleSessions>("list", about, sessions_page);
    let about = "End a session, or a link that was not opened";
    let end = operation::<EndConsoleSession>("end", about, session);
    let about = "Sessions in which people use the console";
    group("console-sessions", about, [list, end])
}

pub(super) fn operator_links() -> CliCommand {
    let about = "Make a link that signs a person of the operator in once; it is shown only once (for the operator)";
    let create = operation::<CreateOperatorLink>("create", about, new_operator_link);
    let about = "Links that sign a person in to the operator's console";
    group("operator-links", about, [create])
}

pub(super) fn operator_sessions() -> CliCommand {
    let about = "List sessions and links that were not opened, newest first (for the operator)";
    let list = operation::<ListOperatorSessions>("list", about, operator_sessions_page);
    let about = "End a session, or a link that was not opened (for the operator)";
    let end = operation::<EndOperatorSession>("end", about, operator_session);
    let about = "Sessions in which people of the operator use its console";
    group("operator-sessions", about, [list, end])
}

const PASS_ON: &str = "\n\nPass the link on now: it is not shown again, and works once.";

record_fn! { fn new_operator_link(new: &NewOperatorLink), PASS_ON =>
    "console session id" => new.console_session_id,
    "link" => new.url,
    "person" => new.person,
    "operator key id" => new.operator_key_id,
    "created" => new.created_at,
    "expires" => new.expires_at,
}

one_and_page! { operator_session, operator_sessions_page, "console sessions", session: OperatorSession =>
    "console session id" => session.console_session_id,
    "person" => session.person,
    "operator key id" => session.operator_key_id,
    "created" => session.created_at,
    "started" => session.started_at,
    "expires" => session.expires_at,
    "ended" => session.ended_at,
}

record_fn! { fn new_link(new: &NewConsoleLink), PASS_ON =>
    "console session id" => new.console_session_id,
    "link" => new.url,
    "person" => new.person,
    "API key id" => new.api_key_id,
    "scopes" => new.scopes.words().join(" "),
    "created" => new.created_at,
    "expires" => new.expires_at,
}

// Sessions are shown without their token.
one_and_page! { session, sessions_page, "console sessions", session: ConsoleSession =>
    "console session id" => session.console_session_id,
    "person" => session.person,
    "API key id" => session.api_key_id,
    "scopes" => session.scopes.words().join(" "),
    "created" => session.created_at,
    "started" => session.started_at,
    "expires" => session.expires_at,
    "ended" => session.ended_at,
}
