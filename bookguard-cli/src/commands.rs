//! The commands: each one calls an operation on its target and shows the answer.
//!
//! The file of each subject declares its commands: their arguments, and how answers are shown. There are no rules here: a
//! request is sent as it was typed, and the core says what is wrong with it. Invariant: no flag takes a secret, because
//! every process of the machine can see command lines, and shell histories keep them.

mod accept_rollback;
mod activity;
mod api;
mod api_keys;
mod audit;
mod backup;
mod bookings;
mod cancellations;
mod console;
mod declare;
mod demo;
mod doctor;
mod documents;
mod draft;
mod drill;
mod endpoints;
mod evaluations;
mod events;
mod evidence;
mod healthcheck;
mod items;
mod ledger;
mod listen;
mod login;
mod man;
mod map_audit;
mod mcp;
mod migrate;
mod mirror;
mod operator_keys;
mod partner_export;
mod partners;
mod policies;
mod prune;
mod public_log;
mod recoveries;
mod restore;
mod serve;
mod shares;
mod system;
mod tail;
mod transfer;
mod trigger;
mod verify;
mod verify_ledger;
mod witness;

use std::ffi::OsString;
use std::io::{self, IsTerminal as _};

use bookguard_core::features::health::{GetHealth, Health};
use bookguard_core::version::VERSION;
use clap::{Args as _, ValueHint};

use crate::args::GlobalArgs;
use crate::failure::Failure;
use crate::output;
use crate::output::table::record_fn;
use declare::{Call, alone, operation};
pub use declare::{CliCommand, run};

/// Every command, in the order in which help lists them.
pub fn declared() -> Vec<CliCommand> {
    let health = operation::<GetHealth>("health", "Whether the service can do its work", health);
    let about = "Print the interface document (OpenAPI)";
    let openapi = alone("openapi", about, async |call| {
        call.screen
            .json(match call.args::<OpenapiArgs>()?.operator {
                true => bookguard_server::operator_openapi_json(),
                false => bookguard_server::openapi_json(),
            })
    });
    let about = "Print the completions of a shell";
    let completions = alone("completions", about, async |call| completions(call));
    vec![
        serve::command(),
        demo::command(),
        drill::command(),
        health,
        activity::command(),
        system::command(),
        healthcheck::command(),
        doctor::command(),
        partners::commands(),
        api_keys::commands(),
        operator_keys::commands(),
        console::links(),
        console::sessions(),
        console::operator_links(),
        console::operator_sessions(),
        audit::commands(),
        bookings::commands(),
        policies::commands(),
        cancellations::resolutions(),
        endpoints::commands(),
        events::commands(),
        evidence::commands(),
        ledger::commands(),
        witness::commands(),
        listen::command(),
        trigger::command(),
        verify::webhook_commands(),
        transfer::command(),
        backup::command(),
        restore::command(),
        migrate::command(),
        mcp::command(),
        api::command(),
        login::login(),
        login::profiles(),
        openapi.with::<OpenapiArgs>(),
        completions.with::<CompletionsArgs>(),
        man::command(),
    ]
}

/// The whole command line, as clap reads it.
pub fn shape(declared: &[CliCommand]) -> clap::Command {
    shape_of(declared, &|_| true)
}

/// The part of the command line that clap needs to parse these words. Building the flags of every command would slow down
/// each start.
pub fn shape_for(declared: &[CliCommand], words: &[OsString]) -> clap::Command {
    shape_of(declared, &|name| words.iter().any(|word| word == name))
}

