//! The style sheet and the script. Their names hold a digest of their content, so that browsers keep them for good.

use std::sync::LazyLock;

use poem::endpoint::{BoxEndpoint, make_sync};
use poem::http::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderValue};
use poem::{EndpointExt as _, Response};
use sha2::{Digest as _, Sha256};

use super::PATH;

/// A file that pages load.
pub(super) struct Asset {
    name: String,
    media_type: &'static str,
    content: &'static str,
}

/// How the console looks.
pub(super) static STYLE: LazyLock<Asset> = LazyLock::new(|| {
    Asset::new(
        "css",
        "text/css; charset=utf-8",
        include_str!("assets/console.css"),
    )
});
/// The script that makes it handier.
pub(super) static SCRIPT: LazyLock<Asset> = LazyLock::new(|| {
    Asset::new(
        "js",
        "text/javascript; charset=utf-8",
        include_str!("assets/console.js"),
    )
});

pub(super) fn all() -> [&'static Asset; 2] {
    [&STYLE, &SCRIPT]
}

impl Asset {
    fn new(end: &str, media_type: &'static str, content: &'static str) -> Self {
        let digest = hex::encode(&Sha256::digest(content)[..6]);
        Self {
            name: format!("/console.{digest}.{end}"),
            media_type,
            content,
        }
    }

    /// Its address within the console.
    pub(super) fn address(&self) -> &str {
        &self.name
    }

    pub(super) fn path(&self) -> String {
        format!("{PATH}{}", self.name)
    }

    pub(super) fn endpoint(&'static self) -> BoxEndpoint<'static> {
        make_sync(move |_| {
            let mut response = Response::from(self.content);
            let headers = response.headers_mut();
            headers.insert(CONTENT_TYPE, HeaderValue::from_static(self.media_type));
            let forever = HeaderValue::from_static("public, max-age=31536000, immutable");
            headers.insert(CACHE_CONTROL, forever);
            response
        })
        .boxed()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn they_are_small_and_load_nothing() {
        for (asset, most) in [(&*STYLE, 12_000), (&*SCRIPT, 10_000)] {
            assert!(
                asset.content.len() <= most,
                "{}: {}",
                asset.name,
                asset.content.len()
            );
            for word in ["http", "url(", "import", "eval"] {
                assert!(!asset.content.contains(word), "{}: {word}", asset.name);
            }
        }
    }
}
