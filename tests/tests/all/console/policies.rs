//! How people write policies, choose defaults and compare versions.

use bookguard_tests::json::Members as _;
use bookguard_tests::samples;
use bookguard_tests::test_server::with_partner_on_every_engine;
use serde_json::json;

use super::browser::{Browser, Seen};
use super::html::Form;
use super::pages::is_sound;

/// Uses a button of a form of the editor.
async fn press(browser: &Browser, form: &Form, button: &str, typed: &[(&str, &str)]) -> Seen {
    let seen = browser
        .submit(&form.with(typed).with(&[("do", button)]))
        .await;
    if seen.status != 303 {
        is_sound(&seen);
    }
    seen
}

#[tokio::test]
async fn a_policy_is_written_in_fields_looked_at_put_and_changed() {
    with_partner_on_every_engine(async |server, acme| {
        let browser = Browser::signed_in(&server, &acme.key).await;
        let library = browser.page("/policies/talent_standard").await;
        library.says(&["<dt>Used for</dt><dd>concert, "]);
        library.lacks(&["<dd>nothing</dd>"]);
        let begun = browser.page("/new-policy?from=moderate").await;
        assert!(
            begun.html.contains("5 days"),
            "the English of what was begun with"
        );
        let begun = begun.form("/new-policy");
        assert_eq!(begun.value("/policyId"), "my-moderate");
        assert_eq!(begun.value("/organizer/tiers/0/before"), "5");

        // Steps come and go, and what was typed stays.
        let typed = [
            ("/policyId", "house"),
            ("/name", "House & <rules>"),
            ("/organizer/tiers/0/before", "30"),
        ];
        let added = press(&browser, &begun, "add", &typed).await;
        added.is(200);
        assert!(
            added
                .field("/organizer/tiers/1/before")
                .get("autofocus")
                .is_some()
        );
        let step = [
            ("/organizer/tiers/1/before", "48"),
            ("/organizer/tiers/1/before/unit", "hours"),
            ("/organizer/tiers/1/outcome/figure", "33.33 %"),
        ];
        let third = press(&browser, &added.form("/new-policy"), "add", &step).await;
        let removed = press(&browser, &third.form("/new-policy"), "remove-2", &[]).await;
        let form = removed.form("/new-policy");
        assert_eq!(form.value("/name"), "House & <rules>");
        assert_eq!(form.value("/organizer/tiers/1/outcome/figure"), "33.33 %");
        assert!(!removed.html.contains("Step 3"));
        // Whoever asks for a check is led to what it says.
        let checked = press(&browser, &form, "check", &[]).await;
        let is_led = |seen: &Seen| {
            let tags = seen.tags();
            let pane = tags.iter().find(|tag| tag.name == "aside");
            pane.is_some_and(|pane| pane.get("autofocus").is_some())
        };
        assert!(is_led(checked.is(200)) && !is_led(&removed));
        // Each figure belongs to a group that says of what it is the figure.
        for group in ["The talent cancels", "Free for how long after booking"] {
            checked.says(&[&format!("role=\"group\" aria-label=\"{group}\"")]);
        }

        // What is wrong is told, and nothing is put.
        let refused = press(
            &browser,
            &form,
            "review",
            &[("/organizer/tiers/0/before", "1")],
        )
        .await;
        refused.is(400);
        refused.says(&["no later than"]);
        let refused = acme.get("/v1/policies/house").await;
        refused.refused(404, "not_found");

        // A figure that the text would not hold is not lost on the way to it.
        let unused = ("/talent/cancel/figure", "50");
        let by_hand = ("/talent/cancel/kind", "manual");
        let kept = press(&browser, &form, "json", &[by_hand, unused]).await;
        kept.is(400);
        let field = kept.field(unused.0);
        assert_eq!(field.get("value"), Some(unused.1));
        assert_eq!(field.get("aria-invalid"), Some("true"));

        let review = press(&browser, &form, "review", &[]).await;
        review.is(200);
        review.says(&[
            "at least 48 hours before the event: 33.33 % is returned",
            "USD 333.30",
        ]);
        let again = press(&browser, &review.form("/new-policy"), "edit", &[]).await;
        assert_eq!(
            again.form("/new-policy").with(&[("do", "")]).fields.len(),
            form.with(&[("do", "")]).fields.len()
        );
        for _ in 0..2 {
            press(&browser, &review.form("/new-policy"), "put", &[])
                .await
                .leads_to("/policies/house");
        }
        let put = acme.get("/v1/policies/house").await.ok(200);
        put.holds(json!({"version": 1}));
        put["policy"].holds(json!({"name": "House & <rules>"}));
        assert_eq!(
            put["policy"]["organizer"]["tiers"],
            json!([
                {"before": "P30D", "outcome": {"refundBps": 10000}},
                {"before": "PT48H", "outcome": {"refundBps": 3333}}
            ])
        );

        // The same id is not taken twice, and the library keeps its own.
        let taken = press(&browser, &form, "review", &[]).await;
        taken.is(400);
        assert_eq!(taken.field("/policyId").get("aria-invalid"), Some("true"));
        let reserved = press(&browser, &form, "put", &[("/policyId", "firm")]).await;
        reserved.is(409);
        assert!(reserved.html.contains("my-firm"));
        assert_eq!(reserved.field("/policyId").get("value"), Some("firm"));

        let checked = press(&browser, &form, "check", &[("/policyId", "firm")]).await;
        checked.is(400);
        assert_eq!(checked.field("/policyId").get("aria-invalid"), Some("true"));
        checked.says(&["my-firm"]);
        // One that somebody else put in the meantime stays as it is.
        let late = press(&browser, &form, "review", &[("/policyId", "late")]).await;
        acme.put_policy("late", &samples::policy(0)).await;
        let overtaken = press(&browser, &late.form("/new-policy"), "put", &[]).await;
        overtaken.is(409);
        overtaken.says(&["already"]);
        acme.get("/v1/policies/late")
            .await
            .ok(200)
            .holds(json!({"version": 1}));

        let change = browser.page("/policies/house/change").await.form("/change");
        let review = press(
            &browser,
            &change,
            "review",
            &[("/organizer/late/figure", "40")],
        )
        .await;
        review.says(&[
            "Removed",
            "Added",
            "Changed",
            "/organizer/late/refundBps",
            "4000",
        ]);
        press(&browser, &review.form("/change"), "put", &[])
            .await
            .leads_to("/policies/house");
        acme.get("/v1/policies/house")
            .await
            .ok(200)
            .holds(json!({"version": 2}));
        let same = browser.page("/policies/house/change").await.form("/change");
        press(&browser, &same, "put", &[])
            .await
            .leads_to("/policies/house");
        assert!(
            browser
                .page("/policies/house")
                .await
                .html
                .contains("the same as version 2")
        );

        let compared = browser.page("/policies/house?version=2&against=1").await;
        is_sound(&compared);
        for told in [
            "Removed",
            "Added",
            "/organizer/late/refundBps",
            "5000",
            "4000",
        ] {
            assert!(compared.html.contains(told), "{told}");
        }
        browser.get("/policies/house?version=9").await.is(404);
        browser.get("/policies/house?version=x").await.is(400);
        let sent = browser.get("/policies/house?version=2&against=0").await;
        sent.is(400);
        browser.get("/new-policy?from=nothing").await.is(404);
        browser.get("/policies/house?eventDate=soon").await.is(400);
    })
    .await;
}

