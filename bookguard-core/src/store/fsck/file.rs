//! Checks stored files: each has the bytes that its name and its row say, and its partner's total counts it.

use sha2::{Digest as _, Sha256};

use super::Check;
use crate::model::FileState;
use crate::store::conn::{Row, StoreError, args};
use crate::store::files;

/// The files after an id, in pages.
pub(super) const FILES: &str =
    "SELECT id, size, media, crc, parts, at_ms, whole FROM file WHERE id > $1 ORDER BY id LIMIT $2";

impl Check<'_> {
    pub(super) fn files(&mut self) -> Result<(), StoreError> {
        self.each("SELECT COUNT(*) FROM file", FILES, Self::file)?;
        let parts = self.count("SELECT COUNT(*) FROM file_part")?;
        if parts != self.file_parts {
            let detail = format!(
                "it holds {parts} rows, of which {} belong to a file",
                self.file_parts
            );
            self.findings.add("file_part", "table file_part", detail);
        }
        Ok(())
    }

    fn file(&mut self, row: &Row) -> Result<(), StoreError> {
        let file = files::state(row)?;
        let partner_id = file.file_id.partner_id();
        let place = format!(
            "file sha256:{} of partner {partner_id}",
            hex::encode(file.file_id.digest())
        );
        let partners = self.conn.count(
            "SELECT COUNT(*) FROM partner WHERE id = $1",
            args![&partner_id],
        )?;
        let before = self.file_parts;
        let (size, crc, digest) = self.file_content(&file)?;
        let parts = self.file_parts - before;
        let mut notes = self.findings.of("file", place);
        if partners == 0 {
            notes.fault("there is no such partner");
        }
        if (row.int(6)? == 1) != file.is_whole() {
            notes.fault("it does not say whether all of its parts are stored");
        }
        if parts != u64::from(file.parts) {
            notes.fault(format!(
                "its row says {} parts; there are {parts}",
                file.parts
            ));
        }
        if !file.is_whole() {
            return Ok(());
        }
        if size != file.size {
            notes.fault(format!(
                "its row says {} bytes; there are {size}",
                file.size
            ));
        }
        if digest[..] != *file.file_id.digest() {
            notes.fault(format!(
                "its bytes have the digest sha256:{}; somebody changed them",
                hex::encode(digest)
            ));
        } else if crc != file.crc {
            notes.fault("its CRC-32 is not that of its bytes");
        }
        *self.file_bytes.entry(partner_id).or_default() += file.size;
        Ok(())
    }

    /// The size, the CRC-32 and the SHA-256 of the stored parts of a file, up to the first that is missing: its row may name billions.
    fn file_content(&mut self, file: &FileState) -> Result<(u64, u32, [u8; 32]), StoreError> {
        let (mut size, mut crc, mut digest) = (0, crc32fast::Hasher::new(), Sha256::new());
        for number in 0..file.parts {
            let args = args![file.file_id.as_bytes(), number];
            let Some(row) = self.conn.first(files::PART, args)? else {
                break;
            };
            let bytes = row.blob(0)?;
            self.file_parts += 1;
            size += bytes.len() as u64;
            crc.update(bytes);
            digest.update(bytes);
        }
        Ok((size, crc.finalize(), digest.finalize().into()))
    }
}