fn shape_of(declared: &[CliCommand], typed: &dyn Fn(&str) -> bool) -> clap::Command {
    let command = clap::Command::new("bookguard")
        .version(VERSION)
        .after_help(
            "Commands work on a database (--db) as its operator, even while servers run on it, or \
             on a server (--url) with an API key from BOOKGUARD_API_KEY or --api-key-file, or on its operator interface \
             with an operator key from BOOKGUARD_OPERATOR_KEY or --operator-key-file. `login` saves a server and its key as a \
             profile (--profile).\n\n\
             Exit codes: 0 ok, 1 unexpected, 2 usage, 3 not found, 4 not allowed, 5 refused or invalid, \
             6 verification failed, 7 unreachable, 8 rate limited, 9 server error.",
        )
        .subcommand_required(true)
        .arg_required_else_help(true)
        .subcommands(declared.iter().map(|command| command.shape(typed)));
    // Programs that read help search it for whole sentences.
    let command = match io::stdout().is_terminal() {
        true => command,
        false => command.term_width(0),
    };
    // Otherwise clap takes the arguments' doc comment as the program's.
    GlobalArgs::augment_args(command).about("Evidence and protection for bookings")
}

#[derive(Debug, clap::Args)]
struct OpenapiArgs {
    /// The operator interface
    #[arg(long)]
    operator: bool,
}

#[derive(Debug, clap::Args)]
struct CompletionsArgs {
    /// The shell
    shell: clap_complete::Shell,
}

fn completions(call: Call<'_>) -> Result<(), Failure> {
    let shell = call.args::<CompletionsArgs>()?.shell;
    // Into memory first, because the generator panics on a broken pipe.
    let mut script = Vec::new();
    let mut shape = completed(shape(&declared()));
    clap_complete::generate(shell, &mut shape, "bookguard", &mut script);
    output::print(&String::from_utf8_lossy(&script))
}

/// The command as shells complete it: they offer files only where one may be named.
fn completed(command: clap::Command) -> clap::Command {
    let other = |arg: clap::Arg| match arg.get_action().takes_values() && !may_be_file(&arg) {
        true => arg.value_hint(ValueHint::Other),
        false => arg,
    };
    command.mut_args(other).mut_subcommands(completed)
}

/// Whether the value may be a file or a folder: its type says so, or its name in help.
fn may_be_file(arg: &clap::Arg) -> bool {
    let files = ["FILE", "FOLDER", "DIR", "DATABASE"];
    let mut names = arg.get_value_names().unwrap_or_default().iter();
    arg.get_value_hint() != ValueHint::Unknown
        || names.any(|name| files.iter().any(|file| name.contains(file)))
}

record_fn! { fn health(health: &Health) =>
    "status" => health.status,
    "time" => health.timestamp,
}

#[cfg(test)]
mod tests {
    use clap::error::ErrorKind;
    use clap::{Arg, ArgMatches};

    use super::*;

    fn parse(line: &str) -> Result<ArgMatches, clap::Error> {
        let words = std::iter::once("bookguard").chain(line.split_whitespace());
        let words: Vec<OsString> = words.map(OsString::from).collect();
        shape_for(&declared(), &words).try_get_matches_from(words)
    }

    /// The names of these flags' values in help, for one command or for all. Any other value is named after its flag.
    #[rustfmt::skip]
    const VALUES: [(&str, &str); 41] = [
        ("ADDRESS", "forward-to operator-url otlp-endpoint public-url security-contact security-encryption security-policy url"),
        ("ADDRESS:PORT", "listen metrics-listen operator-listen"),
        ("AMOUNT", "agreed-refund amount-paid refund templates:booking-value validate:booking-value value"),
        ("BOOKING_ID|PACKET|-", "of"),
        ("BOOL", "console library-policies log-requests webhook-allow-http"),
        ("COMMAND", "credential-command"),
        ("DATABASE", "db from to"),
        ("DATE", "templates:event-date validate:event-date"),
        ("DAYS", "older-than"),
        (
            "FILE",
            "api-key-file config db-file guard-file ledger-key operator-key-file out pdf-font policy secret-file timestamp-roots witness-policy witnesses",
        ),
        ("FILE|-", "body json"),
        ("FILE|FOLDER", "backup:to"),
        ("FOLDER", "backup-folder files save"),
        ("FORM", "log-format output"),
        ("HEADER", "proxy-header"),
        ("HOST:PORT", "egress"),
        ("ID", "webhook-id"),
        ("KEY", "idempotency-key no-default-policy"),
        ("KEY=VALUE", "default-policy metadata"),
        ("KIND=FILE", "evidence"),
        ("LEVEL", "log-level"),
        ("MODE", "registration webhook-verification"),
        (
            "N",
            "audit-retention-days bookings database-wait-seconds endpoints evaluate:evidence events-per-day \
             expect-compensation expect-penalty expect-refund keep limit \
             map-interval-seconds quota-bookings quota-endpoints quota-events-per-day rate-limit \
             rate-limit-burst rate-limit-per-second registrations-per-minute retention-days shutdown-delay-seconds slow-request-milliseconds timestamp-interval-seconds version versions:cursor wait",
        ),
        ("NAME", "profile"),
        ("NAMES", "fields"),
        ("PACKET|-", "packet"),
        ("PARTNER_ID", "partner"),
        ("SECONDS", "tolerance webhook-timestamp"),
        ("SIGNATURE", "header"),
        ("SIGNATURES", "webhook-signature"),
        ("SIZE", "bytes file-bytes min-free-disk quota-bytes quota-file-bytes"),
        ("SUBNET", "trusted-proxy webhook-allow-subnet"),
        ("TAGS", "security-languages"),
        ("TEXT", "search templates:time-zone validate:time-zone"),
        ("TIME", "cosigned-within every overlap"),
        ("TYPE", "event_type"),
        ("URL", "timestamp-authority"),
        ("URL|DIR", "init:audit verify:log mirror:log monitor:log"),
        ("VKEY|@FILE", "key init:log"),
        ("WITNESS_NAME", "init:name"),
        ("http://HOST:PORT", "webhook-proxy"),
    ];

