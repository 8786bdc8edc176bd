//! The rows that the commands of one batch need, as plain values that the store turns into statements.
//!
//! A command that needs another row says so here; the store knows no commands.

use crate::engine::command::Reclaim;
use crate::model::{
    ApiKeyId, BookingId, ConsoleSessionId, EndpointId, EventId, FileId, OperatorKeyId, PartnerId,
    RecoveryId, ShareId, Timestamp,
};

/// The rows to load for a batch. A row that is named twice is loaded once.
#[derive(Debug, Default)]
pub struct Needs {
    /// The latest instant at which one of the commands was received.
    pub now: Timestamp,
    /// Partners, with their endpoints.
    pub partners: Vec<PartnerId>,
    /// Partners that add an endpoint. Whether it waits depends on when they last deleted an unverified one.
    pub adding: Vec<PartnerId>,
    /// Partners whose keys that work are loaded.
    pub key_owners: Vec<PartnerId>,
    /// Partners whose policies a command puts or chooses among.
    pub policy_owners: Vec<PartnerId>,
    /// Partners and endpoints whose secrets are replaced.
    pub secret_owners: Vec<[u8; 16]>,
    /// Partners whose changes of a day are counted, and that day.
    pub changing: Vec<(PartnerId, u64)>,
    /// API keys.
    pub keys: Vec<ApiKeyId>,
    /// Operator keys.
    pub operator_keys: Vec<OperatorKeyId>,
    /// Whether all operator keys that are not revoked are needed.
    pub live_operator_keys: bool,
    /// Console sessions, whosever they are.
    pub console_sessions: Vec<ConsoleSessionId>,
    /// Partners whose console sessions that have not expired are needed, ended ones included.
    pub console_owners: Vec<PartnerId>,
    /// Whether all sessions of the operator's console that have not expired are needed, ended ones included.
    pub unexpired_operator_sessions: bool,
    /// Bookings with their terms, their last change of date and their resolution.
    pub bookings: Vec<BookingId>,
    /// Bookings whose acceptances are needed; `bookings` names them too.
    pub acceptances: Vec<BookingId>,
    /// Bookings whose evidence items are needed; `bookings` names them too.
    pub items: Vec<BookingId>,
    /// Files, whole or not.
    pub files: Vec<FileId>,
    /// Whether to load files that were not completed, and to which nothing was added since this instant.
    pub unfinished_files: Option<Timestamp>,
    /// Partners whose incomplete files are needed, as their total size.
    pub arriving: Vec<PartnerId>,
    /// Bookings that are needed with the end of their chain only.
    pub chains: Vec<BookingId>,
    /// Shares.
    pub shares: Vec<ShareId>,
    /// Bookings whose shares are all needed.
    pub shared: Vec<BookingId>,
    /// Bookings whose legal holds are all needed.
    pub held: Vec<BookingId>,
    /// Partners whose active legal holds are all needed, on whichever booking.
    pub holders: Vec<PartnerId>,
    /// Events.
    pub events: Vec<EventId>,
    /// Events whose deliveries are needed.
    pub deliveries: Vec<EventId>,
    /// Endpoints whose health and address are needed.
    pub health: Vec<EndpointId>,
    /// Events for which to find out whether their waiting deliveries are for a deleted endpoint, and whether a hold keeps them.
    pub deleted: Vec<EventId>,
    /// Recoveries that are continued.
    pub recoveries: Vec<RecoveryId>,
    /// Partners that begin a recovery, and when. Whether they may depends on their other recoveries.
    pub recovering: Vec<(PartnerId, Timestamp)>,
    /// Partners whose next few events are needed, and the number after which these begin.
    pub log: Vec<(PartnerId, u64)>,
    /// Whether the progress of the search for old events is needed.
    pub sweep: bool,
    /// Whether the progress of stamping is needed.
    pub stamping: bool,
    /// Whether the newest epoch is needed.
    pub epoch: bool,
    /// Endpoints whose due deliveries are needed, and how many at most.
    pub due: Vec<(EndpointId, usize)>,
    /// Endpoints whose waiting deliveries are needed if they are deleted.
    pub dropped: Vec<EndpointId>,
    /// The deliveries to take back.
    pub reclaims: Vec<Reclaim>,
    /// Witnesses of the log, by the ids of their rows.
    pub witnesses: Vec<[u8; 32]>,
    /// Idempotency keys under which an answer may be remembered.
    pub answers: Vec<[u8; 32]>,
}

/// Sorts the first of these fields of [`Needs`] and removes their duplicates; the others are no such lists.
macro_rules! distinct {
    ($needs:ident: $($list:ident)+; $($other:ident)+) => {
        // Without `..`, so that no new list is forgotten.
        let Self { $($list,)+ $($other: _,)+ } = $needs;
        $(distinct($list);)+
    };
}

impl Needs {
    /// Names a booking and its partner, for a command that acts on the booking in the partner's name.
    pub(crate) fn booking_of(&mut self, partner_id: PartnerId, booking_id: BookingId) {
        self.partners.push(partner_id);
        self.bookings.push(booking_id);
    }

    /// Removes duplicates and sorts each list.
    pub(crate) fn normalize(&mut self) {
        distinct! { self:
            partners adding key_owners policy_owners secret_owners changing keys operator_keys console_sessions console_owners
            bookings acceptances items files arriving chains shares shared held holders events deliveries health deleted
            recoveries recovering log dropped reclaims witnesses answers;
            now live_operator_keys unexpired_operator_sessions unfinished_files sweep stamping epoch due
        }
        // The end of a booking's chain is loaded with the booking.
        let bookings = &self.bookings;
        self.chains.retain(|id| bookings.binary_search(id).is_err());
    }
}

fn distinct<T: Ord>(list: &mut Vec<T>) {
    list.sort_unstable();
    list.dedup();
}
