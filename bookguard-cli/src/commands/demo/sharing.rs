//! A link to the evidence, as its visitors get it: programs that only follow links, people, and everybody once it is revoked.

use bookguard_core::evidence;
use bookguard_core::features::shares::{CreateShare, ListShares, RevokeShare};
use reqwest::header::ACCEPT;
use reqwest::{RequestBuilder, StatusCode};
use serde_json::{Value, json};

use super::{DemoBooking, ORGANIZER, TALENT, call};
use crate::failure::Failure;
use crate::http;

/// Makes a link that withholds the organizer, visits it without an account, and revokes it.
pub(super) async fn share(demo: &mut DemoBooking<'_>, key: &str) -> Result<(), Failure> {
    let body = json!({ "withhold": ["organizer"], "note": "Claims desk of the bank" });
    let share = demo.ask::<CreateShare>(body).await?;
    demo.step.done(
        "Evidence shared by a link, without the organizer",
        &format!("{}\nworks until {}", share.url, share.expires_at),
    )?;

    let client = http::client(true, |client| client)?;
    let (_, cover) = visit(client.get(&share.url)).await?;
    let (_, page) = visit(client.post(&share.url)).await?;
    let packet = client.get(&share.url).header(ACCEPT, http::JSON);
    let (_, packet) = visit(packet).await?;
    let report = evidence::verify(packet.as_bytes(), key);
    let listed = demo.ask::<ListShares>(Value::Null).await?;
    let views = listed.data.first().map(|share| share.views);
    let verified = report.verified();
    for (holds, what) in [
        (
            names(&cover) == [false, false],
            "the link's first page names nobody",
        ),
        (
            names(&page) == [true, false],
            "the page names the talent, not the organizer",
        ),
        (
            names(&packet) == [true, false],
            "the packet names the talent, not the organizer",
        ),
        (verified, "the packet with a value withheld verifies"),
        (views == Some(2), "both views were recorded"),
    ] {
        expected(holds, what)?;
    }
    demo.step.done(
        "A visitor opens the link, without an account",
        &format!(
            "what follows the link sees a page that names nobody\n\
             who presses its button sees the evidence: {} bytes, with the talent, without the organizer\n\
             programs get the packet: all {} checks pass, and {ORGANIZER} is not in it\n\
             the partner sees 2 views",
            page.len(),
            report.checks.len()
        ),
    )?;

    let share_id = share.share_id.to_string();
    call::<RevokeShare>(&demo.remote, &[&demo.booking, &share_id], Value::Null).await?;
    let (status, _) = visit(client.post(&share.url)).await?;
    expected(
        status == StatusCode::NOT_FOUND,
        "a revoked link shows nothing",
    )?;
    demo.step
        .done("Link revoked: it shows nothing any more", &share_id)
}

/// Whether the text names the talent and the organizer.
fn names(text: &str) -> [bool; 2] {
    [TALENT, ORGANIZER].map(|name| text.contains(name))
}

fn expected(holds: bool, what: &str) -> Result<(), Failure> {
    match holds {
        true => Ok(()),
        false => Err(Failure::Unexpected(format!(
            "this should be so, and is not: {what}"
        ))),
    }
}

async fn visit(request: RequestBuilder) -> Result<(StatusCode, String), Failure> {
    let unread = |e: reqwest::Error| {
        Failure::Unreachable(format!("the link cannot be opened: {}", http::cause(&e)))
    };
    let response = request.send().await.map_err(unread)?;
    let status = response.status();
    Ok((status, response.text().await.map_err(unread)?))
}
