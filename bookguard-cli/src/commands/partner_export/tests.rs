//! Archives that are written, left over, and in the way.

use std::fs;

#[cfg(unix)]
use bookguard_core::private;

use super::*;
#[cfg(unix)]
use crate::commands::draft::is_ours;

/// The names in a folder, in order.
fn names(folder: &Path) -> Vec<String> {
    let names = fs::read_dir(folder).unwrap();
    let names = names.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<String> = names.collect();
    names.sort();
    names
}

#[test]
fn a_finished_archive_has_its_own_name_only_and_no_other_export_touches_it() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("a.tar");
    let mut tar = Tar::create(&out).unwrap();
    tar.json("a.json", &json!({})).unwrap();
    let Err(Failure::Usage(why)) = Tar::create(&out) else {
        panic!("two exports write one file")
    };
    assert!(why.contains("another export writes"), "{why}");
    assert_eq!(tar.finish().unwrap(), 4 * BLOCK as u64);
    assert_eq!(names(folder.path()), ["a.tar"]);
    let Err(Failure::Usage(why)) = Tar::create(&out) else {
        panic!("an archive is written over")
    };
    assert!(why.contains("exists already"), "{why}");
    assert_eq!(names(folder.path()), ["a.tar"]);
}

#[test]
fn a_file_that_came_meanwhile_is_not_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("a.tar");
    let tar = Tar::create(&out).unwrap();
    fs::write(&out, "theirs").unwrap();
    let Err(Failure::Usage(why)) = tar.finish() else {
        panic!("it was replaced")
    };
    assert!(why.contains("exists already"), "{why}");
    assert_eq!(fs::read_to_string(&out).unwrap(), "theirs");
    assert_eq!(names(folder.path()), ["a.tar"]);
}

#[test]
fn what_was_left_is_replaced_and_never_cut_because_it_may_be_an_archive() {
    let folder = tempfile::tempdir().unwrap();
    let (out, part) = (
        folder.path().join("a.tar"),
        folder.path().join("a.tar.bookguard-part"),
    );
    // Killed between its two names; then somebody moved the archive.
    let kept = folder.path().join("kept.tar");
    fs::write(&kept, "whole").unwrap();
    fs::hard_link(&kept, &part).unwrap();
    let tar = Tar::create(&out).unwrap();
    tar.finish().unwrap();
    assert_eq!(fs::read_to_string(&kept).unwrap(), "whole");
    assert_eq!(fs::read(&out).unwrap(), [0; 2 * BLOCK]);
    assert_eq!(names(folder.path()), ["a.tar", "kept.tar"]);
}

#[cfg(unix)]
#[test]
fn a_file_that_got_its_name_after_it_was_opened_is_not_written() {
    let folder = tempfile::tempdir().unwrap();
    let (out, part) = (
        folder.path().join("a.tar"),
        folder.path().join("a.tar.bookguard-part"),
    );
    fs::write(&part, "").unwrap();
    let opened = private::options().write(true).open(&part).unwrap();
    assert!(is_ours(&opened, &part).unwrap());
    fs::rename(&part, &out).unwrap();
    assert!(!is_ours(&opened, &part).unwrap());
    // Nor is one that another export has begun there since.
    fs::write(&part, "").unwrap();
    assert!(!is_ours(&opened, &part).unwrap());
    assert_eq!(names(folder.path()), ["a.tar", "a.tar.bookguard-part"]);
}

#[cfg(unix)]
#[test]
fn what_another_export_began_in_its_place_is_neither_named_nor_removed() {
    let folder = tempfile::tempdir().unwrap();
    let (out, part) = (
        folder.path().join("a.tar"),
        folder.path().join("a.tar.bookguard-part"),
    );
    let tar = Tar::create(&out).unwrap();
    fs::remove_file(&part).unwrap();
    fs::write(&part, "theirs").unwrap();
    let Err(Failure::Unexpected(why)) = tar.finish() else {
        panic!("another export's file has the name")
    };
    assert!(why.contains("was removed"), "{why}");
    assert_eq!(fs::read_to_string(&part).unwrap(), "theirs");
    assert_eq!(names(folder.path()), ["a.tar.bookguard-part"]);
}

#[test]
fn a_list_that_goes_round_is_no_whole_list() {
    let mut at = Position::default();
    for (cursor, taken) in [("b", true), ("c", true), ("b", false)] {
        let gone = at.go_on(&json!({ "nextCursor": cursor }));
        assert_eq!(gone.is_ok(), taken, "{cursor}");
    }
    at.go_on(&json!({})).unwrap();
    assert!(at.is_at_end);
    for (has_more, next, then) in [
        (true, 7, Ok(Some(7))),
        (false, 5, Ok(None)),
        (true, 5, Err(())),
        (true, 4, Err(())),
    ] {
        let page = json!({ "hasMore": has_more, "nextAfter": next });
        assert_eq!(events_after(5, &page).map_err(drop), then, "{page}");
    }
}