    /// The command, the flag and the value's name of all that takes a value.
    fn values(command: &clap::Command, path: &str, found: &mut Vec<(String, String, String)>) {
        let valued = command
            .get_arguments()
            .filter(|arg| arg.get_action().takes_values());
        for arg in valued {
            let flag = arg.get_long().unwrap_or(arg.get_id().as_str());
            let names = arg.get_value_names().unwrap_or_default();
            found.push((path.to_owned(), flag.to_owned(), names.join(" ")));
        }
        for inner in command.get_subcommands() {
            let path = format!("{path} {}", inner.get_name());
            values(inner, path.trim_start(), found);
        }
    }

    fn of_command(command: &str, flag: &str) -> String {
        let command = command.rsplit(' ').next().unwrap_or_default();
        format!("{command}:{flag}")
    }

    #[test]
    fn help_names_every_value_by_its_kind() {
        let mut found = Vec::new();
        values(&shape(&declared()), "", &mut found);
        let own = |flag: &str| flag.replace('-', "_").to_ascii_uppercase();
        let mut wrong = Vec::new();
        for (command, flag, shown) in &found {
            let kind_of = |flag: &str| {
                let names = |flags: &str| flags.split(' ').any(|known| known == flag);
                VALUES.iter().find(|(_, flags)| names(flags))
            };
            let own_flag = of_command(command, flag);
            let kind = kind_of(&own_flag).or_else(|| kind_of(flag));
            let expected = kind.map_or_else(|| own(flag), |(name, _)| (*name).to_owned());
            if *shown != expected {
                wrong.push(format!("{command} --{flag} <{shown}>, not <{expected}>"));
            }
        }
        for flag in VALUES.iter().flat_map(|(_, flags)| flags.split(' ')) {
            let is_there = |(command, known, _): &(String, String, String)| {
                known == flag || of_command(command, known) == flag
            };
            if !found.iter().any(is_there) {
                wrong.push(format!("no command has --{flag}"));
            }
        }
        assert!(wrong.is_empty(), "{wrong:#?}");
    }

    /// The flags that all commands have.
    fn of_all(command: &clap::Command) -> Vec<String> {
        let global = command.get_arguments().filter(|arg| arg.is_global_set());
        let longs = global.filter_map(|arg| arg.get_long());
        longs.map(str::to_owned).collect()
    }

