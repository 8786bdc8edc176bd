//! Knows which nodes are live from the server's list of locks: each node holds its own lock for as long as its session
//! lives.
//!
//! The server ends a session and its locks when the node's process ends, however it ends. If a whole machine
//! disappears, the server hears nothing, so it probes every second and gives up after four.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use super::address::Address;
use super::{Conn, Postgres, Role};
use crate::engine::lease::Node;
use crate::store::conn::{Row, Statement, StoreError, args};
use crate::store::{LiveNode, NodeRegistry};

/// The class of these locks among all that programs take on the same database.
const NODES: i64 = 0x626f_6f6b;

const REGISTRY: Role = Role {
    begin: "BEGIN READ ONLY",
    settings: "SET tcp_keepalives_idle = 1; SET tcp_keepalives_interval = 1; SET tcp_keepalives_count = 3; \
               SET tcp_user_timeout = '4s'; SET statement_timeout = '3s'; SET lock_timeout = '1s'",
    patience: Duration::from_secs(4),
    repeats: true,
};

const PRESENT: &str = "SELECT objid::BIGINT FROM pg_catalog.pg_locks WHERE locktype = 'advisory' AND granted \
     AND objsubid = 2 AND classid::BIGINT = $1 \
     AND database = (SELECT oid FROM pg_catalog.pg_database WHERE datname = current_database())";
/// The nodes that are present, with the session that holds each lock. A role sees the details of its own sessions only.
const NODES_WITH_SESSIONS: &str = "SELECT l.objid::BIGINT, (EXTRACT(EPOCH FROM a.backend_start) * 1000)::BIGINT, \
     (EXTRACT(EPOCH FROM GREATEST(a.query_start, a.state_change)) * 1000)::BIGINT, a.application_name::TEXT, \
     host(a.client_addr)::TEXT FROM pg_catalog.pg_locks l LEFT JOIN pg_catalog.pg_stat_activity a ON a.pid = l.pid \
     WHERE l.locktype = 'advisory' AND l.granted AND l.objsubid = 2 AND l.classid::BIGINT = $1 \
     AND l.database = (SELECT oid FROM pg_catalog.pg_database WHERE datname = current_database()) \
     ORDER BY a.backend_start, l.objid";
/// Does not wait: if the lock is held, it is by a lost session of this node that has not ended yet.
const TAKE: &str =
    "SELECT CASE WHEN pg_try_advisory_lock($1::BIGINT::INT, $2::BIGINT::INT) THEN 1 ELSE 0 END";

/// Opens the registry on this server.
pub(super) fn open(address: Arc<Address>) -> Box<dyn NodeRegistry> {
    Box::new(Locks(Postgres::new(address, &REGISTRY)))
}

struct Locks(Postgres);

impl NodeRegistry for Locks {
    fn call(&mut self, own: Node) -> Result<BTreeSet<Node>, StoreError> {
        let mut present = self.present()?;
        if !present.contains(&own) {
            let lock = args![NODES, own.number()];
            self.0.one(Statement::new(TAKE, lock))?;
            // Read again, so that this node knows only what the others can see too.
            present = self.present()?;
        }
        Ok(present)
    }

    fn nodes(&mut self) -> Result<Vec<LiveNode>, StoreError> {
        let rows = self.0.all(NODES_WITH_SESSIONS, args![NODES])?;
        let nodes = rows.iter().map(live_node);
        nodes.filter_map(Result::transpose).collect()
    }
}

impl Locks {
    fn present(&mut self) -> Result<BTreeSet<Node>, StoreError> {
        let rows = self.0.all(PRESENT, args![NODES])?;
        let numbers = rows.iter().map(|row| row.int(0));
        numbers
            .filter_map(|number| number.map(Node::of).transpose())
            .collect()
    }
}

/// The node that holds a lock; `None` for a lock that is not a node's.
fn live_node(row: &Row) -> Result<Option<LiveNode>, StoreError> {
    let Some(node) = Node::of(row.int(0)?) else {
        return Ok(None);
    };
    let text = |column| -> Result<Option<String>, StoreError> {
        let text = row.maybe_text(column)?.filter(|text| !text.is_empty());
        Ok(text.map(str::to_owned))
    };
    Ok(Some(LiveNode {
        node,
        since: row.maybe_time(1)?,
        seen_at: row.maybe_time(2)?,
        program: text(3)?,
        address: text(4)?,
    }))
}
