//! Recoveries of webhook events.

use bookguard_core::clock::Clock;
use bookguard_core::model::Timestamp;
use clap::{Args, Subcommand};

use super::{OnceArgs, PageArgs};

/// What is delivered once more.
#[derive(Debug, Args)]
pub struct RecoverArgs {
    /// Events since then: how long ago, such as 90s, 30m, 2h or 7d, or an instant such as 2031-06-01T09:00:00Z
    #[arg(long, value_name = "TIME", value_parser = instant)]
    pub since: Timestamp,
    /// And not after this, in the same form [default: now]
    #[arg(long, value_name = "TIME", value_parser = instant)]
    pub until: Option<Timestamp>,
    /// Only events in this status, failed or no_endpoints; may be given several times [default: both]
    #[arg(long = "status", value_name = "STATUS", value_delimiter = ',')]
    pub statuses: Vec<String>,
    /// Only what concerns this endpoint, including events it never got
    #[arg(long = "endpoint", value_name = "ENDPOINT_ID")]
    pub endpoint_id: Option<String>,
    /// Only count what would be delivered
    #[arg(long)]
    pub dry_run: bool,
    /// Wait until every event was examined; what is due then is delivered as the endpoints take it
    #[arg(long)]
    pub wait: bool,
    /// Harmless repetition.
    #[command(flatten)]
    pub once: OnceArgs,
}

/// What can be asked about recoveries.
#[derive(Debug, Subcommand)]
pub enum RecoveriesCommand {
    /// List recoveries, newest first
    List(PageArgs),
    /// Show how far a recovery is
    Get {
        /// The recovery's id
        recovery_id: String,
    },
}

/// So long before now, or an instant as it stands.
fn instant(text: &str) -> Result<Timestamp, String> {
    let ago = ago_ms(text).map(|ms| Clock::System.now().plus_ms(-ms));
    ago.or_else(|| Timestamp::parse(text)).ok_or_else(|| {
        "write how long ago, such as 90s, 30m, 2h or 7d, or an instant such as 2031-06-01T09:00:00Z".to_owned()
    })
}

fn ago_ms(text: &str) -> Option<i64> {
    const UNITS: [(char, i64); 4] = [
        ('s', 1_000),
        ('m', 60_000),
        ('h', 3_600_000),
        ('d', 86_400_000),
    ];
    let unit = text.chars().last()?;
    let (_, ms) = UNITS.iter().find(|(known, _)| *known == unit)?;
    let digits = &text[..text.len() - 1];
    let all_digits = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    let number: i64 = digits.parse().ok().filter(|_| all_digits)?;
    number.checked_mul(*ms)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_how_long_ago_or_an_instant() {
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
            ("2w", None),
            ("2ü", None),
            ("99999999999999999d", None),
            ("", None),
        ] {
            assert_eq!(ago_ms(text), ms, "{text}");
        }
        let ago = Clock::System.now().ms() - instant("2h").unwrap().ms();
        assert!((7_200_000..7_260_000).contains(&ago), "{ago}");
        let said = instant("2027-06-01T09:00:00+02:00").unwrap();
        assert_eq!(said.to_string(), "2027-06-01T07:00:00.000Z");
        assert!(instant("yesterday").unwrap_err().contains("2h"));
    }
}
