//! Links that sign people in to the console: made and ended over HTTP, opened and used as the server's console does it.

use std::sync::Arc;

use bookguard_core::Error;
use bookguard_core::engine::command::Written;
use bookguard_core::features::bookings::ProtectBooking;
use bookguard_core::features::console::{
    self, FoundConsoleSession, OpenConsoleLink, SignOut, StartConsoleSession, StartedConsoleSession,
};
use bookguard_core::limits::{
    CONSOLE_LINK_MS, CONSOLE_SESSION_KEPT_DAYS, CONSOLE_SESSION_MS, CONSOLE_SESSIONS_BEGUN_OF_KEY,
    DAY_MS,
};
use bookguard_core::model::Timestamp;
use bookguard_core::operation::{self, Action, Operation, Request};
use bookguard_core::service::Service;
use bookguard_core::session::{Authority, Session};
use bookguard_tests::engine::Engine;
use bookguard_tests::json::{Members as _, only};
use bookguard_tests::test_server::{Partner, TestServer, with_partner_on_every_engine};
use serde_json::{Value, json};

const LINKS: &str = "/v1/console-links";
const SESSIONS: &str = "/v1/console-sessions";

/// Calls a write operation as the server does.
async fn call<O: Operation>(
    service: &Arc<Service>,
    authority: Authority,
    path: &[&str],
    body: &str,
) -> Result<O::Output, Error> {
    let session = Session {
        service: Arc::clone(service),
        authority,
        address: None,
    };
    let request = Request {
        path: path.iter().map(|part| (*part).to_owned()).collect(),
        body: body.as_bytes().to_vec(),
        ..Request::default()
    };
    let asked = tokio::task::spawn_blocking(move || operation::prepare::<O>(&session, &request));
    let Action::Write(writing) = asked.await.unwrap()? else {
        panic!("it writes")
    };
    match Service::outcome(service.submit(writing.command)?).await? {
        Written::Fresh(answer) => Ok(answer),
        Written::Replayed(_) => panic!("it has no idempotency key"),
    }
}

async fn open(service: &Arc<Service>, link: &Value) -> Result<StartedConsoleSession, Error> {
    let (_, token) = link.text("url").rsplit_once("/console/link/").unwrap();
    let stranger = Authority::Anonymous {
        address: "127.0.0.1".to_owned(),
    };
    let body = json!({"token": token}).to_string();
    call::<OpenConsoleLink>(service, stranger, &[], &body).await
}

async fn find(service: &Arc<Service>, token: &str) -> Option<FoundConsoleSession> {
    let (service, token) = (Arc::clone(service), token.to_owned());
    let found = tokio::task::spawn_blocking(move || console::find(&service, &token));
    found.await.unwrap().unwrap()
}

/// Makes a link for Ada.
async fn link(partner: &Partner, more: Value) -> Value {
    let mut body = json!({"person": "Ada"});
    for (name, value) in more.as_object().unwrap() {
        body[name] = value.clone();
    }
    partner.post(LINKS, &body).await.ok(201)
}

/// The authority of a partner's first key, as the server identifies it.
fn holder(partner: &Partner, found: &FoundConsoleSession) -> Authority {
    let Authority::Partner {
        partner_id, scopes, ..
    } = found.authority.clone()
    else {
        panic!("a partner's key")
    };
    assert_eq!(found.key.api_key_id.to_string(), partner.key_id);
    Authority::Partner {
        partner_id,
        api_key_id: found.key.api_key_id,
        scopes,
        suspended: false,
        signed_in: None,
    }
}

