//! Files as a test finds them: what a folder holds, who may use a file, what is in it.

use std::collections::BTreeSet;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

/// The names in a folder.
pub fn names(folder: &Path) -> BTreeSet<String> {
    let entries = fs::read_dir(folder).expect("the folder can be read");
    let names = entries.map(|entry| entry.expect("the folder can be read").file_name());
    names
        .map(|name| name.into_string().expect("names are UTF-8"))
        .collect()
}

/// What owner, group and others may do with a file.
pub fn mode(file: &Path) -> u32 {
    let metadata = fs::metadata(file).expect("the file is there");
    metadata.permissions().mode() & 0o777
}

/// Sets what owner, group and others may do with a file.
pub fn allow(file: &Path, mode: u32) {
    fs::set_permissions(file, Permissions::from_mode(mode)).expect("the file is ours");
}

/// Whether this text is somewhere in these bytes.
pub fn holds(bytes: &[u8], text: &str) -> bool {
    bytes
        .windows(text.len())
        .any(|part| part == text.as_bytes())
}
