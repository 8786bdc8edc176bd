// Lets the verifier of Sigstore's client judge proofs and the checkpoints in them: sigstore.cjs FILE
const assert = require("node:assert/strict");
const { createPublicKey } = require("node:crypto");
const { readFileSync } = require("node:fs");
const { VerificationError } = require("@sigstore/verify");
const { verifyCheckpoint } = require("@sigstore/verify/dist/tlog/checkpoint.js");
const { verifyMerkleInclusion } = require("@sigstore/verify/dist/tlog/merkle.js");

const base64 = (text) => Buffer.from(text, "base64");

/** What Sigstore needs to know of a log, from its verifier key. */
function logOf(vkey) {
  const [, name, id, key] = vkey.match(/^([^+]+)\+([0-9a-f]{8})\+(.+)$/);
  const derPrefix = Buffer.from("302a300506032b6570032100", "hex"); // Ed25519
  const der = Buffer.concat([derPrefix, base64(key).subarray(1)]);
  return { baseURL: name, logID: Buffer.from(id, "hex"), publicKey: createPublicKey({ key: der, format: "der", type: "spki" }) };
}

/** The proof of a leaf in Sigstore's terms. */
function entryOf(leaf, proof) {
  const end = proof.indexOf("\n\n");
  const [, index, ...hashes] = proof.slice(0, end).split("\n");
  const inclusionProof = {
    logIndex: index.replace("index ", ""),
    hashes: hashes.map(base64),
    checkpoint: { envelope: proof.slice(end + 2) },
  };
  return { canonicalizedBody: base64(leaf), inclusionProof };
}

function accepts({ vkey, leaf, proof }) {
  const entry = entryOf(leaf, proof);
  const log = logOf(vkey);
  try {
    verifyMerkleInclusion(entry, verifyCheckpoint(entry, [log]));
    return true;
  } catch (error) {
    if (error instanceof VerificationError) return false;
    throw error;
  }
}

const count = { true: 0, false: 0 };
for (const one of JSON.parse(readFileSync(process.argv[2], "utf8"))) {
  const genuine = one.change === null;
  assert.equal(accepts(one), genuine, `Sigstore is wrong, or we are: ${JSON.stringify(one)}`);
  count[genuine] += 1;
}
assert(count.true && count.false, "nothing was judged");
console.log(`sigstore: ${count.true} proofs accepted, ${count.false} changed ones refused`);
