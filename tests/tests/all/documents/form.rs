//! Checks the form of the pages: their length, their links, and which shell blocks no test runs.

use std::collections::BTreeSet;
use std::path::{Component, Path, PathBuf};

use super::{pages, repository};

/// The permitted reasons to exclude a shell block from the test.
const REASONS: [&str; 6] = [
    "a test of its own compares it with this table",
    "needs PostgreSQL servers of your own",
    "needs packages from the network",
    "needs packets of your own",
    "needs a service of your own",
    "this test is part of it",
];

#[test]
fn every_block_that_is_not_run_has_a_reason_that_holds() {
    let mut given = BTreeSet::new();
    for path in pages::all() {
        let page = pages::text(&path);
        for block in pages::blocks(&page) {
            let place = format!("{}, line {}", path.display(), block.line);
            assert_ne!(block.language, "", "{place}: a block names its language");
            assert_ne!(
                block.language, "console",
                "{place}: commands are to be copied"
            );
            if block.language == "sh" {
                given.extend(pages::reason(&block).map(str::to_owned));
            }
        }
    }
    let given: Vec<&str> = given.iter().map(String::as_str).collect();
    let mut reasons = REASONS;
    reasons.sort_unstable();
    assert_eq!(given, reasons);
}

#[test]
fn the_first_pages_are_short() {
    for (name, lines, columns) in [("README.md", 150, 120), ("ARCHITECTURE.md", 200, 160)] {
        let page = pages::text(Path::new(name));
        let count = page.lines().count();
        assert!(count <= lines, "{name} has {count} lines");
        for (index, line) in page.lines().enumerate() {
            let (width, number) = (line.chars().count(), index + 1);
            assert!(width <= columns, "{name}, line {number}: {width} columns");
        }
    }
}

#[test]
fn every_page_is_in_the_contents_and_no_longer_than_a_chapter() {
    let contents = pages::text(Path::new("docs/SUMMARY.md"));
    for path in pages::all() {
        let Ok(page) = path.strip_prefix("docs") else {
            continue;
        };
        if page != Path::new("SUMMARY.md") {
            let link = format!("({})", page.display());
            assert!(contents.contains(&link), "{link} is not in docs/SUMMARY.md");
        }
        // A specification stays in one piece.
        if page != Path::new("evidence-format.md") {
            let lines = pages::text(&path).lines().count();
            assert!(lines <= 420, "{} has {lines} lines", page.display());
        }
    }
}

/// Returns the targets of a page's links outside of code blocks.
fn links(page: &str) -> Vec<String> {
    let mut inside = false;
    let prose = page.lines().filter(|line| {
        let fence = line.starts_with("```");
        inside ^= fence;
        !inside && !fence
    });
    prose
        .flat_map(|line| line.split("](").skip(1))
        .filter_map(|rest| rest.split(')').next())
        .map(str::to_owned)
        .collect()
}

/// Returns the anchor that a link to this heading uses.
fn anchor(heading: &str) -> String {
    let text = heading.trim_start_matches('#').trim().to_lowercase();
    text.chars()
        .filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'))
        .map(|c| if c == ' ' { '-' } else { c })
        .collect()
}

fn plain(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for part in path.components() {
        if part == Component::ParentDir {
            plain.pop();
        } else {
            plain.push(part);
        }
    }
    plain
}

#[test]
fn every_alert_names_its_section_of_the_handbook() {
    let rules = pages::text(Path::new("ops/prometheus/rules.yml"));
    let handbook = pages::text(Path::new("docs/operate/alerts.md"));
    let mut alerts = 0;
    for rule in rules.split("- alert: ").skip(1) {
        let name = rule.lines().next().unwrap();
        let runbook = format!("runbook: docs/operate/alerts.md#{}\n", anchor(name));
        assert!(rule.contains(&runbook), "{name} lacks {runbook}");
        let has_section = handbook.contains(&format!("\n## {name}\n"));
        assert!(has_section, "docs/operate/alerts.md has no section {name}");
        alerts += 1;
    }
    assert!(alerts > 5, "only {alerts} alerts were found");
}

#[test]
fn every_link_leads_somewhere_and_every_page_has_one() {
    // The contents and the first page of the book need none.
    let mut linked = BTreeSet::from(["docs/SUMMARY.md", "docs/index.md"].map(PathBuf::from));
    let mut all = pages::all();
    all.push(PathBuf::from("ARCHITECTURE.md"));
    all.push(PathBuf::from("SECURITY.md"));
    for path in &all {
        for link in links(&pages::text(path)) {
            if link.starts_with("https://") || link.starts_with("mailto:") {
                continue;
            }
            let (file, part) = link.split_once('#').unwrap_or((&link, ""));
            let target = match file {
                "" => path.clone(),
                _ => plain(&path.parent().unwrap().join(file)),
            };
            let place = format!("{}: {link}", path.display());
            assert!(repository().join(&target).exists(), "{place} leads nowhere");
            if !part.is_empty() {
                let page = pages::text(&target);
                let mut headings = page.lines().filter(|line| line.starts_with('#'));
                assert!(
                    headings.any(|heading| anchor(heading) == part),
                    "{place} has no such heading"
                );
            }
            if path.starts_with("docs") && !path.ends_with("SUMMARY.md") && target != *path {
                linked.insert(target);
            }
        }
    }
    for path in all.iter().filter(|path| path.starts_with("docs")) {
        assert!(linked.contains(path), "no page links to {}", path.display());
    }
}
