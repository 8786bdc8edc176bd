//! What people do with the console.

use bookguard_core::limits::{DAY_MS, UNVERIFIED_MS};
use bookguard_server::config::Config;
use bookguard_tests::engine::Engine;
use bookguard_tests::json::{Members as _, only};
use bookguard_tests::program::bookguard;
use bookguard_tests::receiver::{Answer, Receiver};
use bookguard_tests::samples;
use bookguard_tests::test_server::{TestServer, with_partner_on_every_engine};
use serde_json::{Value, json};

use super::browser::Browser;
use super::pages::is_sound;
use super::world::settled;

/// Sends a form twice, as somebody who clicks twice, and returns the first answer.
async fn twice(
    browser: &Browser,
    page: &str,
    end: &str,
    typed: &[(&str, &str)],
) -> super::browser::Seen {
    let form = browser.page(page).await.form(end).with(typed);
    let first = browser.submit(&form).await;
    let second = browser.submit(&form).await;
    assert_eq!(
        (second.status, &second.html),
        (first.status, &first.html),
        "{page}"
    );
    assert_eq!(second.location(), first.location());
    first
}

#[tokio::test]
async fn a_cancellation_that_happened_earlier_comes_to_what_it_came_to_then() {
    with_partner_on_every_engine(async |server, acme| {
        let browser = Browser::signed_in(&server, &acme.key).await;
        acme.put_policy("late", &samples::policy(5000)).await;
        // The full refund ends ten minutes after the start.
        let soon = json!({"policyId": "late", "eventDate": "2026-10-05T14:23:20Z"});
        let booking = acme.book_with(soon.clone()).await;
        let late = acme.book_with(soon).await;
        server.advance(11 * 60_000);
        let page = format!("/bookings/{booking}");
        let typed = [
            ("/canceledBy", "organizer"),
            ("/effectiveAt", "2026-09-21T14:20:00"),
        ];
        let shown = browser
            .fill(&format!("{page}/cancel"), "/cancel", &typed)
            .await;
        shown
            .is(200)
            .says(&["<dt>When was it canceled? (UTC)</dt><dd>21 Sep 2026, 14:20</dd>"])
            // The sentence has the amount in the form of the figures below it.
            .says(&["USD 1,250.50 is returned", "<dd>USD 1,250.50</dd>"])
            .lacks(&["USD 1250"]);
        let shown = shown.form("/cancel");
        assert_eq!(shown.value("/expected/refundMinorUnits"), "125050");
        browser.submit(&shown).await.leads_to(&page);
        let recorded = &acme.rows("/v1/resolutions?limit=10").await[0];
        recorded.holds(json!({
            "effectiveAt": "2026-09-21T14:20:00.000Z",
            "canceledAt": "2026-09-21T14:24:20.000Z",
        }));

        // Hours later, a person must decide whether it counts from then.
        server.advance(2 * 60 * 60_000);
        let browser = Browser::signed_in(&server, &acme.key).await;
        let page = format!("/bookings/{late}");
        let shown = browser
            .fill(&format!("{page}/cancel"), "/cancel", &typed)
            .await
            .form("/cancel");
        assert_eq!(shown.value("/expected/resolutionPath"), "manual_review");
        browser.submit(&shown).await.leads_to(&page);
        let recorded = acme.rows("/v1/resolutions?limit=10").await;
        let recorded = recorded.iter().find(|one| one["bookingId"] == *late);
        recorded
            .unwrap()
            .holds(json!({"status": "pending_review", "effectiveAt": "2026-09-21T14:20:00.000Z"}));

        let typed = [
            ("/canceledBy", "organizer"),
            ("/effectiveAt", "2026-09-01T00:00"),
        ];
        let other = acme.book().await;
        let refused = browser
            .fill(&format!("/bookings/{other}/cancel"), "/cancel", &typed)
            .await;
        refused.is(400);
        let field = refused.field("/effectiveAt");
        assert_eq!(field.get("aria-invalid"), Some("true"));
        assert_eq!(field.get("value"), Some("2026-09-01T00:00:00"));
    })
    .await;
}

#[tokio::test]
async fn beside_what_a_form_comes_to_stands_what_was_typed_and_the_way_back_to_it() {
    with_partner_on_every_engine(async |server, acme| {
        let browser = Browser::signed_in(&server, &acme.key).await;
        // An event to send again.
        let (_receiver, _) = acme.receiving(Answer::Status(413)).await;
        let booking = acme.book().await;
        settled(&acme, &booking).await;
        let booking = format!("/bookings/{booking}");
        type Case = (
            String,
            &'static [(&'static str, &'static str)],
            &'static [&'static str],
        );
        let cases: [Case; 4] = [
            (
                format!("{booking}/cancel"),
                &[
                    ("/canceledBy", "organizer"),
                    ("/reason", "changed_plans"),
                    ("/note", "A & B"),
                ],
                &[
                    "<dt>Who cancels?</dt><dd>Organizer</dd>",
                    "<dt>Why?</dt><dd>Changed plans</dd>",
                    "<dt>Note</dt><dd>A &amp; B</dd>",
                ],
            ),
            (
                format!("{booking}/reschedule"),
                &[
                    ("/eventDate", "2031-10-20T19:00"),
                    ("/timeZone", "America/New_York"),
                    ("/agreedBy", "organizer"),
                    ("/agreedBy", "talent"),
                ],
                &[
                    "<dt>New date and time</dt><dd>20 Oct 2031, 19:00</dd>",
                    "<dt>Who agreed?</dt><dd>Organizer, Talent</dd>",
                ],
            ),
            (
                format!("{booking}/erase"),
                &[
                    ("/party", "organizer"),
                    ("/legalBasis", "objection"),
                    ("/requestRef", "DSR-1"),
                ],
                &["<dt>Reference of the request</dt><dd>DSR-1</dd>"],
            ),
            (
                "/deliveries/recover".to_owned(),
                &[("/since", "2026-09-20T00:00:00"), ("/statuses", "failed")],
                &["<dt>Which events</dt><dd>Failed</dd>"],
            ),
        ];
        for (page, typed, facts) in cases {
            let shown = browser.fill(&page, &page, typed).await;
            is_sound(shown.is(200).says(facts));
            let tags = shown.tags();
            // Nothing can be typed that the button does not send.
            let mut fields = tags.iter().filter(|tag| {
                let name = tag.get("name").unwrap_or_default();
                name.starts_with('/')
            });
            assert!(
                fields.all(|field| field.get("type") == Some("hidden")),
                "{page}"
            );
            let card = tags.iter().find(|tag| tag.get("autofocus").is_some());
            let card = card.unwrap();
            assert_eq!(
                (card.name.as_str(), card.get("aria-labelledby")),
                ("section", Some("outcome"))
            );
            let forms = shown.forms();
            let mut forms = forms.iter().filter(|form| form.action.ends_with(&page));
            let change = forms.next().unwrap();
            let act = forms.next().unwrap();
            assert!(
                !act.value("once").is_empty() && forms.next().is_none(),
                "{page}"
            );
            let again = browser.submit(change).await;
            is_sound(again.is(200).lacks(&["outcome"]));
            let again = again.form(&page);
            for (name, text) in typed {
                let field = ((*name).to_owned(), (*text).to_owned());
                assert!(
                    again.fields.contains(&field),
                    "{page} lost {field:?}: {again:?}"
                );
            }
        }
    })
    .await;
}

