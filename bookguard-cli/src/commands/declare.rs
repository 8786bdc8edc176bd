//! How a command is declared: its name, its arguments, and what it does.
//!
//! A command that is an operation takes its arguments from the operation's own declaration (`flags`), so a new one only
//! needs a name, a sentence, and a function that shows its answer. Any other command has its own arguments and code.

mod flags;
mod wording;

use std::pin::Pin;

use bookguard_core::input::JsonObject;
use bookguard_core::operation::{Method, Operation, Request};
use bookguard_server::config::Config;
use clap::{ArgMatches, Args};

use crate::args::{ConsentArgs, GlobalArgs};
use crate::consent;
use crate::failure::Failure;
use crate::output::table::Style;
use crate::output::{Answer, ROWS, Screen};
use crate::settings::{self, Where, environment};
use crate::target::{Purpose, Target, only_here};
pub(super) use flags::Flags;
pub(super) use flags::add;
use wording::CommandWords;

/// A command, or several under one name.
pub struct CliCommand {
    name: &'static str,
    about: &'static str,
    /// The commands of a group, which does nothing itself.
    within: Vec<CliCommand>,
    /// Built on demand, because only one command is typed.
    flags: Box<dyn Fn() -> Flags>,
    shape: fn(clap::Command) -> clap::Command,
    alias: Option<&'static str>,
    /// The member that holds the rows, if its answer is a list.
    rows: &'static str,
    purpose: Purpose,
    /// Whether it needs no target, given these arguments.
    is_alone: fn(&GlobalArgs) -> bool,
    /// The method and the path of its operation.
    route: Option<(Method, &'static str)>,
    work: Work,
}

/// What a command does.
type Work = Box<dyn for<'a> Fn(Call<'a>) -> Running<'a>>;
type Running<'a> = Pin<Box<dyn Future<Output = Result<(), Failure>> + 'a>>;

/// The context of a running command.
#[derive(Clone, Copy)]
pub(super) struct Call<'a> {
    pub(super) place: &'a GlobalArgs,
    pub(super) screen: &'a Screen,
    /// Where it works; `None` if the command needs no target.
    pub(super) target: Option<&'a Target>,
    command: &'a CliCommand,
    matches: &'a ArgMatches,
}

/// A command that calls an operation and shows its answer with `show`.
pub(super) fn operation<O: Operation>(
    name: &'static str,
    about: &'static str,
    show: fn(&O::Output, Style) -> String,
) -> CliCommand {
    carried::<O>(name, about, async move |call: Call<'_>| {
        call.screen.show(&call.answer::<O>().await?, show)
    })
}

/// A list, which is shown with `of_all` where no partner is named and the rows are of several.
pub(super) fn listing<O: Operation>(
    name: &'static str,
    about: &'static str,
    of_one: fn(&O::Output, Style) -> String,
    of_all: fn(&O::Output, Style) -> String,
) -> CliCommand {
    carried::<O>(name, about, async move |call: Call<'_>| {
        let show = match call.target().is_for_all() {
            true => of_all,
            false => of_one,
        };
        call.screen.show(&call.answer::<O>().await?, show)
    })
}

