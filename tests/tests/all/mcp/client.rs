//! A client over HTTP or through the bridge, which checks every call against the tool's announced schemas.

use std::collections::BTreeMap;

use bookguard_tests::caller::{Caller, Reply};
use bookguard_tests::json::Members as _;
use bookguard_tests::program::{CommandLine, Ran, Talking};
use boon::{Compiler, SchemaIndex, Schemas};
use serde_json::{Value, json};

pub const LATEST_WITH_HANDSHAKE: &str = "2025-11-25";

/// A client that has completed the handshake and read the list of tools.
pub struct Client {
    way: Way,
    id: u64,
    /// The tools as listed.
    pub tools: Vec<Value>,
    schemas: Schemas,
    compiled: BTreeMap<String, (SchemaIndex, SchemaIndex)>,
}

enum Way {
    Http(Caller),
    Bridge(Box<Talking>),
}

/// A tool's answer.
#[derive(Debug)]
pub struct Called {
    pub refused: bool,
    pub text: String,
    pub structured: Value,
}

impl Called {
    /// Returns the answer; panics if it is a refusal.
    pub fn ok(self) -> Value {
        assert!(!self.refused, "{}", self.text);
        let text: Value = serde_json::from_str(&self.text).unwrap();
        assert_eq!(text, self.structured, "text and structure say the same");
        self.structured
    }

    /// Returns the body of a refusal, as over HTTP.
    pub fn refusal(&self) -> Value {
        assert!(self.refused, "{}", self.text);
        assert_eq!(self.structured, Value::Null);
        serde_json::from_str(&self.text).unwrap()
    }

    /// Returns the code of a refusal.
    pub fn code(&self) -> String {
        let refusal = self.refusal();
        refusal.text("code").to_owned()
    }
}

/// Posts a message of the protocol over HTTP.
pub async fn post(caller: &Caller, message: impl Into<reqwest::Body>) -> Reply {
    caller.post_text("/mcp", message).await
}

pub fn request(id: u64, method: &str, params: Value) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params})
}

impl Client {
    pub async fn over_http(caller: &Caller) -> Self {
        Self::begin(Way::Http(caller.clone())).await
    }

    pub async fn over_bridge(line: CommandLine) -> Self {
        Self::begin(Way::Bridge(Box::new(line.talk()))).await
    }

    async fn begin(way: Way) -> Self {
        let mut client = Self {
            way,
            id: 0,
            tools: Vec::new(),
            schemas: Schemas::new(),
            compiled: BTreeMap::new(),
        };
        let hello = json!({
            "protocolVersion": LATEST_WITH_HANDSHAKE, "capabilities": {},
            "clientInfo": {"name": "test", "version": "1"}
        });
        let server = client.ask("initialize", hello).await["result"].clone();
        assert_eq!(server["protocolVersion"], LATEST_WITH_HANDSHAKE);
        assert_eq!(server["serverInfo"]["name"], "bookguard");
        client.notify("notifications/initialized").await;
        let listed = client.ask("tools/list", json!({})).await;
        client.tools = listed["result"].list("tools").clone();
        client
    }

    /// The schemas of a tool's arguments and answer, compiled on first use: many clients call few tools.
    pub fn schemas_of(&mut self, name: &str) -> (SchemaIndex, SchemaIndex) {
        if let Some(pair) = self.compiled.get(name) {
            return *pair;
        }
        let tool = self.tools.iter().find(|tool| tool["name"] == name);
        let tool = tool.unwrap_or_else(|| panic!("there is no tool {name}"));
        let mut compile = |which: &str| {
            let mut compiler = Compiler::new();
            let address = format!("http://test/{name}/{which}");
            let added = compiler.add_resource(&address, tool[which].clone());
            added.unwrap();
            let compiled = compiler.compile(&address, &mut self.schemas);
            compiled.unwrap_or_else(|e| panic!("{name} {which}: {e:#}"))
        };
        let pair = (compile("inputSchema"), compile("outputSchema"));
        self.compiled.insert(name.to_owned(), pair);
        pair
    }

    /// Sends a request and returns the answer, which must have the request's id.
    pub async fn ask(&mut self, method: &str, params: Value) -> Value {
        self.id += 1;
        let message = request(self.id, method, params).to_string();
        let answer = match &mut self.way {
            Way::Http(caller) => post(caller, message).await.json(),
            Way::Bridge(bridge) => {
                bridge.tell(message).await;
                serde_json::from_str(&bridge.line().await.expect("an answer")).unwrap()
            }
        };
        answer.holds(json!({"jsonrpc": "2.0", "id": self.id}));
        answer
    }

    async fn notify(&mut self, method: &str) {
        let message = json!({"jsonrpc": "2.0", "method": method}).to_string();
        match &mut self.way {
            Way::Http(caller) => {
                let reply = post(caller, message).await;
                assert_eq!((reply.status, reply.text().as_str()), (202, ""));
            }
            Way::Bridge(bridge) => bridge.tell(message).await,
        }
    }

    /// Calls a tool with arguments that its schema allows, and checks the answer against its output schema.
    pub async fn call(&mut self, name: &str, arguments: Value) -> Called {
        let (input, output) = self.schemas_of(name);
        if let Err(e) = self.schemas.validate(&arguments, input) {
            panic!("{name} was called with {arguments}: {e:#}");
        }
        let called = self.call_anyhow(name, arguments).await;
        if !called.refused
            && let Err(e) = self.schemas.validate(&called.structured, output)
        {
            panic!("{name} answered {}: {e:#}", called.structured);
        }
        called
    }

    /// Calls a tool with any arguments.
    pub async fn call_anyhow(&mut self, name: &str, arguments: Value) -> Called {
        let params = json!({"name": name, "arguments": arguments});
        let answer = self.ask("tools/call", params).await;
        let result = &answer["result"];
        assert!(result.is_object(), "{answer}");
        let content = result.list("content");
        assert_eq!((content.len(), &content[0]["type"]), (1, &json!("text")));
        Called {
            refused: result["isError"] == true,
            text: content[0].text("text").to_owned(),
            structured: result["structuredContent"].clone(),
        }
    }

    /// Reads a resource, or returns the error.
    pub async fn read(&mut self, uri: &str) -> Result<Value, Value> {
        let answer = self.ask("resources/read", json!({"uri": uri})).await;
        match answer["error"].is_object() {
            true => Err(answer["error"].clone()),
            false => Ok(answer["result"]["contents"][0].clone()),
        }
    }

    /// Ends a bridge, and asserts that it has printed nothing more.
    pub async fn end(self) {
        if let Way::Bridge(bridge) = self.way {
            let ended = bridge.end().await;
            let silent = Ran {
                code: Some(0),
                stdout: String::new(),
                stderr: String::new(),
            };
            assert_eq!(ended, silent);
        }
    }
}
