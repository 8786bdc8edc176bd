//! Sends one flight: puts a list on the wire and takes the answers in order.
//!
//! The connection knows what the list means and what an answer means for the session. Invariant: what is sent is a
//! prefix of the list, without gaps.

use std::future::Future;
use std::pin::Pin;
use std::task::Poll;

use tokio_postgres::types::ToSql;
use tokio_postgres::{RowStream, Statement as Prepared};

use super::faults::Fault;
use crate::store::conn::{Row, Rows, Statement};

/// One statement under way.
pub(super) type PendingStatement<'a, T> = Pin<Box<dyn Future<Output = Result<T, Fault>> + 'a>>;

/// Puts everything on the wire in order, then takes the answers in order. The first failure ends the list. If one item
/// cannot be sent, nothing after it is: a COMMIT behind it would keep the rest.
pub(super) async fn in_order<T>(mut lane: Vec<PendingStatement<'_, T>>) -> Result<Vec<T>, Fault> {
    let mut landed: Vec<Option<Result<T, Fault>>> = Vec::with_capacity(lane.len());
    std::future::poll_fn(|context| {
        for leg in &mut lane {
            // The client sends in its first poll.
            landed.push(match leg.as_mut().poll(context) {
                Poll::Ready(result) => Some(result),
                Poll::Pending => None,
            });
            if matches!(landed.last(), Some(Some(Err(_)))) {
                break;
            }
        }
        Poll::Ready(())
    })
    .await;
    let mut results = Vec::with_capacity(lane.len());
    for (leg, landed) in lane.into_iter().zip(landed) {
        results.push(match landed {
            Some(result) => result?,
            None => leg.await?,
        });
    }
    Ok(results)
}

pub(super) async fn command(client: &tokio_postgres::Client, sql: &str) -> Result<Rows, Fault> {
    client.batch_execute(sql).await?;
    Ok(Rows::default())
}

pub(super) async fn query(
    client: &tokio_postgres::Client,
    prepared: Option<&Prepared>,
    statement: &Statement<'_>,
) -> Result<Rows, Fault> {
    let prepared =
        prepared.ok_or_else(|| Fault::Lost("a statement was not prepared".to_owned()))?;
    let args = statement.args.iter().map(|arg| arg as &(dyn ToSql + Sync));
    let stream = client.query_raw(prepared, args).await?;
    collect(stream).await
}

async fn collect(stream: RowStream) -> Result<Rows, Fault> {
    let mut stream = std::pin::pin!(stream);
    let mut rows = Vec::new();
    while let Some(row) =
        std::future::poll_fn(|context| futures_core::Stream::poll_next(stream.as_mut(), context))
            .await
    {
        let row = row?;
        let cells = (0..row.len()).map(|column| row.try_get(column));
        rows.push(Row(cells.collect::<Result<_, _>>()?));
    }
    Ok(Rows { rows })
}

/// The address and length of a statement's text, used as a key: hashing a thousand characters again and again would
/// cost more than it saves.
pub(super) fn place(sql: &'static str) -> (usize, usize) {
    (sql.as_ptr().addr(), sql.len())
}
