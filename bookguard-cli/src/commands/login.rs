//! `login` and `profiles`: the servers that a person works with, so that neither address nor key need be given each time.

use std::io::{self, IsTerminal as _};
use std::path::Path;

use bookguard_core::features::partners::{GetPartner, ListPartners};
use bookguard_core::model::Partner;
use bookguard_core::operation::Request;
use clap::Args;
use serde_json::{Value, json};

use super::declare::{Call, CliCommand, alone, group};
use crate::args::GlobalArgs;
use crate::failure::Failure;
use crate::files;
use crate::http;
use crate::output::say;
use crate::output::table::{Style, fields, record, rows};
use crate::profiles::{self, Credential, Profile, Profiles, UNNAMED};
use crate::settings::{checked_key, environment};
use crate::target::remote::Remote;

const NO_DEFAULT: &str = "there is no default profile now. Without --db, --url, --profile or BOOKGUARD_URL, commands work as the operator on the \
                          database of this machine: bookguard.db, unless a setting names a different one.";

/// What operator keys begin with.
const OPERATOR_KEY: &str = "bgo_";

#[derive(Debug, Args)]
struct LoginArgs {
    /// A shell command that prints the key each time it is needed, such as "pass show bookguard"; then the key is not kept
    #[arg(long, value_name = "COMMAND", conflicts_with_all = ["api_key_file", "operator_key_file"])]
    credential_command: Option<String>,
}

#[derive(Debug, Args)]
struct NameArgs {
    /// The profile
    name: String,
}

pub(super) fn login() -> CliCommand {
    let about = "Save a server and its key as a profile, after trying the key";
    alone("login", about, sign_in).with::<LoginArgs>()
}

pub(super) fn profiles() -> CliCommand {
    let about = "List the profiles, without their keys";
    let list = alone("list", about, async |call| list(call));
    let about =
        "Make a profile the default: commands that name no database and no server work with it";
    let default = alone("default", about, async |call| make_default(call));
    let about = "Remove a profile and its key from this machine; the key itself stays valid";
    let remove = alone("remove", about, async |call| remove(call));
    let commands = [list, default.with::<NameArgs>(), remove.with::<NameArgs>()];
    let about = "The servers that `login` saved";
    group("profiles", about, commands)
}

/// Tries the key on the server, and notes both.
///
/// # Errors
/// Those of every call; [`Failure::Usage`] without an address or a key; [`Failure::Unexpected`] if the profiles cannot be
/// written.
async fn sign_in(call: Call<'_>) -> Result<(), Failure> {
    let LoginArgs { credential_command } = call.args()?;
    let name = call.place.profile.as_deref().unwrap_or(UNNAMED);
    profiles::check_name(name)?;
    let mut known = Profiles::load(&environment)?;
    let url = call.place.url.clone();
    let url = url.or_else(|| Some(known.all.get(name)?.url.clone()));
    let url = url.ok_or_else(|| {
        Failure::Usage(
            "name the server with --url, such as https://bookings.example.com".to_owned(),
        )
    })?;
    let base = http::base_url(&url)?;
    if base.scheme() == "http" && !http::on_this_machine(&base) {
        say(&format!(
            "warning: {base} is not encrypted: others on the way can read the key"
        ));
    }
    let key = match &credential_command {
        Some(command) => checked_key("the command's output", &profiles::printed_by(command)?)?,
        None => asked(call.place, &base)?,
    };
    let owner = owner(&url, &key).await?;
    let credential = match &credential_command {
        Some(command) => Credential::Command(command),
        None => Credential::Key(&key),
    };
    let profile = Profile::new(url.clone(), owner.is_none(), credential);
    known.all.insert(name.to_owned(), profile);
    let default = known.default.get_or_insert_with(|| name.to_owned()).clone();
    let file = known.save(&environment)?;
    let value = json!({
        "profile": name,
        "url": url,
        "isDefault": default == name,
        "partnerId": owner.as_ref().map(|partner| partner.partner_id),
        "name": owner.as_ref().map(|partner| &partner.name),
        "file": file,
    });
    call.screen.said(&value, |style| {
        let whose = owner.as_ref().map_or_else(
            || "the operator's".to_owned(),
            |partner| format!("of {} ({})", partner.name, partner.partner_id),
        );
        let fields = fields! {
            "profile" => name,
            "server" => url,
            "key" => whose,
            "saved in" => file.display().to_string(),
        };
        let use_it = match default == name {
            true => "It is the default: commands without --db and --url work with it.".to_owned(),
            false => format!(
                "Name it with --profile {name}, or make it the default: bookguard profiles default {name}"
            ),
        };
        format!("{}\n\n{use_it}", record(style, &fields))
    })
}