#[tokio::test]
async fn whoever_cancels_second_is_told_that_their_note_was_not_recorded() {
    with_partner_on_every_engine(async |server, acme| {
        let browser = Browser::signed_in(&server, &acme.key).await;
        let booking = acme.book().await;
        let page = format!("/bookings/{booking}");
        let cancel = format!("{page}/cancel");
        let preview = async |note: &str| {
            let typed = [("/canceledBy", "organizer"), ("/note", note)];
            let shown = browser.fill(&cancel, "/cancel", &typed).await;
            shown.form("/cancel")
        };
        let (first, second, third) = (
            preview("From Ann").await,
            preview("From Bob").await,
            preview("").await,
        );
        browser.submit(&first).await.leads_to(&page);
        browser
            .page(&page)
            .await
            .says(&[">The booking is canceled."]);
        browser.submit(&second).await.leads_to(&page);
        let told = browser.page(&page).await;
        told.says(&[
            "alert warn",
            ">It was already canceled with this result. Your note was not recorded.<",
        ]);
        told.lacks(&["What it came to stands below"]);
        browser.submit(&third).await.leads_to(&page);
        browser.page(&page).await.lacks(&["Your note"]);
        let packet = acme.packet(&booking).await.text();
        assert!(packet.contains("From Ann") && !packet.contains("From Bob"));
    })
    .await;
}

#[tokio::test]
async fn what_is_over_has_no_form_and_what_was_typed_for_it_stays() {
    with_partner_on_every_engine(async |server, acme| {
        let browser = Browser::signed_in(&server, &acme.key).await;
        let booking = acme.book().await;
        let page = format!("/bookings/{booking}");
        let cancel = format!("{page}/cancel");
        let opened = browser.page(&cancel).await.form("/cancel");
        let typed = [("/canceledBy", "organizer"), ("/note", "What I typed")];
        let stale = browser.submit(&opened.with(&typed)).await.form("/cancel");
        acme.cancel(&booking, &samples::open_cancellation()).await;
        let over = |seen: &super::browser::Seen, end: &str| {
            is_sound(seen);
            assert!(
                seen.forms().iter().all(|form| !form.action.ends_with(end)),
                "{}",
                seen.html
            );
        };
        for end in ["/cancel", "/reschedule"] {
            browser.get(&format!("{page}{end}")).await.leads_to(&page);
        }
        let refused = browser.submit(&stale).await;
        over(refused.is(409), "/cancel");
        refused.says(&["<dt>Note</dt><dd>What I typed</dd>", "role=\"alert\""]);
        let same = [
            ("/canceledBy", "talent"),
            ("/reason", "force_majeure"),
            ("/note", "Too late"),
        ];
        let late = browser.submit(&opened.with(&same)).await;
        over(&late, "/cancel");
        late.says(&[
            "The booking is already canceled. What you typed was not recorded.",
            "<dd>Too late</dd>",
        ]);

        let decide = format!("{page}/decide");
        // Whoever may see no evidence still sees why they are asked.
        let key = json!({"name": "decides", "scopes": ["bookings:read", "bookings:write"]});
        let key = acme.new_key(&key).await;
        let decider = Browser::signed_in(&server, key.text("apiKey")).await;
        for address in [&page, &decide] {
            let seen = decider.page(address).await;
            seen.says(&[
                "<dt>Why</dt><dd>Force majeure</dd>",
                "<dt>Took effect</dt><dd><time ",
            ]);
            seen.lacks(&["a storm"]);
        }
        let asked = browser.page(&decide).await.form("/decide");
        let decision = [
            ("/refund", "300"),
            ("/decidedBy", "Ann"),
            ("/rationale", "Both were heard."),
        ];
        browser.submit(&asked.with(&decision)).await.leads_to(&page);
        browser.get(&decide).await.leads_to(&page);
        let other = [
            ("/refund", "400"),
            decision[1],
            ("/rationale", "Something else."),
        ];
        let other = [&other[..], &[("once", "0a1b0a1b0a1b0a1b0a1b0a1b0a1b0a1b")]].concat();
        let refused = browser.submit(&asked.with(&other)).await;
        over(refused.is(409), "/decide");
        refused.says(&["<dt>Why</dt><dd>Something else.</dd>"]);
    })
    .await;
}

#[tokio::test]
async fn what_can_no_longer_be_claimed_is_left_to_nobody() {
    with_partner_on_every_engine(async |server, acme| {
        let policy = json!({
            "policyId": "house",
            "organizer": {"late": {"refundBps": 0}},
            "talent": {"cancel": {"refundBps": 10000, "compensationBps": 1000}},
        });
        let unpaid =
            json!({"policy": policy, "amountPaid": 0, "eventDate": "2026-10-05T14:23:20Z"});
        let booking = acme.book_with(unpaid).await;
        let page = format!("/bookings/{booking}");
        let asked = format!("{page}/cancel");
        let browser = Browser::signed_in(&server, &acme.key).await;
        let shown = browser.page(&page).await.html;
        for words in [
            ">as agreed<",
            "Is kept, or owed",
            "plus USD 125.05 compensation",
        ] {
            assert!(shown.contains(words), "{words}: {shown}");
        }
        assert!(!shown.contains("a person decides"), "{shown}");
        let typed = [("/canceledBy", "talent")];
        let shown = browser.fill(&asked, "/cancel", &typed).await.html;
        assert!(
            shown.contains("<dt>Compensation</dt><dd>USD 125.05</dd>"),
            "{shown}"
        );
        // Fourteen days after the start, no claim is possible any more.
        server.advance(30 * 24 * 60 * 60_000);
        let browser = Browser::signed_in(&server, &acme.key).await;
        let shown = browser.page(&page).await.html;
        let closed = "can no longer be claimed";
        assert!(
            shown.contains(closed) && !shown.contains("a person decides"),
            "{shown}"
        );
        let way = "Only a cancellation that took effect by then can still be recorded";
        assert!(shown.contains(way), "{shown}");
        let typed = [("/canceledBy", "organizer")];
        let asked = browser.fill(&asked, "/cancel", &typed).await;
        asked.is(200);
        let shown = &asked.html;
        assert!(
            shown.contains(way) && !shown.contains("This cannot be undone."),
            "{shown}"
        );

        let line = format!("bookings evaluate {booking} --matrix --output table");
        let line = bookguard(line).args(["--url", acme.caller.base()]);
        let ran = line.env("BOOKGUARD_API_KEY", &acme.key).run().await;
        ran.ended(0, &[]);
        assert!(
            ran.stdout.contains(closed) && !ran.stdout.contains("to be decided"),
            "{ran:?}"
        );
    })
    .await;
}

