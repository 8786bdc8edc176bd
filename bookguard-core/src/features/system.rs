//! What the operator must know of the service itself: this node, its database, the log and who vouches for it, the backups and the
//! settings.

use serde::{Deserialize, Serialize};

use super::cosignatures::places;
use super::health::can_work;
use crate::error::Error;
use crate::model::{Timestamp, WitnessState};
use crate::operation::{Action, Operation, Request, Route, query, read_long};
use crate::service::{Service, SettingInForce};
use crate::session::{Access, Session};
use crate::store::LiveNode;
use crate::version::VERSION;

/// `GET /v1/system`
pub struct GetSystem;

/// The service as one node sees it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(crate::schema::Schema))]
#[serde(rename_all = "camelCase")]
pub struct System {
    /// The time of the node that answers.
    pub at: Timestamp,
    /// The version of its program.
    pub version: String,
    /// The database, without a password.
    pub database: String,
    /// The version of the database's schema.
    pub schema_version: u32,
    /// The nodes on the database, longest connected first. Absent if the database is a file, on which one at most runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nodes: Option<Vec<NodeState>>,
    /// Whether writes are taken.
    pub writes: WriteState,
    /// The head of the log.
    pub log: LogState,
    /// The log's witnesses that this node asks, by the setting `witnesses`.
    #[serde(default)]
    pub witnesses: Vec<LogWitness>,
    /// How the log is stamped by time-stamp authorities.
    #[serde(default)]
    pub timestamps: TimestampState,
    /// The disk of a database file. Absent if it is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disk: Option<DiskState>,
    /// The backups that this node can see. Absent if no folder of backups is set, and on PostgreSQL, which makes its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backups: Option<BackupState>,
    /// The node's settings as it began with them, in the order of the settings' page. No secret is in them.
    pub settings: Vec<SettingInForce>,
}

/// A node on a database, as the database's server sees it, and by its clock.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(crate::schema::Schema))]
#[serde(rename_all = "camelCase")]
pub struct NodeState {
    /// Its number, drawn at its start. Log lines name it so.
    pub node_id: u32,
    /// Whether it is the node that answers.
    pub answers: bool,
    /// Since when it has been connected to the database: since its start, unless the connection was lost. Absent, like the rest, if the
    /// database does not let the node that answers see it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<Timestamp>,
    /// When it last reported that it is there, which it does every half second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seen_at: Option<Timestamp>,
    /// The version of its program.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// The network address from which it is connected, or that of a pooler between. Absent for a connection without a network.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub address: Option<String>,
}

/// Whether a database takes writes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(crate::schema::Schema))]
#[serde(rename_all = "camelCase")]
pub struct WriteState {
    /// Whether it does.
    pub taken: bool,
    /// Why not, as `GET /v1/health` says it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
    /// The same in a sentence.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

/// The head of the log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(crate::schema::Schema))]
#[serde(rename_all = "camelCase")]
pub struct LogState {
    /// The log's name.
    pub origin: String,
    /// How many entries it has.
    pub size: u64,
    /// The root of its tree, as receipts have it.
    pub root_hash: String,
    /// When its last entry was written. Absent if it has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub written_at: Option<Timestamp>,
    /// Whether the database has every entry that this node has seen published.
    pub is_sound: bool,
}

/// A witness of the log, and what came of asking it last.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(crate::schema::Schema))]
#[serde(rename_all = "camelCase")]
pub struct LogWitness {
    /// Its name in the policy.
    pub name: String,
    /// The address at which it is asked.
    pub url: String,
    /// How many entries of the log it has cosigned, as far as is known.
    pub size: u64,
    /// When it last cosigned. Absent if it never has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cosigned_at: Option<Timestamp>,
    /// Whether what it has cosigned is not in the log: entries were lost, or the log is forked.
    pub is_alarm: bool,
    /// Why it did not cosign when it was last asked, in words. Absent if it did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trouble: Option<String>,
}

/// How the log is stamped.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(crate::schema::Schema))]
#[serde(rename_all = "camelCase")]
pub struct TimestampState {
    /// The time of the last time-stamp. Absent, like its authority, if there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stamped_at: Option<Timestamp>,
    /// Who made it: the name in the certificate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub authority: Option<String>,
    /// How many entries of the log it covers.
    pub size: u64,
    /// How often an authority was asked since.
    pub asked: u32,
    /// Why the last question got no time-stamp, in words. Absent if it got one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trouble: Option<String>,
}

/// How full a disk is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(crate::schema::Schema))]
#[serde(rename_all = "camelCase")]
pub struct DiskState {
    /// Bytes that are free.
    pub free_bytes: u64,
    /// Bytes that must be free before anything new is taken; 0 for no such limit.
    pub min_free_bytes: u64,
}

/// Backups in a folder.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(crate::schema::Schema))]
#[serde(rename_all = "camelCase")]
pub struct BackupState {
    /// The folder.
    pub folder: String,
    /// When the newest verified one was made. Absent if there is none, or the folder cannot be read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub newest_at: Option<Timestamp>,
}

impl Operation for GetSystem {
    const ROUTE: Route = Route {
        id: "getSystem",
        path: "/v1/system",
        access: Access::Administrator,
        tag: "Service",
        summary: "The service itself",
        description: "For the operator. What the node that answers knows of itself, of the database, of the log, its witnesses and time-stamps, and of \
                      the backups, and its settings with their sources (`flag`, `environment`, `file`, `default`), without secrets.",
        ..Route::GET
    };
    type Output = System;

