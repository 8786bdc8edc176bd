//! Derives the limits on connections from the process's limit of open files.
//!
//! Connections, the database's files and sessions, and webhooks in flight all need open files. If connections could use up the
//! limit, the others would fail. So the soft limit is raised as far as needed and then divided.

use crate::config::Connections;

/// The most connections, if the system allows enough files.
const CONNECTIONS: usize = 8_192;
/// Connections beyond [`CONNECTIONS`], so that the health check is answered on a full server too.
const RESERVE: usize = 64;
/// Files for everything else: 1,792 webhooks in flight, 1,024 connections kept open to receivers, the database, the log.
const OTHERS: usize = 3_072;

/// Raises the soft limit of open files and returns the limits on connections. Reports to the operator if the limit is low.
pub(super) fn limits() -> Connections {
    let wanted = CONNECTIONS + RESERVE + OTHERS;
    let files = raise(wanted).unwrap_or(wanted);
    let limits = divide(files);
    if limits.all < CONNECTIONS {
        tracing::warn!(
            "only {files} files may be open at a time, so at most {} connections are taken instead of {CONNECTIONS}; raise \
             the limit (ulimit -Hn, or LimitNOFILE of the systemd unit) to {wanted}",
            limits.all
        );
    }
    limits
}

/// Divides `files` open files. One address gets a quarter of the connections.
fn divide(files: usize) -> Connections {
    let others = OTHERS.min(files / 2);
    let reserve = RESERVE.min(files / 8).max(1);
    let all = files.saturating_sub(others + reserve).clamp(1, CONNECTIONS);
    Connections {
        all,
        per_address: (all / 4).max(1),
        reserve,
    }
}

/// Raises the soft limit to `wanted`, or as far as the hard limit allows. Returns the limit then in force, or `None` if there
/// is none.
#[cfg(unix)]
fn raise(wanted: usize) -> Option<usize> {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

    let now = getrlimit(Resource::Nofile);
    let soft = now.current?;
    let wanted = u64::try_from(wanted).ok()?;
    let raised = now.maximum.map_or(wanted, |hard| hard.min(wanted));
    let set = soft < raised
        && setrlimit(
            Resource::Nofile,
            Rlimit {
                current: Some(raised),
                maximum: now.maximum,
            },
        )
        .is_ok();
    usize::try_from(if set { raised } else { soft }).ok()
}

#[cfg(not(unix))]
fn raise(_wanted: usize) -> Option<usize> {
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_low_limit_leaves_half_to_everything_else() {
        for (files, all, per_address, reserve) in [
            (1_000_000, 8_192, 2_048, 64),
            (CONNECTIONS + RESERVE + OTHERS, 8_192, 2_048, 64),
            (4_096, 1_984, 496, 64),
            (1_024, 448, 112, 64),
            (256, 96, 24, 32),
            (0, 1, 1, 1),
        ] {
            let expected = Connections {
                all,
                per_address,
                reserve,
            };
            assert_eq!(divide(files), expected, "{files}");
        }
    }

    #[cfg(unix)]
    #[test]
    fn the_soft_limit_is_raised_and_never_lowered() {
        let before = raise(0);
        assert!(raise(CONNECTIONS + RESERVE + OTHERS) >= before);
        assert_eq!(raise(0), raise(1));
    }
}
