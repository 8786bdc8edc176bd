//! Every page and every form: what they are made of, where they lead, and who may send them.

use std::collections::BTreeSet;

use bookguard_tests::engine::on_every_engine;
use serde_json::json;

use super::{LINKS, Operated};
use crate::console::browser::Browser;
use crate::console::forms::{ORIGINS, refused_from_elsewhere};
use crate::console::pages::{forms_of, walk};
use crate::console::world::operator_places;

#[tokio::test]
async fn every_page_is_sound_leads_to_others_and_changes_nothing() {
    on_every_engine(async |engine| {
        let operated = Operated::open(engine).await;
        let before = operated.world.state().await;
        let mut found = walk(&operated.browser).await;
        // Neither partner waits for approval.
        let approve = "/partners/:partnerId/approve";
        assert_eq!(found.unreached(&operator_places()), [approve]);
        found.walk(&operated.browser, &operated.entries()).await;
        assert_eq!(operated.world.state().await, before);
    })
    .await;
}

#[tokio::test]
async fn a_form_of_another_site_or_of_nobody_does_nothing() {
    on_every_engine(async |engine| {
        let operated = Operated::open(engine).await;
        // Somebody to end, and somebody to let in.
        let ada = json!({"person": "Ada"});
        operated.caller().post(LINKS, &ada).await.ok(201);
        let mut forms = forms_of(&operated.browser, &operated.entries()).await;
        let sign_out = forms.remove("/sign-out").unwrap();
        let found: BTreeSet<_> = forms.keys().copied().collect();
        // What a partner's status does not allow now has no form.
        let hidden = ["/approve", "/reinstate"].map(|path| format!("/partners/:partnerId{path}"));
        let listed = operator_places()
            .into_iter()
            .filter(|(path, _, has_form)| *has_form && !hidden.iter().any(|hidden| hidden == path));
        assert_eq!(found, listed.map(|(path, ..)| path).collect());
        let before = operated.world.state().await;
        let nobody = Browser::at_operator(&operated.url);
        // The partners' console is another origin.
        let partners = operated.world.server.running().url();
        let origins = [&ORIGINS[..], &[Some(&*partners)]].concat();
        for (n, (place, form)) in forms.iter().enumerate() {
            refused_from_elsewhere(&operated.browser, form, &origins, n).await;
            let sent = nobody.submit(form).await;
            assert_eq!(sent.status, 401, "{place} without a cookie");
        }
        assert_eq!(operated.world.state().await, before);
        let request = operated.browser.request("POST", &sign_out.action);
        let request = request.header("content-type", "application/x-www-form-urlencoded");
        let request = request.header("origin", operated.browser.base());
        operated.browser.send(request).await.leads_to("/sign-in");
    })
    .await;
}

#[tokio::test]
async fn a_page_about_a_partner_speaks_to_the_operator() {
    on_every_engine(async |engine| {
        let operated = Operated::open(engine).await;
        let about = operated.acme("");
        for address in operated.entries() {
            // Evidence is a document for anybody.
            if !address.contains(&about) || address.contains("/evidence/") {
                continue;
            }
            let seen = operated.browser.get(&address).await;
            let text = seen.html.to_lowercase();
            for word in ["your ", "yours"] {
                assert!(!text.contains(word), "{address}: {}", seen.html);
            }
        }
        let own = operated.world.browser.page("/audit").await;
        own.says(&["your keys"]);
    })
    .await;
}
