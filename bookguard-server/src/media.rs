//! The media types that several modules name.

pub(crate) const JSON: &str = "application/json";
pub(crate) const PDF: &str = "application/pdf";
pub(crate) const ZIP: &str = "application/zip";
/// Bytes of any kind.
pub(crate) const BYTES: &str = "application/octet-stream";
/// A page, as clients ask for it. It is sent with its character set.
pub(crate) const HTML: &str = "text/html";
pub(crate) const SVG: &str = "image/svg+xml";
/// Plain text, as it is sent.
pub(crate) const TEXT: &str = "text/plain; charset=utf-8";
