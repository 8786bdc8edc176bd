//! The command line as clap reads it: commands, flags, their help.
//!
//! Only shapes; what a command does is in `commands`. Invariant: no flag takes a secret, because command lines are
//! seen by every process of the machine and kept in shell histories.

mod bookings;
mod cancellation;
mod endpoints;
mod nouns;
mod policies;
mod recoveries;
mod reschedules;

use std::path::PathBuf;

use bookguard_core::model::EventType;
use bookguard_core::store::Database;
use clap::{Args, Parser, Subcommand, ValueEnum};

pub use bookings::{BookingsCommand, NewBookingArgs};
pub use cancellation::{CancelArgs, EvaluateArgs, ResolutionsCommand};
pub use endpoints::{EndpointUpdateArgs, EndpointsCommand, RotationArgs};
pub use nouns::{
    ApiKeysCommand, EventsArgs, EventsCommand, EvidenceCommand, LedgerCommand, ListenArgs,
    PartnerQuotaArgs, PartnerUpdateArgs, PartnersCommand, WebhookCommand, WebhookVerifyArgs,
};
pub use policies::PoliciesCommand;
pub use recoveries::{RecoverArgs, RecoveriesCommand};
pub use reschedules::{AcceptArgs, RescheduleArgs};

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

/// Where a command works and how it answers: the same for every command.
#[derive(Debug, Clone, Default, Args)]
pub struct GlobalArgs {
    /// The database: a file, or postgres://… [env: BOOKGUARD_DB] [default: ./bookguard.db]
    #[arg(
        long,
        value_name = "DATABASE",
        global = true,
        help_heading = "Where",
        conflicts_with = "url"
    )]
    pub db: Option<Database>,
    /// Act for this partner (on a database; a server knows the partner by its key)
    #[arg(
        long,
        value_name = "PARTNER_ID",
        global = true,
        help_heading = "Where",
        conflicts_with = "url"
    )]
    pub partner: Option<String>,
    /// Work on a server instead [env: BOOKGUARD_URL]; its key comes from BOOKGUARD_API_KEY or --api-key-file
    #[arg(long, value_name = "ADDRESS", global = true, help_heading = "Where")]
    pub url: Option<String>,
    /// A file that holds the API key and nothing else
    #[arg(
        long,
        value_name = "FILE",
        global = true,
        help_heading = "Where",
        conflicts_with = "db"
    )]
    pub api_key_file: Option<PathBuf>,
    /// How to answer [default: table on a terminal, json otherwise]
    #[arg(
        long,
        value_enum,
        value_name = "FORM",
        global = true,
        help_heading = "Where"
    )]
    pub output: Option<Format>,
    /// The service's settings, for `serve` and for work on a database.
    #[command(flatten)]
    pub settings: SettingsArgs,
}

/// Settings of the service that `serve` and work on a database share.
#[derive(Debug, Clone, Default, Args)]
pub struct SettingsArgs {
    /// The configuration file, TOML [env: BOOKGUARD_CONFIG]
    #[arg(
        long,
        value_name = "FILE",
        global = true,
        help_heading = "Settings of the service"
    )]
    pub config: Option<PathBuf>,
    /// The ledger's key file, the same for every node [env: BOOKGUARD_LEDGER_KEY, which may hold the key itself]
    /// [default: beside the database file, else ./bookguard.key]
    #[arg(
        long,
        value_name = "FILE",
        global = true,
        help_heading = "Settings of the service"
    )]
    pub ledger_key: Option<PathBuf>,
    /// The file that remembers the last published head of the ledger, whatever becomes of the database
    /// [env: BOOKGUARD_GUARD_FILE] [default: beside the ledger key's file, else beside the database]
    #[arg(
        long,
        value_name = "FILE",
        global = true,
        help_heading = "Settings of the service"
    )]
    pub guard_file: Option<PathBuf>,
    /// The address at which partners reach the service; evidence links begin with it, and /mcp answers to its host
    /// [env: BOOKGUARD_PUBLIC_URL] [default: http:// and the listening address]
    #[arg(
        long,
        value_name = "ADDRESS",
        global = true,
        help_heading = "Settings of the service"
    )]
    pub public_url: Option<String>,
    /// For development: webhooks may go to this machine and over plain http [env: BOOKGUARD_DEV] [default: false]
    #[arg(long, global = true, help_heading = "Settings of the service")]
    pub dev: bool,
}

/// The two forms of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// For people.
    Table,
    /// For programs: exactly what the HTTP interface answers.
    Json,
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

