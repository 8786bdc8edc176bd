//! One partner's account, as the operator handles it: reads it, corrects it, suspends and reinstates it.

mod rule;

use super::contact::{email, website};
use super::read_account;
use crate::error::Error;
use crate::input::{self, Declaration, Form};
use crate::limits;
use crate::model::{PartnerAccount, PartnerId};
use crate::operation::{Action, Body, Operation, Request, Route, path_id, write};
use crate::session::{Access, Session};

/// `bookguard partners get`
pub struct GetPartnerAccount;

impl Operation for GetPartnerAccount {
    const ROUTE: Route = Route {
        id: "getPartnerAccount",
        path: "/v1/partners/{partnerId}",
        access: Access::Administrator,
        refusals: &[404],
        tag: "Partners",
        summary: "One partner",
        description: "For the operator.",
        ..Route::GET
    };
    type Output = PartnerAccount;

    fn prepare(_: &Session, request: &Request) -> Result<Action<PartnerAccount>, Error> {
        Ok(read_account::<Self>(path_id(request, 0)?))
    }
}

/// `bookguard partners edit`
#[derive(Debug)]
pub struct EditPartner {
    pub(crate) partner_id: PartnerId,
    pub(crate) edit: PartnerEdit,
}

/// Body of [`EditPartner`]: absent members stay as they are.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PartnerEdit {
    pub(crate) name: Option<String>,
    pub(crate) contact_email: Option<String>,
    /// `Some(None)` removes it.
    pub(crate) website: Option<Option<String>>,
}

impl Operation for EditPartner {
    const ROUTE: Route = Route {
        id: "editPartner",
        path: "/v1/partners/{partnerId}",
        access: Access::Administrator,
        body: Body::Required(&PARTNER_EDIT),
        refusals: &[404, 409],
        tag: "Partners",
        summary: "Correct a partner's name and contact",
        description: "For the operator. A field that is left out stays as it is.",
        ..Route::PATCH
    };
    type Output = PartnerAccount;

    fn prepare(session: &Session, request: &Request) -> Result<Action<PartnerAccount>, Error> {
        let partner_id = path_id(request, 0)?;
        let edit = input::read(&request.body, PartnerEdit::form)?;
        let at = session.service.clock().now();
        Ok(write(at, Self { partner_id, edit }))
    }
}

const PARTNER_EDIT: Declaration = Declaration {
    name: "PartnerEdit",
    about: "Corrections of a partner's record; what is left out stays.",
    example: r#"{"contactEmail": "desk@stagehand.example", "website": null}"#,
    reader: |v| v.object(PartnerEdit::form).map(drop),
};

impl PartnerEdit {
    fn form(form: &mut Form<'_, '_>) -> Option<Self> {
        let name = form
            .about("Company or platform name.")
            .optional("name", |v| v.text(limits::NAME_CHARS));
        let contact_email = form
            .about("Primary contact, an email address.")
            .optional("contactEmail", email);
        let website = form
            .about("The partner's site, an http or https address; null removes.")
            .nullable("website", website);
        Some(Self {
            name,
            contact_email,
            website,
        })
    }
}

/// `bookguard partners suspend`
#[derive(Debug)]
pub struct SuspendPartner {
    pub(crate) partner_id: PartnerId,
}

impl Operation for SuspendPartner {
    const ROUTE: Route = Route {
        id: "suspendPartner",
        path: "/v1/partners/{partnerId}/suspend",
        access: Access::Administrator,
        refusals: &[404, 409],
        tag: "Partners",
        summary: "Suspend a partner",
        description: "For the operator. Within five seconds on every node, the partner's keys can only read: everything else is refused \
                      with `partner_suspended`. Its bookings, evidence and links stay, and its webhooks go on.",
        ..Route::POST
    };
    type Output = PartnerAccount;

    fn prepare(session: &Session, request: &Request) -> Result<Action<PartnerAccount>, Error> {
        let partner_id = path_id(request, 0)?;
        Ok(write(session.service.clock().now(), Self { partner_id }))
    }
}

/// `bookguard partners reinstate`
#[derive(Debug)]
pub struct ReinstatePartner {
    pub(crate) partner_id: PartnerId,
}

impl Operation for ReinstatePartner {
    const ROUTE: Route = Route {
        id: "reinstatePartner",
        path: "/v1/partners/{partnerId}/reinstate",
        access: Access::Administrator,
        refusals: &[404, 409],
        tag: "Partners",
        summary: "Reinstate a suspended partner",
        description: "For the operator. Its keys work again within five seconds on every node. Those that were revoked stay revoked, as all are \
                      once its contract has ended. Its contract goes on, unless its record is erased already (`partner_ended`).",
        ..Route::POST
    };
    type Output = PartnerAccount;

    fn prepare(session: &Session, request: &Request) -> Result<Action<PartnerAccount>, Error> {
        let partner_id = path_id(request, 0)?;
        Ok(write(session.service.clock().now(), Self { partner_id }))
    }
}
