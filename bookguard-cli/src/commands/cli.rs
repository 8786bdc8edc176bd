//! The command line as clap reads it: commands, flags, their help.
//!
//! Only shapes. Where an operation's are few, they stand with what it does. Invariant: no flag takes a secret, because
//! command lines are seen by every process of the machine and kept in shell histories.

mod bookings;
mod cancellation;
mod endpoints;
mod nouns;
mod policies;

use std::path::PathBuf;

use bookguard_core::model::EventType;
use bookguard_core::store::Database;
use clap::{Args, Parser, Subcommand};

use super::api_keys::ApiKeysCommand;
use super::partners::PartnersCommand;
use crate::args::{GlobalArgs, ServeArgs};
pub use bookings::{BookingsCommand, NewBookingArgs};
pub use cancellation::{CancelArgs, EvaluateArgs, ResolutionsCommand};
pub use endpoints::{EndpointUpdateArgs, EndpointsCommand, RotationArgs};
pub use nouns::{
    EventsArgs, EventsCommand, EvidenceCommand, LedgerCommand, ListenArgs, WebhookCommand,
    WebhookVerifyArgs,
};
pub use policies::PoliciesCommand;

/// Evidence and protection for bookings.
#[derive(Debug, Parser)]
#[command(
    name = "bookguard",
    version,
    about = "Evidence and protection for bookings",
    after_help = "Commands work on a database (--db) as its administrator, also while servers run on it, or \
                  on a server (--url) with an API key from BOOKGUARD_API_KEY or --api-key-file.\n\n\
                  Exit codes: 0 ok, 1 unexpected, 2 usage, 3 not found, 4 not allowed, 5 refused or invalid, \
                  6 verification failed, 7 unreachable, 8 rate limited, 9 server error.",
    arg_required_else_help = true
)]
pub struct Cli {
    /// Where to work.
    #[command(flatten)]
    pub place: GlobalArgs,
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run the server
    Serve(Box<ServeArgs>),
    /// Show everything once, end to end, on a temporary database
    Demo,
    /// Whether the service can do its work
    Health,
    /// Partners: the platforms that use the service
    #[command(subcommand)]
    Partners(PartnersCommand),
    /// A partner's API keys
    #[command(subcommand)]
    ApiKeys(ApiKeysCommand),
    /// Bookings: record, protect, read, move, evaluate, cancel
    #[command(subcommand)]
    Bookings(BookingsCommand),
    /// Cancellation policies: a partner's own and the library's
    #[command(subcommand)]
    Policies(PoliciesCommand),
    /// The results of cancellations, and decisions left to a person
    #[command(subcommand)]
    Resolutions(ResolutionsCommand),
    /// Where a partner receives its events
    #[command(subcommand)]
    WebhookEndpoints(EndpointsCommand),
    /// Events of bookings, and whether they were delivered
    #[command(subcommand)]
    WebhookEvents(EventsCommand),
    /// Evidence packets: fetch, verify offline
    #[command(subcommand)]
    Evidence(EvidenceCommand),
    /// The tamper-evident log
    #[command(subcommand)]
    Ledger(LedgerCommand),
    /// Post events to an address of this machine as they happen, signed, for development; until it is stopped
    Listen(ListenArgs),
    /// Make an event happen, for real, to a booking made for it
    Trigger {
        /// booking.created, booking.protected or resolution.created
        #[arg(value_name = "TYPE", value_parser = event_type)]
        event_type: EventType,
    },
    /// For receivers of webhooks
    #[command(subcommand)]
    Webhook(WebhookCommand),
    /// Move everything to another database, from a file to PostgreSQL or back
    Transfer(TransferArgs),
    /// Copy a database into one file, even while a server runs on it
    Backup {
        /// The file to make; the ledger's key is not in it
        file: PathBuf,
    },
    /// Speak the Model Context Protocol on standard input and output, for programs that let a model choose
    Mcp,
    /// Print the interface description (OpenAPI)
    Openapi,
    /// Print the completions of a shell
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
}

fn event_type(word: &str) -> Result<EventType, String> {
    let known = EventType::WORDS.iter().find(|(known, _)| *known == word);
    known.map(|(_, event_type)| *event_type).ok_or_else(|| {
        let words = EventType::WORDS.map(|(word, _)| word);
        format!("there are {}", words.join(", "))
    })
}

/// From where to where.
#[derive(Debug, Args)]
pub struct TransferArgs {
    /// The database to move: a file, or postgres://…; from then on it only answers reads [env: BOOKGUARD_TRANSFER_FROM]
    #[arg(long, value_name = "DATABASE")]
    pub from: Option<Database>,
    /// Where to: an empty database, or a file yet to be made; with --reopen, where it was moved to, if its address needs a
    /// password [env: BOOKGUARD_TRANSFER_TO]
    #[arg(long, value_name = "DATABASE")]
    pub to: Option<Database>,
    /// Undo a failed move: the source takes writes again and the target takes none, if nothing was
    /// written there
    #[arg(long)]
    pub reopen: bool,
    /// Answer the question of --reopen with yes
    #[arg(long, requires = "reopen")]
    pub yes: bool,
    /// Reopen even if the other database cannot be examined: if it was ever written, one ledger has two histories
    #[arg(long, requires = "reopen")]
    pub risk_two_histories: bool,
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;
    use clap::error::ErrorKind;