/// Flags of `serve` beyond the shared ones.
#[derive(Debug, Clone, Default, Args)]
pub struct ServeArgs {
    /// Address and port to listen on; port 0 takes a free one [env: BOOKGUARD_LISTEN] [default: 127.0.0.1:8080]
    #[arg(long, value_name = "ADDRESS:PORT")]
    pub listen: Option<String>,
    /// Who may register: open, approval or closed [env: BOOKGUARD_REGISTRATION] [default: open]
    #[arg(long, value_name = "MODE")]
    pub registration: Option<String>,
    /// Whether bookings without a policy get one of the library, by event type [env: BOOKGUARD_LIBRARY_POLICIES] [default: true]
    #[arg(long, value_name = "BOOL", num_args = 0..=1, default_missing_value = "true")]
    pub library_policies: Option<bool>,
    /// Seconds to wait for a PostgreSQL server that cannot be reached yet; 0 does not wait
    /// [env: BOOKGUARD_DATABASE_WAIT_SECONDS] [default: 30]
    #[arg(long, value_name = "N")]
    pub database_wait_seconds: Option<u32>,
    /// Requests per second that one partner may make on each node, all its keys together; a request that keeps a processor busy counts
    /// for more; 0 means no limit [env: BOOKGUARD_RATE_LIMIT_PER_SECOND] [default: 1000]
    #[arg(long, value_name = "N")]
    pub rate_limit_per_second: Option<u32>,
    /// Requests that one partner may make at once after a pause, on each node [env: BOOKGUARD_RATE_LIMIT_BURST] [default: 2000]
    #[arg(long, value_name = "N")]
    pub rate_limit_burst: Option<u32>,
    /// Registrations per minute from one network address, on each node; 0 means no limit
    /// [env: BOOKGUARD_REGISTRATIONS_PER_MINUTE] [default: 300]
    #[arg(long, value_name = "N")]
    pub registrations_per_minute: Option<u32>,
    /// A proxy in front of the server, or its subnet, such as 10.0.0.0/8, trusted to name its client; may be given several times
    /// [env: BOOKGUARD_TRUSTED_PROXIES, separated by commas]
    #[arg(long = "trusted-proxy", value_name = "SUBNET", value_delimiter = ',')]
    pub trusted_proxies: Vec<String>,
    /// The header in which proxies name the client: x-forwarded-for or forwarded [env: BOOKGUARD_PROXY_HEADER]
    /// [default: x-forwarded-for]
    #[arg(long, value_name = "HEADER")]
    pub proxy_header: Option<String>,
    /// Whether webhooks may go over plain http [env: BOOKGUARD_WEBHOOK_ALLOW_HTTP] [default: false]
    #[arg(long, value_name = "BOOL", num_args = 0..=1, default_missing_value = "true")]
    pub webhook_allow_http: Option<bool>,
    /// A subnet to which webhooks may go although it is not public; may be given several times
    /// [env: BOOKGUARD_WEBHOOK_ALLOW_SUBNETS, separated by commas]
    #[arg(
        long = "webhook-allow-subnet",
        value_name = "SUBNET",
        value_delimiter = ','
    )]
    pub webhook_allow_subnets: Vec<String>,
    /// The proxy through which webhooks go, http://[user:password@]host:port; give a password in the environment or the file
    /// [env: BOOKGUARD_WEBHOOK_PROXY]
    #[arg(long, value_name = "http://HOST:PORT")]
    pub webhook_proxy: Option<String>,
    /// What verifies a new webhook endpoint, which gets six deliveries a minute at most until then: first_success, or off
    /// [env: BOOKGUARD_WEBHOOK_VERIFICATION] [default: first_success; off with --dev]
    #[arg(long, value_name = "MODE")]
    pub webhook_verification: Option<String>,
    /// Days for which events are kept whole; after that, payloads and attempts with nothing left to deliver are deleted; 0 keeps them
    /// [env: BOOKGUARD_RETENTION_DAYS] [default: 90]
    #[arg(long, value_name = "N")]
    pub retention_days: Option<u32>,
    /// How much of a database file's disk must be free for new bookings, partners, policies, endpoints and recoveries, such as
    /// 1GiB; 0 means no limit [env: BOOKGUARD_MIN_FREE_DISK] [default: 256MiB]
    #[arg(long, value_name = "SIZE")]
    pub min_free_disk: Option<String>,
    /// Bookings a partner without a quota of its own may record; 0 means no limit, here and for the other quotas
    /// [env: BOOKGUARD_QUOTA_BOOKINGS] [default: 100000000]
    #[arg(long, value_name = "N")]
    pub quota_bookings: Option<u64>,
    /// Bytes of bookings it may have, such as 10GiB [env: BOOKGUARD_QUOTA_BYTES] [default: 128GiB]
    #[arg(long, value_name = "SIZE")]
    pub quota_bytes: Option<String>,
    /// Events a day (UTC) beyond which it may record no bookings [env: BOOKGUARD_QUOTA_EVENTS_PER_DAY] [default: 50000000]
    #[arg(long, value_name = "N")]
    pub quota_events_per_day: Option<u64>,
    /// Webhook endpoints it may have, 20 at most [env: BOOKGUARD_QUOTA_ENDPOINTS] [default: 20]
    #[arg(long, value_name = "N")]
    pub quota_endpoints: Option<u64>,
    /// Where to report vulnerabilities, such as mailto:security@example.com; may be given several times; with it,
    /// /.well-known/security.txt is served [env: BOOKGUARD_SECURITY_CONTACTS, separated by commas]
    #[arg(
        long = "security-contact",
        value_name = "ADDRESS",
        value_delimiter = ','
    )]
    pub security_contacts: Vec<String>,
    /// Where the rules of reporting are, an https address [env: BOOKGUARD_SECURITY_POLICY]
    #[arg(long, value_name = "ADDRESS")]
    pub security_policy: Option<String>,
    /// Where the key is that reports may be encrypted with [env: BOOKGUARD_SECURITY_ENCRYPTION]
    #[arg(long, value_name = "ADDRESS")]
    pub security_encryption: Option<String>,
    /// Languages reports may be in, such as en,de [env: BOOKGUARD_SECURITY_LANGUAGES, separated by commas]
    #[arg(long, value_name = "TAGS", value_delimiter = ',')]
    pub security_languages: Vec<String>,
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

/// A page of a list.
#[derive(Debug, Clone, Default, Args)]
pub struct PageArgs {
    /// Rows of the page: 1 to 100 [default: 25]
    #[arg(long, value_name = "N")]
    pub limit: Option<String>,
    /// The next page: the cursor of the previous page
    #[arg(long)]
    pub cursor: Option<String>,
}

/// What makes a repetition harmless.
#[derive(Debug, Clone, Default, Args)]
pub struct OnceArgs {
    /// Make repeating safe: the same key within 24 hours changes nothing and answers the same
    #[arg(long, value_name = "KEY")]
    pub idempotency_key: Option<String>,
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