    #[test]
    fn help_speaks_only_of_flags_that_there_are() {
        fn look(command: &clap::Command, of_all: &[String], wrong: &mut Vec<String>) {
            let own: Vec<&str> = (command.get_arguments())
                .filter_map(Arg::get_long)
                .collect();
            for arg in command.get_arguments() {
                let help = arg.get_help().map(ToString::to_string).unwrap_or_default();
                let words = help.split(|c: char| !(c.is_ascii_alphanumeric() || c == '-'));
                let flags = words.filter_map(|word| word.strip_prefix("--"));
                let unknown = flags.filter(|flag| {
                    !own.contains(flag) && !of_all.iter().any(|known| known == flag)
                });
                wrong
                    .extend(unknown.map(|flag| format!("{} --{flag}: {help}", command.get_name())));
            }
            for inner in command.get_subcommands() {
                look(inner, of_all, wrong);
            }
        }
        let all = shape(&declared());
        let mut wrong = Vec::new();
        look(&all, &of_all(&all), &mut wrong);
        assert!(wrong.is_empty(), "{wrong:#?}");
    }

    #[test]
    fn no_command_takes_the_name_of_a_flag_that_all_have() {
        fn taken(command: &clap::Command, of_all: &[String], found: &mut Vec<String>) {
            for inner in command.get_subcommands() {
                let own = inner.get_arguments().filter(|arg| !arg.is_global_set());
                let longs = own.filter_map(|arg| arg.get_long());
                let hidden = longs.filter(|long| of_all.iter().any(|known| known == long));
                found.extend(hidden.map(|long| format!("{} --{long}", inner.get_name())));
                taken(inner, of_all, found);
            }
        }
        let all = shape(&declared());
        let of_all = of_all(&all);
        assert!(of_all.iter().any(|long| long == "fields"));
        let mut found = Vec::new();
        taken(&all, &of_all, &mut found);
        assert_eq!(found, [""; 0]);
    }

    #[test]
    fn shells_offer_words_and_files_where_they_belong() {
        let mut script = Vec::new();
        let mut shape = completed(shape(&declared()));
        let bash = clap_complete::Shell::Bash;
        clap_complete::generate(bash, &mut shape, "bookguard", &mut script);
        let script = String::from_utf8(script).unwrap();
        for (flag, offered) in [
            (
                "--canceled-by",
                "compgen -W \"organizer talent partner mutual\"",
            ),
            ("--for", "compgen -W \"stripe card\""),
            ("--partner", "(\"${cur}\")"),
            ("--key", "compgen -f"),
        ] {
            let case = format!("{flag})");
            let mut lines = script.lines().skip_while(|line| line.trim() != case);
            let offers = lines.nth(1).unwrap_or_default();
            assert!(offers.contains(offered), "{flag}: {offers}");
        }
    }

    #[test]
    fn the_command_line_is_well_formed() {
        shape(&declared()).debug_assert();
    }

