//! Two partners, each with one of everything, whose every text is HTML.

use std::sync::LazyLock;

use bookguard_tests::engine::Engine;
use bookguard_tests::json::Members as _;
use bookguard_tests::receiver::{Answer, Receiver};
use bookguard_tests::samples;
use bookguard_tests::test_server::{Partner, TestServer};
use bookguard_tests::waiting::until;
use serde_json::{Value, json};

use super::browser::Browser;

/// A text that would be a tag if a page did not escape it.
pub const HOSTILE: &str = "<i id=\"main\">&amp;'</i>";
/// What no page may hold.
pub const TAG: &str = "<i id";
/// Every scope that lets somebody read.
pub const READING: [&str; 6] = [
    "bookings:read",
    "webhooks:read",
    "policies:read",
    "evidence:read",
    "api-keys:read",
    "audit:read",
];

pub struct World {
    pub server: TestServer,
    pub acme: Owner,
    pub other: Owner,
    /// Signed in with the first key of `acme`.
    pub browser: Browser,
}

/// A partner, and the ids of what it has.
pub struct Owner {
    pub partner: Partner,
    /// A booking that is not protected yet.
    pub booking: String,
    /// A cancellation that a person must decide.
    pub review: String,
    pub share: String,
    pub hold: String,
    /// An item of the evidence with a file.
    pub item: String,
    pub endpoint: String,
    pub key: String,
    /// A link that nobody has opened.
    pub person: String,
    /// An event that failed.
    pub event: String,
    /// A policy of its own, in its second version.
    pub policy: String,
    /// Answers until it is dropped.
    _receiver: Receiver,
}

impl World {
    pub async fn open(engine: Engine) -> Self {
        Self::on(TestServer::open(engine).await).await
    }

    pub async fn on(server: TestServer) -> Self {
        let acme = Owner::on(&server, "Acme").await;
        let other = Owner::on(&server, "Other").await;
        let browser = Browser::signed_in(&server, &acme.partner.key).await;
        Self {
            server,
            acme,
            other,
            browser,
        }
    }

    /// Everything that a partner can read of itself, and how many rows each table has.
    pub async fn state(&self) -> Vec<String> {
        let partner = &self.acme.partner;
        let mut state = Vec::new();
        for list in [
            "bookings",
            "resolutions",
            "webhook-endpoints",
            "webhook-events",
            "webhook-recoveries",
            "policies",
            "api-keys",
            "console-sessions",
            "audit",
        ] {
            state.push(partner.get(&format!("/v1/{list}?limit=100")).await.text());
        }
        for booking in [&self.acme.booking, &self.acme.review] {
            for list in ["shares", "holds", "erasures"] {
                let path = format!("/v1/bookings/{booking}/{list}");
                state.push(partner.get(&path).await.text());
            }
        }
        let account = partner.get("/v1/partners/me").await.ok(200);
        state.push(account["defaultPolicies"].to_string());
        let database = self.server.database();
        let mut tables = database.tables();
        tables.sort();
        // One query, because each starts a program on PostgreSQL.
        let counts = tables
            .iter()
            .enumerate()
            .map(|(place, table)| format!("(SELECT count(*) FROM {table}) * {}", place + 1));
        let counts = counts.collect::<Vec<_>>().join(" + ");
        state.push(database.count(&format!("SELECT {counts}")).to_string());
        state
    }

    /// Waits until the first use of each key that somebody signed in with is stored, so that it does not change anything later.
    pub async fn uses_are_stored(&self) {
        until("stored uses of keys", async || {
            let keys = self.acme.partner.rows("/v1/api-keys?limit=100").await;
            let mut signed_in = keys.iter().filter(|key| key["name"] == "limited");
            signed_in
                .all(|key| !key["lastUsedAt"].is_null())
                .then_some(())
        })
        .await;
    }

    /// Somebody who is signed in and may do only this.
    pub async fn limited(&self, scopes: &[&str]) -> Browser {
        let body = json!({"name": "limited", "scopes": scopes});
        let made = self.acme.partner.new_key(&body).await;
        Browser::signed_in(&self.server, made.text("apiKey")).await
    }
}

