//! Operations on a database file, as its administrator, in this process.
//!
//! The service's own writer writes, under the database's write turn, so a server may run on the same file meanwhile.
//! Invariant: no event is delivered from here, because the server's settings decide where webhooks may go, and through
//! which proxy. Due deliveries are left to the running server, or to the next one, and a retry waits for that server to
//! settle it. Only a test, which leaves no record, is sent from here, and only if no server runs.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bookguard_core::engine::command::{Envelope, Written};
use bookguard_core::engine::outbox::Outbox;
use bookguard_core::error::Error;
use bookguard_core::features;
use bookguard_core::features::erasures;
use bookguard_core::features::evidence::GetEvidence;
use bookguard_core::features::items::files::{files_of_booking, part_of};
use bookguard_core::limits::RETRY_WAIT_MS;
use bookguard_core::model::{BookingId, PartnerId};
use bookguard_core::operation::{self, Awaits, Operation, Request, RequestStep, StepFn, WriteStep};
use bookguard_core::service::{self, Closing, Service};
use bookguard_core::session::{Authority, Operator, Session};
use bookguard_core::webhook::Secret;
use bookguard_render::Segment;
use bookguard_server::config::Config;
use bookguard_server::courier::{Awaited, Courier, CourierConfig};
use bookguard_server::mcp::local::LocalMcp;
use bookguard_server::runs_on;
use bookguard_server::watch::watch;
use tokio::task::{block_in_place, yield_now};

use super::{Purpose, Sink};
use crate::failure::Failure;
use crate::output::Answer;
use crate::output::say;

/// How long a test that is still running may delay the end of the command.
const LAST_ATTEMPT: Duration = Duration::from_secs(15);

const UNSERVED: &str = "No server runs on this database, and only a server delivers webhooks. Start one (bookguard serve), and \
                        it sends what is due.";

/// An open database.
pub struct Local {
    session: Session,
    closing: Closing,
    courier: Option<Arc<Courier>>,
    config: Config,
}

impl Local {
    /// Opens the database of `config`, acting for `partner_id` if one is needed.
    ///
    /// # Errors
    /// [`Failure::Unexpected`] that says what is wrong with the database or its key.
    pub fn open(
        config: Config,
        partner_id: Option<PartnerId>,
        purpose: Purpose,
    ) -> Result<Self, Failure> {
        let opening = service::ServiceConfig {
            create: purpose == Purpose::Begin,
            // A server may run on it that does not know the new schema.
            upgrade: false,
            // Without an outbox, deliveries are inserted without a lease.
            ..config.service(&config.listen, config.operator_listen.as_deref(), None)
        };
        let local = Self::over(opening, config, partner_id)?;
        let (service, config) = (&local.session.service, &local.config);
        // A failure shows itself later: a command that asks for what may not be shown yet is refused.
        let _ = block_in_place(|| erasures::settle(service));
        for said in [service.begun(), service.unguarded()].into_iter().flatten() {
            say(said);
        }
        if purpose != Purpose::Wait {
            return Ok(local);
        }
        // It gets no deliveries and claims none; it waits for outcomes and sends tests.
        let (outbox, leased) = Outbox::new();
        let settings = CourierConfig {
            claims: false,
            ..config.courier()
        };
        let courier = Courier::start(Arc::clone(service), Arc::new(outbox), leased, settings);
        let courier = courier.map_err(|e| Failure::Unexpected(e.to_string()))?;
        Ok(Self {
            courier: Some(Arc::new(courier)),
            ..local
        })
    }

    /// Opens the database of `opening`, without a courier.
    ///
    /// # Errors
    /// As [`Self::open`].
    pub fn over(
        opening: service::ServiceConfig,
        config: Config,
        partner_id: Option<PartnerId>,
    ) -> Result<Self, Failure> {
        let (service, closing) = block_in_place(|| Service::open(opening))?;
        let session = Session {
            service,
            authority: administrator(partner_id),
            address: None,
        };
        Ok(Self {
            session,
            closing,
            courier: None,
            config,
        })
    }

    /// Acts for this partner from now on.
    pub fn act_for(&mut self, partner_id: PartnerId) {
        self.session.authority = administrator(Some(partner_id));
    }

    /// Whether it acts for no specific partner.
    pub fn is_for_all(&self) -> bool {
        let authority = &self.session.authority;
        matches!(authority, Authority::Administrator { partner_id, .. } if partner_id.is_none())
    }

    /// Prints a notice if no server runs on the database.
    ///
    /// # Errors
    /// [`Failure::Refused`] if the database does not answer.
    pub fn say_if_unserved(&self) -> Result<(), Failure> {
        if !self.has_server()? {
            say(UNSERVED);
        }
        Ok(())
    }