#[tokio::test]
async fn an_event_is_listed_on_the_day_that_it_is_where_it_takes_place() {
    with_partner_on_every_engine(async |server, acme| {
        let browser = Browser::signed_in(&server, &acme.key).await;
        let evening =
            json!({"eventDate": "2027-01-12T19:30:00-08:00", "timeZone": "America/Los_Angeles"});
        let booking = acme.book_with(evening.clone()).await;
        acme.cancel(&booking, &samples::open_cancellation()).await;
        let address = format!("/bookings/{booking}");
        // The last step before the start ends then: in the table, and in the chart.
        let open = acme.book_with(evening).await;
        let open = browser.page(&format!("/bookings/{open}")).await;
        open.lacks(&["13 Jan 2027, 03:30"]).says(&[
            "data-head=\"until\"><time datetime=\"2027-01-13T03:30:00.000Z\"",
            "<title>Until 12 Jan 2027, 19:30 Los Angeles time: ",
        ]);
        for page in ["/bookings", "/reviews", address.as_str()] {
            let shown = browser.page(page).await;
            shown.says(&[">12 Jan 2027, 19:30 Los Angeles time</time>"]);
            shown.lacks(&["13 Jan 2027, 03:30"]);
        }
    })
    .await;
}

#[tokio::test]
async fn what_is_owed_on_top_is_told_in_the_step_that_applies_now() {
    with_partner_on_every_engine(async |server, acme| {
        let browser = Browser::signed_in(&server, &acme.key).await;
        let mut policy = samples::policy(0);
        policy["organizer"]["tiers"][0]["outcome"]["compensationBps"] = json!(1000);
        acme.put_policy("house", &policy).await;
        let booking = acme.book_with(json!({"policyId": "house"})).await;
        let page = browser.page(&format!("/bookings/{booking}")).await;
        // In the schedule, and beside it for the organizer.
        let owed = page.html.matches("plus USD 125.05 compensation").count();
        assert_eq!(owed, 2, "{}", page.html);
    })
    .await;
}

#[tokio::test]
async fn a_booking_is_protected_moved_canceled_as_shown_and_decided() {
    with_partner_on_every_engine(async |server, acme| {
        let browser = Browser::signed_in(&server, &acme.key).await;
        acme.put_policy("late", &samples::policy(5000)).await;
        // The full refund ends ten minutes after the start.
        let soon = json!({"policyId": "late", "eventDate": "2026-10-05T14:23:20Z"});
        let booking = acme.book_with(soon).await;
        let page = format!("/bookings/{booking}");
        twice(&browser, &format!("{page}/protect"), "/protect", &[])
            .await
            .leads_to(&page);
        assert_eq!(acme.booking(&booking).await["status"], "protected");

        let ask = format!("{page}/cancel");
        // Nobody cancels until somebody says who.
        let refused = browser.fill(&ask, "/cancel", &[]).await;
        let side = refused.is(400).field("/canceledBy");
        assert_eq!(side.get("aria-invalid"), Some("true"));
        // As many letters as a note may have, each of three bytes, and breaks of lines.
        let note = format!("Sorry.\r\n\r\n{}", "語".repeat(1993));
        let typed = [
            ("/canceledBy", "organizer"),
            ("/reason", "changed_plans"),
            ("/note", note.as_str()),
        ];
        let shown = browser.fill(&ask, "/cancel", &typed).await;
        shown.is(200);
        let shown = shown.form("/cancel");
        assert_eq!(shown.value("/note"), note);
        assert_eq!(shown.value("/expected/refundMinorUnits"), "125050");
        server.advance(11 * 60_000);
        let changed = browser.submit(&shown).await;
        changed
            .is(409)
            .says(&["comes to something else by now"])
            .lacks(&["expecting that"]);
        assert_eq!(acme.booking(&booking).await["status"], "protected");
        let anew = changed.form("/cancel");
        assert_eq!(anew.value("/expected/refundMinorUnits"), "62525");
        assert_eq!(anew.value("/expected/penaltyMinorUnits"), "62525");
        assert_eq!(anew.value("/expected/compensationMinorUnits"), "0");
        assert_ne!(anew.value("once"), shown.value("once"));
        browser.submit(&anew).await.leads_to(&page);
        let told = browser.page(&page).await;
        told.says(&[">The booking is canceled. What it came to stands below.<"]);
        browser.submit(&anew).await.leads_to(&page);
        let canceled = acme.booking(&booking).await;
        let resolution = format!("/v1/resolutions/{}", canceled.text("resolutionId"));
        let resolution = acme.get(&resolution).await.ok(200);
        assert_eq!(resolution["evaluation"]["refund"]["minorUnits"], 62_525);
        assert!(acme.packet(&booking).await.text().contains("Sorry. 語"));
        browser.page(&page).await;

        let moved = acme.book().await;
        let page = format!("/bookings/{moved}");
        // Browsers send no offset, so a booking without a time zone needs one.
        let asked = format!("{page}/reschedule");
        let zone = browser.page(&asked).await.field("/timeZone");
        assert!(zone.get("required").is_some());
        let local = [
            ("/eventDate", "2031-10-20T19:00"),
            ("/agreedBy", "organizer"),
            ("/agreedBy", "talent"),
        ];
        let refused = browser.fill(&asked, "/reschedule", &local).await;
        refused.is(400);
        assert_eq!(refused.field("/timeZone").get("aria-invalid"), Some("true"));
        assert!(
            refused
                .html
                .contains("Is missing, and the date is a local time.")
                && !refused.html.contains("offset"),
            "{}",
            refused.html
        );
        let date = [&local[..], &[("/timeZone", "America/New_York")]].concat();
        let shown = browser.fill(&asked, "/reschedule", &date).await;
        let words = ["20 Oct 2031, 19:00 New York time", "This cannot be undone."];
        is_sound(shown.is(200).says(&words));
        acme.booking(&moved)
            .await
            .holds(json!({"rescheduledAt": null}));
        let confirm = shown.form("/reschedule");
        assert_eq!(confirm.value("/timeZone"), "America/New_York");
        browser.submit(&confirm).await.leads_to(&page);
        browser.submit(&confirm).await.leads_to(&page);
        let again = browser.page(&asked).await;
        assert!(again.field("/timeZone").get("required").is_none());
        // It begins with the date of now, on the clock of the place.
        again.says(&["20 Oct 2031, 19:00 New York time"]);
        let now = again.field("/eventDate");
        assert_eq!(now.get("value"), Some("2031-10-20T19:00"));
        // The clocks there skip half past two in that night.
        let skipped = [("/eventDate", "2031-03-09T02:30"), local[1], local[2]];
        let shown = browser.fill(&asked, "/reschedule", &skipped).await;
        let words = [
            "9 Mar 2031, 03:30 New York time",
            "The clocks there are put forward",
        ];
        shown.is(200).says(&words);
        acme.booking(&moved)
            .await
            .holds(json!({"eventDate": "2031-10-20T23:00:00.000Z"}));

        let review = acme.book().await;
        acme.cancel(&review, &samples::open_cancellation()).await;
        let page = format!("/bookings/{review}");
        let why = "There was a storm. ".repeat(100);
        let typed = "There was\r\na storm.\t".repeat(100);
        let decision = [
            ("/refund", "1,000.25"),
            ("/decidedBy", "Disputes"),
            ("/rationale", why.as_str()),
        ];
        browser
            .fill(&format!("{page}/decide"), "/decide", &decision)
            .await
            .is(400);
        let decision = [
            ("/refund", "1000.25"),
            ("/decidedBy", "Disputes"),
            ("/rationale", typed.as_str()),
        ];
        // Both answers to the open question come to the same.
        let asked = browser.page(&format!("{page}/decide")).await;
        asked.says(&["Either way: USD 1,250.50 back, USD 0.00 kept or owed"]);
        asked.lacks(&["If it is not"]);
        twice(&browser, &format!("{page}/decide"), "/decide", &decision)
            .await
            .leads_to(&page);
        let told = browser.page(&page).await;
        told.says(&[">Decided: USD 1,000.25 goes back, USD 250.25 is kept.<"]);
        // The packet of this page is not shown, so nobody is told when it was made.
        told.says(&["What happened"]);
        told.lacks(&["made and signed this packet"]);
        let booking = acme.booking(&review).await;
        let path = format!("/v1/resolutions/{}", booking.text("resolutionId"));
        let resolution = acme.get(&path).await.ok(200);
        assert_eq!(resolution["evaluation"]["refund"]["minorUnits"], 100_025);
        resolution["decision"].holds(json!({"decidedBy": "Disputes", "rationale": why.trim()}));
        for form in ["page", "bank", "archive", "packet"] {
            browser.page(&format!("{page}/evidence/{form}")).await;
        }
        browser.get(&format!("{page}/evidence/other")).await.is(404);
        drop(browser);
        server.close().await.verify(3).await;
    })
    .await;
}

