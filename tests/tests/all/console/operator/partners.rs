//! What the operator does with partners, and for them.

use bookguard_core::service::RegistrationMode;
use bookguard_server::config::Config;
use bookguard_tests::engine::on_every_engine;
use bookguard_tests::json::Members as _;
use bookguard_tests::samples;
use serde_json::json;

use super::{Desk, Operated};
use crate::console::browser::Browser;
use crate::console::pages::is_sound;

#[tokio::test]
async fn the_operator_lets_partners_in_and_keeps_them_out() {
    on_every_engine(async |engine| {
        let operated = Operated::open(engine).await;
        let browser = &operated.browser;
        let acme = &operated.world.acme.partner;
        // Suspended, it only reads; its people are told.
        operated.done("/suspend", &[]).await;
        let page = browser.page(&operated.acme("")).await;
        page.says(&["The partner is suspended."]);
        let protect = format!("/v1/bookings/{}/protect", operated.world.acme.booking);
        let refused = acme.post_nothing(&protect).await;
        refused.refused(403, "partner_suspended");
        assert!(browser.page("").await.html.contains("Suspended"));
        let (theirs, told) = (&operated.world.browser, "Your partner account is suspended");
        let hold = format!("/bookings/{}/hold", operated.world.acme.booking);
        let refused = theirs.fill(&hold, "/hold", &[("/reason", "A claim")]).await;
        is_sound(refused.is(403));
        assert_eq!(refused.field("/reason").get("value"), Some("A claim"));
        refused.says(&[told, "role=\"alert\""]);
        // Nothing is offered to them that would be refused.
        let booking = format!("/bookings/{}", operated.world.acme.booking);
        let offers = [
            "/protect\"",
            "/reschedule\"",
            "/cancel\"",
            "/hold\"",
            "/share\"",
        ];
        theirs.page(&booking).await.lacks(&offers);
        // The operator still acts for it, and each page says for whom.
        let booking = operated.acme(&booking);
        let seen = browser.page(&booking).await;
        seen.says(&offers).says(&[" · Acme · Bookguard</title>"]);
        let account = browser.page(&operated.acme("")).await;
        account.says(&["<title>Acme · Bookguard</title>"]);
        browser
            .fill(&format!("{booking}/protect"), "/protect", &[])
            .await
            .leads_to(&booking);
        let found = operated.latest("protectBooking").await;
        found.holds(json!({"partnerId": acme.id}));
        found["actor"].holds(json!({"kind": "operator_key", "name": "desk"}));
        // Both audits lead to it.
        let link = |address: &str| format!("href=\"/console{address}\"");
        browser.page("/audit").await.says(&[&link(&booking)]);
        let own = format!("/bookings/{}", operated.world.acme.booking);
        theirs.page("/audit").await.says(&[&link(&own)]);
        browser
            .fill(&operated.acme(""), "/reinstate", &[])
            .await
            .leads_to(&operated.acme(""));
        acme.get("/v1/bookings").await.ok(200);
        let seen = theirs
            .page(&format!("/bookings/{}", operated.world.acme.booking))
            .await;
        seen.says(&offers[1..]);
        assert!(!theirs.page("").await.html.contains(told));
        let approve = operated.acme("/approve");
        browser.post(&approve, &[]).await.is(409);
        // A page that was left open since then says so, and has nothing to send.
        let page = browser.page(&approve).await;
        page.says(&["does not wait for approval"]);
        let address = format!("/console{approve}");
        assert!(page.forms().iter().all(|form| form.action != address));

        // Its record and its quota.
        let typed = [
            ("/name", "Acme & Sons"),
            ("/contactEmail", "x"),
            ("/website", ""),
        ];
        let refused = browser.fill(&operated.acme("/edit"), "/edit", &typed).await;
        refused.is(400);
        assert_eq!(refused.field("/name").get("value"), Some("Acme & Sons"));
        assert_eq!(
            refused.field("/contactEmail").get("aria-invalid"),
            Some("true")
        );
        let typed = [
            ("/name", "Acme & Sons"),
            ("/contactEmail", "desk@acme.example"),
            ("/website", ""),
        ];
        operated.done("/edit", &typed).await;
        let account = operated.account().await;
        account.holds(json!({"name": "Acme & Sons", "contactEmail": "desk@acme.example"}));
        // A form does not undo what a colleague changed after it was opened.
        let form = browser.page(&operated.acme("/edit")).await.form("/edit");
        let typed = [("/contactEmail", "ada@acme.example")];
        operated.done("/edit", &typed).await;
        let form = form.with(&[("/name", "Acme")]);
        browser.submit(&form).await.leads_to(&operated.acme(""));
        let account = operated.account().await;
        account.holds(json!({"name": "Acme", "contactEmail": "ada@acme.example"}));
        let before = account["quota"].clone();
        browser
            .post(&operated.acme("/quota"), &[("/bookings", "12")])
            .await
            .leads_to(&operated.acme(""));
        let wrong = browser
            .post(&operated.acme("/quota"), &[("/endpoints", "21")])
            .await;
        wrong.is(400);
        assert_eq!(wrong.field("/endpoints").get("value"), Some("21"));
        let mut expected = before.clone();
        expected["bookings"]["limit"] = json!(12);
        assert_eq!(operated.account().await["quota"], expected);
        // A size is written and shown as in settings.
        for wrong in ["10GB", "137,438,953,472"] {
            let wrong = browser
                .post(&operated.acme("/quota"), &[("/fileBytes", wrong)])
                .await;
            wrong.is(400);
            wrong.says(&["such as 10 GiB."]);
        }
        browser
            .post(&operated.acme("/quota"), &[("/fileBytes", "10 GiB")])
            .await
            .leads_to(&operated.acme(""));
        expected["fileBytes"]["limit"] = json!(10_u64 << 30);
        assert_eq!(operated.account().await["quota"], expected);
        browser.page(&operated.acme("")).await.says(&[">10 GiB<"]);
        let quota = browser.page(&operated.acme("/quota")).await;
        quota.says(&["used of 10 GiB"]);
        browser
            .post(&operated.acme("/quota"), &[("/fileBytes", "")])
            .await
            .is(303);
        browser
            .post(&operated.acme("/quota"), &[("/bookings", "")])
            .await
            .is(303);
        assert_eq!(operated.account().await["quota"], before);

        // An event that failed is found in all deliveries, before the others and once, and sent again from there.
        let all = browser.page("/deliveries").await;
        all.says(&[
            "<h2 id=\"failed\">Newest failed events</h2>",
            "Other events, in any state</h2>",
        ]);
        let shown = operated.acme(&format!("/deliveries/{}", operated.world.acme.event));
        assert_eq!(all.html.matches(&shown).count(), 1, "{}", all.html);
        let failed = browser.page("/deliveries?status=failed").await;
        let event = operated.acme(&format!("/deliveries/{}", operated.world.acme.event));
        failed.says(&[&event]);
        browser.fill(&event, "/retry", &[]).await.leads_to(&event);

        // Whoever is invited in a partner's name uses a key of the partner's.
        let invite = operated.acme("/people/new");
        browser.post(&invite, &[("/person", "Ada")]).await.is(400);
        let shown = browser
            .fill(
                &invite,
                "/people/new",
                &[("/person", "Ada"), ("/apiKeyId", &acme.key_id)],
            )
            .await;
        let address = shown.copied();
        let ada = Browser::new(&operated.world.server);
        let (_, path) = address.split_once("/console").unwrap();
        ada.post(path, &[]).await.leads_to("");
        ada.page("/bookings").await;
    })
    .await;
}

