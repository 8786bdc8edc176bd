//! Where a database is: a SQLite file, or a PostgreSQL server's address.
//!
//! Only names the place; the engines open it. Invariant: neither the `Display` nor the `Debug` form shows a password.

use std::ffi::OsString;
use std::fmt;
use std::path::{Path, PathBuf};

/// The address of a Bookguard database.
///
/// A text that begins with `postgres://` or `postgresql://` is a server's address. Anything else is a file's path, with
/// an optional prefix `sqlite:` or `sqlite://`. To name a file that really begins like that, put `./` before it.
/// [`Self::check`] refuses text that looks like an address but is not one.
#[derive(Clone, PartialEq, Eq)]
pub enum Database {
    /// A SQLite file.
    File(PathBuf),
    /// A PostgreSQL server and a database on it.
    Postgres(PostgresUrl),
}

/// A connection URI as PostgreSQL's own programs take it. It may hold a password, which is never shown.
#[derive(Clone, PartialEq, Eq)]
pub struct PostgresUrl(String);

impl Database {
    /// The file's path, if it is a file.
    #[must_use]
    pub fn file(&self) -> Option<&Path> {
        match self {
            Self::File(path) => Some(path),
            Self::Postgres(_) => None,
        }
    }

    /// Refuses a name that looks like an address, because it may hold a password, which a file's name would show; one that SQLite
    /// takes for something else than a file's name; and that of a file that belongs to a database beside it, because that one would
    /// be damaged.
    pub(super) fn check_name(path: &Path) -> Result<(), String> {
        let name = path.to_string_lossy();
        if name.is_empty() || name == ":memory:" || name.starts_with("file:") {
            return Err(
                "the database must be a file's path, such as bookguard.db, or the address of a PostgreSQL server; nothing, :memory: and a \
                 file: URI of SQLite are neither. Put ./ before the name of a file that really begins like that"
                    .to_owned(),
            );
        }
        let of = |end| {
            name.strip_suffix(end)
                .filter(|file| Path::new(file).is_file())
        };
        if let Some(file) = ["-wal", "-shm", "-journal"].into_iter().find_map(of) {
            return Err(format!(
                "{name} belongs to the database {file} and is not one of its own; name {file}, or another file"
            ));
        }
        // A name that begins as a path is one.
        if path.is_absolute() || path.starts_with(".") || path.starts_with("..") {
            return Ok(());
        }
        let mut name = path.to_string_lossy().to_ascii_lowercase();
        name.retain(|c| !c.is_whitespace());
        let is_signed_in = name
            .split_once('@')
            .is_some_and(|(user, _)| user.contains(':'));
        match name.contains(":/") || name.contains("password=") || is_signed_in {
            true => Err(
                "the database (not shown, as it may hold a password) is not an address that can be used; write that of a PostgreSQL \
                 server like postgres://user:password@host:5432/database, and put ./ before the name of a file"
                    .to_owned(),
            ),
            false => Ok(()),
        }
    }
}

/// The scheme in small letters and the rest, if the text is the address of a PostgreSQL server.
fn address(text: &str) -> Option<(&'static str, &str)> {
    let (scheme, rest) = text.trim().split_once("://")?;
    let known = ["postgres", "postgresql"];
    let known = known
        .into_iter()
        .find(|known| scheme.eq_ignore_ascii_case(known))?;
    Some((known, rest))
}

impl PostgresUrl {
    /// The whole address, including its secrets.
    #[must_use]
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for PostgresUrl {
    /// Shows user name, servers and database. Leaves out the password and the parameters, which may hold one too.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (scheme, rest) = self.0.split_once("://").unwrap_or(("postgres", &self.0));
        let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
        let (authority, path) = rest.split_at(end);
        if path.contains('@') {
            // A password with an unescaped "/" or "?", which the rules forbid: nobody can tell where it ends.
            return write!(f, "{scheme}://…");
        }
        let path = path.split(['?', '#']).next().unwrap_or_default();
        let (credentials, servers) = authority.rsplit_once('@').unwrap_or(("", authority));
        let user = credentials.split(':').next().unwrap_or_default();
        let at = if user.is_empty() { "" } else { "@" };
        write!(f, "{scheme}://{user}{at}{servers}{path}")
    }
}

impl fmt::Debug for PostgresUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

impl fmt::Display for Database {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => write!(f, "{}", path.display()),
            Self::Postgres(url) => write!(f, "{url}"),
        }
    }
}

