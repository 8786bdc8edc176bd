//! An operation's place in the HTTP interface.

use super::parameters::QueryParam;
use crate::input::Declaration;
use crate::session::Access;

/// The HTTP methods in use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Method {
    /// Reads.
    Get,
    /// Writes.
    Post,
    /// Replaces what the address names. Repeating it changes nothing.
    Put,
    /// Changes part of what the address names. Repeating it changes nothing.
    Patch,
    /// Ends what the address names.
    Delete,
}

impl Method {
    /// Every method.
    pub const ALL: [Self; 5] = [Self::Get, Self::Post, Self::Put, Self::Patch, Self::Delete];

    /// The method's name in HTTP (RFC 9110 section 9, RFC 5789).
    pub fn word(self) -> &'static str {
        match self {
            Self::Get => "GET",
            Self::Post => "POST",
            Self::Put => "PUT",
            Self::Patch => "PATCH",
            Self::Delete => "DELETE",
        }
    }
}

/// Whether a route takes a body, and which.
#[derive(Debug, Clone, Copy)]
pub enum Body {
    /// No body. One that is sent is refused unless it is empty or an empty object.
    None,
    /// The body may be left out.
    Optional(&'static Declaration),
    /// The body is required.
    Required(&'static Declaration),
    /// The body is a file's bytes, which are required. They are in [`super::Request::file`].
    File,
}

impl Body {
    /// The declaration of the body, if the route takes one.
    pub fn declaration(self) -> Option<&'static Declaration> {
        match self {
            Self::None | Self::File => None,
            Self::Optional(body) | Self::Required(body) => Some(body),
        }
    }
}

/// The place of an operation in the HTTP interface.
#[derive(Debug, Clone, Copy)]
pub struct Route {
    /// The operation's name in the interface document.
    pub id: &'static str,
    /// The HTTP method.
    pub method: Method,
    /// The path, with its parameters in braces.
    pub path: &'static str,
    /// Who may use it.
    pub access: Access,
    /// Whether every caller's call is audited. Writes of the administrator and of people in the console always are.
    pub audited: bool,
    /// Whether a suspended partner may call it, although it is not a GET.
    pub while_suspended: bool,
    /// The status of success.
    pub status: u16,
    /// Whether it takes a body, and which.
    pub body: Body,
    /// The query parameters.
    pub query: &'static [QueryParam],
    /// Names of parameters that a caller may expect here, and the path of the operation that takes them.
    pub elsewhere: &'static [(&'static str, &'static str)],
    /// The statuses of its refusals, except those that every route has.
    pub refusals: &'static [u16],
    /// The group in the interface document.
    pub tag: &'static str,
    /// A summary of one line.
    pub summary: &'static str,
    /// The description for a partner's developers.
    pub description: &'static str,
}

impl Route {
    /// What most routes with this method have in common; each says the rest.
    pub const GET: Self = Self::with(Method::Get);
    /// See [`Self::GET`].
    pub const POST: Self = Self::with(Method::Post);
    /// See [`Self::GET`].
    pub const PUT: Self = Self::with(Method::Put);
    /// See [`Self::GET`].
    pub const PATCH: Self = Self::with(Method::Patch);
    /// See [`Self::GET`].
    pub const DELETE: Self = Self::with(Method::Delete);

    /// Answers 200, takes no body and no query, refuses only what every route refuses, and is for the administrator alone.
    const fn with(method: Method) -> Self {
        Self {
            id: "",
            method,
            path: "",
            access: Access::Administrator,
            audited: false,
            while_suspended: false,
            status: 200,
            body: Body::None,
            query: &[],
            elsewhere: &[],
            refusals: &[],
            tag: "",
            summary: "",
            description: "",
        }
    }

    /// The names of the path's parameters, in order.
    pub fn parameters(&self) -> impl Iterator<Item = &'static str> + use<> {
        let segments = self.path.split('/');
        segments.filter_map(|segment| segment.strip_prefix('{')?.strip_suffix('}'))
    }
}
