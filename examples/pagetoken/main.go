// Command pagetoken makes a page token without a server: KEY_ID=1 API_KEY=cbk_... pagetoken
package main

import (
	"crypto/ed25519"
	"crypto/hkdf"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"log"
	"os"
	"time"
)

func main() {
	id, raw := json.Number(os.Getenv("KEY_ID")), []byte(os.Getenv("API_KEY"))
	seed, err := hkdf.Key(sha256.New, raw, nil, "canvasback page token", ed25519.SeedSize)
	if err != nil || id == "" || len(raw) == 0 {
		log.Fatal("KEY_ID and API_KEY must be those of a client key")
	}
	// "s" are the scopes of the token, and "x" its sources; both may be absent.
	payload, err := json.Marshal(map[string]any{"k": id, "e": time.Now().Add(time.Hour).Unix(), "s": []string{"symbols:read"}})
	if err != nil {
		log.Fatal(err)
	}
	signed := "cbt_" + base64.RawURLEncoding.EncodeToString(payload)
	signature := ed25519.Sign(ed25519.NewKeyFromSeed(seed), []byte(signed))
	fmt.Println(signed + "." + base64.RawURLEncoding.EncodeToString(signature))
}