#[tokio::test]
async fn items_of_the_evidence_are_listed_and_their_files_saved() {
    with_partner_on_every_engine(async |server, acme| {
        let browser = Browser::signed_in(&server, &acme.key).await;
        let booking = acme.book().await;
        let page = format!("/bookings/{booking}");
        let items = format!("/v1{page}/evidence/items");
        let file = "<script>alert(1)</script>";
        let item = acme.post(&items, &samples::item_with_file(file)).await;
        let item = item.string("itemId");
        let address = format!("{page}/evidence/items/{item}/file");
        let seen = browser.page(&page).await;
        seen.says(&[
            ">Contract</td>",
            "not stored here",
            "bookguard evidence items add",
        ]);
        seen.lacks(&[&address]);
        browser.get(&address).await.is(404);
        let sent = acme.request("PUT", &format!("{items}/{item}/file"));
        acme.send(sent.body(file)).await.ok(200);
        let seen = browser.page(&page).await;
        is_sound(&seen);
        seen.says(&[&address, "application/octet-stream, 25 bytes"]);
        // Nothing of a file is ever run or shown.
        let saved = browser.page(&address).await;
        assert_eq!(saved.html, file);
        let everything = format!("{page}/evidence/everything");
        let archive = browser.page(&everything).await;
        assert!(archive.html.starts_with("PK"), "{}", archive.html);
        assert_eq!(archive.header("content-type"), "application/zip");
        for seen in [&saved, &archive] {
            let disposition = seen.header("content-disposition");
            assert!(disposition.starts_with("attachment"), "{disposition}");
            assert_eq!(seen.header("cache-control"), "no-store");
        }
    })
    .await;
}