    fn has_server(&self) -> Result<bool, Failure> {
        Ok(match self.config.db.file() {
            Some(file) => runs_on(file),
            None => {
                block_in_place(|| self.service().nodes())?.is_some_and(|nodes| !nodes.is_empty())
            }
        })
    }

    /// A command that no operation has, with its record in the audit. It concerns the database, and no partner.
    pub fn audited<R>(
        &self,
        action: &str,
        subject: BTreeMap<String, String>,
        envelope: Envelope<R>,
    ) -> Envelope<R> {
        let mut record = self.session.audit_record(action, envelope.at);
        (record.partner_id, record.subject) = (None, subject);
        envelope.recorded_as(record)
    }

    /// Carries out a command without an Idempotency-Key, and waits for its outcome, even while the writer is busy.
    ///
    /// # Errors
    /// Those of the core.
    pub async fn carry_out<R: Send + 'static>(&self, command: Envelope<R>) -> Result<R, Failure> {
        match self.service().submit_patiently(command).await? {
            Written::Fresh(reply) => Ok(reply),
            Written::Replayed(_) => Err(Failure::Unexpected(
                "the writer answered another request".to_owned(),
            )),
        }
    }

    /// The service.
    pub fn service(&self) -> &Arc<Service> {
        &self.session.service
    }

    /// For how many days events are kept whole; `None` means for ever.
    pub fn retention_days(&self) -> Option<u32> {
        Some(self.config.retention_days).filter(|days| *days > 0)
    }

    /// For how many days records of the audit are kept.
    pub fn audit_retention_days(&self) -> u32 {
        self.config.audit_retention_days
    }

    /// The Model Context Protocol on this database, for the partner it acts for. Drop it before [`Self::close`].
    ///
    /// # Errors
    /// [`Failure::Unexpected`] if the database was not opened to wait for outcomes, or threads cannot be started.
    pub fn mcp(&self) -> Result<LocalMcp, Failure> {
        let courier = self.courier.clone().ok_or_else(|| {
            Failure::Unexpected("the database was opened for something else".to_owned())
        })?;
        LocalMcp::new(self.session.clone(), courier).map_err(Failure::Unexpected)
    }

    /// The secrets that sign the deliveries of the partner it acts for.
    ///
    /// # Errors
    /// `partner_required` if it acts for none.
    pub fn signing_secret(&self) -> Result<Secret, Failure> {
        let partner_id = self.session.partner_id()?;
        let service = &self.session.service;
        let secret = block_in_place(|| {
            let mut reader = service.reader()?;
            let now = service.clock().now();
            reader
                .secret(&partner_id, now)
                .map_err(|e| service.fault(&e))
        })?;
        secret.ok_or_else(|| Error::not_found("partner").into())
    }

    /// Calls an operation.
    ///
    /// # Errors
    /// Those of the core and of the courier; `server_running` for a test beside a server; [`Failure::Unexpected`] if our own
    /// answer cannot be read.
    pub async fn call<O: Operation>(&self, request: Request) -> Result<Answer<O::Output>, Failure> {
        let json = self.answer(operation::step::<O>, &request).await?;
        super::read::<O>(json)
            .map_err(|why| Failure::Unexpected(format!("our own answer cannot be read: {why}")))
    }

    /// Calls an operation whose answer is a file.
    ///
    /// # Errors
    /// Those of the core; [`Failure::Unexpected`] for an operation that does not only read.
    pub fn file<O: Operation>(&self, request: &Request) -> Result<Vec<u8>, Failure> {
        block_in_place(|| {
            let RequestStep::Read { read, .. } = operation::step::<O>(&self.session, request)?
            else {
                return Err(Failure::Unexpected("a file is only read".to_owned()));
            };
            let answer = read(&self.session)?.file;
            let file = answer.ok_or_else(|| Error::not_found("file"))?.file;
            let mut bytes = Vec::new();
            for number in 0..file.parts {
                bytes.extend(part_of(&self.session, &file, number)?);
            }
            Ok(bytes)
        })
    }

    /// Writes the archive of a booking's evidence.
    ///
    /// # Errors
    /// Those of the core and of `write`; [`Failure::Usage`] for a font that cannot be used; [`Failure::Unexpected`] for
    /// evidence that cannot be read.
    pub async fn archive(&self, request: Request, write: Sink<'_>) -> Result<(), Failure> {
        let booking_id = request.path.first().and_then(|id| BookingId::parse(id));
        let booking_id = booking_id.ok_or_else(|| Error::not_found("booking"))?;
        let maker = self.config.maker().map_err(Failure::Usage)?;
        let packet = self.call::<GetEvidence>(request).await?.json;
        let segments = block_in_place(|| {
            let vkey = self.service().head()?.vkey;
            let files = files_of_booking(&self.session, &booking_id)?;
            bookguard_render::archive(&packet, &vkey, &files, &maker).map_err(Failure::Unexpected)
        })?;
        for segment in segments {
            match segment {
                Segment::Bytes(bytes) => write(&bytes)?,
                Segment::File(file) => {
                    for number in 0..file.parts {
                        // Signals are looked at only while something waits.
                        yield_now().await;
                        write(&block_in_place(|| part_of(&self.session, &file, number))?)?;
                    }
                }
            }
        }
        Ok(())
    }

    async fn answer(&self, step: StepFn, request: &Request) -> Result<Vec<u8>, Failure> {
        // The store blocks, and may have its own runtime.
        match block_in_place(|| step(&self.session, request))? {
            RequestStep::Read { read, .. } => {
                let finished = block_in_place(|| read(&self.session))?;
                Ok(finished.body.into())
            }
            RequestStep::Watch(reading) => {
                let look = async || block_in_place(|| (reading.look)(&self.session));
                let finished = watch(self.service().news(), &reading, look).await?;
                Ok(finished.body.into())
            }
            RequestStep::Write(write) => self.write(write).await,
        }
    }

    async fn write(&self, write: WriteStep) -> Result<Vec<u8>, Failure> {
        let service = &self.session.service;
        for command in write.before {
            service.submit_patiently(command).await?;
        }
        let awaited = match (&self.courier, write.awaits) {
            (Some(courier), Some(awaits)) => {
                let served = self.has_server()?;
                may_send(&awaits, served)?;
                courier
                    .ready(awaits)?
                    .map(|awaited| (courier, awaited, served))
            }
            _ => None,
        };
        let finished = (write.submit)(Arc::clone(service), true).await?;
        let body = finished.body.into();
        match awaited.filter(|_| !finished.replayed) {
            Some((_, Awaited::Outcome(_), false)) => {
                say(UNSERVED);
                Ok(body)
            }
            Some((courier, awaited, _)) => {
                self.outcome(courier, awaited, write.remembered, body).await
            }
            None => Ok(body),
        }
    }

    /// Waits for the outcome of a manual retry or a test; if it stays unknown, returns `pending`.
    async fn outcome(
        &self,
        courier: &Courier,
        awaited: Awaited,
        key: Option<[u8; 32]>,
        pending: Vec<u8>,
    ) -> Result<Vec<u8>, Failure> {
        let patience = Duration::from_millis(RETRY_WAIT_MS);
        let look = async |event_id| {
            block_in_place(|| features::events::retry_outcome(&self.session, &event_id))
        };
        let Some(body) = courier.answer(awaited, patience, look).await? else {
            return Ok(pending);
        };
        if let Some(key) = key {
            let replacement = features::events::replace_answer(&self.session, key, &body);
            self.session.service.submit_patiently(replacement).await?;
        }
        Ok(body)
    }

    /// Waits for deliveries under way, and closes the database.
    pub async fn close(self) {
        if let Some(courier) = &self.courier {
            courier.stop(LAST_ATTEMPT).await;
        }
        let Self {
            session,
            closing,
            courier,
            ..
        } = self;
        drop((session, courier));
        block_in_place(|| closing.wait());
    }
}

