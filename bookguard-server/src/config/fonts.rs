//! What an operator adds to documents, read from its files and checked: the fonts of PDFs, and the authorities that are trusted.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::Path;

use bookguard_core::limits::FONT_BYTES;
use bookguard_render::{Fonts, Maker};

use super::Config;

impl Config {
    /// Reads what documents are made with.
    ///
    /// # Errors
    /// One sentence that names the file, the rule and what to do.
    pub fn maker(&self) -> Result<Maker, String> {
        Ok(Maker {
            fonts: self.fonts()?,
            roots: self.timestamp_roots()?,
        })
    }

    fn fonts(&self) -> Result<Fonts, String> {
        let mut fonts = Fonts::default();
        let mut left = FONT_BYTES;
        for path in &self.pdf_fonts {
            let wrong = |why: &str| {
                format!(
                    "the font file {} {why}; name another in pdf_fonts (--pdf-font), or leave it out",
                    path.display()
                )
            };
            let file = read(path, left).map_err(|e| wrong(&format!("cannot be read: {e}")))?;
            let rest = left.checked_sub(file.len() as u64);
            left = rest.ok_or_else(|| wrong(&too_large()))?;
            fonts = fonts.with(file).map_err(wrong)?;
        }
        Ok(fonts)
    }
}

fn too_large() -> String {
    let mib = FONT_BYTES / 1024 / 1024;
    format!("is too large: all fonts together may have {mib} MiB")
}

/// Reads a file, or so much of it that it is seen to hold more than `most` bytes.
fn read(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path)?.take(most + 1).read_to_end(&mut bytes)?;
    Ok(bytes)
}
