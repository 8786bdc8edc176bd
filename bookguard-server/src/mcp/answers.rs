//! Implements the server side for the protocol's crate: server information, tools, resources.
//!
//! All partner data comes from [`Tools::call`]. Invariant: a refusal has the same words as over HTTP, except for where an
//! argument stands.

use std::borrow::Cow;
use std::sync::Arc;

use bookguard_core::version::VERSION;
use poem::http::StatusCode;
use poem::http::request::Parts;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, CompleteRequestParams, CompleteResult,
    ContentBlock, CustomRequest, CustomResult, ErrorCode, GetPromptRequestParams,
    GetPromptResponse, Implementation, ListPromptsResult, ListResourceTemplatesResult,
    ListResourcesResult, ListToolsResult, PaginatedRequestParams, ProtocolVersion,
    ReadResourceRequestParams, ReadResourceResponse, ReadResourceResult, Resource,
    ResourceContents, ResourceTemplate, ServerCapabilities, ServerConfig,
};
use rmcp::service::RequestContext;
use rmcp::{ErrorData, RoleServer, ServerHandler};
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Value, json};

use super::call::{ToolRefusal, Tools};
use super::endpoint::{Arguments, Written, code_of};
use super::{NAME, PROTOCOL_VERSIONS, TITLE};
use crate::media;

/// The URI of a booking's evidence packet as a resource: the parts before and after the booking id.
const EVIDENCE: (&str, &str) = ("bookguard://bookings/", "/evidence");
const INSTRUCTIONS: &str = "Bookguard records bookings between a talent and an organizer, freezes their cancellation policy, and keeps \
    tamper-evident evidence of what happened. A booking goes create_booking, protect_booking; before a cancellation ask evaluate_policy, \
    show what it comes to, then cancel_booking with `expected`; get_evidence and verify_evidence settle disputes. Amounts are decimal \
    numbers in the booking's currency, or minor units where the name says so; times are RFC 3339. A refusal is an answer with isError: \
    its `code` says which, `message` and `details` say what to change. Repeat a call that writes only with the same idempotencyKey, and \
    with the same arguments in the same order and spelling, byte for byte: any other spelling is refused as another call.";
/// The supported methods, and what each takes. The crate passes a request for one of these to [`Answers::on_custom_request`]
/// only if it could not parse its parameters.
const METHODS: [(&str, &str); 8] = [
    (
        "initialize",
        "protocolVersion (a string), capabilities (an object) and clientInfo (an object with name and version)",
    ),
    ("server/discover", "_meta, as revision 2026-07-28 says"),
    ("ping", "nothing"),
    ("tools/list", "cursor (a string), or nothing"),
    (
        "tools/call",
        "name (a string), and arguments (an object) if the tool needs any",
    ),
    ("resources/list", "cursor (a string), or nothing"),
    ("resources/read", "uri (a string)"),
    ("resources/templates/list", "cursor (a string), or nothing"),
];

type Context = RequestContext<RoleServer>;
type PageAsked = Option<PaginatedRequestParams>;
type Answered<T> = Result<T, ErrorData>;

/// The server for one request.
pub(super) struct Answers {
    tools: Arc<Tools>,
}

impl Answers {
    /// Creates a server over these tools.
    pub(super) fn new(tools: Arc<Tools>) -> Self {
        Self { tools }
    }

    /// Calls a tool for the caller of this request.
    async fn call(
        &self,
        name: &str,
        arguments: Option<Value>,
        context: &Context,
    ) -> Option<Result<String, ToolRefusal>> {
        let (parts, sent) = sent(context)?;
        let arguments = match arguments {
            Some(own) => Arc::from(own.to_string()),
            None => Arc::clone(&sent.text),
        };
        let called = self
            .tools
            .call(name, &arguments, &parts.headers, &sent.cost);
        called.await
    }

    /// Calls a tool, and puts into the result what `members` makes of its output. `None` if there is no such tool.
    async fn answer(
        &self,
        name: &str,
        arguments: Option<Value>,
        context: &Context,
        members: impl FnOnce(String) -> serde_json::Result<Written> + Send + 'static,
    ) -> Option<Result<(), ToolRefusal>> {
        let called = self.call(name, arguments, context).await?;
        let (_, sent) = sent(context)?;
        let written = match called {
            Ok(output) => self.tools.write(output, members, &sent.cost).await,
            Err(refused) => Err(refused),
        };
        Some(written.map(|written| sent.answer_with(written)))
    }
}

impl ServerHandler for Answers {
    fn get_info(&self) -> ServerConfig {
        let capabilities = ServerCapabilities::builder()
            .enable_tools()
            .enable_resources()
            .build();
        ServerConfig::new(capabilities)
            .with_server_info(Implementation::new(NAME, VERSION).with_title(TITLE))
            .with_instructions(INSTRUCTIONS)
    }

