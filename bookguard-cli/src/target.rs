//! The target of a command: a database file, or a server.
//!
//! Every operation goes through one generic call, so a command never knows which of the two it uses.

pub mod curl;
pub mod local;
pub mod remote;

use std::sync::Arc;

use bookguard_core::operation::{Operation, Request};
use bookguard_core::session::Access;
use bookguard_core::webhook::Secret;
use serde_json::Value;

use crate::failure::Failure;
use crate::output::Answer;
use crate::settings::{KeyKind, Where, environment, key};
use local::Local;
use remote::Remote;

/// The target of a command's calls.
pub enum Target {
    /// A database file.
    Local(Box<Local>),
    /// A server.
    Remote(Box<Remote>),
}

/// Where the bytes of an archive go, one after another.
pub type Sink<'a> = &'a mut (dyn FnMut(&[u8]) -> Result<(), Failure> + Send);

/// The purpose for which a target is opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// Works on an existing database.
    Work,
    /// Makes as many requests as there is data, each of which may be repeated: a server that asks for patience, or is away, gets it.
    Many,
    /// Creates the database if it does not exist.
    Begin,
    /// Waits for the outcome of a delivery: of an event, of a test, or while the command keeps running.
    Wait,
}

impl Target {
    /// Opens the target that `place` names.
    ///
    /// # Errors
    /// [`Failure::Usage`] or [`Failure::Unexpected`].
    pub fn open(place: Where, purpose: Purpose) -> Result<Self, Failure> {
        Ok(match place {
            Where::Database { config, partner_id } => {
                Self::Local(Box::new(Local::open(*config, partner_id, purpose)?))
            }
            Where::Server {
                url,
                key: source,
                prints,
            } => {
                // A printed request needs no key, and asking for one may ask a person.
                let key = match prints {
                    true => None,
                    false => key(&source, &environment)?,
                };
                let mut remote = Remote::new(&url, key)?;
                if let KeyKind::Operator { partner_id } = source.kind {
                    remote = remote.for_operator(partner_id);
                }
                if prints {
                    remote.print_requests(&source);
                }
                if purpose == Purpose::Many {
                    remote = remote.with_patience();
                }
                Self::Remote(Box::new(remote))
            }
        })
    }

    /// Calls an operation.
    ///
    /// # Errors
    /// Every [`Failure`] except [`Failure::NotVerified`].
    pub async fn call<O: Operation>(&self, request: Request) -> Result<Answer<O::Output>, Failure> {
        match self {
            Self::Local(local) => local.call::<O>(request).await,
            Self::Remote(remote) => match O::ROUTE.access {
                Access::Database => Err(only_here()),
                Access::Administrator if !remote.is_operators() => Err(for_operator()),
                _ => remote.call::<O>(request).await,
            },
        }
    }

    /// Calls an operation for these ids, with this body unless it is null, and returns what it answers.
    ///
    /// # Errors
    /// As [`Self::call`].
    pub async fn ask<O: Operation>(&self, ids: &[&str], body: Value) -> Result<O::Output, Failure> {
        Ok(self.call::<O>(request(ids, &body)).await?.output)
    }

    /// Calls an operation whose answer is a file.
    ///
    /// # Errors
    /// As [`Self::call`].
    pub async fn file<O: Operation>(&self, request: Request) -> Result<Vec<u8>, Failure> {
        match self {
            Self::Local(local) => local.file::<O>(&request),
            Self::Remote(remote) => remote.file::<O>(request).await,
        }
    }

    /// Writes the archive of a booking's evidence.
    ///
    /// # Errors
    /// As [`Self::call`], and those of `write`.
    pub async fn archive(&self, request: Request, write: Sink<'_>) -> Result<(), Failure> {
        match self {
            Self::Local(local) => local.archive(request, write).await,
            Self::Remote(remote) => remote.archive(request, write).await,
        }
    }

    /// The secret for signing events that are posted from here. It stays the same, and whoever has the key or the database
    /// may be shown it.
    ///
    /// # Errors
    /// [`Failure::NoKey`]; [`Failure::Usage`] on a database if no partner is named.
    pub fn own_secret(&self) -> Result<Secret, Failure> {
        match self {
            Self::Local(local) => local.signing_secret(),
            Self::Remote(remote) => remote.derived_secret(),
        }
    }

    /// The database, for commands that no server offers.
    ///
    /// # Errors
    /// [`Failure::NotHere`] on a server.
    pub fn database(&self) -> Result<&Local, Failure> {
        match self {
            Self::Local(local) => Ok(local),
            Self::Remote(_) => Err(only_here()),
        }
    }

    /// Whether this is the administrator, acting for no specific partner.
    pub fn is_for_all(&self) -> bool {
        match self {
            Self::Local(local) => local.is_for_all(),
            Self::Remote(remote) => remote.is_for_all(),
        }
    }

    /// Prints a notice if this is a database without a running server, because then nobody delivers the events made here.
    ///
    /// # Errors
    /// [`Failure::Refused`] if the database does not answer.
    pub fn say_if_unserved(&self) -> Result<(), Failure> {
        match self {
            Self::Local(local) => local.say_if_unserved(),
            Self::Remote(_) => Ok(()),
        }
    }

    /// Ends the work, and closes a database properly.
    pub async fn close(self) {
        match self {
            Self::Local(local) => local.close().await,
            Self::Remote(_) => {}
        }
    }
}

/// A request for these ids, with this body unless it is null.
pub fn request(ids: &[&str], body: &Value) -> Request {
    Request {
        path: ids.iter().map(|id| (*id).to_owned()).collect(),
        body: match body {
            Value::Null => Vec::new(),
            body => body.to_string().into_bytes(),
        },
        ..Request::default()
    }
}

/// A request that sends the file of what this path names.
pub fn sending(path: Vec<String>, file: &[u8]) -> Request {
    Request {
        path,
        file: Arc::new(file.into()),
        ..Request::default()
    }
}

/// The message of a command that works only on a database.
pub fn only_here() -> Failure {
    Failure::NotHere(
        "works only on the database itself: run it where the database is, with --db PATH",
    )
}

/// The message of a command that only the operator may use.
fn for_operator() -> Failure {
    Failure::NotHere(
        "works only on the database itself (--db PATH, without --url or BOOKGUARD_URL), or on a server's operator interface \
         with an operator key (BOOKGUARD_OPERATOR_KEY or --operator-key-file)",
    )
}

/// Parses an operation's answer.
fn read<O: Operation>(json: Vec<u8>) -> Result<Answer<O::Output>, String> {
    let json = String::from_utf8(json).map_err(|_| "it is not UTF-8".to_owned())?;
    let output = serde_json::from_str(&json).map_err(|e| e.to_string())?;
    Ok(Answer { json, output })
}