#[tokio::test]
async fn what_fields_cannot_say_is_written_as_json_and_nothing_typed_is_lost() {
    with_partner_on_every_engine(async |server, acme| {
        let browser = Browser::signed_in(&server, &acme.key).await;
        let two = json!({
            "deposit": {"bps": 2500},
            "organizer": {"late": {"lesserOf": [{"refundBps": 0}, {"keepDeposit": true}]}}
        });
        acme.put_policy("two", &two).await;
        let change = browser.page("/policies/two/change").await.form("/change");
        assert_eq!(change.value("mode"), "json");
        let stays = press(&browser, &change, "fields", &[]).await;
        stays.is(200);
        stays.says(&["/organizer/late</code>"]);
        assert_eq!(stays.form("/change").value("json"), change.value("json"));

        // Text is kept as it was typed, and its version is the one that was changed.
        let text = "{\t\"policyId\": \"two\",\r\n \"organizer\": {\"late\": {\"refundBps\": 100}}}";
        let review = press(&browser, &change, "review", &[("json", text)]).await;
        assert_eq!(review.form("/change").value("json"), text);
        acme.put_policy("two", &samples::policy(0)).await;
        let overtaken = press(&browser, &review.form("/change"), "put", &[]).await;
        overtaken.is(409);
        assert_eq!(overtaken.form("/change").value("json"), text);
        overtaken.says(&["version=2&amp;against=1"]);
        acme.get("/v1/policies/two")
            .await
            .ok(200)
            .holds(json!({"version": 2}));
        let rebased = press(&browser, &overtaken.form("/change"), "rebase", &[]).await;
        assert_eq!(rebased.form("/change").value("/version"), "2");
        press(&browser, &rebased.form("/change"), "put", &[])
            .await
            .leads_to("/policies/two");
        let put = acme.get("/v1/policies/two").await.ok(200);
        put.holds(json!({"version": 3}));
        assert_eq!(
            put["policy"]["organizer"]["late"],
            json!({"refundBps": 100})
        );

        // Another policy's text is refused where it would be put.
        let other = text.replace("two", "three");
        let change = browser.page("/policies/two/change").await.form("/change");
        let as_text = press(&browser, &change, "json", &[]).await.form("/change");
        let refused = press(&browser, &as_text, "put", &[("json", &other)]).await;
        refused.is(400);
        assert_eq!(refused.form("/change").value("json"), other);

        // From one form to the other and back.
        let back = press(&browser, &as_text, "fields", &[])
            .await
            .form("/change");
        assert_eq!(back.fields, change.fields);
    })
    .await;
}