    #[test]
    fn every_documented_command_is_there() {
        for line in [
            "serve --db x.db --listen 127.0.0.1:0 --public-url https://b.example --ledger-key k --dev --config c.toml",
            "demo",
            "health",
            "activity --partner ptn_1",
            "healthcheck --url http://127.0.0.1:8080",
            "doctor --egress example.com:443",
            "partners register --name N --business-type B --contact-email a@example.com --website https://example.com",
            "partners list --limit 5 --cursor ptn_1",
            "partners approve ptn_1",
            "partners get ptn_1",
            "partners edit ptn_1 --name N --contact-email a@example.com --no-website",
            "partners suspend ptn_1",
            "partners reinstate ptn_1",
            "partners me",
            "api-keys create --name N --scope bookings:read --scope evidence:read",
            "api-keys create --expires-at 90d",
            "api-keys rotate key_1 --overlap 24h --idempotency-key k",
            "api-keys list",
            "api-keys revoke key_1 --yes",
            "operator-keys create --name N",
            "audit list --action createApiKey --since 2027-01-01T00:00:00Z --until 2027-02-01T00:00:00Z --limit 5 --cursor aud_1",
            "operator-keys list --limit 5 --cursor opk_1",
            "operator-keys revoke opk_1",
            "console-links create --person N --scope bookings:read --api-key-id key_1 --idempotency-key k",
            "console-sessions list --limit 5 --cursor cns_1",
            "console-sessions end cns_1",
            "operator-links create --person N --operator-key-id opk_1 --idempotency-key k",
            "operator-sessions list --limit 5 --cursor cns_1",
            "operator-sessions end cns_1",
            "partners list --status pending --search a --limit 5 --cursor ptn_1",
            "system",
            "openapi --operator",
            "partners list --url http://b.example --operator-key-file f --partner ptn_1",
            "bookings create --json -",
            "bookings create --talent-id 1 --talent-name T --organizer-id 2 --organizer-name O --event-type concert \
             --event-date 2027-01-01T20:00:00Z --value 12.50 --currency EUR --time-zone Europe/Berlin --policy-id firm \
             --metadata a=b --metadata c=d --idempotency-key k",
            "bookings get bkg_1",
            "bookings list --status created --event-from 2027-01-01T00:00:00Z --search owls",
            "resolutions list --status pending_review --limit 5 --cursor bkg_1",
            "bookings protect bkg_1",
            "bookings reschedule bkg_1 --event-date 2027-01-01T20:00 --agreed-by organizer,talent --time-zone Europe/Berlin --dry-run",
            "bookings disclosure bkg_1",
            "bookings accept bkg_1 --party talent --method checkbox --at 2027-01-01T20:00:00Z --disclosure-hash sha256:00 --ip ::1",
            "bookings policy bkg_1 --as-of 2027-01-01T00:00:00Z --canceled-by talent --reason illness",
            "partners update --default-policy concert=house --default-policy *=firm --no-default-policy dj --time-zone Europe/Berlin",
            "partners update --no-time-zone",
            "policies put house --json -",
            "policies get house --version 2",
            "policies list --limit 5 --cursor house",
            "policies versions house --cursor 7",
            "policies validate policy.json",
            "policies validate - --event-date 2027-01-01 --booking-value 5.5 --currency EUR --time-zone Europe/Berlin",
            "policies templates",
            "policies schema",
            "webhook-endpoints create https://example.com/hook --event booking.created --own-secret --rate-limit 5",
            "webhook-endpoints update end_1 --address https://example.com/other --event booking.created,booking.protected \
             --description d --rate-limit 5 --own-secret",
            "webhook-endpoints update end_1 --default-events --no-description --no-rate-limit --partners-secret",
            "webhook-endpoints test end_1 --idempotency-key k",
            "webhook-endpoints enable end_1",
            "webhook-endpoints disable end_1",
            "webhook-endpoints rotate-secret end_1 --overlap 0s --idempotency-key k",
            "partners rotate-secret --overlap 7d --idempotency-key k",
            "webhook-endpoints list",
            "webhook-endpoints get end_1",
            "webhook-endpoints delete end_1 --yes",
            "evidence items delete-file bkg_1 itm_1 --yes",
            "webhook-events list --booking bkg_1",
            "webhook-events list --after 7 --type booking.created --status failed --wait 30 --limit 5",
            "webhook-events tail --after latest",
            "listen --forward-to http://127.0.0.1:3000/ --events booking.created,booking.protected --save d --after 0",
            "listen --print-secret",
            "trigger resolution.created",
            "webhook-events get evt_1",
            "webhook-events retry evt_1",
            "webhook-events recover --since 2h --until 2027-01-01T00:00:00Z --status failed,no_endpoints --endpoint end_1 \
             --dry-run --wait --idempotency-key k",
            "webhook-events recoveries list --limit 5 --cursor rec_1",
            "webhook-events recoveries get rec_1",
            "webhook-events prune --older-than 30d --dry-run",
            "audit prune --older-than 400d --dry-run",
            "serve --audit-retention-days 30",
            "serve --retention-days 0",
            "serve --trusted-proxy 10.0.0.0/8,127.0.0.1 --trusted-proxy fd00::/8 --proxy-header forwarded",
            "serve --webhook-proxy http://proxy.example:3128",
            "evidence get bkg_1",
            "evidence verify packet.json --key @log.vkey",
            "evidence share bkg_1 --expires-in P14D --withhold ip,userAgent --note N --idempotency-key k",
            "evidence shares bkg_1 --limit 5 --cursor shr_1",
            "evidence unshare bkg_1 shr_1",
            "evidence page bkg_1",
            "evidence page packet.json --key @log.vkey --out page.html",
            "evidence pdf packet.json --key @log.vkey --form archive --pdf-font f.ttf --out packet.pdf",
            "bookings erase bkg_1 --values note,ip --legal-basis objection --request-ref R --dry-run --idempotency-key k",
            "bookings erase bkg_1 --party organizer --legal-basis objection --yes",
            "bookings erasures bkg_1",
            "bookings holds place bkg_1 --reason R --reference N --idempotency-key k",
            "bookings holds list bkg_1 --limit 5 --cursor hld_1",
            "bookings holds release bkg_1 hld_1",
            "partners export --out a.tar",
            "partners end ptn_1 --request-ref R --yes --idempotency-key k",
            "ledger verify",
            "ledger verify --backup",
            "ledger accept-rollback --yes --guard-file f.seen",
            "ledger checkpoint",
            "ledger key",
            "webhook verify --secret-file s --body - --header sha256=00",
            "mcp --partner ptn_1",
            "openapi",
            "completions bash",
            "man pages",
            "transfer --from a.db --to postgres://h/b --ledger-key k",
            "transfer --reopen --from a.db --to b.db --yes --risk-two-histories",
            "backup copy.db --db a.db",
            "migrate --db a.db --dry-run",
            "backup backups --keep 14 --every 24h",
            "restore copy.db --db a.db",
            "bookings get bkg_1 --url https://b.example --api-key-file f --output json",
        ] {
            if let Err(error) = parse(line) {
                panic!("{line}: {error}");
            }
        }
    }

