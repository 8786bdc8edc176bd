//! Somebody who is signed in: calls operations with their authority.

use std::net::IpAddr;
use std::sync::Arc;

use bookguard_core::error::Error;
use bookguard_core::features::partners::account::GetPartnerAccount;
use bookguard_core::model::{Id, Noun, Page as Rows, PartnerAccount, PartnerId, Scope};
use bookguard_core::operation::{FileAnswer, Finished, Operation, Request, Route, StepFn, step};
use bookguard_core::session::{Access, Authority, Session};

use super::cookie::Cookie;
use super::{Asked, Console, Fields, Whose, operator};
use crate::api::call::{Caller, Calling, call};
use crate::api::download::Download;
use crate::app::RequestCost;
use crate::payer::Payer;

/// Somebody who is signed in, for one request.
pub(super) struct User {
    pub(super) console: Arc<Console>,
    pub(super) session: Session,
    /// The partner for which the operator acts.
    pub(super) acting: Option<PartnerAccount>,
    pub(super) cookie: Cookie,
    pub(super) cost: Arc<RequestCost>,
}

impl User {
    /// Who is signed in with this cookie.
    ///
    /// # Errors
    /// `unauthorized` if the session ended, `unavailable`.
    pub(super) async fn identify(
        console: Arc<Console>,
        cookie: Cookie,
        from: IpAddr,
    ) -> Result<Self, Error> {
        let app = &console.app;
        let authority = authority(&console, &cookie, Payer::at(Some(from))).await?;
        let cost = app.cost(Payer::of(&authority));
        let session = Session {
            service: Arc::clone(&app.service),
            authority,
            address: Some(from),
        };
        Ok(Self {
            session,
            acting: None,
            cookie,
            cost,
            console,
        })
    }

    /// Checks the session again, after work that may have taken long.
    ///
    /// # Errors
    /// `unauthorized` if the session ended meanwhile, `unavailable`.
    pub(super) async fn identify_again(&mut self) -> Result<(), Error> {
        let payer = Payer::of(&self.session.authority);
        self.session.authority = authority(&self.console, &self.cookie, payer).await?;
        Ok(())
    }

    /// The person's name, if a link named it.
    pub(super) fn person(&self) -> Option<&str> {
        self.session.signed_in()?.person.as_deref()
    }

    /// Whether this is the session with which somebody is signed in here.
    pub(super) fn is_signed_in_by(&self, console_session_id: &str) -> bool {
        let own = self.session.signed_in();
        own.is_some_and(|own| own.console_session_id.to_string() == console_session_id)
    }

    /// Whether the person's partner is suspended, so that they can only read.
    pub(super) fn is_suspended(&self) -> bool {
        self.session.require_standing().is_err()
    }

    /// Lets the operator act for a partner from here on.
    ///
    /// # Errors
    /// `not_found` if there is no such partner.
    pub(super) async fn act_for(&mut self, id: &str) -> Result<(), Error> {
        let named = PartnerId::parse(id).ok_or_else(|| Error::not_found("partner"))?;
        let account = self.read::<GetPartnerAccount>(&[id], &[]).await?;
        if let Authority::Administrator { partner_id, .. } = &mut self.session.authority {
            *partner_id = Some(named);
        }
        self.acting = Some(account);
        Ok(())
    }

    /// Reads the partner for which the operator acts anew: a form may have changed what the frame of its page shows. If it cannot be read, the
    /// frame shows it as it was, because the page may hold a secret that is shown only once.
    pub(super) async fn look_again(&mut self) {
        let Some(account) = &self.acting else { return };
        let id = account.partner.partner_id.to_string();
        let account = self.read::<GetPartnerAccount>(&[&id], &[]).await;
        if let Ok(account) = account {
            self.acting = Some(account);
        }
    }

    /// Chooses the words of a page about a partner: for its own people, or for the operator who acts for it.
    pub(super) fn told<'t>(&self, partners: &'t str, operators: &'t str) -> &'t str {
        match self.acting {
            None => partners,
            Some(_) => operators,
        }
    }

    /// Whether the session has this scope.
    pub(super) fn has(&self, scope: Scope) -> bool {
        self.session.require(Access::Scope(scope)).is_ok()
    }

    /// Whether the session may use this scope now: somebody whose partner is suspended only reads.
    pub(super) fn may(&self, scope: Scope) -> bool {
        self.has(scope) && (scope.word().ends_with(":read") || !self.is_suspended())
    }

    /// The address of a page of the console, or of the pages about the partner for which the operator acts.
    pub(super) fn link(&self, address: &str) -> String {
        match &self.acting {
            Some(account) => {
                let of = operator::about(&account.partner.partner_id);
                self.console.link(&format!("{of}{address}"))
            }
            None => self.console.link(address),
        }
    }

    /// The address of the interface's documentation, if it is served beside the console.
    pub(super) fn docs(&self) -> Option<String> {
        let is_served = self.console.whose == Whose::Partners;
        is_served.then(|| format!("{}/docs", self.console.base))
    }