#[tokio::test]
async fn evidence_is_shared_and_the_link_revoked() {
    with_partner_on_every_engine(async |server, acme| {
        let browser = Browser::signed_in(&server, &acme.key).await;
        let booking = acme.book().await;
        let page = format!("/bookings/{booking}");
        let typed = [
            ("/note", "the bank"),
            ("/expiresIn", "P1D"),
            ("/withhold", "ip"),
        ];
        let link = twice(&browser, &format!("{page}/share"), "/share", &typed)
            .await
            .copied();
        let shares = acme
            .rows(&format!("/v1/bookings/{booking}/shares?limit=9"))
            .await;
        let share = only(&shares);
        share.holds(json!({"note": "the bank", "withhold": ["ip"], "revokedAt": null}));
        let path = link
            .strip_prefix(&server.running().url())
            .unwrap()
            .to_owned();
        let open = async || {
            let request = server.caller().request("GET", &path);
            server
                .caller()
                .send(request.header("accept", "application/json"))
                .await
                .status
        };
        assert_eq!(open().await, 200);
        let seen = browser.page(&page).await;
        assert!(!seen.html.contains(&link), "it is shown once");
        seen.says(&[r#"aria-label="Revoke: the bank""#]);
        let revoke = format!("{page}/shares/{}/revoke", share.text("shareId"));
        let asked = browser.page(&revoke).await;
        is_sound(asked.says(&["<strong>the bank</strong>, made "]));
        let form = asked.form("/revoke");
        browser.submit(&form).await.leads_to(&page);
        browser.submit(&form).await.leads_to(&page);
        assert_eq!(open().await, 404);
        // There is nothing to revoke any more, and nothing that was never there.
        browser.get(&revoke).await.leads_to(&page);
        let nonsense = format!("{page}/shares/nonsense/revoke");
        browser.get(&nonsense).await.is(404);
    })
    .await;
}

/// On one engine, because the other lists in the same way and is much slower at so many small writes.
#[tokio::test]
async fn every_link_to_the_evidence_is_listed_however_many_came_after_it() {
    let (server, acme) = TestServer::with_partner(Engine::Sqlite).await;
    let booking = acme.book().await;
    let shares = format!("/v1/bookings/{booking}/shares");
    let oldest = json!({"note": "court in Kiel", "expiresIn": "P1D"});
    acme.post(&shares, &oldest).await.ok(201);
    for number in 0..100 {
        // Only so many may work at a time.
        server.advance(10_000);
        let later = json!({"note": format!("later {number}"), "expiresIn": "PT1M"});
        acme.post(&shares, &later).await.ok(201);
    }
    let browser = Browser::signed_in(&server, &acme.key).await;
    let page = format!("/bookings/{booking}");
    let newest = browser.page(&page).await;
    newest
        .says(&["later 99", "later 0<"])
        .lacks(&["court in Kiel"]);
    let tags = newest.tags();
    let next = tags.iter().find(|tag| tag.get("rel") == Some("next"));
    let older = browser.page(next.unwrap().get("href").unwrap()).await;
    is_sound(&older);
    older.says(&["aria-label=\"Revoke: court in Kiel\"", "Newest links"]);
    older.lacks(&["later 0<"]);
}

#[tokio::test]
async fn whoever_may_see_no_evidence_still_does_what_they_may_with_it() {
    with_partner_on_every_engine(async |server, acme| {
        let booking = acme.book().await;
        let share = format!("/v1/bookings/{booking}/shares");
        let share = acme.post(&share, &json!({})).await.string("shareId");
        let hold = format!("/v1/bookings/{booking}/holds");
        let hold = acme.post(&hold, &json!({"reason": "Case 7 of Kiel"})).await;
        let hold = hold.string("holdId");
        let scopes = ["bookings:read", "evidence:share", "evidence:erase"];
        let key = json!({"name": "acts", "scopes": scopes});
        let key = acme.new_key(&key).await;
        let browser = Browser::signed_in(&server, key.text("apiKey")).await;
        let page = format!("/bookings/{booking}");
        let seen = browser.page(&page).await;
        seen.lacks(&["Case 7 of Kiel"]);
        seen.says(&["Share by a link", "Place a hold", "Erase personal data"]);
        for (address, id) in [
            (format!("{page}/shares/{share}/revoke"), &share),
            (format!("{page}/holds/{hold}/release"), &hold),
        ] {
            let asked = browser.page(&address).await;
            is_sound(asked.says(&[id]));
            browser.submit(&asked.form(&address)).await.leads_to(&page);
        }
    })
    .await;
}

#[tokio::test]
async fn a_hold_prevents_an_erasure_and_what_would_go_is_shown_before_it_goes() {
    with_partner_on_every_engine(async |server, acme| {
        let browser = Browser::signed_in(&server, &acme.key).await;
        let named = json!({"organizer": {"id": "o-1", "name": "Jane Quokka"}, "metadata": {"room": "blue"}});
        // Its entries are not those of its places in the ledger.
        acme.book().await;
        let booking = acme.book_with(named).await;
        let page = format!("/bookings/{booking}");
        let last_entry = async || {
            let timeline = browser.page(&page).await.html;
            let (_, rest) = timeline.rsplit_once("<small>Entry ").unwrap();
            let (entry, _) = rest.split_once(", proven").unwrap();
            format!("<dt>Entry {entry}</dt>")
        };
        let (hold, erase) = (format!("{page}/hold"), format!("{page}/erase"));
        // What would go is shown, and stays.
        let typed = [("/party", "organizer"), ("/legalBasis", "objection"), ("/requestRef", "DSR-1")];
        let would = browser.fill(&erase, "/erase", &typed).await;
        would.is(200);
        let entry = last_entry().await;
        for shown in [entry.as_str(), "organizer&#39;s name and id", "cannot be undone"] {
            let plain = shown.replace("&#39;", "'");
            assert!(would.html.contains(shown) || would.html.contains(&plain), "{shown}: {}", would.html);
        }
        assert!(browser.page(&page).await.html.contains("Jane Quokka"));
        let second = would.forms().into_iter().find(|form| form.fields.iter().any(|(name, _)| name == "once"));
        let second = second.unwrap();
        assert_eq!((second.value("/party"), second.value("/requestRef")), ("organizer", "DSR-1"));

        let reason = [("/reason", "A chargeback is expected"), ("/reference", "CB-1")];
        twice(&browser, &hold, "/hold", &reason).await.leads_to(&page);
        let seen = browser.page(&page).await;
        seen.says(&["nothing of it can be erased", "A chargeback is expected", "CB-1", "Active"]);
        seen.says(&[r#"aria-label="Release: A chargeback is expected""#]);
        let holds = acme.rows(&format!("/v1/bookings/{booking}/holds?limit=9")).await;
        let held = only(&holds);
        for refused in [
            browser.submit(&second).await,
            browser.fill(&erase, "/erase", &typed).await,
        ] {
            refused.is(409);
            refused.says(&["is under the legal hold"]);
        }

        let release = format!("{page}/holds/{}/release", held.text("holdId"));
        let form = browser.page(&release).await.form("/release");
        browser.submit(&form).await.leads_to(&page);
        browser.submit(&form).await.leads_to(&page);
        let seen = browser.page(&page).await;
        seen.says(&["released"]);
        // What was recorded since would go too, so it is shown before anything goes.
        let item = json!({"kind": "message", "title": "From Jane", "party": "organizer"});
        acme.post(&format!("/v1/bookings/{booking}/evidence/items"), &item).await.ok(201);
        let anew = browser.submit(&second).await;
        anew.is(409);
        assert_ne!(last_entry().await, entry);
        anew.says(&["since you looked", &last_entry().await]);
        let second = anew.forms().into_iter().find(|form| form.fields.iter().any(|(name, _)| name == "once"));
        browser.submit(&second.unwrap()).await.leads_to(&page);
        let seen = browser.page(&page).await;
        seen.lacks(&["Jane Quokka"]);
        let shown = acme.booking(&booking).await;
        assert_eq!((&shown["organizer"]["name"], &shown["metadata"]["room"]), (&json!("erased"), &json!("blue")));
        let erasures = acme.get(&format!("/v1/bookings/{booking}/erasures")).await.ok(200);
        erasures["erasures"][0].holds(json!({"legalBasis": "objection", "requestRef": "DSR-1"}));
        let event = acme.events(&booking).await.remove(0);
        let seen = browser.page(&format!("/deliveries/{}", event.text("eventId"))).await;
        let why = "because it was too old or its booking's data were erased";
        assert!(seen.html.replace("&#39;", "'").contains(why), "{}", seen.html);

        // Nobody chose why; neither values nor a party; and nothing is left.
        let refused = browser.fill(&erase, "/erase", &[("/party", "organizer")]).await;
        assert_eq!(refused.is(400).field("/legalBasis").get("aria-invalid"), Some("true"));
        assert_eq!(refused.form("/erase").value("/legalBasis"), "");
        let typed = [("/legalBasis", "objection")];
        let refused = browser.fill(&erase, "/erase", &typed).await;
        refused.is(400);
        refused.says(&["Name the values, or a party."]);
        let typed = [("/party", "organizer"), ("/legalBasis", "objection")];
        let would = browser.fill(&erase, "/erase", &typed).await;
        would.says(&["Nothing of this is left"]);
        server.close().await.verify(2).await;
    })
    .await;
}

#[tokio::test]
async fn what_was_missed_is_sent_again() {
    with_partner_on_every_engine(async |server, acme| {
        let browser = Browser::signed_in(&server, &acme.key).await;
        let (receiver, endpoint) = acme.receiving(Answer::Status(413)).await;
        let bookings = [acme.book().await, acme.book().await, acme.book().await];
        for booking in &bookings {
            settled(&acme, booking).await;
        }
        // What failed again is no good news. The browser is led to what it is told.
        let failed = acme.events(&bookings[1]).await.remove(0);
        let failed = format!("/deliveries/{}", failed.text("eventId"));
        browser.fill(&failed, "/retry", &[]).await.leads_to(&failed);
        let told = r#"<p class="alert bad" role="status" tabindex="-1" autofocus>The event was sent again, and not accepted."#;
        browser.page(&failed).await.says(&[told]);
        browser.page(&failed).await.lacks(&[told]);
        receiver.answer(Answer::Status(200));
        let event = acme.events(&bookings[0]).await.remove(0);
        assert_eq!(event["status"], "failed");
        let before = receiver.count();
        let page = format!("/deliveries/{}", event.text("eventId"));
        let mut received = receiver.received().into_iter();
        let sent = received.find(|sent| sent.string("eventId") == event.text("eventId"));
        let sent = String::from_utf8(sent.unwrap().body).unwrap();
        let sent = sent.replace('"', "&quot;");
        browser.page(&page).await.says(&[&format!(">{sent}</pre>")]);
        twice(&browser, &page, "/retry", &[]).await.leads_to(&page);
        assert_eq!(receiver.count(), before + 1);
        browser.page(&page).await.says(&[
            r#"<p class="alert good" role="status" tabindex="-1" autofocus>The event was sent again, and accepted.<"#,
        ]);
        assert_eq!(acme.event(&event).await["status"], "delivered");

        let recover = "/deliveries/recover";
        let of_endpoint = format!("{recover}?%2FendpointId={endpoint}");
        let tags = browser.page(&format!("/endpoints/{endpoint}")).await.tags();
        let leads = tags.iter().filter_map(|tag| tag.get("href"));
        let leads: Vec<_> = leads.filter(|to| to.ends_with(&of_endpoint)).collect();
        assert_eq!(leads.len(), 1);
        assert_eq!(
            browser
                .page(recover)
                .await
                .form("/recover")
                .value("/endpointId"),
            ""
        );
        let counted = browser.fill(&of_endpoint, "/recover", &[]).await;
        counted.is(200);
        assert_eq!(receiver.count(), before + 1, "counting sends nothing");
        let mut confirm = counted.form("/recover");
        assert!(
            confirm.fields.iter().all(|(name, _)| name != "/dryRun"),
            "{confirm:?}"
        );
        assert!(!confirm.value("once").is_empty() && !confirm.value("/until").is_empty());
        assert_eq!(confirm.value("/endpointId"), endpoint);
        confirm.fields.retain(|(_, text)| !text.is_empty());
        browser.submit(&confirm).await.leads_to(recover);
        browser.submit(&confirm).await.leads_to(recover);
        for booking in &bookings {
            acme.event_that_is(booking, "delivered").await;
        }
        assert_eq!(receiver.count(), before + 3);
        let begun = acme.rows("/v1/webhook-recoveries?limit=9").await;
        let begun: Vec<_> = begun
            .iter()
            .filter(|recovery| recovery["dryRun"] == false)
            .collect();
        assert_eq!(begun.len(), 1);
        begun[0].holds(json!({"recovered": 2, "endpointId": endpoint}));
        browser.page(recover).await;
    })
    .await;
}

#[tokio::test]
async fn what_was_missed_days_ago_is_counted_from_when_it_was_missed() {
    with_partner_on_every_engine(async |server, acme| {
        let (_receiver, endpoint) = acme.receiving(Answer::Status(413)).await;
        let booking = acme.book().await;
        settled(&acme, &booking).await;
        let shown = acme.endpoint_shown(&endpoint).await;
        assert_eq!(shown["failingSince"], "2026-09-21T14:13:20.000Z");
        let of_endpoint = format!("/endpoints/{endpoint}");
        let (day_ago, missed) = ("2026-09-20T14:13", "2026-09-21T14:13:00");
        for (later, page, since) in [
            (0, &*of_endpoint, day_ago),
            (0, "/deliveries", day_ago),
            (3 * DAY_MS, &of_endpoint, "2026-09-21T13:13:00"),
            (0, "/deliveries", missed),
            (0, "/deliveries?status=failed", missed),
        ] {
            server.advance(later);
            let browser = Browser::signed_in(&server, &acme.key).await;
            browser
                .page("/endpoints")
                .await
                .says(&["failing since <time"]);
            let tags = browser.page(page).await.tags();
            let mut leads = tags.iter().filter_map(|tag| tag.get("href"));
            let lead = leads.find(|to| to.contains("/deliveries/recover"));
            let asked = browser.page(lead.unwrap()).await;
            assert_eq!(asked.form("/recover").value("/since"), since, "{page}");
            let counted = browser.submit(&asked.form("/recover")).await;
            let found = counted.is(200).form("/recover");
            assert!(!found.value("once").is_empty(), "{page}");
            counted.says(&["<dt>Events</dt><dd>1</dd>"]);
        }
    })
    .await;
}

#[tokio::test]
async fn whoever_may_send_again_but_not_read_deliveries_is_told_that_it_began() {
    let (server, acme) = TestServer::with_partner(Engine::Sqlite).await;
    let (_receiver, _) = acme.receiving(Answer::Status(413)).await;
    settled(&acme, &acme.book().await).await;
    let key = json!({"name": "sends", "scopes": ["webhooks:write"]});
    let key = acme.post("/v1/api-keys", &key).await.string("apiKey");
    let browser = Browser::signed_in(&server, &key).await;
    let recover = "/deliveries/recover";
    // With neither kind of events, there is nothing to count.
    let none = browser
        .fill(recover, "/recover", &[("/statuses", "")])
        .await;
    none.is(400).says(&["Tick at least one."]);
    assert!(none.tags().iter().all(|tag| tag.get("checked").is_none()));
    let counted = browser.fill(recover, "/recover", &[]).await;
    let confirm = counted.is(200).form("/recover");
    browser.submit(&confirm).await.leads_to(recover);
    let told = browser.page(recover).await;
    told.says(&["1 event is being sent again."]);
    told.lacks(&["The list below"]);
    let begun = acme.rows("/v1/webhook-recoveries?limit=9").await;
    assert!(begun.iter().any(|recovery| recovery["dryRun"] == false));
}

#[tokio::test]
async fn events_that_failed_come_first_and_once() {
    with_partner_on_every_engine(async |server, acme| {
        let browser = Browser::signed_in(&server, &acme.key).await;
        let (receiver, _) = acme.receiving(Answer::Status(413)).await;
        let old = acme.book().await;
        settled(&acme, &old).await;
        receiver.answer(Answer::Status(200));
        let new = acme.book().await;
        acme.event_that_is(&new, "delivered").await;
        let (failed, delivered) = (
            acme.events(&old).await.remove(0),
            acme.events(&new).await.remove(0),
        );
        let listed = async |address: &str| {
            let tags = browser.page(address).await.tags();
            let links = tags.iter().filter_map(|tag| tag.get("href"));
            let ids = links.filter_map(|link| link.strip_prefix("/console/deliveries/"));
            let events = ids.filter(|id| id.starts_with("evt_"));
            events.map(str::to_owned).collect::<Vec<_>>()
        };
        let (failed, delivered) = (failed.text("eventId"), delivered.text("eventId"));
        assert_eq!(listed("/deliveries").await, [failed, delivered]);
        assert_eq!(
            listed("/deliveries?type=booking.created").await,
            [failed, delivered]
        );
        assert_eq!(listed("/deliveries?type=terms.accepted").await, [""; 0]);
        assert_eq!(listed("/deliveries?status=delivered").await, [delivered]);
        assert_eq!(
            listed(&format!("/deliveries?bookingId={new}")).await,
            [delivered]
        );
        // Older pages are of all.
        assert_eq!(listed("/deliveries?before=2").await, [failed]);
        // Of many that failed, the older ones are among the others, which says that they may be.
        receiver.answer(Answer::Status(413));
        for _ in 0..5 {
            let booking = acme.book().await;
            settled(&acme, &booking).await;
        }
        let seen = browser.page("/deliveries").await;
        let (newest, others) = seen
            .html
            .split_once("Other events, in any state</h2>")
            .unwrap();
        assert!(newest.contains("Newest failed events</h2>") && !newest.contains(failed));
        assert!(others.contains(failed), "{others}");
    })
    .await;
}

#[tokio::test]
async fn a_test_that_comes_too_soon_is_refused_on_the_page_of_the_endpoint() {
    let server = TestServer::with(Engine::Sqlite, |config| Config {
        verifies_endpoints: true,
        ..config
    });
    let server = server.await;
    let acme = server.partner("Acme").await;
    let browser = Browser::signed_in(&server, &acme.key).await;
    let receiver = Receiver::answering(Answer::Status(500)).await;
    let page = format!("/endpoints/{}", acme.endpoint(&receiver.url()).await);
    // One for now, and one in the turn of the next delivery.
    for _ in 0..2 {
        browser.fill(&page, "/test", &[]).await.is(200);
    }
    let refused = browser.fill(&page, "/test", &[]).await;
    refused.is(429);
    is_sound(&refused);
    refused.says(&["Try again in"]);
    assert_eq!(receiver.count(), 2);
    server.advance(UNVERIFIED_MS);
    browser.submit(&refused.form("/test")).await.is(200);
    assert_eq!(receiver.count(), 3);
}

#[tokio::test]
async fn an_endpoint_is_added_tested_changed_and_removed() {
    with_partner_on_every_engine(async |server, acme| {
        let browser = Browser::signed_in(&server, &acme.key).await;
        let receiver = Receiver::start().await;
        let url = receiver.url();
        let typed = [
            ("/url", url.as_str()),
            ("/ownSecret", "true"),
            ("/rateLimitPerSecond", "7"),
            ("/events", "booking.created"),
            ("/events", "terms.accepted"),
        ];
        let secret = twice(&browser, "/endpoints/new", "/endpoints/new", &typed)
            .await
            .copied();
        let endpoints = acme.rows("/v1/webhook-endpoints?limit=9").await;
        let made = only(&endpoints);
        let events = json!(["booking.created", "terms.accepted"]);
        made.holds(
            json!({"url": url, "events": events, "rateLimitPerSecond": 7, "ownSecret": true}),
        );
        let id = made.text("endpointId");
        let page = format!("/endpoints/{id}");

        let test = browser.page(&page).await.form("/test");
        browser.submit(&test).await.is(200);
        assert_eq!(receiver.count(), 1);
        receiver.answer(Answer::Status(500));
        browser.fill(&page, "/test", &[]).await.is(200);
        assert_eq!(receiver.count(), 2);

        let change = format!("{page}/change");
        let form = browser.page(&change).await.form("/change");
        // Sent as it is, a form changes nothing.
        browser.submit(&form).await.leads_to(&page);
        let told = browser.page(&page).await;
        told.says(&["Nothing was changed."]);
        acme.endpoint_shown(id)
            .await
            .holds(json!({"url": url, "events": events, "rateLimitPerSecond": 7, "enabled": true}));
        let typed = [
            ("/events", ""),
            ("/rateLimitPerSecond", ""),
            ("/description", "Ours"),
            ("/enabled", "false"),
        ];
        twice(&browser, &change, "/change", &typed)
            .await
            .leads_to(&page);
        acme.endpoint_shown(id).await.holds(json!({
            "events": [],
            "rateLimitPerSecond": null, "description": "Ours", "enabled": false,
        }));
        // Nothing can be sent to it now.
        let tags = browser.page(&page).await.tags();
        let mut leads = tags.iter().filter_map(|tag| tag.get("href"));
        assert!(leads.all(|to| !to.contains("/recover")));
        let recover = browser.page("/deliveries/recover").await.form("/recover");
        let names: Vec<_> = recover.fields.iter().map(|(name, _)| name).collect();
        assert!(!names.contains(&&"/endpointId".to_owned()), "{names:?}");

        let rotate = format!("{page}/rotate-secret");
        let next = twice(
            &browser,
            &rotate,
            "/rotate-secret",
            &[("/overlapSeconds", "3600")],
        )
        .await;
        assert_ne!(next.copied(), secret);
        browser
            .fill(&format!("{page}/remove"), "/remove", &[])
            .await
            .leads_to("/endpoints");
        assert!(acme.rows("/v1/webhook-endpoints?limit=9").await.is_empty());
        browser.get(&page).await.is(404);
    })
    .await;
}

#[tokio::test]
async fn every_sign_in_is_listed_however_many_came_after_it() {
    with_partner_on_every_engine(async |server, acme| {
        let browser = Browser::signed_in(&server, &acme.key).await;
        server.advance(1);
        // A key has at most 25 links that nobody has opened, and a page shows 50.
        for inviting in [&acme.caller, &acme.scoped(&["api-keys:write"]).await] {
            for _ in 0..25 {
                let link = json!({"person": "Ada"});
                inviting.post("/v1/console-links", &link).await.ok(201);
            }
        }
        let newest = browser.page("/keys").await;
        newest.lacks(&["With a key"]);
        let tags = newest.tags();
        let next = tags.iter().find(|tag| tag.get("rel") == Some("next"));
        let next = next.and_then(|next| next.get("href")).unwrap();
        let older = browser.page(next).await;
        older.says(&["With a key"]).lacks(&[">Ada<"]);
        let tags = older.tags();
        assert!(tags.iter().all(|tag| tag.get("rel") != Some("next")));
    })
    .await;
}

#[tokio::test]
async fn the_form_of_an_endpoint_undoes_nothing_that_changed_since_it_was_opened() {
    with_partner_on_every_engine(async |server, acme| {
        let browser = Browser::signed_in(&server, &acme.key).await;
        let (_receiver, id) = acme.receiving(Answer::Status(200)).await;
        let page = format!("/endpoints/{id}");
        let change = format!("{page}/change");
        let opened = browser.page(&change).await.form("/change");
        let theirs =
            json!({"enabled": false, "description": "Theirs", "events": ["terms.accepted"]});
        acme.change_endpoint(&id, theirs.clone()).await;
        // Also when it must be corrected first.
        let refused = browser
            .submit(&opened.with(&[("/rateLimitPerSecond", "x")]))
            .await;
        let corrected = refused.is(400).form("/change");
        let corrected = corrected.with(&[("/rateLimitPerSecond", "7")]);
        browser.submit(&corrected).await.leads_to(&page);
        let shown = acme.endpoint_shown(&id).await;
        shown.holds(theirs);
        shown.holds(json!({"rateLimitPerSecond": 7}));
        // Its form shows that it is disabled, and can enable it.
        let seen = browser.page(&change).await;
        seen.says(&["Disabled</span>"]);
        browser
            .fill(&change, "/change", &[("/enabled", "true")])
            .await
            .leads_to(&page);
        let shown = acme.endpoint_shown(&id).await;
        shown.holds(json!({"enabled": true, "rateLimitPerSecond": 7}));
        // So can its own page, which says what the state means.
        browser.page(&page).await.lacks(&["Enable it"]);
        let disabled = json!({"enabled": false});
        acme.change_endpoint(&id, disabled).await;
        let seen = browser.page(&page).await;
        seen.says(&["It gets no new events.", "Enable it"]);
        let enabling = seen.form("/change");
        // Where that is refused, there is no form whose empty fields would be saved.
        let key = json!({"name": "reads", "scopes": ["webhooks:read"]});
        let key = acme.new_key(&key).await;
        let reader = Browser::signed_in(&server, key.text("apiKey")).await;
        let refused = reader.submit(&enabling).await;
        refused.is(403).lacks(&["/description"]);
        browser.submit(&enabling).await.leads_to(&page);
        let shown = acme.endpoint_shown(&id).await;
        shown.holds(json!({"enabled": true, "rateLimitPerSecond": 7}));
    })
    .await;
}

#[tokio::test]
async fn whoever_may_not_see_keys_revokes_one_by_its_id() {
    with_partner_on_every_engine(async |server, acme| {
        let key = |name: &str| json!({"name": name, "scopes": ["api-keys:write"]});
        let (own, old) = (
            acme.new_key(&key("own")).await,
            acme.new_key(&key("old")).await,
        );
        let browser = Browser::signed_in(&server, own.text("apiKey")).await;
        let id = old.text("apiKeyId");
        let page = format!("/keys/{id}/revoke");
        let asked = browser.page(&page).await;
        is_sound(asked.says(&[&format!("<strong>{id}</strong>")]));
        browser.submit(&asked.form("/revoke")).await.leads_to("");
        let keys = acme.rows("/v1/api-keys?limit=9").await;
        let revoked = keys.iter().find(|key| key["apiKeyId"] == id).unwrap();
        assert!(!revoked["revokedAt"].is_null(), "{revoked}");
    })
    .await;
}

#[tokio::test]
async fn keys_are_made_replaced_and_revoked_and_people_invited() {
    with_partner_on_every_engine(async |server, acme| {
        let browser = Browser::signed_in(&server, &acme.key).await;
        let typed = [
            ("/name", "Shop"),
            ("/scopes", "bookings:read"),
            ("/scopes", "webhooks:read"),
            ("/expiresAt", "2026-12-01T00:00:00Z"),
        ];
        let key = twice(&browser, "/keys/new", "/keys/new", &typed).await.copied();
        let keys = async || acme.rows("/v1/api-keys?limit=9").await;
        assert_eq!(keys().await.len(), 2);
        let all = keys().await;
        let shop = all.iter().find(|key| key["name"] == "Shop").unwrap();
        shop.holds(json!({"name": "Shop", "scopes": ["bookings:read", "webhooks:read"], "expiresAt": "2026-12-01T00:00:00.000Z"}));
        let works = async |key: &str| acme.with_key(key).get("/v1/bookings").await.status;
        assert_eq!(works(&key).await, 200);
        let path = format!("/keys/{}", shop.text("apiKeyId"));
        let overlap = [("/overlapSeconds", "0")];
        let next = twice(&browser, &format!("{path}/rotate"), "/rotate", &overlap).await.copied();
        assert_eq!((works(&key).await, works(&next).await), (401, 200));
        let all = keys().await;
        let newest = all.iter().find(|key| next.ends_with(key.text("hint"))).unwrap();
        let revoke = format!("/keys/{}/revoke", newest.text("apiKeyId"));
        let asked = browser.page(&revoke).await;
        asked.says(&[&format!("<strong>Shop (…{})</strong>", newest.text("hint"))]);
        let asked = asked.form("/revoke");
        browser.submit(&asked).await.leads_to("/keys");
        assert_eq!(works(&next).await, 401);
        // What is over has no form.
        for (id, end) in [(newest, "revoke"), (newest, "rotate"), (shop, "rotate")] {
            let page = format!("/keys/{}/{end}", id.text("apiKeyId"));
            let seen = browser.page(&page).await;
            is_sound(seen.says(&["<strong>Shop (…", "The key ended on "]));
            let mut forms = seen.forms().into_iter();
            assert!(forms.all(|form| !form.action.ends_with(end)), "{}", seen.html);
        }
        let unknown = "/keys/key_00000000000000000000000000000000/revoke";
        browser.get(unknown).await.is(404).says(&["No such API key"]);

        let typed = [("/person", "Ada"), ("/scopes", "bookings:read")];
        let link = twice(&browser, "/people/new", "/people/new", &typed).await.copied();
        let (_, link) = link.split_once("/console").unwrap();
        let ada = Browser::new(&server);
        ada.post(link, &[]).await.leads_to("");
        ada.page("/bookings").await;
        let sessions = acme.rows("/v1/console-sessions?limit=9").await;
        assert_eq!(sessions.len(), 2, "one link, and the session of this browser");
        let hers = sessions.iter().find(|session| session["person"] == "Ada").unwrap();
        assert_eq!(hers["scopes"], json!(["bookings:read"]));
        let end = format!("/people/{}/end", hers.text("consoleSessionId"));
        let people = browser.page("/keys").await;
        people.says(&[r#"aria-label="End: Ada""#, r#"aria-label="End: With a key""#]);
        browser.fill("/keys", &end, &[]).await.leads_to("/keys");
        ada.get("/bookings").await.leads_to("/sign-in?to=%2Fbookings&after=end");
        let unopened = acme.post("/v1/console-links", &json!({"person": "Bob"})).await.ok(201);
        let end = format!("/people/{}/end", unopened.text("consoleSessionId"));
        browser.fill("/keys", &end, &[]).await.leads_to("/keys");
        let people = browser.page("/keys").await;
        people.says(&["Link ended"]).lacks(&["Link not used"]);
        // Each sign-in names its key, and one of them is that of this browser, which whoever ends it is told.
        let hint = all.iter().find(|key| key["apiKeyId"] == acme.key_id.as_str()).unwrap().text("hint");
        assert!(people.html.matches(&format!("(…{hint})</small>")).count() >= 2, "{}", people.html);
        assert_eq!(people.html.matches("This is you").count(), 1);
        server.advance(1);
        let second = Browser::signed_in(&server, &acme.key).await;
        let sessions = acme.rows("/v1/console-sessions?limit=9").await;
        let newest = sessions[0].text("consoleSessionId");
        let ended = second.fill("/keys", &format!("/people/{newest}/end"), &[]).await;
        ended.leads_to("/sign-in?after=self");
        assert_eq!(second.cookie(), None);
        second.page("/sign-in?after=self").await.says(&["You ended this session."]);

        // An invalid id opens no page: its form would post to wherever the id says.
        for id in ["..%2F..%2Fconsole%2Fsign-out%3F", "x", "%22%3E%3Ci%3E"] {
            for page in ["rotate", "revoke"] {
                browser.get(&format!("/keys/{id}/{page}")).await.is(404);
            }
        }
        // Whoever revokes the key they signed in with is signed out.
        let own = format!("/keys/{}/revoke", acme.key_id);
        let second = acme.new_key(&json!({"name": "second"})).await;
        let revoked = browser.fill(&own, "/revoke", &[]).await;
        revoked.is(303);
        browser.get("/keys").await.is(303);
        let audit = acme.with_key(second.text("apiKey")).rows("/v1/audit?limit=100").await;
        assert!(audit.iter().any(|record| record["action"] == "revokeApiKey" && record["actor"]["name"] == Value::Null));
    })
    .await;
}
