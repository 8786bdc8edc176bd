//! The fonts that an operator adds: PDFs are set in them, their tags tell them, and one that cannot be used stops the start.

use std::path::PathBuf;
use std::process::Command;

use bookguard_core::limits::FONT_BYTES;
use bookguard_server::Server;
use bookguard_server::config::Config;
use bookguard_tests::caller::{Caller, Reply};
use bookguard_tests::engine::{Engine, TestDatabase};
use bookguard_tests::json::Members as _;
use bookguard_tests::program::bookguard;
use bookguard_tests::test_server::TestServer;
use serde_json::json;

fn font(name: &str) -> PathBuf {
    let folder = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../bookguard-render/tests/fonts"
    );
    PathBuf::from(folder).join(name)
}

/// The letters, digits and brackets of a PDF's text; `None` if no program here reads PDFs.
fn text(pdf: &[u8]) -> Option<String> {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("a.pdf");
    std::fs::write(&file, pdf).unwrap();
    let ran = match Command::new("pdftotext").arg(&file).arg("-").output() {
        Ok(ran) => ran,
        Err(error) => {
            let required = std::env::var("BOOKGUARD_TEST_LANGUAGES");
            assert_ne!(required.as_deref(), Ok("required"), "pdftotext: {error}");
            println!("pdftotext is not on this machine: what PDFs say is not known");
            return None;
        }
    };
    let said = String::from_utf8(ran.stdout).unwrap();
    let seen = |c: &char| c.is_alphanumeric() || "[]+".contains(*c);
    Some(said.chars().filter(seen).collect())
}

async fn pdf(caller: &Caller, path: &str, tag: &str) -> Reply {
    let request = caller
        .request("GET", path)
        .header("accept", "application/pdf");
    caller.send(request.header("if-none-match", tag)).await
}

#[tokio::test]
async fn pdfs_are_set_in_the_fonts_of_the_operator_and_their_tags_tell_which() {
    let (server, acme) = TestServer::with_partner(Engine::Sqlite).await;
    let booking = acme
        .book_with(json!({
            "talent": {"id": "t", "name": "張偉"}, "organizer": {"id": "o", "name": "عمر"},
        }))
        .await;
    let shares = format!("/v1/bookings/{booking}/shares");
    let share = acme.post(&shares, &json!({})).await.ok(201);
    let (_, token) = share.text("url").rsplit_once("/s/").unwrap();
    let evidence = format!("/v1/bookings/{booking}/evidence");
    let forms = [evidence.clone(), format!("{evidence}?form=archive")];
    let link = format!("/s/{token}");
    let mut database = server.close().await;
    let mut known = vec!["\"none\"".to_owned()];
    let (ideographs, codes) = (font("ideographs.ttc"), "[U+0639][U+0645][U+0631]");
    let both = vec![ideographs.clone(), font("arabic.ttf")];
    for (fonts, han, arabic) in [
        (vec![], "[U+5F35][U+5049]", codes),
        (vec![ideographs], "張偉", codes),
        (both, "張偉", "عمر"),
    ] {
        let is_set = |text: &str| {
            let both = text.contains(han) && text.contains(arabic);
            assert!(both, "{fonts:?}: {text}");
        };
        let configured = fonts.clone();
        let server = TestServer::on(database, |config| Config {
            pdf_fonts: configured,
            ..config
        })
        .await;
        let acme = acme.on(&server.running().url());
        for form in &forms {
            let made = pdf(&acme, form, &known.join(", ")).await;
            assert_eq!(made.status, 200, "what other fonts made is not current");
            let tag = made.header("etag").unwrap().to_owned();
            assert_eq!(pdf(&acme, form, &tag).await.status, 304);
            known.push(tag);
            let Some(text) = text(&made.body) else { return };
            is_set(&text);
        }
        let shown = pdf(&server.caller(), &link, "\"none\"").await;
        is_set(&text(&shown.body).unwrap());

        // In the archive, and on the command line, the same packet and fonts give the same bytes.
        let archive = pdf(&acme, &forms[1], "\"none\"").await.body;
        let zip = acme
            .request("GET", &evidence)
            .header("accept", "application/zip");
        let zip = acme.send(zip).await.body;
        let place = zip.windows(5).position(|bytes| bytes == b"%PDF-").unwrap();
        assert!(zip[place..].starts_with(&archive), "{fonts:?}");
        let folder = tempfile::tempdir().unwrap();
        let out = folder.path().join("a.pdf");
        let packet = acme.packet(&booking).await.body;
        let line = bookguard("evidence pdf - --form archive --out")
            .arg(&out)
            .input(packet);
        let line = fonts
            .iter()
            .fold(line, |line, font| line.arg("--pdf-font").arg(font));
        line.run().await.json();
        assert_eq!(std::fs::read(&out).unwrap(), archive, "{fonts:?}");

        // So does the archive of the database itself.
        database = server.close().await;
        let line = database.command(format!("evidence archive {booking}"));
        let names = fonts.iter().map(|font| font.to_str().unwrap());
        let names = names.collect::<Vec<_>>().join(",");
        let line = line.arg("--out").arg(&out);
        let line = line.env("BOOKGUARD_PDF_FONTS", names);
        line.run().await.json();
        let zip = std::fs::read(&out).unwrap();
        let place = zip.windows(5).position(|bytes| bytes == b"%PDF-").unwrap();
        is_set(&text(&zip[place..]).unwrap());
    }
    known.sort_unstable();
    known.dedup();
    assert_eq!(known.len(), 7, "{known:?}");
}

#[tokio::test]
async fn a_font_that_cannot_be_used_stops_the_start_and_is_named() {
    let database = TestDatabase::new(Engine::Sqlite);
    let text = database.folder().join("notes.ttf");
    std::fs::write(&text, "not a font").unwrap();
    // With the font before it, it is too large.
    let large = database.folder().join("large.ttf");
    std::fs::File::create(&large)
        .and_then(|file| file.set_len(FONT_BYTES))
        .unwrap();
    let folder = database.folder();
    let too_large = "is too large: all fonts together may have 128 MiB; name another";
    for (file, why) in [
        (folder.join("missing.ttf"), "cannot be read: No such file"),
        (folder.to_owned(), "cannot be read: Is a directory"),
        (text, "is not a TrueType or OpenType font; name another"),
        (large, too_large),
    ] {
        let started = Server::start(Config {
            listen: "127.0.0.1:0".to_owned(),
            pdf_fonts: vec![font("arabic.ttf"), file.clone()],
            ..Config::of(database.db().clone())
        });
        let Err(refused) = started.await else {
            panic!("{file:?} was taken")
        };
        let named = format!("the font file {}", file.display());
        let refused = refused.to_string();
        assert!(refused.starts_with(&format!("{named} {why}")), "{refused}");
        let line = bookguard("evidence pdf packet.json --pdf-font").arg(&file);
        line.run().await.refused(2, &[&named, "(--pdf-font)"]);
    }
    assert!(
        !database.file().exists(),
        "no database was made for nothing"
    );
}
