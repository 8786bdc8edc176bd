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
/// [`Failure::Usage`] if nobody can be asked; [`Failure::Unexpected`] after a no.
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
    if agreed(io::stdin().lock()) {
        Ok(())
    } else {
        Err(Failure::Unexpected(
            "not confirmed; nothing was changed".to_owned(),
        ))
    }
}

fn agreed(mut answers: impl BufRead) -> bool {
    let mut answer = String::new();
    let read = answers.read_line(&mut answer).is_ok();
    let answer = answer.trim();
    read && ["y", "yes"]
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
            assert_eq!(agreed(answer.as_bytes()), yes, "{answer:?}");
        }
    }
}
