-- The heads that nodes saw published and this database lacks, the greatest of each log, as a JSON array: the database was put back. So
-- every other node knows of the losses too, whatever its own guard says, until they are accepted.
ALTER TABLE head ADD COLUMN lacking TEXT;