    use super::*;

    fn parse(line: &str) -> Result<Cli, clap::Error> {
        Cli::try_parse_from(std::iter::once("bookguard").chain(line.split_whitespace()))
    }

    #[test]
    fn the_command_line_is_well_formed() {
        Cli::command().debug_assert();
    }

    #[test]
    fn every_documented_command_is_there() {
        for line in [
            "serve --db x.db --listen 127.0.0.1:0 --public-url https://b.example --ledger-key k --dev --config c.toml",
            "demo",
            "health",
            "partners register --name N --business-type B --contact-email a@example.com --website https://example.com",
            "partners list --limit 5 --cursor ptn_1",
            "partners approve ptn_1",
            "partners me",
            "api-keys create --name N --scope bookings:read --scope evidence:read",
            "api-keys list",
            "api-keys revoke key_1",
            "bookings create --json -",
            "bookings create --talent-id 1 --talent-name T --organizer-id 2 --organizer-name O --event-type concert \
             --event-date 2027-01-01T20:00:00Z --value 12.50 --currency EUR --time-zone Europe/Berlin --policy-id firm \
             --metadata a=b --metadata c=d --idempotency-key k",
            "bookings get bkg_1",
            "bookings list --status created --event-from 2027-01-01T00:00:00Z",
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
            "policies templates",
            "policies schema",
            "webhook-endpoints create https://example.com/hook --event booking.created --own-secret --rate-limit 5",
            "webhook-endpoints update end_1 --address https://example.com/other --event booking.created,booking.protected \
             --description d --rate-limit 5 --own-secret",
            "webhook-endpoints update end_1 --all-events --no-description --no-rate-limit --partners-secret",
            "webhook-endpoints test end_1 --idempotency-key k",
            "webhook-endpoints enable end_1",
            "webhook-endpoints disable end_1",
            "webhook-endpoints rotate-secret end_1 --overlap-seconds 0 --idempotency-key k",
            "partners rotate-secret --overlap-seconds 604800 --idempotency-key k",
            "webhook-endpoints list",
            "webhook-endpoints get end_1",
            "webhook-endpoints delete end_1",
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
            "serve --retention-days 0",
            "serve --trusted-proxy 10.0.0.0/8,127.0.0.1 --trusted-proxy fd00::/8 --proxy-header forwarded",
            "serve --webhook-proxy http://proxy.example:3128",
            "evidence get bkg_1",
            "evidence verify packet.json --key @log.vkey",
            "ledger verify",
            "ledger verify --backup",
            "ledger accept-rollback --yes --guard-file f.seen",
            "ledger checkpoint",
            "ledger key",
            "webhook verify --secret-file s --body - --header sha256=00",
            "mcp --partner ptn_1",
            "openapi",
            "completions bash",
            "transfer --from a.db --to postgres://h/b --ledger-key k",
            "transfer --reopen --from a.db --to b.db --yes --risk-two-histories",
            "backup copy.db --db a.db",
            "bookings get bkg_1 --url https://b.example --api-key-file f --output json",
        ] {
            if let Err(error) = parse(line) {
                panic!("{line}: {error}");
            }
        }
    }

    #[test]
    fn what_makes_no_sense_together_is_refused() {
        for (line, kind) in [
            ("", ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand),
            (
                "partners",
                ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand,
            ),
            ("bookings get", ErrorKind::MissingRequiredArgument),
            (
                "bookings get bkg_1 --db x --url http://y",
                ErrorKind::ArgumentConflict,
            ),
            (
                "bookings get bkg_1 --partner p --url http://y",
                ErrorKind::ArgumentConflict,
            ),
            (
                "bookings create --talent-id 1",
                ErrorKind::MissingRequiredArgument,
            ),
            (
                "bookings create --json - --value 5",
                ErrorKind::ArgumentConflict,
            ),
            ("partners update", ErrorKind::MissingRequiredArgument),
            (
                "partners update --time-zone UTC --no-time-zone",
                ErrorKind::ArgumentConflict,
            ),
            ("policies put house", ErrorKind::MissingRequiredArgument),
            ("policies validate", ErrorKind::MissingRequiredArgument),
            (
                "webhook-endpoints update end_1",
                ErrorKind::MissingRequiredArgument,
            ),
            (
                "webhook-endpoints update end_1 --rate-limit 5 --no-rate-limit",
                ErrorKind::ArgumentConflict,
            ),
            (
                "webhook-events recover --dry-run",
                ErrorKind::MissingRequiredArgument,
            ),
            (
                "webhook-events recover --since tomorrow",
                ErrorKind::ValueValidation,
            ),
            (
                "webhook verify --body -",
                ErrorKind::MissingRequiredArgument,
            ),
            (
                "webhook verify --body - --webhook-id evt_1",
                ErrorKind::MissingRequiredArgument,
            ),
            (
                "evidence verify packet.json",
                ErrorKind::MissingRequiredArgument,
            ),
            ("bookings list --output yaml", ErrorKind::InvalidValue),
            (
                "transfer --from a.db --to b.db --yes",
                ErrorKind::MissingRequiredArgument,
            ),
            (
                "transfer --from a.db --to b.db --risk-two-histories",
                ErrorKind::MissingRequiredArgument,
            ),
            ("backup", ErrorKind::MissingRequiredArgument),
        ] {
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
