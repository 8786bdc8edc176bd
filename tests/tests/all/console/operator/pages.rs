//! Every page and every form: what they are made of, where they lead, and who may send them.

use std::collections::BTreeSet;

use bookguard_tests::engine::on_every_engine;
use serde_json::json;

use super::{LINKS, Operated};
use crate::console::browser::Browser;
use crate::console::pages::{is_sound, walk};
use crate::console::world::{operator_places, place_of};

#[tokio::test]
async fn every_page_is_sound_leads_to_others_and_changes_nothing() {
    on_every_engine(async |engine| {
        let operated = Operated::open(engine).await;
        let before = operated.world.state().await;
        let first = vec!["/console".to_owned()];
        let (seen, _) = walk(&operated.browser, &first).await;
        let reached: BTreeSet<_> = seen
            .iter()
            .filter_map(|address| place_of(operator_places(), address))
            .collect();
        let pages = operator_places().into_iter();
        let unreached: Vec<_> = pages
            .filter(|(path, has_page, _)| *has_page && !reached.contains(path))
            .collect();
        assert_eq!(unreached, [], "links lead to every page");
        walk(&operated.browser, &operated.entries()).await;
        assert_eq!(operated.world.state().await, before);
    })
    .await;
}

#[tokio::test]
async fn a_form_of_another_site_or_of_nobody_does_nothing() {
    on_every_engine(async |engine| {
        let operated = Operated::open(engine).await;
        // Somebody to end, and somebody to let in.
        operated
            .caller()
            .post(LINKS, &json!({"person": "Ada"}))
            .await
            .ok(201);
        let (_, mut forms) = walk(&operated.browser, &operated.entries()).await;
        let sign_out = forms.remove("/sign-out").unwrap();
        forms.remove("/sign-in");
        let found: BTreeSet<_> = forms.keys().copied().collect();
        // What a partner's status does not allow now has no form.
        let hidden = ["/approve", "/reinstate"].map(|path| format!("/partners/:partnerId{path}"));
        let listed = operator_places()
            .into_iter()
            .filter(|(path, _, has_form)| *has_form && !hidden.iter().any(|hidden| hidden == path));
        assert_eq!(found, listed.map(|(path, ..)| path).collect());
        let before = operated.world.state().await;
        let nobody = Browser::at_operator(&operated.url);
        for (place, form) in &forms {
            for site in [
                Some("cross-site"),
                Some("same-site"),
                Some("same-origin, none"),
                None,
            ] {
                let own = operated.world.server.running().url();
                // The partners' console is another origin.
                for origin in [
                    Some("https://evil.example"),
                    Some(&*own),
                    Some("null"),
                    None,
                ] {
                    let request = operated.browser.request("POST", &form.action);
                    let mut request = request
                        .header("content-type", "application/x-www-form-urlencoded")
                        .body(form.body());
                    for (name, value) in [("sec-fetch-site", site), ("origin", origin)] {
                        if let Some(value) = value {
                            request = request.header(name, value);
                        }
                    }
                    let sent = operated.browser.send(request).await;
                    assert_eq!(sent.status, 403, "{place} from {site:?} {origin:?}");
                    is_sound(&sent);
                }
            }
            assert_eq!(
                nobody.submit(form).await.status,
                401,
                "{place} without a cookie"
            );
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
        assert!(own.html.contains("your keys"), "{}", own.html);
    })
    .await;
}
