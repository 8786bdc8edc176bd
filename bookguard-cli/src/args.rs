//! The flags that many commands share, and the settings as flags.
//!
//! What else can be typed is declared beside its command. Invariant: no flag takes a secret, because every process of the
//! machine can see command lines, and shell histories keep them.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::path::PathBuf;

use bookguard_core::clock::Clock;
use bookguard_core::input::quoted;
use bookguard_core::limits::{DAY_MS, HOUR_MS};
use bookguard_core::model::Timestamp;
use bookguard_server::config::Settings;
use bookguard_server::config::settings::Setting;
use clap::builder::NonEmptyStringValueParser;
use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches, ValueEnum, value_parser};

/// Reads one environment variable.
pub type Var<'a> = &'a dyn Fn(&str) -> Option<OsString>;

/// Where a command works and how it answers: the same for every command.
#[derive(Debug, Clone, Default, Args)]
pub struct GlobalArgs {
    /// The service's settings, for `serve` and for work on a database.
    #[command(flatten)]
    pub settings: SettingFlags<true>,
    /// The configuration file, TOML [env: BOOKGUARD_CONFIG]
    #[arg(long, value_name = "FILE", global = true, help_heading = SETTINGS)]
    pub config: Option<PathBuf>,
    /// Act for this partner (on a database, or with an operator key; else a server knows the partner by its key)
    #[arg(long, value_name = "PARTNER_ID", global = true, help_heading = WHERE)]
    pub partner: Option<String>,
    /// Work on a server instead [env: BOOKGUARD_URL]; its key comes from BOOKGUARD_API_KEY or --api-key-file, an operator's from
    /// BOOKGUARD_OPERATOR_KEY or --operator-key-file
    #[arg(long, value_name = "ADDRESS", global = true, help_heading = WHERE, conflicts_with_all = ["db", "db_file"])]
    pub url: Option<String>,
    /// A file that holds the API key and nothing else
    #[arg(long, value_name = "FILE", global = true, help_heading = WHERE, conflicts_with_all = ["db", "db_file"])]
    pub api_key_file: Option<PathBuf>,
    /// Work on the server of this profile, which `login` made [env: BOOKGUARD_PROFILE]
    #[arg(long, value_name = "NAME", global = true, help_heading = WHERE, conflicts_with_all = ["db", "db_file"])]
    pub profile: Option<String>,
    /// A file that holds the operator key and nothing else, for the operator interface of a server
    #[arg(long, value_name = "FILE", global = true, help_heading = WHERE, conflicts_with_all = ["db", "db_file", "api_key_file"])]
    pub operator_key_file: Option<PathBuf>,
    /// How to answer [default: table on a terminal, json otherwise]
    #[arg(long, value_enum, value_name = "FORM", global = true, help_heading = WHERE)]
    pub output: Option<Format>,
    /// Show only these members of the answer, or of each row of a list, such as bookingId,talent.name
    #[arg(long, value_name = "NAMES", global = true, help_heading = WHERE, value_delimiter = ',', value_parser = NonEmptyStringValueParser::new())]
    pub fields: Vec<String>,
    /// Print the request to the server as a curl command, and send nothing
    #[arg(long, global = true, help_heading = WHERE, conflicts_with_all = ["db", "db_file"])]
    pub curl: bool,
}

/// The flag of a command that asks before it does something that cannot be undone.
#[derive(Debug, Clone, Copy, Args)]
pub struct ConsentArgs {
    /// Do not ask
    #[arg(long)]
    pub yes: bool,
}

const WHERE: &str = "Where";
const SETTINGS: &str = "Settings of the service";

/// Settings as flags: those of every command, or those of `serve` alone. Their values are parsed together with all other
/// settings.
#[derive(Debug, Clone, Default)]
pub struct SettingFlags<const EVERYWHERE: bool>(BTreeMap<&'static str, OsString>);

impl<const EVERYWHERE: bool> SettingFlags<EVERYWHERE> {
    fn declared() -> impl Iterator<Item = &'static Setting> {
        let all = Settings::ALL.iter();
        all.filter(|setting| setting.everywhere == EVERYWHERE)
    }

    /// The value of a setting's flag; the values of a list are separated by commas.
    pub fn said(&self, setting: &Setting) -> Option<OsString> {
        self.0.get(setting.name).cloned()
    }

    /// Whether the flag of this setting was given.
    pub fn has(&self, name: &str) -> bool {
        self.0.contains_key(name)
    }
}

