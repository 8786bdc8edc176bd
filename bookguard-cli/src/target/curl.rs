//! A request as a curl command that a shell can run.

use std::fmt::Write as _;

use reqwest::Request;
use reqwest::header::CONTENT_TYPE;

use crate::http;

/// The command. The key is what `key` expands to in a shell, and is sent in this header.
pub fn command(request: &Request, header: &str, key: &str) -> String {
    let mut command = "curl".to_owned();
    let url = request.url().as_str();
    // Otherwise curl takes them for a pattern of several addresses.
    if url.contains(['{', '}', '[', ']']) {
        command.push_str(" --globoff");
    }
    if request.method() != "GET" {
        let _ = write!(command, " -X {}", request.method());
    }
    let _ = write!(command, " {}", quoted(url));
    let _ = write!(command, " \\\n  -H \"{header}: {key}\"");
    for (name, value) in request.headers() {
        let header = format!("{name}: {}", String::from_utf8_lossy(value.as_bytes()));
        let _ = write!(command, " \\\n  -H {}", quoted(&header));
    }
    let is_json = request
        .headers()
        .get(CONTENT_TYPE)
        .is_some_and(|it| it == http::JSON);
    match request.body().map(|body| body.as_bytes()) {
        None => {}
        Some(Some(body)) if is_json => {
            let text = String::from_utf8_lossy(body);
            let _ = write!(command, " \\\n  --data-raw {}", quoted(&text));
        }
        Some(_) => command.push_str(" \\\n  --data-binary @FILE"),
    }
    command
}

/// The text as one word of a shell.
pub fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn a_shell_reads_every_word_as_it_was_meant() {
        let url = "http://h/v1/bookings?a=b%20c&d=%27&e={f,g}";
        let body = r#"{"name":"O'Hara $(id) `id` \\ \"x\"\n"}"#;
        let mut request = Request::new(reqwest::Method::POST, url.parse().unwrap());
        request
            .headers_mut()
            .insert(CONTENT_TYPE, "application/json".parse().unwrap());
        *request.body_mut() = Some(body.into());
        let script = command(&request, "x-api-key", "$KEY").replacen("curl", "printf '%s\\n'", 1);
        let said = Command::new("sh")
            .args(["-c", &script])
            .env("KEY", "bgk_x")
            .output()
            .unwrap();
        let words = String::from_utf8(said.stdout).unwrap();
        let words: Vec<&str> = words.lines().collect();
        assert_eq!(
            words,
            [
                "--globoff",
                "-X",
                "POST",
                url,
                "-H",
                "x-api-key: bgk_x",
                "-H",
                "content-type: application/json",
                "--data-raw",
                body,
            ]
        );
    }
}
