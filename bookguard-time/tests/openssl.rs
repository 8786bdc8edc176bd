//! `openssl ts` as the judge: it accepts what is accepted here, and what it makes is accepted.

#![allow(clippy::unwrap_used, missing_docs)]

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use bookguard_test_authority::{Authority, Chain, Kind, Shape};
use bookguard_time::{Request, Roots, verify};

/// 2026-06-01T12:00:00Z
const NOW: i64 = 1_780_315_200_000;
const TEXT: &str = "example.com/log\n73\nyHsvdMIzmwZfm6Wojl1vnxw0SY8EL74y6c6rqGO9FTM=\n";

/// Runs `openssl` with these words as its arguments.
fn openssl(folder: &Path, arguments: &str) -> Output {
    Command::new("openssl")
        .args(arguments.split_whitespace())
        .current_dir(folder)
        .output()
        .expect("openssl is not installed")
}

fn imprint() -> [u8; 32] {
    ring::digest::digest(&ring::digest::SHA256, TEXT.as_bytes())
        .as_ref()
        .try_into()
        .unwrap()
}

fn accepts(folder: &Path, kind: Kind, response: &[u8], at: i64) -> bool {
    fs::write(folder.join("response.tsr"), response).unwrap();
    let at = at / 1000;
    if kind != Kind::Pss {
        let verify =
            format!("ts -verify -in response.tsr -data text -CAfile root.pem -attime {at}");
        return openssl(folder, &verify).status.success();
    }
    // `openssl ts` reads no PSS. `openssl cms` checks all but what is stamped.
    let token = openssl(folder, "ts -reply -in response.tsr -token_out -out token");
    assert!(token.status.success());
    let verify =
        "cms -verify -binary -inform DER -in token -CAfile root.pem -purpose timestampsign";
    openssl(folder, &format!("{verify} -attime {at}"))
        .status
        .success()
}

fn folder(authority: &Authority) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("root.pem"), authority.root_pem()).unwrap();
    fs::write(folder.path().join("text"), TEXT).unwrap();
    folder
}

#[test]
fn openssl_agrees() {
    for kind in [
        Kind::P256,
        Kind::P384,
        Kind::Rsa,
        Kind::RsaSha512,
        Kind::Pss,
    ] {
        let chain = Chain {
            kind,
            ..Chain::default()
        };
        let authority = Authority::new(&chain);
        let folder = folder(&authority);
        let roots = Roots::from_pem(authority.root_pem().as_bytes()).unwrap();
        let request = Request::new(imprint(), [3; 8]);
        let right = authority.answer(&request.to_der(), NOW);
        let flipped = authority.shaped(
            &request.to_der(),
            NOW,
            &Shape {
                flip: true,
                ..Shape::default()
            },
        );
        for (response, at, good) in [
            (&right, NOW, true),
            (&right, chain.valid.1 + 1000, false),
            (&flipped, NOW, false),
        ] {
            assert_eq!(
                verify(response, &imprint(), &roots, at).is_ok(),
                good,
                "{kind:?}"
            );
            assert_eq!(accepts(folder.path(), kind, response, at), good, "{kind:?}");
        }
    }
}

#[test]
fn what_openssl_stamps_verifies() {
    for (kind, digest) in [
        (Kind::P256, "sha256"),
        (Kind::P384, "sha384"),
        (Kind::Rsa, "sha512"),
    ] {
        let authority = Authority::new(&Chain {
            kind,
            ..Chain::default()
        });
        let folder = folder(&authority);
        let [signer, issuer] = authority.chain_pem();
        let request = Request::new(imprint(), [3; 8]);
        let config = format!(
            "[tsa]\nserial = serial\nsigner_digest = {digest}\ndefault_policy = 1.2.3.4\ndigests = sha256\n\
             accuracy = secs:1\n"
        );
        for (name, bytes) in [
            ("signer.pem", signer.into_bytes()),
            ("issuer.pem", issuer.into_bytes()),
            ("key.pem", authority.key_pem().into_bytes()),
            ("request.tsq", request.to_der()),
            ("serial", b"01\n".to_vec()),
            ("config", config.into_bytes()),
        ] {
            fs::write(folder.path().join(name), bytes).unwrap();
        }
        let made = openssl(
            folder.path(),
            "ts -reply -config config -section tsa -queryfile request.tsq -signer signer.pem \
             -inkey key.pem -chain issuer.pem -out reply.tsr",
        );
        assert!(
            made.status.success(),
            "{}",
            String::from_utf8_lossy(&made.stderr)
        );
        let reply = fs::read(folder.path().join("reply.tsr")).unwrap();
        let roots = Roots::from_pem(authority.root_pem().as_bytes()).unwrap();
        // OpenSSL reads the system's clock, so the test does too.
        let now = std::time::SystemTime::now()
            .duration_since(std::time::UNIX_EPOCH)
            .unwrap();
        let now = i64::try_from(now.as_millis()).unwrap();
        let stamp = request
            .verify(&reply, &roots, now)
            .unwrap_or_else(|why| panic!("{kind:?}: {why}"));
        assert!((now - stamp.time).abs() < 60_000);
    }
}