/// Who works here, for this partner.
fn administrator(partner_id: Option<PartnerId>) -> Authority {
    Authority::Administrator {
        by: Operator::Here { user: user() },
        partner_id,
    }
}

/// The name of the user who runs this process, or the user's number if the machine's own list of users lacks it.
#[cfg(target_os = "linux")]
fn user() -> Option<String> {
    use std::os::unix::fs::MetadataExt as _;
    let uid = std::fs::metadata("/proc/self").ok()?.uid().to_string();
    let users = std::fs::read_to_string("/etc/passwd").unwrap_or_default();
    let mut users = users.lines().map(|line| line.split(':'));
    let named = users.find_map(|mut fields| {
        let (name, _, id) = (fields.next()?, fields.next()?, fields.next()?);
        (id == uid).then(|| name.to_owned())
    });
    Some(named.unwrap_or(uid))
}

#[cfg(not(target_os = "linux"))]
fn user() -> Option<String> {
    std::env::var("USER").ok()
}

/// A test shows the outcome of a delivery. Beside a server, the server's settings decide it, not those here.
fn may_send(awaits: &Awaits, served: bool) -> Result<(), Failure> {
    match awaits {
        Awaits::Outcome(..) => Ok(()),
        Awaits::Test(_) if served => Err(Error::conflict(
            "server_running",
            "A server runs on this database, and the server sends tests, with its settings. Repeat the command with --url and \
             a key of the partner.",
        )
        .into()),
        Awaits::Test(_) => {
            say("No server runs on this database: the test is sent from here, with the settings given here.");
            Ok(())
        }
    }
}