impl Owner {
    async fn on(server: &TestServer, name: &str) -> Self {
        let partner = server.partner(name).await;
        let receiver = Receiver::answering(Answer::Body("", HOSTILE.as_bytes().into())).await;
        let endpoint = partner
            .new_endpoint(json!({"url": receiver.url(), "description": HOSTILE, "ownSecret": true}))
            .await;
        let party = json!({"id": HOSTILE, "name": HOSTILE});
        let hostile = json!({
            "talent": party, "organizer": party, "eventType": HOSTILE, "metadata": {"reference": HOSTILE},
        });
        let booking = partner.book_with(hostile.clone()).await;
        settled(&partner, &booking).await;
        receiver.answer(Answer::Status(413));
        let review = partner.book_with(hostile).await;
        let mut cancellation = samples::open_cancellation();
        cancellation["note"] = json!(HOSTILE);
        partner.cancel(&review, &cancellation).await;
        let items = format!("/v1/bookings/{review}/evidence/items");
        let item = json!({"kind": "refund", "title": HOSTILE, "amount": 300, "reference": HOSTILE});
        partner.post(&items, &item).await.ok(201);
        let mut item = samples::item_with_file(HOSTILE);
        item["title"] = json!(HOSTILE);
        let item = partner.post(&items, &item).await.string("itemId");
        let file = partner.request("PUT", &format!("{items}/{item}/file"));
        partner.send(file.body(HOSTILE)).await.ok(200);
        settled(&partner, &review).await;
        let event = partner.events(&review).await.remove(0);
        let text = |made: &Value, id: &str| made.text(id).to_owned();
        let share = format!("/v1/bookings/{review}/shares");
        let share = partner.post(&share, &json!({"note": HOSTILE})).await;
        let hold = json!({"reason": HOSTILE, "reference": HOSTILE});
        let holds = format!("/v1/bookings/{review}/holds");
        let hold = partner.post(&holds, &hold).await.ok(201);
        let key = json!({"name": HOSTILE, "scopes": READING});
        let key = partner.new_key(&key).await;
        let policy = format!("house_{}", &name.to_lowercase()[..4]);
        for late in [0, 2500] {
            let mut version = samples::policy(late);
            // The name of a policy takes no double quotation mark.
            version["name"] = json!(HOSTILE.replace('"', "'"));
            partner.put_policy(&policy, &version).await;
        }
        partner
            .decide(json!({"defaultPolicies": {"concert": policy, "*": "firm"}}))
            .await;
        let link = json!({"person": HOSTILE});
        let link = partner.post("/v1/console-links", &link).await.ok(201);
        Self {
            booking,
            review,
            share: text(&share.ok(201), "shareId"),
            hold: text(&hold, "holdId"),
            item,
            endpoint: text(&endpoint, "endpointId"),
            key: text(&key, "apiKeyId"),
            person: text(&link, "consoleSessionId"),
            event: text(&event, "eventId"),
            policy,
            partner,
            _receiver: receiver,
        }
    }

    /// A path of the console with the ids of this partner.
    pub fn address(&self, pattern: &str) -> String {
        let of_review = ["/decide", "/shares", "/holds", "/items"];
        let booking = match of_review.iter().any(|part| pattern.contains(part)) {
            true => &self.review,
            false => &self.booking,
        };
        pattern
            .replace(":partnerId", &self.partner.id)
            .replace(":bookingId", booking)
            .replace(":shareId", &self.share)
            .replace(":holdId", &self.hold)
            .replace(":itemId", &self.item)
            .replace(":endpointId", &self.endpoint)
            .replace(":apiKeyId", &self.key)
            .replace(":consoleSessionId", &self.person)
            .replace(":eventId", &self.event)
            .replace(":policyId", &self.policy)
            .replace(":form", "page")
    }
}

/// Waits until no event of a booking is under way.
pub async fn settled(partner: &Partner, booking: &str) {
    until("settled events", async || {
        let events = partner.events(booking).await;
        events
            .iter()
            .all(|event| event["status"] != "pending")
            .then_some(())
    })
    .await;
}

/// A place of a console: its path below `/console`, and whether it has a page and a form.
pub type Place = (&'static str, bool, bool);
pub type Places = Vec<Place>;

/// The places of partners' console.
pub fn places() -> Places {
    static ALL: LazyLock<Places> = LazyLock::new(|| {
        let all = places_in(include_str!("../../../../bookguard-server/src/console.rs"));
        assert!(all.len() > 20, "the list of places moved");
        all
    });
    ALL.clone()
}

/// The places of the operator's console.
pub fn operator_places() -> Places {
    static ALL: LazyLock<Places> =
        LazyLock::new(|| {
            const SOURCE: &str =
                include_str!("../../../../bookguard-server/src/console/operator.rs");
            let (own, account) = SOURCE.split_once("fn account_places").unwrap();
            let (own, account) = (places_in(own), places_in(account));
            assert!(
                own.len() > 5 && account.len() > 5,
                "the lists of places moved"
            );
            let below = account.into_iter().chain(places().into_iter().map(
                |(path, has_page, has_form)| match path {
                    "" => ("/overview", has_page, has_form),
                    path => (path, has_page, has_form),
                },
            ));
            let below = below.map(|(path, has_page, has_form)| {
                let path: &str = format!("/partners/:partnerId{path}").leak();
                (path, has_page, has_form)
            });
            own.into_iter().chain(below).collect()
        });
    ALL.clone()
}

fn places_in(source: &'static str) -> Places {
    let rows = source.lines().filter_map(|line| {
        let (path, handlers) = line.trim().strip_prefix("place!(\"")?.split_once('"')?;
        let has = |kind: &str| handlers.contains(kind) || handlers.contains(", form ");
        Some((path, has(", get "), has(", post ")))
    });
    rows.collect()
}

/// The place among these that has this address.
pub fn place_of(all: &[Place], address: &str) -> Option<&'static str> {
    let path = address.split('?').next().unwrap_or_default();
    let path = path.strip_prefix("/console").unwrap_or(path);
    let parts: Vec<&str> = path.split('/').collect();
    let fits = |pattern: &&str| {
        let pattern: Vec<&str> = pattern.split('/').collect();
        let mut pairs = pattern.iter().zip(&parts);
        pattern.len() == parts.len()
            && pairs.all(|(known, part)| known.starts_with(':') || known == part)
    };
    let fitting = all.iter().map(|(pattern, ..)| *pattern).filter(fits);
    // A word is meant before any id.
    fitting.min_by_key(|pattern| pattern.matches(':').count())
}