/// The partner whose key this is, as the server says; `None` if it is an operator key. The server refuses any other key.
async fn owner(url: &str, key: &str) -> Result<Option<Partner>, Failure> {
    let server = Remote::new(url, Some(key.to_owned()))?;
    if !key.starts_with(OPERATOR_KEY) {
        let account = server.call::<GetPartner>(Request::default()).await?.output;
        return Ok(Some(account.partner));
    }
    let one = Request {
        query: vec![("limit".to_owned(), "1".to_owned())],
        ..Request::default()
    };
    let server = server.for_operator(None);
    server.call::<ListPartners>(one).await?;
    Ok(None)
}

/// The key from a file, from the person at the terminal, or from standard input.
fn asked(place: &GlobalArgs, server: &url::Url) -> Result<String, Failure> {
    let file = place.api_key_file.as_deref();
    let file = file.or(place.operator_key_file.as_deref());
    if let Some(file) = file {
        let key = files::text(file, files::SECRET_BYTES)?;
        return checked_key(&file.display().to_string(), &key);
    }
    let stdin = Path::new("-");
    if !io::stdin().is_terminal() {
        return checked_key("standard input", &files::text(stdin, files::SECRET_BYTES)?);
    }
    let typed = rpassword::prompt_password(format!("Key for {server} (input is not shown): "));
    let typed =
        typed.map_err(|e| Failure::Unexpected(format!("the terminal cannot be read: {e}")))?;
    checked_key("what you typed", &typed)
}

fn list(call: Call<'_>) -> Result<(), Failure> {
    let known = Profiles::load(&environment)?;
    let rows: Vec<Value> = known
        .all
        .iter()
        .map(|(name, profile)| {
            json!({
                "profile": name,
                "url": profile.url,
                "credential": match profile.credential() {
                    Some(Credential::Key(_)) => "key",
                    Some(Credential::Command(_)) => "command",
                    None => "none",
                },
                "isDefault": known.default.as_ref() == Some(name),
            })
        })
        .collect();
    call.screen
        .said(&json!({"data": rows}), |style| table(&rows, style))
}

fn table(shown: &[Value], style: Style) -> String {
    let text = |row: &Value, name: &str| row[name].as_str().unwrap_or_default().to_owned();
    rows! { style, "profiles", shown, row =>
        "PROFILE" => text(row, "profile"),
        "SERVER" => text(row, "url"),
        "CREDENTIAL" => text(row, "credential"),
        "DEFAULT" => if row["isDefault"] == true { "yes" } else { "" },
    }
}

fn make_default(call: Call<'_>) -> Result<(), Failure> {
    let NameArgs { name } = call.args()?;
    let mut known = Profiles::load(&environment)?;
    let url = known.named(&name)?.url.clone();
    known.default = Some(name.clone());
    known.save(&environment)?;
    let value = json!({"profile": name, "url": url, "isDefault": true});
    call.screen.said(&value, |_| {
        format!("commands without --db and --url now work on {url}")
    })
}

fn remove(call: Call<'_>) -> Result<(), Failure> {
    let NameArgs { name } = call.args()?;
    let mut known = Profiles::load(&environment)?;
    let url = known.named(&name)?.url.clone();
    known.all.remove(&name);
    let was_default = known.default.as_deref() == Some(&name);
    if was_default {
        known.default = None;
    }
    known.save(&environment)?;
    let value = json!({"profile": name, "url": url, "isDefault": false, "wasDefault": was_default});
    if was_default {
        let other = known.all.keys().next();
        let choose = other.map_or_else(String::new, |other| {
            format!(" To choose a default: bookguard profiles default {other}")
        });
        // Whoever reads JSON must hear of it too: the next command may work on another place.
        say(&format!("warning: {NO_DEFAULT}{choose}"));
    }
    call.screen.said(&value, |_| {
        format!("The profile {name} is removed. To revoke its key, run `bookguard api-keys revoke` with another key.")
    })
}
