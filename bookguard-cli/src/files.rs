//! The files that a command line names: their names, and how they are read, whole and up to a maximum.

use std::fs::File;
use std::io::{self, ErrorKind, Read};
use std::path::{Path, PathBuf};

use clap::builder::{PathBufValueParser, TypedValueParser};

use crate::failure::Failure;

/// How keys of partners and operators, signing secrets and ledger keys begin.
const SECRETS_BEGIN: [&str; 4] = ["bgk_", "bgo_", "whsec_", "PRIVATE+"];
/// The most bytes of a file that holds a key or a secret.
pub const SECRET_BYTES: u64 = 64 * 1024;
/// The most bytes of a request's JSON. It is more than any server takes, so that the server itself refuses a body that is
/// too large.
pub const REQUEST_BYTES: u64 = 1024 * 1024;
/// The most bytes of a packet, a webhook's body or a server's answer.
pub const DOCUMENT_BYTES: u64 = 64 * 1024 * 1024;

/// Reads at most `most` bytes of a file, or of standard input for `-`.
///
/// # Errors
/// [`Failure::Usage`] that names the file.
pub fn bytes(path: &Path, most: u64) -> Result<Vec<u8>, Failure> {
    let bytes = begin(path, most)?;
    if bytes.len() as u64 > most {
        return Err(Failure::Usage(format!(
            "{} holds more than {most} bytes, the most that is allowed here",
            name(path)
        )));
    }
    Ok(bytes)
}

/// Reads the JSON of a request as [`bytes`] does. Whether it is JSON, and the right one, others see.
///
/// # Errors
/// [`Failure::Usage`] that names the file, also if it is empty.
pub fn json(path: &Path) -> Result<Vec<u8>, Failure> {
    let bytes = bytes(path, REQUEST_BYTES)?;
    match bytes.iter().all(u8::is_ascii_whitespace) {
        false => Ok(bytes),
        true => Err(Failure::Usage(format!(
            "{} is empty, and JSON belongs there",
            name(path)
        ))),
    }
}

/// Reads a file or standard input as [`bytes`] does, and one byte beyond the maximum if it is larger.
///
/// # Errors
/// [`Failure::Usage`] that names the file.
pub fn begin(path: &Path, most: u64) -> Result<Vec<u8>, Failure> {
    let read = match is_standard(path) {
        true => read_at_most(io::stdin().lock(), most),
        false => File::open(path).and_then(|file| read_at_most(file, most)),
    };
    read.map_err(|e| {
        Failure::Usage(match looks_secret(path) {
            true => "where a file belongs, what looks like a key or a secret was given (not shown); write it into a file, and name \
                     that file. If others could read it here, have it replaced"
                .to_owned(),
            false => unread(path, &e),
        })
    })
}

/// Why a file cannot be read, and what to do.
fn unread(path: &Path, error: &io::Error) -> String {
    let other = error.to_string();
    let why = match error.kind() {
        ErrorKind::NotFound => "there is no such file. Check the name",
        ErrorKind::IsADirectory => "it is a folder. Name a file in it",
        ErrorKind::PermissionDenied => "this user may not read it",
        _ => other.as_str(),
    };
    format!("{} cannot be read: {why}", name(path))
}

/// Whether a name begins as secrets do.
fn looks_secret(path: &Path) -> bool {
    let name = path.to_string_lossy();
    SECRETS_BEGIN
        .iter()
        .any(|begin| name.trim_start().starts_with(begin))
}

/// The name of a file in messages.
pub fn name(path: &Path) -> String {
    match is_standard(path) {
        true => "standard input".to_owned(),
        false => path.display().to_string(),
    }
}

/// Whether it stands for standard input, or for standard output.
pub fn is_standard(path: &Path) -> bool {
    path == Path::new("-")
}

/// Takes the name of something to make, which standard output cannot be.
pub fn named() -> impl TypedValueParser<Value = PathBuf> {
    PathBufValueParser::new().try_map(|path| match is_standard(&path) {
        true => Err("standard output cannot take this; write ./- if that is its name"),
        false => Ok(path),
    })
}

/// Reads text, as [`bytes`] does.
///
/// # Errors
/// As [`bytes`], and for text that is not UTF-8.
pub fn text(path: &Path, most: u64) -> Result<String, Failure> {
    utf8(path, bytes(path, most)?)
}

/// The bytes of this file as text.
///
/// # Errors
/// [`Failure::Usage`] that names the file, for bytes that are not UTF-8.
pub fn utf8(path: &Path, bytes: Vec<u8>) -> Result<String, Failure> {
    String::from_utf8(bytes)
        .map_err(|_| Failure::Usage(format!("{} is not UTF-8 text", name(path))))
}

fn read_at_most(from: impl Read, most: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    from.take(most + 1).read_to_end(&mut bytes)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_without_an_end_is_refused() {
        let Err(Failure::Usage(why)) = bytes(Path::new("/dev/zero"), 1000) else {
            panic!("it was read")
        };
        assert_eq!(
            why,
            "/dev/zero holds more than 1000 bytes, the most that is allowed here"
        );
        assert!(bytes(Path::new("/dev/null"), 1000).unwrap().is_empty());
    }

    #[test]
    fn a_name_that_leads_to_no_file_is_told_as_such() {
        for (path, expected) in [
            (
                "/nowhere/at/all",
                "/nowhere/at/all cannot be read: there is no such file. Check the name",
            ),
            ("/", "/ cannot be read: it is a folder. Name a file in it"),
        ] {
            let Err(Failure::Usage(why)) = bytes(Path::new(path), 1) else {
                panic!("{path} was read")
            };
            assert_eq!(why, expected);
        }
    }

    #[test]
    fn a_secret_in_place_of_a_file_is_not_shown() {
        for begin in SECRETS_BEGIN {
            let Err(Failure::Usage(why)) = text(Path::new(&format!("{begin}s3cret")), 1) else {
                panic!("{begin} is not a file")
            };
            assert!(
                why.contains("not shown") && !why.contains("s3cret"),
                "{why}"
            );
        }
    }
}
