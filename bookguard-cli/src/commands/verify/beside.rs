//! `evidence verify --files`: whether the files beside a packet, as an archive has them, are those that it names.

use std::fs;
use std::path::{Path, PathBuf};

use bookguard_core::evidence::{Check, EvidenceItem, Packet};
use bookguard_core::features::items::files::digest_of;
use bookguard_core::limits::FILE_BYTES;

use crate::failure::Failure;
use crate::files;

/// Compares the files in a folder, or in its folder `files`, with the digests that the items of a genuine packet name. A file
/// is named by its item; what follows the first dot does not matter. `place` is the packet's own file: what else is in its folder
/// is an archive's that has no files of items, and is not judged.
///
/// # Errors
/// [`Failure::Usage`] for a folder or a file that cannot be read.
pub(super) fn compare(packet: &Packet, place: &Path, folder: &Path) -> Result<Vec<Check>, Failure> {
    let within = folder.join("files");
    let folder = match within.is_dir() {
        true => within.as_path(),
        false => folder,
    };
    let (mut there, mut checks) = (listed(folder)?, Vec::new());
    for (at, item) in packet.items.iter().enumerate() {
        let Some(digest) = &item.sha256 else {
            continue;
        };
        let (own, others): (Vec<_>, Vec<_>) = there.into_iter().partition(|file| is_of(file, item));
        there = others;
        checks.extend(of_item(at, item, digest, own)?);
    }
    if is_in(place, folder) {
        there.clear();
    }
    checks.extend(there.iter().map(|file| Check {
        name: NAME,
        place: String::new(),
        passed: false,
        detail: format!(
            "{} is not in the packet: nothing proves it.",
            file.display()
        ),
    }));
    Ok(checks)
}

/// The name of these checks.
const NAME: &str = "file";

/// Whether a file is in this folder itself.
fn is_in(file: &Path, folder: &Path) -> bool {
    let (file, folder) = (file.canonicalize(), folder.canonicalize());
    file.is_ok_and(|file| folder.is_ok_and(|folder| file.parent() == Some(folder.as_path())))
}

/// The contents of a folder, sorted.
fn listed(folder: &Path) -> Result<Vec<PathBuf>, Failure> {
    let entries = fs::read_dir(folder).and_then(|entries| {
        entries
            .map(|entry| entry.map(|entry| entry.path()))
            .collect::<Result<Vec<_>, _>>()
    });
    let mut paths = entries.map_err(|e| {
        Failure::Usage(format!(
            "{} cannot be read: {e}. Name the folder of an archive, or its folder files",
            folder.display()
        ))
    })?;
    paths.sort();
    Ok(paths)
}

/// Whether a file is named as an archive names the one of this item.
fn is_of(file: &Path, item: &EvidenceItem) -> bool {
    let name = file.file_name().and_then(|name| name.to_str());
    let id = name.and_then(|name| name.split('.').next());
    id.is_some_and(|id| id == item.item_id.to_string()) && file.is_file()
}

/// The checks of the files that are named like one item.
fn of_item(
    at: usize,
    item: &EvidenceItem,
    digest: &str,
    own: Vec<PathBuf>,
) -> Result<Vec<Check>, Failure> {
    let check = |passed, detail| Check {
        name: NAME,
        place: format!("/items/{at}/sha256"),
        passed,
        detail,
    };
    // The service may not have had the file, which makes nothing untrue.
    if own.is_empty() {
        let id = item.item_id;
        let detail = format!("The file of {id} is missing, so it was not compared.");
        return Ok(vec![check(true, detail)]);
    }
    let compared = own.into_iter().map(|file| -> Result<Check, Failure> {
        // A file of more bytes than an item's can have is cut, and so has another digest.
        let found = digest_of(&files::begin(&file, FILE_BYTES as u64)?);
        let name = file.display();
        Ok(match found == digest {
            true => check(true, format!("{name} matches what the packet names.")),
            false => check(
                false,
                format!("{name} differs from what the packet names: its digest is {found}."),
            ),
        })
    });
    compared.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const PACKET: &str = include_str!("../../../../tests/vectors/packets/good/items.json");

    #[test]
    fn each_file_matches_differs_is_missing_or_is_not_in_the_packet() {
        let mut packet: Packet = serde_json::from_str(PACKET).unwrap();
        let item = packet.items[0].item_id;
        packet.items[0].sha256 = Some(digest_of(b"the contract"));
        let folder = tempfile::tempdir().unwrap();
        let place = folder.path().join("packet.json");
        let found = |folder: &Path| {
            let checks = compare(&packet, &place, folder).unwrap();
            let said = |check: Check| (check.passed, check.place, check.detail);
            checks.into_iter().map(said).collect::<Vec<_>>()
        };
        let is = |(passed, place, detail): &(bool, String, String),
                  expected: (bool, &str, &str)| {
            assert_eq!((*passed, &**place), (expected.0, expected.1), "{detail}");
            assert!(detail.contains(expected.2), "{detail}");
        };
        let item_place = "/items/0/sha256";
        let missing = found(folder.path());
        assert_eq!(missing.len(), 1);
        is(&missing[0], (true, item_place, "is missing"));
        // An archive that has no file of an item has other parts.
        for part in ["packet.json", "evidence.html"] {
            fs::write(folder.path().join(part), PACKET).unwrap();
        }
        assert_eq!(found(folder.path()), missing);
        let files = folder.path().join("files");
        fs::create_dir(&files).unwrap();
        let file = files.join(format!("{item}.pdf"));
        fs::write(&file, "the contract").unwrap();
        // The folder of the archive and the folder in it are the same to whoever names one.
        for folder in [folder.path(), files.as_path()] {
            let matching = found(folder);
            assert_eq!(matching.len(), 1);
            is(&matching[0], (true, item_place, "matches"));
        }
        fs::write(&file, "the contracts").unwrap();
        fs::write(files.join("itm_other.pdf"), "the contract").unwrap();
        let wrong = found(&files);
        assert_eq!(wrong.len(), 2);
        is(&wrong[0], (false, item_place, "differs"));
        is(&wrong[1], (false, "", "is not in the packet"));
        assert!(compare(&packet, &place, &file).is_err());
    }
}