    fn prepare(_: &Session, _: &Request) -> Result<Action<System>, Error> {
        Ok(read_long::<Self>(true, |session| {
            let service = &session.service;
            let schema_version = query(session, |reader| reader.schema_version())?;
            Ok(System {
                at: service.clock().now(),
                version: VERSION.to_owned(),
                database: service.database().to_owned(),
                schema_version,
                nodes: nodes(service)?,
                writes: writes(service),
                log: log(service)?,
                witnesses: witnesses(service)?,
                timestamps: timestamps(service)?,
                disk: service.store().free_bytes().map(|free_bytes| DiskState {
                    free_bytes,
                    min_free_bytes: service.storage().min_free(),
                }),
                backups: service.backups().map(|folder| BackupState {
                    folder: folder.path().display().to_string(),
                    newest_at: folder.newest(),
                }),
                settings: service.config().settings.clone(),
            })
        }))
    }
}

fn nodes(service: &Service) -> Result<Option<Vec<NodeState>>, Error> {
    let own = service.node();
    let state = |live: LiveNode| NodeState {
        node_id: live.node.number(),
        answers: live.node == own,
        since: live.since,
        seen_at: live.seen_at,
        version: live.program.as_deref().and_then(version).map(str::to_owned),
        address: live.address,
    };
    let nodes = service.nodes()?;
    Ok(nodes.map(|nodes| nodes.into_iter().map(state).collect()))
}

/// The version in the name of a program, such as `bookguard 1.2.3`.
fn version(program: &str) -> Option<&str> {
    program.strip_prefix("bookguard ")
}

fn writes(service: &Service) -> WriteState {
    match can_work(service) {
        Ok(()) => WriteState {
            taken: true,
            code: None,
            message: None,
        },
        Err(why) => WriteState {
            // Writes go on while only the database file is not brought up to date with them.
            taken: why.code == "checkpoints_failing",
            code: Some(why.code.into_owned()),
            message: Some(why.message),
        },
    }
}

fn log(service: &Service) -> Result<LogState, Error> {
    let mut reader = service.reader()?;
    let head = reader.head().map_err(|e| service.fault(&e))?;
    let lost = service.publish(&mut reader, &head)?;
    Ok(LogState {
        size: head.head.size,
        root_hash: head.head.root.to_string(),
        written_at: (head.head.size > 0).then_some(head.written),
        origin: head.origin,
        is_sound: lost.is_none(),
    })
}

fn witnesses(service: &Service) -> Result<Vec<LogWitness>, Error> {
    let Some(policy) = service.witnesses() else {
        return Ok(Vec::new());
    };
    let known = service.ask(|reader| reader.witnesses())?;
    let mut witnesses = Vec::new();
    for place in places(policy) {
        let state = known.iter().find(|state| state.url == place.url);
        let keys = place.keys.iter().map(ToString::to_string);
        witnesses.extend(
            place
                .names
                .into_iter()
                .zip(keys)
                .map(|(name, key)| LogWitness {
                    name,
                    url: place.url.clone(),
                    size: state.map_or(0, |state| state.size),
                    cosigned_at: state.and_then(|state| state.signed_at(&key)),
                    is_alarm: state.is_some_and(WitnessState::is_alarm),
                    trouble: state.and_then(|state| state.trouble_of(&key)),
                }),
        );
    }
    Ok(witnesses)
}

fn timestamps(service: &Service) -> Result<TimestampState, Error> {
    let found = service.ask(|reader| Ok((reader.stamping()?, reader.latest_stamp()?)));
    let (stamping, latest) = found?;
    let claim = latest.as_ref();
    let claim = claim.and_then(|stamp| bookguard_time::read(&stamp.response).ok());
    Ok(TimestampState {
        stamped_at: latest.as_ref().map(|stamp| stamp.time),
        authority: claim
            .map(|claim| claim.authority)
            .filter(|name| !name.is_empty()),
        size: latest.map_or(0, |stamp| stamp.size),
        asked: stamping.asked,
        trouble: stamping.trouble,
    })
}
