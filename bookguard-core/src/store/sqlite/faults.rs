//! What SQLite reports, as what the store knows.

use rusqlite::ErrorCode;

use crate::store::conn::StoreError;

impl From<rusqlite::Error> for StoreError {
    fn from(error: rusqlite::Error) -> Self {
        let rusqlite::Error::SqliteFailure(failure, message) = &error else {
            return Self::Failed(error.to_string());
        };
        match failure.code {
            ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked => Self::Busy,
            ErrorCode::DiskFull => Self::Full,
            ErrorCode::ReadOnly => Self::ReadOnly,
            // SQLite also reports this if the disk failed a read.
            ErrorCode::DatabaseCorrupt => Self::Unreadable(message.clone().unwrap_or_default()),
            ErrorCode::NotADatabase => {
                Self::Corrupt("the file is not a SQLite database".to_owned())
            }
            // Moving the head from where it does not stand makes its size null.
            ErrorCode::ConstraintViolation
                if message.as_deref() == Some("NOT NULL constraint failed: head.size") =>
            {
                Self::HeadMoved
            }
            ErrorCode::SystemIoFailure => Self::Failed(format!(
                "the disk failed ({error}): look at the system's log and at that disk. Once it works, start again: nothing has to \
                 be repaired. If it does not, restore a backup on another disk"
            )),
            ErrorCode::CannotOpen => Self::Failed(
                "the file cannot be opened; check that its folder exists, and that this user may read and write it"
                    .to_owned(),
            ),
            _ => Self::Failed(error.to_string()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_a_file_that_cannot_be_opened_both_rights_are_named() {
        let fault = rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_CANTOPEN);
        let error = StoreError::from(rusqlite::Error::SqliteFailure(fault, None));
        let StoreError::Failed(why) = error else {
            panic!("{error:?}");
        };
        assert!(why.contains("this user may read and write it"), "{why}");
    }

    #[test]
    fn a_disk_that_fails_is_named_with_a_way_out() {
        let failed = rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_IOERR_READ);
        let said = "disk I/O error".to_owned();
        let why = StoreError::from(rusqlite::Error::SqliteFailure(failed, Some(said))).to_string();
        for part in ["disk I/O error", "the system's log", "restore a backup"] {
            assert!(why.contains(part), "{why}");
        }
    }
}
