//! Sends what is read from the store a part at a time, so that a slow client costs no more memory than one part.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bookguard_core::features::items::files::part_of;
use bookguard_core::model::FileState;
use bookguard_core::operation::FileAnswer;
use bookguard_core::session::Session;
use futures_core::Stream;
use poem::http::header::{
    CONTENT_DISPOSITION, CONTENT_LENGTH, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderMap,
    HeaderValue, X_CONTENT_TYPE_OPTIONS,
};
use poem::{Body, Response};
use tokio::sync::mpsc;

use crate::app::{App, RequestCost};
use crate::readers::ReadClass;

/// What a browser may do with a file that is opened all the same: nothing.
const POLICY: &str = "sandbox; default-src 'none'";

/// Who reads, and at whose cost.
pub(super) struct Download {
    pub(super) app: Arc<App>,
    pub(super) session: Session,
    pub(super) cost: Arc<RequestCost>,
}

impl Download {
    /// Makes a response the file's: to be saved, and never to be run.
    pub(super) fn file(self, answer: FileAnswer, response: &mut Response) {
        let FileAnswer { name, file } = answer;
        let media_type = file.media_type.name();
        attached(response.headers_mut(), media_type, &name, file.size);
        response.set_body(self.body(vec![file]));
    }

    /// A body of these files. It breaks off if one cannot be read, which the client notices by the length.
    pub(super) fn body(self, files: Vec<FileState>) -> Body {
        let (sender, parts) = mpsc::channel(1);
        tokio::spawn(async move {
            // Fails if the client is gone.
            let _ = self.send(files, sender).await;
        });
        Body::from_bytes_stream(Parts(parts))
    }

    async fn send(
        &self,
        files: Vec<FileState>,
        sender: mpsc::Sender<io::Result<Vec<u8>>>,
    ) -> Result<(), mpsc::error::SendError<io::Result<Vec<u8>>>> {
        for file in files {
            for number in 0..file.parts {
                let session = self.session.clone();
                let read = move || part_of(&session, &file, number);
                let part = self.app.read(&self.cost, ReadClass::Short, read).await;
                let is_end = part.is_err();
                sender.send(part.map_err(io::Error::other)).await?;
                if is_end {
                    return Ok(());
                }
            }
        }
        Ok(())
    }
}

/// The headers of something to be saved under this name.
fn attached(headers: &mut HeaderMap, media_type: &'static str, name: &str, bytes: u64) {
    let disposition = HeaderValue::try_from(format!("attachment; filename=\"{name}\""));
    let disposition = disposition.expect("the names of files are letters, digits, _ and .");
    headers.insert(CONTENT_DISPOSITION, disposition);
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(media_type));
    headers.insert(CONTENT_LENGTH, HeaderValue::from(bytes));
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY));
}

struct Parts(mpsc::Receiver<io::Result<Vec<u8>>>);

impl Stream for Parts {
    type Item = io::Result<Vec<u8>>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.0.poll_recv(cx)
    }
}