#[tokio::test]
async fn a_suspended_partner_is_named_however_many_contracts_have_ended_since() {
    on_every_engine(async |engine| {
        let (server, desk) = Desk::open(engine).await;
        let kept = server.partner("Kept").await;
        let suspend = format!("/partners/{}/suspend", kept.id);
        desk.browser.fill(&suspend, "/suspend", &[]).await.is(303);
        let operator = desk.caller();
        for number in 0..11 {
            server.advance(1);
            let over = server.partner(&format!("Over {number}")).await;
            let end = format!("/v1/partners/{}/end", over.id);
            let begun = operator.post_nothing(&end).await.ok(200);
            let page = json!({"after": begun["next"]});
            let ended = operator.post(&end, &page).await.ok(200);
            ended.holds(json!({"done": true}));
        }
        let overview = desk.browser.page("").await;
        overview.says(&[">Kept</a>"]).lacks(&[">Ended<"]);
    })
    .await;
}

#[tokio::test]
async fn a_partner_that_waits_is_approved_and_gets_its_credentials_once() {
    on_every_engine(async |engine| {
        let (server, desk) = Desk::with(engine, |config| Config {
            registration: RegistrationMode::Approval,
            ..config
        })
        .await;
        let browser = &desk.browser;
        let pending = server
            .caller()
            .post("/v1/partners/register", &samples::partner("Acme Stage"))
            .await;
        let id = pending.string("partnerId");
        for (filter, is_found) in [
            ("status=pending", true),
            ("status=active", false),
            ("search=STAGE+acme", true),
            (&*format!("search={id}"), true),
            ("search=nobody", false),
        ] {
            let found = browser.page(&format!("/partners?{filter}")).await;
            assert_eq!(found.html.contains(&id), is_found, "{filter}");
            assert_eq!(!found.html.contains("Show all partners"), is_found);
            found.says(&[">Waits for approval</option>", ">Any</option>"]);
        }
        for address in ["/partners?status=nonsense", "/deliveries?status=nonsense"] {
            let refused = browser.get(address).await;
            refused.is(400);
            assert_eq!(refused.field("status").get("aria-invalid"), Some("true"));
        }
        assert!(browser.page("").await.html.contains("Acme Stage"));
        let account = format!("/partners/{id}");
        // What it does not have yet, its lists say in words.
        let keys = browser.page(&format!("{account}/keys")).await;
        keys.says(&["There are no keys yet."]).lacks(&["Every key"]);
        let deliveries = browser.page(&format!("{account}/deliveries")).await;
        deliveries.says(&["There are no events yet."]);
        let failed = format!("{account}/deliveries?status=failed");
        let deliveries = browser.page(&failed).await;
        deliveries.says(&["No event matches.", "Show all events"]);
        let all = browser.page("/deliveries").await;
        all.says(&["There are no events yet."]);
        // Nothing is made before a page that says what cannot be undone.
        let approve = format!("{account}/approve");
        let page = browser.page(&account).await;
        let address = format!("/console{approve}");
        let tags = page.tags();
        assert!(tags.iter().any(|tag| tag.get("href") == Some(&address)));
        assert!(page.forms().iter().all(|form| form.action != address));
        let page = browser.page(&approve).await;
        page.says(&["Acme Stage", "This cannot be undone."]);
        let form = page.form("/approve");
        let shown = browser.submit(&form).await;
        let values: Vec<_> = shown
            .tags()
            .into_iter()
            .filter(|tag| tag.get("data-copy").is_some())
            .map(|tag| tag.text)
            .collect();
        assert_eq!(values.len(), 2, "{}", shown.html);
        shown.lacks(&["Waits for approval"]);
        server
            .caller()
            .with_key(&values[0])
            .get("/v1/partners/me")
            .await
            .ok(200);
        // The same form again gets the same answer; another one is refused.
        assert!(browser.submit(&form).await.html.contains(&values[0]));
        let sent = browser.post(&approve, &[]).await;
        sent.is(409).says(&["approved already", "Keys and people"]);
        sent.lacks(&["api-keys create"]);
        let page = browser.page(&account).await;
        assert!(
            !page.html.contains(&values[0]) && !page.html.contains("Approve"),
            "{}",
            page.html
        );
    })
    .await;
}
