// Calls the Go of docs/webhooks.md: one case a line in, one verdict a line out.
package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"time"

	"example.com/hooks/receiver"
)

func verdict(ours bool) string {
	if ours {
		return "ours"
	}
	return "foreign"
}

func main() {
	for cases := json.NewDecoder(os.Stdin); cases.More(); {
		var one struct {
			Secret  string
			Headers map[string]string
			Body    []byte
		}
		if err := cases.Decode(&one); err != nil {
			panic(err)
		}
		header := http.Header{}
		for name, value := range one.Headers {
			header.Set(name, value)
		}
		standard := receiver.Verify(one.Secret, header, one.Body, time.Now()) == nil
		short := receiver.VerifyBody(one.Secret, header.Get("x-service-signature"), one.Body)
		fmt.Println(verdict(standard), verdict(short))
	}
}