    /// Performs an operation that takes no body.
    pub(super) fn read<'a, O: Operation>(
        &'a self,
        path: &[&str],
        query: &[(&str, &str)],
    ) -> impl Future<Output = Result<O::Output, Error>> + use<'a, O> {
        self.perform::<O>(asking(path, query))
    }

    /// The row with this id of a list that has the newest ids first: no operation answers it alone. `None` if the session may not
    /// read the list.
    ///
    /// # Errors
    /// `not_found`, and those of the list.
    pub(super) async fn row<O, T, N>(
        &self,
        path: &[&str],
        id: &str,
        id_of: fn(&T) -> Id<N>,
    ) -> Result<Option<T>, Error>
    where
        O: Operation<Output = Rows<T>>,
        N: Noun,
    {
        let missing = || Error::not_found(N::NAME);
        let id = Id::<N>::parse(id).ok_or_else(missing)?;
        if self.session.require(O::ROUTE.access).is_err() {
            return Ok(None);
        }
        // A page begins with the newest id below its cursor.
        let cursor = id.successor().to_string();
        let query = [("limit", "1"), ("cursor", cursor.as_str())];
        let found = self.read::<O>(path, &query).await?;
        let row = found.data.into_iter().find(|row| id_of(row) == id);
        row.map(Some).ok_or_else(missing)
    }

    /// Performs an operation whose answer is a file.
    pub(super) async fn file<O: Operation>(&self, path: &[&str]) -> Result<FileAnswer, Error> {
        let answer = self.answer::<O>(asking(path, &[])).await?;
        let file = answer.file;
        file.ok_or_else(|| Error::internal(format!("an answer of {} is no file", O::ROUTE.id)))
    }

    /// What sends files to whoever is signed in.
    pub(super) fn download(&self) -> Download {
        Download {
            app: Arc::clone(&self.console.app),
            session: self.session.clone(),
            cost: Arc::clone(&self.cost),
        }
    }

    /// Performs an operation with what was typed into a form.
    pub(super) fn send<'a, O: Operation>(
        &'a self,
        asked: &Asked,
    ) -> impl Future<Output = Result<O::Output, Error>> + use<'a, O> {
        self.perform::<O>(self.typed(&O::ROUTE, asked))
    }

    /// Like [`Self::send`], for a page whose path does not name the operation's one parameter.
    pub(super) fn send_to<'a, O: Operation>(
        &'a self,
        id: String,
        asked: &Asked,
    ) -> impl Future<Output = Result<O::Output, Error>> + use<'a, O> {
        self.perform::<O>(Request {
            path: vec![id],
            ..self.typed(&O::ROUTE, asked)
        })
    }

    /// Like [`Self::send`], if no page shows the answer.
    pub(super) fn submit<'a, O: Operation>(
        &'a self,
        asked: &Asked,
    ) -> impl Future<Output = Result<(), Error>> + use<'a, O> {
        done(self.answer::<O>(self.typed(&O::ROUTE, asked)))
    }

    /// A request with what was typed into a form. A parameter is the partner for which the operator acts, or the next one in the page's
    /// path.
    fn typed(&self, route: &Route, asked: &Asked) -> Request {
        let acting = self.acting.as_ref();
        let partner = acting.map(|account| account.partner.partner_id.to_string());
        let mut path = asked.path.iter().cloned();
        let parameters = route.parameters().filter_map(|name| match name {
            "partnerId" => partner.clone(),
            _ => path.next(),
        });
        Request {
            path: parameters.collect(),
            body: asked.fields.body(route.body),
            idempotency_key: asked.fields.get(Fields::ONCE).map(str::to_owned),
            ..Request::default()
        }
    }

    pub(super) fn perform<'a, O: Operation>(
        &'a self,
        request: Request,
    ) -> impl Future<Output = Result<O::Output, Error>> + use<'a, O> {
        let answer = self.answer::<O>(request);
        async move { output::<O>(&answer.await?) }
    }

    /// The answer of an operation. The common part is not generic, so that it is not compiled for each of sixty operations.
    fn answer<O: Operation>(&self, request: Request) -> Calling<'_> {
        self.answer_of(O::ROUTE.id, step::<O>, request)
    }

    fn answer_of(&self, id: &'static str, step: StepFn, request: Request) -> Calling<'_> {
        let caller = Caller {
            app: &self.console.app,
            session: self.session.clone(),
            cost: &self.cost,
            headers: None,
        };
        call(caller, id, step, request)
    }
}

async fn done(answer: Calling<'_>) -> Result<(), Error> {
    answer.await.map(drop)
}

/// The output of an operation, read from its answer.
pub(super) fn output<O: Operation>(answer: &Finished) -> Result<O::Output, Error> {
    serde_json::from_slice(&answer.body).map_err(|e| unreadable(O::ROUTE.id, &e))
}

fn unreadable(id: &str, error: &serde_json::Error) -> Error {
    Error::internal(format!("an answer of {id} cannot be read: {error}"))
}

/// A request without a body.
fn asking(path: &[&str], query: &[(&str, &str)]) -> Request {
    let pairs = query.iter().filter(|(_, value)| !value.is_empty());
    Request {
        path: path.iter().map(|text| (*text).to_owned()).collect(),
        query: pairs
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
            .collect(),
        ..Request::default()
    }
}

async fn authority(console: &Console, cookie: &Cookie, payer: Payer) -> Result<Authority, Error> {
    let app = &console.app;
    match console.whose {
        Whose::Partners => app.identify_session(&cookie.token, payer).await,
        Whose::Operator => app.identify_operator_session(&cookie.token, payer).await,
    }
}
