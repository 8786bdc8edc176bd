//! Parses a page of Markdown: its fenced blocks in order, and the comments about each.
//!
//! A comment directly above a shell block marks a special case: `<!-- not run: REASON -->` for a block that no test can
//! run, `<!-- stays running -->` for one that runs until it is stopped, as if in a terminal of its own.

use std::path::{Path, PathBuf};

use super::repository;

/// A fenced block.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Block {
    /// The line of its opening fence, from 1.
    pub line: usize,
    /// The word after the fence.
    pub language: String,
    /// Its contents.
    pub text: String,
    /// The comment above it, if there is one.
    pub remark: Option<String>,
    /// Whether only empty lines separate it from the block before.
    pub follows: bool,
}

/// A shell block, with the output that the page shows for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step {
    /// The line of its opening fence.
    pub line: usize,
    /// The commands.
    pub commands: String,
    /// The output shown in the block that follows.
    pub shown: Option<String>,
    /// Whether it runs until it is stopped.
    pub stays: bool,
}

/// Returns README.md, CONTRIBUTING.md and every page of docs/, as paths relative to the repository's root.
pub fn all() -> Vec<PathBuf> {
    let mut found = vec![PathBuf::from("README.md"), PathBuf::from("CONTRIBUTING.md")];
    let mut folders = vec![PathBuf::from("docs")];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(repository().join(&folder)).unwrap() {
            let path = folder.join(entry.unwrap().file_name());
            if repository().join(&path).is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|ending| ending == "md") {
                found.push(path);
            }
        }
    }
    found.sort();
    found
}

/// Reads a page.
pub fn text(path: &Path) -> String {
    std::fs::read_to_string(repository().join(path)).unwrap()
}

/// Returns the fenced blocks of a page.
pub fn blocks(page: &str) -> Vec<Block> {
    let mut blocks: Vec<Block> = Vec::new();
    let (mut open, mut remark, mut follows) = (None::<Block>, None, false);
    for (index, line) in page.lines().enumerate() {
        match &mut open {
            Some(_) if line.trim_end() == "```" => {
                blocks.extend(open.take());
                follows = true;
            }
            Some(block) => {
                block.text.push_str(line);
                block.text.push('\n');
            }
            None => match line.strip_prefix("```") {
                Some(language) => {
                    open = Some(Block {
                        line: index + 1,
                        language: language.trim().to_owned(),
                        text: String::new(),
                        remark: remark.take(),
                        follows,
                    });
                }
                None => {
                    let comment = line.trim().strip_prefix("<!--");
                    let comment = comment.and_then(|rest| rest.strip_suffix("-->"));
                    remark = comment.map(|comment| comment.trim().to_owned());
                    follows &= line.trim().is_empty();
                }
            },
        }
    }
    assert!(open.is_none(), "a block is not closed: {open:?}");
    blocks
}

/// Returns the shell blocks of a page that are to be run.
pub fn steps(page: &str) -> Vec<Step> {
    let mut steps: Vec<Step> = Vec::new();
    let mut last_is_run = false;
    for block in blocks(page) {
        match block.language.as_str() {
            "sh" => {
                last_is_run = reason(&block).is_none();
                if last_is_run {
                    steps.push(Step {
                        line: block.line,
                        stays: block.remark.as_deref() == Some("stays running"),
                        commands: block.text,
                        shown: None,
                    });
                }
            }
            "text" | "json" if block.follows && last_is_run => {
                let step = steps.last_mut().unwrap();
                step.shown = Some(block.text);
                last_is_run = false;
            }
            _ => last_is_run = false,
        }
    }
    steps
}

/// Returns the reason why a shell block is not run, if it is excluded.
pub fn reason(block: &Block) -> Option<&str> {
    block.remark.as_deref()?.strip_prefix("not run: ")
}

#[test]
fn a_page_is_read_as_its_reader_reads_it() {
    let page = "text\n\n```sh\none\n```\n\n```json\n{}\n```\n\nmore\n\n<!-- not run: because -->\n```sh\ntwo\n```\n\n```text\nof two\n```\n\n\
                <!-- stays running -->\n```sh\nthree\n```\n\nbetween\n\n```json\n[]\n```\n";
    let step = |line, commands: &str, shown: Option<&str>, stays| Step {
        line,
        commands: commands.to_owned(),
        shown: shown.map(str::to_owned),
        stays,
    };
    let expected = [
        step(3, "one\n", Some("{}\n"), false),
        step(23, "three\n", None, true),
    ];
    assert_eq!(steps(page), expected);
}
