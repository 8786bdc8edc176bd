-- The head that a node saw published and this database lacks, in JSON: the database was put back. So every other node knows of the
-- loss too, whatever its own guard says, until it is accepted.
ALTER TABLE head ADD COLUMN lacking TEXT;
