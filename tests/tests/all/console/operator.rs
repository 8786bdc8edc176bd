//! The operator's console over HTTP, as a browser uses it.
//!
//! | module | tests |
//! |---|---|
//! | `signing_in` | how people of the operator sign in, and how long that lasts |
//! | `apart` | that neither console opens the other, and that no partner's page shows what is another's |
//! | `pages` | every page and every form: what they are made of, where they lead, and who may send them |
//! | `partners` | what the operator does with partners, and for them |
//! | `system` | what the operator is told of the service itself |

mod apart;
mod pages;
mod partners;
mod signing_in;
mod system;

use std::ops::Deref;

use bookguard_server::config::Config;
use bookguard_tests::caller::Caller;
use bookguard_tests::engine::Engine;
use bookguard_tests::json::Members as _;
use bookguard_tests::test_server::TestServer;
use serde_json::Value;

use super::browser::Browser;
use super::world::{World, operator_places};

const MINUTE: i64 = 60_000;
const LINKS: &str = "/v1/operator/console-links";
const SESSIONS: &str = "/v1/operator/console-sessions";

/// An operator interface, a key of it, and somebody who is signed in there with it.
struct Desk {
    url: String,
    key: Value,
    browser: Browser,
}

/// Two partners with one of everything on a server, and its desk.
struct Operated {
    world: World,
    desk: Desk,
}

impl Desk {
    async fn open(engine: Engine) -> (TestServer, Self) {
        Self::with(engine, |config| config).await
    }

    async fn with(engine: Engine, adjust: impl FnOnce(Config) -> Config) -> (TestServer, Self) {
        let (server, url) = TestServer::operated(engine, adjust).await;
        let key = server.operator_key("desk").await;
        let browser = signed_in(&url, key.text("operatorKey")).await;
        (server, Self { url, key, browser })
    }

    fn caller(&self) -> Caller {
        Caller::of_operator(&self.url).with_key(self.operator_key())
    }

    fn operator_key(&self) -> &str {
        self.key.text("operatorKey")
    }

    /// The newest record of this action in the audit.
    async fn latest(&self, action: &str) -> Value {
        let list = format!("/v1/audit?action={action}");
        self.caller().rows(&list).await.remove(0)
    }
}

impl Deref for Operated {
    type Target = Desk;

    fn deref(&self) -> &Desk {
        &self.desk
    }
}

impl Operated {
    async fn open(engine: Engine) -> Self {
        let (server, desk) = Desk::open(engine).await;
        let world = World::on(server).await;
        Self { world, desk }
    }

    /// The addresses of all pages, about both partners.
    fn entries(&self) -> Vec<String> {
        let owners = [&self.world.acme, &self.world.other];
        let pages = operator_places()
            .into_iter()
            .filter(|(_, has_page, _)| *has_page);
        let mut all: Vec<_> = pages
            .flat_map(|(pattern, ..)| {
                owners.map(|owner| format!("/console{}", owner.address(pattern)))
            })
            .collect();
        all.extend([
            "/console/sign-in".to_owned(),
            "/console/deliveries?status=failed".to_owned(),
            "/console/partners?search=nobody&status=suspended".to_owned(),
        ]);
        all.sort();
        all.dedup();
        all
    }

    /// The account of the first partner.
    async fn account(&self) -> Value {
        let path = format!("/v1/partners/{}", self.world.acme.partner.id);
        self.caller().get(&path).await.ok(200)
    }

    /// Fills in and sends the form at this end of the first partner's account, which leads back there.
    async fn done(&self, end: &str, typed: &[(&str, &str)]) {
        let sent = self.browser.fill(&self.acme(end), end, typed).await;
        sent.leads_to(&self.acme(""));
    }

    /// A path below the account of the first partner.
    fn acme(&self, path: &str) -> String {
        format!("/partners/{}{path}", self.world.acme.partner.id)
    }
}

async fn signed_in(url: &str, key: &str) -> Browser {
    let browser = Browser::at_operator(url);
    let sent = browser.post("/sign-in", &[("operatorKey", key)]).await;
    sent.leads_to("");
    browser
}

/// The path below `/console` of a link.
fn path_of(link: &Value) -> String {
    let (_, path) = link.text("url").split_once("/console/").unwrap();
    format!("/{path}")
}

/// Asserts that nobody is signed in with the browser's cookie, neither to look nor to change.
async fn opens_nothing(browser: &Browser) {
    let copy = browser.copy();
    let led = copy.get("/people").await;
    led.leads_to("/sign-in?to=%2Fpeople&after=end");
    let sent = browser
        .copy()
        .post("/people/new", &[("/person", "x")])
        .await;
    sent.is(401);
}