#[tokio::test]
async fn what_is_typed_is_previewed_and_nothing_is_put() {
    with_partner_on_every_engine(async |server, acme| {
        let browser = Browser::signed_in(&server, &acme.key).await;
        let form = browser.page("/new-policy").await.form("/new-policy");
        let typed = [
            ("/policyId", "new"),
            ("eventDate", "2031-06-20"),
            ("bookingValue", "200.50"),
            ("currency", "EUR"),
        ];
        let seen = press(&browser, &form, "preview", &typed).await;
        seen.is(200);
        seen.says(&["It can be used.", "EUR 100.25"]);
        assert_eq!(
            seen.tags()
                .iter()
                .filter(|tag| tag.get("data-live").is_some())
                .count(),
            2
        );
        let seen = press(
            &browser,
            &form,
            "preview",
            &[("/organizer/tiers/0/before", "x"), ("eventDate", "")],
        )
        .await;
        seen.is(200);
        seen.says(&["Step 1</a> is not a whole number"]);
        assert_eq!(
            acme.rows("/v1/policies?limit=100").await,
            [] as [serde_json::Value; 0]
        );
        // A policy may have any id, even the name of a page.
        press(&browser, &form, "put", &typed)
            .await
            .leads_to("/policies/new");
        browser.page("/policies/new").await;
    })
    .await;
}

#[tokio::test]
async fn defaults_are_chosen_and_removed() {
    with_partner_on_every_engine(async |server, acme| {
        let browser = Browser::signed_in(&server, &acme.key).await;
        acme.put_policy("house", &samples::policy(0)).await;
        let typed = [("eventType", "Live Music")];
        let page = browser.page("/policies/house").await;
        let form = page
            .forms()
            .into_iter()
            .find(|form| form.action.ends_with("/default"))
            .unwrap();
        let sent = browser.submit(&form.with(&typed)).await;
        sent.leads_to("/policies/house");
        let told = browser.page("/policies/house").await;
        told.says(&["It is now the default for live_music."]);
        browser.page("/policies/firm").await;
        let sent = browser.fill("/policies/firm", "/default", &[]).await;
        sent.leads_to("/policies/firm");
        let defaults =
            async || acme.get("/v1/partners/me").await.ok(200)["defaultPolicies"].clone();
        assert_eq!(
            defaults().await,
            json!({"live_music": "house", "*": "firm"})
        );
        let list = browser.page("/policies").await;
        is_sound(&list);
        let removals: Vec<_> = list
            .forms()
            .into_iter()
            .filter(|form| form.action.ends_with("/default"))
            .collect();
        assert_eq!(removals.len(), 2);
        // What a colleague has chosen since is not removed.
        let choose = async |id: &str| {
            let chosen = json!({"defaultPolicies": {"*": id}});
            acme.patch("/v1/partners/me", &chosen).await.ok(200);
        };
        choose("moderate").await;
        let mut old = removals.iter();
        let old = old.find(|form| form.value("eventType") == "*").unwrap();
        let refused = browser.submit(old).await;
        refused.is(409);
        refused.says(&["is now moderate, no longer firm"]);
        assert_eq!(defaults().await["*"], "moderate");
        choose("firm").await;
        for form in removals {
            browser.submit(&form).await.leads_to("/policies");
        }
        assert_eq!(defaults().await, json!(null));
        let unknown = browser.post("/policies/nothing/default", &typed).await;
        unknown.is(404);
    })
    .await;
}