impl fmt::Debug for Database {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

impl From<&str> for Database {
    fn from(text: &str) -> Self {
        if let Some((scheme, rest)) = address(text) {
            return Self::Postgres(PostgresUrl(format!("{scheme}://{rest}")));
        }
        let path = match text.strip_prefix("sqlite:") {
            Some(path) => path.strip_prefix("//").unwrap_or(path),
            None => text,
        };
        Self::File(path.into())
    }
}

impl From<String> for Database {
    fn from(text: String) -> Self {
        text.as_str().into()
    }
}

impl From<OsString> for Database {
    fn from(text: OsString) -> Self {
        match text.to_str() {
            Some(text) => text.into(),
            None => Self::File(text.into()),
        }
    }
}

impl From<PathBuf> for Database {
    fn from(path: PathBuf) -> Self {
        path.into_os_string().into()
    }
}

impl From<&Path> for Database {
    fn from(path: &Path) -> Self {
        path.to_owned().into()
    }
}

impl<'de> serde::Deserialize<'de> for Database {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer).map(Self::from)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_address_of_a_server_is_one() {
        for (text, server) in [
            ("postgres://localhost/b", true),
            ("postgresql:///b?host=/run/postgresql", true),
            (" Postgres://localhost/b\n", true),
            ("bookguard.db", false),
            ("./postgres://b", false),
            ("postgres", false),
            ("", false),
        ] {
            let database = Database::from(text);
            assert_eq!(
                matches!(database, Database::Postgres(_)),
                server,
                "{text:?}"
            );
            assert_eq!(database.file().is_none(), server, "{text:?}");
        }
    }

    #[test]
    fn a_file_may_be_said_to_be_one_of_sqlite() {
        for (text, path) in [
            ("sqlite:b.db", "b.db"),
            ("sqlite:/var/b.db", "/var/b.db"),
            ("sqlite:///var/b.db", "/var/b.db"),
            ("sqlite://b.db", "b.db"),
            ("./sqlite:b.db", "./sqlite:b.db"),
            ("sqlite", "sqlite"),
        ] {
            assert_eq!(Database::from(text).file(), Some(Path::new(path)), "{text}");
        }
    }

    #[test]
    fn what_was_meant_to_be_an_address_is_no_file() {
        for (text, allowed) in [
            ("postgre://u:s3cret@h/b", false),
            (" mysql://u:s3cret@h/b", false),
            ("sqlite:postgre://u:s3cret@h/b", false),
            ("postgres:/u:s3cret@h/b", false),
            ("postgresql:u:s3cret@h/b", false),
            ("u:s3cret@h/b", false),
            ("host=h user=u password=s3cret", false),
            ("host=h Password = s3cret", false),
            ("", false),
            ("sqlite:", false),
            (":memory:", false),
            ("file:b.db", false),
            ("sqlite:file:b.db?key=s3cret", false),
            ("./file:b.db", true),
            ("profile:b.db", true),
            ("./postgre://b", true),
            ("/var/password=.db", true),
            ("sqlite:///var/b.db", true),
            ("sqlite://b.db", true),
            ("b.db", true),
            ("me@home.db", true),
            ("postgres://u:s3cret@h/b", true),
            ("POSTGRES://u:s3cret@h/b", true),
        ] {
            let checked = Database::from(text).check();
            assert_eq!(checked.is_ok(), allowed, "{text}");
            assert!(!checked.is_err_and(|why| why.contains("s3cret")), "{text}");
        }
    }

    #[test]
    fn what_belongs_to_a_database_is_not_one() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name| folder.path().join(name);
        std::fs::write(path("b.db"), "").unwrap();
        for (name, allowed) in [
            ("b.db", true),
            ("b.db-wal", false),
            ("b.db-shm", false),
            ("b.db-journal", false),
            // A name like any other, if there is no such database.
            ("other-wal", true),
        ] {
            let checked = Database::from(path(name)).check();
            assert_eq!(checked.is_ok(), allowed, "{name}");
        }
    }

    #[test]
    fn a_password_is_never_shown() {
        #[rustfmt::skip]
        let cases = [
            ("postgres://ann:s3cret@db.example:5432/b", "postgres://ann@db.example:5432/b"),
            ("postgres://ann:s3c@ret@h/b", "postgres://ann@h/b"),
            ("postgres://:s3cret@h/b", "postgres://h/b"),
            ("postgres://ann:s3c/r@et@h/b", "postgres://…"),
            ("postgres://ann:s3c@re?t@h/b", "postgres://…"),
            ("postgresql://h1,h2/b?password=s3cret&user=ann", "postgresql://h1,h2/b"),
            ("postgres://h/b#s3cret", "postgres://h/b"),
        ];
        for (text, shown) in cases {
            let database = Database::from(text);
            assert_eq!(database.to_string(), shown);
            assert_eq!(format!("{database:?}"), shown);
            assert!(matches!(database, Database::Postgres(url) if url.reveal() == text));
        }
    }
}
