// Judges the notes and proofs of packets with the libraries of Go's checksum database (golang.org/x/mod/sumdb), which know
// nothing of us: go run packet.go KEYFILE PACKET...
package main

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"
)

type packet struct {
	Signature string
	Entries   []struct{ Leaf, Proof string }
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}

func hash(text string) (hash tlog.Hash) {
	bytes, err := base64.StdEncoding.DecodeString(text)
	must(err)
	copy(hash[:], bytes)
	return hash
}

func judge(file string, keys note.Verifiers) error {
	bytes, err := os.ReadFile(file)
	must(err)
	var packet packet
	must(json.Unmarshal(bytes, &packet))
	if _, err := note.Open([]byte(packet.Signature), keys); err != nil {
		return err
	}
	for _, entry := range packet.Entries {
		head, checkpoint, _ := strings.Cut(entry.Proof, "\n\n")
		signed, err := note.Open([]byte(checkpoint), keys)
		if err != nil {
			return err
		}
		log := strings.Split(signed.Text, "\n")
		size, err := strconv.ParseInt(log[1], 10, 64)
		must(err)
		lines := strings.Split(head, "\n")
		index, err := strconv.ParseInt(strings.TrimPrefix(lines[1], "index "), 10, 64)
		must(err)
		var path tlog.RecordProof
		for _, line := range lines[2:] {
			path = append(path, hash(line))
		}
		leaf, err := base64.StdEncoding.DecodeString(entry.Leaf)
		must(err)
		if err := tlog.CheckRecord(path, size, hash(log[2]), index, tlog.RecordHash(leaf)); err != nil {
			return err
		}
	}
	return nil
}

func main() {
	key, err := os.ReadFile(os.Args[1])
	must(err)
	verifier, err := note.NewVerifier(strings.TrimSpace(string(key)))
	must(err)
	for _, file := range os.Args[2:] {
		if err := judge(file, note.VerifierList(verifier)); err != nil {
			fmt.Println("refused")
		} else {
			fmt.Println("taken")
		}
	}
}
