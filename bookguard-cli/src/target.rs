//! What a command calls: a database file of its own, or a server.
//!
//! One generic call for every operation, so that a command never knows which of the two it talks to.

pub mod local;
pub mod remote;

use bookguard_core::operation::{Operation, Request};
use bookguard_core::session::Access;
use bookguard_core::webhook::Secret;
use serde_json::Value;

use crate::failure::Failure;
use crate::output::Answer;
use crate::settings::Where;
use local::Local;
use remote::Remote;

/// What a command calls.
pub enum Target {
    /// A database file.
    Local(Local),
    /// A server.
    Remote(Box<Remote>),
}

/// What a database file is opened for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// What is there.
    Work,
    /// To begin: the database is made when it is not there.
    Begin,
    /// To wait for what becomes of a delivery: of an event, of a test, or during a longer stay.
    Wait,
}

impl Target {
    /// Opens what `place` says, for a purpose that matters to a database.
    ///
    /// # Errors
    /// [`Failure::Usage`] or [`Failure::Unexpected`].
    pub fn open(place: Where, purpose: Purpose) -> Result<Self, Failure> {
        Ok(match place {
            Where::Database { config, partner_id } => {
                Self::Local(Local::open(*config, partner_id, purpose)?)
            }
            Where::Server { url, api_key_file } => {
                let key = crate::settings::api_key(
                    api_key_file.as_deref(),
                    &crate::settings::environment,
                )?;
                Self::Remote(Box::new(Remote::new(&url, key)?))
            }
        })
    }

    /// Calls an operation.
    ///
    /// # Errors
    /// Every one of [`Failure`]'s but [`Failure::NotVerified`].
    pub async fn call<O: Operation>(&self, request: Request) -> Result<Answer<O::Output>, Failure> {
        match self {
            Self::Local(local) => local.call::<O>(request).await,
            Self::Remote(_) if O::ROUTE.access == Access::Administrator => {
                Err(only_here(O::ROUTE.summary))
            }
            Self::Remote(remote) => remote.call::<O>(request).await,
        }
    }

    /// A secret to sign events with that are posted from here: it stays the same, and whoever has the key or the database
    /// can be shown it.
    ///
    /// # Errors
    /// [`Failure::NoKey`]; [`Failure::Usage`] when no partner is named on a database.
    pub fn own_secret(&self) -> Result<Secret, Failure> {
        match self {
            Self::Local(local) => local.signing_secret(),
            Self::Remote(remote) => remote.derived_secret(),
        }
    }

    /// The database, for what no server offers.
    ///
    /// # Errors
    /// [`Failure::Usage`] on a server.
    pub fn database(&self, what: &str) -> Result<&Local, Failure> {
        match self {
            Self::Local(local) => Ok(local),
            Self::Remote(_) => Err(only_here(what)),
        }
    }

    /// Whether this is the administrator, acting for no partner in particular.
    pub fn is_for_all(&self) -> bool {
        matches!(self, Self::Local(local) if local.is_for_all())
    }

    /// Says so when this is a database on which no server runs: then nobody delivers what is done here.
    ///
    /// # Errors
    /// [`Failure::Refused`] when the database does not answer.
    pub fn say_if_unserved(&self) -> Result<(), Failure> {
        match self {
            Self::Local(local) => local.say_if_unserved(),
            Self::Remote(_) => Ok(()),
        }
    }

    /// Ends the work: a database is closed properly.
    pub async fn close(self) {
        match self {
            Self::Local(local) => local.close().await,
            Self::Remote(_) => {}
        }
    }
}

/// A request for what these ids name, with this body unless it is null.
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

/// What a command says that works on a database only.
pub fn only_here(what: &str) -> Failure {
    Failure::Usage(format!(
        "\"{what}\" works only on the database itself: run it where the database is, with --db PATH and without --url or BOOKGUARD_URL"
    ))
}

/// Reads an operation's answer.
fn read<O: Operation>(json: Vec<u8>) -> Result<Answer<O::Output>, String> {
    let json = String::from_utf8(json).map_err(|_| "it is not UTF-8".to_owned())?;
    let output = serde_json::from_str(&json).map_err(|e| e.to_string())?;
    Ok(Answer { json, output })
}
