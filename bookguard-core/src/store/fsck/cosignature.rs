//! Checks what is kept of witnesses. A cosignature proves itself; the row with a witness's state carries a code that only the
//! service can make.

use super::checked_row::{MISSPELLED, forged};
use super::{Check, PAGE, spelled};
use crate::ledger::Checkpoint;
use crate::ledger::cosignature::CosignerKey;
use crate::model::StoredCosignature;
use crate::store::conn::{Row, StoreError, args};
use crate::store::{cosignatures, head, tree};

impl Check<'_> {
    pub(super) fn witness(&mut self, row: &Row) -> Result<(), StoreError> {
        let (state, genuine) = cosignatures::document(row, self.seal)?;
        let place = |field: &str| format!("witness {} field {field}", state.url);
        if !genuine {
            let detail = forged("It counts for nothing; delete it");
            self.findings.add("witness", place("mac"), detail);
        }
        if !spelled(row, 1, &state) {
            self.findings.add("witness", place("body"), MISSPELLED);
        }
        Ok(())
    }

    pub(super) fn cosignatures(&mut self) -> Result<(), StoreError> {
        // Every witnessed checkpoint has entries, so every size is above 0.
        let (mut size, mut witness) = (0, Vec::new());
        loop {
            let args = args![size, witness.as_slice(), PAGE];
            let rows = self.conn.all(cosignatures::COSIGNATURES, args)?;
            let Some(last) = rows.last() else { break };
            for row in &rows {
                if let Err(why) = self.cosignature(row)? {
                    let id = hex::encode(row.blob(1)?);
                    let place = format!("cosignature {} {id}", row.int(0)?);
                    self.findings.add("cosignature", place, why);
                }
            }
            (size, witness) = (last.int(0)?, last.blob(1)?.to_vec());
        }
        let of_nothing = self.count("SELECT COUNT(*) FROM cosignature WHERE size < 1")?;
        if of_nothing > 0 {
            let detail = "a row is of a checkpoint without entries";
            self.findings
                .add("cosignature", "table cosignature", detail);
        }
        Ok(())
    }

    /// What is wrong with a cosignature, if anything.
    fn cosignature(&mut self, row: &Row) -> Result<Result<(), String>, StoreError> {
        let stored = match cosignatures::cosignature(row) {
            Ok(stored) => stored,
            Err(StoreError::Corrupt(why)) => return Ok(Err(why)),
            Err(error) => return Err(error),
        };
        let said = match self.opened(&stored, row.blob(1)?) {
            Ok(said) => said,
            Err(why) => return Ok(Err(why)),
        };
        let Some(head) = head(self.conn)?.filter(|head| head.origin == said.origin) else {
            return Ok(Ok(()));
        };
        if said.size > head.head.size {
            return Ok(Err(format!(
                "the ledger has only {} entries",
                head.head.size
            )));
        }
        let root = tree::root_at(self.conn, said.size)?;
        Ok(match root == said.root {
            true => Ok(()),
            false => Err("the entries give another root than was cosigned".to_owned()),
        })
    }

    /// The checkpoint of a row, if its columns agree and both the log and the witness have signed it.
    fn opened(&self, stored: &StoredCosignature, id: &[u8]) -> Result<Checkpoint, String> {
        let origin = stored.note.split('\n').next().unwrap_or_default();
        let signer = self.log.signer(origin)?;
        let said = Checkpoint::open(&stored.note, signer.verifier()).map_err(|e| e.to_string())?;
        let key: CosignerKey = stored.key.parse().map_err(|e| format!("{e}"))?;
        let (line, _) = key.line(&stored.note).map_err(|e| e.to_string())?;
        let alone = signer
            .verifier()
            .alone(&stored.note)
            .map_err(|e| e.to_string())?;
        if said.size != stored.size || stored.id()[..] != *id || alone + &line != stored.note {
            return Err(MISSPELLED.to_owned());
        }
        Ok(said)
    }
}
