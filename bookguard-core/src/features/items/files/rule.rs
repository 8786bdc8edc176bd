//! Files: which part may be stored next, and which files are deleted: those that their partner deletes, and those that were
//! never completed.
//!
//! Invariant: the stored parts of a file are its first ones, without a gap. So a file with all of them is whole, whoever
//! stored them and in how many attempts.

use crate::engine::batch::BatchState;
use crate::engine::change::Change;
use crate::engine::command::{Command, Decided};
use crate::engine::needs::Needs;
use crate::error::Error;
use crate::features::erasures::rule::refuse_if_held;
use crate::features::items::ItemWithFile;
use crate::features::items::files::{
    DeleteItemFile, FinishFile, ForgetFiles, ItemWithoutFile, StoreFilePart, without_file,
};
use crate::features::partners::rule::quota::admit_file;
use crate::limits::FILE_UNFINISHED_MS;
use crate::model::{FileState, Timestamp};

impl StoreFilePart {
    /// The file with this part, and the change if the part is new. Nothing is stored unless the item still names the file: its digest
    /// may have been erased while the file was sent.
    fn store(&self, batch: &BatchState, at: Timestamp) -> Decided<FileState> {
        let file_id = self.file.file_id;
        let (partner, state) = batch.booking_of(file_id.partner_id(), self.item.booking_id)?;
        let is_named = state.items.iter().any(|known| {
            let known = &known.fact;
            known.item_id == self.item.item_id && known.sha256 == self.item.sha256
        });
        if !is_named {
            return Err(without_file(
                &self.item,
                "Its values were erased at the same moment, and the file was not stored.",
            ));
        }
        // The store loads no erasures, so those that are known are of this batch, and the item is as it was before them.
        if !state.erasures.is_empty() {
            return Err(Error::unavailable(
                "Values of the booking were erased at the same moment. Send the file again.",
            ));
        }
        let known = batch.files.get(&file_id);
        let stored = known.map_or(0, |known| known.parts);
        let number = self.part.number;
        if let Some(known) = known.filter(|known| number < known.parts) {
            return Ok((Vec::new(), *known));
        }
        if number > stored {
            return Err(Error::unavailable(
                "The file was deleted meanwhile, or sent too slowly: its first parts are gone. Send it again.",
            ));
        }
        let file = FileState {
            parts: number + 1,
            at,
            ..self.file
        };
        // With its first part a file takes up all its room. The quota may have been lowered since then.
        if number == 0 {
            let arriving = batch.arriving.get(&file_id.partner_id());
            let arriving = arriving.copied().unwrap_or_default();
            admit_file(batch, partner, at, (file.size, arriving))?;
        } else if file.is_whole() {
            admit_file(batch, partner, at, (file.size, 0))?;
        }
        let part = self.part.clone();
        Ok((vec![Change::FilePartAdded { file, part }], file))
    }

    fn name_needs(&self, needs: &mut Needs) {
        needs.partners.push(self.file.file_id.partner_id());
        needs.files.push(self.file.file_id);
        needs.bookings.push(self.item.booking_id);
        needs.items.push(self.item.booking_id);
        if self.part.number == 0 {
            needs.arriving.push(self.file.file_id.partner_id());
        }
    }
}

impl Command for StoreFilePart {
    type Reply = ();

    fn needs(&self, needs: &mut Needs) {
        self.name_needs(needs);
    }

    /// Stores the part.
    ///
    /// # Errors
    /// `not_found`, `item_without_file`, `quota_exceeded`, and `unavailable` if a part before it is missing.
    fn decide(&self, batch: &BatchState, at: Timestamp) -> Decided<()> {
        self.store(batch, at).map(|(changes, _)| (changes, ()))
    }

    fn brings_new(&self) -> bool {
        true
    }
}

impl Command for FinishFile {
    type Reply = ItemWithFile;

    fn needs(&self, needs: &mut Needs) {
        self.last.name_needs(needs);
    }

    /// Stores the last part.
    ///
    /// # Errors
    /// As for any other part.
    fn decide(&self, batch: &BatchState, at: Timestamp) -> Decided<ItemWithFile> {
        let (changes, file) = self.last.store(batch, at)?;
        let reply = ItemWithFile {
            item: self.last.item.clone(),
            file: file.shown(),
        };
        Ok((changes, reply))
    }

    fn brings_new(&self) -> bool {
        true
    }
}

impl Command for DeleteItemFile {
    type Reply = ItemWithoutFile;

    fn needs(&self, needs: &mut Needs) {
        needs.partners.push(self.file_id.partner_id());
        needs.files.push(self.file_id);
        needs.held.push(self.booking_id);
        let partner_id = self.file_id.partner_id();
        self.elsewhere.name_needs(partner_id, needs);
    }

    /// Deletes the file, whole or not, if there is one. What it leaves of an upload under way starts from the first part.
    ///
    /// # Errors
    /// `legal_hold`, `booking_changed`.
    fn decide(&self, batch: &BatchState, _: Timestamp) -> Decided<ItemWithoutFile> {
        refuse_if_held(batch, &self.booking_id)?;
        let mut changes = Vec::new();
        if let Some(file) = batch.files.get(&self.file_id) {
            let of = (self.file_id.partner_id(), &self.booking_id);
            self.elsewhere.refuse_if_changed(batch, of)?;
            changes.push(Change::FileDeleted(*file));
        }
        Ok((changes, self.reply.clone()))
    }
}

impl Command for ForgetFiles {
    type Reply = ();

    fn needs(&self, needs: &mut Needs) {
        needs.unfinished_files = Some(needs.now.plus_ms(-FILE_UNFINISHED_MS));
    }

    fn decide(&self, batch: &BatchState, at: Timestamp) -> Decided<()> {
        let before = at.plus_ms(-FILE_UNFINISHED_MS);
        let files = batch.files.values();
        let unfinished = files.filter(|file| !file.is_whole() && file.at < before);
        let changes = unfinished.map(|file| Change::FileDeleted(*file));
        Ok((changes.collect(), ()))
    }
}

#[cfg(test)]
mod tests;
