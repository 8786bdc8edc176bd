//! That neither console opens the other, and that no partner's page shows what is another's.

use bookguard_tests::caller::Caller;
use bookguard_tests::engine::on_every_engine;
use bookguard_tests::json::Members as _;
use serde_json::json;

use super::{LINKS, Operated, SESSIONS, path_of};
use crate::console::browser::Browser;
use crate::console::world::operator_places;

#[tokio::test]
async fn neither_console_opens_the_other() {
    on_every_engine(async |engine| {
        let operated = Operated::open(engine).await;
        let (world, operators) = (&operated.world, &operated.browser);
        let partners = &world.browser;
        // Each other's cookies, under either name.
        for name in ["bookguard", "bookguard-operator"] {
            for (browser, to) in [(partners, operators), (operators, partners)] {
                let moved = browser.moved(to, name);
                let seen = moved.get("/audit").await;
                seen.leads_to("/sign-in?to=%2Faudit");
            }
        }
        // Each other's keys and links.
        let (partner_key, operator_key) = (&world.acme.partner.key, operated.operator_key());
        let stranger = Browser::at_operator(&operated.url);
        stranger
            .post("/sign-in", &[("operatorKey", partner_key)])
            .await
            .is(401);
        Browser::new(&world.server)
            .post("/sign-in", &[("apiKey", operator_key)])
            .await
            .is(401);
        let made = world
            .acme
            .partner
            .post("/v1/console-links", &json!({"person": "Ada"}))
            .await;
        let partner_link = made.ok(201);
        stranger.post(&path_of(&partner_link), &[]).await.is(404);
        let made = operated
            .caller()
            .post(LINKS, &json!({"person": "Ada"}))
            .await;
        let operator_link = made.ok(201);
        let nobody = Browser::new(&world.server);
        nobody.post(&path_of(&operator_link), &[]).await.is(404);
        nobody.post(&path_of(&partner_link), &[]).await.leads_to("");
        let sent = stranger.post(&path_of(&operator_link), &[]).await;
        sent.leads_to("");

        // A partner neither sees nor ends the operator's sessions; not even the operator does in its name.
        let theirs = operated.caller().rows(SESSIONS).await;
        let listed = world
            .acme
            .partner
            .rows("/v1/console-sessions?limit=100")
            .await;
        let all = operated
            .caller()
            .request("GET", "/v1/console-sessions?limit=100");
        let all = all.header("x-partner-id", &world.acme.partner.id);
        let all = operated.caller().send(all).await.ok(200);
        for session in &theirs {
            let id = session.text("consoleSessionId");
            assert!(listed.iter().all(|own| own.text("consoleSessionId") != id));
            assert!(!all.to_string().contains(id));
            let path = format!("/v1/console-sessions/{id}");
            let refused = world.acme.partner.delete(&path).await;
            refused.refused(404, "not_found");
            let refused = operated.caller().delete(&path).await;
            refused.refused(404, "not_found");
        }
        let path = format!("{SESSIONS}/{}", world.acme.person);
        let refused = operated.caller().delete(&path).await;
        refused.refused(404, "not_found");
        let refused = world.acme.partner.get(SESSIONS).await;
        refused.refused(404, "path_not_found");
        operators.page("").await;

        // The operator's interface reads no cookie, and its console no key in a header.
        let request = Caller::new(&operated.url).request("GET", "/v1/partners");
        let request = request.header("cookie", operators.cookie().unwrap());
        assert_eq!(operated.caller().send(request).await.status, 401);
        let request = Browser::at_operator(&operated.url).request("GET", "/people");
        let request = request.header("x-operator-key", operator_key);
        Browser::at_operator(&operated.url)
            .send(request)
            .await
            .leads_to("/sign-in?to=%2Fpeople");

        let database = operated.world.server.close().await;
        database.command("ledger verify").json().await;
    })
    .await;
}

#[tokio::test]
async fn what_is_not_the_partners_is_not_below_it() {
    on_every_engine(async |engine| {
        let operated = Operated::open(engine).await;
        let (acme, other) = (&operated.world.acme, &operated.world.other);
        let before = operated.world.state().await;
        let unknown = format!("{}0000", &acme.partner.id[..acme.partner.id.len() - 4]);
        let form = "%2Fname=x&%2Fnote=&%2FexpiresIn=P1D&%2FcanceledBy=talent&%2Freason=other&%2FoverlapSeconds=0";
        let below = operator_places().into_iter().filter(|(path, ..)| path.contains(":partnerId"));
        for (pattern, has_page, has_form) in below {
            let methods = ["GET", "POST"].into_iter().zip([has_page, has_form]);
            for (method, _) in methods.filter(|(_, has)| *has) {
                let ask = async |address: String| {
                    let request = match method {
                        "GET" => operated.browser.request("GET", &address),
                        _ => operated.browser.form(&address, form),
                    };
                    operated.browser.send(request).await.status
                };
                let whole = acme.address(pattern);
                for partner in [&*unknown, "x", "ptn_"] {
                    let address = whole.replacen(&acme.partner.id, partner, 1);
                    assert_eq!(ask(address.clone()).await, 404, "{method} {address}");
                }
                // Another partner's ids below this partner.
                let (_, path) = pattern.split_once(":partnerId").unwrap();
                if !path.contains(':') {
                    continue;
                }
                let foreign = format!("/partners/{}{}", acme.partner.id, other.address(path));
                assert_eq!(ask(foreign).await, 404, "{method} {pattern}");
            }
        }
        assert_eq!(operated.world.state().await, before);
    })
    .await;
}
