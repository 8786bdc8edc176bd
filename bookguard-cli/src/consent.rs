//! Asks before something that cannot be undone.
//!
//! This is one question, so `dialoguer` would be more than it saves. Invariant: silence is no. If nobody can be asked, only
//! a flag on the command line counts as yes.

use std::io::{self, BufRead, IsTerminal as _, Write as _};

use crate::failure::Failure;
use crate::output::say;

/// Continues only if the user agrees: with `--yes`, or by typing it when asked.
///
/// # Errors
/// [`Failure::Usage`] if nobody can be asked; [`Failure::NotConfirmed`] after a no.
pub fn ask(what: &str, yes: bool) -> Result<(), Failure> {
    if yes {
        return Ok(());
    }
    if !io::stdin().is_terminal() {
        say(what);
        return Err(Failure::Usage(
            "there is no terminal to ask for confirmation; repeat the command with --yes to confirm"
                .to_owned(),
        ));
    }
    let _ = write!(io::stderr(), "{what}\nContinue? [y/N] ");
    let answer = typed_line(io::stdin().lock());
    if !answer.ends_with('\n') {
        // Whoever ends the input instead of answering has not begun a new line.
        say("");
    }
    match agrees(&answer) {
        true => Ok(()),
        false => Err(Failure::NotConfirmed),
    }
}

/// The line that is typed; empty if it cannot be read.
fn typed_line(mut answers: impl BufRead) -> String {
    let mut answer = String::new();
    match answers.read_line(&mut answer) {
        Ok(_) => answer,
        Err(_) => String::new(),
    }
}

fn agrees(answer: &str) -> bool {
    let answer = answer.trim();
    ["y", "yes"]
        .iter()
        .any(|yes| answer.eq_ignore_ascii_case(yes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_y_and_yes_are_a_yes() {
        for (answer, yes) in [
            ("yes\n", true),
            (" YES \r\n", true),
            ("yes", true),
            ("y\n", true),
            ("Y", true),
            ("ye\n", false),
            ("yy\n", false),
            ("no\n", false),
            ("\n", false),
            ("", false),
            ("yes please\n", false),
        ] {
            let read = typed_line(answer.as_bytes());
            assert_eq!((read.as_str(), agrees(&read)), (answer, yes));
        }
        let unreadable = [b'y', 0xff, b'\n'];
        assert_eq!(typed_line(unreadable.as_slice()), "");
    }
}
