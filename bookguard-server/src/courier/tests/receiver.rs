//! The receiver of a partner's webhooks, on this machine.

use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Mutex, Notify, mpsc};
use tokio::time::timeout;

/// Longer than anything here takes; reached only by a failing test.
pub(super) const PATIENCE: Duration = Duration::from_secs(30);

/// What a receiver does with a request.
#[derive(Clone)]
pub(super) enum Reply {
    /// Answers with this status.
    Status(u16),
    /// Never answers.
    Hang,
    /// Answers 200 once it is told to.
    Wait(Arc<Notify>),
}

/// A request that was received.
#[derive(Debug)]
pub(super) struct Hit {
    head: String,
    pub body: String,
}

impl Hit {
    pub(super) fn header(&self, name: &str) -> &str {
        let mut lines = self.head.lines().filter_map(|line| line.split_once(": "));
        lines.find(|(found, _)| *found == name).unwrap().1
    }

    pub(super) fn event_id(&self) -> String {
        let body: serde_json::Value = serde_json::from_str(&self.body).unwrap();
        body["eventId"].as_str().unwrap().to_owned()
    }
}

pub(super) struct Receiver {
    pub url: String,
    hits: Mutex<mpsc::UnboundedReceiver<Hit>>,
}

impl Receiver {
    /// Starts a receiver that gives one reply after the other, and repeats the last.
    pub(super) async fn start(replies: &[Reply]) -> Receiver {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/", listener.local_addr().unwrap());
        let (sender, hits) = mpsc::unbounded_channel();
        let mut replies = replies.to_vec();
        replies.reverse();
        let replies = Arc::new(std::sync::Mutex::new(replies));
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve(stream, Arc::clone(&replies), sender.clone()));
            }
        });
        Receiver {
            url,
            hits: Mutex::new(hits),
        }
    }

    /// Waits for the next request.
    pub(super) async fn hit(&self) -> Hit {
        let mut hits = self.hits.lock().await;
        let hit = timeout(PATIENCE, hits.recv()).await;
        hit.expect("a request was due").unwrap()
    }

    /// Counts the requests that arrived without being waited for.
    pub(super) async fn surplus(&self) -> usize {
        let mut hits = self.hits.lock().await;
        std::iter::from_fn(|| hits.try_recv().ok()).count()
    }
}

async fn serve(
    mut stream: TcpStream,
    replies: Arc<std::sync::Mutex<Vec<Reply>>>,
    hits: mpsc::UnboundedSender<Hit>,
) {
    while let Some(hit) = read(&mut stream).await {
        let reply = {
            let mut replies = replies.lock().unwrap();
            match replies.len() {
                1 => replies[0].clone(),
                _ => replies.pop().unwrap(),
            }
        };
        let _ = hits.send(hit);
        let status = match reply {
            Reply::Status(status) => status,
            Reply::Hang => return std::future::pending().await,
            Reply::Wait(told) => {
                told.notified().await;
                200
            }
        };
        let answer = format!("HTTP/1.1 {status} X\r\ncontent-length: 0\r\n\r\n");
        if stream.write_all(answer.as_bytes()).await.is_err() {
            return;
        }
    }
}

async fn read(stream: &mut TcpStream) -> Option<Hit> {
    let mut text = String::new();
    let mut buffer = [0; 4096];
    loop {
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let length = head
                .lines()
                .find_map(|line| line.strip_prefix("content-length: "))
                .unwrap();
            if body.len() == length.parse::<usize>().unwrap() {
                return Some(Hit {
                    head: head.to_owned(),
                    body: body.to_owned(),
                });
            }
        }
        match stream.read(&mut buffer).await {
            Ok(count) if count > 0 => text.push_str(std::str::from_utf8(&buffer[..count]).unwrap()),
            _ => return None,
        }
    }
}