#[tokio::test]
async fn a_link_signs_one_person_in_whom_the_audit_names() {
    with_partner_on_every_engine(async |server, acme| {
        let service = Arc::clone(server.running().service());
        let wanted = json!({"scopes": ["bookings:write"]});
        let made = link(&acme, wanted).await;
        made.holds(json!({"person": "Ada", "apiKeyId": acme.key_id, "scopes": ["bookings:write"]}));
        let address = format!("{}/console/link/", service.public_url());
        assert!(made.text("url").starts_with(&address), "{made}");
        let ends = Timestamp::from_ms(server.now_ms() + CONSOLE_LINK_MS);
        assert_eq!(made.text("expiresAt"), ends.to_string());
        let (_, link_token) = made.text("url").rsplit_once('/').unwrap();
        assert_eq!(
            find(&service, link_token).await,
            None,
            "a link is not a session"
        );

        // Two who open it at once: one is first.
        let both = tokio::join!(open(&service, &made), open(&service, &made));
        let (started, refused) = match both {
            (Ok(started), Err(refused)) | (Err(refused), Ok(started)) => (started, refused),
            other => panic!("{other:?}"),
        };
        assert_eq!(refused.code, "not_found");
        assert_eq!(open(&service, &made).await, Err(refused.clone()));
        let unknown = json!({"url": "https://b.example/console/link/unknown"});
        assert_eq!(open(&service, &unknown).await, Err(refused));

        let found = find(&service, &started.token).await.unwrap();
        assert_eq!(found.console_session_id, started.console_session_id);
        assert_eq!(found.expires_at.ms(), server.now_ms() + CONSOLE_SESSION_MS);
        let booking = acme.book().await;
        let ada = found.authority.clone();
        call::<ProtectBooking>(&service, ada.clone(), &[&booking], "")
            .await
            .unwrap();
        let beyond =
            call::<console::CreateConsoleLink>(&service, ada.clone(), &[], r#"{"person":"Bob"}"#);
        assert_eq!(beyond.await.unwrap_err().code, "insufficient_scope");
        let another = call::<StartConsoleSession>(&service, ada.clone(), &[], "").await;
        assert_eq!(another.unwrap_err().code, "unauthorized");

        let listed = acme.rows(SESSIONS).await;
        let session = only(&listed);
        session.holds(json!({"person": "Ada", "apiKeyId": acme.key_id, "endedAt": null}));
        assert_eq!(session["startedAt"], session["createdAt"]);
        call::<SignOut>(&service, ada, &[], "").await.unwrap();
        assert_eq!(find(&service, &started.token).await, None);

        let mut records = acme.rows("/v1/audit").await;
        records
            .pop()
            .unwrap()
            .holds(json!({"action": "registerPartner"}));
        let done: Vec<_> = records
            .iter()
            .map(|record| (record.text("action"), record["actor"]["name"].clone()))
            .collect();
        let by_ada = |action| (action, json!("Ada"));
        assert_eq!(
            done,
            [
                by_ada("signOut"),
                by_ada("protectBooking"),
                by_ada("openConsoleLink"),
                ("createConsoleLink", Value::Null),
            ]
        );
        for record in &records {
            assert_eq!(record["actor"]["keyId"], acme.key_id.as_str());
            let of_its_kind = format!("/v1/audit?action={}", record.text("action"));
            assert_eq!(acme.rows(&of_its_kind).await, std::slice::from_ref(record));
        }
        let id = started.console_session_id.to_string();
        assert_eq!(records[2]["subject"], json!({"consoleSessionId": id}));
        drop(service);
        server.close().await.verify(1).await;
    })
    .await;
}

#[tokio::test]
async fn a_session_ends_by_request_with_its_key_and_in_time() {
    with_partner_on_every_engine(async |server, acme| {
        let service = Arc::clone(server.running().service());
        let signed_in = async |partner: &Partner| {
            let made = link(partner, json!({})).await;
            let started = open(&service, &made).await.unwrap();
            assert!(find(&service, &started.token).await.is_some());
            started
        };
        let first = signed_in(&acme).await;
        let path = format!("{SESSIONS}/{}", first.console_session_id);
        let ended = acme.delete(&path).await.ok(200);
        assert_eq!(acme.delete(&path).await.ok(200), ended);
        assert_eq!(find(&service, &first.token).await, None);

        // With its key, which a key that expires limits from the first.
        let until = Timestamp::from_ms(server.now_ms() + 3_600_000);
        let body = json!({"name": "hour", "expiresAt": until.to_string()});
        let hour = acme.new_key(&body).await;
        let with_hour = Partner {
            caller: acme.with_key(hour.text("apiKey")),
            ..acme.clone()
        };
        let capped = signed_in(&with_hour).await;
        assert_eq!(capped.expires_at, until);
        let unopened = link(&with_hour, json!({})).await;
        let revoked = format!("/v1/api-keys/{}", hour.text("apiKeyId"));
        acme.delete(&revoked).await.ok(200);
        assert_eq!(find(&service, &capped.token).await, None);
        assert_eq!(
            open(&service, &unopened).await.unwrap_err().code,
            "not_found"
        );
        let now = json!(Timestamp::from_ms(server.now_ms()).to_string());
        let mut listed = acme.rows(SESSIONS).await;
        listed.retain(|session| session["apiKeyId"] == hour["apiKeyId"]);
        let ends: Vec<&Value> = listed.iter().map(|session| &session["endedAt"]).collect();
        assert_eq!(ends, [&now, &now], "a session and a link");

        // In time: links after ten minutes, sessions after half a day.
        let late = link(&acme, json!({})).await;
        let last = signed_in(&acme).await;
        server.advance(CONSOLE_LINK_MS);
        assert_eq!(open(&service, &late).await.unwrap_err().code, "not_found");
        server.advance(CONSOLE_SESSION_MS - CONSOLE_LINK_MS - 1);
        let found = find(&service, &last.token).await.unwrap();
        server.advance(1);
        assert_eq!(find(&service, &last.token).await, None);

        // Somebody with the key itself is signed in without a name.
        let own = holder(&acme, &found);
        let own = call::<StartConsoleSession>(&service, own, &[], "")
            .await
            .unwrap();
        let listed = acme.rows(SESSIONS).await;
        assert_eq!(listed[0]["person"], Value::Null);
        assert!(find(&service, &own.token).await.is_some());
        assert_eq!(listed.len(), 6);

        // They are forgotten a month after they expired.
        let forget = async || {
            let service = Arc::clone(&service);
            let forgotten = tokio::task::spawn_blocking(move || console::forget_old(&service));
            forgotten.await.unwrap().unwrap();
        };
        server.advance(CONSOLE_SESSION_KEPT_DAYS * DAY_MS);
        forget().await;
        let kept = acme.rows(SESSIONS).await;
        assert_eq!(kept.len(), 3, "three expired no longer ago: {kept:?}");
        server.advance(CONSOLE_SESSION_MS + 1);
        forget().await;
        assert_eq!(acme.rows(SESSIONS).await, [] as [Value; 0]);
        drop(service);
        server.close().await.verify(0).await;
    })
    .await;
}

#[tokio::test]
async fn links_need_a_key_of_ones_own_and_say_nothing_of_others() {
    with_partner_on_every_engine(async |server, acme| {
        let other = server.partner("Other").await;
        let made = link(&acme, json!({})).await;
        let id = made.text("consoleSessionId");
        let foreign = other.delete(&format!("{SESSIONS}/{id}")).await;
        let unknown = format!("{}{}", &id[..id.len() - 4], "0000");
        let unknown = other.delete(&format!("{SESSIONS}/{unknown}")).await;
        foreign.refused(404, "not_found");
        assert_eq!(foreign.text(), unknown.text());
        assert!(other.rows(SESSIONS).await.is_empty());

        let named = json!({"person": "Ada", "apiKeyId": other.key_id});
        let refused = acme.post(LINKS, &named).await;
        refused.faulty(&[("/apiKeyId", "not_allowed")]);
        link(&acme, json!({"apiKeyId": acme.key_id})).await;
        let narrow = acme.scoped(&["api-keys:write"]).await;
        let greedy = json!({"person": "Ada", "scopes": ["bookings:read"]});
        let refused = narrow.post(LINKS, &greedy).await;
        refused.refused(403, "insufficient_scope");
        let reader = acme.scoped(&["api-keys:read"]).await;
        let body = json!({"person": "Ada"});
        let refused = reader.post(LINKS, &body).await;
        refused.refused(403, "insufficient_scope");
        assert_eq!(reader.rows(SESSIONS).await.len(), 2);

        // On the database, the operator names the key.
        let create = format!("console-links create --person Ada --partner {}", acme.id);
        let run = async |line: String| server.database().command(line).run().await;
        run(create.clone())
            .await
            .ended(5, &["(missing_field)", "--api-key-id"]);
        let theirs = format!("{create} --api-key-id {}", other.key_id);
        run(theirs).await.ended(3, &["(not_found)"]);
        let own = format!(
            "{create} --api-key-id {} --scope bookings:read",
            acme.key_id
        );
        run(own)
            .await
            .json()
            .holds(json!({"scopes": ["bookings:read"]}));
        let list = format!("console-sessions list --partner {}", acme.id);
        assert_eq!(run(list).await.json().list("data").len(), 3);
        let end = format!("console-sessions end {id}");
        run(end).await.json().holds(json!({"consoleSessionId": id}));
        acme.delete(&format!("{SESSIONS}/{id}")).await.ok(200);
        // A row that somebody writes into the database makes no link that works.
        let text =
            "UPDATE console_session SET ended_ms = NULL, body = replace(body, 'endedAt', 'never')";
        server.database().tamper(text);
        assert_eq!(acme.rows(SESSIONS).await.len(), 2);
    })
    .await;
}

/// On one engine, because the other has the same rules and is much slower at so many small writes.
#[tokio::test]
async fn signing_in_and_out_uses_up_none_of_the_changes_of_a_day() {
    let (server, acme) = TestServer::with_partner(Engine::Sqlite).await;
    let service = Arc::clone(server.running().service());
    let first = open(&service, &link(&acme, json!({})).await).await.unwrap();
    let own = holder(&acme, &find(&service, &first.token).await.unwrap());
    let in_and_out = async || {
        let mut signed_in = 0_usize;
        loop {
            match call::<StartConsoleSession>(&service, own.clone(), &[], "").await {
                Ok(started) => {
                    let found = find(&service, &started.token).await.unwrap();
                    let signed_out = call::<SignOut>(&service, found.authority, &[], "").await;
                    assert!(signed_out.is_ok());
                    signed_in += 1;
                }
                Err(refused) => {
                    assert_eq!(refused.code, "too_many_console_sessions");
                    break signed_in;
                }
            }
        }
    };
    // Several at once, because each commit reads every session of the partner.
    let (a, b, c, d, e) = tokio::join!(
        in_and_out(),
        in_and_out(),
        in_and_out(),
        in_and_out(),
        in_and_out()
    );
    assert_eq!(a + b + c + d + e, CONSOLE_SESSIONS_BEGUN_OF_KEY - 1);
    acme.new_key(&json!({})).await;
    drop(service);
    server.close().await.verify(0).await;
}