    #[test]
    fn what_makes_no_sense_together_is_refused() {
        #[rustfmt::skip]
        let cases = [
            ("", ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand),
            ("partners", ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand),
            ("bookings get", ErrorKind::MissingRequiredArgument),
            ("bookings get bkg_1 --db x --url http://y", ErrorKind::ArgumentConflict),
            ("bookings get bkg_1 --url http://y --api-key-file a --operator-key-file b", ErrorKind::ArgumentConflict),
            ("bookings create --talent-id 1", ErrorKind::MissingRequiredArgument),
            ("bookings create --json - --value 5", ErrorKind::ArgumentConflict),
            ("partners update", ErrorKind::MissingRequiredArgument),
            ("partners update --time-zone UTC --no-time-zone", ErrorKind::ArgumentConflict),
            ("policies put house", ErrorKind::MissingRequiredArgument),
            ("policies validate", ErrorKind::MissingRequiredArgument),
            ("webhook-endpoints update end_1", ErrorKind::MissingRequiredArgument),
            ("webhook-endpoints update end_1 --rate-limit 5 --no-rate-limit", ErrorKind::ArgumentConflict),
            ("webhook-events recover --dry-run", ErrorKind::MissingRequiredArgument),
            ("webhook verify --body -", ErrorKind::MissingRequiredArgument),
            ("webhook verify --body - --webhook-id evt_1", ErrorKind::MissingRequiredArgument),
            ("evidence verify packet.json", ErrorKind::MissingRequiredArgument),
            ("bookings list --output yaml", ErrorKind::InvalidValue),
            ("transfer --from a.db --to b.db --yes", ErrorKind::MissingRequiredArgument),
            ("transfer --from a.db --to b.db --risk-two-histories", ErrorKind::MissingRequiredArgument),
            ("backup", ErrorKind::MissingRequiredArgument),
        ];
        for (line, kind) in cases {
            assert_eq!(parse(line).expect_err(line).kind(), kind, "{line}");
        }
    }

    #[test]
    fn no_flag_takes_a_secret() {
        for flag in [
            "--api-key",
            "--key-value",
            "--secret",
            "--password",
            "--token",
        ] {
            for command in ["bookings list", "webhook verify --body - --header sha256=0"] {
                let error = parse(&format!("{command} {flag} value")).expect_err(flag);
                assert_eq!(error.kind(), ErrorKind::UnknownArgument, "{command} {flag}");
            }
        }
    }
}
