//! Exit codes. Scripts rely on them, so each has one meaning, and this is the only table.

use bookguard_core::Kind;

/// How a command ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Exit {
    /// Done.
    Ok = 0,
    /// Something unexpected, or a fault of this machine: a file, a disk, a port; also a question that was answered with no.
    Unexpected = 1,
    /// The command line or a setting is wrong.
    Usage = 2,
    /// The id is unknown, or another partner's.
    NotFound = 3,
    /// The key is missing, wrong, or lacks the scope.
    Auth = 4,
    /// Refused by a rule, or invalid; also a retry or a test that failed.
    Refused = 5,
    /// A signature, packet or ledger does not verify, or two packets contradict each other.
    NotVerified = 6,
    /// The server or database cannot be reached.
    Unreachable = 7,
    /// Too many requests.
    RateLimited = 8,
    /// The server failed, or its answer is not one of Bookguard's.
    Server = 9,
}

impl From<Kind> for Exit {
    fn from(kind: Kind) -> Self {
        match kind {
            Kind::Invalid | Kind::Conflict | Kind::KeyReused => Self::Refused,
            Kind::Unauthorized | Kind::Forbidden => Self::Auth,
            Kind::NotFound => Self::NotFound,
            Kind::RateLimited => Self::RateLimited,
            Kind::Internal | Kind::Unavailable => Self::Server,
        }
    }
}

impl From<Exit> for std::process::ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
    }
}

/// The kind of error that a server's status means; `None` if Bookguard does not use the status for errors.
pub fn kind_of(status: u16) -> Option<Kind> {
    match status {
        401 => Some(Kind::Unauthorized),
        403 => Some(Kind::Forbidden),
        404 => Some(Kind::NotFound),
        409 => Some(Kind::Conflict),
        422 => Some(Kind::KeyReused),
        429 => Some(Kind::RateLimited),
        503 => Some(Kind::Unavailable),
        400..=499 => Some(Kind::Invalid),
        500..=599 => Some(Kind::Internal),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exit_codes_are_the_documented_ones() {
        #[rustfmt::skip]
        let codes = [
            (Exit::Ok, 0), (Exit::Unexpected, 1), (Exit::Usage, 2), (Exit::NotFound, 3),
            (Exit::Auth, 4), (Exit::Refused, 5), (Exit::NotVerified, 6), (Exit::Unreachable, 7),
            (Exit::RateLimited, 8), (Exit::Server, 9),
        ];
        for (exit, code) in codes {
            assert_eq!(exit as u8, code, "{exit:?}");
        }
    }

    #[test]
    fn local_and_remote_refusals_end_alike() {
        for (status, kind, exit) in [
            (400, Kind::Invalid, Exit::Refused),
            (401, Kind::Unauthorized, Exit::Auth),
            (403, Kind::Forbidden, Exit::Auth),
            (404, Kind::NotFound, Exit::NotFound),
            (405, Kind::Invalid, Exit::Refused),
            (409, Kind::Conflict, Exit::Refused),
            (413, Kind::Invalid, Exit::Refused),
            (415, Kind::Invalid, Exit::Refused),
            (422, Kind::KeyReused, Exit::Refused),
            (429, Kind::RateLimited, Exit::RateLimited),
            (500, Kind::Internal, Exit::Server),
            (502, Kind::Internal, Exit::Server),
            (503, Kind::Unavailable, Exit::Server),
        ] {
            assert_eq!(kind_of(status), Some(kind), "{status}");
            assert_eq!(Exit::from(kind), exit, "{status}");
        }
        for status in [100, 200, 204, 301, 304, 600] {
            assert_eq!(kind_of(status), None, "{status}");
        }
    }
}