    fn supported_protocol_versions(&self) -> Cow<'static, [ProtocolVersion]> {
        let known = ProtocolVersion::KNOWN_VERSIONS;
        Cow::Borrowed(&known[known.len() - PROTOCOL_VERSIONS.len()..])
    }

    async fn list_tools(&self, _: PageAsked, context: Context) -> Answered<ListToolsResult> {
        if let Some((_, sent)) = sent(&context) {
            sent.answer_with(vec![("tools", self.tools.definitions())]);
        }
        Ok(ListToolsResult::default())
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: Context,
    ) -> Answered<CallToolResponse> {
        let members = |body: String| {
            let content = to_raw_value(&[ContentBlock::text(&*body)])?;
            let structured = RawValue::from_string(body)?;
            Ok(vec![
                ("content", content),
                ("structuredContent", structured),
            ])
        };
        let answered = self.answer(&request.name, None, &context, members).await;
        let result = match answered {
            Some(Ok(())) => CallToolResult::success(vec![]),
            // No structured content: it would have to match the tool's output schema.
            Some(Err(refused)) => CallToolResult::error(vec![ContentBlock::text(refused.body)]),
            None => {
                let message = "There is no such tool. tools/list names them.";
                return Err(ErrorData::invalid_params(message, None));
            }
        };
        Ok(result.into())
    }

    async fn list_resources(
        &self,
        request: PageAsked,
        context: Context,
    ) -> Answered<ListResourcesResult> {
        let mut arguments = json!({});
        if let Some(cursor) = request.and_then(|request| request.cursor) {
            arguments["cursor"] = cursor.into();
        }
        match self.call("list_bookings", Some(arguments), &context).await {
            Some(Ok(page)) => Ok(resources(&page)),
            Some(Err(refused)) if refused.status == StatusCode::BAD_REQUEST => {
                let fault = error(&refused);
                Err(ErrorData::invalid_params(fault.message, fault.data))
            }
            Some(Err(refused)) if refused.status != StatusCode::UNAUTHORIZED => {
                Err(error(&refused))
            }
            // A caller without a key may list resources, and has none.
            Some(Err(_)) | None => Ok(ListResourcesResult::default()),
        }
    }

    async fn list_resource_templates(
        &self,
        _: PageAsked,
        _: Context,
    ) -> Answered<ListResourceTemplatesResult> {
        let (head, tail) = EVIDENCE;
        let template = ResourceTemplate::new(format!("{head}{{bookingId}}{tail}"), "evidence")
            .with_title("Evidence of a booking")
            .with_description(
                "The signed evidence packet of a booking, as get_evidence returns it: everything recorded about it so far, \
                 with proofs that anybody can check offline.",
            )
            .with_mime_type(media::JSON);
        Ok(ListResourceTemplatesResult::with_all_items(vec![template]))
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        context: Context,
    ) -> Answered<ReadResourceResponse> {
        let (head, tail) = EVIDENCE;
        let rest = request.uri.strip_prefix(head);
        // A URI without a booking id is looked up all the same, so that it is as unknown as others and counts as much.
        let booking_id = rest
            .and_then(|rest| rest.strip_suffix(tail))
            .unwrap_or_default();
        let arguments = json!({ "bookingId": booking_id });
        let members = |packet: String| {
            let contents = ResourceContents::text(packet, request.uri);
            let contents = contents.with_mime_type(media::JSON);
            Ok(vec![("contents", to_raw_value(&[contents])?)])
        };
        let answered = self.answer("get_evidence", Some(arguments), &context, members);
        match answered.await {
            Some(Ok(())) => Ok(ReadResourceResult::new(vec![]).into()),
            Some(Err(refused)) if refused.status != StatusCode::NOT_FOUND => Err(error(&refused)),
            // The answers for unknown resources and for another partner's must be identical, so they repeat nothing of the request.
            Some(Err(_)) | None => Err(ErrorData::resource_not_found(
                "There is no such resource.",
                None,
            )),
        }
    }

    async fn list_prompts(&self, _: PageAsked, _: Context) -> Answered<ListPromptsResult> {
        Err(no_such_method())
    }

    async fn get_prompt(
        &self,
        _: GetPromptRequestParams,
        _: Context,
    ) -> Answered<GetPromptResponse> {
        Err(no_such_method())
    }

    async fn complete(&self, _: CompleteRequestParams, _: Context) -> Answered<CompleteResult> {
        Err(no_such_method())
    }

    async fn on_custom_request(
        &self,
        request: CustomRequest,
        _: Context,
    ) -> Answered<CustomResult> {
        let known = METHODS.iter().find(|(method, _)| *method == request.method);
        let (method, takes) = known.ok_or_else(no_such_method)?;
        let message = format!("The parameters do not fit: {method} takes {takes}.");
        Err(ErrorData::invalid_params(message, None))
    }
}

fn no_such_method() -> ErrorData {
    let message = "This server does not have that method.";
    ErrorData::new(ErrorCode::METHOD_NOT_FOUND, message, None)
}

/// The parts and arguments that the endpoint attaches to every request.
fn sent(context: &Context) -> Option<(&Parts, &Arguments)> {
    let parts = context.extensions.get::<Parts>()?;
    Some((parts, parts.extensions.get::<Arguments>()?))
}

/// Converts a page of bookings to the resources they have.
fn resources(page: &str) -> ListResourcesResult {
    let page: Value = serde_json::from_str(page).unwrap_or_default();
    let bookings = page["data"].as_array().into_iter().flatten();
    let (head, tail) = EVIDENCE;
    let resource = |booking: &Value| {
        let text = |pointer: &str| booking.pointer(pointer)?.as_str();
        let booking_id = text("/bookingId")?;
        let [kind, talent, date] =
            ["/eventType", "/talent/name", "/eventDate"].map(|name| text(name).unwrap_or_default());
        let resource = Resource::new(format!("{head}{booking_id}{tail}"), booking_id)
            .with_title(format!("Evidence: {kind} with {talent}, {date}"))
            .with_mime_type(media::JSON);
        Some(resource)
    };
    let mut list = ListResourcesResult::with_all_items(bookings.filter_map(resource).collect());
    list.next_cursor = page["nextCursor"].as_str().map(str::to_owned);
    list
}

/// Converts a refusal to a protocol error, for methods that cannot return a tool result: its message, with the whole body as
/// data.
fn error(refused: &ToolRefusal) -> ErrorData {
    let body: Value = serde_json::from_str(&refused.body).unwrap_or_default();
    let message = body["message"].as_str().unwrap_or("Refused.").to_owned();
    ErrorData::new(code_of(refused.status), message, Some(body))
}
