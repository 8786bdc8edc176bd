//! The flags that many commands share, and those of `serve`, which are settings.
//!
//! What else can be typed stands with its command. Invariant: no flag takes a secret, because command lines are
//! seen by every process of the machine and kept in shell histories.

use std::path::PathBuf;

use bookguard_core::store::Database;
use clap::{Args, ValueEnum};

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