/// A command that does more with an operation than show its answer.
pub(super) fn carried<O: Operation>(
    name: &'static str,
    about: &'static str,
    work: impl AsyncFn(Call<'_>) -> Result<(), Failure> + Copy + 'static,
) -> CliCommand {
    CliCommand {
        flags: Box::new(|| Flags::of(&O::ROUTE)),
        route: Some((O::ROUTE.method, O::ROUTE.path)),
        ..special(name, about, work)
    }
}

/// A command that is more than one operation, or none.
pub(super) fn special(
    name: &'static str,
    about: &'static str,
    work: impl AsyncFn(Call<'_>) -> Result<(), Failure> + Copy + 'static,
) -> CliCommand {
    CliCommand {
        name,
        about,
        within: Vec::new(),
        flags: Box::new(Flags::default),
        shape: |shape| shape,
        alias: None,
        rows: ROWS,
        purpose: Purpose::Work,
        is_alone: |_| false,
        route: None,
        work: boxed(move |call| Box::pin(async move { work(call).await })),
    }
}

/// Tells the compiler of which life the call is: any.
fn boxed(work: impl for<'a> Fn(Call<'a>) -> Running<'a> + 'static) -> Work {
    Box::new(work)
}

/// A command that needs neither a database nor a server.
pub(super) fn alone(
    name: &'static str,
    about: &'static str,
    work: impl AsyncFn(Call<'_>) -> Result<(), Failure> + Copy + 'static,
) -> CliCommand {
    special(name, about, work).alone_if(|_| true)
}

/// Changes to a declared command.
impl CliCommand {
    /// Adds arguments of its own.
    pub(super) fn with<A: Args>(self) -> Self {
        Self {
            shape: A::augment_args,
            ..self
        }
    }

    pub(super) fn alias(self, alias: &'static str) -> Self {
        Self {
            alias: Some(alias),
            ..self
        }
    }

    /// Names the member that holds the rows of its answer.
    pub(super) fn rows(self, rows: &'static str) -> Self {
        Self { rows, ..self }
    }

    /// Sets the purpose for which its target is opened.
    pub(super) fn purpose(self, purpose: Purpose) -> Self {
        Self { purpose, ..self }
    }

    pub(super) fn alone_if(self, is_alone: fn(&GlobalArgs) -> bool) -> Self {
        Self { is_alone, ..self }
    }

    /// Changes the flags that the operation declares.
    pub(super) fn flags(self, change: fn(&mut Flags)) -> Self {
        let flags = move || {
            let mut flags = (self.flags)();
            change(&mut flags);
            flags
        };
        Self {
            flags: Box::new(flags),
            ..self
        }
    }

    /// The clap command. If it was not typed, it has only what lists of commands show.
    pub(super) fn shape(&self, typed: &dyn Fn(&str) -> bool) -> clap::Command {
        let shape = clap::Command::new(self.name).alias(self.alias);
        if !self.within.is_empty() {
            let within = self.within.iter().map(|command| command.shape(typed));
            let shape = shape.about(self.about).subcommands(within);
            return shape.subcommand_required(true).arg_required_else_help(true);
        }
        if !typed(self.name) && !self.alias.is_some_and(typed) {
            return shape.about(self.about);
        }
        let shape = (self.shape)((self.flags)().shape(shape));
        // Otherwise clap takes the arguments' doc comment as the command's.
        shape.about(self.about).long_about(None)
    }

    async fn run(
        &self,
        path: &str,
        place: &GlobalArgs,
        screen: &Screen,
        matches: &ArgMatches,
        all: &[Self],
    ) -> Result<(), Failure> {
        let screen = &screen.with_rows(self.rows);
        let call = Call {
            place,
            screen,
            target: None,
            command: self,
            matches,
        };
        let done = match (self.is_alone)(place) {
            true => (self.work)(call).await,
            false => {
                let target = Target::open(settings::place(place, &environment)?, self.purpose)?;
                let target_call = Call {
                    target: Some(&target),
                    ..call
                };
                // Closed whether or not the work succeeded.
                let done = (self.work)(target_call).await;
                target.close().await;
                done
            }
        };
        done.map_err(|failure| {
            let flags = (self.flags)();
            let words = CommandWords {
                all,
                flags: &flags,
                matches,
            };
            failure.of_command(path).in_words_of(&words)
        })
    }
}

/// Runs the command that was typed.
///
/// # Errors
/// Those of the command.
pub async fn run(
    mut declared: &[CliCommand],
    place: &GlobalArgs,
    screen: &Screen,
    mut matches: &ArgMatches,
) -> Result<(), Failure> {
    let (all, mut path) = (declared, Vec::new());
    while let Some((name, within)) = matches.subcommand() {
        path.push(name);
        match declared.iter().find(|command| command.name == name) {
            Some(group) if !group.within.is_empty() => {
                (declared, matches) = (&group.within, within);
            }
            Some(command) => {
                let path = path.join(" ");
                return command.run(&path, place, screen, within, all).await;
            }
            None => break,
        }
    }
    unreachable!("clap matches only what was declared to it")
}

/// Groups several commands under one name.
pub(super) fn group<const N: usize>(
    name: &'static str,
    about: &'static str,
    within: [CliCommand; N],
) -> CliCommand {
    CliCommand {
        within: within.into(),
        ..special(name, about, async |_| Ok(()))
    }
}

impl<'a> Call<'a> {
    /// The place where the command works.
    pub(super) fn target(&self) -> &'a Target {
        self.target
            .expect("a target is opened for every command that is not alone")
    }

    /// The settings of the database that the command works on, without opening that.
    ///
    /// # Errors
    /// [`Failure::NotHere`] on a server; [`Failure::Usage`] for an invalid setting.
    pub(super) fn config(&self) -> Result<Config, Failure> {
        match settings::place(self.place, &environment)? {
            Where::Database { config, .. } => Ok(*config),
            Where::Server { .. } => Err(only_here()),
        }
    }

    /// Its own arguments, as they were typed.
    ///
    /// # Errors
    /// None in practice: the same type declared them.
    pub(super) fn args<A: Args>(&self) -> Result<A, Failure> {
        A::from_arg_matches(self.matches).map_err(|e| Failure::Usage(e.to_string()))
    }

    /// The operation's request.
    ///
    /// # Errors
    /// [`Failure::Usage`] for a value that cannot be sent.
    pub(super) fn request(&self) -> Result<Request, Failure> {
        (self.command.flags)().request(self.matches)
    }

    /// The request's body so far.
    ///
    /// # Errors
    /// As [`Self::request`].
    pub(super) fn members(&self) -> Result<JsonObject, Failure> {
        (self.command.flags)().members(self.matches)
    }

    /// A request with the ids from the path, and nothing else.
    ///
    /// # Errors
    /// As [`Self::request`].
    pub(super) fn path(&self) -> Result<Request, Failure> {
        let path = self.request()?.path;
        Ok(Request {
            path,
            ..Request::default()
        })
    }

    /// The value that was typed for a flag of the operation.
    pub(super) fn typed(&self, flag: &str) -> Option<String> {
        self.matches.get_one::<String>(flag).cloned()
    }

    /// Whether the command asks before it goes on: unless `--yes` was typed, or nothing is sent anyway (`--curl`). The command needs
    /// [`ConsentArgs`].
    ///
    /// # Errors
    /// As [`Self::args`].
    pub(super) fn asks(&self) -> Result<bool, Failure> {
        let ConsentArgs { yes } = self.args()?;
        Ok(!yes && !self.prints())
    }

    /// Whether requests are printed instead of sent (`--curl`).
    pub(super) fn prints(&self) -> bool {
        self.place.curl
    }

    /// Asks before the command goes on, if it [asks](Self::asks).
    ///
    /// # Errors
    /// As [`consent::ask`].
    pub(super) fn ask(&self, what: &str) -> Result<(), Failure> {
        consent::ask(what, !self.asks()?)
    }

    /// Reads what a question is about. `None` if the caller's key may not: somebody who may delete a thing need not be able to see it.
    ///
    /// # Errors
    /// Those of the call.
    pub(super) async fn look<O: Operation>(
        &self,
        request: Request,
    ) -> Result<Option<O::Output>, Failure> {
        match self.target().call::<O>(request).await {
            Err(failure) if failure.is("insufficient_scope") => Ok(None),
            answer => Ok(Some(answer?.output)),
        }
    }

    /// Calls the operation and returns its answer.
    ///
    /// # Errors
    /// Those of the call.
    pub(super) async fn answer<O: Operation>(&self) -> Result<Answer<O::Output>, Failure> {
        self.target().call::<O>(self.request()?).await
    }
}
