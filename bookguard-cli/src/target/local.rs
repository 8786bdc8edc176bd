//! Operations on a database file, as its administrator, in this process.
//!
//! The service's own writer does the writing, under the database's write turn, so a server may run on the same file
//! meanwhile. What has to be delivered is left to that server, or to the next one; a manual retry is attempted from here,
//! because its caller waits for the outcome, and so is all that `mcp` does, which stays as long as a server might.

use std::sync::Arc;
use std::time::Duration;

use bookguard_core::command::Answer as Written;
use bookguard_core::error::Error;
use bookguard_core::limits::RETRY_WAIT_MS;
use bookguard_core::model::PartnerId;
use bookguard_core::ops::{self, Action, Operation, Request, Writing};
use bookguard_core::outbox::Outbox;
use bookguard_core::service::{self, Closing, Registration, Service};
use bookguard_core::session::{Authority, Session};
use bookguard_core::webhook::Secret;
use bookguard_server::config::Config;
use bookguard_server::courier::{self, Awaited, Courier, endpoint_rule};
use bookguard_server::mcp::desk::Desk;
use bookguard_server::watch::watch;
use tokio::task::block_in_place;

use super::{Answer, Purpose};
use crate::failure::Failure;
use crate::output::say;

/// How long an attempt that is still running may hold up the end of the command, once its caller has an answer.
const LAST_ATTEMPT: Duration = Duration::from_secs(15);

/// A database file that is worked on.
pub struct Local {
    session: Session,
    closing: Closing,
    courier: Option<Arc<Courier>>,
    retention_days: u32,
    report: fn(&str),
}

impl Local {
    /// Opens the database of `config`, acting for `partner_id` where one is needed.
    ///
    /// Errors: [`Failure::Unexpected`] with what is wrong with the database or its key.
    pub fn open(
        config: Config,
        partner_id: Option<PartnerId>,
        purpose: Purpose,
    ) -> Result<Self, Failure> {
        let (outbox, parcels) = Outbox::new();
        let outbox = Arc::new(outbox);
        let rules = config.webhooks.clone();
        let (retention_days, report) = (config.retention_days, config.report);
        let proxy = config.webhook_proxy;
        let opening = service::Config {
            create: purpose == Purpose::Begin,
            outbox: (purpose == Purpose::Retry).then(|| Arc::clone(&outbox)),
            endpoint_rule: endpoint_rule(rules.clone()),
            public_url: config
                .public_url
                .unwrap_or_else(|| format!("http://{}", config.listen)),
            // Whoever holds the database decides who registers.
            registration: match config.registration {
                Registration::Closed => Registration::Open,
                mode => mode,
            },
            db: config.db,
            ledger_key: config.ledger_key,
            guard_file: config.guard_file,
            library_policies: config.library_policies,
            clock: config.clock,
            report: config.report,
            commit_delay: config.commit_delay,
        };
        let (service, closing) = block_in_place(|| Service::open(opening))?;
        if let Some(begun) = service.begun() {
            say(begun);
        }
        let courier = match purpose {
            Purpose::Retry => {
                // Only what this command leases: what else is due belongs to a server.
                let settings = courier::Settings {
                    claims: false,
                    proxy,
                    ..courier::Settings::new(rules, config.report)
                };
                let courier = Courier::start(Arc::clone(&service), outbox, parcels, settings)
                    .map_err(|e| Failure::Unexpected(e.to_string()))?;
                Some(Arc::new(courier))
            }
            Purpose::Begin | Purpose::Work => None,
        };
        let session = Session {
            service,
            authority: Authority::Administrator { partner_id },
        };
        Ok(Self {
            session,
            closing,
            courier,
            retention_days,
            report,
        })
    }

    /// The service.
    pub fn service(&self) -> &Service {
        &self.session.service
    }

    /// For how many days events are kept whole; `None` is for ever.
    pub fn retention_days(&self) -> Option<u32> {
        (self.retention_days > 0).then_some(self.retention_days)
    }

    /// The Model Context Protocol, on this database and for the partner it acts for. Give it back before [`Self::close`].
    ///
    /// Errors: [`Failure::Unexpected`] when it was not opened to deliver from here, or there are no threads to be had.
    pub fn desk(&self) -> Result<Desk, Failure> {
        let courier = self.courier.clone().ok_or_else(|| {
            Failure::Unexpected("the database was opened for something else".to_owned())
        })?;
        Desk::new(self.session.clone(), courier, self.report).map_err(Failure::Unexpected)
    }

    /// What the deliveries of the partner it acts for are signed with.
    ///
    /// Errors: [`Failure::Usage`] when it acts for none.
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
    pub async fn call<O: Operation>(&self, request: Request) -> Result<Answer<O::Output>, Failure> {
        // The store blocks, and may have a runtime of its own.
        let json = match block_in_place(|| ops::prepare::<O>(&self.session, &request))? {
            Action::Read(run) | Action::Long(run) => {
                ops::to_json(&block_in_place(|| run(&self.session))?)
            }
            // Only whoever has kept an answer is told so.
            Action::Unchanged(_) => Vec::new(),
            Action::Watch(reading) => {
                let look = async || block_in_place(|| (reading.look)(&self.session));
                ops::to_json(&watch(&self.session, &reading, look).await?)
            }
            Action::Write(writing) => self.write::<O>(*writing).await?,
        };
        super::read::<O>(json).map_err(|why| {
            Failure::Unexpected(format!("an answer of our own cannot be read: {why}"))
        })
    }

    async fn write<O: Operation>(&self, writing: Writing) -> Result<Vec<u8>, Failure> {
        let Writing { command, awaits } = writing;
        let key = command.remember.as_ref().map(|remember| remember.key);
        let awaited = match (&self.courier, awaits) {
            (Some(courier), Some(awaits)) => Some((courier, courier.ready(awaits)?)),
            _ => None,
        };
        let written = self.session.service.submit_patiently(command).await?;
        let fresh = matches!(written, Written::Fresh(_));
        let body = ops::finish_write::<O>(written)?.body;
        match awaited {
            Some((courier, awaited)) if fresh => self.answer(courier, awaited, key, body).await,
            _ => Ok(body),
        }
    }

    /// What a manual retry or a test came to; the answer before it is known, if it stays unknown.
    async fn answer(
        &self,
        courier: &Courier,
        awaited: Awaited,
        key: Option<[u8; 32]>,
        pending: Vec<u8>,
    ) -> Result<Vec<u8>, Failure> {
        let patience = Duration::from_millis(RETRY_WAIT_MS);
        let Some(body) = courier.answer(awaited, patience).await? else {
            return Ok(pending);
        };
        if let Some(key) = key {
            let amend = ops::events::amend(&self.session, key, &body);
            self.session.service.submit_patiently(amend).await?;
        }
        Ok(body)
    }

    /// Lets what is being delivered end, and closes the database.
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
