//! Sends what is read from the store a part at a time, so that a slow client costs no more memory than one part.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bookguard_core::error::Error;
use bookguard_core::features::items::files::{files_of_booking, part_of};
use bookguard_core::limits::FILE_PART_BYTES;
use bookguard_core::model::BookingId;
use bookguard_core::operation::FileAnswer;
use bookguard_core::session::Session;
use bookguard_render::Segment;
use futures_core::Stream;
use poem::http::header::{
    CONTENT_DISPOSITION, CONTENT_LENGTH, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderMap,
    HeaderValue, X_CONTENT_TYPE_OPTIONS,
};
use poem::{Body, Response};
use tokio::sync::mpsc;

use super::forms::make_archive;
use crate::answers::InMemory;
use crate::app::{App, RequestCost};
use crate::media::ZIP;
use crate::readers::ReadClass;

/// What a browser may do with a file that is opened all the same: nothing.
const POLICY: &str = "sandbox; default-src 'none'";

/// Parts of a file that are in memory at a time: the end of one and the beginning of the next that are sent, one that waits, and one that
/// was read.
const PARTS_HELD: usize = 4;

/// Who reads, and at whose cost.
pub(crate) struct Download {
    pub(crate) app: Arc<App>,
    pub(crate) session: Session,
    pub(crate) cost: Arc<RequestCost>,
}

impl Download {
    /// Makes a response the file's: to be saved, and never to be run.
    pub(crate) fn file(self, answer: FileAnswer, response: &mut Response) {
        let FileAnswer { name, file } = answer;
        let media_type = file.media_type.name();
        attached(response.headers_mut(), media_type, &name, file.size);
        self.send_as(vec![Segment::File(file)], response);
    }

    /// Makes a response with a packet the archive of it.
    pub(crate) async fn archive(
        self,
        booking_id: BookingId,
        json: Vec<u8>,
        response: &mut Response,
    ) -> Result<(), Error> {
        let session = self.session.clone();
        let app = Arc::clone(&self.app);
        let make = move || {
            let files = files_of_booking(&session, &booking_id)?;
            make_archive(&json, &files, &app.maker)
        };
        let made = self.app.read(&self.cost, ReadClass::Long, make).await;
        let (pieces, length) = made?;
        let name = format!("{booking_id}.zip");
        attached(response.headers_mut(), ZIP, &name, length);
        self.send_as(pieces, response);
        Ok(())
    }

    /// Makes these segments the body of a response. It breaks off if one cannot be read, which the client notices by the length.
    fn send_as(self, pieces: Vec<Segment>, response: &mut Response) {
        let held = pieces.iter().map(|piece| match piece {
            Segment::Bytes(bytes) => bytes.len(),
            Segment::File(_) => 0,
        });
        let held = InMemory(held.sum::<usize>() + PARTS_HELD * FILE_PART_BYTES);
        response.extensions_mut().insert(held);
        let (sender, parts) = mpsc::channel(1);
        tokio::spawn(async move {
            // Fails if the client is gone.
            let _ = self.send(pieces, sender).await;
        });
        response.set_body(Body::from_bytes_stream(Parts(parts)));
    }

    async fn send(
        &self,
        pieces: Vec<Segment>,
        sender: mpsc::Sender<io::Result<Vec<u8>>>,
    ) -> Result<(), mpsc::error::SendError<io::Result<Vec<u8>>>> {
        for piece in pieces {
            let file = match piece {
                Segment::Bytes(bytes) => {
                    sender.send(Ok(bytes)).await?;
                    continue;
                }
                Segment::File(file) => file,
            };
            for number in 0..file.parts {
                let session = self.session.clone();
                let read = move || part_of(&session, &file, number);
                let part = self.app.read(&self.cost, ReadClass::Short, read).await;
                if let Err(error) = &part {
                    tracing::error!("a file could not be sent: {}", error.message);
                }
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