impl<const EVERYWHERE: bool> Args for SettingFlags<EVERYWHERE> {
    fn augment_args(command: Command) -> Command {
        command.args(Self::declared().map(flag))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl<const EVERYWHERE: bool> FromArgMatches for SettingFlags<EVERYWHERE> {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let said = Self::declared().filter_map(|setting| {
            let typed = matches.value_source(setting.name) == Some(ValueSource::CommandLine);
            let values: Vec<_> = matches.get_raw(setting.name).filter(|_| typed)?.collect();
            Some((setting.name, values.join(OsStr::new(","))))
        });
        Ok(Self(said.collect()))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

/// The flag of a setting.
fn flag(setting: &Setting) -> Arg {
    let mut variable = setting.variable();
    if setting.is_list {
        variable.push_str(", separated by commas");
    }
    if let Some(may) = setting.variable_may {
        variable = format!("{variable}, which may {may}");
    }
    let mut help = format!("{} [env: {variable}]", setting.about());
    if let Some(without) = setting.without() {
        help = format!("{help} [default: {without}]");
    }
    let flag = Arg::new(setting.name).long(setting.flag()).help(help);
    let flag = match setting.value {
        "" => flag.action(ArgAction::SetTrue),
        value => flag.value_name(value).value_parser(value_parser!(OsString)),
    };
    let flag = match (setting.is_list, setting.is_switch) {
        (true, _) => flag.action(ArgAction::Append),
        (_, true) if !setting.value.is_empty() => {
            flag.num_args(0..=1).default_missing_value("true")
        }
        _ => flag,
    };
    match (setting.name, setting.everywhere) {
        ("db" | "db_file", _) => flag.global(true).help_heading(WHERE),
        (_, true) => flag.global(true).help_heading(SETTINGS),
        _ => flag,
    }
}

/// The forms of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// For people.
    Table,
    /// For programs: exactly what the HTTP interface answers.
    Json,
    /// For spreadsheets: a line for each row of a list.
    Csv,
}

/// A period such as `90s`, `30m`, `2h`, `7d` or `2w`, or an ISO 8601 duration such as `P30D` or `PT1H`, in milliseconds.
pub(crate) fn period_ms(text: &str) -> Option<i64> {
    const WEEK_MS: i64 = 7 * DAY_MS;
    const UNITS: [(char, i64); 5] = [
        ('s', 1_000),
        ('m', 60_000),
        ('h', HOUR_MS),
        ('d', DAY_MS),
        ('w', WEEK_MS),
    ];
    const DAYS: [(char, i64); 2] = [('W', WEEK_MS), ('D', DAY_MS)];
    const TIMES: [(char, i64); 3] = [('H', HOUR_MS), ('M', 60_000), ('S', 1_000)];
    let Some(iso) = text.strip_prefix('P') else {
        return part_ms(text, &UNITS);
    };
    if iso.is_empty() || iso.ends_with('T') {
        return None;
    }
    let (days, time) = iso.split_once('T').unwrap_or((iso, ""));
    let days = parts(days).map(|part| part_ms(part, &DAYS));
    let mut all = days.chain(parts(time).map(|part| part_ms(part, &TIMES)));
    all.try_fold(0_i64, |sum, part| sum.checked_add(part?))
}

/// The numbers of an ISO 8601 duration, each with its unit.
fn parts(text: &str) -> impl Iterator<Item = &str> {
    text.split_inclusive(|c: char| !c.is_ascii_digit())
}

/// A number with one of these units, in milliseconds.
fn part_ms(text: &str, units: &[(char, i64)]) -> Option<i64> {
    let unit = text.chars().last()?;
    let (_, ms) = units.iter().find(|(known, _)| *known == unit)?;
    let digits = &text[..text.len() - 1];
    // What parses may begin with a sign.
    let all_digits = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    let number: i64 = digits.parse().ok().filter(|_| all_digits)?;
    number.checked_mul(*ms)
}

/// The instant that was typed, as JSON: a period from now on, or before now if `sign` is -1, an instant as it stands, or the
/// beginning of a day in UTC. `period` says how to write the first.
fn instant(typed: &str, sign: i64, period: &str) -> Result<String, String> {
    let at = period_ms(typed).map(|ms| Clock::System.now().plus_ms(sign.saturating_mul(ms)));
    let at = at.or_else(|| Timestamp::parse(typed));
    let at = at.or_else(|| Timestamp::parse(&format!("{typed}T00:00:00Z")));
    at.map(|at| quoted(&at.to_string())).ok_or_else(|| {
        format!(
            "is \"{typed}\"; write {period}, an instant such as 2031-06-01T09:00:00Z, or a day in UTC such as 2031-06-01"
        )
    })
}

/// The instant that was typed as how long from now it is, or as it stands.
pub(crate) fn ahead(typed: &str) -> Result<String, String> {
    instant(typed, 1, "how long from now, such as 12h, 90d or 2w")
}

/// The instant that was typed as how long ago it was, or as it stands.
pub(crate) fn ago(typed: &str) -> Result<String, String> {
    instant(typed, -1, "how long ago, such as 30m, 2h, 7d or 1w")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_day_is_the_instant_at_which_it_begins() {
        let day = ahead("2031-06-01").unwrap();
        assert_eq!(day, "\"2031-06-01T00:00:00.000Z\"");
        assert!(ahead("2031-06").unwrap_err().contains("or a day in UTC"));
    }

    #[test]
    fn a_period_has_a_unit() {
        for (text, ms) in [
            ("0s", Some(0)),
            ("90s", Some(90_000)),
            ("30m", Some(1_800_000)),
            ("2h", Some(7_200_000)),
            ("7d", Some(604_800_000)),
            ("2", None),
            ("h", None),
            ("-2h", None),
            ("+2h", None),
            ("2.5h", None),
            ("2w", Some(1_209_600_000)),
            ("P30D", Some(2_592_000_000)),
            ("P1W", Some(604_800_000)),
            ("PT90S", Some(90_000)),
            ("P1DT2H30M", Some(95_400_000)),
            ("P", None),
            ("P1DT", None),
            ("PT1D", None),
            ("P1Y", None),
            ("P1", None),
            ("P-1D", None),
            ("PD", None),
            ("P99999999999999999D", None),
            ("2W", None),
            ("2ü", None),
            ("99999999999999999d", None),
            ("", None),
        ] {
            assert_eq!(period_ms(text), ms, "{text}");
        }
    }
}
