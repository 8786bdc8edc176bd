//! `bookguard healthcheck`: asks a server whether it is ready, for containers and units that have no other program to do so.

use std::net::SocketAddr;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::timeout;

use super::declare::{Call, CliCommand, alone};
use crate::failure::Failure;
use crate::settings::{self, environment};
use crate::target::remote::Remote;

/// How long to wait for the answer.
const PATIENCE: Duration = Duration::from_secs(3);

pub(super) fn command() -> CliCommand {
    let about = "Ask a server (by default the one of this machine's settings) whether it is ready: exit code 0 or 1";
    alone("healthcheck", about, run)
}

async fn run(call: Call<'_>) -> Result<(), Failure> {
    let (url, server) = match settings::url(call.place, &environment)? {
        Some(url) => (url.clone(), Remote::new(&url, None)?),
        None => {
            let config = settings::config(call.place, None, &environment)?;
            let url = listening(&config.listen)?;
            (url.clone(), Remote::here(&url)?)
        }
    };
    let asked = timeout(PATIENCE, server.text("/readyz")).await;
    let asked = asked.unwrap_or_else(|_| {
        let seconds = PATIENCE.as_secs();
        Err(Failure::Unreachable(format!(
            "{url} did not answer within {seconds} s"
        )))
    });
    // A proxy's page, or another program at this address, may answer 200 too.
    let asked = asked.and_then(|said| match serde_json::from_str::<Value>(&said) {
        Ok(said) if said["status"] == "ready" => Ok(()),
        _ => Err(Failure::BadAnswer(format!(
            "{url} answered, but not as Bookguard does. Is the address right, or a proxy in between?"
        ))),
    });
    asked.map_err(|why| Failure::NotReady(Box::new(why)))?;
    let ready = json!({"status": "ready"});
    call.screen.said(&ready, |_| format!("{url} is ready"))
}

/// The URL of the server that listens as the settings say.
pub(super) fn listening(listen: &str) -> Result<String, Failure> {
    if listen.ends_with(":0") {
        return Err(Failure::Usage(format!(
            "the server's port is not known, because it listens on {listen}; give its address with --url"
        )));
    }
    Ok(match listen.parse::<SocketAddr>() {
        Ok(address) => bookguard_server::local_url(address),
        Err(_) => format!("http://{listen}"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_server_is_asked_where_it_listens() {
        for (listen, url) in [
            ("127.0.0.1:8080", "http://127.0.0.1:8080"),
            ("0.0.0.0:80", "http://127.0.0.1:80"),
            ("[::]:80", "http://[::1]:80"),
            ("10.0.0.1:80", "http://10.0.0.1:80"),
            ("localhost:80", "http://localhost:80"),
        ] {
            assert_eq!(listening(listen).unwrap(), url);
        }
        assert!(listening("127.0.0.1:0").is_err());
    }
}
